// Exact inference in a forest, block by block (SMM11 section 3, "upstream" and "downstream").
//
//   alpha_v = psi_v * prod_c u_c          what v knows from below, c its children
//   u_v     = E alpha_v                   message of v to its parent
//   belief_v = alpha_v * y_v              y_v message of the parent; the marginal when normalised
//   y_c     = (belief_v / u_c) E          0/0 = 0
//
// Taking a factor back out of a product is exact where it is not zero. Where u_c(l) = 0, state l of
// the parent has no mass together with anything below c, so whatever y_c has for it is multiplied
// by zero everywhere below: 0 will do. The same holds for entries of a belief too small for their
// type: what they would have added to any marginal below c is u_c(l) times what was lost, which is
// what was lost of the belief.
//
// The results of the way up wait in the order of slots, one row a node; the way down makes the
// messages again from it, block by block, in cache, unless the model is small. Where tables forbid
// nothing, children multiply their messages into their parent's row as soon as these are made, as
// long as the product of all cannot leave the range of the type.
//
// Messages of consecutive slots are computed together as long as none waits for another. Bits do
// not depend on that (tile.h), nor on who works on which block.
#pragma once

#include "forest/branching_buffers.h"
#include "forest/wide.h"

namespace VS_NS {

template <class D>
class BranchingBlock {
  public:
    using T = typename D::T;
    using In = typename D::In;
    using Buffers = BranchingBuffers<D>;

    BranchingBlock(Buffers& buffers, int64_t block)
        : w_(buffers),
          t_(buffers.t),
          d_(*buffers.d),
          b_(block),
          begin_(buffers.t.begin[block]),
          end_(buffers.t.begin[block + 1]),
          Kp_(buffers.Kp),
          streams_(streams(buffers.pass)) {}

    // Rows of a large result go past the caches where they are whole lines of them.
    static bool streams(const vs::BranchingPass& p) {
        constexpr int64_t kLine = 64, kLarge = int64_t{16} << 20;
        const int64_t row =
            p.model.arrays.n_labels * (p.model.arrays.dtype == vs::kFloat32 ? 4 : 8);
        return row % kLine == 0 && reinterpret_cast<uintptr_t>(p.marginals) % kLine == 0 &&
               row * p.t.n >= kLarge;
    }

    bool open(bool upward) {
        if (!w_.ok) return false;
        const int64_t n = end_ - begin_;
        alpha_ = w_.pass.alpha ? static_cast<T*>(w_.pass.alpha) + begin_ * Kp_
                               : w_.scratch.template array<T>(n * Kp_);
        up_ = w_.pass.up ? static_cast<T*>(w_.pass.up) + begin_ * Kp_
                         : w_.scratch.template array<T>(n * Kp_);
        if (!up_ || !alpha_) return false;
        // Rows of earlier calls may have left anything in the pads.
        for (int64_t s = begin_; s < end_ && Kp_ != w_.K; ++s) {
            if (upward) w_.clear_end(alpha(s));
            if (upward || !w_.pass.up) w_.clear_end(up(s));
        }
        return true;
    }

