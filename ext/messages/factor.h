// The interface of a factor. Tables and structured factors have the same verbs, and `Network::ask`
// dispatches once. Pairs of binary variables in SIMD lanes have verbs of their own: pairs.h.
//
// Messages to all factors stand end to end: that of edge e begins at entry at[e]. `first` is the
// factor's first edge. A verb that answers with messages leaves them unscaled, as logarithms.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "core/logs.h"
#include "factors/structured.h"
#include "messages/model.h"
#include "messages/walk.h"

namespace vs::messages {

// Beyond any sum of scores; sums of such messages are finite. A finite entry that grows round
// cycles ends there: it must not become the -inf of an impossible value.
constexpr double kFar = 1e200;

// Memory of one worker: numbers, and where each message of a factor is read and written.
struct WorkerScratch {
    std::vector<double> x;
    std::vector<const double*> in;
    std::vector<double*> out;
    std::vector<int64_t> states;
    double residual = 0.0;
    int64_t dead = -1;
};

// Messages to factors: logarithms, the largest entry 0, and as plain numbers.
struct Incoming {
    const double *log, *plain;
    const int64_t* at;
};

// A dense table; `level` computes its sums.
struct TableFactor {
    DenseTable t;
    const MessageLevel* level;
    int64_t first;
    const int64_t* var;  // of all edges

    // s->out[j] (card,): the message to variable j; only that of `only` where it is >= 0.
    void sums(const Incoming& in, WorkerScratch* s, int64_t only) const;
    void maxima(const Incoming& in, WorkerScratch* s) const;
    // log of the sum of the factor times the messages to it.
    double mass(const Incoming& in, WorkerScratch* s) const;
    // Its belief: the joint of its variables.
    void marginals(const Incoming& in, double* out, WorkerScratch* s) const;
    // out (card,): the best score for each state of variable `axis` given the states that are known
    // (>= 0), by variable.
    void best_given(int64_t axis, const int64_t* known, const Incoming& in, double* out,
                    WorkerScratch* s) const;
    double score(const int64_t* states) const;
    // Adds to up (card of p,) the message to variable p, from `sum` (what its other variables have
    // from below) and its own table less messages; their largest magnitude goes to *most.
    void send_up(int64_t p, const double* sum, const int64_t* var_at, const double* messages,
                 const int64_t* at, bool best, double* up, double* most,
                 std::vector<double>* work) const;

  private:
    double* spread(double start, WorkerScratch* s, const double* from, const int64_t* at) const;
    double entry(const Incoming& in, int64_t axis, int64_t value) const;
};

// A structured factor; its messages are (k, 2), end to end.
struct StructuredFactor {
    const factors::Structured* f;
    int64_t first;
    const int64_t* var;

    void sums(const Incoming& in, WorkerScratch* s, int64_t) const { send(in, false, s); }
    void maxima(const Incoming& in, WorkerScratch* s) const { send(in, true, s); }
    double mass(const Incoming& in, WorkerScratch* s) const;
    void marginals(const Incoming& in, double* out, WorkerScratch* s) const;
    void best_given(int64_t axis, const int64_t* known, const Incoming& in, double* out,
                    WorkerScratch* s) const;
    double score(const int64_t* states) const;
    void send_up(int64_t p, const double* sum, const int64_t* var_at, const double* messages,
                 const int64_t* at, bool best, double* up, double* most,
                 std::vector<double>* work) const;
    // Gives every variable that is not known the state that is best with the others.
    void complete(int64_t* known, const Incoming& in, WorkerScratch* s) const;

  private:
    void send(const Incoming& in, bool best, WorkerScratch* s) const;
    void hold(const int64_t* known, const Incoming& in, double* held) const;
};

// The part of a log mass that has state x, given the log-ratio of state 1 to state 0: mass less
// log(1 + exp(worse)); with `best` the best score with x.
inline double side_of(double mass, double odds, int64_t x, bool best) {
    const double worse = x ? -odds : odds;
    if (!(mass > -INFINITY) || worse == INFINITY) return -INFINITY;
    return mass - (best ? std::max(worse, 0.0) : softplus(worse));
}

// Scratch that the verbs of a structured factor want, beside those for its messages.
inline int64_t scratch_of(const factors::Structured& f) { return f.scratch() + 8 * f.size(); }

}  // namespace vs::messages
