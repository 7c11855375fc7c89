// The plan of a pass over a forest: which tasks there are, and what each waits for.
#pragma once

#include <cstddef>
#include <vector>

#include "core/at.h"
#include "core/problem.h"
#include "forest/cut.h"
#include "forest/layout.h"
#include "pool/plan.h"

namespace vs {

inline int64_t length(const Chains& c, int64_t sequence) {
    return c.offset[sequence + 1] - c.offset[sequence];
}

// Costs of tasks are K*K messages.
struct ForestPlan {
    Tasks tasks;
    size_t n_split = 0;        // chains cut into half passes, in order behind those in chunks
    double nanoseconds = 0.0;  // estimated work
};

// Work that takes less is done by the calling thread alone.
inline int threads_for(double nanoseconds, int threads) { return nanoseconds < 15e3 ? 1 : threads; }

// Nanoseconds per position of an exact pass: they decide task sizes, never a result.
double position_cost(int64_t labels);
double node_cost(int64_t labels);  // in trees

// Groups of chunks, whose items count through `cuts`; the four half passes of each of the other
// chains that are long beside the work of a thread; groups of whole sequences. Items count through
// `order`, those that are cut first, longest first. `narrow`: see sequences_together.
ForestPlan plan_path(const Chains& c, const std::vector<int64_t>& order, const Cuts& cuts,
                     int threads, bool split, bool narrow, int64_t expectations, double slower);

// Passes to the best states: groups of chunks, and of sequences, so that every thread has some.
ForestPlan plan_best(const Chains& c, const std::vector<int64_t>& order, const Cuts& cuts,
                     int threads);

// Samples likewise, at most `together` side by side.
ForestPlan plan_samples(const Chains& c, const std::vector<int64_t>& order, const Cuts& cuts,
                        int threads, int64_t together, int64_t size);

// Islands of sequences side by side, in groups likewise.
ForestPlan plan_islands(const Chains& c, const std::vector<int64_t>& order, int threads,
                        int64_t together);

// Upward passes of all blocks, children first, then downward passes, parents first. Items count
// through slots, block by block.
ForestPlan plan_branching(const Layout& t, int64_t labels);

// A plan whose items count through `order`.
inline Plan through(Plan plan, const std::vector<int64_t>& order) {
    plan.order64 = order.data();
    plan.n_order = static_cast<int64_t>(order.size());
    return plan;
}
inline Plan through(Plan plan, const Layout& t) {
    plan.order32 = t.node.data();
    plan.n_order = t.n;
    return plan;
}

}  // namespace vs
