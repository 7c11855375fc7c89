// What the potentials of pairs of arcs can be, by the weights alone, and which of them have no gain
// that matters. RS10, Proposition 1: g(p, t) = log(1 - p + p e^t) - p t.
#pragma once

#include <cstdint>
#include <vector>

#include "parser/parts.h"

namespace vs::parser {

// Numbers from `least` to `most`, 0 among them.
struct Range {
    double least = 0.0, most = 0.0;
    bool holds(const Range& other) const { return least <= other.least && other.most <= most; }
};

// KL divergence by adding a pair of this potential; p and q = 1 - p, each with its digits.
double gain(double p, double q, double theta);

// Potentials whose gain is at most epsilon where P(pair) <= p: g(p, t) <= p (e^t - 1 - t).
Range harmless(double p, double epsilon);

// The largest number by which e^t - 1 - t exceeds 0 in a range.
double largest_excess(const Range& range);

// Bounds of one kind of pairs. A pair has one line in each template and in each line a slot for its
// direction and one for its distance. Lines are told in an order of their own, those first that can
// say most, so that a pair whose first lines rule it out is left early.
class PairBounds {
  public:
    PairBounds() = default;
    PairBounds(const Templates& templates, Kind kind, const float* weights);

    int64_t lines() const { return static_cast<int64_t>(order.size()); }
    // What all lines from the k-th on add to a pair with these slots; rounding of sums is within.
    const Range& rest(int64_t k, int a, int b) const {
        return rest_[at(k * slots_ + (a - 1) * n_b_ + b - first_b(a))];
    }
    const Range& any() const { return any_; }  // potentials of all pairs of the kind
    std::vector<int32_t> order;                // (lines,) places among the keys of a pair

  private:
    int first_b(int a) const { return 1 + n_a_ + (a - 1) / group_ * n_b_; }

    int n_a_ = 0, n_b_ = 0, group_ = 1;
    int64_t slots_ = 0;
    std::vector<Range> rest_;  // (lines + 1, slots)
    Range any_;
};

struct Bounds {
    Bounds() = default;
    Bounds(const Templates& templates, const float* weights);
    PairBounds siblings, grandparents;
};

}  // namespace vs::parser
