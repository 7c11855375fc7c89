// Features that cannot have a large gain, told by the chances of their states alone.
//
//   g = log(1 + mu (e^t - 1)) - mu t <= mu (e^t - 1 - t),  mu = P(a = x, b = y, ...),
//
// and mu is at most the smallest of P(a = x), P(b = y), ...
#pragma once

#include <cstdint>
#include <vector>

namespace vs::messages {

// Features of one length.
struct FeatureRows {
    int64_t size;
    int n_variables;       // of each
    const int64_t* scope;  // (size, n_variables)
    const int64_t* state;  // (size, n_variables) in which they fire, or (n_variables,) of all
    bool same_state;       // the latter
    const double* weight;  // (size,) t
};

// What is known of the variables.
struct Chances {
    const double* chance;   // no less than P(v = x), from offset[v] on
    const int64_t* offset;  // (n_variables,)
    int64_t n_variables;
    // Pairs v < w that a table holds, v * n_variables + w, ascending: rows that are such a pair are
    // kept. `maybe`: their last bits, in either order, by which most others are told; its size is a
    // power of two.
    const int64_t* pair;
    int64_t n_pairs;
    const uint8_t* maybe;
    int64_t maybe_size;
};

// The rows whose gain may be larger than `above`.
std::vector<int64_t> rows_worth(const FeatureRows& rows, const Chances& known, double above);

}  // namespace vs::messages
