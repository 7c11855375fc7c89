// Which numbers of a row are at least a limit.
#pragma once

#include "rows/rows.h"

namespace VS_NS {

// Calls f(k, p[k]) for entries >= least, in order; returns the largest of the others, 0 without.
template <class In, class F>
static VS_INLINE In each_listed(const In* p, int K, In least, F f) {
    using V = Vec<In>;
    const V limit = V::set1(least);
    V others = V::set1(In(0));
    In rest = In(0);
    for_row<In>(K, [&](int k, int m, auto whole) VS_INLINE_LAMBDA {
        const V v = whole.value ? V::load(p + k) : V::load_part(p + k, m, In(-1));
        const unsigned lanes = v.ge(limit);
        if (lanes == 0) {
            others = V::max(others, v);
            return;
        }
        for (int i = 0; i < m; ++i) {
            if (lanes >> i & 1) {
                f(k + i, p[k + i]);
            } else {
                rest = p[k + i] > rest ? p[k + i] : rest;
            }
        }
    });
    const In top = others.hmax();
    return top > rest ? top : rest;
}

// As Level::list_row.
template <class In>
static int64_t list_row_of(const In* p, int K, In least, int32_t* labels, In* values,
                           double* rest) {
    int64_t n = 0;
    if (labels == nullptr) {
        each_listed(p, K, least, [&](int, In) VS_INLINE_LAMBDA { ++n; });
        return n > 0 ? n : 1;
    }
    In other = each_listed(p, K, least, [&](int k, In x) VS_INLINE_LAMBDA {
        labels[n] = k;
        values[n++] = x;
    });
    if (n == 0) {
        const int best = row_argmax(p, K);
        labels[n] = best;
        values[n++] = p[best];
        other = In(0);
        for (int k = 0; k < K; ++k) other = k != best && p[k] > other ? p[k] : other;
    }
    *rest = static_cast<double>(other);
    return n;
}

static int64_t list_row(int dtype, const void* row, int64_t labels_in_row, double least,
                        int32_t* labels, void* values, double* rest) {
    const int K = static_cast<int>(labels_in_row);
    if (dtype == vs::kFloat32) {
        return list_row_of(static_cast<const float*>(row), K, static_cast<float>(least), labels,
                           static_cast<float*>(values), rest);
    }
    return list_row_of(static_cast<const double*>(row), K, least, labels,
                       static_cast<double*>(values), rest);
}

}  // namespace VS_NS
