// Rows of marginals beside those of another answer: how far that can be off, and its labels wrong.
#pragma once

#include <cmath>
#include <cstdint>

#include "forest/path_exact.h"
#include "simd/each.h"

namespace VS_NS {

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

// The sum of [first, last); four sums do not wait for one another.
template <class T>
VS_INLINE double sum_of(const T* p, int first, int last) {
    double sum[4] = {};
    int k = first;
    for (; k + 4 <= last; k += 4) {
        each<4>([&](auto j) VS_INLINE_LAMBDA { sum[j] += static_cast<double>(p[k + j]); });
    }
    for (; k < last; ++k) sum[0] += static_cast<double>(p[k]);
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

template <class T>
void compare_rows(const vs::Comparison& c, const T* p, int K, int64_t first, int64_t last,
                  int64_t component) {
    const T* other = static_cast<const T*>(c.rows) + first * K;
    const double error = c.error[component] + 0x1p-53;
    const double growth = c.growth[component], extra = c.extra[component];
    const double lost = 1.0 + static_cast<double>(K + 8) * 0x1p-52;
    for (int64_t i = first; i < last; ++i, p += K, other += K) {
        // The difference is rounded to T.
        const double most = distance(p, other, K) * (1.0 + 0x1p-22) + error;
        c.far[i] = most < 1.0 ? most : 1.0;
        c.wrong[i] = 0.0;
        const int label = c.label[i];
        if (label < 0) continue;
        // The share that the label does not have is added up: nothing cancels.
        const double rest = sum_of(p, 0, label) + sum_of(p, label + 1, K);
        const double share = rest * lost / (rest + static_cast<double>(p[label]));
        const double wrong = share * growth + extra;
        c.wrong[i] = wrong < 1.0 ? wrong : 1.0;
    }
}

// As Level::compare.
static void compare(int dtype, const void* rows, int64_t labels, const vs::Comparison& c,
                    int64_t first, int64_t n, int64_t component) {
    const int K = static_cast<int>(labels);
    if (dtype == vs::kFloat32) {
        compare_rows(c, static_cast<const float*>(rows), K, first, first + n, component);
    } else {
        compare_rows(c, static_cast<const double*>(rows), K, first, first + n, component);
    }
}

// Marginals that are compared, and not kept, stand in scratch memory, which is used again.
template <class D>
bool compared_init(const vs::PathPass* pass, const D& d, Lane<D>& s, vs::Scratch& scratch) {
    if (!pass->compared) return true;
    const int dtype = pass->model.arrays.dtype;
    const int64_t bytes = d.K * (dtype == vs::kFloat32 ? 4 : 8);
    void* const rows = scratch.take(s.n * bytes);
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
