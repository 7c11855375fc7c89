// A junction tree: cliques of a triangulation, each with the separator to its parent.
#pragma once

#include <cstdint>
#include <vector>

#include "junction/elimination.h"

namespace vs::junction {

struct CliqueTree {
    // Children come before their parents; variables in the order of elimination.
    std::vector<Set> clique, separator;
    std::vector<int32_t> parent;  // -1 at roots
    std::vector<int32_t> home;    // (n,) the clique in which each variable is eliminated
    int width = 0;                // variables of the largest clique before merging, minus one
    std::vector<int32_t> rank;    // (n,) position in the elimination order
};

// Cliques that lie within another are not kept; small ones are merged into their parents where
// that costs fewer than `merge` table entries more.
CliqueTree build_cliques(const Elimination& e, const std::vector<double>& values, double merge);

}  // namespace vs::junction
