// Structured factors by name: a new kind is one more line here.
#pragma once

#include <string>

#include "factors/budget.h"
#include "factors/one_of.h"
#include "factors/or.h"
#include "factors/tree.h"

namespace vs::factors {

// A factor over k variables, with the numbers that its kind wants; null for an unknown kind.
inline Structured* make(const std::string& kind, int64_t k, const int64_t* numbers, int64_t count) {
    if (kind == "Xor") return new OneOf(k, numbers, count, false);
    if (kind == "AtMostOne") return new OneOf(k, numbers, count, true);
    if (kind == "Or") return new Or(k, numbers, count);
    if (kind == "OrOut") return new OrOut(k, numbers, count);
    if (kind == "Budget") return new Budget(k, numbers + 1, count - 1, numbers[0]);
    if (kind == "Tree") return new Tree(k, numbers, dependency::Kind::kTree);
    if (kind == "ProjectiveTree") return new Tree(k, numbers, dependency::Kind::kProjective);
    return nullptr;
}

// A kind written in Python: two functions that take the GIL, and what they are called with.
class Foreign final : public Structured {
  public:
    using Send = double (*)(void*, const double*, bool, double*);
    using Best = double (*)(void*, const double*, int64_t*);
    using Score = double (*)(void*, const int64_t*);
    Foreign(int64_t k, void* self, Send send, Best best, Score score)
        : Structured(k), self_(self), send_(send), best_(best), score_(score) {}

    int64_t scratch() const noexcept override { return 0; }
    double log_potential(const int64_t* states) const noexcept override {
        return score_(self_, states);
    }
    double send(const double* in, bool best, double* ratio, double*) const noexcept override {
        return send_(self_, in, best, ratio);
    }
    double best(const double* in, int64_t* states, double*) const noexcept override {
        return best_(self_, in, states);
    }
    bool serial() const noexcept override { return true; }

  private:
    void* self_;
    Send send_;
    Best best_;
    Score score_;
};

}  // namespace vs::factors
