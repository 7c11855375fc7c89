// Whether a variable's largest share reaches zeta. Beside others e^y is (1 + y / 64)^64, which
// needs no exponential, and alone what it is. Several rows are looked at side by side. Included by
// level.cpp.
#pragma once

#include <cmath>

#include "forest/worth.h"
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
        V e = V::max(V::fma(s - at, V::set1(T(1) / T(64)), V::set1(T(1))), V::set1(T(0)));
        e = e * e;
        e = e * e;
        e = e * e;
        e = e * e;
        e = e * e;
        sum = V::fma(e, e, sum);
    }
    VS_INLINE void add_exactly(V s) { sum = sum + exp_shifted<T>(s, at); }
    VS_INLINE bool reaches(double zeta) const {
        return zeta * static_cast<double>(sum.hsum()) <= 1.0;
    }
};

// The next `left` numbers of a row, at most a vector; where it ends, -inf.
template <class T>
VS_INLINE Vec<T> part_of(const T* p, int left) {
    using V = Vec<T>;
    return left >= V::N ? V::load(p) : V::load_part(p, left, -static_cast<T>(INFINITY));
}

// The modes of R rows that reach zeta, or -1.
template <class T, int R>
static void modes(const vs::LikelyRow* r, int* out) {
    using V = Vec<T>;
    const int K = static_cast<int>(r[0].n_labels);
    const T none = -static_cast<T>(INFINITY);
    const T* x[R];
    V most[R];
    ShareSum<T> share[R];
    T top[R];
    for (int i = 0; i < R; ++i) x[i] = static_cast<const T*>(r[i].row);
    for (int i = 0; i < R; ++i) most[i] = V::set1(none);
    for (int k = 0; k < K; k += V::N) {
        each<R>([&](auto i) { most[i] = V::max(most[i], part_of(x[i] + k, K - k)); });
    }
    for (int i = 0; i < R; ++i) {
        top[i] = most[i].hmax();
        share[i].begin(top[i] > none ? top[i] : T(0));
    }
    for (int k = 0; k < K; k += V::N) {
        each<R>([&](auto i) { share[i].add_exactly(part_of(x[i] + k, K - k)); });
    }
    for (int i = 0; i < R; ++i) {
        out[i] = -1;
        if (!(top[i] > none) || !share[i].reaches(r[i].zeta)) continue;
        int k = 0;
        while (k + V::N <= K && V::load(x[i] + k).ge(share[i].at) == 0) k += V::N;
        while (!(x[i][k] == top[i])) ++k;
        out[i] = k;
    }
}

// Whether the states held reach zeta in the sums of R rows and two more of each.
template <class T, int R>
static void held(const vs::LikelyRow* r, int* out) {
    using V = Vec<T>;
    const int K = static_cast<int>(r[0].n_labels);
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
    for (int k = 0; k < K; k += V::N) {
        each<R>([&](auto i) {
            const V s = part_of(x[i] + k, K - k) + part_of(y[i] + k, K - k);
            share[i].add(s + part_of(z[i] + k, K - k));
        });
    }
    for (int i = 0; i < R; ++i) out[i] = some[i] && share[i].reaches(r[i].zeta) ? r[i].held : -1;
}

template <class T>
static void likely_in(const vs::LikelyRow* list, int n, int* out) {
    constexpr int kRows = 4;
    int i = 0;
    if (list[0].held < 0) {
        for (; i + kRows <= n; i += kRows) modes<T, kRows>(list + i, out + i);
        for (; i < n; ++i) modes<T, 1>(list + i, out + i);
    } else {
        for (; i + kRows <= n; i += kRows) held<T, kRows>(list + i, out + i);
        for (; i < n; ++i) held<T, 1>(list + i, out + i);
    }
}

static void likely(int dtype, const vs::LikelyRow* list, int n, int* out) {
    if (n == 0) return;
    dtype == vs::kFloat32 ? likely_in<float>(list, n, out) : likely_in<double>(list, n, out);
}

}  // namespace VS_NS
