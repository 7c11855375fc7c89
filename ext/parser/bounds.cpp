#include "parser/bounds.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>

namespace vs::parser {
namespace {

// Sums of some 70 floats are off by less than this share of the sum of their magnitudes.
constexpr double kRounding = 1e-5;

// e^t - 1 - t; no digits are lost near 0.
double excess(double t) {
    if (std::fabs(t) < 1e-3) return t * t * (0.5 + t * (1.0 / 6.0 + t * (1.0 / 24.0 + t / 120.0)));
    return std::expm1(t) - t;
}

// The largest t > 0 with e^(sign t) - 1 - sign t <= y, or a little less. It is convex and
// increasing: Newton's steps from the right stay there.
double inverse_excess(double y, double sign) {
    if (!(y < 1e300)) return INFINITY;
    double t = std::sqrt(2.0 * y);
    t = sign > 0.0 ? std::min(t, std::log1p(y + t)) : y + std::min(1.0, t);
    for (int i = 0; i < 6; ++i) {
        const double slope = std::fabs(std::expm1(sign * t));
        const double step = (excess(sign * t) - y) / slope;
        if (!(step > 1e-9 * t)) break;
        t -= step;
    }
    t *= 1.0 - 1e-6;
    while (excess(sign * t) > y) t *= 0.999;
    return t;
}

}  // namespace

double largest_excess(const Range& range) {
    return std::max(excess(range.least), excess(range.most));
}

double gain(double p, double q, double theta) {
    if (p > q) return gain(q, p, -theta);
    if (p <= 0.0) return 0.0;
    if (theta > 30.0) {
        const double x = std::log(p) + theta, y = std::log1p(-p);
        const double top = std::max(x, y);
        return top + std::log1p(std::exp(std::min(x, y) - top)) - p * theta;
    }
    if (std::fabs(theta) < 1e-4) {
        const double third = (1.0 - 2.0 * p) * theta / 3.0;
        const double fourth = (1.0 - 6.0 * p * (1.0 - p)) * theta * theta / 12.0;
        return 0.5 * p * (1.0 - p) * theta * theta * (1.0 + third + fourth);
    }
    return std::max(0.0, std::log1p(p * std::expm1(theta)) - p * theta);
}

Range harmless(double p, double epsilon) {
    const double y = p > 0.0 ? epsilon / p : INFINITY;
    return {-inverse_excess(y, -1.0), inverse_excess(y, 1.0)};
}

PairBounds::PairBounds(const Templates& templates, Kind kind, const float* weights) {
    const Set& set = templates.sets[static_cast<size_t>(kind)];
    weights += templates.line_at[static_cast<size_t>(kind)] * kSlots;
    // The slots of features.cpp: directions, and distances of each of them or of each two.
    const bool siblings = kind == Kind::kSibling;
    n_a_ = siblings ? 3 : 6;
    n_b_ = siblings ? 4 : 3;
    group_ = siblings ? 1 : 2;
    slots_ = n_a_ * n_b_;
    const int64_t size = set.size();
    std::vector<Range> own(at(size * slots_));
    std::vector<double> width(at(size), 0.0);
    double rounding = 0.0;
    for (int64_t t = 0; t < size; ++t) {
        if (set.all[at(t)].with == With::kBetween) {
            throw std::logic_error("templates of pairs have one line each");
        }
        Range* r = own.data() + t * slots_;
        std::fill(r, r + slots_, Range{INFINITY, -INFINITY});
        double most = 0.0;
        for (int64_t l = set.base[at(t)]; l <= int64_t{set.base[at(t)]} + set.mask[at(t)]; ++l) {
            const float* line = weights + l * kSlots;
            for (int i = 0; i < kSlots; ++i) most = std::max(most, std::fabs(double{line[i]}));
            for (int a = 1, slot = 0; a <= n_a_; ++a) {
                const double base = double{line[0]} + double{line[a]};
                for (int b = 0; b < n_b_; ++b, ++slot) {
                    const double x = base + double{line[first_b(a) + b]};
                    r[slot] = {std::min(r[slot].least, x), std::max(r[slot].most, x)};
                }
            }
        }
        rounding += kRounding * 3.0 * most;
        for (int64_t i = 0; i < slots_; ++i) width[at(t)] += r[i].most - r[i].least;
    }
    order.resize(at(size));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](int32_t a, int32_t b) { return width[at(a)] > width[at(b)]; });
    rest_.assign(at((size + 1) * slots_), Range{-rounding, rounding});
    for (int64_t k = size; k-- > 0;) {
        for (int64_t i = 0; i < slots_; ++i) {
            const Range& r = own[at(order[at(k)] * slots_ + i)];
            const Range& after = rest_[at((k + 1) * slots_ + i)];
            rest_[at(k * slots_ + i)] = {after.least + r.least, after.most + r.most};
        }
    }
    for (int64_t i = 0; i < slots_; ++i) {
        any_ = {std::min(any_.least, rest_[at(i)].least), std::max(any_.most, rest_[at(i)].most)};
    }
}

Bounds::Bounds(const Templates& templates, const float* weights)
    : siblings(templates, Kind::kSibling, weights),
      grandparents(templates, Kind::kGrandparent, weights) {}

}  // namespace vs::parser
