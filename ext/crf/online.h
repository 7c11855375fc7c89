// One pass of an online learner over a corpus, sequence by sequence: each needs the weights that
// the one before has left. The rules are those of valuesparse/learning/rules.py.
#pragma once

#include <cstdint>

#include "core/problem.h"

namespace vs::crf {

struct OnlineRule {
    enum Kind : int { kPerceptron, kPassiveAggressive, kArow, kAggressive };
    int kind = kPerceptron;
    double beta = 1.0, gamma = 0.0;  // the loss of kAggressive; gamma of kArow, too
    double longest = 0.0;            // step of kAggressive
    int slack = 1;                   // of kPassiveAggressive: its type
    double c = 1.0;
    bool error_sensitive = true;
    double* variance = nullptr;  // (n_weights,) of kArow
};

// The state of a learner.
struct OnlineState {
    double* weights = nullptr;   // (n_weights,)
    double* late = nullptr;      // (n_weights,) sum of time times change
    uint8_t* touched = nullptr;  // (n_weights,) whether a weight has ever changed
    int64_t time = 0;            // sequences met
};

// Stochastic gradient descent: weights are factor * vector, rates 1 / (decay * (t0 + time)), or
// eta where decay is 0.
struct Descent {
    double* vector = nullptr;
    double factor = 1.0, decay = 0.0, t0 = 0.0, eta = 0.0;
    int64_t time = 0;
    bool step = true;  // false: only the loss is wanted
};

struct OnlinePass {
    Status status = kOk;
    double loss = 0.0;
    int64_t updates = 0;
    int64_t overflow = -1;  // an item whose scores are too large to use, or -1
};

}  // namespace vs::crf
