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

    // P(pair) from which on a pair of these potentials may have a gain; a little less.
    double floor(const Range& potentials) const;

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

// Tables of a few thresholds, each made when it is first asked for.
class Thresholds {
  public:
    const Harmless& of(double epsilon);

  private:
    static constexpr size_t kTables = 64;
    std::vector<Harmless> tables_;
};

// Bounds of the potentials of one kind of pairs, by their directions and distances. They hold
// whatever the words are: in each template the range of all lines.
class PairBounds {
  public:
    PairBounds(const Templates& templates, Kind kind, const float* weights);

    const Range& any() const { return any_; }  // of all pairs of the kind
    const Range& of(const Slots& slots) const { return of_[at(pair_class(kind_, slots))]; }

  private:
    const Kind kind_;
    std::vector<Range> of_;  // (classes,)
    Range any_;
};

struct Bounds {
    Bounds(const Templates& templates, const float* weights);
    PairBounds siblings, grandparents;
};

// `Harmless::floor` of pairs by their directions and distances: one comparison rules most out.
class Floors {
  public:
    void make(const Bounds& bounds, const Harmless& harmless);
    // (kFar,) by the distance of the outer two. Siblings before their head, around or behind it.
    const double* siblings(int side) const { return siblings_[side]; }
    // Modifiers before, between and behind a grandparent and its child, the head.
    const double* grandparents(int64_t grand, int64_t head, int side) const {
        const bool up = grand < head;
        return grandparents_[up ? 2 - side : side][up];
    }
    // The same of P(arc), whatever pair it is in: of an arc to a word behind its head, or before,
    // as the first one of grandparents; as any other one of a pair.
    double first(bool behind) const { return first_[behind]; }
    double child(bool behind) const { return child_[behind]; }

  private:
    const Bounds* bounds_ = nullptr;
    double epsilon_ = 0.0;
    double siblings_[3][kFar] = {}, grandparents_[3][2][kFar] = {};
    double first_[2] = {}, child_[2] = {};
};

}  // namespace vs::parser
