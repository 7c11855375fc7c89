// A factor graph as plain data, and the values that are possible.
#pragma once

#include <cstdint>
#include <vector>

#include "core/problem.h"
#include "core/sum.h"

namespace vs::junction {

// n variables with card[v] values; factor f is a log-table over scope[scope_ptr[f]..), the last
// variable changing fastest. The arrays belong to the caller.
struct Graph {
    int64_t n = 0;
    const int64_t* card = nullptr;
    int64_t n_factors = 0;
    const int64_t* scope_ptr = nullptr;  // (n_factors + 1,)
    const int64_t* scope = nullptr;
    const double* const* table = nullptr;  // (n_factors,)
    const uint8_t* forbids = nullptr;      // (n_factors,) some entry is -inf
    const int64_t* identity = nullptr;     // (n,) 0, 1, 2, ...
};

// The values that each variable may still take, ascending.
struct Domains {
    std::vector<int64_t> ptr;    // (n + 1,)
    std::vector<int32_t> value;  // original value of each that is left

    int64_t size(int64_t v) const { return ptr[v + 1] - ptr[v]; }
    const int32_t* values(int64_t v) const { return value.data() + ptr[v]; }
    bool operator==(const Domains& o) const { return ptr == o.ptr && value == o.value; }
};

// A factor's variables and table; numbers from n_factors on stand for soft evidence: a log-vector
// on variable f - n_factors.
struct Factor {
    const int64_t* scope;
    int64_t arity;
    const double* table;
};
inline Factor factor_of(const Graph& g, int64_t f, const double* const* soft) {
    if (f >= g.n_factors) {
        const int64_t v = f - g.n_factors;
        return {g.identity + v, 1, soft ? soft[v] : nullptr};
    }
    return {g.scope + g.scope_ptr[f], g.scope_ptr[f + 1] - g.scope_ptr[f], g.table[f]};
}

// Sums of the scores of factors, and of their magnitudes, under a distribution.
struct ExpectedScore {
    Sum score, magnitude;
};

// Results of find_domains(): every variable has a value left; it was stopped.
constexpr int64_t kReady = -1, kStopped = -2;

// Removes values that no factor's table supports, until nothing changes. `held[v]`: evidence or
// -1. Returns kReady, kStopped, or a variable that has no value left.
int64_t find_domains(const Graph& g, const int64_t* held, Control* control, Domains* out);

}  // namespace vs::junction
