// Chains whose labels depend on two labels before them, and chains of segments: exact passes in
// logarithms, sequence by sequence, which are the tasks of the pool.
#pragma once

#include <cstdint>

#include "pool/pool.h"

namespace vs::higher {

// B sequences end to end, float64 throughout; -inf forbids.
struct LongerModel {
    int64_t labels = 0, sequences = 0;
    const int64_t* offset = nullptr;     // (B + 1,) first position of each sequence
    const double* unary = nullptr;       // (N, K)
    const double* transition = nullptr;  // (K, K, K) [before, from, to]; of segments (K, K)
    const double *start = nullptr, *end = nullptr;  // (K,)
    const double* first = nullptr;  // (K, K) of the first two labels, of chains of order 2
    int64_t longest = 0;            // of segments: 0 in a chain of order 2
    const double* segment =
        nullptr;  // (N, longest, K) of segments by their first position, or null
};

// The answers that are wanted; null is not.
struct LongerRequest {
    double* log_z = nullptr;      // (B,), or the scores of the best (n_best, B)
    double* marginals = nullptr;  // (N, K)
    // Marginals of neighbours (edges, K, K), edge i of a sequence after those before it, or of
    // segments (N, longest, K).
    double* joint = nullptr;
    const int64_t* edge = nullptr;  // (B + 1,)
    // Order 2: summed marginals of three labels in a row, (chunks, K, K, K), zeros before; a chunk
    // of sequences is one task, so that the order of a sum is that of the data.
    double* triples = nullptr;
    int64_t chunks = 0;
    int64_t* best = nullptr;  // (n_best, N); where there are fewer, -1, and -inf in log_z
    int64_t n_best = 1;
    int64_t* samples = nullptr;  // (size, N), by uniform numbers of that shape
    const double* uniforms = nullptr;
    int64_t size = 0;
};

struct LongerReport {
    Status status = kOk;
    int64_t sequence = -1, position = -1;  // the first that is impossible, and where
};

LongerReport answer(const LongerModel& model, const LongerRequest& ask, const PoolApi& pool,
                    int threads, Control* control);

}  // namespace vs::higher
