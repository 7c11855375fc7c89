// Scores of labels at items: rows of weights of the attributes that a model knows, added up.
#pragma once

#include <cstring>

#include "crf/dictionary.h"
#include "pool/pool.h"

namespace vs::crf {

// Weights by attribute. Row a begins at weight[begin[a]]: with size[a] weights whose labels stand
// in the same places of `label`, or, where size[a] is kFull, with a weight for each label.
struct WeightRows {
    static constexpr int32_t kFull = -1;
    int64_t n_labels = 0;
    GrowingArray<int64_t> begin;
    GrowingArray<int32_t> size;
    GrowingArray<int32_t> label;
    GrowingArray<double> weight;

    // A row of `n` labels, ascending.
    void add(const int32_t* labels, const double* weights, int64_t n);
};

// Whether all are within ±limit, which NaN is not. As integers, because compilers know how to do
// that side by side: magnitudes are in the order of their bits.
inline bool all_within(const double* x, int64_t n, double limit) {
    int64_t top, beyond = 0;
    std::memcpy(&top, &limit, sizeof top);
    for (int64_t i = 0; i < n; ++i) {
        int64_t bits;
        std::memcpy(&bits, x + i, sizeof bits);
        beyond |= top - (bits & INT64_MAX);
    }
    return beyond >= 0;
}

// Writes rows [first, last) of `unary` (N, K). Returns the first item with a score that is not
// within ±limit, or -1.
int64_t score_items(const Dictionary& names, const WeightRows& rows, const Items& items,
                    int64_t first, int64_t last, double limit, double* unary) noexcept;
// The same for all items, on `threads` threads of the pool.
int64_t score_all(const PoolApi& pool, int threads, const Dictionary& names, const WeightRows& rows,
                  const Items& items, double limit, double* unary, Control* control);

}  // namespace vs::crf
