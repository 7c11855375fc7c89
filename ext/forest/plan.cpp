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

// How many tables of sums there may be.
double sums_of(int64_t most, double labels) {
    return std::max(1.0, std::min(static_cast<double>(most), 8e6 / (labels * labels)));
}

// Groups of `together` chunks that go side by side, of one sequence each, in at most `most` tasks
// or so; messages(chunk).
template <class F>
void add_chunks(const Cuts& cuts, int64_t together, double cost, double most, ForestPlan& plan,
                F messages) {
    const int64_t n = static_cast<int64_t>(cuts.chunk.size());
    double total = 0.0;
    for (const Chunk& part : cuts.chunk) total += messages(part);
    const double target = std::max(2e5 / cost, total / most);
    for (int64_t i = 0, j = 0; i < n; i = j) {
        double sum = 0.0;
        while (j < n && sum < target) {
            const int64_t end = j + chunks_together(cuts.chunk.data(), j, n, together);
            for (; j < end; ++j) sum += messages(cuts.chunk[at(j)]);
        }
        plan.tasks.add(TaskKind::kChunks, i, j, sum);
    }
}

}  // namespace

ForestPlan plan_path(const Chains& c, const std::vector<int64_t>& order, const Cuts& cuts,
                     int threads, bool split, bool narrow, int64_t expectations, double slower) {
    ForestPlan plan;
    const double cost = cost_of(c) * slower;
    const double labels = static_cast<double>(c.n_labels);
    const size_t together = static_cast<size_t>(sequences_together(c, narrow));
    const size_t n_cut = cuts.end.size();
    int64_t all = 0;  // positions
    for (const int64_t s : order) all += length(c, s);
    plan.nanoseconds = cost * static_cast<double>(all);
    add_chunks(cuts, sequences_together(c, narrow), cost,
               expectations ? sums_of(expectations, labels) : 1e300, plan, [](const Chunk& part) {
                   return static_cast<double>(part.end - part.first + part.last - part.begin - 2);
               });
    if (threads > 1 && split) {
        const double worth = std::max(20e3, plan.nanoseconds / (2.0 * threads));
        while (n_cut + plan.n_split < order.size() &&
               cost * static_cast<double>(length(c, order[n_cut + plan.n_split])) > worth) {
            ++plan.n_split;
        }
    }
    for (size_t i = n_cut; i < n_cut + plan.n_split; ++i) {
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
    int64_t rest = all;
    for (size_t i = 0; i < n_cut + plan.n_split; ++i) rest -= length(c, order[i]);
    // Sizes of groups depend on the data alone: sums over tasks must not show the threads.
    const double left = cost * static_cast<double>(rest);
    double target = std::min(std::max(left / 64.0, 10e3), 2e6);
    if (expectations) {
        target = std::max(target, left / sums_of(expectations, labels));
    }
    const double positions = target / cost;
    for (size_t i = n_cut + plan.n_split; i < order.size();) {
        int64_t sum = 0;
        size_t j = i;
        while (j < order.size() &&
               (static_cast<double>(sum) < positions || (j - i) % together != 0)) {
            sum += length(c, order[j++]);
        }
        const int64_t first = static_cast<int64_t>(i), last = static_cast<int64_t>(j);
        plan.tasks.add(TaskKind::kSequences, first, last,
                       static_cast<double>(2 * (sum - (last - first))));
        i = j;
    }
    plan.tasks.finish();
    return plan;
}

namespace {

// Adds groups of the sequences from `first` on, at most `together`, so that every thread has some.
void add_groups(const Chains& c, const std::vector<int64_t>& order, size_t first, int threads,
                int64_t together, ForestPlan& plan) {
    constexpr int64_t kTasks = 4;  // of each thread
    threads = threads_for(plan.nanoseconds, threads);
    const int64_t n = static_cast<int64_t>(order.size()), from = static_cast<int64_t>(first);
    const int64_t tasks = threads > 1 ? kTasks * threads : 1;
    const int64_t group = std::clamp((n - from) / tasks, int64_t{1}, together);
    for (int64_t i = from, j; i < n; i = j) {
        j = std::min(n, i + group);
        double sum = 0.0;
        for (int64_t r = i; r < j; ++r) sum += static_cast<double>(length(c, order[at(r)]) - 1);
        plan.tasks.add(TaskKind::kSequences, i, j, sum);
    }
    plan.tasks.finish();
}

}  // namespace

ForestPlan plan_best(const Chains& c, const std::vector<int64_t>& order, const Cuts& cuts,
                     int threads) {
    ForestPlan plan;
    const double cost = position_cost(c.n_labels);
    const int64_t together = best_together(c);
    plan.nanoseconds = cost * static_cast<double>(c.n_positions);
    add_chunks(cuts, together, cost, 1e300, plan,
               [](const Chunk& part) { return static_cast<double>(part.end - part.begin - 1); });
    add_groups(c, order, cuts.end.size(), threads, together, plan);
    return plan;
}

ForestPlan plan_samples(const Chains& c, const std::vector<int64_t>& order, const Cuts& cuts,
                        int threads, int64_t together, int64_t size) {
    ForestPlan plan;
    const double cost = 0.5 * position_cost(c.n_labels) + 15.0 * static_cast<double>(size);
    plan.nanoseconds = cost * static_cast<double>(c.n_positions);
    add_chunks(cuts, sequences_together(c, false), cost, 1e300, plan,
               [](const Chunk& part) { return static_cast<double>(part.end - part.begin - 1); });
    add_groups(c, order, cuts.end.size(), threads, together, plan);
    return plan;
}

ForestPlan plan_islands(const Chains& c, const std::vector<int64_t>& order, int threads,
                        int64_t together) {
    ForestPlan plan;
    for (int64_t s : order) plan.nanoseconds += static_cast<double>(length(c, s));
    plan.nanoseconds *= 2.0 * position_cost(c.n_labels);
    add_groups(c, order, 0, threads, together, plan);
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
