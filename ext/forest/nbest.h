// The k best configurations of a chain.
#pragma once

#include "core/problem.h"
#include "core/scratch.h"

namespace vs {

// Fills states[r * N + begin ...] and scores[r * B + sequence], r < k, best first; what does not
// exist keeps the score -inf and gets states -1. Ties: the lowest labels. `rows`, (n, stride): the
// best score of a prefix that ends in each label (Level::prefix_scores). Throws bad_alloc.
void n_best(const Chains& c, int64_t sequence, int64_t k, const double* rows, int64_t stride,
            Scratch& scratch, int64_t* states, double* scores, Control& control, bool caller);

// Puts a best configuration, and its score, before what n_best found: moves it there, or drops the
// last for it.
void lead_with(const Chains& c, int64_t sequence, int64_t k, const int64_t* path, double score,
               int64_t* states, double* scores);

}  // namespace vs
