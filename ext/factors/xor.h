// Exactly one of k variables is on; a negated one counts as on where it is 0.
#pragma once

#include <vector>

#include "factors/structured.h"

namespace vs::factors {

// With a_i = in[i, on] - in[i, off]: mass = prod_i exp(in[i, off]) sum_i exp(a_i), and the message
// to variable i has the log-ratio -log sum_{j != i} exp(a_j). No sum is ever subtracted from.
class Xor final : public Structured {
  public:
    Xor(int64_t k, const int64_t* negated, int64_t n_negated)
        : Structured(k), on_(static_cast<size_t>(k), 1) {
        for (int64_t i = 0; i < n_negated; ++i) on_[static_cast<size_t>(negated[i])] = 0;
    }

    int64_t scratch() const noexcept override { return 2 * k_; }

    double log_potential(const int64_t* states) const noexcept override {
        int64_t count = 0;
        for (int64_t i = 0; i < k_; ++i) count += states[i] == on(i);
        return count == 1 ? 0.0 : -INFINITY;
    }

    double send(const double* in, bool best, double* ratio,
                double* scratch) const noexcept override {
        double *odds = scratch, *before = odds + k_;
        const Sum s = read(in, odds);
        // Sums relative to the largest of all, and for the largest itself to the second largest.
        double left = 0.0, right = 0.0, apart = 0.0;
        for (int64_t i = 0; i < k_; ++i) {
            before[i] = left;
            left += weight(odds[i], s.top);
            if (i != s.first) apart += weight(odds[i], s.second);
        }
        for (int64_t i = k_; i-- > 0;) {
            const double rest = i == s.first ? apart : before[i] + right;
            const double top = i == s.first ? s.second : s.top;
            right += weight(odds[i], s.top);
            const double others =
                rest > 0.0 && std::fabs(top) < INFINITY && !best ? top + std::log(rest) : top;
            ratio[i] = on(i) ? -others : others;
        }
        if (!s.possible) return -INFINITY;
        return s.base + (best || s.top == INFINITY ? s.extra : s.top + std::log(left));
    }

    double best(const double* in, int64_t* states, double* scratch) const noexcept override {
        const Sum s = read(in, scratch);
        for (int64_t i = 0; i < k_; ++i) states[i] = i == s.first ? on(i) : 1 - on(i);
        return s.possible ? s.base + s.extra : -INFINITY;
    }

  private:
    struct Sum {
        double base = 0.0;   // of all messages for "off" that are finite
        double extra = 0.0;  // what the best choice of the one that is on adds to it
        double top = -INFINITY, second = -INFINITY;  // the two largest odds
        int64_t first = 0;                           // where the largest stands
        bool possible = true;
    };

    int64_t on(int64_t i) const noexcept { return on_[static_cast<size_t>(i)]; }
    static double weight(double odds, double top) noexcept {
        return odds == top ? 1.0 : std::exp(odds - top);
    }

    Sum read(const double* in, double* odds) const noexcept {
        Sum s;
        for (int64_t i = 0; i < k_; ++i) {
            const double yes = in[2 * i + on(i)], no = in[2 * i + 1 - on(i)];
            if (yes == -INFINITY && no == -INFINITY) s.possible = false;
            odds[i] = yes == -INFINITY ? -INFINITY : no == -INFINITY ? INFINITY : yes - no;
            if (no > -INFINITY) s.base += no;
            if (i == 0 || odds[i] > s.top) {
                if (i > 0) s.second = s.top;
                s.top = odds[i];
                s.first = i;
                s.extra = no == -INFINITY ? yes : odds[i];
            } else {
                s.second = std::max(s.second, odds[i]);
            }
        }
        // One has to be on, and two that have to be cannot.
        s.possible = s.possible && s.top > -INFINITY && s.second < INFINITY;
        return s;
    }

    std::vector<uint8_t> on_;  // the state that counts as on
};

}  // namespace vs::factors
