// What a kernel is given: plain data, the same for every SIMD level.
#pragma once

#include <atomic>
#include <cstdint>

namespace vs {

// The largest magnitude of a finite log-potential. No sum of several over a chain of any length
// can overflow, nor the difference of two such sums: what is finite stays so.
constexpr double kLargest32 = 1e28, kLargest64 = 1e290;

enum DType : int { kFloat32 = 0, kFloat64 = 1 };

// A batch of B chains laid end to end. Arrays are C-contiguous and validated.
struct Chains {
    const void* unary;       // (N, K)
    const void* transition;  // (K, K), or (edges, K, K) when per_edge
    const void* start;       // (K,) or null
    const void* end;         // (K,) or null
    const uint8_t* allowed;  // (N, K) or null
    const int64_t* offset;   // (B + 1,) first position of each sequence
    const int64_t* edge;     // (B + 1,) first edge of each sequence
    int64_t n_positions, n_labels, n_sequences;
    int dtype;
    bool per_edge;
};

// Why a sequence stopped. Widen: linear arithmetic cannot vouch for it, take the next domain.
enum Status : int32_t { kOk = 0, kWiden = 1, kInfeasible = 2, kCancelled = 3, kNoMemory = 4 };

// Shared by all workers of one call. The calling thread polls (signals, deadline, progress);
// the others only look at `stop`.
struct Control {
    std::atomic<int> stop{0};
    int (*poll)(void*) = nullptr;
    void* arg = nullptr;
    std::atomic<int64_t> done{0};  // positions finished
};

// Counts of SMM11 section 3, summed over sequences.
struct Counts {
    int64_t islands = 0, segments = 0, full = 0, sparse = 0;
    int64_t released = 0, flipped = 0, rounds = 0, unsettled = 0, widened = 0;
};

}  // namespace vs
