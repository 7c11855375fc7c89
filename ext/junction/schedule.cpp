// The two ways through a tree as tasks: large cliques are cut, small subtrees are one task. Costs
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
double cut_rows(const Domains& d, bool root, const Layout& layout, CliqueLayout* l) {
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

// One direction under construction.
struct Tasks {
    Schedule s;
    std::vector<std::pair<int64_t, int64_t>> edges;  // (a, b): b waits for a

    int64_t add(Schedule::Kind kind, int64_t first, int64_t last, double ns) {
        s.kind.push_back(kind);
        s.first.push_back(first);
        s.last.push_back(last);
        s.cost.push_back(ns);
        s.nanoseconds += ns;
        return static_cast<int64_t>(s.kind.size()) - 1;
    }

    // A clique that is cut; returns its last task.
    int64_t add_clique(int32_t c, const CliqueLayout& l, const Cost& x, bool up) {
        const Pieces& n = l.pieces[up];
        std::vector<int64_t> before, now;
        // Stages that are one task, in pieces; every piece waits for all of the stages before.
        const auto then = [&](Schedule::Kind kind, Stage from, Stage to, int pieces, double ns) {
            now.clear();
            for (int k = 0; k < pieces; ++k) {
                const int64_t what = kind == Schedule::kBlock ? k : Schedule::pack(from, to, k);
                now.push_back(add(kind, c, what, kLeast + ns / pieces));
                for (int64_t b : before) edges.push_back({b, now.back()});
            }
            before.swap(now);
        };
        const auto one = [&](Stage stage, int pieces, double ns) {
            then(Schedule::kPiece, stage, stage, pieces, ns);
        };
        if (n.before == 1) {
            then(Schedule::kBegin, kReserve, kSpread, 1, x.before);
        } else {
            then(Schedule::kBegin, kReserve, kReserve, 1, 0.0);
            if (up && x.absorb > 0.0) one(kAbsorb, n.before, x.absorb);
            one(kSpread, n.before, x.before - x.absorb);
        }
        then(Schedule::kBlock, kRows, kRows, n.blocks, x.rows);
        if (n.after == 1) {
            then(Schedule::kEnd, kMerge, kRelease, 1, x.after);
        } else {
            one(kMerge, n.after, x.merge);
            if (x.gather > 0.0) one(kGather, n.after, x.gather);
            if (x.project > 0.0) one(kProject, n.after, x.project);
            if (x.nested > 0.0) one(kNested, 1, x.nested);
            one(kDivide, n.after, x.divide);
            one(kDecide, 1, x.decide);
            one(kScale, n.after, x.scale);
            then(Schedule::kEnd, kRelease, kRelease, 1, 0.0);
        }
        return before[0];
    }

    // Successors of every task, the one with the longest path to the end last; ranks likewise.
    void link() {
        const size_t n = s.kind.size();
        s.waits.assign(n, 0);
        s.succ_ptr.assign(n + 1, 0);
        s.succ.resize(edges.size());
        for (const auto& [a, b] : edges) {
            ++s.succ_ptr[static_cast<size_t>(a) + 1];
            ++s.waits[static_cast<size_t>(b)];
        }
        for (size_t i = 0; i < n; ++i) s.succ_ptr[i + 1] += s.succ_ptr[i];
        std::vector<int64_t> next = s.succ_ptr;
        for (const auto& [a, b] : edges) s.succ[static_cast<size_t>(next[a]++)] = b;
        std::vector<double> path(n);
        std::vector<int32_t> urgent(n);
        for (size_t i = n; i-- > 0;) {
            urgent[i] = static_cast<int32_t>(i);
            for (int64_t e = s.succ_ptr[i]; e < s.succ_ptr[i + 1]; ++e) {
                path[i] = std::max(path[i], path[static_cast<size_t>(s.succ[e])]);
            }
            path[i] += s.cost[i];
        }
        std::stable_sort(urgent.begin(), urgent.end(),
                         [&](int32_t a, int32_t b) { return path[a] > path[b]; });
        s.rank.resize(n);
        for (size_t i = 0; i < n; ++i) s.rank[urgent[i]] = static_cast<int32_t>(i);
        for (size_t i = 0; i < n; ++i) {
            std::sort(s.succ.begin() + s.succ_ptr[i], s.succ.begin() + s.succ_ptr[i + 1],
                      [&](int64_t a, int64_t b) { return s.rank[a] > s.rank[b]; });
        }
    }
};

}  // namespace

void schedule(const Domains& d, const CliqueTree& t, const Poll& poll, Layout* layout) {
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
    std::vector<std::vector<int32_t>> members(static_cast<size_t>(m));
    for (int32_t c = m; c-- > 0;) {
        const int32_t p = t.parent[c];
        group[c] = p >= 0 && below[p] <= kTask ? group[p] : c;
    }
    for (int32_t c = 0; c < m; ++c) members[group[c]].push_back(c);
    for (int up = 0; up < 2; ++up) {
        Tasks tasks;
        std::vector<int64_t> first(static_cast<size_t>(m), -1), last = first;
        for (int32_t i = 0; i < m; ++i) {
            const int32_t c = up ? i : m - 1 - i;
            if (group[c] != c) continue;
            if (!poll.go_on()) return;
            const CliqueLayout& l = layout->clique[c];
            const Pieces& n = l.pieces[up];
            if (std::max({n.blocks, n.before, n.after}) > 1 && members[c].size() == 1) {
                first[c] = static_cast<int64_t>(tasks.s.kind.size());
                last[c] = tasks.add_clique(c, l, cost[up][c], up);
                continue;
            }
            std::vector<int32_t>& order = tasks.s.order;
            const int64_t begin = static_cast<int64_t>(order.size());
            double ns = 0.0;
            for (size_t q = 0; q < members[c].size(); ++q) {
                const int32_t k = members[c][up ? q : members[c].size() - 1 - q];
                order.push_back(k);
                ns += cost[up][k].before + cost[up][k].rows + cost[up][k].after;
            }
            const int64_t end = static_cast<int64_t>(order.size());
            first[c] = last[c] = tasks.add(Schedule::kWhole, begin, end, ns);
        }
        for (int32_t c = 0; c < m; ++c) {
            if (group[c] != c || t.parent[c] < 0) continue;
            const int32_t p = group[t.parent[c]];
            tasks.edges.push_back(up ? std::pair{last[c], first[p]} : std::pair{last[p], first[c]});
        }
        tasks.link();
        (up ? layout->upward : layout->downward) = std::move(tasks.s);
    }
}

}  // namespace vs::junction
