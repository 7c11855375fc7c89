// Messages by priority: a tree of maxima over their numbers. Neighbours in a graph are neighbours
// there, so that what one message raises lies in a few lines, and nothing is moved about as in a
// heap.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "core/at.h"

namespace vs::messages {

// The highest priority is on top; of equal ones the lowest number.
class MessageQueue {
  public:
    explicit MessageQueue(int64_t n) {
        do {
            const int64_t blocks = (n + kBlock - 1) / kBlock;
            levels_.emplace_back(at(blocks * kBlock), kNone);
            std::fill_n(levels_.back().begin(), n, INFINITY);
            n = blocks;
        } while (n > 1);
    }
    int64_t top() const {
        int64_t i = 0;
        for (auto level = levels_.rbegin(); level != levels_.rend(); ++level) {
            const double* own = level->data() + i * kBlock;
            const double most = most_of(own);
            i = i * kBlock + (std::find(own, own + kBlock, most) - own);
        }
        return i;
    }
    double priority(int64_t e) const { return levels_[0][at(e)]; }
    void set(int64_t e, double p) {
        if (p > priority(e)) return raise(e, p);
        levels_[0][at(e)] = p;
        for (size_t k = 1; k < levels_.size(); ++k) {
            e /= kBlock;
            const double most = most_of(levels_[k - 1].data() + e * kBlock);
            if (levels_[k][at(e)] == most) return;
            levels_[k][at(e)] = most;
        }
    }
    void add(int64_t e, double by) { raise(e, priority(e) + by); }

  private:
    static constexpr int64_t kBlock = 16;
    static constexpr double kNone = -1.0;  // below all priorities

    static double most_of(const double* p) {
        double most[4] = {p[0], p[1], p[2], p[3]};  // so that few wait for others
        for (int64_t i = 4; i < kBlock; i += 4) {
            for (int64_t j = 0; j < 4; ++j) most[j] = std::max(most[j], p[i + j]);
        }
        return std::max(std::max(most[0], most[1]), std::max(most[2], most[3]));
    }
    void raise(int64_t e, double p) {
        levels_[0][at(e)] = p;
        for (size_t k = 1; k < levels_.size(); ++k) {
            e /= kBlock;
            if (!(p > levels_[k][at(e)])) return;
            levels_[k][at(e)] = p;
        }
    }

    std::vector<std::vector<double>> levels_;  // priorities; the highest of each block below; ...
};

}  // namespace vs::messages
