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
