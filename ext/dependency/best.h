// Maxima of scores in vectors of the level.
#pragma once

#include <cmath>
#include <cstdint>

#include "simd/each.h"
#include "simd/vec.h"
#include "dependency/serial.h"

namespace VS_NS {

// (max, +) of scores, -inf for what is impossible.
struct MaxPlus : Serial<MaxPlus, double> {
    using T = double;
    using V = Vec<double>;
    static constexpr int64_t kDoubles = 1;
    static T zero() { return -INFINITY; }
    static T one() { return 0.0; }
    static T times(T a, T b) { return a + b; }
    static T plus(T a, T b) { return a > b ? a : b; }
    static T over(T a, T b) { return a - b; }
    static double as_double(T a) { return a; }
    static double log_over(T a, T b) {
        return a > -INFINITY ? a - b : b > -INFINITY ? -INFINITY : 0.0;
    }
    static VS_INLINE T dot(const T* x, const T* y, int64_t n) {
        V s = V::set1(-INFINITY);
        int64_t i = 0;
        for (; i + V::N <= n; i += V::N) s = V::max(s, V::load(x + i) + V::load(y + i));
        if (i < n) {
            const int m = static_cast<int>(n - i);
            s = V::max(s, V::load_part(x + i, m, -INFINITY) + V::load_part(y + i, m, -INFINITY));
        }
        return s.hmax();
    }
    template <bool kNew>
    static VS_INLINE void diagonal(const T* x, int64_t dx, const T* y, int64_t dy, int64_t count,
                                   T* out, int64_t) {
        constexpr int K = 8 / V::N;
        V s[K];
        each<K>([&](auto v) VS_INLINE_LAMBDA {
            s[v] = kNew ? V::set1(-INFINITY) : V::load(out + v * V::N);
        });
        for (int64_t k = 0; k < count; ++k, x += dx, y += dy) {
            each<K>([&](auto v) VS_INLINE_LAMBDA {
                s[v] = V::max(s[v], V::load(x + v * V::N) + V::load(y + v * V::N));
            });
        }
        each<K>([&](auto v) VS_INLINE_LAMBDA { s[v].store(out + v * V::N); });
    }
    static VS_INLINE void add_rows(const T* c, const T* x, int64_t stride, int64_t rows, T* y,
                                   int64_t n) {
        int64_t i = 0;
        for (; i < n; i += V::N) {
            const int64_t left = n - i;
            const int m = left < V::N ? static_cast<int>(left) : V::N;
            V s = V::load_part(y + i, m, -INFINITY);
            for (int64_t j = 0; j < rows; ++j) {
                s = V::max(s, V::set1(c[j]) + V::load_part(x + j * stride + i, m, -INFINITY));
            }
            s.store_part(y + i, m);
        }
    }
};

}  // namespace VS_NS
