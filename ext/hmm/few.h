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
// so that Z is the product of sum x_i. Underflow takes less than 1e-200 of the mass of a row;
// a row whose sums are below kLeast, or in which the two directions share less than that, is
// refused, and with it the call: the engine of chains has the range for it.
struct FewStates {
    static constexpr double kLeast = 1e-100;
    static constexpr int64_t kRows = 2048;  // of a task

    int64_t n, states, padded, sequences;
    const int64_t* offset;    // (sequences + 1,)
    const double* scores;     // (n, states) log-likelihood of each row in each state
    const int64_t* symbols;   // (n,), in place of scores: the symbol of each row
    const double* emissions;  // (states, alphabet) probability of each symbol
    int64_t alphabet;
    const double* start;                      // (states,) probabilities
    const double* table;                      // (states, states) probabilities, [from, to]
    double *local, *forward, *backward;       // (n, padded)
    double* top;                              // (n,) the largest score of each row
    double* posteriors;                       // (n, states); null: log_z is all that is asked
    double* log_z;                            // (sequences,)
    double* sums;                             // (states, states) expected transitions
    const double *symbol_rows, *symbol_tops;  // (alphabet, padded), (alphabet,): from `emissions`
    Control* control;
};

// False: refused, and nothing that was written counts.
bool expect(const FewStates& f, const PoolApi& pool, int threads, Control* control);

// The best states, in logarithms. Among equals the first state wins, as in the engine of chains.
struct BestStates {
    int64_t n, states, padded, sequences;
    const int64_t* offset;                 // (sequences + 1,)
    const double *scores, *start, *table;  // (n, states), (states,), (states, states): logarithms
    double* rows;                          // (n, padded) the best that ends in each state
    int64_t* best;                         // (n,)
    double* log_p;                         // (sequences,)
    Control* control;
};

// False: a sequence is impossible, and nothing that was written counts.
bool best(const BestStates& b, const PoolApi& pool, int threads, Control* control);

// scores = constant - sum_f white_f^2, at least `least`; white = scale (x - mean), where scale is a
// diagonal, or a lower triangle.
struct Normal {
    static constexpr int64_t kFeatures = 16;  // of triangles: beyond, matrix products are faster

    int64_t n, states, features;
    bool triangle;
    const double* rows;      // (n, features)
    const double* means;     // (features, states)
    const double* scale;     // (features, states), or (features (features + 1) / 2, states)
    const double* constant;  // (states,)
    double least;
    double* scores;  // (n, states)
};

// `means` are (states, features); `scale` has a variance for each, or one a state if `wide`, or is
// (states, features, features), the inverse Cholesky factor.
enum class Scale { variance, variances, factor };
void normal(Normal d, const double* means, const double* scale, Scale kind, const PoolApi& pool,
            int threads, Control* control);

// Whether rows (count, n) are probabilities that sum to 1, about.
bool proper(const double* p, int64_t count, int64_t n, double about);
// counts (count, n) += more, at least 0, over their sums; a row without any stays as it was
// `before`, and with `keep_zeros`, so does a zero.
void dirichlet(double* counts, const double* before, int64_t count, int64_t n, double more,
               bool keep_zeros);
// sums (states, alphabet) of posteriors (n, states) by symbol.
void by_symbol(const int64_t* symbols, const double* posteriors, int64_t n, int64_t states,
               int64_t alphabet, double* sums);

// Rows of a sequence that goes on from `state`: for each, a state and a symbol are drawn by
// uniforms (n, 2). steps (states, states) and emissions (states, alphabet) are cumulated.
struct Draw {
    int64_t n, states, alphabet, state;
    const double *steps, *emissions, *uniforms;
    int64_t *drawn, *symbols;  // (n,)
};
void draw(const Draw& d);

int64_t padded(int64_t states);
void use_simd(const SimdApi* simd) noexcept;

}  // namespace vs::hmm
