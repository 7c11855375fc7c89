// The variables of chains, one after the other, and pieces of a batch for the pool.
#pragma once

#include <algorithm>

#include "core/at.h"
#include "forest/request.h"
#include "pool/blocks.h"

namespace vs {

// A variable of a forest: the neighbour before it (-1: none) and the table of the edge from there;
// start and end scores where a chain has them.
struct ForestVariable {
    int64_t before, table;
    const void *start, *end;
};

inline ForestVariable position_of(const Chains& c, int64_t s, int64_t i) {
    const int64_t begin = c.offset[s], end = c.offset[s + 1];
    return {i == begin ? -1 : i - 1, c.per_edge ? c.edge[s] + i - 1 - begin : 0,
            i == begin ? c.start : nullptr, i == end - 1 ? c.end : nullptr};
}

struct OnPool {
    int threads;
    Control* control;
};

// f(first, last, caller) for the sequences that begin in each stretch of so many positions, a task
// each; `caller`: all of them, on the calling thread.
template <class F>
void each_piece(const char* label, const Chains& c, const OnPool& on, const F& f) {
    constexpr int64_t kPositions = 1 << 14;
    const int64_t pieces = (c.n_positions + kPositions - 1) / kPositions;
    if (on.threads == 1 || pieces <= 1 || c.n_sequences == 1) return f(0, c.n_sequences, true);
    const auto first = [&](int64_t piece) {
        const int64_t* end = c.offset + c.n_sequences;
        return std::lower_bound(c.offset, end, piece * kPositions) - c.offset;
    };
    run_blocks(pool(), label, pieces, 1, on.threads, on.control, [&](int64_t i, int64_t last) {
        f(first(i), last == pieces ? c.n_sequences : first(last), false);
    });
}

}  // namespace vs
