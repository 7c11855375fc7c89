// The functions of a SIMD level for trees, in one table that tree/level.cpp fills per level.
#pragma once

#include "rows/pack_table.h"
#include "core/problem.h"
#include "core/scratch.h"
#include "islands/rules.h"
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

// The rows of a call with islands, by slot as all here; see IslandState.
struct TreeRows {
    const void **u, **y;    // messages of each slot to its parent, and from it
    void **own_u, **own_y;  // rows allocated for that
    void** row;             // its product or belief, while its piece is passed through
    double *shift, *scale, *log_mass;
    double* scale_up;  // of the message to the parent, scale: of the belief
    float* added;
    float *raised, *raised_u, *raised_y;  // see IslandRows::raised
    Scratch* keep;                        // one per worker
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
    void* alpha;          // (n, stride) what a node knows from below, or null
    void* up;             // (n, stride) message to the parent, or null: made again on the way down
    int64_t together;     // so many messages can be multiplied without scaling; 0: none
    void* block_up;       // (n_blocks, stride) product of the messages of the block's roots
    int64_t* block_exponent;  // (n_blocks, stride) of its entries, where block_wide
    uint8_t* block_wide;      // (n_blocks,)
    void* block_down;         // (n_blocks, stride) the belief of the parent of the block's roots
    void* kept_alpha;         // (n, stride) for samples, or null
    double *log_left, *log_right, *log_mass;  // rows by `edge`, or null; see TreeRequest
    // (n, stride) by slot, or null: xi(l, k) = left(l) E(l, k) right(k) of the edge above.
    void *edge_left, *edge_right;
    double* energies;  // (n,) by `edge`, or null; see TreeRequest
    void* pairwise;    // likewise
    const int64_t* pairwise_row;
    const Packing* depth;  // one for each table, for energies; null where not packed
    bool typed;            // expectations: one sum for each type
    Scratch* scratch;      // one per worker
    Control* control;
    IslandState* state = nullptr;  // of a call with islands
    TreeRows* rows = nullptr;
    double zeta = 1.0;
};

struct TreeLevel {
    PackTable pack;
    // Energies and pairwise marginals of the edges above slots [first, last); the latter are added
    // to `sums` (types, K, K) or null, too.
    void (*edges)(int arithmetic, TreePass* pass, int64_t first, int64_t last, double* sums,
                  int worker);
    // Upward and downward pass of a block.
    void (*up)(int arithmetic, TreePass* pass, int64_t block, int worker);
    void (*down)(int arithmetic, TreePass* pass, int64_t block, int worker);
    void (*sample)(int arithmetic, TreePass* pass, int64_t size, const double* uniforms,
                   int64_t* states, int worker);
    const IslandVerbs* (*islands)(int arithmetic);  // of a TreePass
    // MAP: upward pass of a block, and its states from those above. `packed`: per table, how
    // scores go up and (where edges are flipped) down.
    void (*decode_up)(TreePass* pass, const void* const* packed, const void* const* turned,
                      int64_t block, int worker);
    void (*decode_down)(TreePass* pass, int64_t* states, int64_t block, int worker);
};

}  // namespace vs
