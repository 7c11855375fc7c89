// Vectorised exponentials of arguments <= 0, and logarithms.
#pragma once

#include <cstdint>
#include <cstring>

#include "simd/vec.h"

namespace VS_NS {

template <class T>
struct ExpConst;

template <>
struct ExpConst<double> {
    // exp(kLow) is the smallest value a finite score may take: normal, so that a product with a
    // message of ordinary size does not vanish.
    static constexpr double kLow = -690.0;  // 1e-300
    // The least argument whose exponential is a normal number for sure: 2.226e-308.
    static constexpr double kLeast = -708.396;
    static constexpr double kLog2e = 1.442695040888963407;
    static constexpr double kLn2Hi = 0.693147180369123816490;
    static constexpr double kLn2Lo = 1.908214929270587816e-10;
    static constexpr double kMostNegative = -1.7976931348623157e308;
};

template <>
struct ExpConst<float> {
    static constexpr float kLow = -86.0f;  // 4.5e-38
    static constexpr float kLog2e = 1.44269504f;
    static constexpr float kLn2Hi = 0.693115234375f;
    static constexpr float kLn2Lo = 3.19461849453e-5f;
    static constexpr float kMostNegative = -3.402823466e+38f;
};

// exp(r) = 1 + r + r^2 q(r) on |r| <= ln(2)/2, q interpolated at Chebyshev nodes:
// relative error 1.7e-17 (double, degree 11), below 2e-8 (float, degree 6).
VS_INLINE Vec<double> exp_poly(Vec<double> r) {
    using V = Vec<double>;
    V q = V::set1(2.5100424157005066788e-8);
    q = V::fma(q, r, V::set1(2.7620138719733995569e-7));
    q = V::fma(q, r, V::set1(2.7557268378684192873e-6));
    q = V::fma(q, r, V::set1(0.000024801521190217727651));
    q = V::fma(q, r, V::set1(0.00019841269863105968748));
    q = V::fma(q, r, V::set1(0.0013888888917281793308));
    q = V::fma(q, r, V::set1(0.0083333333333300513464));
    q = V::fma(q, r, V::set1(0.041666666666623991516));
    q = V::fma(q, r, V::set1(0.16666666666666667456));
    q = V::fma(q, r, V::set1(0.50000000000000010262));
    return V::fma(q, r * r, r) + V::set1(1.0);
}

VS_INLINE Vec<float> exp_poly(Vec<float> r) {
    using V = Vec<float>;
    V q = V::set1(0.00139262134663f);
    q = V::fma(q, r, V::set1(0.00836320297158f));
    q = V::fma(q, r, V::set1(0.0416665544377f));
    q = V::fma(q, r, V::set1(0.16666576846f));
    q = V::fma(q, r, V::set1(0.5f));
    return V::fma(q, r * r, r) + V::set1(1.0f);
}

// exp(x) for x <= 0; below `low`, kLow or kLeast, the value is held at exp(low).
template <class T>
VS_INLINE Vec<T> exp_from(Vec<T> low, Vec<T> x) {
    using V = Vec<T>;
    using C = ExpConst<T>;
    x = V::max(x, low);
    const V n = V::round(x * V::set1(C::kLog2e));
    V r = V::fma(n, V::set1(-C::kLn2Hi), x);
    r = V::fma(n, V::set1(-C::kLn2Lo), r);
    return V::scale2(exp_poly(r), n);
}

#if VS_LEVEL == VS_LEVEL_V4
template <>
VS_INLINE Vec<double> exp_from<double>(Vec<double> low, Vec<double> x) {
    return exp_table(Vec<double>::max(x, low));
}
#endif

template <class T>
VS_INLINE Vec<T> exp_floor(Vec<T> x) {
    return exp_from<T>(Vec<T>::set1(ExpConst<T>::kLow), x);
}

// exp(x) for x <= 0 as long as that is a normal number, then 0: a probability.
VS_INLINE Vec<double> exp_or_zero(Vec<double> x) {
    const Vec<double> least = Vec<double>::set1(ExpConst<double>::kLeast);
    return Vec<double>::where_ge(x, least, exp_from<double>(least, x));
}

// log((s + d) / (s - d)) for |d| <= s / 3: 2u + u^3 p(u^2), u = d / s; error of p 2.5e-18.
VS_INLINE Vec<double> log_ratio(Vec<double> d, Vec<double> s) {
    using V = Vec<double>;
    const V u = d / s, w = u * u;
    V p = V::set1(0.15630577800922850446);
    p = V::fma(p, w, V::set1(0.074921437955507673008));
    p = V::fma(p, w, V::set1(0.10845178394880014822));
    p = V::fma(p, w, V::set1(0.1173427906130319746));
    p = V::fma(p, w, V::set1(0.13335178631449255837));
    p = V::fma(p, w, V::set1(0.15384543964860549287));
    p = V::fma(p, w, V::set1(0.18181819897962714383));
    p = V::fma(p, w, V::set1(0.22222222198236770557));
    p = V::fma(p, w, V::set1(0.28571428571600099292));
    p = V::fma(p, w, V::set1(0.39999999999999522505));
    p = V::fma(p, w, V::set1(0.66666666666666666886));
    return V::fma(u * w, p, u + u);
}

// x = m 2^n of positive normal numbers, m from 3/4 to 3/2, so that n is 0 on both sides of 1: x
// becomes m, and power 2^52 + n + 1023.
VS_INLINE void split_normal(double* x, double* power) {
    uint64_t bits;
    std::memcpy(&bits, x, sizeof bits);
    const uint64_t half = (bits >> 51) & 1;
    const uint64_t n = ((bits >> 52) + half) | 0x4330000000000000u;
    bits = (bits & 0xFFFFFFFFFFFFFu) | (0x3FF0000000000000u - (half << 52));
    std::memcpy(x, &bits, sizeof bits);
    std::memcpy(power, &n, sizeof n);
}
VS_INLINE Vec<double> log_of_parts(Vec<double> m, Vec<double> power) {
    using V = Vec<double>;
    const V one = V::set1(1.0), n = power - V::set1(4503599627370496.0 + 1023.0);
    const V y = V::fma(n, V::set1(ExpConst<double>::kLn2Lo), log_ratio(m - one, m + one));
    return V::fma(n, V::set1(ExpConst<double>::kLn2Hi), y);
}

// Vectors of doubles in one of floats.
constexpr int kParts = Vec<float>::N / Vec<double>::N;

// p * 2**n, t = n + 1.5 * 2**52.
VS_INLINE Vec<float> scale_narrow(Vec<float> p, const Vec<double>* t) {
#if VS_LEVEL == VS_LEVEL_SCALAR || VS_LEVEL == VS_LEVEL_NEON
    Vec<double> n[kParts];
    for (int i = 0; i < kParts; ++i) n[i] = t[i] - Vec<double>::set1(6755399441055744.0);
    return Vec<float>::scale2(p, Vec<float>::narrow(n));
#else
    return Vec<float>::scale2(p, t);
#endif
}

// exp(x - shift) of scores in float64, rounded once: the argument is reduced before. Where x is
// finite it is held at exp(low) from below; -inf: 0, unless PLAIN, where there is none.
template <bool PLAIN>
VS_INLINE Vec<float> exp_narrow(const Vec<double>* x, const Vec<double>* shift, Vec<double> low) {
    using V = Vec<double>;
    const V magic = V::set1(6755399441055744.0);  // 1.5 * 2^52: adding it rounds to an integer
    V t[kParts], r[kParts], alive[kParts];
    for (int i = 0; i < kParts; ++i) {
        const V z = V::max(x[i] - shift[i], low);
        t[i] = V::fma(z, V::set1(ExpConst<double>::kLog2e), magic);
        r[i] = V::fma(t[i] - magic, V::set1(-0.693147180559945309417), z);
        alive[i] =
            PLAIN ? z : V::where_ge(x[i], V::set1(ExpConst<double>::kMostNegative), V::set1(1.0));
    }
    const Vec<float> e = scale_narrow(exp_poly(Vec<float>::narrow(r)), t);
    return PLAIN ? e : e * Vec<float>::narrow(alive);
}
template <bool PLAIN>
VS_INLINE Vec<float> exp_narrow(const Vec<double>* x, Vec<double> shift, Vec<double> low) {
    Vec<double> all[kParts];
    for (int i = 0; i < kParts; ++i) all[i] = shift;
    return exp_narrow<PLAIN>(x, all, low);
}

// exp(x - shift) where x is finite (held at exp(kLow) from below), 0 where x is -inf.
template <class T>
VS_INLINE Vec<T> exp_shifted(Vec<T> x, Vec<T> shift) {
    return Vec<T>::where_ge(x, Vec<T>::set1(ExpConst<T>::kMostNegative), exp_floor<T>(x - shift));
}

}  // namespace VS_NS
