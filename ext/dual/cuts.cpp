#include "dual/cuts.h"

#include <algorithm>
#include <numeric>

#include "core/at.h"
#include "factors/shift.h"

namespace vs::dual {
namespace {

constexpr double kCarries = 1e-9;  // a capacity that counts

}  // namespace

TreeCuts::TreeCuts(const factors::Arcs& arcs) : arcs_(arcs) {
    row_.assign(at(arcs.words + 1), 0);
    for (int32_t m : arcs.modifier) ++row_[at(m)];
    std::partial_sum(row_.begin(), row_.end(), row_.begin());
    std::vector<int64_t> next(row_.begin(), row_.end() - 1);
    order_.resize(arcs.head.size());
    for (size_t a = 0; a < arcs.head.size(); ++a) {
        order_[at(next[at(arcs.modifier[a] - 1)]++)] = static_cast<int32_t>(a);
    }
    own_.resize(arcs.head.size());
    scratch_.resize(2 * arcs.head.size());
    inside_.assign(at(arcs.words + 1), 0);
    if (!arcs.single_root) return;
    Cut root;
    root.equal = true;
    for (size_t a = 0; a < arcs.head.size(); ++a) {
        if (arcs.head[a] == 0) root.arcs.push_back(static_cast<int32_t>(a));
    }
    cuts.push_back(root);
}

void TreeCuts::project(double* point) {
    for (int64_t m = 0; m < arcs_.words; ++m) {
        const int64_t first = row_[at(m)], count = row_[at(m + 1)] - first;
        for (int64_t i = 0; i < count; ++i) own_[at(i)] = point[order_[at(first + i)]];
        factors::shift_to_sum(count, own_.data(), 1.0, scratch_.data());
        for (int64_t i = 0; i < count; ++i) point[order_[at(first + i)]] = own_[at(i)];
    }
}

// The largest flow from the root to a word; at most `enough`.
double TreeCuts::flow_to(int32_t word, double enough) {
    residual_ = capacity_;
    double total = 0.0;
    while (total < enough - kCarries) {
        std::fill(came_.begin(), came_.end(), -1);
        queue_.assign(1, 0);
        for (size_t i = 0; i < queue_.size() && came_[at(word)] < 0; ++i) {
            const int32_t here = queue_[i];
            for (int32_t j = first_[at(here)]; j < first_[at(here) + 1]; ++j) {
                const int32_t e = edges_[at(j)], there = leads_to_[at(e)];
                if (there == 0 || came_[at(there)] >= 0 || residual_[at(e)] <= kCarries) continue;
                came_[at(there)] = e;
                queue_.push_back(there);
            }
        }
        if (came_[at(word)] < 0) break;
        double least = enough - total;
        for (int32_t v = word; v != 0; v = leads_to_[at(came_[at(v)] ^ 1)]) {
            least = std::min(least, residual_[at(came_[at(v)])]);
        }
        for (int32_t v = word; v != 0; v = leads_to_[at(came_[at(v)] ^ 1)]) {
            residual_[at(came_[at(v)])] -= least;
            residual_[at(came_[at(v)] ^ 1)] += least;
        }
        total += least;
    }
    return total;
}

// The arcs into the smallest set with `word` that nothing more leads into.
void TreeCuts::add_word(int32_t word) {
    std::fill(inside_.begin(), inside_.end(), uint8_t{0});
    inside_[at(word)] = 1;
    queue_.assign(1, word);
    for (size_t i = 0; i < queue_.size(); ++i) {
        const int32_t here = queue_[i];
        for (int32_t j = first_[at(here)]; j < first_[at(here) + 1]; ++j) {
            const int32_t e = edges_[at(j)], there = leads_to_[at(e)];
            if (inside_[at(there)] || residual_[at(e ^ 1)] <= kCarries) continue;
            inside_[at(there)] = 1;
            queue_.push_back(there);
        }
    }
    add(0.0);
}

// The cut of the set inside_, if it is new.
void TreeCuts::add(double weight) {
    Cut cut;
    for (size_t a = 0; a < arcs_.head.size(); ++a) {
        if (inside_[at(arcs_.modifier[a])] && !inside_[at(arcs_.head[a])]) {
            cut.arcs.push_back(static_cast<int32_t>(a));
        }
    }
    cut.weight = cut.pull = weight;
    const auto same = [&](const Cut& c) { return !c.equal && c.arcs == cut.arcs; };
    if (std::none_of(cuts.begin(), cuts.end(), same)) cuts.push_back(std::move(cut));
}

// Takes the best arc into each set, and subtracts its score, at most 0 for a set of several words,
// from all arcs into it; as long as that closes a cycle, whose sets become one.
void TreeCuts::prove(const double* scores) {
    const auto nodes = static_cast<int32_t>(arcs_.words + 1);
    const size_t arcs = arcs_.head.size();
    std::vector<double> left(scores, scores + arcs);
    std::vector<int32_t> of(at(nodes)), best(at(nodes)), mark(at(nodes));
    std::vector<uint8_t> several(at(nodes), 0), settled(at(nodes), 0);
    std::iota(of.begin(), of.end(), 0);
    for (;;) {
        // Only sets that are new ask again.
        for (int32_t c = 1; c < nodes; ++c) {
            if (!settled[at(c)]) best[at(c)] = -1;
        }
        for (size_t a = 0; a < arcs; ++a) {
            const int32_t c = of[at(arcs_.modifier[a])];
            if (settled[at(c)] || of[at(arcs_.head[a])] == c) continue;
            int32_t& own = best[at(c)];
            if (own < 0 || left[a] > left[at(own)]) own = static_cast<int32_t>(a);
        }
        for (int32_t c = 1; c < nodes; ++c) {
            if (settled[at(c)] || of[at(c)] != c) continue;
            if (best[at(c)] < 0) return;  // no tree
            settled[at(c)] = 1;
            const double top = left[at(best[at(c)])];
            for (size_t a = 0; a < arcs; ++a) {
                if (of[at(arcs_.modifier[a])] == c && of[at(arcs_.head[a])] != c) left[a] -= top;
            }
            if (!several[at(c)] || top >= 0.0) continue;
            for (int32_t v = 0; v < nodes; ++v) inside_[at(v)] = of[at(v)] == c;
            add(-top);
        }
        std::fill(mark.begin(), mark.end(), 0);
        int32_t cycle = -1;
        for (int32_t c = 1; c < nodes && cycle < 0; ++c) {
            int32_t v = of[at(c)];
            while (v != 0 && mark[at(v)] == 0) {
                mark[at(v)] = c;
                v = of[at(arcs_.head[at(best[at(v)])])];
            }
            if (v != 0 && mark[at(v)] == c) cycle = v;
        }
        if (cycle < 0) return;
        std::vector<uint8_t> joins(at(nodes), 0);
        for (int32_t v = cycle; !joins[at(v)];) {
            joins[at(v)] = 1;
            v = of[at(arcs_.head[at(best[at(v)])])];
        }
        for (int32_t v = 1; v < nodes; ++v) {
            if (joins[at(of[at(v)])]) of[at(v)] = cycle;
        }
        several[at(cycle)] = 1;
        settled[at(cycle)] = 0;
    }
}

// `node` gets one as a whole, and so does every word into which one leads from such words: a set
// with a word that gets one is no cut, and into one without them leads as much as from them.
void TreeCuts::reach(int32_t node) {
    reached_[at(node)] = 1;
    queue_.assign(1, node);
    for (size_t i = 0; i < queue_.size(); ++i) {
        const int32_t here = queue_[i];
        for (int32_t j = first_[at(here)]; j < first_[at(here) + 1]; ++j) {
            const int32_t e = edges_[at(j)], there = leads_to_[at(e)];
            if (e % 2 == 1 || reached_[at(there)]) continue;
            into_[at(there)] += capacity_[at(e)];
            if (into_[at(there)] < 1.0 - kCarries) continue;
            reached_[at(there)] = 1;
            queue_.push_back(there);
        }
    }
}

double TreeCuts::separate(const double* q, double least) {
    const int64_t nodes = arcs_.words + 1;
    leads_to_.clear();
    capacity_.clear();
    first_.assign(at(nodes + 1), 0);
    for (size_t a = 0; a < arcs_.head.size(); ++a) {
        if (q[a] <= kCarries) continue;
        leads_to_.push_back(arcs_.modifier[a]);
        leads_to_.push_back(arcs_.head[a]);
        capacity_.push_back(q[a]);
        capacity_.push_back(0.0);
        ++first_[at(arcs_.head[a]) + 1];
        ++first_[at(arcs_.modifier[a]) + 1];
    }
    std::partial_sum(first_.begin(), first_.end(), first_.begin());
    edges_.resize(leads_to_.size());
    std::vector<int32_t> next(first_.begin(), first_.end() - 1);
    for (size_t e = 0; e < leads_to_.size(); ++e) {
        edges_[at(next[at(leads_to_[e ^ 1])]++)] = static_cast<int32_t>(e);
    }
    came_.assign(at(nodes), -1);
    double worst = 0.0;
    for (const Cut& cut : cuts) {
        if (!cut.equal) continue;
        double sum = 0.0;
        for (int32_t a : cut.arcs) sum += q[a];
        worst = std::max(worst, std::fabs(1.0 - sum));
    }
    into_.assign(at(nodes), 0.0);
    reached_.assign(at(nodes), 0);
    reach(0);
    for (int32_t m = 1; m < nodes; ++m) {
        if (reached_[at(m)]) continue;
        const double out = 1.0 - flow_to(m, 1.0);
        worst = std::max(worst, out);
        if (out > least) add_word(m);
        if (out <= kCarries) reach(m);
    }
    return worst;
}

}  // namespace vs::dual
