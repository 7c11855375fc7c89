// The tasks of a pass over a forest: upward passes of all blocks, children first, then downward
// passes, parents first.
#pragma once

#include <vector>

#include "pool/pool.h"
#include "tree/run.h"

namespace vs {

struct TreePlan {
    std::vector<int32_t> waits;
    std::vector<int64_t> succ_ptr{0}, succ;
    int64_t n_blocks = 0;

    explicit TreePlan(const Layout& t, bool upward_only = false) : n_blocks(t.n_blocks) {
        const auto at = [](int64_t i) { return static_cast<std::size_t>(i); };
        waits.reserve(at(2 * n_blocks));
        succ.reserve(at(2 * n_blocks));
        std::vector<int32_t> parent(at(n_blocks), -1);
        for (int64_t b = 0; b < n_blocks; ++b) {
            for (int32_t k = t.below_ptr[at(b)]; k < t.below_ptr[at(b) + 1]; ++k) {
                parent[at(t.below[at(k)])] = static_cast<int32_t>(b);
            }
        }
        for (int64_t b = n_blocks; b-- > 0;) {
            waits.push_back(t.below_ptr[at(b) + 1] - t.below_ptr[at(b)]);
            if (parent[at(b)] >= 0) {
                succ.push_back(up(parent[at(b)]));
            } else if (!upward_only) {
                succ.push_back(down(b));
            }
            succ_ptr.push_back(static_cast<int64_t>(succ.size()));
        }
        for (int64_t b = 0; b < n_blocks && !upward_only; ++b) {
            waits.push_back(1);
            for (int32_t k = t.below_ptr[at(b)]; k < t.below_ptr[at(b) + 1]; ++k) {
                succ.push_back(down(t.below[at(k)]));
            }
            succ_ptr.push_back(static_cast<int64_t>(succ.size()));
        }
    }
    int64_t up(int64_t b) const { return n_blocks - 1 - b; }
    int64_t down(int64_t b) const { return n_blocks + b; }
    Plan view() const {
        Plan p;
        p.n = static_cast<int64_t>(waits.size());
        p.waits = waits.data();
        p.succ_ptr = succ_ptr.data();
        p.succ = succ.data();
        return p;
    }
};

// Rough nanoseconds of an exact pass over so many nodes.
inline double exact_cost(const TreeModel& m, int64_t nodes) {
    const double k = static_cast<double>(m.arrays.n_labels);
    return (0.1 * k * k + 1.5 * k + 30.0) * static_cast<double>(nodes);
}

}  // namespace vs
