// exp(transition) for one compute type, and the functions of a SIMD level that make it.
#pragma once

#include "core/problem.h"
#include "core/scratch.h"
#include "rows/sparse_table.h"

namespace vs {

// See Packed in input.h.
struct Packing {
    void *forward = nullptr, *backward = nullptr, *rows = nullptr, *columns = nullptr;
    double shift = 0.0, reach = 0.0;
    bool floored = false, positive = false;
    bool sparse = false;  // the sides below stand in place of tables
    SparseSide sparse_forward, sparse_backward;
    bool depth = false;  // entries are times shift - t: see Depth in edges.h
    enum Finding : uint8_t { kFloored = 1, kForbids = 2, kNotPacked = 4 };  // the last: no memory
};

// The arithmetics, from fast to wide: (compute, input) pairs.
enum Arithmetic : int {
    kLinear32 = 0,  // float, float
    kLinear32of64,  // float, double: of exact passes for marginals, where that is asked for
    kLinear64,      // double, double
    kLog,           // logarithms, double
};
inline bool is_log(int arithmetic) { return arithmetic == kLog; }
inline bool is_single(int arithmetic) {
    return arithmetic == kLinear32 || arithmetic == kLinear32of64;
}
// Those for a dtype, from fast to wide; returns how many. What float32 cannot hold is asked again
// in float64 (forest/in_double.h). `narrow`: scores in float64 may be computed with in float32.
inline int arithmetics_of(int dtype, bool narrow, int* out) {
    int n = 0;
    if (dtype == kFloat32) {
        out[n++] = kLinear32;
        return n;
    }
    if (narrow) out[n++] = kLinear32of64;
    out[n++] = kLinear64;
    out[n++] = kLog;
    return n;
}

// A table as messages of the best configuration read it: in tiles, and where there are many labels
// (sorted_scan.h) row by row with the largest entry of each column. All are of one type.
struct Scores {
    const void *tiles = nullptr, *rows = nullptr, *tops = nullptr;
    const void* columns = nullptr;  // (K, stride), -inf beyond: for steps back, where no rows are
    const ListedScores* listed = nullptr;  // in place of them
    // Labels from which on a scan may be faster, and up to which there are tiles for one row.
    static int64_t rows_from(int dtype) { return dtype == kFloat32 ? 256 : 128; }
    static constexpr int64_t kTilesTo = 512;
};

// Where the scan of sorted_scan.h has not paid it is not tried again for `wait` messages, each time
// for longer. One for each worker: only time depends on it.
struct ScanBackoff {
    int length = 0, wait = 0;
};

struct PackTable {
    void (*layout)(int dtype, int64_t labels, int64_t* stride, int64_t* packed);
    double (*max_finite)(int dtype, const void* x, int64_t n);
    // Rows [l0, l1) of the packing; l0 a multiple of 64. Row sums go to `sums`, and
    // findings[l] is what row l holds (Packing::Finding).
    void (*pack)(int compute, const Chains* c, Packing* p, int64_t l0, int64_t l1, double* sums,
                 uint8_t* findings, Scratch* scratch);
    // Rows [l0, l1) of a table for messages of logarithms: see wide_table.h. Each side takes 3 K
    // rows of `stride` numbers. False: its scores are too large.
    bool (*pack_wide)(const double* table, int64_t labels, int64_t l0, int64_t l1, double* forward,
                      double* backward);
    // The scores themselves, of type `compute`, padded with -inf.
    void (*pack_scores)(int compute, const Chains* c, void* packed);
    // (stride,) the largest score of each column of a (K, K) table of type `dtype`, in `compute`.
    void (*column_tops)(int compute, int dtype, const void* table, int64_t labels, void* tops);
};

}  // namespace vs
