// The plan of an exact call: which tasks there are, and what each waits for.
#pragma once

#include <cstddef>
#include <vector>

#include "core/problem.h"
#include "pool/plan.h"

namespace vs {

// Items count through sequences, longest first; costs are K*K messages.
struct ExactPlan {
    Tasks tasks;
    size_t n_split = 0;        // chains cut into half passes: order[0, n_split)
    double nanoseconds = 0.0;  // estimated work
};

inline int64_t length(const Chains& c, int64_t sequence) {
    return c.offset[sequence + 1] - c.offset[sequence];
}

// Nanoseconds per position of an exact pass: they decide task sizes, never a result.
double position_cost(int64_t labels);

// The plan of an exact pass over sequences `order` (longest first): the four half passes of each
// chain long enough to be cut, then groups of whole sequences.
ExactPlan plan_exact(const Chains& c, const std::vector<int64_t>& order, int threads, bool split,
                     int64_t expectations, double slower);

}  // namespace vs
