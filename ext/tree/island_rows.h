// The messages a variable of a forest with islands receives and sends: rows, products of them,
// marginals, and the events that they call for.
#pragma once

#include <atomic>

#include "tree/total.h"

namespace VS_NS {

template <class D>
class IslandRows {
  public:
    using T = typename D::T;
    using In = typename D::In;
    using Bench = TreeBench<D>;

    enum Flag : uint8_t {
        kIsland = 1,
        kReleased = 2,
        kFlipped = 4,
        kLocal = 8,       // an island by its local factor
        kPlain = 16,      // its local factor forbids nothing
        kToRelease = 32,  // to be released in this round
        kSafe = 64,       // no entry of its belief is too small for a factor to be divided out
        kAgain = 128,     // first of a piece that is passed through again
    };
    enum Event : uint8_t { kNone, kDead, kContradiction, kRelease, kFlip, kBecome };

    IslandRows(Bench& bench, int worker)
        : w_(bench),
          t_(bench.t),
          s_(*bench.pass.state),
          keep_(bench.pass.state->keep[worker]),
          Kp_(bench.Kp),
          alpha_(static_cast<T*>(bench.pass.alpha)) {
        total_.K = bench.K;
        total_.value = bench.scratch.template array<double>(bench.K);
        total_.exponent = bench.scratch.template array<int64_t>(bench.K);
        total_.zeros = bench.scratch.template array<int32_t>(bench.K);
        if (bench.scratch.failed) w_.ok = false;
        for (int64_t i = 0; i < bench.pass.n_tables && bench.ok; ++i) {
            if (bench.d[i].floors()) tables_ = 0.0f;
        }
    }
    ~IslandRows() {
        s_.full.fetch_add(full_, std::memory_order_relaxed);
        s_.sparse.fetch_add(sparse_, std::memory_order_relaxed);
    }

    bool island(int64_t s) const { return s_.flag[s] & kIsland; }

