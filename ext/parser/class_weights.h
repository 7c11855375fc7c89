// Weights of many parts of a kind: added up by the class of a part, so that a template and a class
// are one small table, and a part one number of it.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "parser/parts.h"

namespace vs::parser {

// The sum of the three weights of a line that count, in the order in which `score` adds them.
class ClassWeights {
  public:
    // Takes weights without names of a kind of parts. Both stay where they are.
    ClassWeights(const Templates& templates, Kind kind, const float* weights);

    // Adds the weights up, the first time.
    void make();
    const Set& set() const { return set_; }
    // (mask + 1,) of a template and a class.
    const float* of(int64_t t, int c) const {
        const auto i = at(t);
        return sums_.get() + int64_t{set_.base[i]} * static_cast<int64_t>(classes_.size()) +
               (int64_t{set_.mask[i]} + 1) * c;
    }

  private:
    const Set& set_;
    const float* weights_;
    const std::vector<Slots> classes_;
    std::once_flag made_;
    std::unique_ptr<float[]> sums_;
};

constexpr int64_t kLineFloats = 16;  // of a line of the cache

// Asks for all weights of a template and a class in order, where so many parts will read most of
// them anyway.
inline void fetch(const float* weights, uint32_t mask, int64_t parts) {
    if (int64_t{mask} >= kLineFloats * parts) return;
    for (int64_t i = 0; i <= int64_t{mask}; i += kLineFloats) prefetch_line(weights + i);
}

// The same a few at a time, while other parts are scored.
class Ahead {
  public:
    Ahead() = default;
    Ahead(const Ahead&) = delete;
    Ahead& operator=(const Ahead&) = delete;
    void add(const float* weights, uint32_t mask, int64_t parts) {
        if (int64_t{mask} >= kLineFloats * parts) return;
        *end_++ = {weights, weights + mask + 1};
    }
    // Parts between two questions, and how many lines each has to ask for.
    static constexpr int64_t kStretch = 16;
    int64_t some(int64_t parts) const {
        int64_t sum = 0;
        for (const Piece* p = pieces_; p < end_; ++p) {
            sum += (p->end - p->next + kLineFloats - 1) / kLineFloats;
        }
        return parts > 0 ? sum * kStretch / parts + 1 : 0;
    }
    void ask(int64_t lines) {
        for (; lines > 0 && first_ < end_; ++first_) {
            for (; lines > 0 && first_->next < first_->end; --lines, first_->next += kLineFloats) {
                prefetch_line(first_->next);
            }
            if (first_->next < first_->end) return;
        }
    }

  private:
    static constexpr int kMost = 4;  // tables
    struct Piece {
        const float *next, *end;
    };
    Piece pieces_[kMost];
    Piece *first_ = pieces_, *end_ = pieces_;
};

}  // namespace vs::parser
