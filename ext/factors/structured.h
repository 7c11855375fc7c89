// A structured factor: 0 or 1 over any number of binary variables, with algorithms of its own.
//
// `in` (k, 2) holds log-messages, -inf where a state is impossible. A verb that sums answers for
// p(y) ~ factor(y) prod_i exp(in[i, y_i]); one that maximises for the largest of these numbers.
// Nothing is ever NaN, but for a kind written in Python that raised: its log mass is NaN.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace vs::factors {

// The arcs that the variables of a kind of tree are.
struct Arcs {
    int64_t words = 0;
    bool single_root = false;
    std::vector<int32_t> head, modifier;  // (k,)
};

class Structured {
  public:
    explicit Structured(int64_t k) : k_(k) {}
    virtual ~Structured() = default;
    int64_t size() const { return k_; }

    // Doubles that a call of any verb may use.
    virtual int64_t scratch() const noexcept = 0;
    // 0 or -inf. May throw bad_alloc, and so may `joint`.
    virtual double log_potential(const int64_t* states) const = 0;
    // The log mass, or with `best` the best score; -inf where nothing is possible. ratio (k,): the
    // log-ratio of state 1 to state 0 in the message to each variable, whatever its own message.
    virtual double send(const double* in, bool best, double* ratio,
                        double* scratch) const noexcept = 0;
    // The best score and its states (k,).
    virtual double best(const double* in, int64_t* states, double* scratch) const noexcept = 0;
    // Moves a point (k,) to the nearest one of the hull of what is possible; false, and the point
    // stays: no algorithm of the kind does that.
    virtual bool project(double*, double*) const noexcept { return false; }
    // Whether the kind is all trees of the arcs that are put into `arcs`.
    virtual bool all_trees(Arcs*) const { return false; }
    // Whether calls have to come one at a time.
    virtual bool serial() const noexcept { return false; }

    // p, c (k,): P(y_i = 1) and P(y_i = 0), each with all its digits. Scratch: `scratch()` + k.
    double sum_product(const double* in, double* p, double* c, double* work) const noexcept {
        double* ratio = work + scratch();
        const double mass = send(in, false, ratio, work);
        for (int64_t i = 0; i < k_; ++i) {
            const double odds = mass > -INFINITY ? in[2 * i + 1] - in[2 * i] + ratio[i] : 0.0;
            const double less = std::exp(-std::fabs(odds)), more = 1.0 / (1.0 + less);
            p[i] = mass > -INFINITY ? (odds >= 0.0 ? more : less * more) : 0.0;
            c[i] = mass > -INFINITY ? (odds >= 0.0 ? less * more : more) : 0.0;
        }
        return mass;
    }

    // Whether a message may have grown round a cycle until sums round all others away.
    bool grown(const double* in) const noexcept {
        double low = 0.0;
        for (int64_t i = 0; i < 2 * k_; ++i) {
            if (in[i] > -INFINITY) low = std::min(low, in[i]);
        }
        return low < kGrown;
    }

    // The log mass. Relative to the better state of each variable, a configuration with an entry
    // below `least` has no mass beside the best one: grown entries are raised to it.
    // Scratch: `scratch()` + 4 k.
    double mass(const double* in, double* work) const noexcept {
        double *own = work, *ratio = work + 3 * k_;
        auto* states = reinterpret_cast<int64_t*>(work + 2 * k_);
        if (!grown(in)) return send(in, false, ratio, ratio + k_);
        double tops = 0.0;
        for (int64_t i = 0; i < k_; ++i) {
            const double top = std::max(in[2 * i], in[2 * i + 1]);
            if (!(top > -INFINITY)) return -INFINITY;
            tops += top;
            own[2 * i] = in[2 * i] - top;
            own[2 * i + 1] = in[2 * i + 1] - top;
        }
        const double score = best(own, states, ratio + k_);
        if (!(score > -INFINITY)) return score;
        const double least = score - kNothing - static_cast<double>(k_);
        for (int64_t i = 0; i < 2 * k_; ++i) {
            if (own[i] > -INFINITY) own[i] = std::max(own[i], least);
        }
        return tops + send(own, false, ratio, ratio + k_);
    }

    // P(y_a = y_b = 1) of `count` pairs (a, b): one run for each a that differs from the one
    // before it. Scratch: `scratch()` + 5 k.
    virtual double joint(const double* in, int64_t count, const int64_t* pairs, double* out,
                         double* work) const {
        double *p = work + scratch() + k_, *c = p + k_, *held = c + k_;
        const double mass = sum_product(in, p, c, work);
        double on = 0.0;
        for (int64_t i = 0, last = -1; i < count; ++i) {
            const int64_t a = pairs[2 * i], b = pairs[2 * i + 1];
            if (a != last) {
                if (last >= 0) sum_product(in, p, c, work);
                on = p[a];
                std::copy(in, in + 2 * k_, held);
                held[2 * a] = -INFINITY;
                if (on > 0.0) sum_product(held, p, c, work);
                last = a;
            }
            out[i] = on > 0.0 ? on * p[b] : 0.0;
        }
        return mass;
    }

  protected:
    const int64_t k_;

  private:
    static constexpr double kGrown = -1e4;
    static constexpr double kNothing = 2000.0;  // a log-ratio beside which nothing is left
};

}  // namespace vs::factors