  protected:
    bool fail() {
        w_.pass.control->stop.store(2);
        return false;
    }
    T* alpha(int64_t s) const { return alpha_ + (s - first_) * Kp_; }
    VS_INLINE void fetch(int64_t node) const {
        row_prefetch_alone(static_cast<const In*>(w_.pass.tables->unary) + node * w_.K, w_.K,
                           false);
    }
    In* output(int64_t s) const {
        return static_cast<In*>(w_.pass.marginals) + static_cast<int64_t>(t_.node[s]) * w_.K;
    }
    bool alive_tree(int64_t q) const {
        return w_.wanted(q) && s_.tree_status[t_.tree[q]].load(std::memory_order_relaxed) == 0;
    }
    void widen(int64_t q) {
        int32_t ok = vs::kOk;
        s_.tree_status[t_.tree[q]].compare_exchange_strong(ok, vs::kWiden);
    }
    void blank(int64_t q) {
        s_.flag[q] = s_.event[q] = 0;
        s_.held[q] = -1;
        s_.own_u[q] = s_.own_y[q] = nullptr;
        s_.stamp[q] = 0;
        s_.added[q] = 0.0f;
        s_.scale[q] = s_.scale_up[q] = 0.0;
        s_.changed_u[q] = s_.changed_y[q] = s_.fresh[q] = 0;
        s_.raised_u[q] = s_.raised_y[q] = s_.raised[q] = tables_;
    }
    void hold(int64_t q, int v) {
        s_.flag[q] |= kIsland;
        s_.held[q] = v;
        s_.raised_u[q] = tables_;
    }
    void become(int64_t q, int v) {
        hold(q, v);
        tell(q);
    }
    void mark_for_release(int64_t q) { s_.flag[q] |= kToRelease; }
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
        fetch(t_.node[q]);
        neighbours(q, [&](int64_t o) {
            if (o != but) row_prefetch_alone(message(q, o), w_.K, false);
        });
    }
    // Messages out of island q.
    void tell(int64_t q) {
        if (t_.parent[q] >= 0) s_.u[q] = upward_row(q);
        w_.for_children(q, [&](int64_t c) { s_.y[c] = downward_row(c, q); });
    }
    // The same when others have been made with what they were before.
    void announce(int64_t q) {
        tell(q);
        neighbours(q, [&](int64_t o) { mark_changed(q, o); });
    }
    // Has the message from o to its neighbour q changed in this pass? Was q released in it?
    void mark_changed(int64_t o, int64_t q) {
        (o == t_.parent[q] ? s_.changed_y[q] : s_.changed_u[o]) = s_.pass;
    }
    bool has_changed(int64_t q, int64_t o) const {
        return (o == t_.parent[q] ? s_.changed_y[q] : s_.changed_u[o]) == s_.pass;
    }
    int64_t count_changed(int64_t q, int64_t but) {
        int64_t n = 0;
        neighbours(q, [&](int64_t o) { n += o != but && has_changed(q, o); });
        return n;
    }
    bool is_fresh(int64_t q) const { return s_.fresh[q] == s_.pass; }
    // The messages from island q to its parent, and from island p to its child q.
    const T* upward_row(int64_t q) {
        D& d = w_.domain(q);
        T* own = d.copies_rows() ? own_row(s_.own_u, q) : nullptr;
        ++sparse_;
        if (d.copies_rows() && !own) {
            fail();
            return w_.ones;
        }
        return t_.flipped[q] ? d.row_message(w_.table(q), s_.held[q], own)
                             : d.column_message(w_.table(q), s_.held[q], own);
    }
    const T* downward_row(int64_t q, int64_t p) {
        D& d = w_.domain(q);
        T* own = d.copies_rows() ? own_row(s_.own_y, q) : nullptr;
        ++sparse_;
        if (d.copies_rows() && !own) {
            fail();
            return w_.ones;
        }
        return t_.flipped[q] ? d.column_message(w_.table(q), s_.held[p], own)
                             : d.row_message(w_.table(q), s_.held[p], own);
    }
    const T* u(int64_t q) const { return static_cast<const T*>(s_.u[q]); }
    const T* y(int64_t q) const {
        return t_.parent[q] < 0 ? w_.ones : static_cast<const T*>(s_.y[q]);
    }
    // The message from o, a neighbour of q, to q; and how far what floors made of it was raised.
    const T* message(int64_t q, int64_t o) const { return o == t_.parent[q] ? y(q) : u(o); }
    float raised_by(int64_t q, int64_t o) const {
        return o == t_.parent[q] ? raised_down(q) : s_.raised_u[o];
    }
    // f(neighbour)
    template <class F>
    void neighbours(int64_t q, F f) {
        if (t_.parent[q] >= 0) f(static_cast<int64_t>(t_.parent[q]));
        w_.for_children(q, f);
    }

