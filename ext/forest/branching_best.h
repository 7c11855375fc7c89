// The best configuration of a forest: the max-sum algebra on the way up, states from the roots
// down.
//
//   V_v = u_v + sum_c max_k (t(., k) + V_c(k));   state of c: argmax_k (t(x_v, k) + V_c(k))
//
// V is kept in the pass's `alpha` and the messages to parents in its `up`. Products over children
// are sums, near zero by their maximum. Messages of slots that do not wait for each other share a
// reading of their table.
#pragma once

#include "forest/branching_buffers.h"
#include "forest/path_best.h"

namespace VS_NS {

template <class In>
class BestOfBlock {
  public:
    BestOfBlock(vs::BranchingPass* pass, int64_t block, int worker)
        : pass_(pass),
          t_(pass->t),
          b_(block),
          begin_(t_.begin[block]),
          end_(t_.begin[block + 1]),
          g_(pass->model.arrays.n_labels),
          K_(g_.K),
          Kp_(g_.Kp),
          in_(*pass->tables),
          scratch_(pass->scratch[worker]),
          backoff_(pass->backoff + worker),
          ticker_(pass->control, worker == 0, pass->model.arrays.n_labels) {}
    BestOfBlock(const BestOfBlock&) = delete;
    BestOfBlock& operator=(const BestOfBlock&) = delete;

    // False: no memory.
    bool open(bool upward) {
        scratch_.reset();
        row_ = scratch_.array<In>(2 * static_cast<int64_t>(Kp_));
        const bool sends = upward && pass_->scores_up;
        return row_ && (!sends || send_.init(g_, scratch_, backoff_));
    }

    void upward() {
        if (!ticker_.begin_task()) return;
        below_ = t_.below_ptr[b_ + 1];
        for (int64_t hi = end_, lo; hi > begin_; hi = lo) {
            lo = batch_before(t_, begin_, hi, kBatch);
            if (!ticker_.go_on(hi - lo)) return;
            for (int64_t s = hi; s-- > lo;) {
                if (s - kAhead >= begin_) fetch(s - kAhead);
                know(s);
            }
            send_up(lo, hi);
        }
        if (t_.above[b_] < 0) return;
        In* const together = message_of_block(b_);
        for (int k = 0; k < Kp_; ++k) together[k] = k < K_ ? In(0) : lowest();
        for (int64_t s = begin_; s < begin_ + t_.block_roots[b_]; ++s) join(together, up(s));
    }

    void downward() {
        Ledger sum;
        for (int64_t s = begin_; s < end_; ++s) {
            if (!ticker_.go_on()) return;
            if (s + kAhead < end_) fetch(s + kAhead);
            choose(s, sum);
        }
    }

  private:
    using V = Vec<In>;
    static constexpr int kBatch = BestMessages<In>::kMostRows;
    static constexpr int64_t kAhead = 32;  // slots between a prefetch and its use

    static In lowest() { return Input<In>::forbidden(); }
    In* alpha(int64_t s) const { return static_cast<In*>(pass_->alpha) + s * Kp_; }
    In* up(int64_t s) const { return static_cast<In*>(pass_->up) + s * Kp_; }
    In* message_of_block(int64_t b) const { return static_cast<In*>(pass_->block_up) + b * Kp_; }
    int64_t table(int64_t s) const { return pass_->which ? pass_->which[s] : 0; }
    // Null where edges have tables of their own, whichever way they run.
    const vs::Scores* scores(int64_t s) const {
        const vs::Scores* const all = t_.flipped[s] ? pass_->scores_down : pass_->scores_up;
        return all ? all + table(s) : nullptr;
    }
    const In* transition(int64_t s) const {
        return in_.transition + table(s) * static_cast<int64_t>(K_) * K_;
    }

    VS_INLINE void fetch(int64_t s) const {
        row_prefetch_alone(in_.unary + static_cast<int64_t>(t_.node[s]) * K_, K_, false);
    }
    // V of a slot; slots come in descending order, and so do the blocks below them.
    void know(int64_t s) {
        In* const v = alpha(s);
        const In high = own_scores(s, v);
        int64_t from = below_;
        while (from > t_.below_ptr[b_] && t_.above[t_.below[from - 1]] == s) --from;
        const int64_t first = t_.children[s], last = t_.children_end[s];
        if (from == below_ && first >= last) centre(v, high);
        for (int64_t k = from; k < below_; ++k) join(v, message_of_block(t_.below[k]));
        below_ = from;
        for (int64_t c = first; c < last; ++c) join(v, up(c));
    }
    // The scores of a node, -inf beyond; returns the largest.
    In own_scores(int64_t s, In* v) const {
        const int64_t node = t_.node[s];
        const bool plain = !in_.decorated(false, false);
        if (!plain) in_.compose(node, false, false, v);
        const In* const u = plain ? in_.unary + node * K_ : v;
        V high = V::set1(lowest());
        for_row<In>(K_, [&](int k, int m, auto whole) VS_INLINE_LAMBDA {
            const V x = whole.value ? V::load(u + k) : V::load_part(u + k, m, lowest());
            high = V::max(high, x);
            x.store(v + k);
        });
        return high.hmax();
    }
    // v = v + m, less its largest entry.
    void join(In* v, const In* m) const {
        V high = V::set1(lowest());
        for (int k = 0; k < Kp_; k += V::N) {
            const V z = V::load(v + k) + V::load(m + k);
            high = V::max(high, z);
            z.store(v + k);
        }
        centre(v, high.hmax());
    }
    void centre(In* v, In top) const {
        if (!(top > lowest())) return;
        const V most = V::set1(top);
        for (int k = 0; k < Kp_; k += V::N) (V::load(v + k) - most).store(v + k);
    }

