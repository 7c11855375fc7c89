// Sums over edges, of the rows that the way down keeps of each (BranchingPass::edge_left).
#pragma once

#include "core/at.h"
#include "rows/edges.h"
#include "forest/branching_buffers.h"

namespace VS_NS {

template <class D>
class BranchingEdges {
  public:
    using T = typename D::T;
    using Buffers = BranchingBuffers<D>;
    using In = typename D::In;

    BranchingEdges(Buffers& buffers, double* sums) : w_(buffers), sums_(sums) {}

    bool open() {
        if (!w_.ok) return false;
        const vs::BranchingPass& p = w_.pass;
        bare_ = w_.d->sums_without_transition();
        // Few where sums are kept in float32 for the length of a window.
        left_ = w_.scratch.template array<T>(2 * kWindow * static_cast<int64_t>(w_.Kp));
        right_ = left_ + kWindow * static_cast<int64_t>(w_.Kp);
        depth_ = static_cast<Depth<D>*>(w_.scratch.take(p.n_table_views * sizeof(Depth<D>)));
        if (w_.scratch.failed) return false;
        for (int64_t i = 0; i < p.n_table_views && p.depth; ++i) {
            new (depth_ + i) Depth<D>();
            if (!depth_[i].open(w_.d[i].in, p.depth[i], w_.x, w_.scratch)) return false;
        }
        return true;
    }
    // False when it was cancelled.
    bool run(int64_t first, int64_t last) {
        for (int64_t lo = first, hi; lo < last; lo = hi) {
            hi = lo + kWindow < last ? lo + kWindow : last;
            if ((!bare_ || w_.pass.pairwise) && !one_by_one(lo, hi)) return false;
            if (bare_ && (sums_ || w_.pass.energies) && !window(lo, hi)) return false;
        }
        return true;
    }

  private:
    static constexpr int kWindow = 32;

    bool counts(int64_t s) const { return w_.t.parent[s] >= 0 && w_.wanted(s); }
    const T* left(int64_t s) const { return static_cast<T*>(w_.pass.edge_left) + s * w_.Kp; }
    const T* right(int64_t s) const { return static_cast<T*>(w_.pass.edge_right) + s * w_.Kp; }
    double* sums_of(int64_t s) const {
        const int64_t type = (w_.pass.model.tables == vs::Tables::kTyped) ? w_.pass.which[s] : 0;
        return sums_ ? sums_ + type * w_.K * w_.K : nullptr;
    }
    // Edges that share a table go together.
    bool window(int64_t lo, int64_t hi) {
        int64_t slot[kWindow];
        int m = 0;
        for (int64_t s = lo; s < hi; ++s) {
            if (counts(s)) slot[m++] = s;
        }
        const auto alike = [&](int q, int r) { return &w_.domain(slot[q]) == &w_.domain(slot[r]); };
        bool go = true;
        in_groups<kWindow>(m, alike, [&](const int* which, int count) {
            go = go && w_.ticker.go_on(2 * count);
            if (!go) return;
            int64_t some[kWindow];
            for (int i = 0; i < count; ++i) some[i] = slot[which[i]];
            if (sums_) add_sums(some, count);
            if (w_.pass.energies) add_energies(some, count);
        });
        return go;
    }
    void add_listed(const vs::SparseTable& pairs, int64_t s) {
        const T *a = left(s), *g = right(s);
        for (int l = 0; l < w_.K; ++l) {
            if (!(a[l] > T(0))) continue;
            for (int64_t e = pairs.start[vs::at(l)]; e < pairs.start[vs::at(l) + 1]; ++e) {
                sums_[e] += static_cast<double>(a[l] * g[pairs.column[vs::at(e)]]);
            }
        }
    }
    void add_sums(const int64_t* slot, int m) {
        for (int i = 0; i < m && w_.pass.pairs; ++i) add_listed(*w_.pass.pairs, slot[i]);
        if (w_.pass.pairs) return;
        constexpr int kBlock = sizeof(T) == 8 ? kWindow : 8;
        const size_t row = sizeof(T) * static_cast<size_t>(w_.Kp);
        for (int i0 = 0; i0 < m; i0 += kBlock) {
            const int n = m - i0 < kBlock ? m - i0 : kBlock;
            for (int r = 0; r < n; ++r) {
                std::memcpy(left_ + r * w_.Kp, left(slot[i0 + r]), row);
                std::memcpy(right_ + r * w_.Kp, right(slot[i0 + r]), row);
            }
            add_outer(left_, w_.Kp, right_, w_.Kp, n, w_.K, sums_of(slot[0]));
        }
    }
    void add_energies(const int64_t* slot, int m) {
        constexpr int kRows = Depth<D>::kRows;
        const T *a[kRows], *g[kRows];
        double* to[kRows];
        double mass[kRows];
        Depth<D>& depth = depth_[&w_.domain(slot[0]) - w_.d];
        for (int i0 = 0; i0 < m; i0 += kRows) {
            const int n = m - i0 < kRows ? m - i0 : kRows;
            for (int r = 0; r < n; ++r) {
                const int64_t s = slot[i0 + r];
                a[r] = left(s);
                g[r] = right(s);
                to[r] = w_.pass.energies + w_.t.edge[s];
                mass[r] = 1.0;
            }
            depth.add(n, a, g, mass, to);
        }
    }
    // Does what needs xi itself: everything, with logarithms or with tables for each edge.
    bool one_by_one(int64_t lo, int64_t hi) {
        constexpr int kSteps = 32;  // messages that take as long as an edge
        const auto* wanted = w_.pass.pairwise ? w_.pass.pairwise_row : nullptr;
        double* const energies = bare_ ? nullptr : w_.pass.energies;
        for (int64_t s = lo; s < hi; ++s) {
            if (!counts(s)) continue;
            const int64_t row = wanted ? wanted[w_.t.edge[s]] : -1;
            double* const sums = bare_ ? nullptr : sums_of(s);
            if (row < 0 && !sums && !energies) continue;
            if (!w_.ticker.go_on(kSteps)) return false;
            D& d = w_.domain(s);
            const int64_t edge = w_.table(s), kk = static_cast<int64_t>(w_.K) * w_.K;
            if (sums && w_.pass.pairs) {
                const vs::SparseTable& pairs = *w_.pass.pairs;
                d.edge_marginal(edge, left(s), right(s), 1.0, [&](int l, const T* xi) {
                    for (int64_t e = pairs.start[vs::at(l)]; e < pairs.start[vs::at(l) + 1]; ++e) {
                        sums[e] += static_cast<double>(xi[pairs.column[vs::at(e)]]);
                    }
                });
                continue;
            }
            In* const out = row < 0 ? nullptr : pairwise() + row * kk;
            const double energy =
                edge_answers(d, edge, left(s), right(s), 1.0, out, sums, 1.0, energies != nullptr);
            if (energies) energies[w_.t.edge[s]] = energy;
        }
        return true;
    }
    In* pairwise() const { return static_cast<In*>(w_.pass.pairwise); }

    Buffers& w_;
    double* sums_;
    bool bare_ = false;
    T *left_ = nullptr, *right_ = nullptr;
    Depth<D>* depth_ = nullptr;
};

template <class D>
void tree_edges(vs::BranchingPass* pass, vs::Item item, double* sums, int worker) {
    BranchingBuffers<D> buffers(pass, worker);
    if (!buffers.ticker.begin_task()) return;
    BranchingEdges<D> work(buffers, sums);
    if (!work.open()) {
        pass->control->stop.store(2);
    } else {
        work.run(item.first, item.last);
    }
}

}  // namespace VS_NS
