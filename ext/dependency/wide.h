// Numbers with exponents of their own: positive, m 2^e epsilon^order. No product of them
// underflows. epsilon is smaller than any power of 2: of a sum only the lowest order is left. Arcs
// of the root have it where exactly one of them is allowed, so that trees with more of them count
// for nothing.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "core/ln2.h"
#include "dependency/serial.h"
#include "dependency/trees.h"

namespace VS_NS {

struct WideNumber {
    double m = 0.0;  // in [0.5, 1), or 0
    int64_t e = 0, order = 0;
};

VS_INLINE double power_of_two(int64_t e) {  // a normal one
    const uint64_t bits = static_cast<uint64_t>(e + 1023) << 52;
    double x;
    std::memcpy(&x, &bits, sizeof x);
    return x;
}

struct WideSums : Serial<WideSums, WideNumber> {
    using T = WideNumber;
    static constexpr int64_t kDoubles = sizeof(T) / sizeof(double);
    static constexpr double kRange = INFINITY;
    static constexpr bool kOrders = true;
    static void begin() {}
    static bool doubtful() { return false; }
    static bool out_of_range(T) { return false; }
    static bool too_small(T, int64_t) { return false; }
    static bool vanished(T, T) { return false; }
    static void exp_row(const double* x, double shift, T* w, int64_t n) {
        for (int64_t i = 0; i < n; ++i) w[i] = exp(x[i] - shift);
    }
    static T zero() { return {}; }
    static T epsilon(T a) { return {a.m, a.e, a.m == 0.0 ? 0 : 1}; }
    static T one() { return {0.5, 1, 0}; }
    static bool is_zero(T a) { return a.m == 0.0; }
    static T normal(double m, int64_t e, int64_t order) {
        if (m == 0.0) return {};
        if (m >= 1.0) return {0.5 * m, e + 1, order};
        if (m < 0.5) return {2.0 * m, e - 1, order};
        return {m, e, order};
    }
    static T times(T a, T b) { return normal(a.m * b.m, a.e + b.e, a.order + b.order); }
    static T over(T a, T b) { return normal(a.m / b.m, a.e - b.e, a.order - b.order); }
    static T plus(T a, T b) {
        if (b.m == 0.0) return a;
        if (a.m == 0.0) return b;
        if (a.order != b.order) return a.order < b.order ? a : b;
        if (a.e < b.e) return plus(b, a);
        if (a.e - b.e > 60) return a;
        return normal(a.m + b.m * power_of_two(b.e - a.e), a.e, a.order);
    }
    // c + a b
    static T more(T a, T b, T c) { return is_zero(a) ? c : plus(c, times(a, b)); }
    static double log(T a) {
        return a.m == 0.0 ? -INFINITY : std::log(a.m) + static_cast<double>(a.e) * vs::kLn2;
    }
    // -inf unless it has this order: trees with more arcs of the root.
    static double log_product(const T* x, int64_t n, int64_t order) {
        T p = one();
        for (int64_t i = 0; i < n; ++i) p = times(p, x[i]);
        return p.order == order ? log(p) : -INFINITY;
    }
    static void weights(const vs::dependency::Sentence& s, const double* shift, T* weight,
                        int64_t ld) {
        for (int64_t h = 0; h <= s.n; ++h) {
            T* w = weight + h * ld;
            for (int64_t m = 0; m <= s.n; ++m) {
                const bool none = m == 0 || m == h;
                w[m] = none ? zero() : exp(s.scores[h * (s.n + 1) + m] - shift[m]);
            }
        }
    }
    static double log_over(T a, T b) {
        if (a.m == 0.0) return b.m == 0.0 ? 0.0 : -INFINITY;
        if (b.m == 0.0) return INFINITY;
        if (a.order != b.order) return a.order < b.order ? INFINITY : -INFINITY;
        return std::log(a.m / b.m) + static_cast<double>(a.e - b.e) * vs::kLn2;
    }
    static double as_double(T a) {  // of what is at most a little above 1
        if (a.m == 0.0 || a.order > 0 || a.e < -1080) return 0.0;
        return std::ldexp(a.m, static_cast<int>(a.e < 8 ? a.e : 8));
    }
    static T exp(double x) {
        if (x == -INFINITY) return {};
        const double k = std::nearbyint(x * vs::kLog2e);
        const double r = (x - k * vs::kLn2High) - k * vs::kLn2Low;
        return normal(0.5 * std::exp(r), static_cast<int64_t>(k) + 1, 0);
    }
};

}  // namespace VS_NS
