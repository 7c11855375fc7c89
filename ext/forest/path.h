// Chains end to end as a forest: the neighbours of slot i are i - 1 and i + 1.
#pragma once

#include "islands/piece.h"
#include "islands/rules.h"

namespace vs {

struct Path {
    const int32_t* tree;  // (n,) number of the sequence
    int64_t n, span;      // slots; of a block

    int64_t n_blocks() const { return (n + span - 1) / span; }
    int64_t begin(int64_t b) const { return b * span < n ? b * span : n; }
    int64_t parent(int64_t q) const { return q > 0 && tree[q - 1] == tree[q] ? q - 1 : -1; }
    int64_t child(int64_t q) const { return q + 1 < n && tree[q + 1] == tree[q] ? q + 1 : -1; }
    template <class F>
    void children(int64_t q, F f) const {
        if (q + 1 < n && tree[q + 1] == tree[q]) f(q + 1);
    }
    // Has q neighbours outside of its block [begin, end)?
    bool leaves(int64_t q, int64_t begin, int64_t end) const {
        return (q == begin && parent(q) >= 0) || (q + 1 == end && child(q) >= 0);
    }
    // Adds the centres of the piece whose first variable is `top`.
    bool add_centres(const IslandState& s, int64_t top, PieceList& list, Scratch&) const {
        int64_t end = top + 1;
        for (; end < n && tree[end] == tree[top] && !s.island(end); ++end) {
        }
        const int64_t right = top + (end - top) / 2, place = list.size();
        if ((end - top) % 2 == 1) return list.add(right, -1);
        return list.add(right - 1, place + 1) && list.add(right, place);
    }
};

}  // namespace vs
