// The questions of a call about edges of a forest: pairwise marginals, their sums, and energies.
#pragma once

#include "tree/call.h"

namespace vs {

inline bool wants_edge_sums(const TreeRequest& r) {
    return r.expectations || r.energies || r.pairwise;
}

// Memory for the rows that the way down keeps, and tables for energies; false: there is none.
bool open_edge_sums(const TreeRequest& r, Call& call, TreePass& pass, int arithmetic,
                    std::vector<Packing>& depth, Control* control);
// Adds those of the trees in `pass.todo`, after the way down.
void add_edge_sums(const TreeRequest& r, const Call& call, TreePass& pass, int arithmetic,
                   Control* control);

}  // namespace vs
