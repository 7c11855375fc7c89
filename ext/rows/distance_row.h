// How far two rows are apart.
#pragma once

#include <limits>

#include "rows/rows.h"

namespace VS_NS {

// max |a - b|; *other: the sum of a without the label, if there is one.
template <class In>
static VS_INLINE In apart(const In* a, const In* b, int K, int label, In* other) {
    using V = Vec<In>;
    V most = V::set1(In(0)), sum = most;
    for_row<In>(K, [&](int k, int m, auto whole) VS_INLINE_LAMBDA {
        V x = whole.value ? V::load(a + k) : V::load_part(a + k, m, In(0));
        const V y = whole.value ? V::load(b + k) : V::load_part(b + k, m, In(0));
        most = V::max(most, V::max(x - y, y - x));
        if (k <= label && label < k + m) {
            In part[V::N];
            x.store(part);
            part[label - k] = In(0);
            x = V::load(part);
        }
        sum = sum + x;
    });
    *other = sum.hsum();
    return most.hmax();
}

// As Level::distance_row.
template <class In>
static double distance_row_of(const In* a, const In* b, int K, int label, double* rest) {
    In other;
    const double most = static_cast<double>(apart(a, b, K, label, &other));
    *rest = 0.0;
    if (label < 0) return most;
    // Without the label: nothing cancels.
    const double lost = 1.0 + (K + 8.0) * static_cast<double>(std::numeric_limits<In>::epsilon());
    const double left = static_cast<double>(other);
    *rest = left * lost / (left + static_cast<double>(a[label]));
    return most;
}

static double distance_row(int dtype, const void* a, const void* b, int64_t labels, int label,
                           double* rest) {
    const int K = static_cast<int>(labels);
    if (dtype == vs::kFloat32) {
        return distance_row_of(static_cast<const float*>(a), static_cast<const float*>(b), K, label,
                               rest);
    }
    return distance_row_of(static_cast<const double*>(a), static_cast<const double*>(b), K, label,
                           rest);
}

}  // namespace VS_NS
