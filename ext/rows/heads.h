// The heads of lists of prefixes (forest/nbest.cpp): what they score, and the first of the largest.
#pragma once

#include <cmath>

#include "rows/listed_scores.h"
#include "rows/rows.h"
#include "simd/each.h"

namespace VS_NS {

// The first of the largest; -1: all are -inf.
VS_INLINE int first_head(const double* heads, int K) {
    const int k = row_argmax(heads, K);
    return heads[k] > -INFINITY ? k : -1;
}
// The same of vectors side by side.
template <int M>
VS_INLINE int first_head_of(const Vec<double> (&x)[M]) {
    using V = Vec<double>;
    V high = x[0];
    each<M - 1>([&](auto j) VS_INLINE_LAMBDA { high = V::max(high, x[j + 1]); });
    const double most = high.hmax();
    const V top = V::set1(most);
    uint64_t found = 0;
    each<M>([&](auto j)
                VS_INLINE_LAMBDA { found |= static_cast<uint64_t>(x[j].ge(top)) << (j * V::N); });
    return most > -INFINITY ? vs_first_bit(found) : -1;
}
// The same of a few, one after the other.
VS_INLINE int first_of_few(const double* heads, int K) {
    int best = -1;
    double top = -INFINITY;
    for (int k = 0; k < K; ++k) {
        const bool more = heads[k] > top;
        best = more ? k : best;
        top = more ? heads[k] : top;
    }
    return best;
}

// As HeadVerbs::largest.
static int largest_head(const double* heads, int64_t labels) {
    using V = Vec<double>;
    const int K = static_cast<int>(labels);
    if (K <= 4) return first_of_few(heads, K);
    if (K <= V::N) return first_head_of<1>({V::load(heads)});
    if (K <= 2 * V::N) return first_head_of<2>({V::load(heads), V::load(heads + V::N)});
    return first_head(heads, K);
}

// As HeadVerbs::extend.
static int extend_heads(const double* x, const double* column, double u, int64_t labels,
                        double* heads) {
    using V = Vec<double>;
    const int K = static_cast<int>(labels);
    if (K <= 4) {
        for (int k = 0; k < K; ++k) heads[k] = column ? (x[k] + column[k]) + u : x[k] + 0.0;
        return first_of_few(heads, K);
    }
    const V more = V::set1(u), zero = V::set1(0.0);
    const auto extended = [&](int k) VS_INLINE_LAMBDA {
        const V z = V::load(x + k);
        const V y = column ? (z + V::load(column + k)) + more : z + zero;
        y.store(heads + k);
        return y;
    };
    if (K <= V::N) return first_head_of<1>({extended(0)});
    if (K <= 2 * V::N) return first_head_of<2>({extended(0), extended(V::N)});
    for (int k = 0; k < K; k += V::N) extended(k);
    return first_head(heads, K);
}

// As HeadVerbs::column.
static void steps_to(const vs::ListedScores& table, int64_t y, int64_t stride, double* to) {
    listed_column(table, static_cast<int>(y), static_cast<int>(stride), to);
}

}  // namespace VS_NS
