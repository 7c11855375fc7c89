// Exactly one of k inputs is on, or at most one.
#pragma once

#include "factors/but_one.h"
#include "factors/inputs.h"
#include "factors/shift.h"

namespace vs::factors {

// mass = (1 if none may be on) + sum_i exp(a_i), and the message to input i has the log-ratio
// -log of the same sum over j != i.
class OneOf final : public Inputs {
  public:
    OneOf(int64_t k, const int64_t* negated, int64_t count, bool none)
        : Inputs(k, negated, count), none_(none ? 0.0 : -INFINITY) {}

  protected:
    int64_t workspace() const noexcept override { return 2 * k_; }
    bool allows(int64_t count, bool) const noexcept override {
        return count == 1 || (count == 0 && none_ == 0.0);
    }

    double sums(const double* odds, double* ratio, double* scratch) const noexcept override {
        const Top t(k_, odds, none_);
        const auto log_of = [](double sum, double from) {
            return std::fabs(from) < INFINITY ? from + std::log(sum) : from;
        };
        const auto weight = [](double a, double from) {
            return a == from ? 1.0 : std::exp(a - from);
        };
        const double sum = but_one(
            k_, odds, none_, t, scratch, weight,
            [&](int64_t i, double others, double from) { ratio[i] = -log_of(others, from); });
        // Two that have to be on cannot.
        return t.second == INFINITY ? -INFINITY : t.top == INFINITY ? 0.0 : log_of(sum, t.top);
    }

    double maxima(const double* odds, double* ratio, double*) const noexcept override {
        const Top t(k_, odds, none_);
        for (int64_t i = 0; i < k_; ++i) ratio[i] = -t.but(i);
        return t.second == INFINITY ? -INFINITY : t.top == INFINITY ? 0.0 : t.top;
    }

    void choose(const double* odds, int64_t* on, double*) const noexcept override {
        const Top t(k_, odds, none_);
        std::fill(on, on + k_, int64_t{0});
        if (t.first >= 0 || none_ < 0.0) on[std::max<int64_t>(t.first, 0)] = 1;
    }

    void nearest(double* point, double* scratch) const noexcept override {
        if (none_ == 0.0 && sum_in_cube(k_, point) <= 1.0) {
            into_cube(k_, point);
        } else {
            shift_to_sum(k_, point, 1.0, scratch);
        }
    }

  private:
    double none_;  // the log-weight of no input
};

}  // namespace vs::factors
