// The k best configurations of a chain.
#pragma once

#include "kernels/problem.h"

namespace vs {

// Fills states[r * N + begin ...] and scores[r * B + sequence], r < k, best first; what does not
// exist keeps the score -inf and gets states -1. Ties: the lowest labels.
void n_best(const Chains& c, int64_t sequence, int64_t k, int64_t* states, double* scores,
            Control& control, bool caller);

}  // namespace vs
