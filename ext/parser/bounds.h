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

    // Sums of the bounds of some templates, and how many of the others are in them.
    struct Sum {
        int32_t least = 0, most = 0;  // times step_
        size_t others = 0;
    };
    // Pairs with the same slots.
    int sort_of(const Slots& slots) const { return sort_[at(slots.a * kSlots + slots.b)]; }
    // A sum that is kept.
    struct Kept {
        static constexpr int16_t kUnknown = INT16_MIN;
        int16_t least = kUnknown, most = 0;
        bool known() const { return least != kUnknown; }
        Sum sum() const { return {least, most, 0}; }
    };
    // The sum of templates without a word of the head of both arcs, or of the arc between: the same
    // for all pairs with these two other words.
    Kept apart(const Keys& keys) const {
        Sum sum;
        for (const int32_t t : apart_) add(keys, t, &sum);
        return {static_cast<int16_t>(sum.least), static_cast<int16_t>(sum.most)};
    }
    // Whether no sum of all bounds is likely to lie in `safe`: the bytes are rounded away from 0.
    bool too_coarse(const Range& safe) const { return safe.most - safe.least < coarse_; }
    // Whether the potential of a pair with this sum lies in `safe`, as far as bounds tell.
    bool within(const Sum& sum, int sort, const Range& safe) const {
        const Range& rest = rest_[at(sort) * stride_ + sum.others / kAtOnce];
        return safe.holds({sum.least * step_ + rest.least, sum.most * step_ + rest.most});
    }
    // The same with others asked, those that can say most first, until they make no difference or
    // so many have been.
    bool within(const Keys& keys, int sort, const Range& safe, size_t most, Sum* sum) const {
        for (;;) {
            if (within(*sum, sort, safe)) return true;
            if (sum->others >= std::min(most, others_.size())) return false;
            const size_t end = std::min(sum->others + kAtOnce, others_.size());
            for (size_t i = sum->others; i < end; ++i) add(keys, others_[i], sum);
            sum->others += kAtOnce;
        }
    }
    static constexpr size_t kFirst = 4, kAll = SIZE_MAX;
    // Asks for what these will read: the first others; the rest of them.
    void prefetch(const Keys& keys, bool apart) const {
        for (size_t i = 0; apart && i < apart_.size(); ++i) prefetch_line(&line(keys, apart_[i]));
        for (size_t i = 0; i < std::min(kFirst, others_.size()); ++i) {
            prefetch_line(&line(keys, others_[i]));
        }
    }
    void prefetch_rest(const Keys& keys) const {
        for (size_t i = kFirst; i < others_.size(); ++i) prefetch_line(&line(keys, others_[i]));
    }
    const Range& any() const { return any_; }  // potentials of all pairs of the kind
    const Range& any(int sort) const { return any_of_[at(sort)]; }

  private:
    struct Bytes {
        int8_t least, most;  // times step_
    };
    static constexpr size_t kAtOnce = 4;
    const Bytes& line(const Keys& keys, int32_t t) const {
        return line_[at(keys.line[t] - first_)];
    }
    void add(const Keys& keys, int32_t t, Sum* sum) const {
        const Bytes& own = line(keys, t);
        sum->least += own.least;
        sum->most += own.most;
    }
    std::vector<int32_t> apart_;   // templates without a word of the one in the middle
    std::vector<int32_t> others_;  // those with one
    // (sorts, stride_) of others from each kAtOnce-th on, and rounding.
    std::vector<Range> rest_;
    size_t stride_ = 0;
    std::vector<uint8_t> sort_;  // by slots a and b
    std::vector<Bytes> line_;    // (lines,) of the kind, from line first_ of the model
    int64_t first_ = 0;
    double step_ = 0.0, coarse_ = 0.0;
    Range any_;
    std::vector<Range> any_of_;  // (sorts,)
};

struct Bounds {
    Bounds(const Templates& templates, const float* weights);
    PairBounds siblings, grandparents;
};

}  // namespace vs::parser
