// The functions that islands call, for a forest: messages that a variable receives and sends,
// products of them, and marginals.
//
// The message of a free parent to a child may not always be found by taking the child's message
// out of the parent's belief, as in branching_pass.h: m' of an island below also weighs the states
// that its value rules out. Unless nothing was small, the product is made again without it, every
// entry with an exponent and a count of zeros of its own (Total).
#pragma once

#include <atomic>

#include "islands/rules.h"
#include "forest/total.h"

namespace VS_NS {

template <class D>
class BranchingRows {
  public:
    using T = typename D::T;
    using In = typename D::In;
    using Buffers = BranchingBuffers<D>;
    using RowRequest = vs::RowRequest;
    static_assert(RowRequest::kMost <= Buffers::kBatch, "a list of requests is sent at once");

    BranchingRows(vs::BranchingPass* pass, int worker, vs::Scratch& scratch)
        : w_(pass, worker, scratch),
          t_(w_.t),
          s_(*pass->rows),
          i_(*pass->state),
          keep_(s_.keep[worker]) {
        if (!w_.ok) return;
        Kp_ = w_.Kp;
        total_.K = w_.K;
        total_.value = scratch.template array<double>(w_.K);
        total_.exponent = scratch.template array<int64_t>(w_.K);
        total_.zeros = scratch.template array<int32_t>(w_.K);
        ok = !scratch.failed;
        for (int64_t i = 0; i < pass->n_table_views && ok; ++i) {
            if (w_.d[i].floors()) tables_ = 0.0f;
        }
    }
    bool ok = false;
    static constexpr bool kKeepsProducts = true;

