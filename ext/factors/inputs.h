// Factors whose inputs count as on in state 1, or in state 0 where they are negated.
#pragma once

#include <vector>

#include "core/logs.h"
#include "factors/structured.h"

namespace vs::factors {

// A kind sees what is on, and odds a_i = in[i, on] - in[i, off]: inf where the input has to be on,
// -inf where it has to be off. Scores are relative to all inputs off, but for those that have to be
// on, which count 0.
class Inputs : public Structured {
  public:
    Inputs(int64_t k, const int64_t* negated, int64_t count)
        : Structured(k), on_(static_cast<size_t>(k), 1) {
        for (int64_t i = 0; i < count; ++i) on_[static_cast<size_t>(negated[i])] = 0;
    }

    int64_t scratch() const noexcept final { return k_ + workspace(); }

    double log_potential(const int64_t* states) const noexcept final {
        int64_t count = 0;
        for (int64_t i = 0; i < k_; ++i) count += states[i] == on(i);
        return allows(count, states[k_ - 1] == on(k_ - 1)) ? 0.0 : -INFINITY;
    }

    double send(const double* in, bool best, double* ratio, double* scratch) const noexcept final {
        const double base = read(in, scratch);
        const double mass =
            best ? maxima(scratch, ratio, scratch + k_) : sums(scratch, ratio, scratch + k_);
        for (int64_t i = 0; i < k_; ++i) ratio[i] = on(i) ? ratio[i] : -ratio[i];
        return base + mass;
    }

    double best(const double* in, int64_t* states, double* scratch) const noexcept final {
        read(in, scratch);
        choose(scratch, states, scratch + k_);
        double score = 0.0;
        for (int64_t i = 0; i < k_; ++i) {
            states[i] = states[i] ? on(i) : 1 - on(i);
            score += in[2 * i + states[i]];
        }
        return score;
    }

    bool project(double* point, double* scratch) const noexcept final {
        for (int64_t i = 0; i < k_; ++i) point[i] = on(i) ? point[i] : 1.0 - point[i];
        nearest(point, scratch);
        for (int64_t i = 0; i < k_; ++i) point[i] = on(i) ? point[i] : 1.0 - point[i];
        return true;
    }

  protected:
    // Doubles that a verb may use, at least k.
    virtual int64_t workspace() const noexcept = 0;
    // Whether so many inputs may be on, the last one among them or not.
    virtual bool allows(int64_t count, bool last) const noexcept = 0;
    // The log mass, and ratio (k,): the log-ratio of on to off in the message to each input.
    virtual double sums(const double* odds, double* ratio, double* scratch) const noexcept = 0;
    virtual double maxima(const double* odds, double* ratio, double* scratch) const noexcept = 0;
    // The states of the best configuration; any states where none is possible.
    virtual void choose(const double* odds, int64_t* on, double* scratch) const noexcept = 0;
    // The nearest point of the hull, in place.
    virtual void nearest(double* point, double* scratch) const noexcept = 0;

  private:
    int64_t on(int64_t i) const noexcept { return on_[static_cast<size_t>(i)]; }

    double read(const double* in, double* odds) const noexcept {
        double base = 0.0;
        for (int64_t i = 0; i < k_; ++i) {
            const double yes = in[2 * i + on(i)], no = in[2 * i + 1 - on(i)];
            odds[i] = yes == -INFINITY ? -INFINITY : no == -INFINITY ? INFINITY : yes - no;
            base += no == -INFINITY ? yes : no;
        }
        return base;
    }

    std::vector<uint8_t> on_;  // the state that counts as on
};

}  // namespace vs::factors