    // Upward pass; false when it was cancelled.
    bool upward() {
        below_ = t_.below_ptr[b_ + 1];
        typename D::Probe probe[Buffers::kBatch];
        const bool root = t_.above[b_] < 0;
        const int64_t block_roots = begin_ + t_.block_roots[b_];
        const int64_t parentless = root ? block_roots : begin_;  // without a parent
        const bool together = w_.pass.together > 0;
        Ledger sum;
        for (int64_t q = begin_; q < end_ && together; ++q) w_.begin_with_ones(alpha(q));
        for (int64_t hi = end_, lo; hi > begin_; hi = lo) {
            lo = batch_before(t_, begin_, hi, Buffers::kBatch);
            const int m = static_cast<int>(hi - lo);
            if (!w_.ticker.go_on(m)) return false;
            for (int r = 0; r < m; ++r) {
                T* workspace = together ? w_.x + r * Kp_ : alpha(lo + r);
                probe[r] = d_.probe(t_.node[lo + r], false, false, workspace);
            }
            for (int r = m; r-- > 0;) {
                const int64_t q = lo + r;
                // One row at a time: more than the core can wait for would stop it.
                if (q - kAhead >= begin_) fetch(t_.node[q - kAhead]);
                vs::Account& a = w_.account(b_, q);
                sum.add(a, probe[r].shift());
                if (!together || t_.children_end[q] - t_.children[q] > w_.pass.together ||
                    t_.children_elsewhere[q]) {
                    know(q, probe[r], a);
                    continue;
                }
                typename D::Scale scale = {};
                if (!d_.enter_in_place(probe[r], alpha(q), &scale)) Buffers::note(a, vs::kWiden);
                vs::merge(&a.scale, scale);
            }
            send_up(lo < parentless ? parentless : lo, hi);
            for (int64_t q = lo < block_roots ? block_roots : lo; q < hi && together; ++q) {
                d_.multiply(alpha(t_.parent[q]), up(q));
            }
        }
        if (w_.pass.kept_alpha) {
            std::memcpy(static_cast<T*>(w_.pass.kept_alpha) + begin_ * Kp_, alpha_,
                        sizeof(T) * static_cast<size_t>((end_ - begin_) * Kp_));
        }
        shifts_of_edges(sum);
        if (root) {
            for (int64_t q = begin_; q < parentless; ++q) {
                vs::Account& a = w_.account(b_, q);
                a.log_end = d_.log_sum(alpha(q));
                if (w_.pass.one_way && !(a.log_end > D::kLeastEnd)) {
                    Buffers::note(a, vs::kWiden);
                }
            }
        } else {
            send_together();
        }
        return true;
    }
    // Downward pass; false when it was cancelled.
    bool downward() {
        const bool root = t_.above[b_] < 0;
        const int64_t block_roots = begin_ + t_.block_roots[b_];
        int64_t s[Buffers::kBatch];
        const T* x[Buffers::kBatch];
        T* y[Buffers::kBatch];
        Product<T> product[Buffers::kBatch];
        const T* const above =
            root ? nullptr : static_cast<const T*>(w_.pass.block_down) + b_ * Kp_;
        for (int64_t lo = root ? block_roots : begin_, hi; lo < end_ && !w_.pass.up; lo = hi) {
            hi = lo + Buffers::kBatch < end_ ? lo + Buffers::kBatch : end_;
            if (!w_.ticker.go_on(hi - lo)) return false;
            send_up(lo, hi);
        }
        for (int64_t lo = begin_, hi; lo < end_; lo = hi) {
            for (hi = lo + 1; hi < end_ && hi - lo < Buffers::kBatch; ++hi) {
                if (hi == block_roots && root) break;  // roots have no message from above
                if (hi >= block_roots && t_.parent[hi] >= lo) break;
            }
            const int m = static_cast<int>(hi - lo);
            if (!w_.ticker.go_on(m)) return false;
            const bool parentless = root && lo < block_roots;
            for (int r = 0; r < m; ++r) {
                const int64_t q = lo + r;
                if (!streams_ && q + kAhead < end_) {
                    row_prefetch_alone(output(q + kAhead), w_.K, true);
                }
                s[r] = q;
                x[r] = w_.x + r * Kp_;
                y[r] = w_.y + r * Kp_;
                if (parentless) {
                    d_.ones(y[r]);
                    w_.clear_pads(y[r]);
                    continue;
                }
                const T* belief = q < block_roots ? above : alpha(t_.parent[q]);
                if (!d_.quotient(belief, up(q), w_.positive(), w_.x + r * Kp_)) {
                    Buffers::note(w_.account(b_, q), vs::kWiden);
                }
            }
            if (!parentless) w_.send(s, m, false, x, y);
            if (w_.pass.log_mass) keep_edges(lo, m, parentless, x, y);
            if (w_.pass.edge_left && !parentless) keep_factors(lo, m, x, y);
            for (int r = 0; r < m; ++r) {
                product[r] = d_.product(alpha(lo + r), y[r], alpha(lo + r));
            }
            for (int r = 0; r < m; ++r) finish(lo + r, product[r]);
        }
        for (int64_t k = t_.below_ptr[b_]; k < t_.below_ptr[b_ + 1]; ++k) {
            const int64_t c = t_.below[k];
            std::memcpy(static_cast<T*>(w_.pass.block_down) + c * Kp_, alpha(t_.above[c]),
                        sizeof(T) * static_cast<size_t>(Kp_));
        }
        if (streams_) stream_fence();
        return true;
    }

  private:
    static constexpr int64_t kAhead = 32;  // rows between a prefetch and its use