    void whole(const T*) {}  // none are set apart
    int n_labels() const { return w_.K; }
    int64_t stride() const { return Kp_; }
    static T one() { return D::one(); }  // the largest entry of a local factor
    bool copies_rows() const { return w_.d->copies_rows(); }
    void locals(int64_t first, int m, T* rows, double* sums) {
        typename D::Probe probe[RowRequest::kMost];
        for (int r = 0; r < m; ++r) {
            const int64_t q = first + r;
            T* psi = rows + r * Kp_;
            blank(q);
            if (q + kAhead < t_.n) fetch(t_.node[q + kAhead]);
            w_.clear_pads(psi);
            probe[r] = w_.d->probe(t_.node[q], false, false, psi);
            sums[r] = w_.d->local(probe[r], psi);
        }
        for (int r = 0; r < m; ++r) {
            s_.shift[first + r] = probe[r].shift();
            if (probe[r].plain) i_.flag[first + r] |= vs::kPlain;
        }
    }
    void locals_at(int64_t first, int64_t last, const T* rows) {
        first_ = first;
        last_ = rows ? last : first;
        locals_ = rows;
    }
    void gather(RowRequest* list, int m) {
        for (int r = 0; r < m; ++r) fetch_messages(list[r].slot, list[r].other);
        for (int r = 0; r < m; ++r) {
            RowRequest& a = list[r];
            T* row = static_cast<T*>(a.row);
            product(a.slot, a.other, local(a.slot, row), row, &a.largest);
            a.x = s_.row[a.slot] = row;
            a.scale = s_.scale[a.slot];
            a.floor_gain = s_.floor_gain[a.slot];
        }
    }
    void exclude(RowRequest* list, int m) {
        for (int r = 0; r < m; ++r) {
            const int64_t q = list[r].slot;
            row_prefetch_alone(static_cast<const T*>(s_.row[q]), w_.K, false);
            row_prefetch_alone(message(q, list[r].other), w_.K, false);
        }
        for (int r = 0; r < m; ++r) {
            exclude(list[r], w_.x + r * Kp_);
        }
    }
    bool send(const RowRequest* list, int m) {
        // Messages to parents go apart from those to children.
        int64_t edge[RowRequest::kMost];
        const T* x[RowRequest::kMost];
        T* y[RowRequest::kMost];
        for (int up = 0; up < 2; ++up) {
            int n = 0;
            for (int r = 0; r < m; ++r) {
                const RowRequest& a = list[r];
                if ((a.other == t_.parent[a.slot]) != (up == 1)) continue;
                edge[n] = up ? a.slot : a.other;
                x[n] = static_cast<const T*>(a.x);
                y[n] = own_row(up ? s_.own_u : s_.own_y, edge[n]);
                if (!y[n]) return false;
                (up ? s_.u : s_.y)[edge[n]] = y[n];
                if (up) s_.scale_up[a.slot] = a.scale;
                (up ? s_.floor_gain_u : s_.floor_gain_y)[edge[n]] = a.floor_gain;
                ++n;
            }
            if (n > 0) w_.send(edge, n, up, x, y);
        }
        return true;
    }
    void beliefs(RowRequest* list, int m) {
        for (int r = 0; r < m; ++r) {
            const int64_t q = list[r].slot;
            row_prefetch_alone(static_cast<const T*>(s_.row[q]), w_.K, false);
            row_prefetch_alone(output(q), w_.K, true);
            if (list[r].other >= 0) row_prefetch_alone(message(q, list[r].other), w_.K, false);
        }
        for (int r = 0; r < m; ++r) belief(list[r], static_cast<T*>(s_.row[list[r].slot]));
    }
    void actuals(RowRequest* list, int m) {
        for (int r = 0; r < m; ++r) {
            fetch_messages(list[r].slot, -1);
            row_prefetch_alone(output(list[r].slot), w_.K, true);
        }
        for (int r = 0; r < m; ++r) actual(list[r], local(list[r].slot, w_.psi), w_.psi);
    }
    // Messages out of island q.
    int tell(int64_t q, int64_t other, bool alone) {
        int n = 0;
        const int64_t p = t_.parent[q];
        bool ok = true;
        if (p >= 0 && (p == other) == alone) {
            s_.floor_gain_u[q] = tables_;
            ok = own_table_row(s_.u, s_.own_u, q, q, &n);
        }
        t_.for_children(q, [&](int64_t c) {
            if ((c == other) == alone) ok = ok && own_table_row(s_.y, s_.own_y, c, q, &n);
        });
        return ok ? n : -1;
    }
    bool forbids(int64_t q, int64_t o) const { return !D::alive(message(q, o)[i_.held[q]]); }
    int mode(int64_t q, const T* row) const {
        return row ? row_argmax(row, w_.K) : row_argmax(output(q), w_.K);
    }
    // The part of log Z of a block.
    void tally(int64_t b) {
        if (!w_.wanted_block(b)) return;
        Ledger sum;
        for (int64_t q = t_.begin[b]; q < t_.begin[b + 1]; ++q) {
            if (!w_.wanted(q)) continue;
            vs::Account& a = w_.account(b, q);
            const int64_t p = t_.parent[q];
            const bool doubted =
                s_.added[q] == kInDoubt || (island(q) && alive_tree(q) && row_in_doubt(q));
            if (!doubted) {
                if (s_.added[q] > 0.0f) a.added += static_cast<double>(s_.added[q]);
            } else if (alive_tree(q)) {
                widen(q);
            }
            D& d = w_.domain(q);
            if (island(q)) {
                const bool mode = (i_.flag[q] & (vs::kLocal | vs::kFlipped)) == vs::kLocal;
                sum.add(a, mode ? s_.shift[q]
                                : static_cast<double>(
                                      w_.d->in.score(t_.node[q], i_.held[q], false, false)));
                if (p >= 0 && island(p)) {
                    const int l = t_.flipped[q] ? i_.held[q] : i_.held[p];
                    const int k = t_.flipped[q] ? i_.held[p] : i_.held[q];
                    sum.add(a, static_cast<double>(d.in.edge_score(w_.table(q), l, k)));
                } else if (p >= 0) {
                    sum.add(a, d.edge_shift(w_.table(q)));
                }
            } else {
                sum.add(a, s_.shift[q]);
                const bool top = p < 0 || island(p);
                a.scale.add(top ? s_.scale[q] : s_.scale_up[q]);
                if (p >= 0) sum.add(a, d.edge_shift(w_.table(q)));
                if (top) sum.add(a, s_.log_mass[q]);
            }
        }
    }

