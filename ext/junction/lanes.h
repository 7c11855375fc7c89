// A clique for several questions at once, one in each lane: tables stand once, messages once a
// lane.
#pragma once

#include <cstdint>

#include "simd/level.h"

namespace vs {

constexpr int kLanes = 8;  // of every level: questions go side by side in the same groups

// The entries of a clique that are not zero. Those of row r are [entry[r], entry[r + 1]); rows of
// setting s of the separator are [row[s], row[s + 1]). Tables with lanes have kLanes numbers for
// each of their entries.
struct LaneClique {
    const double* psi;
    const int32_t* entry;
    const int32_t* row;
    int64_t n_separator;
};

// Tables that a clique meets: some are the same along a row, and at[k][r] is the entry that row r
// meets; others vary, and at[k][e] is the one that entry e meets.
template <class T>
struct LaneTables {
    int n;
    T* const* table;
    const int32_t* const* at;
};

struct LanesUp {
    LaneClique clique;
    LaneTables<const double> even, varying;  // what is multiplied in
    double* message;  // the sums of the products, for each setting of the separator
};

struct LanesDown {
    LaneClique clique;
    LaneTables<const double> even, varying;
    const double* message;  // from above, for each setting of the separator; null at roots
    LaneTables<double> even_out, varying_out;  // where the products are added
    const double* weight;  // (kLanes,) times this, they are added to `counts`, too, where not null
    double* counts;        // for each entry, with lanes
};

// The functions of a SIMD level for many questions. Each does the same with every lane.
struct LaneLevel {
    void (*up)(const LanesUp& job);
    void (*down)(const LanesDown& job);
    // Divides n entries by the power of two that brings the largest of a lane into [1/2, 1), and
    // adds it to `bits` (kLanes,), unless null. A lane of zeros stays.
    void (*scale)(double* x, int64_t n, int64_t* bits);
    // x = x / by, 0 where either is 0.
    void (*divide)(double* x, const double* by, int64_t n);
    // x[e] *= by[at[e]] of n entries.
    void (*multiply)(double* x, const int32_t* at, int64_t n, const double* by);
    // to[at[e]] += x[e] of n entries.
    void (*add)(const double* x, const int32_t* at, int64_t n, double* to);
    // The sum of x * y, of n entries; y may be null, for ones.
    void (*dot)(const double* x, const double* y, int64_t n, double* sum);
    // x = x / by (kLanes,), 0 where that is 0.
    void (*share)(double* x, const double* by, int64_t n);
};

}  // namespace vs
