// Scores of labels at items: rows of weights of the attributes that a model knows, added up.
#pragma once

#include "crf/dictionary.h"
#include "pool/pool.h"

namespace vs {

// Sparse rows by attribute: row a holds labels and weights [begin[a], begin[a + 1]).
struct WeightRows {
    int64_t n_labels = 0;
    Buffer<int64_t> begin;
    Buffer<int32_t> label;
    Buffer<double> weight;
};

// Writes rows [first, last) of `unary` (N, K). Returns the first item with a score that is not
// within ±limit, or -1.
int64_t score_items(const Dictionary& names, const WeightRows& rows, const Items& items,
                    int64_t first, int64_t last, double limit, double* unary) noexcept;
// The same for all items, on `threads` threads of the pool.
int64_t score_all(const PoolApi& pool, int threads, const Dictionary& names, const WeightRows& rows,
                  const Items& items, double limit, double* unary, Control* control);

}  // namespace vs
