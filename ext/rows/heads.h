// The heads of lists of prefixes (forest/nbest.cpp): what they score, and the first of the largest.
#pragma once

#include <cmath>

#include "rows/rows.h"

namespace VS_NS {

// The first of the largest; -1: all are -inf.
VS_INLINE int first_head(const double* heads, int K) {
    const int k = row_argmax(heads, K);
    return heads[k] > -INFINITY ? k : -1;
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

// As HeadVerbs::largest. One head has just been written, for which a vector would have to wait.
static int largest_head(const double* heads, int64_t labels) {
    const int K = static_cast<int>(labels);
    return K <= 16 ? first_of_few(heads, K) : first_head(heads, K);
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
    for (int k = 0; k < K; k += V::N) {
        const V z = V::load(x + k);
        (column ? (z + V::load(column + k)) + more : z + zero).store(heads + k);
    }
    return first_head(heads, K);
}

}  // namespace VS_NS