  private:
    bool island(int64_t q) const { return i_.island(q); }
    VS_INLINE void fetch(int64_t node) const {
        row_prefetch_alone(w_.d->in.unary + node * w_.K, w_.K, false);
    }
    In* output(int64_t s) const { return w_.output(s); }
    bool alive_tree(int64_t q) const {
        return w_.wanted(q) && i_.status[t_.tree[q]].load(std::memory_order_relaxed) == 0;
    }
    void widen(int64_t q) {
        int32_t ok = vs::kOk;
        i_.status[t_.tree[q]].compare_exchange_strong(ok, vs::kWiden);
    }
    void blank(int64_t q) {
        s_.own_u[q] = s_.own_y[q] = nullptr;
        s_.added[q] = 0.0f;
        s_.scale[q] = s_.scale_up[q] = 0.0;
        s_.floor_gain_u[q] = s_.floor_gain_y[q] = s_.floor_gain[q] = tables_;
    }
    T* own_row(void** own, int64_t q) {
        if (!own[q]) {
            T* row = keep_.template array<T>(Kp_);
            if (row) w_.clear_pads(row);
            own[q] = row;
        }
        return static_cast<T*>(own[q]);
    }
    // The rows that the product of q without the message of `but` is made of.
    void fetch_messages(int64_t q, int64_t but) {
        if (q < first_ || q >= last_) fetch(t_.node[q]);
        neighbours(q, [&](int64_t o) VS_INLINE_LAMBDA {
            if (o != but) row_prefetch_alone(message(q, o), w_.K, false);
        });
    }
    // The message over the edge above slot e out of island q, one of its ends.
    bool own_table_row(const void** row, void** own, int64_t e, int64_t q, int* n) {
        D& d = w_.domain(e);
        T* copy = d.copies_rows() ? own_row(own, e) : nullptr;
        if (d.copies_rows() && !copy) return false;
        const bool from_child = (e == q) != static_cast<bool>(t_.flipped[e]);
        row[e] = from_child ? d.column_message(w_.table(e), i_.held[q], copy)
                            : d.row_message(w_.table(e), i_.held[q], copy);
        ++*n;
        return true;
    }
    const T* u(int64_t q) const { return static_cast<const T*>(s_.u[q]); }
    const T* y(int64_t q) const {
        return t_.parent[q] < 0 ? w_.ones : static_cast<const T*>(s_.y[q]);
    }
    // The message from o, a neighbour of q, to q; and the gain of what floors put into it.
    const T* message(int64_t q, int64_t o) const { return o == t_.parent[q] ? y(q) : u(o); }
    float floor_gain_from(int64_t q, int64_t o) const {
        return o == t_.parent[q] ? floor_gain_down(q) : s_.floor_gain_u[o];
    }
    // f(neighbour)
    template <class F>
    VS_INLINE void neighbours(int64_t q, F f) const {
        if (t_.parent[q] >= 0) f(static_cast<int64_t>(t_.parent[q]));
        t_.for_children(q, f);
    }

