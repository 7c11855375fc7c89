// A loopy graph laid out for message passing: what kernels compute on.
//
// Factors of two and more variables send messages; tables of one variable, and evidence, are summed
// into `local` by the caller. An edge is a (factor, variable) pair, numbered in the order of the
// factors' scopes; its message has card[variable] log-numbers, the largest being 0.
#pragma once

#include <cstdint>
#include <vector>

#include "dual/pairs.h"
#include "simd/level.h"

namespace vs::messages {

// A damped message may never come nearer to the one it follows than this share of itself.
constexpr double kRounding = 4.44e-16;

// One table: `theta` row-major over `card`, the last variable fastest.
struct DenseTable {
    int arity;
    const int64_t* card;      // (arity,)
    const double* theta;      // log-table
    const double* weight;     // exp((theta - top) / rho)
    double inverse_rho, top;  // top: the largest entry of theta, 0 where there is none
    int64_t size;
};

// Pairs of binary variables in spins s = -1, 1: a pair's table is J s s', and its message one
// number a side. A multiple of kPairLanes of them; arrays are indexed by pair, `total` by variable.
constexpr int64_t kPairLanes = 8;
struct PairBlock {
    int64_t n;
    const int32_t *left, *right;           // the variables
    const double* coupling;                // J / rho; for ratios exp(2 J)
    const double* rho;                     // null: all one
    const double* total;                   // field and (weighted) messages of a variable together
    double *to_left, *to_right;            // messages: log-ratios, or ratios, of s = 1 to s = -1
    double *weighed_left, *weighed_right;  // rho times the messages; not written without rho
    double keep;                           // share of a message that stays: damping
};

// A table as one of its variables meets it. In a pair the other variable has `values` values, whose
// entries begin at `other`; its own values lie `own` entries apart, the other's `step`.
struct Meeting {
    const double* theta;
    int64_t edge;  // where it is no pair; else -1
    int64_t other, values, own, step;
    bool finite;  // it has no -inf
};

// The same for a pair of binary variables without zeros, as far as the score of 1 less that of 0
// goes: slope q(other = 1), whose entry is `other`, and a constant.
struct Slope {
    double slope;
    int64_t other;
};

// Naive mean field from several starts side by side: q[entry * kStarts + start], entries in the
// order of the variables.
constexpr int64_t kStarts = 8;
struct Ascent {
    const double* local;
    const int64_t* var_at;
    const int64_t* ptr;  // (n + 1,) meetings of each variable
    const Meeting* meeting;
    const Slope* slope;  // as `meeting`
    const double* bias;  // (n,) the constants of all that a variable meets; NaN: it has no slopes
    // Tables that are no pairs, as `Network` has them; size: where the entries of each begin.
    const int64_t *edge_factor, *edge_var, *edge_card, *factor_ptr, *size;
    double* q;
    const double* open;  // (kStarts,) 1: goes on; 0: stays as it is
    // How far a variable has moved in all, at its first entry; and how far those that it meets had,
    // together, when it was updated last. Where that grew by no more than `idle`, it is left out.
    double *travelled, *seen;
    double idle;
};

// Terms of the value of structured mean field, (n,) each: weights (none: 1), probabilities, scores,
// and how often the entropy of each counts, 1 or less.
struct Terms {
    int64_t n;
    const double *weight, *p, *score, *share;
};
struct Sums {
    double value, scale;
};

struct MessageLevel {
    // out[i] (card[i],) += what the factor sends to its variable i in plain numbers, given
    // in[j] = exp of the log-messages to it; scratch (2 arity,).
    void (*products)(const DenseTable& f, const double* const* in, double* const* out,
                     double* scratch);
    // New messages in place of the old; the largest change of a logarithm. `ratios`: messages and
    // totals are plain numbers; sums; no rho, no damping.
    double (*ratios)(const PairBlock& b);
    double (*sums)(const PairBlock& b);
    double (*maxima)(const PairBlock& b);
    // out[i]: log of the sum over both variables' states of exp(J s s') times their beliefs
    // without this pair, relative to their totals' masses; see pairs.cpp.
    void (*masses)(const PairBlock& b, double* out);
    // For n totals (n + 7 may be read): p(s = -1), p(s = 1) and log(1 + exp(-|total|)).
    void (*marginals)(const double* total, int64_t n, double* p, double* log_mass);
    // One after the other, each of n variables that share no factor becomes the best one given the
    // rest; moved[start]: at least how far. score (most values, kStarts): scratch.
    void (*ascend)(const Ascent& b, const int64_t* variable, int64_t n, double* score,
                   double* moved);
    Sums (*terms)(const Terms& t);
    // In place: logarithms of (0, 1], -inf of what is no normal number; exponentials of what is not
    // positive, 0 where they are none.
    void (*logs)(double* x, int64_t n);
    void (*exps)(double* x, int64_t n);
    // Points of a dual decomposition: ext/dual/.
    dual::PairSums (*points)(const dual::PairPoints& b);
};

}  // namespace vs::messages
