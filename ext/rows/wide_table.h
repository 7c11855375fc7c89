// Messages of numbers that are far apart, in linear arithmetic: each number is m 2^e, and
//
//   y(k) = top(k) + log sum_l exp(x(l) + t(l, k) - top(k)),   top(k) = max_l x(l) + t(l, k),
//   exp(x + t - top) = m(x) m(t) / m(top) 2^(e(x) + e(t) - e(top)),
//
// m and e of a table made once. What goes in and what comes out are logarithms: a message takes K
// of them, and 2 K exponentials, in place of K^2.
#pragma once

#include "rows/rows.h"
#include "rows/tile.h"
#include "simd/each.h"
#include "simd/math.h"

namespace VS_NS {

// Exponents are whole numbers in doubles. A number that is 0 has kNoExponent, far below all.
constexpr double kNoExponent = -1e300;
// Magnitudes up to which nothing is lost where e ln 2 is taken out of a logarithm: with a fused
// multiply-add more than there are digits behind the point for.
constexpr double kMostSplit = VS_LEVEL == VS_LEVEL_SCALAR || VS_LEVEL == VS_LEVEL_V2 ? 5e5 : 1e12;

// exp(x) = m 2^e, m within a factor of sqrt 2 of 1; 0 of -inf. |x| up to kMostSplit.
VS_INLINE void split_exp(Vec<double> x, Vec<double>* m, Vec<double>* e) {
    using V = Vec<double>;
    using C = ExpConst<double>;
    const V alive = V::set1(C::kMostNegative), z = V::where_ge(x, alive, x);
    const V n = V::round(z * V::set1(C::kLog2e));
    const V r = V::fma(n, V::set1(-C::kLn2Lo), V::fma(n, V::set1(-C::kLn2Hi), z));
    *m = V::where_ge(x, alive, exp_poly(r));
    *e = n + V::where_ge(V::set1(-INFINITY), x, V::set1(kNoExponent));
}

// log(x) of normal numbers, -inf of 0. Exact where x is 1.
VS_INLINE Vec<double> log_normal(Vec<double> x) {
    using V = Vec<double>;
    double part[V::N], power[V::N];
    V::max(x, V::set1(1e-300)).store(part);
    for (int r = 0; r < V::N; ++r) split_normal(part + r, power + r);
    const V y = log_of_parts(V::load(part), V::load(power));
    return V::where_positive(x, x, y) + V::where_ge(V::set1(0.0), x, V::set1(-INFINITY));
}

// Splits the exponentials of the `count` numbers of a vector, and keeps the largest magnitude of
// finite ones; returns them, -inf behind the last.
VS_INLINE Vec<double> split_part(const double* x, int64_t count, double* m, double* e,
                                 Vec<double>* most) {
    using V = Vec<double>;
    const V v = V::load_part(x, static_cast<int>(count < V::N ? count : V::N), -INFINITY);
    const V finite = V::where_ge(v, V::set1(ExpConst<double>::kMostNegative), v);
    *most = V::max(*most, V::max(finite, V::set1(0.0) - finite));
    V mantissa, exponent;
    split_exp(v, &mantissa, &exponent);
    mantissa.store(m);
    exponent.store(e);
    return v;
}

// Rows [l0, l1) of a table (K, K): `forward` has t, m and e of row l, Kp numbers each, `backward`
// those of column l. False where a score is too large.
static bool pack_wide(const double* table, int64_t labels, int64_t l0, int64_t l1, double* forward,
                      double* backward) {
    using V = Vec<double>;
    const int64_t K = labels, Kp = Tiling<double>(labels).Kp;
    V most = V::set1(0.0);
    for (int64_t l = l0; l < l1; ++l) {
        const double* const from = table + l * K;
        double* const row = forward + 3 * l * Kp;
        for (int64_t k = 0; k < Kp; k += V::N) {
            double* const to = row + k;
            split_part(from + k, K - k, to + Kp, to + 2 * Kp, &most).store(to);
        }
        for (int64_t k = 0; k < K; ++k) {
            for (int64_t i = 0; i < 3; ++i) {
                double* const to = backward + (3 * k + i) * Kp;
                to[l] = row[i * Kp + k];
                for (int64_t j = K; l == K - 1 && j < Kp; ++j) {
                    to[j] = i == 0 ? -INFINITY : i == 1 ? 0.0 : kNoExponent;
                }
            }
        }
    }
    return most.hmax() <= kMostSplit;
}

// NV vectors of y, from k on. x, m, e: (K,) of the message that comes in.
template <int NV>
static VS_INLINE void wide_columns(const double* table, int K, int64_t Kp, const double* x,
                                   const double* m, const double* e, double* y) {
    using V = Vec<double>;
    // Beside the largest term of a sum, whose n is 1 at most, nothing below the least changes a
    // bit.
    const V least = V::set1(-1000.0), highest = V::set1(8.0), one = V::set1(1.0);
    V top[NV], low[NV], from[NV], sum[NV];  // low 2^from = exp(top)
    each<NV>([&](auto j) VS_INLINE_LAMBDA { top[j] = V::set1(-INFINITY); });
    for (int l = 0; l < K; ++l) {
        if (!(m[l] > 0.0)) continue;
        const double* const row = table + 3 * l * Kp;
        const V own = V::set1(x[l]);
        each<NV>([&](auto j)
                     VS_INLINE_LAMBDA { top[j] = V::max(top[j], own + V::load(row + j * V::N)); });
    }
    each<NV>([&](auto j) VS_INLINE_LAMBDA {
        split_exp(top[j], &low[j], &from[j]);
        sum[j] = V::set1(0.0);
    });
    for (int l = 0; l < K; ++l) {
        if (!(m[l] > 0.0)) continue;
        const double* const row = table + 3 * l * Kp + Kp;
        const V own = V::set1(e[l]), share = V::set1(m[l]);
        each<NV>([&](auto j) VS_INLINE_LAMBDA {
            const V n = own + V::load(row + Kp + j * V::N) - from[j];
            const V power = V::scale2(one, V::min(V::max(n, least), highest));
            sum[j] = V::fma(power, share * V::load(row + j * V::N), sum[j]);
        });
    }
    each<NV>([&](auto j) VS_INLINE_LAMBDA {
        const V part = log_normal(sum[j] / V::max(low[j], V::set1(0.5)));  // 0 where all are
        (top[j] + part).store(y + j * V::N);
    });
}

// y(k) = log sum_l exp(x(l) + t(l, k)); `split`: 2 Kp numbers of workspace. False, and nothing is
// done, where x has numbers too large.
static bool send_wide(const double* table, int K, int64_t Kp, const double* x, double* split,
                      double* y) {
    using V = Vec<double>;
    V most = V::set1(0.0);
    for (int k = 0; k < K; k += V::N) {
        (void)split_part(x + k, K - k, split + k, split + Kp + k, &most);
    }
    if (!(most.hmax() <= kMostSplit)) return false;
    const double *const m = split, *const e = split + Kp;
    int k = 0;
    for (; k + 3 * V::N < K; k += 4 * V::N) wide_columns<4>(table + k, K, Kp, x, m, e, y + k);
    if (k + V::N < K) {
        wide_columns<2>(table + k, K, Kp, x, m, e, y + k);
        k += 2 * V::N;
    }
    if (k < K) wide_columns<1>(table + k, K, Kp, x, m, e, y + k);
    return true;
}

}  // namespace VS_NS
