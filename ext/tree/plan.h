// The tasks of a pass over a forest: upward passes of all blocks, children first, then downward
// passes, parents first.
#pragma once

#include "pool/pool.h"
#include "tree/run.h"

namespace vs {

// Items count through slots, block by block; costs are K*K messages.
class ForestPlan {
  public:
    explicit ForestPlan(const Layout& t) : t_(t) {
        for (int64_t b = t.n_blocks; b-- > 0;) add(TaskKind::kUpward, b);
        for (int64_t b = 0; b < t.n_blocks; ++b) add(TaskKind::kDownward, b);
        for (int64_t b = 0; b < t.n_blocks; ++b) {
            if (t.above[at(b)] < 0) tasks_.edge(up(b), down(b));
            for (int32_t k = t.below_ptr[at(b)]; k < t.below_ptr[at(b) + 1]; ++k) {
                tasks_.edge(up(t.below[at(k)]), up(b));
                tasks_.edge(down(b), down(t.below[at(k)]));
            }
        }
        tasks_.finish();
    }
    // `upward_only`: what comes after the last upward pass is left out.
    Plan view(const char* label, bool upward_only) const {
        Plan p = tasks_.view(label);
        if (upward_only) p.n = t_.n_blocks;
        p.order32 = t_.node.data();
        p.n_order = t_.n;
        return p;
    }

  private:
    static std::size_t at(int64_t i) { return static_cast<std::size_t>(i); }
    int64_t up(int64_t b) const { return t_.n_blocks - 1 - b; }
    int64_t down(int64_t b) const { return t_.n_blocks + b; }
    void add(TaskKind kind, int64_t b) {
        const int64_t first = t_.begin[at(b)], last = t_.begin[at(b) + 1];
        const int64_t roots = t_.above[at(b)] < 0 ? t_.block_roots[at(b)] : 0;
        tasks_.add(kind, first, last, static_cast<double>(last - first - roots));
    }

    const Layout& t_;
    Tasks tasks_;
};

// Rough nanoseconds of an exact pass over so many nodes.
inline double exact_cost(const TreeModel& m, int64_t nodes) {
    const double k = static_cast<double>(m.arrays.n_labels);
    return (0.1 * k * k + 1.5 * k + 30.0) * static_cast<double>(nodes);
}

}  // namespace vs