    // The local factor of q, made in `row` where it is not stored.
    const T* local(int64_t q, T* row) const {
        if (q >= first_ && q < last_) return locals_ + (q - first_) * Kp_;
        w_.clear_pads(row);
        const typename D::Probe probe = w_.d->probe(t_.node[q], false, false, row);
        w_.d->local(probe, row);
        return row;
    }
    // row: psi times the messages of all neighbours but one, scaled; may be psi. `largest`: its
    // largest share.
    void product(int64_t q, int64_t but, const T* psi, T* row, double* largest) {
        const bool plain = i_.flag[q] & vs::kPlain;
        const T* received = nullptr;
        bool narrow = true;
        double scale = 0.0;
        float before = tables_;
        neighbours(q, [&](int64_t o) VS_INLINE_LAMBDA {
            if (o == but) return;
            before = std::max(before, floor_gain_from(q, o));
            if (!narrow) return;
            const T* m = message(q, o);
            if (!received) {
                received = m;
                return;
            }
            narrow = w_.d->absorb(received, w_.positive(), m, true, w_.acc, &scale) &&
                     !w_.d->held(w_.acc);
            received = w_.acc;
        });
        if (!received) {  // a message of entries below the floor could lose one
            s_.scale[q] = 0.0;
            double none = 0.0;
            if (!island(q)) {
                w_.d->absorb(psi, plain, w_.ones, false, row, &none);
            } else if (psi != row) {
                std::memcpy(row, psi, sizeof(T) * static_cast<size_t>(Kp_));
            }
            s_.floor_gain[q] = gained(tables_, q, 0.0, w_.d->held(row));
            *largest = 0.0;
            return;
        }
        double most = 0.0;
        if (narrow) narrow = w_.d->absorb_share(psi, plain, received, row, &scale, &most);
        if constexpr (!Total<D>::kLog) {
            if (!narrow) {
                make_total(q, but);
                total_.of = -1;
                scale = total_.without(*w_.d, w_.ones, row);
                most = share(row);
            }
        }
        s_.scale[q] = scale;
        s_.floor_gain[q] = gained(before, q, scale, w_.d->held(row));
        *largest = most;
    }
    double share(const T* row) const {
        double most = 0.0, sum = 0.0;
        for (int k = 0; k < w_.K; ++k) {
            const double x = static_cast<double>(row[k]);
            most = x > most ? x : most;
            sum += x;
        }
        return sum > 0.0 ? most / sum : 0.0;
    }
    // total_: all messages into q but that of `but`, and its local factor.
    void make_total(int64_t q, int64_t but) {
        total_.start(q);
        double shift = s_.shift[q];
        for (int k = 0; k < w_.K; ++k) {
            const double x = static_cast<double>(w_.d->in.score(t_.node[q], k, false, false));
            total_.multiply_score(k, x, shift);
        }
        neighbours(q, [&](int64_t o) {
            if (o != but) total_.multiply(message(q, o));
        });
    }
    // out: what a free variable sends, before the table: its belief without the other's message.
    void exclude(RowRequest& a, T* out) {
        const int64_t q = a.slot;
        double scale = 0.0;
        bool floored = false;
        const T* m = message(q, a.other);
        if ((i_.flag[q] & vs::kSafe) &&
            w_.d->quotient(static_cast<const T*>(s_.row[q]), m, true, out, &scale)) {
            scale += s_.scale[q];
        } else {
            if (total_.of != q) make_total(q, -1);
            scale = total_.without(*w_.d, m, out);
            floored = true;
        }
        a.x = out;
        a.scale = scale;
        a.floor_gain = gained(s_.floor_gain[q], q, scale, floored);
    }
    // Floors put mass into rows of tables and into messages. Scaling a product, in which the
    // largest entries of one factor met small ones of another, multiplies it: by so many powers of
    // two at most. Islands start anew: only their tables have floors. In doubles the first
    // kUncounted of each message are left out: 2^12 times what made_by_floors tolerates is nothing
    // to speak of, since floors are 1e-150. Largest entries of ordinary messages do not meet
    // either, and counting that sends trees of ordinary scores to logarithms
    // (benchmarks/RESULTS.md, 450 times the time). In floats all are counted: doubles come next.
    static constexpr float kNoFloor = -INFINITY;
    float gained(float before, int64_t q, double scale, bool floored) const {
        constexpr int64_t kUncounted = sizeof(T) == 8 ? 12 : 0;
        if (floored) before = std::max(before, 0.0f);
        if (before == kNoFloor) return before;
        const int64_t messages =
            1 + t_.children_end[q] - t_.children[q] + (t_.children_elsewhere[q] ? kNear : 0);
        return before + std::max(0.0f, static_cast<float>(
                                           -scale - static_cast<double>(kUncounted * messages)));
    }
    float floor_gain_down(int64_t q) const {
        const int64_t p = t_.parent[q];
        return p < 0 || island(p) ? tables_ : s_.floor_gain_y[q];
    }
    // Can a share of the product in `acc`, m' of q, be made by floors? row: the product from below,
    // where that was scaled (`far`).
    bool in_doubt(int64_t q, const Product<T>& r, const T* row, bool far) {
        bool any = far && w_.d->made_by_floors(w_.acc, r, row, s_.floor_gain[q]);
        neighbours(q, [&](int64_t o) {
            any = any || w_.domain(o == t_.parent[q] ? q : o)
                             .made_by_floors(w_.acc, r, message(q, o), floor_gain_from(q, o));
        });
        return any;
    }
    // May the row of island q be wrong for a free neighbour? It went into products of that one
    // which are scaled, whose mass would not show it. Asked in the end: an island like this is
    // likely to be released.
    bool row_in_doubt(int64_t q) {
        bool any = false;
        neighbours(q, [&](int64_t o) {
            any = any ||
                  (!island(o) &&
                   !w_.domain(o == t_.parent[q] ? q : o).trusts_row(message(q, o)[i_.held[q]]));
        });
        return any;
    }
    // In place of `added`: m' of an island may be wrong, or was when others were decided by it.
    static constexpr float kInDoubt = -1.0f;
    // In doubles a floor of 1e-150, multiplied by 2^40, times seven messages of up to 1000 each, is
    // below 1e-14 of a product that product_of found within its range, 1e-100 at least.
    static constexpr float kMild = 40.0f;
    static constexpr int kNear = 8;  // neighbours whose product is not scaled on the way
    static constexpr int kFewLabels = 1000;

