// The order in which a forest is worked through, compiled once per model.
//
// The forest is cut into blocks. A block is a run of siblings, its roots, with what lies below
// them, less what was cut off. The roots of a block have one parent, which lies in another block,
// or none: then they are roots of trees, and small trees share a block. Blocks are numbered parents
// first; inside a block nodes stand level by level, so that the children of a node are neighbours,
// and so that consecutive slots can mostly be worked on together. The cutting depends on the forest
// alone.
#pragma once

#include <cstdint>
#include <vector>

#include "simd/level.h"

namespace vs {

// The view of the kernels; everything is counted in slots, the place of a node in that order.
struct TreeView {
    int64_t n = 0, n_trees = 0, n_blocks = 0;
    const int32_t* node = nullptr;                // (n,) the node in each slot
    const int32_t* parent = nullptr;              // (n,) slot of the parent, -1 at a root
    const int32_t* children = nullptr;            // (n,) first child in the same block
    const int32_t* children_end = nullptr;        // (n,) and one past the last
    const uint8_t* children_elsewhere = nullptr;  // (n,) some children are roots of other blocks
    const int32_t* edge = nullptr;                // (n,) whose row of pairwise the edge above is
    const uint8_t* flipped = nullptr;  // (n,) the model's edge runs from this node to its parent
    const int32_t* tree = nullptr;     // (n,) number of the tree
    const int64_t* begin = nullptr;    // (n_blocks + 1,) first slot of each block
    const int32_t* block_roots = nullptr;  // (n_blocks,) how many
    const int32_t* above = nullptr;        // (n_blocks,) slot of the parent of its roots, -1: none
    const int32_t* below_ptr = nullptr;    // (n_blocks + 1,)
    const int32_t* below = nullptr;        // blocks below a block, ascending
    bool any_flipped = false;

    // f(child) for all children of a slot, in other blocks first.
    template <class F>
    VS_INLINE void for_children(int64_t s, F f) const {
        if (children_elsewhere[s]) {
            int64_t lo = 0, hi = n_blocks;  // the block of s
            while (hi - lo > 1) {
                const int64_t mid = lo + (hi - lo) / 2;
                (begin[mid] <= s ? lo : hi) = mid;
            }
            int64_t k = below_ptr[lo], end = below_ptr[lo + 1];
            for (int64_t step = end - k; step > 0;) {  // the first below s or a later slot
                const int64_t half = step / 2;
                if (above[below[k + half]] < s) {
                    k += half + 1;
                    step -= half + 1;
                } else {
                    step = half;
                }
            }
            for (; k < end && above[below[k]] == s; ++k) {
                const int64_t first = begin[below[k]];
                for (int64_t c = first; c < first + block_roots[below[k]]; ++c) f(c);
            }
        }
        for (int64_t c = children[s]; c < children_end[s]; ++c) f(c);
    }
};

struct Layout {
    int64_t n = 0, n_trees = 0, n_blocks = 0, longest_block = 0;
    std::vector<int32_t> node, parent, children, children_end, edge, tree, block_roots, above,
        below_ptr, below;
    std::vector<int32_t> slot;  // of each node
    std::vector<uint8_t> flipped, children_elsewhere;
    std::vector<int64_t> begin, root;  // root: the model's, ascending
    bool any_flipped = false;

    enum Problem { kNone, kRange, kSelf, kCycle };
    Problem problem = kNone;
    int64_t where = -1;

    TreeView view() const;
};

// parent: (n,), -1 at roots. target: nodes of a block, roughly. `problem` names a bad parent.
Layout compile_tree(const int64_t* parent, int64_t n, int64_t target);

}  // namespace vs
