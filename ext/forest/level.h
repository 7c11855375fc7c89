// The functions of a SIMD level for forests, in one table that forest/level.cpp fills per level,
// and the passes that they work on.
#pragma once

#include "core/sum.h"
#include "forest/cut.h"
#include "forest/nbest.h"
#include "forest/request.h"
#include "forest/worth.h"
#include "islands/rules.h"
#include "pool/plan.h"
#include "rows/pack_table.h"

namespace vs {

// One pass in one arithmetic: its request, and what all workers share beside that. The memory of
// answers that were not asked for, and are needed on the way, stands in place of theirs.
struct Pass : Request {
    int arithmetic = 0;
    const Packing *packing = nullptr, *depth = nullptr;  // of each table; the latter for energies
    bool one_way = false;  // messages one way; kWiden asks for a full pass in the same arithmetic
    int32_t* status = nullptr;   // (B,)
    Scratch* scratch = nullptr;  // one per worker
    Control* control = nullptr;
    IslandState* state = nullptr;
};

// Chains.
struct PathPass : Pass {
    const int64_t* order = nullptr;  // sequences, longest first
    void** split = nullptr;  // lanes (forward, backward) of each chain that is cut in passes
    // Chunks of chains that are cut, their ends, and four rows of each.
    const Chunk* chunk = nullptr;
    ChunkEnd* chunk_end = nullptr;
    void* cut_rows = nullptr;
    bool again = false;  // chunks whose entries were wrong are done again
    double agree = 0.0;  // see CutRule
    int64_t run_in = 0;  // the answer of a probe
    // Of samples: (chunks, size) the states behind a chunk's own part; (chunks, kTailRows, K)
    // messages at its end.
    int64_t* into = nullptr;
    void* tails = nullptr;
    bool proved = false;  // their forward messages are right, as a pass both ways has told
    // The latest sequence of which a chunk did not go well, or -1: the rest of it is in vain.
    std::atomic<int64_t>* in_vain = nullptr;
    Counts* counts = nullptr;  // of islands side by side: of each sequence of the order
    // In passes to the best states: the table, or null where each edge has its own; one per worker.
    const Scores* scores = nullptr;
    ScanBackoff* backoff = nullptr;
};

// A part of a sequence in log Z. Parts have a fixed size, so that sums do not show who added them.
struct IslandPart {
    int64_t first, last;     // slots
    double log_mass, added;  // by floors
};

// Rows of a call with islands on sequences that follow one another, by slot as all here.
struct PathIslands : Pass {
    int64_t begin = 0;              // position of slot 0
    const int32_t* tree = nullptr;  // number of the sequence
    const int64_t* edge = nullptr;  // of each sequence: edge[tree[q]] + q leads into slot q
    const void **f, **b;            // message from the left, from the right
    void **own_f, **own_b;          // rows allocated for them
    const void** row;               // its local factor, while its piece is passed through
    double *scale_f, *scale_b, *mass, *shift;
    float* added;  // what floors may have added, relative to the mass
    IslandPart* part;
    const int64_t* order;  // (n_sequences,) what they are in the model
    int64_t n_sequences;
    uint8_t* made;  // (n_sequences,) answered exactly with local factors that are made already
};

// Sums over the nodes of one block (or, where several trees share a block, of one tree).
struct Account {
    double shift = 0.0, rest = 0.0;  // of local factors and tables: a compensated sum
    Sum scale;                       // taken out of messages, in units of the arithmetic
    double added = 0.0;              // what floors may have added, relative to Z
    double log_end = 0.0;            // log sum of what a root knows
    int32_t status = kOk;
};

// The rows of a call with islands on trees, likewise.
struct TreeRows {
    const void **u, **y;    // messages of each slot to its parent, and from it
    void **own_u, **own_y;  // rows allocated for that
    void** row;             // its product or belief, while its piece is passed through
    double *shift, *scale, *log_mass;
    double* scale_up;  // of the message to the parent, scale: of the belief
    float* added;
    float *floor_gain, *floor_gain_u, *floor_gain_y;  // see BranchingRows::gained
    Scratch* keep;                                    // one per worker
};

// Trees.
struct BranchingPass : Pass {
    TreeView t;
    const Chains* tables = nullptr;  // one for each table that is packed: `transition` differs
    int64_t n_table_views = 0;       // 1 when each edge has its own
    const int32_t* which = nullptr;  // (n,) table of the edge above a slot, or null: all the same
    int64_t stride = 0;
    const uint8_t* todo = nullptr;  // (n_trees,) trees to work on, or null: all
    Account* account = nullptr;     // (n_trees + n_blocks,)
    void* alpha = nullptr;          // (n, stride) what a node knows from below, or null
    void* up = nullptr;    // (n, stride) message to the parent, or null: made again on the way down
    int64_t together = 0;  // messages that can be multiplied without scaling
    void* block_up = nullptr;  // (n_blocks, stride) product of the messages of the block's roots
    int64_t* block_exponent = nullptr;  // (n_blocks, stride) of its entries, where block_wide
    uint8_t* block_wide = nullptr;      // (n_blocks,)
    void* block_down = nullptr;  // (n_blocks, stride) the belief of the parent of the block's roots
    void* kept_alpha = nullptr;  // (n, stride) for samples, or null
    // (n, stride) by slot, or null: xi(l, k) = left(l) E(l, k) right(k) of the edge above.
    void *edge_left = nullptr, *edge_right = nullptr;
    TreeRows* rows = nullptr;
    // Decoding: scores of each table, transposed and, for flipped edges, not; null where edges have
    // theirs.
    const Scores *scores_up = nullptr, *scores_down = nullptr;
    ScanBackoff* backoff = nullptr;  // one per worker
};

// Tasks of a pass, and what their item holds: sequences of the order, or one that is cut; a block
// (its first entry); slots; samples.
enum class Verb {
    kPathExact,    // by their kind; `sums`: where the task adds expectations, or null
    kPathIslands,  // of sequences side by side; those that are not answered stay kWithout
    kPathOpen,     // the two lanes of a sequence that is cut, and closing them
    kPathClose,
    // By the calling thread: reads how fast influence dies in a sequence; compares the entries of
    // chunks (kForward or kBackward) with the messages of their neighbours; passes the true one on.
    kPathProbe,
    kPathCompare,
    kPathPassOn,
    kPathBest,  // the best states by kind: of sequences, of chunks
    // By the calling thread, likewise: a probe; compares rows that enter (kForward) or states that
    // are left; does a chunk again from the true row (kForward), and to the true state; adds up.
    kPathBestProbe,
    kPathBestCompare,
    kPathBestAgain,
    kPathBestScore,
    kPathSample,  // by kind: sequences, chunks
    // By the calling thread: compares messages that enter (kForward) or states behind a chunk; does
    // a chunk again from the true message, and (kBackward) to the true state.
    kPathSampleCompare,
    kPathSampleAgain,
    kUp,  // blocks
    kDown,
    kEdges,           // slots: energies, pairwise marginals; the latter are added to `sums` too
    kBranchingSample  // samples
};
struct Work {
    Verb verb;
    TaskKind kind;
    Item item;
    int worker;
    double* sums;
};

struct Level {
    PackTable packing;
    void (*run)(Pass* pass, const Work& work);                // of a PathPass or BranchingPass
    const IslandVerbs* (*path_islands)(int arithmetic);       // of a PathIslands
    const IslandVerbs* (*branching_islands)(int arithmetic);  // of a BranchingPass
    // First NaN, +inf or finite number beyond kLargest, or -1 and the largest finite magnitude.
    int64_t (*weigh)(int dtype, const void* x, int64_t n, double* found);
    // The best score of a prefix that ends in each label, for m sequences: rows[r] (n, stride of
    // float64 in PackTable::layout), double whatever the model is. table: of doubles, or null.
    void (*prefix_scores)(const Chains* c, const Scores* table, const int64_t* sequences, int m,
                          double* const* rows, Scratch* scratch, ScanBackoff* backoff,
                          Control* control, int caller);
    HeadVerbs heads;
    // MAP of trees: upward pass of a block, or its states from those above.
    void (*best)(BranchingPass* pass, bool upward, int64_t block, int worker);
    // The state of each row of a list whose share reaches zeta, or -1; see LikelyRow.
    void (*likely)(int dtype, const LikelyRow* list, int n, const LikelyRule& rule, int* out);
    // Entries >= least of a row, their labels first; the largest where there are none. Returns how
    // many; `labels` null: nothing else. *rest: the largest of the others, or 0.
    int64_t (*list_row)(int dtype, const void* row, int64_t labels_in_row, double least,
                        int32_t* labels, void* values, double* rest);
    // x(j) += weight(j), of which x has space for whole vectors; returns log sum_j exp x(j), and
    // the entropy of j together with below(j).
    double (*conditional)(double* x, const double* weight, const double* below, int n,
                          double* entropy);
    // Fills in a Comparison from n rows of a component, those of variables `first` on, which are
    // divided by their sums, which then are 1 up to K roundings of half of `rounded`; below 0: not.
    void (*compare)(int dtype, const void* rows, int64_t labels_in_row, const Comparison& c,
                    int64_t first, int64_t n, int64_t component, double rounded);
    // For benchmarks; both return the flops done. peak: independent FMAs. message_pass: forward
    // and backward messages of `rows` sequences, nothing else.
    double (*peak)(int dtype, int64_t iterations);
    double (*message_pass)(int dtype, int64_t labels, int64_t rows, int64_t positions,
                           Scratch* scratch);
};

const Level& level();  // the one in use

}  // namespace vs
