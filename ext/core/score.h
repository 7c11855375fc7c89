// Scores of given states: compensated sums of log-potentials, -inf where a state is forbidden.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/problem.h"
#include "core/sum.h"

namespace vs {

// Every other term goes to the same sum: an addition waits for the one before in its sum, and a
// compiler that keeps a sum and its rest in one vector makes it wait for all that finds the rest.
class ScoreSum {
  public:
    static constexpr unsigned kSums = 2;

    VS_INLINE void add(double x) { add_at(next_++ % kSums, x); }
    // The same to one that the compiler knows, or to each: then they stay in registers.
    template <unsigned I>
    VS_INLINE void add_to_sum(double x) {
        add_at(I, x);
    }
    VS_INLINE void add_some(const double (&x)[kSums]) {
        for (unsigned i = 0; i < kSums; ++i) add_at(i, x[i]);
    }
    double total() const {
        Sum sum;
        double least = 0.0;
        for (unsigned i = 0; i < kSums; ++i) {
            sum.add(value_[i]);
            sum.rest += rest_[i];
            least = std::min(least, least_[i]);
        }
        const double none = -std::numeric_limits<double>::infinity();
        return least > none ? sum.total() : none;
    }

  private:
    VS_INLINE void add_at(unsigned i, double x) {
        add_to(value_[i], rest_[i], x);
        least_[i] = std::min(least_[i], x);
    }
    double value_[kSums] = {}, rest_[kSums] = {}, least_[kSums] = {};
    unsigned next_ = kSums - 1;
};

// One log-potential of an array of the model's type.
inline double entry(const Chains& c, const void* array, int64_t i) {
    return c.dtype == kFloat32 ? static_cast<double>(static_cast<const float*>(array)[i])
                               : static_cast<const double*>(array)[i];
}

// The expected score of a component, and what rounding does to it. Probabilities are wrong by eps
// times the scores that they are made of, and multiply scores.
struct Expected {
    Sum value;
    double size = 0.0;

    void add(double x, double magnitude) {
        value.add(x);
        size += magnitude * (1.0 + magnitude);
    }
    // The local scores of position i under its marginal `p`; `more`: scores of labels that are
    // added to them, or null.
    template <class T>
    void add_local(const Chains& c, int64_t i, const T* p, const T* const* more) {
        constexpr int kLanes = 4;
        double sum[kLanes] = {}, magnitude[kLanes] = {};
        const int64_t K = c.n_labels;
        const T* unary = static_cast<const T*>(c.unary) + i * K;
        for (int64_t k = 0; k < K; ++k) {
            double x = static_cast<double>(unary[k]);
            for (int m = 0; m < 2; ++m) x += more[m] ? static_cast<double>(more[m][k]) : 0.0;
            x = p[k] > T(0) ? x * static_cast<double>(p[k]) : 0.0;  // 0 times -inf is 0
            sum[k % kLanes] += x;
            magnitude[k % kLanes] += std::fabs(x);
        }
        add((sum[0] + sum[1]) + (sum[2] + sum[3]),
            (magnitude[0] + magnitude[1]) + (magnitude[2] + magnitude[3]));
    }
    // An edge; nothing cancels in the distance of its energy from the largest score of its table.
    void add_edge(double energy, double largest) {
        add(energy, std::fabs(largest) + std::fabs(energy - largest));
    }
};

}  // namespace vs
