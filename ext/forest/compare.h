// Rows of marginals beside those of another answer: how far that can be off, and its labels wrong.
#pragma once

#include <cmath>
#include <cstdint>

#include "forest/path_exact.h"

namespace VS_NS {

// max |a - b|. LABELS: of so many numbers, 0: of K.
template <int LABELS, class T>
VS_INLINE double distance(const T* a, const T* b, int K) {
    using V = Vec<T>;
    T most = T(0);
    const auto look = [&](int k) VS_INLINE_LAMBDA {
        const T d = std::fabs(a[k] - b[k]);
        most = d > most ? d : most;
    };
    int k = 0;
    if constexpr (LABELS > 0) {
        each<LABELS>([&](auto j) VS_INLINE_LAMBDA { look(j); });
        k = LABELS;
    } else if (K >= V::N) {
        V top = V::set1(T(0));
        for (; k + V::N <= K; k += V::N) {
            const V d = V::load(a + k) - V::load(b + k);
            top = V::max(top, V::max(d, V::set1(T(0)) - d));
        }
        most = top.hmax();
    }
    for (; k < K; ++k) look(k);
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

// The share of a row that a label does not have, at most: it is added up, and nothing cancels.
template <int LABELS, class T>
VS_INLINE double rest_of(const T* p, int label, int K) {
    double other = 0.0;
    if constexpr (LABELS > 0) {
        each<LABELS>([&](auto k) VS_INLINE_LAMBDA {
            other += k == label ? 0.0 : static_cast<double>(p[k]);
        });
    } else {
        other = sum_of(p, 0, label) + sum_of(p, label + 1, K);
    }
    const double lost = 1.0 + static_cast<double>(K + 8) * 0x1p-52;
    return other * lost / (other + static_cast<double>(p[label]));
}

template <int LABELS, class T>
void compare_rows(const vs::Comparison& c, const T* p, int K, int64_t first, int64_t n,
                  int64_t component) {
    const T* other = static_cast<const T*>(c.rows) + first * K;
    const double error = c.error[component] + 0x1p-53;
    const double growth = c.growth[component], extra = c.extra[component];
    for (int64_t i = first; i < first + n; ++i, p += K, other += K) {
        // The difference is rounded to T.
        const double far = distance<LABELS>(p, other, K) * (1.0 + 0x1p-22) + error;
        c.far[i] = far < 1.0 ? far : 1.0;
        double wrong = 0.0;
        if (const int label = c.label[i]; label >= 0) {
            wrong = rest_of<LABELS>(p, label, K) * growth + extra;
            wrong = wrong < 1.0 ? wrong : 1.0;
        }
        c.wrong[i] = wrong;
    }
}

template <class T>
void compare_in(const vs::Comparison& c, const void* rows, int K, int64_t first, int64_t n,
                int64_t component) {
    const T* const p = static_cast<const T*>(rows);
    switch (K) {
        case 2:
            return compare_rows<2>(c, p, K, first, n, component);
        case 3:
            return compare_rows<3>(c, p, K, first, n, component);
        case 4:
            return compare_rows<4>(c, p, K, first, n, component);
        default:
            return compare_rows<0>(c, p, K, first, n, component);
    }
}

// As Level::compare.
static void compare(int dtype, const void* rows, int64_t labels, const vs::Comparison& c,
                    int64_t first, int64_t n, int64_t component) {
    const int K = static_cast<int>(labels);
    dtype == vs::kFloat32 ? compare_in<float>(c, rows, K, first, n, component)
                          : compare_in<double>(c, rows, K, first, n, component);
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
