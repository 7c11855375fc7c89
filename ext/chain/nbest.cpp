#include "chain/nbest.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <queue>
#include <vector>

namespace vs {
namespace {

using std::size_t;

// A partial configuration ending in some label: its score, and where it came from.
struct Entry {
    double score;
    int32_t from, rank;  // label and rank at the position before
};

struct Head {
    double score;
    int32_t from, rank;
    bool operator<(const Head& o) const {  // the queue serves the largest
        if (score != o.score) return score < o.score;
        return from != o.from ? from > o.from : rank > o.rank;
    }
};

constexpr int64_t kPolled = 200'000;  // entries looked at between two polls: about 2 ms

// Keeps the k best of every (position, label): each list is a merge of the K lists before it.
template <class T>
void n_best_of(const Chains& c, int64_t sequence, int64_t k, int64_t* states, double* scores,
               Control& control, bool caller) {
    const double none = -std::numeric_limits<double>::infinity();
    const T* unary = static_cast<const T*>(c.unary);
    const T* start = static_cast<const T*>(c.start);
    const T* end = static_cast<const T*>(c.end);
    const int64_t K = c.n_labels, begin = c.offset[sequence];
    const int64_t n = c.offset[sequence + 1] - begin;
    std::vector<std::vector<std::vector<Entry>>> best(static_cast<size_t>(n));
    auto local = [&](int64_t i, int64_t y) {
        if (c.allowed && !c.allowed[(begin + i) * K + y]) return none;
        double x = static_cast<double>(unary[(begin + i) * K + y]);
        if (i == 0 && start) x += static_cast<double>(start[y]);
        if (i == n - 1 && end) x += static_cast<double>(end[y]);
        return x;
    };
    auto merge = [&](const std::vector<std::vector<Entry>>& lists, const T* column, double u,
                     std::vector<Entry>& out) {
        std::priority_queue<Head> heads;
        auto offer = [&](int32_t l, int32_t rank) {
            const auto& list = lists[static_cast<size_t>(l)];
            if (static_cast<size_t>(rank) >= list.size()) return;
            const double s = list[static_cast<size_t>(rank)].score +
                             (column ? static_cast<double>(column[l * K]) : 0.0) + u;
            if (s > none) heads.push({s, l, rank});
        };
        for (int32_t l = 0; l < K; ++l) offer(l, 0);
        out.reserve(static_cast<size_t>(std::min<int64_t>(k, 8)));
        while (!heads.empty() && static_cast<int64_t>(out.size()) < k) {
            const Head h = heads.top();
            heads.pop();
            out.push_back({h.score, h.from, h.rank});
            offer(h.from, h.rank + 1);
        }
    };
    const int64_t every = kPolled / (K + 8 * k) + 1;  // lists between two polls
    int64_t left = every;
    for (int64_t i = 0; i < n; ++i) {
        auto& row = best[static_cast<size_t>(i)];
        row.resize(static_cast<size_t>(K));
        const T* t = static_cast<const T*>(c.transition) +
                     (c.per_edge && i > 0 ? c.edge[sequence] + i - 1 : 0) * K * K;
        for (int64_t y = 0; y < K; ++y) {
            if (--left == 0) {
                left = every;
                if (control.stop.load(std::memory_order_relaxed)) return;
                if (caller && control.poll && control.poll(control.arg)) {
                    control.stop.store(1);
                    return;
                }
            }
            const double u = local(i, y);
            if (!(u > none)) continue;
            if (i == 0) {
                row[static_cast<size_t>(y)].push_back({u, -1, 0});
            } else {
                merge(best[static_cast<size_t>(i - 1)], t + y, u, row[static_cast<size_t>(y)]);
            }
        }
    }
    std::vector<Entry> ends;
    merge(best[static_cast<size_t>(n - 1)], nullptr, 0.0, ends);
    for (int64_t r = 0; r < k; ++r) {
        int64_t* x = states + r * c.n_positions + begin;
        if (r >= static_cast<int64_t>(ends.size())) {
            for (int64_t i = 0; i < n; ++i) x[i] = -1;
            continue;
        }
        Entry e = ends[static_cast<size_t>(r)];
        scores[r * c.n_sequences + sequence] = e.score;
        for (int64_t i = n - 1; i >= 0; --i) {
            x[i] = e.from;
            e = best[static_cast<size_t>(i)][static_cast<size_t>(e.from)]
                    [static_cast<size_t>(e.rank)];
        }
    }
}

}  // namespace

void lead_with(const Chains& c, int64_t sequence, int64_t k, const int64_t* path, double score,
               int64_t* states, double* scores) {
    const int64_t begin = c.offset[sequence], n = c.offset[sequence + 1] - begin;
    const auto row = [&](int64_t r) { return states + r * c.n_positions + begin; };
    const auto score_of = [&](int64_t r) -> double& {
        return scores[r * c.n_sequences + sequence];
    };
    int64_t at = 0;  // where it stands, or the place of the worst
    while (at < k - 1 && !std::equal(path, path + n, row(at))) ++at;
    for (int64_t r = at; r > 0; --r) {
        std::copy(row(r - 1), row(r - 1) + n, row(r));
        score_of(r) = score_of(r - 1);
    }
    std::copy(path, path + n, row(0));
    score_of(0) = score;
    // Sums that are equal but for rounding stay in order.
    for (int64_t r = 1; r < k; ++r) score_of(r) = std::min(score_of(r), score_of(r - 1));
}

void n_best(const Chains& c, int64_t sequence, int64_t k, int64_t* states, double* scores,
            Control& control, bool caller) {
    if (c.dtype == kFloat32) {
        n_best_of<float>(c, sequence, k, states, scores, control, caller);
    } else {
        n_best_of<double>(c, sequence, k, states, scores, control, caller);
    }
}

}  // namespace vs
