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

PairBounds::PairBounds(const Templates& templates, Kind kind, const float* weights) {
    const Set& set = templates.sets[static_cast<size_t>(kind)];
    first_ = templates.line_at[static_cast<size_t>(kind)];
    for (const Template& t : set.all) {
        if (t.with == With::kBetween) throw std::logic_error("pairs have one line a template");
    }
    // The slots of features.h: directions, and distances of each of them or of each two.
    const bool siblings = kind == Kind::kSibling;
    const int n_a = siblings ? 3 : 6, n_b = siblings ? 4 : 3, group = siblings ? 1 : 2;
    const size_t sorts = at(n_a * n_b), size = at(set.size());
    sort_.assign(at(kSlots * kSlots), 0);
    const auto slot_b = [&](int a, int b) { return 1 + n_a + a / group * n_b + b; };
    for (int a = 0; a < n_a; ++a) {
        for (int b = 0; b < n_b; ++b) {
            sort_[at((1 + a) * kSlots + slot_b(a, b))] = static_cast<uint8_t>(a * n_b + b);
        }
    }
    std::vector<Range> own(at(set.lines)), of(sorts * size);  // of lines; by sort and template
    double largest = 0.0, widest = 0.0;
    for (size_t t = 0; t < size; ++t) {
        for (int64_t l = set.base[t]; l <= int64_t{set.base[t]} + set.mask[t]; ++l) {
            float line[kSlots];
            templates.read(weights, first_ + l, line);
            Range r{INFINITY, -INFINITY};
            for (int a = 0; a < n_a; ++a) {
                const double base = double{line[0]} + double{line[1 + a]};
                for (int b = 0; b < n_b; ++b) {
                    const double x = base + double{line[slot_b(a, b)]};
                    r = {std::min(r.least, x), std::max(r.most, x)};
                    Range& whole = of[at(a * n_b + b) * size + t];
                    whole = {std::min(whole.least, x), std::max(whole.most, x)};
                }
            }
            for (const float x : line) largest = std::max(largest, std::fabs(double{x}));
            own[at(l)] = r;
            widest = std::max({widest, -r.least, r.most});
        }
    }
    step_ = widest > 0.0 ? widest / 127.0 : 1.0;
    coarse_ = step_ * static_cast<double>(size);
    const double rounding = kRounding * 3.0 * largest * static_cast<double>(size);
    line_.resize(at(set.lines));
    std::vector<double> saved(size, 0.0);  // by asking a template: of all sorts, as a rule
    for (size_t t = 0; t < size; ++t) {
        const auto lines = static_cast<double>(int64_t{set.mask[t]} + 1);
        for (int64_t l = set.base[t]; l <= int64_t{set.base[t]} + set.mask[t]; ++l) {
            const Range& r = own[at(l)];
            const double least = std::max(-127.0, std::floor(r.least / step_));
            const double most = std::min(127.0, std::ceil(r.most / step_));
            line_[at(l)] = {static_cast<int8_t>(least), static_cast<int8_t>(most)};
            saved[t] -= (most - least) * step_ / lines * static_cast<double>(sorts);
        }
        for (size_t c = 0; c < sorts; ++c) {
            const Range& whole = of[c * size + t];
            saved[t] += whole.most - whole.least;
        }
        (set.all[t].of[siblings ? 0 : 1].empty() ? apart_ : others_)
            .push_back(static_cast<int32_t>(t));
    }
    std::stable_sort(others_.begin(), others_.end(),
                     [&](int32_t a, int32_t b) { return saved[at(a)] > saved[at(b)]; });
    stride_ = (others_.size() + kAtOnce - 1) / kAtOnce + 1;
    rest_.assign(sorts * stride_, Range{-rounding, rounding});
    const auto widen = [](Range* r, const Range& by) {
        *r = {r->least + by.least, r->most + by.most};
    };
    for (size_t c = 0; c < sorts; ++c) {
        for (size_t k = others_.size(); k-- > 0;) {
            for (size_t q = 0; q <= k / kAtOnce; ++q) {
                widen(&rest_[c * stride_ + q], of[c * size + at(others_[k])]);
            }
        }
        Range any = rest_[c * stride_];
        for (const int32_t t : apart_) widen(&any, of[c * size + at(t)]);
        any_of_.push_back(any);
        any_ = {std::min(any_.least, any.least), std::max(any_.most, any.most)};
    }
}

Bounds::Bounds(const Templates& templates, const float* weights)
    : siblings(templates, Kind::kSibling, weights),
      grandparents(templates, Kind::kGrandparent, weights) {}

}  // namespace vs::parser
