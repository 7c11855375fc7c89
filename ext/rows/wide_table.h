// Messages of numbers that are far apart, in linear arithmetic: each number is m 2^e, and
//
//   2^E(k) y(k) = sum_l m(l) M(l, k) 2^(e(l) + N(l, k) - E(k)),   E(k) = max_l e(l) + N(l, k),
//
// M 2^N the exponentials of a table, made once. What goes in and what comes out are logarithms: a
// message takes K of them, and K exponentials, in place of K^2.
#pragma once

#include "rows/rows.h"
#include "rows/tile.h"
#include "simd/each.h"
#include "simd/math.h"

namespace VS_NS {

// Exponents are whole numbers in doubles. A number that is 0 has kNoExponent, far below all.
constexpr double kNoExponent = -1e300;

// exp(x) = m 2^e. Where x is so large that it has no fraction, m is 1.
VS_INLINE void split_exp(Vec<double> x, Vec<double>* m, Vec<double>* e) {
    using V = Vec<double>;
    using C = ExpConst<double>;
    const V alive = V::set1(C::kMostNegative), one = V::set1(1.0), log2e = V::set1(C::kLog2e);
    const V z = V::where_ge(x, alive, x);
    const V first = V::round(z * log2e);
    V r = V::fma(first, V::set1(-C::kLn2), z);
    r = V::fma(first, V::set1(-C::kLn2Rest), r);
    const V more = V::round(r * log2e);  // of a product that was rounded
    r = V::fma(more, V::set1(-C::kLn2), r);
    r = V::where_ge(r, V::set1(-1.0), V::where_ge(one, r, r));
    *m = V::where_ge(x, alive, exp_poly(r));
    *e = V::where_ge(x, alive, first + more) +
         V::where_ge(V::set1(-INFINITY), x, V::set1(kNoExponent));
}

// log(x) + e ln 2 for x >= 0 that are normal numbers or 0. x = 2^q (1 + f), 1 + f within a factor
// of sqrt 2 of 1, s = f / (2 + f): log(1 + f) = 2 s + s^3 (2/3 + 2/5 s^2 + ...), the series fitted
// with an error below 2^-58. Exact where x is 1.
VS_INLINE Vec<double> log_wide(Vec<double> x, Vec<double> e) {
    using V = Vec<double>;
    const V one = V::set1(1.0), half = V::set1(0.5), zero = V::set1(0.0);
    const V at = V::max(x, V::set1(1e-300)), by = at.over_power(), u = at * by;
    const V high = V::where_ge(u, V::set1(1.4142135623730951), one);
    double q[V::N];
    by.store(q);
    for (double& n : q) n = static_cast<double>(-exponent_of(n));
    const V f = V::fma(high * half, zero - u, u) - one;
    const V s = f / (f + one + one), z = s * s, square = half * f * f;
    V p = V::set1(0.1479819860511658591);
    p = V::fma(p, z, V::set1(0.1531383769920937332));
    p = V::fma(p, z, V::set1(0.1818357216161805012));
    p = V::fma(p, z, V::set1(0.2222219843214978396));
    p = V::fma(p, z, V::set1(0.2857142874366239149));
    p = V::fma(p, z, V::set1(0.3999999999940941908));
    p = V::fma(p, z, V::set1(0.6666666666666735130));
    const V own = f - (square - s * (square + p * z)), n = V::load(q) + high + e;
    const V y = V::fma(n, V::set1(ExpConst<double>::kLn2),
                       V::fma(n, V::set1(ExpConst<double>::kLn2Rest), own));
    return V::where_positive(x, x, y) + V::where_ge(zero, x, V::set1(-INFINITY));
}

// Rows [l0, l1) of a table (K, K): `forward` has M and N of row l, Kp numbers each, `backward`
// those of column l.
static void pack_wide(const double* table, int64_t labels, int64_t l0, int64_t l1,
                      double* forward, double* backward) {
    using V = Vec<double>;
    const int64_t K = labels, Kp = Tiling<double>(labels).Kp;
    for (int64_t l = l0; l < l1; ++l) {
        const double* const t = table + l * K;
        double* const row = forward + 2 * l * Kp;
        for (int64_t k = 0; k < Kp; k += V::N) {
            const int left = static_cast<int>(k < K ? (K - k < V::N ? K - k : V::N) : 0);
            V m, e;
            split_exp(V::load_part(t + (left > 0 ? k : 0), left, -INFINITY), &m, &e);
            m.store(row + k);
            e.store(row + Kp + k);
        }
        for (int64_t k = 0; k < K; ++k) {
            backward[2 * k * Kp + l] = row[k];
            backward[2 * k * Kp + Kp + l] = row[Kp + k];
        }
        for (int64_t i = K; l == K - 1 && i < Kp; ++i) {
            for (int64_t k = 0; k < K; ++k) {
                backward[2 * k * Kp + i] = 0.0;
                backward[2 * k * Kp + Kp + i] = kNoExponent;
            }
        }
    }
}

// NV vectors of y, from k on. m, e: (K,) of the message that comes in.
template <int NV>
static VS_INLINE void wide_columns(const double* table, int K, int64_t Kp, const double* m,
                                   const double* e, double* y) {
    using V = Vec<double>;
    // Beside the largest term of a sum nothing below this changes a bit.
    const V least = V::set1(-1000.0), one = V::set1(1.0);
    V top[NV], sum[NV];
    each<NV>([&](auto j) VS_INLINE_LAMBDA {
        top[j] = V::set1(2.0 * kNoExponent);
        sum[j] = V::set1(0.0);
    });
    for (int l = 0; l < K; ++l) {
        if (!(m[l] > 0.0)) continue;
        const double* const row = table + 2 * l * Kp + Kp;
        const V own = V::set1(e[l]);
        each<NV>([&](auto j) VS_INLINE_LAMBDA {
            top[j] = V::max(top[j], own + V::load(row + j * V::N));
        });
    }
    for (int l = 0; l < K; ++l) {
        if (!(m[l] > 0.0)) continue;
        const double* const row = table + 2 * l * Kp;
        const V own = V::set1(e[l]), share = V::set1(m[l]);
        each<NV>([&](auto j) VS_INLINE_LAMBDA {
            const V n = V::max(own + V::load(row + Kp + j * V::N) - top[j], least);
            sum[j] = V::fma(V::scale2(one, n), share * V::load(row + j * V::N), sum[j]);
        });
    }
    each<NV>([&](auto j) VS_INLINE_LAMBDA { log_wide(sum[j], top[j]).store(y + j * V::N); });
}

// y(k) = log sum_l exp(x(l)) M(l, k) 2^N(l, k); `split`: 2 Kp numbers of workspace.
static void send_wide(const double* table, int K, int64_t Kp, const double* x, double* split,
                      double* y) {
    using V = Vec<double>;
    for (int k = 0; k < K; k += V::N) {
        const int left = K - k < V::N ? K - k : V::N;
        V m, e;
        split_exp(V::load_part(x + k, left, -INFINITY), &m, &e);
        m.store(split + k);
        e.store(split + Kp + k);
    }
    int k = 0;
    for (; k + 3 * V::N < K; k += 4 * V::N) {
        wide_columns<4>(table + k, K, Kp, split, split + Kp, y + k);
    }
    if (k + V::N < K) {
        wide_columns<2>(table + k, K, Kp, split, split + Kp, y + k);
        k += 2 * V::N;
    }
    if (k < K) wide_columns<1>(table + k, K, Kp, split, split + Kp, y + k);
}

}  // namespace VS_NS
