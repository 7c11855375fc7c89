// The functions of a SIMD level for chains, in one table that chain/level.cpp fills per level.
#pragma once

#include "pool/plan.h"
#include "islands/rules.h"
#include "rows/pack_table.h"

namespace vs {

// One exact pass over some sequences; shared by all workers.
struct ExactPass {
    const Chains* chains;
    const Packing* packing;
    const int64_t* order;                           // sequences, longest first
    void* marginals;                                // (N, K) or null
    void* pairwise;                                 // (edges, K, K) or null
    int64_t pairwise_first = 0, pairwise_last = 0;  // edges wanted
    double* expectations;                           // (chunks, K, K), one per task, or null
    const double* weights;                          // (B,) of sequences in expectations, or null
    double *log_forward, *log_outgoing;             // see Request, or null
    double* energies;                               // (N,) see Request, or null
    const Packing* depth;                           // for energies; null where not packed
    double* log_z;                                  // (B,)
    int32_t* status;                                // (B,)
    Scratch* scratch;                               // one per worker
    Control* control;
    bool forward_only;       // log_z alone; kWiden asks for a full pass of the same arithmetic
    int64_t stored_bytes;    // a longer sequence keeps its messages in the output
    void** split = nullptr;  // lanes (forward, backward) of each chain that is cut in passes
};

// A part of a sequence in log Z. Parts have a fixed size, so that sums do not show who added them.
struct IslandPart {
    int64_t first, last;     // slots
    double log_mass, added;  // by floors
};

// Rows of a call with islands on sequences that follow one another, by slot as all here; see
// IslandState.
struct IslandPass {
    const Chains* chains;
    const Packing* packing;
    void* marginals;
    double zeta;
    Scratch* keep;  // one per worker
    IslandState* state;
    int64_t begin;          // position of slot 0
    const int32_t* tree;    // number of the sequence
    const int64_t* edge;    // of each sequence: edge[tree[q]] + q leads into slot q
    const void **f, **b;    // message from the left, from the right
    void **own_f, **own_b;  // rows allocated for them
    const void** row;       // its local factor, while its piece is passed through
    double *scale_f, *scale_b, *mass, *shift;
    float* added;  // what floors may have added, relative to the mass
    IslandPart* part;
};

struct Level {
    PackTable packing;
    // Sequences order[first, last) (kSequences) or one pass of order[first].
    void (*exact)(int arithmetic, ExactPass* pass, TaskKind kind, Item item, int worker,
                  int64_t chunk);
    int64_t (*lane_bytes)();
    // Opens (closes) the two lanes of order[which] for the four half passes.
    bool (*split_open)(int arithmetic, ExactPass* pass, int64_t which, void* forward,
                       void* backward, Scratch* scratch);
    void (*split_close)(int arithmetic, ExactPass* pass, int64_t which, Scratch* scratch);
    const IslandVerbs* (*islands)(int arithmetic);  // of an IslandPass
    // Posterior samples of sequences order[first, last): uniforms and states are (size, N), read
    // and written in the columns of the sequences.
    void (*sample)(int arithmetic, ExactPass* pass, Item item, int64_t size, const double* uniforms,
                   int64_t* states, int worker);
    // First NaN, +inf or finite number beyond kLargest, or -1 and the largest finite magnitude.
    int64_t (*weigh)(int dtype, const void* x, int64_t n, double* found);
    // packed: transition in tiles padded with -inf (PackTable::pack_scores), or null.
    void (*viterbi)(const Chains* c, const void* packed, int64_t sequence, int64_t* states,
                    double* score, Scratch* scratch, Control* control, int caller);
    // The best score of a prefix that ends in each label: rows (n, stride of float64 in
    // PackTable::layout), double whatever the model is. packed: of doubles, or null.
    void (*prefix_scores)(const Chains* c, const void* packed, int64_t sequence, double* rows,
                          Scratch* scratch, Control* control, int caller);
    // For benchmarks; both return the flops done. peak: independent FMAs. message_pass: forward
    // and backward messages of `rows` sequences, nothing else.
    double (*peak)(int dtype, int64_t iterations);
    double (*message_pass)(int dtype, int64_t labels, int64_t rows, int64_t positions,
                           Scratch* scratch);
};

}  // namespace vs
