// Scores of given states: compensated sums of log-potentials, -inf where a state is forbidden.
#pragma once

#include <cmath>
#include <limits>

#include "core/problem.h"
#include "core/sum.h"

namespace vs {

// Two numbers, which processors add at once. MSVC has no vector_size: there they are two doubles.
#if defined(__GNUC__)
typedef double TwoDoubles __attribute__((vector_size(16)));
#else
struct TwoDoubles {
    double number[2];
    double& operator[](int i) { return number[i]; }
    double operator[](int i) const { return number[i]; }
    friend TwoDoubles operator+(TwoDoubles a, TwoDoubles b) {
        return {{a.number[0] + b.number[0], a.number[1] + b.number[1]}};
    }
    friend TwoDoubles operator-(TwoDoubles a, TwoDoubles b) {
        return {{a.number[0] - b.number[0], a.number[1] - b.number[1]}};
    }
};
#endif

// Every other term goes to the same sum, since an addition waits for the one before in its sum.
// Once a term is -inf, so are sums.
class ScoreSum {
  public:
    VS_INLINE void add(double x) {
        next_ = !next_;
        add(next_ ? TwoDoubles{0.0, x} : TwoDoubles{x, 0.0});
    }
    // A term to each.
    VS_INLINE void add(TwoDoubles x) { add_to(value_, rest_, x); }
    double total() const {
        constexpr double none = -std::numeric_limits<double>::infinity();
        if (value_[0] == none || value_[1] == none) return none;
        Sum sum;
        for (int i = 0; i < 2; ++i) {
            sum.add(value_[i]);
            sum.rest += rest_[i];
        }
        return sum.total();
    }

  private:
    TwoDoubles value_ = {0.0, 0.0}, rest_ = {0.0, 0.0};
    bool next_ = true;
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
    // Are the largest local scores taken out first? What all labels of a position share is felt as
    // often as it stands there, not squared.
    bool centred = false;

    void add(double x, double magnitude) {
        value.add(x);
        size += magnitude * (1.0 + magnitude);
    }
    // The local scores of position i under its marginal `p`; `more`: scores of labels that are
    // added to them, or null.
    template <class T>
    VS_INLINE void add_local(const Chains& c, int64_t i, const T* p,
                             const T* const* more = nullptr) {
        if (!more && !centred) {
            const T* const unary = static_cast<const T*>(c.unary) + i * c.n_labels;
            const Terms all = terms(static_cast<int>(c.n_labels), [&](int k) VS_INLINE_LAMBDA {
                return static_cast<double>(unary[k]) * static_cast<double>(p[k]);
            });
            // NaN: 0 times the -inf of a state that is forbidden.
            if (all.magnitude <= std::numeric_limits<double>::max()) {
                return add(all.sum, all.magnitude);
            }
        }
        add_other(c, i, p, more);
    }
    // An edge; nothing cancels in the distance of its energy from the largest score of its table.
    void add_edge(double energy, double largest) {
        const double near = std::fabs(energy - largest);
        if (!centred) return add(energy, std::fabs(largest) + near);
        add(energy, near);
        size += std::fabs(largest);
    }

  private:
    struct Terms {
        double sum, magnitude;
    };
    // The sum of K terms and that of their magnitudes, of every fourth in a number of its own.
    template <class F>
    static VS_INLINE Terms terms(int K, F term) {
        TwoDoubles sum[2] = {}, magnitude[2] = {};
        const auto add = [&](int half, double x, double y) VS_INLINE_LAMBDA {
            sum[half] = sum[half] + TwoDoubles{x, y};
            magnitude[half] = magnitude[half] + TwoDoubles{std::fabs(x), std::fabs(y)};
        };
        int k = 0;
        for (; k + 4 <= K; k += 4) {
            add(0, term(k), term(k + 1));
            add(1, term(k + 2), term(k + 3));
        }
        if (k + 2 <= K) {
            add(0, term(k), term(k + 1));
            if (k + 3 == K) add(1, term(k + 2), 0.0);
        } else if (k < K) {
            add(0, term(k), 0.0);
        }
        return {(sum[0][0] + sum[0][1]) + (sum[1][0] + sum[1][1]),
                (magnitude[0][0] + magnitude[0][1]) + (magnitude[1][0] + magnitude[1][1])};
    }
    // add_local() where a state is forbidden, scores are added, or the largest is taken out.
    template <class T>
    void add_other(const Chains& c, int64_t i, const T* p, const T* const* more) {
        const T* const unary = static_cast<const T*>(c.unary) + i * c.n_labels;
        const int K = static_cast<int>(c.n_labels);
        const auto score = [&](int k) {
            double x = static_cast<double>(unary[k]);
            for (int m = 0; more && m < 2; ++m) {
                x += more[m] ? static_cast<double>(more[m][k]) : 0.0;
            }
            return x;
        };
        double top = 0.0;
        bool any = false;
        for (int k = 0; centred && k < K; ++k) {
            if (!(p[k] > T(0))) continue;
            top = any ? std::fmax(top, score(k)) : score(k);
            any = true;
        }
        const Terms all = terms(K, [&](int k) {
            return p[k] > T(0) ? (score(k) - top) * static_cast<double>(p[k]) : 0.0;
        });
        add(all.sum, all.magnitude);
        value.add(top);
        size += std::fabs(top);
    }
};

}  // namespace vs
