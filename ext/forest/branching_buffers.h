// The arithmetic and the buffers of one worker, for one task of a forest; sums over its nodes.
#pragma once

#include <new>

#include "core/sum.h"
#include "rows/arithmetic.h"
#include "forest/path_exact.h"
#include "rows/pack.h"
#include "core/ticker.h"
#include "forest/level.h"

namespace VS_NS {

// The first slot of those before `hi`, `most` at most, that do not wait for each other on the way
// up.
VS_INLINE int64_t batch_before(const vs::TreeView& t, int64_t begin, int64_t hi, int most) {
    int64_t lo = hi - 1;
    for (; lo > begin && hi - lo < most; --lo) {
        const int64_t child = t.children[lo - 1];
        if (child < hi && child < t.children_end[lo - 1]) break;
    }
    return lo;
}

// f(which, count) for each group of 0..m that are alike; `which` in order.
template <int MOST, class Alike, class F>
VS_INLINE void in_groups(int m, Alike alike, F f) {
    bool done[MOST] = {};
    int which[MOST];
    for (int r = 0; r < m; ++r) {
        if (done[r]) continue;
        int count = 0;
        for (int q = r; q < m; ++q) {
            if (done[q] || !alike(q, r)) continue;
            done[q] = true;
            which[count++] = q;
        }
        f(which, count);
    }
}

template <class D>
struct BranchingBuffers {
    using T = typename D::T;
    using In = typename D::In;
    using V = Vec<T>;
    static constexpr int kBatch = 16;

    vs::BranchingPass& pass;
    const vs::TreeView& t;
    vs::Scratch& scratch;
    Ticker ticker;
    int K = 0, Kp = 0;
    D* d = nullptr;    // one for each table
    T* x = nullptr;    // (kBatch, Kp) what goes into messages, where it is not a row already
    T* y = nullptr;    // (kBatch, Kp) what comes out, likewise
    T* psi = nullptr;  // (Kp,)
    T* acc = nullptr;  // (Kp,)
    T* ones = nullptr;
    bool ok = false;

    BranchingBuffers(vs::BranchingPass* p, int worker)
        : BranchingBuffers(p, worker, renewed(p->scratch[worker])) {}
    BranchingBuffers(vs::BranchingPass* p, int worker, vs::Scratch& s)
        : pass(*p), t(p->t), scratch(s), ticker(p->control, worker == 0, p->model.arrays.n_labels) {
        Kp = Tiling<T>(p->model.arrays.n_labels).Kp;
        K = static_cast<int>(p->model.arrays.n_labels);
        T* tmp = scratch.array<T>((2 + 2 * kBatch + 3) * static_cast<int64_t>(Kp));
        auto* in = static_cast<Input<In>*>(scratch.take(p->n_table_views * sizeof(Input<In>)));
        auto* packed = scratch.array<Packed<T>>(p->n_table_views);
        d = static_cast<D*>(scratch.take(p->n_table_views * sizeof(D)));
        if (scratch.failed) return;
        for (int64_t i = 0; i < p->n_table_views; ++i) {
            new (in + i) Input<In>(p->tables[i]);
            packed[i] = packed_view<T>(p->packing[i]);
            new (d + i) D(in[i], packed[i], tmp);
            if (!d[i].open(scratch)) return;
        }
        for (int r = 0; r < 2 + 2 * kBatch + 3; ++r) d->clear(tmp + r * Kp);
        x = tmp + 2 * Kp;
        y = x + kBatch * Kp;
        psi = y + kBatch * Kp;
        acc = psi + Kp;
        ones = acc + Kp;
        d->ones(ones);
        ok = true;
    }

    void clear_pads(T* row) const {
        for (int k = K; k < Kp; ++k) row[k] = D::none();
    }
    // The same of a row that is still to be written, whose last entries may be cleared, too.
    void clear_end(T* row) const { V::set1(D::none()).store(row + Kp - V::N); }
    void begin_with_ones(T* row) const {
        for (int k = 0; k < Kp; k += V::N) V::load(ones + k).store(row + k);
    }
    In* output(int64_t s) const {
        return static_cast<In*>(pass.marginals) + static_cast<int64_t>(t.node[s]) * K;
    }
    bool per_edge() const { return pass.tables[0].per_edge; }
    D& domain(int64_t s) const { return pass.which && !per_edge() ? d[pass.which[s]] : *d; }
    int64_t table(int64_t s) const { return per_edge() ? (pass.which ? pass.which[s] : 0) : 0; }
    bool positive() const { return pass.packing[0].positive; }

    // Messages over the edges above slots s[0..m): from child to parent (`up`) or down.
    void send(const int64_t* s, int m, bool up, const T* const* from, T* const* to) {
        int64_t edge[kBatch];
        double unused[kBatch] = {};
        if (!pass.which && !t.any_flipped) {
            for (int r = 0; r < m; ++r) edge[r] = 0;
            return up ? d->backward(edge, m, from, to) : d->forward(edge, m, from, to, unused);
        }
        // Messages that share a table and a direction go together.
        const auto alike = [&](int q, int r) {
            return &domain(s[q]) == &domain(s[r]) && t.flipped[s[q]] == t.flipped[s[r]];
        };
        in_groups<kBatch>(m, alike, [&](const int* which, int count) {
            const T* x[kBatch];
            T* y[kBatch];
            for (int i = 0; i < count; ++i) {
                edge[i] = table(s[which[i]]);
                x[i] = from[which[i]];
                y[i] = to[which[i]];
            }
            const int64_t first = s[which[0]];
            if (up != static_cast<bool>(t.flipped[first])) {
                domain(first).backward(edge, count, x, y);
            } else {
                domain(first).forward(edge, count, x, y, unused);
            }
        });
    }
    static vs::Scratch& renewed(vs::Scratch& s) {
        s.reset();
        return s;
    }
    static void note(vs::Account& a, vs::Status status) {
        if (a.status == vs::kOk) a.status = status;
    }
    vs::Account& account(int64_t b, int64_t s) const {
        return pass.account[t.above[b] >= 0 ? t.n_trees + b : t.tree[s]];
    }
    bool wanted(int64_t s) const { return !pass.todo || pass.todo[t.tree[s]]; }
    bool wanted_block(int64_t b) const {
        if (!pass.todo) return true;
        const int64_t block_roots = t.above[b] >= 0 ? 1 : t.block_roots[b];
        for (int64_t i = 0; i < block_roots; ++i) {
            if (wanted(t.begin[b] + i)) return true;
        }
        return false;
    }
};

// Adds to accounts; the sum of the one at hand stays in registers.
class Ledger {
  public:
    Ledger() = default;
    Ledger(const Ledger&) = delete;
    Ledger& operator=(const Ledger&) = delete;
    ~Ledger() { leave(); }
    VS_INLINE void add(vs::Account& a, double x) {
        if (&a != of_) {
            leave();
            of_ = &a;
            sum_.value = a.shift;
            sum_.rest = a.rest;
        }
        sum_.add(x);
    }

  private:
    void leave() {
        if (!of_) return;
        of_->shift = sum_.value;
        of_->rest = sum_.rest;
    }
    vs::Account* of_ = nullptr;
    vs::Sum sum_;
};

}  // namespace VS_NS
