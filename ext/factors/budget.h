// At most so many of k inputs are on.
#pragma once

#include <algorithm>
#include <functional>
#include <new>
#include <numeric>

#include "core/problem.h"
#include "core/wide.h"
#include "factors/inputs.h"
#include "factors/shift.h"

namespace vs::factors {

// P_i(c) is the mass of the inputs before i with c on, S_i(c) that of those behind it with at most
// c on. The message to input i has the log-ratio of sum_c P_i(c) S_i(b - 1 - c) to sum_c P_i(c)
// S_i(b - c). No number is too large or too small: where odds are far apart, each has an exponent
// of its own.
class Budget final : public Inputs {
  public:
    Budget(int64_t k, const int64_t* negated, int64_t count, int64_t budget)
        : Inputs(k, negated, count), budget_(std::min(budget, k)) {}

  protected:
    int64_t workspace() const noexcept override {
        return std::max(2 * k_, budget_ < k_ ? 2 * (k_ + 1) * (budget_ + 1) : 0);
    }
    bool allows(int64_t count, bool) const noexcept override { return count <= budget_; }

    double sums(const double* odds, double* ratio, double* scratch) const noexcept override {
        if (budget_ == k_) return free(odds, ratio, false);
        double total = 0.0;
        int64_t sized = 0;
        for (int64_t i = 0; i < k_; ++i) {
            const double size = std::fabs(odds[i]);
            if (size == INFINITY) continue;
            scratch[sized++] = size;
            total += size;
        }
        // Messages that grew round a cycle: beside the best configuration nothing is seen.
        if (total > kCarriedSum) return maxima(odds, ratio, scratch);
        // Products of b odds, the largest of all; of k inputs (e k / b)^b sets of b can be chosen.
        const auto most = static_cast<double>(budget_ + 1);
        const double sets = 1.0 + std::log(static_cast<double>(k_) / most);
        const int64_t far = std::min(budget_ + 1, sized);
        std::nth_element(scratch, scratch + (far > 0 ? far - 1 : 0), scratch + sized,
                         std::greater<double>());
        const double product = std::accumulate(scratch, scratch + far, 0.0);
        return product + most * sets < kPlain ? sums_in<Plain>(odds, ratio, scratch)
                                              : sums_in<LinearWide>(odds, ratio, scratch);
    }

    // The best of the others with b - 1 on falls behind that with b on by the b-th largest of their
    // odds, if that is above 0.
    double maxima(const double* odds, double* ratio, double* scratch) const noexcept override {
        const int64_t b = budget_;
        if (b == k_) return free(odds, ratio, true);
        sort(odds, scratch);
        double total = 0.0;
        for (int64_t i = 0; i < b; ++i) {
            total += scratch[i] < INFINITY ? std::max(scratch[i], 0.0) : 0.0;
        }
        for (int64_t i = 0; i < k_; ++i) {
            const double last = b == 0 ? INFINITY : scratch[odds[i] >= scratch[b - 1] ? b : b - 1];
            ratio[i] = -std::max(0.0, last);
        }
        return scratch[b] == INFINITY ? -INFINITY : total;
    }

    void choose(const double* odds, int64_t* on, double* scratch) const noexcept override {
        sort(odds, scratch);
        const double least = budget_ > 0 ? std::max(scratch[budget_ - 1], 0.0) : INFINITY;
        int64_t left = budget_;
        for (int64_t i = 0; i < k_; ++i) left -= on[i] = odds[i] > least;
        for (int64_t i = 0; i < k_; ++i) {
            if (odds[i] == least && least > 0.0 && left > 0) {
                on[i] = 1;
                --left;
            }
        }
    }

    void nearest(double* point, double* scratch) const noexcept override {
        const auto most = static_cast<double>(budget_);
        if (sum_in_cube(k_, point) <= most) {
            into_cube(k_, point);
        } else {
            shift_to_sum(k_, point, most, scratch);
        }
    }

  private:
    static constexpr double kPlain = 600.0;  // logarithms within which numbers are doubles

    // The verbs of LinearWide.
    struct Plain {
        using T = double;
        static T zero() { return 0.0; }
        static T one() { return 1.0; }
        static bool is_zero(T x) { return x == 0.0; }
        static T mul(T a, T b) { return a * b; }
        static T add(T a, T b) { return a + b; }
        static T ratio(T a, T b) { return a / b; }
        static T from_log(double x) { return std::exp(x); }
        static double log_of(T x) { return std::log(x); }
    };

    template <class W>
    double sums_in(const double* odds, double* ratio, double* scratch) const noexcept {
        using T = typename W::T;
        const int64_t b = budget_, row = b + 1;
        T* before = new (scratch) T[static_cast<size_t>((k_ + 1) * row)];
        T* behind = before + k_ * row;
        const auto on = [&](int64_t i) {
            return odds[i] == INFINITY ? W::one() : W::from_log(odds[i]);
        };
        const auto off = [&](int64_t i) { return odds[i] == INFINITY ? W::zero() : W::one(); };
        std::fill(before, before + row, W::zero());
        before[0] = W::one();
        for (int64_t i = 0; i + 1 < k_; ++i)
            add<W>(before + i * row, on(i), off(i), before + (i + 1) * row);
        std::fill(behind, behind + row, W::one());
        for (int64_t i = k_; i-- > 0;) {
            const T* own = before + i * row;
            T less = W::zero(), most = W::mul(own[b], behind[0]);
            for (int64_t c = 0; c < b; ++c) {
                less = W::add(less, W::mul(own[c], behind[b - 1 - c]));
                most = W::add(most, W::mul(own[c], behind[b - c]));
            }
            ratio[i] = W::is_zero(most) ? 0.0 : W::log_of(W::ratio(less, most));
            add<W>(behind, on(i), off(i), behind);
        }
        return W::log_of(behind[b]);
    }

    // Entries c of one input more: to(c) = from(c) off + from(c - 1) on.
    template <class W, class T = typename W::T>
    void add(const T* from, T on, T off, T* to) const noexcept {
        for (int64_t c = budget_; c > 0; --c) {
            to[c] = W::add(W::mul(from[c], off), W::mul(from[c - 1], on));
        }
        to[0] = W::mul(from[0], off);
    }

    void sort(const double* odds, double* sorted) const noexcept {
        std::copy(odds, odds + k_, sorted);
        std::sort(sorted, sorted + k_, std::greater<>());
    }

    // All inputs may be on.
    double free(const double* odds, double* ratio, bool best) const noexcept {
        double total = 0.0;
        for (int64_t i = 0; i < k_; ++i) {
            if (odds[i] < INFINITY) total += best ? std::max(odds[i], 0.0) : softplus(odds[i]);
            ratio[i] = 0.0;
        }
        return total;
    }

    int64_t budget_;
};

}  // namespace vs::factors
