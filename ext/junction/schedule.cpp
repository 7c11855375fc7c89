// A propagation as tasks: large cliques are cut, small subtrees are one task. Costs
// are estimates, so that tasks are the same for any number of threads.
#include <cmath>

#include "junction/planner.h"

namespace vs::junction {
namespace {

constexpr double kTask = 40000.0;   // nanoseconds of a subtree that is one task, at most
constexpr double kPiece = 60000.0;  // nanoseconds of a piece before or after rows

int pieces(double ns) {
    return static_cast<int>(std::max(1.0, std::min(kBlocks, std::floor(ns / kPiece))));
}

// Blocks of rows, up and down. Returns the entries that blocks need copies of.
double cut_rows(const Domains& d, bool root, const TableLayout& layout, CliqueLayout* l) {
    double sums = static_cast<double>(l->width) + 1.0;  // of which blocks need copies
    for (Child& k : l->children) {
        if (k.into >= 0) continue;
        k.view.disjoint = within(l->cut, layout.clique[k.clique].message.var);
        if (!k.view.disjoint) sums += static_cast<double>(k.view.size);
    }
    l->up.disjoint = !root && within(l->cut, l->message.var);
    if (l->cut.empty()) return 0.0;
    const double cuts = settings(d, l->cut);
    const double most = std::min({kBlocks, std::ceil(l->size / kBlock), cuts});
    l->unit = l->rows / static_cast<int64_t>(cuts);
    const auto blocks = [&](double copied) {
        return static_cast<int>(std::max(1.0, std::min(most, 0.5 * l->size / copied)));
    };
    const double up = l->up.disjoint ? 0.0 : static_cast<double>(l->up.size);
    l->pieces[0].blocks = blocks(sums);
    l->pieces[1].blocks = blocks(l->up.disjoint ? 1.0 : up);
    return std::max((l->pieces[0].blocks - 1) * sums, (l->pieces[1].blocks - 1) * up);
}

// Adds the tasks of a clique that is cut; returns the last. The first is the next that is added.
int64_t add_clique(Tasks* tasks, int32_t c, const CliqueLayout& l, const Cost& x, bool up) {
    const PieceCounts& n = l.pieces[up];
    std::vector<int64_t> before, now;
    // A stage in pieces, or several as one task; every piece waits for all that came before.
    const auto then = [&](TaskKind kind, int pieces, double ns) {
        now.clear();
        for (int k = 0; k < pieces; ++k) {
            now.push_back(tasks->add(kind, c, k, kLeast + ns / pieces));
            for (int64_t b : before) tasks->edge(b, now.back());
        }
        before.swap(now);
    };
    if (n.before == 1) {
        then(TaskKind::kBeforeRows, 1, x.before);
    } else {
        then(TaskKind::kReserve, 1, 0.0);
        if (up && x.absorb > 0.0) then(TaskKind::kAbsorb, n.before, x.absorb);
        then(TaskKind::kSpread, n.before, x.before - x.absorb);
    }
    then(TaskKind::kRows, n.blocks, x.rows);
    if (n.after == 1) {
        then(TaskKind::kAfterRows, 1, x.after);
    } else {
        then(TaskKind::kMerge, n.after, x.merge);
        if (x.gather > 0.0) then(TaskKind::kGather, n.after, x.gather);
        if (x.project > 0.0) then(TaskKind::kProject, n.after, x.project);
        if (x.nested > 0.0) then(TaskKind::kNested, 1, x.nested);
        then(TaskKind::kDivide, n.after, x.divide);
        then(TaskKind::kDecide, 1, x.decide);
        then(TaskKind::kScale, n.after, x.scale);
        then(TaskKind::kRelease, 1, 0.0);
    }
    return before[0];
}

}  // namespace

void schedule(const Domains& d, const CliqueTree& t, const Poll& poll, TableLayout* layout) {
    const int32_t m = static_cast<int32_t>(layout->clique.size());
    std::vector<Cost> cost[2] = {std::vector<Cost>(m), std::vector<Cost>(m)};
    std::vector<double> below(static_cast<size_t>(m));  // half the cost of a subtree
    double copies = 0.0;
    for (int32_t c = 0; c < m; ++c) {
        if (!poll.go_on()) return;
        CliqueLayout& l = layout->clique[c];
        const bool root = t.parent[c] < 0;
        copies = std::max(copies, cut_rows(d, root, *layout, &l));
        for (int up = 0; up < 2; ++up) {
            const Cost x = cost[up][c] = cost_of(d, *layout, l, up == 1, root);
            l.pieces[up].before = pieces(x.before);
            l.pieces[up].after = pieces(x.after);
            below[c] += 0.5 * (x.before + x.rows + x.after);
        }
        if (!root) below[t.parent[c]] += below[c];
    }
    layout->bytes += 8.0 * copies;
    // A task is a subtree that costs little, named by its root, or one clique.
    std::vector<int32_t> group(static_cast<size_t>(m));
    std::vector<Set> members(static_cast<size_t>(m));
    for (int32_t c = m; c-- > 0;) {
        const int32_t p = t.parent[c];
        group[c] = p >= 0 && below[p] <= kTask ? group[p] : c;
    }
    for (int32_t c = 0; c < m; ++c) members[group[c]].push_back(c);
    PropagationPlan* out = &layout->schedule;
    std::vector<int64_t> first[2], last[2];  // tasks of each group, down and up
    for (int up = 2; up-- > 0;) {
        first[up].assign(static_cast<size_t>(m), -1);
        last[up] = first[up];
        for (int32_t i = 0; i < m; ++i) {
            const int32_t c = up ? i : m - 1 - i;
            if (group[c] != c) continue;
            if (!poll.go_on()) return;
            const CliqueLayout& l = layout->clique[c];
            const PieceCounts& n = l.pieces[up];
            first[up][c] = out->tasks.size();
            if (std::max({n.blocks, n.before, n.after}) > 1 && members[c].size() == 1) {
                last[up][c] = add_clique(&out->tasks, c, l, cost[up][c], up);
                continue;
            }
            const int64_t begin = static_cast<int64_t>(out->order.size());
            double ns = 0.0;
            for (size_t q = 0; q < members[c].size(); ++q) {
                const int32_t k = members[c][up ? q : members[c].size() - 1 - q];
                out->order.push_back(k);
                ns += cost[up][k].before + cost[up][k].rows + cost[up][k].after;
            }
            const int64_t end = static_cast<int64_t>(out->order.size());
            last[up][c] =
                out->tasks.add(up ? TaskKind::kUpward : TaskKind::kDownward, begin, end, ns);
        }
        if (up) out->n_up = out->tasks.size();
    }
    for (int32_t c = 0; c < m; ++c) {
        if (group[c] != c) continue;
        if (t.parent[c] < 0) {
            out->tasks.edge(last[1][c], first[0][c]);
            continue;
        }
        const int32_t p = group[t.parent[c]];
        out->tasks.edge(last[1][c], first[1][p]);
        out->tasks.edge(last[0][p], first[0][c]);
    }
    out->tasks.finish(true);
    out->nanoseconds = out->tasks.cost();
}

}  // namespace vs::junction
