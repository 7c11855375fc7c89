// The functions of a SIMD level for trees, in one table that tree/level.cpp fills per level.
#pragma once

#include "rows/pack_table.h"
#include "core/problem.h"
#include "core/scratch.h"
#include "tree/layout.h"

namespace vs {

// Sums over the nodes of one block (or, where several trees share a block, of one tree).
struct Account {
    double shift = 0.0, rest = 0.0;  // of local factors and tables: a compensated sum
    double scale = 0.0;              // taken out of messages, in units of the arithmetic
    double added = 0.0;              // what floors may have added, relative to Z
    double log_end = 0.0;            // log sum of what a root knows
    int32_t status = kOk;
};

// The state of a call with islands.
struct IslandState {
    uint8_t *flag, *event;  // (n,) by slot, as all here
    int32_t* held;
    const void **u, **y;    // messages of each slot to its parent, and from it
    void **own_u, **own_y;  // rows allocated for that
    double *shift, *scale, *log_mass;
    double* scale_up;  // of the message to the parent, scale: of the belief
    float* added;
    float *raised, *raised_u, *raised_y;  // see TreeIslands::raised
    // The pass in which the message to (from) the parent has changed, in which q was released.
    uint32_t *changed_u, *changed_y, *fresh;
    uint32_t* stamp;                      // the round in which a slot was listed
    std::atomic<int32_t>* tree_status;    // (n_trees,)
    int64_t *changed, *pieces, *touched;  // (n,)
    int64_t n_changed = 0, n_pieces = 0, n_touched = 0;
    uint32_t round = 0, pass = 1;
    bool decides_late = false;  // revisiting is allowed
    Scratch* keep;              // one per worker
    Counts counts;
    Counts* block_counts;  // (n_blocks,)
    std::atomic<int64_t> full{0}, sparse{0};
};

enum IslandStep : int {
    kIslandsLocals,
    kIslandsRows,
    kIslandsFind,
    kIslandsFirst,
    kIslandsAll,
    kIslandsDecide,
    kIslandsPieces,
    kIslandsAround,
    kIslandsRefresh,
    kIslandsTally,
    kIslandsCount
};

// One pass over a forest; shared by all workers. T: the type of the arithmetic.
struct TreePass {
    TreeView t;
    const Chains* tables;    // one for each table of pairwise: they differ in `transition`
    const Packing* packing;  // one for each of them
    int64_t n_tables;        // 1 when per_edge
    const int32_t* which;    // (n,) table of the edge above each slot, or null: all the same
    int64_t dtype, n_labels, stride;
    void* marginals;      // (n, K) or null
    bool upward_only;     // log_z alone: see ExactPass::forward_only
    double* log_z;        // (n_trees,)
    const uint8_t* todo;  // (n_trees,) trees to work on, or null: all
    Account* account;     // (n_trees + n_blocks,)
    void* alpha;          // (n, stride) what a node knows from below; null where upward_only
    void* up;             // (n, stride) message to the parent, or null: made again on the way down
    int64_t together;     // so many messages can be multiplied without scaling; 0: none
    void* block_up;       // (n_blocks, stride) product of the messages of the block's roots
    int64_t* block_exponent;  // (n_blocks, stride) of its entries, where block_wide
    uint8_t* block_wide;      // (n_blocks,)
    void* block_down;         // (n_blocks, stride) the belief of the parent of the block's roots
    void* kept_alpha;         // (n, stride) for samples, or null
    double *log_left, *log_right, *log_mass;  // rows by `edge`, or null; see TreeRequest
    Scratch* scratch;                         // one per worker
    Control* control;
    int32_t* islands = nullptr;  // (n,) by node
    IslandState* state = nullptr;
    double zeta = 1.0;
};

struct TreeLevel {
    PackTable pack;
    // Upward and downward pass of a block.
    void (*up)(int arithmetic, TreePass* pass, int64_t block, int worker);
    void (*down)(int arithmetic, TreePass* pass, int64_t block, int worker);
    void (*sample)(int arithmetic, TreePass* pass, const double* uniforms, int64_t* states,
                   int worker);
    // A step on a block, or on a part of a list (decide: `last` != 0 means that only contradictions
    // count).
    void (*islands)(int arithmetic, TreePass* pass, int step, int64_t first, int64_t last,
                    int worker);
    // MAP: upward pass of a block, and its states from those above. `packed`: per table, how
    // scores go up and (where edges are flipped) down.
    void (*decode_up)(TreePass* pass, const void* const* packed, const void* const* turned,
                      int64_t block, int worker);
    void (*decode_down)(TreePass* pass, int64_t* states, int64_t block, int worker);
};

}  // namespace vs
