// The functions of a SIMD level for chains, in one table that chain/level.cpp fills per level.
#pragma once

#include "rows/pack_table.h"

namespace vs {

enum TaskKind : int8_t {
    kGroup = 0,
    kForward = 1,
    kBackward = 2,
    kForwardMeet = 3,
    kBackwardMeet = 4
};

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
    double* log_z;                                  // (B,)
    int32_t* status;                                // (B,)
    Scratch* scratch;                               // one per worker
    Control* control;
    bool forward_only;       // log_z alone; kWiden asks for a full pass of the same arithmetic
    int64_t stored_bytes;    // a longer sequence keeps its messages in the output
    void** split = nullptr;  // lanes (forward, backward) of each chain that is cut in passes
};

struct IslandPass {
    const Chains* chains;
    const Packing* packing;
    const int64_t* order;
    void* marginals;
    int32_t* islands;
    double* log_z;
    int32_t* status;
    Scratch *keep, *temporary;  // one of each per worker
    Counts* counts;             // one per worker
    Control* control;
    double zeta;
    int64_t revisit;  // rounds allowed, -1: until nothing changes
    int threads;
    // Runs `count` pieces of work on the pool (null: serially).
    void (*parallel)(void* self, void (*piece)(void*, int64_t, int), void* context, int64_t count);
    void* self;
};

struct Level {
    PackTable packing;
    // Sequences order[first, last) (kGroup) or one pass of order[first].
    void (*exact)(int arithmetic, ExactPass* pass, int kind, int64_t first, int64_t last,
                  int worker, int64_t chunk);
    int64_t (*lane_bytes)();
    // Opens (closes) the two lanes of order[which] for the four half passes.
    bool (*split_open)(int arithmetic, ExactPass* pass, int64_t which, void* forward,
                       void* backward, Scratch* scratch);
    void (*split_close)(int arithmetic, ExactPass* pass, int64_t which, Scratch* scratch);
    // Whole sequences order[first, last), each on one thread.
    void (*islands)(int arithmetic, IslandPass* pass, int64_t first, int64_t last, int worker);
    // One long sequence on the pool.
    void (*islands_long)(int arithmetic, IslandPass* pass, int64_t which, int64_t span);
    // Posterior samples of one sequence: uniforms and states are (size, N), read and written in
    // the columns of the sequence.
    void (*sample)(int arithmetic, ExactPass* pass, int64_t which, int64_t size,
                   const double* uniforms, int64_t* states, int worker);
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
