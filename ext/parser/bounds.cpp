#include "parser/bounds.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "core/logs.h"

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
    if (theta > 30.0) return log_add(std::log(p) + theta, std::log1p(-p)) - p * theta;
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

Harmless::Harmless(double epsilon) : epsilon_(epsilon), widest_(std::sqrt(8.0 * epsilon)) {
    for (int i = 0; i <= kPowers * kSteps; ++i) {
        const double end = std::ldexp(1.0 + (i % kSteps + 1.0) / kSteps, i / kSteps - kPowers);
        range_.push_back(harmless(end, epsilon));
    }
}

double Harmless::floor(const Range& potentials) const {
    int i = 0;
    for (; i <= kPowers * kSteps && range_[static_cast<size_t>(i)].holds(potentials);) ++i;
    return i == 0 ? 0.0 : std::ldexp(1.0 + (i % kSteps) / double{kSteps}, i / kSteps - kPowers);
}

const Harmless& Thresholds::of(double epsilon) {
    for (const Harmless& h : tables_) {
        if (h.epsilon() == epsilon) return h;
    }
    if (tables_.size() == kTables) tables_.clear();
    tables_.emplace_back(epsilon);
    return tables_.back();
}

PairBounds::PairBounds(const Templates& templates, Kind kind, const float* weights) : kind_(kind) {
    const Set& set = templates.sets[static_cast<size_t>(kind)];
    const int64_t first = templates.line_at[static_cast<size_t>(kind)];
    const std::vector<Slots> classes = classes_of(kind);
    of_.assign(classes.size(), Range{});
    std::vector<Range> own(of_.size());  // of one template
    double largest = 0.0;
    for (size_t t = 0; t < at(set.size()); ++t) {
        if (set.all[t].with == With::kBetween) {
            throw std::logic_error("pairs have one line a template");
        }
        std::fill(own.begin(), own.end(), Range{INFINITY, -INFINITY});
        for (int64_t l = set.base[t]; l <= int64_t{set.base[t]} + set.mask[t]; ++l) {
            float line[kSlots];
            templates.read(weights, first + l, line);
            for (size_t c = 0; c < own.size(); ++c) {
                const double x =
                    double{line[0]} + double{line[classes[c].a]} + double{line[classes[c].b]};
                own[c] = {std::min(own[c].least, x), std::max(own[c].most, x)};
            }
            for (const float x : line) largest = std::max(largest, std::fabs(double{x}));
        }
        for (size_t c = 0; c < own.size(); ++c) {
            of_[c] = {of_[c].least + own[c].least, of_[c].most + own[c].most};
        }
    }
    const double rounding = kRounding * 3.0 * largest * static_cast<double>(set.size());
    for (Range& r : of_) {
        r = {r.least - rounding, r.most + rounding};
        any_ = {std::min(any_.least, r.least), std::max(any_.most, r.most)};
    }
}

void Floors::make(const Bounds& bounds, const Harmless& harmless) {
    if (bounds_ == &bounds && epsilon_ == harmless.epsilon()) return;
    bounds_ = &bounds;
    epsilon_ = harmless.epsilon();
    for (int k = 0; k < 2; ++k) first_[k] = child_[k] = INFINITY;
    // A little less: joints are rounded.
    const auto lower = [](double* to, double floor) {
        *to = std::min(*to, (1.0 - kRounding) * floor);
    };
    for (int d = 1; d < kFar; ++d) {
        for (int side = 0; side < 3; ++side) {
            const double floor = harmless.floor(bounds.siblings.of(sibling_at(side, d)));
            siblings_[side][d] = floor;
            if (side < 2) lower(&child_[0], floor);
            if (side > 0) lower(&child_[1], floor);
        }
        for (int middle = 0; middle < 3; ++middle) {
            for (int up = 0; up < 2; ++up) {
                const Range& r = bounds.grandparents.of(grandparent_at(middle, up > 0, d));
                const double floor = harmless.floor(r);
                grandparents_[middle][up][d] = floor;
                lower(&first_[up], floor);
                lower(&child_[middle == 0 ? up : 1 - up], floor);
            }
        }
    }
}

Bounds::Bounds(const Templates& templates, const float* weights)
    : siblings(templates, Kind::kSibling, weights),
      grandparents(templates, Kind::kGrandparent, weights) {}

}  // namespace vs::parser