    // Messages of slots [lo, hi) to their parents.
    void send_up(int64_t lo, int64_t hi) {
        const vs::Scores* over[kBatch];
        const In *from[kBatch], *some_from[kBatch];
        In *to[kBatch], *some_to[kBatch];
        int m = 0;
        for (int64_t s = lo; s < hi; ++s) {
            if (t_.parent[s] < 0) continue;
            V::set1(lowest()).store(up(s) + Kp_ - V::N);  // nothing else may write beyond K
            if (!pass_->scores_up) {
                send_alone(s);
                continue;
            }
            over[m] = scores(s);
            from[m] = alpha(s);
            to[m++] = up(s);
        }
        if (m > 0 && !pass_->which && !t_.any_flipped) return send_.send(*over[0], m, from, to);
        const auto alike = [&](int q, int r) { return over[q] == over[r]; };
        in_groups<kBatch>(m, alike, [&](const int* some, int count) {
            for (int i = 0; i < count; ++i) {
                some_from[i] = from[some[i]];
                some_to[i] = to[some[i]];
            }
            send_.send(*over[some[0]], count, some_from, some_to);
        });
    }
    // Over a table of its own.
    void send_alone(int64_t s) {
        const In* const v = alpha(s);
        In* const y = up(s);
        const In* e = transition(s);
        if (t_.flipped[s]) return max_sum_forward(e, K_, Kp_, v, y);
        for (int l = 0; l < K_; ++l, e += K_) y[l] = add(v, e, row_);
    }
    // sums = x + e, -inf beyond; returns the largest. x (Kp,), e (K,).
    In add(const In* x, const In* e, In* sums) const {
        V high = V::set1(lowest());
        for_row<In>(K_, [&](int k, int m, auto whole) VS_INLINE_LAMBDA {
            const V y = whole.value ? V::load(e + k) : V::load_part(e + k, m, lowest());
            const V z = V::load(x + k) + y;
            high = V::max(high, z);
            z.store(sums + k);
        });
        return high.hmax();
    }

    // The state of a slot whose parent has one, and what it adds to the score.
    void choose(int64_t s, Ledger& sum) {
        vs::Account& a = pass_->account[t_.above[b_] >= 0 ? t_.n_trees + b_ : t_.tree[s]];
        int64_t& state = pass_->states[t_.node[s]];
        const int64_t p = t_.parent[s], from = p < 0 ? 0 : pass_->states[t_.node[p]];
        const In *const v = alpha(s), *x = v, *steps = nullptr;
        In top = lowest();
        if (p < 0) {
            top = row_max(v, K_);
        } else if (from >= 0) {
            steps = steps_from(s, from);
            top = add(v, steps, row_);
            x = row_;
        }
        if (!(top > lowest())) {
            state = -1;
            a.status = vs::kInfeasible;
            return;
        }
        const int best = row_find(x, K_, top);
        state = best;
        sum.add(a, static_cast<double>(in_.score(t_.node[s], best, false, false)));
        sum.add(a, static_cast<double>(steps ? steps[best] : In(0)));
    }
    // (K,) the scores of steps from the parent's state.
    const In* steps_from(int64_t s, int64_t from) {
        const vs::Scores* const table = scores(s);
        In* const own = row_ + Kp_;
        if (table && table->listed) {
            listed_column(*table->listed, static_cast<int>(from), Kp_, own);
            return own;
        }
        const In* const e = transition(s);
        if (!t_.flipped[s]) return e + from * K_;
        for (int64_t k = 0; k < K_; ++k) own[k] = e[k * K_ + from];
        return own;
    }

    vs::BranchingPass* pass_;
    const vs::TreeView& t_;
    const int64_t b_, begin_, end_;
    const Tiling<In> g_;
    const int K_, Kp_;
    const Input<In> in_;
    vs::Scratch& scratch_;
    vs::ScanBackoff* backoff_;
    Ticker ticker_;
    BestMessages<In> send_;
    In* row_ = nullptr;  // (2, Kp) temporary
    int64_t below_ = 0;  // where the blocks below the slots that are left end
};

template <class In>
void tree_best(vs::BranchingPass* pass, bool upward, int64_t block, int worker) {
    BestOfBlock<In> work(pass, block, worker);
    if (!work.open(upward)) {
        pass->control->stop.store(2);
    } else if (upward) {
        work.upward();
    } else {
        work.downward();
    }
}

}  // namespace VS_NS
