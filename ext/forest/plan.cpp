#include "forest/plan.h"

#include "forest/together.h"

#include <algorithm>

#include "rows/sparse_table.h"

namespace vs {

double position_cost(int64_t labels) {
    const double k = static_cast<double>(labels);
    return 0.1 * k * k + 1.5 * k + 20.0;
}
double node_cost(int64_t labels) { return position_cost(labels) + 10.0; }

namespace {

double cost_of(const Chains& c) {
    if (!c.sparse) return position_cost(c.n_labels);
    const double listed = static_cast<double>(c.sparse->n_listed());
    return 0.15 * listed + 4.0 * static_cast<double>(c.n_labels) + 20.0;
}

}  // namespace

ForestPlan plan_path(const Chains& c, const std::vector<int64_t>& order, int threads, bool split,
                     int64_t expectations, double slower) {
    ForestPlan plan;
    const double cost = cost_of(c) * slower;
    const double labels = static_cast<double>(c.n_labels);
    const size_t together = static_cast<size_t>(sequences_together(c));
    for (int64_t s : order) plan.nanoseconds += cost * static_cast<double>(length(c, s));
    if (threads > 1 && split) {
        const double worth = std::max(20e3, plan.nanoseconds / (2.0 * threads));
        while (plan.n_split < order.size() &&
               cost * static_cast<double>(length(c, order[plan.n_split])) > worth) {
            ++plan.n_split;
        }
    }
    for (size_t i = 0; i < plan.n_split; ++i) {
        const int64_t at = static_cast<int64_t>(i), n = length(c, order[i]), left = n / 2;
        const auto add = [&](TaskKind kind, int64_t messages) {
            return plan.tasks.add(kind, at, at + 1, static_cast<double>(messages));
        };
        const int64_t stored[2] = {add(TaskKind::kForward, left - 1),
                                   add(TaskKind::kBackward, n - left - 1)};
        const int64_t met[2] = {add(TaskKind::kForwardMeet, n - left),
                                add(TaskKind::kBackwardMeet, left)};
        for (int64_t a : stored) {
            for (int64_t b : met) plan.tasks.edge(a, b);
        }
    }
    // Sizes of groups depend on the data alone: sums over tasks must not show the threads.
    double rest = 0.0;
    for (size_t i = plan.n_split; i < order.size(); ++i) {
        rest += cost * static_cast<double>(length(c, order[i]));
    }
    double target = std::min(std::max(rest / 64.0, 10e3), 2e6);
    if (expectations) {
        const double most = static_cast<double>(expectations);
        const double chunks = std::max(1.0, std::min(most, 8e6 / (labels * labels)));
        target = std::max(target, rest / chunks);
    }
    for (size_t i = plan.n_split; i < order.size();) {
        double sum = 0.0, messages = 0.0;
        size_t j = i;
        while (j < order.size() && (sum < target || (j - i) % together != 0)) {
            const double n = static_cast<double>(length(c, order[j++]));
            sum += cost * n;
            messages += 2.0 * (n - 1.0);
        }
        plan.tasks.add(TaskKind::kSequences, static_cast<int64_t>(i), static_cast<int64_t>(j),
                       messages);
        i = j;
    }
    plan.tasks.finish();
    return plan;
}

ForestPlan plan_branching(const Layout& t, int64_t labels) {
    ForestPlan plan;
    plan.nanoseconds = node_cost(labels) * static_cast<double>(t.n);
    const int64_t blocks = t.n_blocks;
    const auto add = [&](TaskKind kind, int64_t b) {
        const int64_t first = t.begin[at(b)], last = t.begin[at(b) + 1];
        const int64_t roots = t.above[at(b)] < 0 ? t.block_roots[at(b)] : 0;
        plan.tasks.add(kind, first, last, static_cast<double>(last - first - roots));
    };
    const auto up = [&](int64_t b) { return blocks - 1 - b; };
    const auto down = [&](int64_t b) { return blocks + b; };
    for (int64_t b = blocks; b-- > 0;) add(TaskKind::kUpward, b);
    for (int64_t b = 0; b < blocks; ++b) add(TaskKind::kDownward, b);
    for (int64_t b = 0; b < blocks; ++b) {
        if (t.above[at(b)] < 0) plan.tasks.edge(up(b), down(b));
        for (int32_t k = t.below_ptr[at(b)]; k < t.below_ptr[at(b) + 1]; ++k) {
            plan.tasks.edge(up(t.below[at(k)]), up(b));
            plan.tasks.edge(down(b), down(t.below[at(k)]));
        }
    }
    plan.tasks.finish();
    return plan;
}

}  // namespace vs