    // The product of free q without the message of `but`, from its local factor.
    void make_product(int64_t q, int64_t but, T* row) {
        double sum;
        w_.clear_pads(row);
        const bool plain = local(q, row, &sum);
        product(q, but, plain, row, nullptr);
    }
    bool local(int64_t q, T* psi, double* sum) {
        const typename D::Probe probe = w_.d->probe(t_.node[q], false, false, psi);
        *sum = w_.d->local(probe, psi);
        return probe.plain;
    }
    // row: psi on entry, psi times the messages of all neighbours but one on return, scaled.
    // `largest`: its largest share, or null.
    void product(int64_t q, int64_t but, bool plain, T* row, double* largest) {
        const T* received = nullptr;
        bool narrow = true;
        double scale = 0.0;
        float before = tables_;
        neighbours(q, [&](int64_t o) {
            if (o == but) return;
            before = std::max(before, raised_by(q, o));
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
            if (!island(q)) w_.d->absorb(row, plain, w_.ones, false, row, &none);
            s_.raised[q] = raised(tables_, q, 0.0, w_.d->held(row));
            return;
        }
        double most = 0.0;
        if (narrow) narrow = w_.d->absorb_share(row, plain, received, row, &scale, &most);
        if constexpr (!Total<D>::kLog) {
            if (!narrow) {
                make_total(q, but);
                total_.of = -1;
                scale = total_.without(*w_.d, w_.ones, row);
                most = share(row);
            }
        }
        s_.scale[q] = scale;
        s_.raised[q] = raised(before, q, scale, w_.d->held(row));
        if (largest) *largest = most;
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
    // The scale and the raised floors of a message from q to o.
    void note_message(int64_t q, int64_t o, double scale, float by) {
        if (o == t_.parent[q]) {
            s_.scale_up[q] = scale;
            s_.raised_u[q] = by;
        } else {
            s_.raised_y[o] = by;
        }
    }
    // out: what free q sends to its neighbour o, before the table: its belief without o's message.
    void exclude(int64_t q, int64_t o, const T* belief, T* out) {
        double scale = 0.0;
        bool floored = false;
        const T* m = message(q, o);
        if ((s_.flag[q] & kSafe) && w_.d->quotient(belief, m, true, out, &scale)) {
            scale += s_.scale[q];
        } else {
            if (total_.of != q) make_total(q, -1);
            scale = total_.without(*w_.d, m, out);
            floored = true;
        }
        note_message(q, o, scale, raised(s_.raised[q], q, scale, floored));
    }
    // Mass that floors have put into a row or a message may have been raised on the way to it, by
    // scaling products in which the largest entries of one met small ones of another: by how many
    // powers of two, at most. A few of them for each message are its usual size and no such case.
    // Islands start anew: only their tables have floors.
    static constexpr float kNoFloor = -INFINITY;
    float raised(float before, int64_t q, double scale, bool floored) const {
        constexpr int64_t kUsual = 12;
        if (floored) before = std::max(before, 0.0f);
        if (before == kNoFloor) return before;
        const int64_t messages =
            1 + t_.children_end[q] - t_.children[q] + (t_.children_elsewhere[q] ? kNear : 0);
        return before +
               std::max(0.0f, static_cast<float>(-scale - static_cast<double>(kUsual * messages)));
    }
    float raised_down(int64_t q) const {
        const int64_t p = t_.parent[q];
        return p < 0 || island(p) ? tables_ : s_.raised_y[q];
    }
    // Can a share of the product in `acc`, m' of q, be made by floors? row: the product from below,
    // where that was scaled (`far`).
    bool in_doubt(int64_t q, const Product<T>& r, const T* row, bool far) {
        bool any = far && w_.d->made_by_floors(w_.acc, r, row, s_.raised[q]);
        neighbours(q, [&](int64_t o) {
            any = any || w_.domain(o == t_.parent[q] ? q : o)
                             .made_by_floors(w_.acc, r, message(q, o), raised_by(q, o));
        });
        return any;
    }
    // May the row of island q be wrong for a free neighbour? It went into products of that one
    // which are scaled, whose mass would not show it.
    bool row_in_doubt(int64_t q) {
        bool any = false;
        neighbours(q, [&](int64_t o) {
            any = any ||
                  (!island(o) &&
                   !w_.domain(o == t_.parent[q] ? q : o).trusts_row(message(q, o)[s_.held[q]]));
        });
        return any;
    }
    // In place of `added`: the row of an island may be wrong for a neighbour, its own m' may be.
    static constexpr float kRowInDoubt = -1.0f, kInDoubt = -2.0f;
    static constexpr float kMild = 40.0f;
    static constexpr int kNear = 8;  // neighbours whose product is not scaled on the way

    // m' of free q; row: its product without the message of `from` (-1: of none) on entry, its
    // belief on return. Notes the event.
    void belief(int64_t q, int64_t from, T* row) {
        D& d = *w_.d;
        const T* m = from < 0 ? w_.ones : message(q, from);
        const bool held = d.held(row);
        const Product<T> r = d.template product3<true>(row, false, w_.ones, m, w_.acc);
        total_.of = total_.of == q ? -1 : total_.of;
        if (from >= 0) s_.raised[q] = std::max(s_.raised[q], raised_by(q, from));
        if (!put(q, r, d.massive(r, row, m, m))) {
            s_.flag[q] &= static_cast<uint8_t>(~kSafe);  // its row is no belief
            return;
        }
        std::memcpy(row, w_.acc, sizeof(T) * static_cast<size_t>(Kp_));
        const bool safe = !held && Total<D>::kLog == false && !tiny(row, r);
        s_.flag[q] = static_cast<uint8_t>((s_.flag[q] & ~kSafe) | (safe ? kSafe : 0));
        if (D::peak(r) >= w_.pass.zeta && !(s_.flag[q] & kReleased)) s_.event[q] = kBecome;
    }
    // m' of island q once more.
    bool renew(int64_t q) {
        double sum;
        const bool plain = local(q, w_.psi, &sum);
        return actual(q, plain, w_.psi);
    }
    // m' of island q, in one sweep where the product of all messages keeps within range; row:
    // its local factor. Notes the event.
    bool actual(int64_t q, bool plain, T* row) {
        D& d = *w_.d;
        const T* received[kNear];
        int n = 0;
        float most = kNoFloor;
        const auto hear = [&](const T* m, float by) {
            if (n < kNear) received[n] = m;
            most = std::max(most, by);
            ++n;
        };
        w_.for_children(q, [&](int64_t c) { hear(u(c), s_.raised_u[c]); });
        hear(y(q), raised_down(q));
        Product<T> r;
        vs::Status status = vs::kOk;
        const bool far = n > kNear || !d.product_of(row, received, n, w_.acc, &r);
        if (far) {
            product(q, t_.parent[q], plain, row, nullptr);
            most = std::max(most, s_.raised[q]);
            r = d.template product3<true>(row, false, w_.ones, y(q), w_.acc);
            status = d.massive(r, row, y(q), y(q));
        }
        if (!put(q, r, status)) return true;
        const int v = s_.held[q];
        // A product that product_of found within its range in doubles is too large for floors.
        const bool near = !far && sizeof(T) == 8 && most < kMild;
        if (most > kNoFloor && !near && in_doubt(q, r, row, far)) s_.added[q] = kInDoubt;
        // That counts in the end only: an island like this is likely to be released.
        if (s_.added[q] != kInDoubt && row_in_doubt(q)) s_.added[q] = kRowInDoubt;
        const In* p = output(q);
        const double pv = static_cast<double>(p[v]);
        if (pv >= w_.pass.zeta && pv >= D::peak(r)) return true;
        bool dead = false;
        neighbours(q, [&](int64_t o) { dead |= !D::alive(message(q, o)[v]); });
        if (dead) {
            s_.event[q] = kContradiction;
        } else {
            s_.event[q] = static_cast<double>(row_max(p, w_.K)) >= w_.pass.zeta ? kFlip : kRelease;
        }
        return true;
    }
    // Writes the product in `acc`, divided by its sum, to q's output; false when there is none.
    bool put(int64_t q, const Product<T>& r, vs::Status status) {
        double mass = 0.0, added = 0.0;
        s_.event[q] = kNone;
        if (!alive_tree(q)) return false;
        if (status == vs::kOk) status = w_.d->divide(r, w_.acc, output(q), &mass, &added);
        if (status == vs::kWiden) widen(q);
        if (status == vs::kInfeasible) s_.event[q] = kDead;
        if (status != vs::kOk) return false;
        s_.added[q] = static_cast<float>(added);
        if (!island(q)) s_.log_mass[q] = w_.d->log_mass(mass);
        return true;
    }
    bool tiny(const T* row, const Product<T>& r) const {
        const T limit = (sizeof(T) == 8 ? T(1e-140) : T(1e-17)) * r.max;
        return row_min(row, w_.K) < limit;
    }

    static constexpr int64_t kAhead = 16, kSoon = 2;  // rows between a prefetch and its use
    Bench& w_;
    const vs::TreeView& t_;
    vs::IslandState& s_;
    vs::Scratch& keep_;
    int Kp_;
    T* alpha_;  // rows of slots from `first_` on
    int64_t first_ = 0;
    int64_t full_ = 0, sparse_ = 0;
    Total<D> total_{};
    float tables_ = kNoFloor;  // what a row of a table has been raised by
};

}  // namespace VS_NS
