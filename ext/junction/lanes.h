// A clique for several questions at once, one in each lane: tables stand once, messages once a lane.
#pragma once

#include <cstdint>

#include "simd/level.h"

namespace vs {

constexpr int kLanes = 8;  // of every level: questions go side by side in the same groups

// The entries of a clique that are not zero, by the setting of its separator: those of setting s
// are [ptr[s], ptr[s + 1]). Tables with lanes have kLanes numbers for each of their entries; at[k][e]
// is the entry of table k that entry e meets.
struct LaneClique {
    const double* psi;
    const int32_t* ptr;
    int64_t n_separator;
};

struct LanesUp {
    LaneClique clique;
    int n_in;
    const double* const* in;
    const int32_t* const* at;
    double* product;  // of psi and all that comes in, for each entry
    double* message;  // the sums of these, for each setting of the separator
};

struct LanesDown {
    LaneClique clique;
    const double* product;
    const double* message;  // from above, for each setting of the separator; null at roots
    int n_out;
    double* const* out;  // where product times message is added
    const int32_t* const* at;
    const double* weight;  // (kLanes,) times this, it is added to `counts`, too, where not null
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
    // to[at[e]] += x[e] of n entries.
    void (*add)(const double* x, const int32_t* at, int64_t n, double* to);
    // The sum of x * y, of n entries; y may be null, for ones.
    void (*dot)(const double* x, const double* y, int64_t n, double* sum);
    // x = x / by (kLanes,), 0 where that is 0.
    void (*share)(double* x, const double* by, int64_t n);
};

}  // namespace vs
