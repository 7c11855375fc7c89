// Rows of marginals beside those of another answer: how far that can be off, and its labels wrong.
#pragma once

#include <cmath>
#include <cstdint>

#include "forest/path_exact.h"
#include "simd/each.h"
#include "simd/transpose.h"

namespace VS_NS {

// Rows of so few labels go side by side, where their type is double.
constexpr int kFewCompared = 16;

// max |a - b|.
template <class T>
VS_INLINE double distance(const T* a, const T* b, int K) {
    using V = Vec<T>;
    T most = T(0);
    int k = 0;
    if (K >= V::N) {
        V top = V::set1(T(0));
        for (; k + V::N <= K; k += V::N) {
            const V d = V::load(a + k) - V::load(b + k);
            top = V::max(top, V::max(d, V::set1(T(0)) - d));
        }
        most = top.hmax();
    }
    for (; k < K; ++k) {
        const T d = std::fabs(a[k] - b[k]);
        most = d > most ? d : most;
    }
    return static_cast<double>(most);
}

// The sum of [first, last); of many, four sums do not wait for one another.
template <class T>
VS_INLINE double sum_of(const T* p, int first, int last, bool many) {
    double sum[4] = {};
    int k = first;
    for (; many && k + 4 <= last; k += 4) {
        each<4>([&](auto j) VS_INLINE_LAMBDA { sum[j] += static_cast<double>(p[k + j]); });
    }
    for (; k < last; ++k) sum[0] += static_cast<double>(p[k]);
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

// What a difference, and a sum of the others' shares, can have lost, relative.
constexpr double kDifference = 1.0 + 0x1p-22;
VS_INLINE double lost_by(int K) { return 1.0 + static_cast<double>(K + 8) * 0x1p-52; }

template <class T>
void compare_rows(const vs::Comparison& c, const T* p, int K, int64_t first, int64_t last,
                  int64_t component) {
    const T* other = static_cast<const T*>(c.rows) + first * K;
    const double error = c.error[component] + 0x1p-53;
    const double growth = c.growth[component], extra = c.extra[component];
    for (int64_t i = first; i < last; ++i, p += K, other += K) {
        const double most = distance(p, other, K) * kDifference + error;
        c.far[i] = most < 1.0 ? most : 1.0;
        c.wrong[i] = 0.0;
        const int label = c.label[i];
        if (label < 0) continue;
        // The share that the label does not have is added up: nothing cancels.
        const bool many = K > kFewCompared;
        const double rest = sum_of(p, 0, label, many) + sum_of(p, label + 1, K, many);
        const double share = rest * lost_by(K) / (rest + static_cast<double>(p[label]));
        const double wrong = share * growth + extra;
        c.wrong[i] = wrong < 1.0 ? wrong : 1.0;
    }
}

// The same of as many rows as a vector has numbers, at most kFewCompared labels: entry k of all is
// one vector.
VS_INLINE void compare_few(const vs::Comparison& c, const double* p, int K, int64_t first,
                           int64_t component) {
    using V = Vec<double>;
    constexpr int N = V::N;
    const double* const other = static_cast<const double*>(c.rows) + first * K;
    const double *mine[N], *theirs[N];
    double x[kFewCompared * N], y[kFewCompared * N], label[N];
    for (int r = 0; r < N; ++r) {
        mine[r] = p + r * K;
        theirs[r] = other + r * K;
        label[r] = static_cast<double>(c.label[first + r]);
    }
    weave<double, N>(mine, K, x);
    weave<double, N>(theirs, K, y);
    const V zero = V::set1(0.0), one = V::set1(1.0), half = V::set1(0.5), at = V::load(label);
    V most = zero, own = zero, rest = zero;
    for (int k = 0; k < K; ++k) {
        const V a = V::load(x + k * N), d = a - V::load(y + k * N);
        most = V::max(most, V::max(d, zero - d));
        const V apart = at - V::set1(static_cast<double>(k));
        const V claimed = V::where_ge(half, V::max(apart, zero - apart), a);  // else 0
        own = own + claimed;
        rest = rest + (a - claimed);
    }
    const V far = most * V::set1(kDifference) + V::set1(c.error[component] + 0x1p-53);
    V::min(far, one).store(c.far + first);
    const V share = rest * V::set1(lost_by(K)) / (rest + own);
    const V wrong = share * V::set1(c.growth[component]) + V::set1(c.extra[component]);
    V::where_ge(at, zero, V::min(wrong, one)).store(c.wrong + first);
}

// As Level::compare.
static void compare(int dtype, const void* rows, int64_t labels, const vs::Comparison& c,
                    int64_t first, int64_t n, int64_t component) {
    const int K = static_cast<int>(labels);
    const int64_t last = first + n;
    if (dtype == vs::kFloat32) {
        return compare_rows(c, static_cast<const float*>(rows), K, first, last, component);
    }
    const double* p = static_cast<const double*>(rows);
    constexpr int N = Vec<double>::N;
    for (; N > 1 && K <= kFewCompared && first + N <= last; first += N, p += N * K) {
        compare_few(c, p, K, first, component);
    }
    compare_rows(c, p, K, first, last, component);
}

// Marginals that are compared, and not kept, stand in scratch memory, which is used again.
template <class D>
bool compared_init(const vs::PathPass* pass, const D& d, Lane<D>& s, vs::Scratch& scratch) {
    if (!pass->compared) return true;
    const int dtype = pass->model.arrays.dtype;
    void* const rows = scratch.take(s.n * d.K * (dtype == vs::kFloat32 ? 4 : 8));
    s.out = RowsOf<typename D::In>::row(rows, dtype);
    return rows != nullptr;
}

template <class D>
void compare_lane(const vs::PathPass* pass, const D& d, const Lane<D>& s) {
    if (!pass->compared || s.status != vs::kOk) return;
    compare(pass->model.arrays.dtype, address(s.out + s.enter * d.K), d.K, *pass->compared,
            s.begin + s.enter, s.last - s.enter, s.sequence);
}

}  // namespace VS_NS
