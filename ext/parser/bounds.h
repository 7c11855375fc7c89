// Bounds of the potentials of pairs of arcs, by the weights alone, and pairs without a gain that
// matters. RS10, Proposition 1: g(p, t) = log(1 - p + p e^t) - p t.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
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

// The same of any P(pair), by a table: made once for an epsilon.
class Harmless {
  public:
    explicit Harmless(double epsilon);
    double epsilon() const { return epsilon_; }
    // P(pair) <= p, 1 - P(pair) <= q, since g(p, t) = g(1 - p, -t); and g <= t^2 / 8 (Hoeffding).
    Range at(double p, double q) const {
        const Range &rare = range_[place(p)], &sure = range_[place(q)];
        return {std::min({rare.least, -sure.most, -widest_}),
                std::max({rare.most, -sure.least, widest_})};
    }

  private:
    // Eight to a power of 2, from 2^-kPowers to 1.
    static constexpr int kPowers = 60, kSteps = 8;
    static size_t place(double p) {
        uint64_t bits = 0;
        std::memcpy(&bits, &p, sizeof bits);
        const auto at = static_cast<int64_t>(bits >> 49) - int64_t{1023 - kPowers} * kSteps;
        return static_cast<size_t>(std::clamp<int64_t>(at, 0, kPowers * kSteps));
    }

    double epsilon_, widest_;
    std::vector<Range> range_;  // up to the end of each step
};

// The largest number by which e^t - 1 - t exceeds 0 in a range.
double largest_excess(const Range& range);

// Bounds of one kind of pairs. A pair has one line in each template and in each line a slot for its
// direction and one for its distance. The range that a line can add with any of them is kept in two
// bytes, so that the bounds of all lines stay in the cache, which their weights do not.
class PairBounds {
  public:
    PairBounds(const Templates& templates, Kind kind, const float* weights);

    // Whether the potential of a pair with these keys lies in `safe`, as far as bounds tell. Lines
    // that can say most are asked first, until the others make no difference.
    bool within(const Keys& keys, const Range& safe) const {
        int32_t least = 0, most = 0;
        for (size_t k = 0;; k += kAtOnce) {
            const Range& rest = rest_[k / kAtOnce];
            if (safe.holds({least * step_ + rest.least, most * step_ + rest.most})) return true;
            if (k >= order_.size()) return false;
            for (size_t i = k; i < std::min(k + kAtOnce, order_.size()); ++i) {
                const Bytes& own = line_[at(keys.line[order_[i]] - first_)];
                least += own.least;
                most += own.most;
            }
        }
    }
    // Sums of the bounds of some templates.
    struct Sum {
        static constexpr int32_t kUnknown = INT32_MIN;
        int32_t least = kUnknown, most = 0;  // times step_
    };
    // The sum of templates without a word of the head of both arcs, or of the arc between: the same
    // for all pairs with these two other words.
    Sum apart(const Keys& keys) const {
        Sum sum{0, 0};
        for (const int32_t t : apart_) {
            const Bytes& own = line_[at(keys.line[t] - first_)];
            sum.least += own.least;
            sum.most += own.most;
        }
        return sum;
    }
    bool within(const Sum& sum, const Range& safe) const {
        return sum.least != Sum::kUnknown && safe.holds({sum.least * step_ + rest_apart_.least,
                                                         sum.most * step_ + rest_apart_.most});
    }
    // Asks for what `within` reads as a rule.
    void prefetch(const Keys& keys) const {
        const size_t count = std::min(order_.size(), 3 * kAtOnce);
        for (size_t i = 0; i < count; ++i) {
            prefetch_line(&line_[at(keys.line[order_[i]] - first_)]);
        }
    }
    const Range& any() const { return any_; }  // potentials of all pairs of the kind

  private:
    struct Bytes {
        int8_t least, most;  // times step_
    };
    static constexpr size_t kAtOnce = 4;
    std::vector<int32_t> order_;  // templates
    std::vector<int32_t> apart_;  // those without a word of the one in the middle
    Range rest_apart_;            // of the others, and rounding
    std::vector<Range> rest_;     // of those from each kAtOnce-th on, and rounding
    std::vector<Bytes> line_;     // (lines,) of the kind, from line first_ of the model
    int64_t first_ = 0;
    double step_ = 0.0;
    Range any_;
};

struct Bounds {
    Bounds(const Templates& templates, const float* weights);
    PairBounds siblings, grandparents;
};

}  // namespace vs::parser
