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
    static VS_INLINE T more(T a, T b, T c) { return plus(a + b, c); }
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
