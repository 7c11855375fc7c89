// Chains whose labels depend on two labels before them, and chains of segments: exact passes, by
// groups of sequences, which are the tasks of the pool. Messages are scaled numbers; a sequence for
// which doubles have not the range is answered in logarithms.
#pragma once

#include <cstdint>

#include "pool/pool.h"
#include "simd/level.h"

namespace vs::higher {

// B sequences end to end, float64 throughout; -inf forbids.
struct LongerModel {
    int64_t labels = 0, sequences = 0;
    const int64_t* offset = nullptr;     // (B + 1,) first position of each sequence
    const double* unary = nullptr;       // (N, K)
    const double* transition = nullptr;  // (K, K, K) [before, from, to]; of segments (K, K)
    const double *start = nullptr, *end = nullptr;  // (K,)
    const double* first = nullptr;     // (K, K) of the first two labels, of chains of order 2
    int64_t longest = 0;               // of segments: 0 in a chain of order 2
    const double* duration = nullptr;  // (longest, K) of segments by their length, or null
    const double* segment = nullptr;   // (N, longest, K) by their first position, too, or null
};

// The answers that are wanted; null is not.
struct LongerRequest {
    double* log_z = nullptr;      // (B,), or the scores of the best (n_best, B)
    double* marginals = nullptr;  // (N, K)
    // Marginals of neighbours (edges, K, K), edge i of a sequence after those before it, or of
    // segments (N, longest, K).
    double* joint = nullptr;
    const int64_t* edge = nullptr;  // (B + 1,)
    // Expected counts of the entries of the transition, (chunks, K, K, K), or (chunks, K, K) of
    // segments, zeros before; a chunk of sequences is one task, so that the order of a sum is that
    // of the data.
    double* expected = nullptr;
    int64_t chunks = 0;
    double* entropy = nullptr;  // (B,)
    int64_t* best = nullptr;    // (n_best, N); where there are fewer, -1, and -inf in log_z
    int64_t n_best = 1;
    int64_t* samples = nullptr;  // (size, N), by uniform numbers of that shape
    const double* uniforms = nullptr;
    int64_t size = 0;

    bool both_ways() const { return marginals || joint || expected || entropy; }
};

struct LongerReport {
    Status status = kOk;
    int64_t sequence = -1, position = -1;  // the first that is impossible, and where
    int64_t logarithms = 0;                // sequences that were answered so
};

LongerReport answer(const LongerModel& model, const LongerRequest& ask, const PoolApi& pool,
                    int threads, Control* control);
void use_simd(const SimdApi* simd) noexcept;

}  // namespace vs::higher
