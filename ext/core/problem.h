// The input of a kernel: plain data, the same for every SIMD level.
#pragma once

#include <atomic>
#include <cstdint>

namespace vs {

// The largest magnitude of a finite log-potential. No sum of several over a chain of any length
// can overflow, nor the difference of two such sums: what is finite stays so.
constexpr double kLargest32 = 1e28, kLargest64 = 1e290;

// Trees and graphs: the sum S of the largest finite magnitudes of all tables, soft evidence
// included. Numbers there have exponents of their own, of 64 bits. Tables are divided by their
// largest entries, messages by theirs, so whatever is multiplied or divided on the way is a sum
// over n variables of products of entries, less at most one such scale:
//   |e| <= 2 S log2(e) + log2(configurations) <= 2.89 S + 31 n,
// and int64 holds 9.2e18. Beside that, what a bound or a forest is made of may have a sum of its
// own, of models derived from what a user gave: those are held to kCarriedSum, with |e| < 2.9e18.
// Logarithms (log Z, scores) are doubles and err by a few eps times S: 22 at 1e17.
constexpr double kLargestSum = 1e17, kCarriedSum = 1e18;

enum DType : int { kFloat32 = 0, kFloat64 = 1 };

struct SparseTable;  // rows/sparse_table.h

// A batch of B chains laid end to end. Arrays are C-contiguous and validated.
struct Chains {
    const void* unary;       // (N, K)
    const void* transition;  // (K, K), or (edges, K, K) when per_edge; null: `sparse` alone has it
    const void* start;       // (K,) or null
    const void* end;         // (K,) or null
    const uint8_t* allowed;  // (N, K) or null
    const int64_t* offset;   // (B + 1,) first position of each sequence
    const int64_t* edge;     // (B + 1,) first edge of each sequence
    int64_t n_positions, n_labels, n_sequences;
    int dtype;
    bool per_edge;
    const SparseTable* sparse = nullptr;  // the transition, where reading its listed pairs pays
};

// Why a sequence stopped. Widen: linear arithmetic is not good enough for it, take the next one.
// Without: islands are not worth what they cost it, and it is answered exactly.
enum Status : int32_t {
    kOk = 0,
    kWiden = 1,
    kInfeasible = 2,
    kCancelled = 3,
    kNoMemory = 4,
    kWithout = 5
};

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
    int64_t without = 0;  // components that were answered exactly where islands were asked for
};

}  // namespace vs
