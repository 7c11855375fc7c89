// The entropy of one variable given another, from logarithms of weights.
#pragma once

#include <cmath>

#include "rows/rows.h"
#include "simd/math.h"

namespace VS_NS {

// As Level::conditional.
static double conditional(double* x, const double* weight, const double* below, int n,
                          double* entropy) {
    using V = Vec<double>;
    constexpr double kFarBelow = -80.0;  // shares of less than exp of that are left out
    for_row<double>(n, [&](int j, int m, auto whole) VS_INLINE_LAMBDA {
        const V own = whole.value ? V::load(weight + j) : V::load_part(weight + j, m, 0.0);
        (V::load(x + j) + own).store(x + j);
    });
    *entropy = 0.0;
    const int best = n > 0 ? row_argmax(x, n) : -1;
    if (best < 0 || !(x[best] > -INFINITY)) return -INFINITY;
    // The largest stands apart from the rest, which may be next to nothing beside it.
    const double top = x[best];
    x[best] = -INFINITY;
    const V high = V::set1(top), least = V::set1(kFarBelow);
    V rest = V::set1(0.0), sum = V::set1(0.0);
    for_row<double>(n, [&](int j, int m, auto whole) VS_INLINE_LAMBDA {
        const V own = whole.value ? V::load(x + j) : V::load_part(x + j, m, -INFINITY);
        const V more = whole.value ? V::load(below + j) : V::load_part(below + j, m, 0.0);
        const V z = own - high;
        const V q = V::where_ge(z, least, exp_from<double>(least, z));
        rest = rest + q;
        sum = V::fma(q, V::where_ge(z, least, more - z), sum);
    });
    const double others = rest.hsum(), log_sum = std::log1p(others);
    *entropy = log_sum + (below[best] + sum.hsum()) / (1.0 + others);
    return top + log_sum;
}

}  // namespace VS_NS
