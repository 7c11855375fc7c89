// Sums and products of non-negative numbers of any size.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>

#include "core/ln2.h"
#include "core/powers.h"

namespace vs {

// A non-negative number of any size: m * 2^e with m in [1, 2), or 0. For what spans more than a
// double can hold. Exponents keep within the range of their type: see kLargestSum.
struct Wide {
    double m = 0.0;
    int64_t e = 0;
};

// The verbs of an algebra: junction/algebra.h says which.
struct LinearWide {
    using T = Wide;
    static constexpr bool kChecked = false;
    static constexpr int64_t kBias = 1023;  // of the exponent of a double
    static T zero() { return {}; }
    static T one() { return {1.0, 0}; }
    static bool is_zero(T x) { return x.m == 0.0; }
    // m: finite, not negative.
    static T normal(double m, int64_t e) {
        if (m == 0.0) return {0.0, 0};
        uint64_t bits;
        std::memcpy(&bits, &m, sizeof m);
        const int64_t shift = static_cast<int64_t>(bits >> 52) - kBias;
        if (shift == -kBias) {  // below the normal range
            int by;
            const double f = std::frexp(m, &by);  // f in [0.5, 1)
            return {2.0 * f, e + by - 1};
        }
        bits -= static_cast<uint64_t>(shift) << 52;
        std::memcpy(&m, &bits, sizeof m);
        return {m, e + shift};
    }
    // As normal(), for m in [1, 4), without a branch: whether m is 2 or more is hard to predict.
    VS_INLINE static T carried(double m, int64_t e) {
        uint64_t bits;
        std::memcpy(&bits, &m, sizeof m);
        const uint64_t carry = (bits >> 52) - static_cast<uint64_t>(kBias);
        bits -= carry << 52;
        std::memcpy(&m, &bits, sizeof m);
        return {m, e + static_cast<int64_t>(carry)};
    }
    VS_INLINE static T mul(T a, T b) {
        const double m = a.m * b.m;
        return m == 0.0 ? Wide{} : carried(m, a.e + b.e);
    }
    VS_INLINE static T add(T a, T b) {
        if (a.m == 0.0) return b;
        if (b.m == 0.0) return a;
        if (a.e < b.e) std::swap(a, b);
        const int64_t gap = a.e - b.e;
        if (gap > 80) return a;
        const uint64_t bits = static_cast<uint64_t>(kBias - gap) << 52;
        double power;  // 2^-gap
        std::memcpy(&power, &bits, sizeof power);
        return carried(a.m + b.m * power, a.e);
    }
    static bool less(T a, T b) {
        if (a.m == 0.0 || b.m == 0.0) return a.m == 0.0 && b.m > 0.0;
        return a.e != b.e ? a.e < b.e : a.m < b.m;
    }
    static T ratio(T a, T b) {
        if (!(b.m > 0.0) || a.m == 0.0) return {};
        const double m = a.m / b.m;  // in (0.5, 2)
        const bool under = m < 1.0;
        return {under ? 2.0 * m : m, a.e - b.e - int64_t{under}};
    }
    static T from_log(double x) {
        if (x == -INFINITY) return {};
        int64_t e;
        const double m = VS_NS::power_of(x, &e);
        return normal(m, e);
    }
    static double log_of(T x) {
        return x.m > 0.0 ? std::log(x.m) + kLn2 * static_cast<double>(x.e) : -INFINITY;
    }
    static double share(T x, T total) {
        const Wide r = ratio(x, total);
        if (r.e < -1070) return 0.0;
        // A sum is at least as large as what was added to it, to the last bit: r.e <= 0.
        return std::ldexp(r.m, static_cast<int>(r.e < 0 ? r.e : 0));
    }
    static double scale(T* x, int64_t n, T top) {
        for (int64_t i = 0; i < n; ++i) {
            if (x[i].m > 0.0) x[i].e -= top.e;
        }
        return static_cast<double>(top.e);
    }
    static double tail(T top) {
        return static_cast<double>(top.e - static_cast<int64_t>(static_cast<double>(top.e)));
    }
};

}  // namespace vs