    // m' of a free variable; row: its product without the message of `other` (-1: of none) on
    // entry, its belief on return.
    void belief(RowRequest& a, T* row) {
        D& d = *w_.d;
        const int64_t q = a.slot;
        const T* m = a.other < 0 ? w_.ones : message(q, a.other);
        const bool held = d.held(row);
        const Product<T> r = d.template product3<true>(row, false, w_.ones, m, row);
        total_.of = total_.of == q ? -1 : total_.of;
        if (a.other >= 0)
            s_.floor_gain[q] = std::max(s_.floor_gain[q], floor_gain_from(q, a.other));
        i_.flag[q] &= static_cast<uint8_t>(~vs::kSafe);
        vs::Status status = vs::kOk;
        if (!D::alive(r.sum)) {  // why is to be seen from its factors
            double unused;
            product(q, a.other, local(q, row), row, &unused);
            status = d.massive(r, row, m, m);
        }
        if (!put(a, r, row, status)) return;  // its row is no belief
        const bool safe = !held && Total<D>::kLog == false && !tiny(row, r);
        if (safe) i_.flag[q] |= vs::kSafe;
        a.largest = d.peak(r);
    }
    // m' of an island, in one sweep where the product of all messages keeps within range; row:
    // space, or its local factor psi.
    void actual(RowRequest& a, const T* psi, T* row) {
        D& d = *w_.d;
        const int64_t q = a.slot;
        const T* received[kNear];
        int n = 0;
        float most = kNoFloor;
        const auto receive = [&](const T* m, float by) {
            if (n < kNear) received[n] = m;
            most = std::max(most, by);
            ++n;
        };
        t_.for_children(q, [&](int64_t c) { receive(u(c), s_.floor_gain_u[c]); });
        receive(y(q), floor_gain_down(q));
        Product<T> r;
        vs::Status status = vs::kOk;
        const bool far = n > kNear || !d.product_of(psi, received, n, w_.acc, &r);
        if (far) {
            double unused;
            product(q, t_.parent[q], psi, row, &unused);
            most = std::max(most, s_.floor_gain[q]);
            r = d.template product3<true>(row, false, w_.ones, y(q), w_.acc);
            status = d.massive(r, row, y(q), y(q));
        }
        if (!put(a, r, w_.acc, status)) return;
        const int v = i_.held[q];
        const bool near = !far && sizeof(T) == 8 && most < kMild && w_.K <= kFewLabels;
        if (most > kNoFloor && !near && in_doubt(q, r, row, far)) s_.added[q] = kInDoubt;
        a.own = static_cast<double>(output(q)[v]);
        a.largest = d.peak(r);
        if (a.own >= w_.pass.zeta && a.own >= a.largest) return;
        a.largest = static_cast<double>(row_max(output(q), w_.K));
        neighbours(q, [&](int64_t o) { a.forbidden |= !D::alive(message(q, o)[v]); });
    }
    // Writes a product, divided by its sum, to the output; false when there is none.
    VS_INLINE bool put(RowRequest& a, const Product<T>& r, const T* product, vs::Status status) {
        const int64_t q = a.slot;
        double mass = 0.0, added = 0.0;
        if (!alive_tree(q)) return false;
        if (status == vs::kOk) status = w_.d->divide(r, product, output(q), &mass, &added);
        if (status == vs::kWiden) widen(q);
        a.alive = status != vs::kInfeasible;
        if (status != vs::kOk) return false;
        if (s_.added[q] != kInDoubt) s_.added[q] = static_cast<float>(added);
        if (!island(q)) s_.log_mass[q] = w_.d->log_mass(mass);
        return true;
    }
    // Trusted beliefs have a largest entry of 1e-110 / K or more (float32: 1e-10 / K), so that
    // those above the limit are normal numbers: a factor divided out of one costs a relative
    // rounding.
    bool tiny(const T* row, const Product<T>& r) const {
        const T limit = (sizeof(T) == 8 ? T(1e-140) : T(1e-17)) * r.max;
        return row_min(row, w_.K) < limit;
    }

    static constexpr int64_t kAhead = 16;  // rows between a prefetch and its use
    Buffers w_;
    const vs::TreeView& t_;
    vs::TreeRows& s_;
    vs::IslandState& i_;
    vs::Scratch& keep_;
    int Kp_ = 0;
    int64_t first_ = 0, last_ = 0;  // whose local factors are stored
    const T* locals_ = nullptr;
    Total<D> total_{};
    float tables_ = kNoFloor;  // gain of what floors put into a row of a table
};

}  // namespace VS_NS