    T* alpha(int64_t s) const { return alpha_ + (s - begin_) * Kp_; }
    T* up(int64_t s) const { return up_ + (s - begin_) * Kp_; }
    VS_INLINE void fetch(int64_t node) const {
        row_prefetch_alone(d_.in.unary + node * w_.K, w_.K, false);
    }
    In* output(int64_t s) const { return w_.output(s); }
    // Messages of slots [lo, hi) to their parents.
    void send_up(int64_t lo, int64_t hi) {
        int64_t s[Buffers::kBatch];
        const T* x[Buffers::kBatch];
        T* y[Buffers::kBatch];
        int c = 0;
        for (int64_t q = lo; q < hi; ++q) {
            s[c] = q;
            x[c] = alpha(q);
            y[c++] = up(q);
        }
        if (c > 0) w_.send(s, c, true, x, y);
        for (int i = 0; i < c && w_.pass.one_way; ++i) {
            if (!d_.untouched(y[i])) Buffers::note(w_.account(b_, s[i]), vs::kWiden);
        }
    }
    // alpha of a node from the messages of its children; `below_`: where the blocks below it end.
    void know(int64_t s, const typename D::Probe& probe, vs::Account& a) {
        const int64_t first = t_.children[s], last = t_.children_end[s];
        int64_t elsewhere = below_;
        while (elsewhere > t_.below_ptr[b_] && t_.above[t_.below[elsewhere - 1]] == s) --elsewhere;
        const int64_t others = below_ - elsewhere;
        const int64_t n = last - first + others;
        const int64_t from = elsewhere;
        const int64_t until = below_;
        below_ = elsewhere;
        typename D::Scale scale = {};
        const T* received = n == 0 ? w_.ones : nullptr;
        bool narrow = true;
        for (int64_t k = 0; k < n && narrow; ++k) {
            const T* more;
            if (k < others) {
                const int64_t c = t_.below[from + k];
                more = static_cast<const T*>(w_.pass.block_up) + c * Kp_;
                narrow = !w_.pass.block_wide[c];
            } else {
                more = up(first + k - others);
            }
            if (!narrow) break;
            if (!received) {
                received = more;
                continue;
            }
            narrow =
                d_.absorb(received, w_.positive(), more, true, w_.acc, &scale) && !d_.held(w_.acc);
            received = w_.acc;
        }
        if (narrow) {
            narrow = d_.enter(probe, received, true, alpha(s), alpha(s), &scale);
        }
        if (!narrow) {
            scale = {};
            know_wide(s, probe, first, last, from, until, &scale);
        }
        vs::merge(&a.scale, scale);
    }
    void know_wide(int64_t s, const typename D::Probe& probe, int64_t first, int64_t last,
                   int64_t from, int64_t until, typename D::Scale* scale) {
        if constexpr (D::kUnit != 1.0) {
            const vs::Scratch::Mark mark = w_.scratch.mark();
            WideProduct<T> p;
            if (!open_wide(s, &p)) return;
            for (int64_t k = from; k < until; ++k) {
                const int64_t c = t_.below[k];
                p.multiply(static_cast<const T*>(w_.pass.block_up) + c * Kp_,
                           w_.pass.block_wide[c] ? w_.pass.block_exponent + c * Kp_ : nullptr);
            }
            for (int64_t k = first; k < last; ++k) p.multiply(up(k), nullptr);
            for (int k = 0; k < w_.K; ++k) {
                const double x = static_cast<double>(d_.in.score(t_.node[s], k, false, false));
                p.multiply_exp(k, x, probe.shift());
            }
            *scale += static_cast<double>(p.narrow(alpha(s)));
            w_.clear_pads(alpha(s));  // a row of ones may have been begun there
            w_.scratch.rewind(mark);
        }
    }
    bool open_wide(int64_t s, WideProduct<T>* p) {
        p->K = w_.K;
        p->mantissa = w_.scratch.template array<double>(w_.K);
        p->exponent = w_.scratch.template array<int64_t>(w_.K);
        if (w_.scratch.failed) {
            Buffers::note(w_.account(b_, s), vs::kNoMemory);
            return false;
        }
        p->start();
        return true;
    }
    // The product of the messages of the roots of the block, for their parent.
    void send_together() {
        const int64_t first = begin_, last = begin_ + t_.block_roots[b_];
        T* out = static_cast<T*>(w_.pass.block_up) + b_ * Kp_;
        vs::Account& a = w_.account(b_, first);
        w_.pass.block_wide[b_] = 0;
        std::memcpy(out, up(first), sizeof(T) * static_cast<size_t>(Kp_));
        typename D::Scale scale = {};
        bool narrow = true;
        for (int64_t k = first + 1; k < last && narrow; ++k) {
            narrow = d_.absorb(out, w_.positive(), up(k), true, out, &scale) && !d_.held(out);
        }
        if (narrow) {
            vs::merge(&a.scale, scale);
            return;
        }
        if constexpr (D::kUnit != 1.0) {
            const vs::Scratch::Mark mark = w_.scratch.mark();
            WideProduct<T> p;
            if (!open_wide(first, &p)) return;
            for (int64_t k = first; k < last; ++k) p.multiply(up(k), nullptr);
            int64_t e = 0;
            p.top(&e);
            for (int k = 0; k < w_.K; ++k) {
                out[k] = static_cast<T>(p.mantissa[k]);
                w_.pass.block_exponent[b_ * Kp_ + k] = p.exponent[k] - e;
            }
            vs::merge(&a.scale, static_cast<double>(e));
            w_.pass.block_wide[b_] = 1;
            w_.scratch.rewind(mark);
        }
    }
    // The shifts of the tables above the nodes of this block.
    void shifts_of_edges(Ledger& sum) {
        const int64_t first = t_.above[b_] < 0 ? begin_ + t_.block_roots[b_] : begin_;
        if (!w_.pass.which) {
            const double shift = d_.edge_shift(0) * static_cast<double>(end_ - first);
            if (t_.above[b_] >= 0) return sum.add(w_.account(b_, begin_), shift);
        }
        for (int64_t s = first; s < end_; ++s) {
            sum.add(w_.account(b_, s), w_.domain(s).edge_shift(w_.table(s)));
        }
    }
    // Left and right factors of edge marginals, as logarithms (Request).
    void keep_edges(int64_t lo, int m, bool parentless, const T* const* x, T* const* y) {
        const int K = w_.K;
        for (int r = 0; r < m && !parentless; ++r) {
            const int64_t s = lo + r, row = t_.edge[s];
            if (!w_.wanted(s)) continue;  // another arithmetic has written there
            double* down = (t_.flipped[s] ? w_.pass.log_right : w_.pass.log_left) + row * K;
            double* from = (t_.flipped[s] ? w_.pass.log_left : w_.pass.log_right) + row * K;
            double mass = 0.0;
            const Product<T> p = d_.product(alpha(s), y[r], w_.acc);
            mass = d_.log_mass(static_cast<double>(p.sum));
            for (int k = 0; k < K; ++k) {
                down[k] = D::to_log(x[r][k]);
                from[k] = D::to_log(alpha(s)[k]);
            }
            w_.pass.log_mass[row] = mass + w_.domain(s).edge_shift(w_.table(s));
        }
    }
    // The same as they are (BranchingPass::edge_left).
    void keep_factors(int64_t lo, int m, const T* const* x, T* const* y) {
        T* const rows[2] = {static_cast<T*>(w_.pass.edge_left) + lo * Kp_,
                            static_cast<T*>(w_.pass.edge_right) + lo * Kp_};
        for (int r = 0; r < m; ++r) {
            const bool flipped = t_.flipped[lo + r];
            const Product<T> p = d_.product(alpha(lo + r), y[r], w_.acc);
            d_.without(x[r], p.sum, rows[flipped] + r * Kp_);
            std::memcpy(rows[!flipped] + r * Kp_, alpha(lo + r),
                        sizeof(T) * static_cast<size_t>(Kp_));
        }
    }
    void finish(int64_t s, const Product<T>& r) {
        vs::Account& a = w_.account(b_, s);
        if (!w_.wanted(s)) return;
        double mass = 0.0;
        const bool root = t_.parent[s] < 0;
        if (!D::alive(r.sum)) {
            return Buffers::note(a, root ? vs::kInfeasible : vs::kWiden);
        }
        const vs::Status status =
            streams_ ? d_.template divide<true>(r, alpha(s), output(s), &mass, &a.added)
                     : d_.divide(r, alpha(s), output(s), &mass, &a.added);
        if (status != vs::kOk) Buffers::note(a, status);
    }

