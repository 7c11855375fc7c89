// The passes of a SIMD level, in one table that higher/level.cpp fills, and what they work on.
#pragma once

#include <cmath>

#include "core/ln2.h"
#include "core/sum.h"
#include "higher/higher.h"

namespace vs::higher {

// Tables of a model in rows of kp numbers: exponentials, or scores where the best is wanted. What
// no request needs is null. c: the label between.
struct Packed {
    int64_t kp = 0;
    // Order 2: [from][before][to] and [from][to][before]; segments: [from][to] and [to][from].
    const double *up = nullptr, *down = nullptr;
    const double* scored = nullptr;         // up times its logarithm
    const double* first = nullptr;          // (K, kp) of the first two labels, order 2
    double shift = 0.0, first_shift = 0.0;  // taken from the scores before
    double lost = -INFINITY;                // the largest score less that which counts as -inf
};

// Messages from the beginning lose nothing: scores further below the largest than these count as
// -inf, of a table and of a label, and a message with a number below kHeld that is not 0 is
// refused. Factors are at most 1, so all ways through what counts as -inf have K^n e^lost together
// at most: that has to be e^-40 of the sum of the others.
constexpr double kLeastTableLog = -150.0, kLeastLabelLog = -200.0, kHeld = 1e-150;
constexpr double kUnseen = 40.0;
// Underflow of messages from the end takes less than 1e-200 of one that has a number above kLeast,
// its neighbours being about one; they are refused where the two directions share less.
constexpr double kLeast = 1e-100;

// Sequences that advance together, the longest first.
struct Group {
    static constexpr int kMost = 16;

    int count = 0;
    int64_t sequence[kMost] = {};
    bool refused[kMost] = {};
    // Messages from the beginning, for samples and best ways. Order 2: (n - 1, K, kp) of the pairs
    // that end at 1, 2, ..., [label before][label]; of a lone position (kp,).
    const double* forward[kMost] = {};
};

// The logarithm of the factor that a row was divided by, without loss however many are added: a
// whole number of ln 2, and a compensated sum. power -inf: the row is empty.
struct FactorLog {
    double power = 0.0;
    Sum rest;

    FactorLog times(double log, double powers = 0.0) const {
        FactorLog f = *this;
        f.power += powers;
        f.rest.add(log);
        return f;
    }
    double operator-(const FactorLog& o) const {
        return kLn2 * (power - o.power) + ((rest.value - o.rest.value) + (rest.rest - o.rest.rest));
    }
    bool any() const { return power > -INFINITY; }
    double total() const { return kLn2 * power + rest.total(); }
};

// A sequence that is cut into segments. Rows are (kp,), logarithms of their factors beside them.
struct Segments {
    int64_t sequence = 0;
    bool refused = false;
    int64_t most = 0;  // positions of a segment
    // Of segments (n, most, kp), by first position and length - 1; of boundaries (n + 1, kp).
    const double *weight = nullptr, *weight_top = nullptr;
    const double *ended = nullptr, *entry = nullptr;
    const FactorLog* entry_log = nullptr;
};

struct Job {
    const LongerModel& model;
    const LongerRequest& ask;
    const Packed& packed;
    Control* control;
};

// False: the call is stopped. The calling thread polls.
inline bool go_on(Control* control, bool caller) {
    if (control->stop.load(std::memory_order_relaxed) != 0) return false;
    if (!caller || !control->poll || !control->poll(control->arg)) return true;
    control->stop.store(1);
    return false;
}

struct Level {
    int64_t (*padded)(int64_t labels);
    // out = exp(x - shift), 0 below kLeastTableLog; rows of n to rows of np.
    void (*exponentials)(const double* x, double shift, int64_t n, int64_t np, double* out);
    // Numbers of `space` for sequences of these lengths together.
    int64_t (*second_space)(const Job& job, const int64_t* lengths, int count);
    int64_t (*segment_space)(const Job& job, int64_t length);
    // The answers of a request but samples. `expected` (K, K, kp) [from][before][to], or (K, kp) of
    // segments, zeros before: what the entries of `up` are multiplied by.
    void (*second)(const Job& job, Group* group, double* expected, double* space, bool caller);
    void (*segments)(const Job& job, Segments* s, double* expected, double* space, bool caller);
    // Scores of the best that ends in each pair of labels, or segment; `packed` has scores.
    void (*second_best)(const Job& job, Group* group, double* space, bool caller);
    void (*segments_best)(const Job& job, Segments* s, double* space, bool caller);
};

}  // namespace vs::higher
