// Forward-backward of chains with few states and one table: a row lies in a register or two, so
// that a step takes as long as its additions, where the engine of chains spends it on verbs that
// serve any number of states. And log-densities of normal distributions.
#pragma once

#include <cstdint>

#include "pool/pool.h"
#include "simd/level.h"

namespace vs::hmm {

// All rows but those of `scores` and `posteriors` are padded with zeros to `padded` numbers.
//
//   x_i = (x_{i-1} E) psi_i / sum x_{i-1}      b_{i-1} = E (psi_i b_i / sum b_i)
//
// so that Z is the product of sum x_i. What underflows has less than 1e-200 of the mass of its row;
// a row whose sums are below kLeast, or in which the two directions share less than that, is
// refused, and with it the call: the engine of chains has the range for it.
struct Few {
    static constexpr double kLeast = 1e-100;
    static constexpr int64_t kRows = 2048;  // of a task

    int64_t n, states, padded, sequences;
    const int64_t* offset;               // (sequences + 1,)
    const double* scores;                // (n, states) log-likelihood of each row in each state
    const double* start;                 // (states,) probabilities
    const double* table;                 // (states, states) probabilities, [from, to]
    double *local, *forward, *backward;  // (n, padded)
    double* top;                         // (n,) the largest score of each row
    double* posteriors;                  // (n, states)
    double* log_z;                       // (sequences,)
    double* sums;                        // (states, states) expected transitions
    Control* control;
};

// False: refused, and nothing that was written counts.
bool expect(const Few& f, const PoolApi& pool, int threads, Control* control);

// scores = constant - sum_f (x_f - mean_f)^2 scale_f, at least `least`.
struct Diagonal {
    int64_t n, states, features;
    const double* rows;      // (n, features)
    const double* means;     // (features, states)
    const double* scale;     // (features, states)
    const double* constant;  // (states,)
    double least;
    double* scores;  // (n, states)
};

void diagonal(const Diagonal& d, const PoolApi& pool, int threads, Control* control);

int64_t padded(int64_t states);
void use_simd(const SimdApi* simd) noexcept;

}  // namespace vs::hmm