    Buffers& w_;
    const vs::TreeView& t_;
    D& d_;
    int64_t b_, begin_, end_;
    int Kp_;
    bool streams_;
    int64_t below_ = 0;
    T *alpha_ = nullptr, *up_ = nullptr;
};

inline void count_done(vs::BranchingPass* pass, int64_t block) {
    pass->control->done.fetch_add(pass->t.begin[block + 1] - pass->t.begin[block],
                                  std::memory_order_relaxed);
}

template <class D>
void tree_up(vs::BranchingPass* pass, int64_t block, int worker) {
    BranchingBuffers<D> buffers(pass, worker);
    if (!buffers.ticker.begin_task() || !buffers.wanted_block(block)) return;
    BranchingBlock<D> work(buffers, block);
    if (!work.open(true)) {
        buffers.account(block, buffers.t.begin[block]).status = vs::kNoMemory;
    } else if (!work.upward()) {
        buffers.account(block, buffers.t.begin[block]).status = vs::kCancelled;
    } else if (pass->one_way) {
        count_done(pass, block);
    }
}

template <class D>
void tree_down(vs::BranchingPass* pass, int64_t block, int worker) {
    BranchingBuffers<D> buffers(pass, worker);
    if (!buffers.ticker.begin_task() || !buffers.wanted_block(block)) return;
    BranchingBlock<D> work(buffers, block);
    if (!work.open(false)) {
        buffers.account(block, buffers.t.begin[block]).status = vs::kNoMemory;
        return;
    }
    if (!work.downward()) {
        buffers.account(block, buffers.t.begin[block]).status = vs::kCancelled;
    } else {
        count_done(pass, block);
    }
}

}  // namespace VS_NS
