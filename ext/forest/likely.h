// Whether a variable's largest share reaches zeta, roughly: most rows say so by the distance of
// their two largest scores, and of others e^y is (1 + y / 256)^256, which needs no exponential.
// Several rows are looked at side by side. Included by level.cpp.
#pragma once

#include <cmath>
#include <limits>

#include "forest/worth.h"
#include "rows/rows.h"
#include "simd/each.h"
#include "simd/math.h"
#include "simd/vec.h"

namespace VS_NS {

template <class T>
struct ShareSum {
    using V = Vec<T>;
    V at, sum;
    VS_INLINE void begin(T top) {
        at = V::set1(top);
        sum = V::set1(T(0));
    }
    VS_INLINE void add(V s) {
        V e = V::max(V::fma(s - at, V::set1(T(1) / T(256)), V::set1(T(1))), V::set1(T(0)));
        for (int i = 0; i < 7; ++i) e = e * e;
        sum = V::fma(e, e, sum);
    }
    VS_INLINE void add_exactly(V s) { sum = sum + exp_shifted<T>(s, at); }
    VS_INLINE bool reaches(double zeta) const {
        return zeta * static_cast<double>(sum.hsum()) <= 1.0;
    }
};

// The m numbers of a row from `p` on; where it ends, -inf.
template <class T, bool WHOLE>
VS_INLINE Vec<T> part_of(const T* p, int m) {
    return WHOLE ? Vec<T>::load(p) : Vec<T>::load_part(p, m, -static_cast<T>(INFINITY));
}

// The modes of R rows that reach zeta, or -1.
template <class T, int R>
static void modes(const vs::LikelyRow* r, const vs::LikelyRule& rule, int* out) {
    using V = Vec<T>;
    const int K = static_cast<int>(rule.n_labels);
    const T none = -std::numeric_limits<T>::max() / 4;  // finite: no difference is NaN
    const T* x[R];
    V one[R], two[R], sum[R];  // the largest of each lane, the second, the sum
    for (int i = 0; i < R; ++i) {
        x[i] = static_cast<const T*>(r[i].row);
        one[i] = two[i] = V::set1(none);
        sum[i] = V::set1(T(0));
    }
    for_row<T>(K, [&](int k, int m, auto whole) VS_INLINE_LAMBDA {
        each<R>([&](auto i) VS_INLINE_LAMBDA {
            const V s = part_of<T, whole.value>(x[i] + k, m);
            two[i] = V::max(two[i], V::min(one[i], s));
            one[i] = V::max(one[i], s);
            sum[i] = sum[i] + (whole.value ? s : V::load_part(x[i] + k, m, T(0)));
        });
    });
    for (int i = 0; i < R; ++i) {
        const T top = one[i].hmax();
        const V all = V::set1(top);
        const unsigned lanes = one[i].ge(all);
        const V rest = V::fma(V::where_ge(one[i], all, V::set1(T(1))), two[i] - one[i], one[i]);
        const T next = lanes & (lanes - 1) ? top : rest.hmax();
        const double ahead = static_cast<double>(top) - static_cast<double>(next);
        out[i] = -1;
        if (!(top > none) || ahead < rule.never) continue;
        // The others weigh at least what as many of their mean would.
        const double high = static_cast<double>(top);
        const double mean = (static_cast<double>(sum[i].hsum()) - high) / (K - 1.0);
        constexpr double kRounding = 1e-3;
        if (mean <= high && high - mean < rule.always - kRounding) continue;
        if (!(ahead >= rule.always)) {
            ShareSum<T> share;
            share.begin(top);
            for_row<T>(K, [&](int k, int m, auto whole) VS_INLINE_LAMBDA {
                const V s = part_of<T, whole.value>(x[i] + k, m);
                rule.exactly ? share.add_exactly(s) : share.add(s);
            });
            if (!share.reaches(rule.zeta)) continue;
        }
        out[i] = row_find(x[i], K, top);
    }
}

// Whether the states held reach zeta in the sums of R rows and two more of each.
template <class T, int R>
static void held(const vs::LikelyRow* r, const vs::LikelyRule& rule, int* out) {
    using V = Vec<T>;
    const int K = static_cast<int>(rule.n_labels);
    const T *x[R], *y[R], *z[R];
    ShareSum<T> share[R];
    bool some[R];
    for (int i = 0; i < R; ++i) {
        x[i] = static_cast<const T*>(r[i].row);
        y[i] = static_cast<const T*>(r[i].more[0]);
        z[i] = static_cast<const T*>(r[i].more[1]);
        const T top = x[i][r[i].held] + y[i][r[i].held] + z[i][r[i].held];
        some[i] = top > -static_cast<T>(INFINITY);
        share[i].begin(some[i] ? top : T(0));
    }
    for_row<T>(K, [&](int k, int m, auto whole) VS_INLINE_LAMBDA {
        each<R>([&](auto i) VS_INLINE_LAMBDA {
            constexpr bool kWhole = whole.value;
            const V s = part_of<T, kWhole>(x[i] + k, m) + part_of<T, kWhole>(y[i] + k, m);
            share[i].add(s + part_of<T, kWhole>(z[i] + k, m));
        });
    });
    for (int i = 0; i < R; ++i) out[i] = some[i] && share[i].reaches(rule.zeta) ? r[i].held : -1;
}

template <class T>
static void likely_in(const vs::LikelyRow* list, int n, const vs::LikelyRule& rule, int* out) {
    constexpr int kRows = 4;
    int i = 0;
    if (list[0].held < 0) {
        for (; i + kRows <= n; i += kRows) modes<T, kRows>(list + i, rule, out + i);
        for (; i < n; ++i) modes<T, 1>(list + i, rule, out + i);
    } else {
        for (; i + kRows <= n; i += kRows) held<T, kRows>(list + i, rule, out + i);
        for (; i < n; ++i) held<T, 1>(list + i, rule, out + i);
    }
}

static void likely(int dtype, const vs::LikelyRow* list, int n, const vs::LikelyRule& rule,
                   int* out) {
    if (n == 0) return;
    dtype == vs::kFloat32 ? likely_in<float>(list, n, rule, out)
                          : likely_in<double>(list, n, rule, out);
}

}  // namespace VS_NS
