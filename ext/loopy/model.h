// A loopy graph laid out for message passing: what the engine computes on.
//
// Factors of two and more variables send messages; tables of one variable, and evidence, are summed
// into `local` by the caller. An edge is a (factor, variable) pair, numbered in the order of the
// factors' scopes; its message has card[variable] log-numbers, the largest being 0.
#pragma once

#include <cstdint>
#include <vector>

#include "simd/level.h"

namespace vs {

// One factor as a kernel meets it: `theta` row-major over `card`, the last variable fastest.
struct LoopyTable {
    int arity;
    const int64_t* card;      // (arity,)
    const double* theta;      // log-table
    const double* weight;     // exp((theta - top) / rho)
    double inverse_rho, top;  // top: the largest entry of theta, 0 where there is none
    int64_t size;
};

struct LoopyLevel {
    // out[i] (card[i],) += what the factor sends to its variable i in plain numbers, given
    // in[j] = exp of the log-messages to it; scratch (2 arity,).
    void (*products)(const LoopyTable& f, const double* const* in, double* const* out,
                     double* scratch);
};

const LoopyLevel* loopy_level_scalar();
const LoopyLevel* loopy_level_v2();
const LoopyLevel* loopy_level_v3();
const LoopyLevel* loopy_level_v4();
const LoopyLevel* loopy_level_neon();

}  // namespace vs
