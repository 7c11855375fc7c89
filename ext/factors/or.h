// At least one of k inputs is on; and an output that is on where at least one input is.
#pragma once

#include "factors/but_one.h"
#include "factors/inputs.h"
#include "factors/shift.h"

namespace vs::factors {

// Sums of L_i = log(1 + exp(a_i)). The share of "at least one is on" in prod_i (1 + exp(a_i)) is
// 1 - exp(-sum_i L_i); where no L is above exp(-100), sums are relative to the largest and equal
// it.
namespace some {
constexpr double kTiny = -100.0;

inline double weight(double a, double from) noexcept {
    return from >= kTiny ? softplus(a) : a == from ? 1.0 : std::exp(a - from);
}
inline double sum(double sum, double from) noexcept { return from >= kTiny ? sum : 0.0; }
inline double log_share(double sum, double from) noexcept {
    if (from < kTiny) return from == -INFINITY ? from : from + std::log(sum);
    return sum > 0.7 ? std::log1p(-std::exp(-sum)) : std::log(-std::expm1(-sum));
}
// The sum of what has not to be on: w as `but_one` leaves it.
inline double finite_sum(int64_t k, const double* w, double from) noexcept {
    double total = 0.0;
    for (int64_t i = 0; i < k; ++i) total += w[i] < INFINITY ? w[i] : 0.0;
    return sum(total, from);
}
// The sum of the best of on and off, but for what has to be on.
inline double gains(int64_t k, const double* odds) noexcept {
    double total = 0.0;
    for (int64_t i = 0; i < k; ++i) total += odds[i] < INFINITY ? std::max(odds[i], 0.0) : 0.0;
    return total;
}
}  // namespace some

// mass = prod_i (1 + exp(a_i)) - 1; the message to input i has the log-ratio -log(1 - exp(-S_i)),
// S_i = sum_{j != i} L_j.
class Or final : public Inputs {
  public:
    using Inputs::Inputs;

  protected:
    int64_t workspace() const noexcept override { return 2 * k_; }
    bool allows(int64_t count, bool) const noexcept override { return count > 0; }

    double sums(const double* odds, double* ratio, double* scratch) const noexcept override {
        const Top t(k_, odds);
        const double sum = but_one(k_, odds, -INFINITY, t, scratch, some::weight,
                                   [&](int64_t i, double others, double from) {
                                       ratio[i] = -some::log_share(others, from);
                                   });
        return some::finite_sum(k_, scratch, t.top) + some::log_share(sum, t.top);
    }

    double maxima(const double* odds, double* ratio, double*) const noexcept override {
        const Top t(k_, odds);
        for (int64_t i = 0; i < k_; ++i) ratio[i] = std::max(0.0, -t.but(i));
        return some::gains(k_, odds) + std::min(0.0, t.top);
    }

    void choose(const double* odds, int64_t* on, double*) const noexcept override {
        const Top t(k_, odds);
        for (int64_t i = 0; i < k_; ++i) on[i] = odds[i] > 0.0;
        on[std::max<int64_t>(t.first, 0)] = 1;
    }

    void nearest(double* point, double* scratch) const noexcept override {
        if (sum_in_cube(k_, point) >= 1.0) {
            into_cube(k_, point);
        } else {
            shift_to_sum(k_, point, 1.0, scratch);
        }
    }
};

// The last input is the output, with odds o. mass = 1 + (prod_i (1 + exp(a_i)) - 1) exp(o), i over
// the others. The message to input i has the log-ratio -log(1 - exp(-S_i) + exp(-S_i - o)); that to
// the output log(prod_i (1 + exp(a_i)) - 1).
class OrOut final : public Inputs {
  public:
    using Inputs::Inputs;

  protected:
    int64_t workspace() const noexcept override { return 3 * k_; }
    bool allows(int64_t count, bool last) const noexcept override {
        return last ? count > 1 : count == 0;
    }

    double sums(const double* odds, double* ratio, double* scratch) const noexcept override {
        const int64_t n = k_ - 1;
        const double out = odds[n];
        const Top t(n, odds);
        const double sum = but_one(n, odds, -INFINITY, t, scratch, some::weight,
                                   [&](int64_t i, double others, double from) {
                                       ratio[i] = out == -INFINITY
                                                      ? out
                                                      : -log_add(some::log_share(others, from),
                                                                 -(some::sum(others, from) + out));
                                   });
        const double share = some::log_share(sum, t.top);
        ratio[n] = some::sum(sum, t.top) + share;
        return either(t, out, some::finite_sum(n, scratch, t.top) + share, false);
    }

    double maxima(const double* odds, double* ratio, double* scratch) const noexcept override {
        const int64_t n = k_ - 1;
        const double out = odds[n];
        const Top t(n, odds);
        const double sum = but_one(
            n, odds, 0.0, t, scratch, [](double a, double) { return std::max(a, 0.0); },
            [&](int64_t i, double others, double) {
                ratio[i] =
                    out == -INFINITY ? out : std::min(std::max(0.0, -t.but(i)), others + out);
            });
        ratio[n] = sum + std::min(0.0, t.top);
        return either(t, out, some::gains(n, odds) + std::min(0.0, t.top), true);
    }

    void choose(const double* odds, int64_t* on, double*) const noexcept override {
        const int64_t n = k_ - 1;
        const double out = odds[n];
        const Top t(n, odds);
        double gain = 0.0;
        for (int64_t i = 0; i < n; ++i) gain += std::max(odds[i], 0.0);
        gain += std::min(0.0, t.top);
        on[n] = n > 0 && (out == INFINITY || (out > -INFINITY && gain + out > 0.0));
        const int64_t first = std::max<int64_t>(t.first, 0);  // where none may be on, it costs -inf
        for (int64_t i = 0; i < n; ++i) on[i] = on[n] && (odds[i] > 0.0 || i == first);
    }

    // The hull is what has no input above the output, and no output above the sum of the inputs.
    // A point whose nearest among the first breaks the second lies nearest to where both are equal.
    void nearest(double* point, double* scratch) const noexcept override {
        const int64_t n = k_ - 1;
        double *sorted = scratch, sum = point[n], count = 1.0, inputs = 0.0;
        std::copy(point, point + n, sorted);
        std::sort(sorted, sorted + n);
        for (int64_t i = n; i-- > 0 && sorted[i] * count > sum; count += 1.0) sum += sorted[i];
        const double out = std::clamp(sum / count, 0.0, 1.0);
        for (int64_t i = 0; i < n; ++i) inputs += std::clamp(point[i], 0.0, out);
        if (inputs >= out) {
            for (int64_t i = 0; i < n; ++i) point[i] = std::clamp(point[i], 0.0, out);
            point[n] = out;
        } else {
            point[n] = 1.0 - point[n];
            shift_to_sum(k_, point, 1.0, scratch);
            point[n] = 1.0 - point[n];
        }
    }

  private:
    // All off, and the log mass (or best score) of some inputs with the output.
    static double either(const Top& t, double out, double some, bool best) noexcept {
        const double off = t.top == INFINITY || out == INFINITY ? -INFINITY : 0.0;
        const double on = some + (out == INFINITY ? 0.0 : out);
        return best ? std::max(off, on) : log_add(off, on);
    }
};

}  // namespace vs::factors
