// Passes through the pieces between islands: messages to their centres and back, then to the
// islands beside them. The arithmetic answers lists of requests (IslandVerbs).
//
//   m_{q->o}(y) = sum_x psi_q(x) prod_{w != o} m_{w->q}(x) E(x, y)    q free (exclude, send)
//   m_{q->o}(y) = E(v, y)                                             q an island of v (tell)
//   m'_q(x) = psi_q(x) prod_w m_{w->q}(x) / its sum over x            (beliefs, actuals)
//
// SMM11, Eqs. 3-4 for any number of neighbours; ERRATA, SMM11: psi_q is the local factor, counted
// once, and m' of an island is made without its value.
#pragma once

#include "core/ticker.h"
#include "islands/piece.h"
#include "islands/rules.h"

namespace vs {

// A call with islands; shared by all workers. Topology: who is a neighbour of whom.
template <class Topology>
struct IslandCall {
    Topology t;
    const IslandVerbs* verbs;
    void* pass;  // of the arithmetic
    IslandState* state;
    double zeta;
    Control* control;
    int64_t n_labels, row_bytes, slower;
    bool single;  // float32 is computed with: subnormal numbers are zeros
    int64_t n_tallies;
    // Called with the islands by local factors, where one block has all variables; null: not. May
    // set the status of trees to what is not kOk, which ends their part in the call.
    void (*choose)(void* of, IslandState& state) = nullptr;
    void* of = nullptr;
};

template <class Topology>
class IslandPasses {
  public:
    // `scratch`: of one worker, for as long as this lives.
    IslandPasses(IslandCall<Topology>& call, int worker, Scratch& scratch)
        : t_(call.t),
          s_(*call.state),
          v_(*call.verbs),
          scratch_(scratch),
          call_(call),
          ticker_(call.control, worker == 0, call.n_labels, call.slower) {
        self_ = v_.open(call.pass, worker, &scratch);
        if (!self_) fail();
    }
    IslandPasses(const IslandPasses&) = delete;
    IslandPasses& operator=(const IslandPasses&) = delete;
    ~IslandPasses() { leave(); }

  protected:
    static constexpr int kMost = RowRequest::kMost;
    bool fail() {
        call_.control->stop.store(2);
        return false;
    }
    bool island(int64_t q) const { return s_.island(q); }
    bool alive(int64_t q) const {
        return s_.status[t_.tree[q]].load(std::memory_order_relaxed) == kOk;
    }
    // f(neighbour)
    template <class F>
    void neighbours(int64_t q, F f) const {
        const int64_t p = t_.parent(q);
        if (p >= 0) f(p);
        t_.children(q, f);
    }
    static RowRequest request(int64_t slot, int64_t other, void* row = nullptr) {
        return {slot, other, row, nullptr, 0.0, 0.0f, 0.0, 0.0, true, false};
    }

    bool tell(int64_t q, int64_t other = -1, bool alone = false) {
        const int rows = v_.tell(self_, q, other, alone);
        if (rows < 0) return fail();
        count(q, 0, rows);
        return true;
    }
    bool become(int64_t q, int v) {
        s_.hold(q, v);
        return tell(q);
    }
    // Messages out of an island, when others have been made with what they were before.
    bool announce(int64_t q) {
        neighbours(q, [&](int64_t o) { mark_changed(q, o); });
        return tell(q);
    }
    bool send(const RowRequest* list, int m) {
        for (int r = 0; r < m; ++r) count(list[r].slot, 1, 0);
        return m == 0 || v_.send(self_, list, m) || fail();
    }
    void beliefs(RowRequest* list, int m) {
        if (m == 0) return;
        v_.beliefs(self_, list, m);
        for (int r = 0; r < m; ++r) {
            const int64_t q = list[r].slot;
            s_.event[q] = alive(q) ? s_.free_event(list[r], call_.zeta) : kNone;
        }
    }
    void actuals(RowRequest* list, int m) {
        if (m == 0) return;
        v_.actuals(self_, list, m);
        for (int r = 0; r < m; ++r) {
            const int64_t q = list[r].slot;
            s_.event[q] = alive(q) ? s_.island_event(list[r], call_.zeta) : kNone;
        }
    }

    // Has the message from o to its neighbour q changed in this pass? Was q released in it?
    void mark_changed(int64_t o, int64_t q) {
        (o == t_.parent(q) ? s_.changed_down[q] : s_.changed_up[o]) = s_.pass;
    }
    bool has_changed(int64_t q, int64_t o) const {
        return (o == t_.parent(q) ? s_.changed_down[q] : s_.changed_up[o]) == s_.pass;
    }
    int64_t count_changed(int64_t q, int64_t but) const {
        int64_t n = 0;
        neighbours(q, [&](int64_t o) { n += o != but && has_changed(q, o); });
        return n;
    }
    bool is_fresh(int64_t q) const { return s_.fresh[q] == s_.pass; }

    int64_t top_of(int64_t q) const {
        for (int64_t p = t_.parent(q); p >= 0 && !island(p); p = t_.parent(q)) q = p;
        return q;
    }
    bool is_top(int64_t q) const {
        const int64_t p = t_.parent(q);
        return (int{!island(q)} & int{p < 0 || island(p)}) != 0;
    }
    bool spread(PieceList& list) {
        return list.spread([&](int64_t q, int64_t from, auto&& add) {
            neighbours(q, [&](int64_t o) {
                if (o != from && !island(o)) add(o);
            });
        });
    }
    // The pieces of `count` roots, listed from there.
    bool from_roots(const int64_t* roots, int64_t count, Pieces* p) {
        PieceList list(scratch_);
        list.open();
        for (int64_t i = 0; i < count; ++i) {
            if (!list.add(roots[i], -1)) return false;
        }
        if (!spread(list)) return false;
        *p = list.pieces();
        return true;
    }
    // Rows for the variables of a list, unless their local factors are `stored` and do.
    bool take_rows(const Pieces& p, bool stored) {
        rows_ = nullptr;
        if (stored && !v_.keeps_products) return true;
        rows_ = static_cast<char*>(scratch_.take(p.n * call_.row_bytes));
        return rows_ != nullptr;
    }
    void* row(int64_t k) const { return rows_ ? rows_ + k * call_.row_bytes : nullptr; }
    static int64_t towards(const Pieces& p, int64_t k) {
        return p.inward[k] < 0 ? -1 : p.slot[p.inward[k]];
    }
    // The last of the places before `hi` that need no message of one another, inwards.
    static int64_t batch_start(const Pieces& p, int64_t hi) {
        int64_t lo = hi - 1;
        for (; lo > 0 && hi - lo < kMost; --lo) {
            if (p.first[lo - 1] < hi && p.first[lo] > p.first[lo - 1]) break;
        }
        return lo;
    }

    // The first messages towards the centres. A variable whose product reaches zeta becomes an
    // island.
    bool pass_in(const Pieces& p) {
        RowRequest list[kMost];
        for (int64_t hi = p.n, lo; hi > 0; hi = lo) {
            lo = batch_start(p, hi);
            if (!ticker_.go_on(hi - lo)) return false;
            int m = 0, sends = 0;
            for (int64_t k = hi; k-- > lo;) list[m++] = request(p.slot[k], towards(p, k), row(k));
            v_.gather(self_, list, m);
            for (int r = 0; r < m; ++r) {
                const RowRequest& a = list[r];
                if (a.other < 0) continue;
                if (a.largest > 0.0 && a.largest >= call_.zeta) {
                    if (!become(a.slot, v_.mode(self_, a.slot, a.x))) return false;
                } else {
                    list[sends++] = a;
                }
            }
            if (!send(list, sends)) return false;
        }
        return true;
    }
    // The first messages away from the centres, and m' of all that are free. `late`: where to put
    // the places that become islands by m', or null.
    bool pass_out(const Pieces& p, int64_t* late, int64_t* n_late) {
        RowRequest list[kMost];
        const auto decided = [&](int64_t k) {
            return !island(p.slot[k]) && s_.event[p.slot[k]] == kBecome;
        };
        const auto take = [&](int64_t k) {
            const int64_t q = p.slot[k];
            s_.event[q] = kNone;
            s_.hold(q, v_.mode(self_, q, nullptr));
            if (k < p.centres) return tell(q);  // nothing has been sent through it
            late[(*n_late)++] = k;
            s_.flag[q] |= kLate;
            // The way out on another side must not see it: its message inwards comes last.
            return tell(q, p.slot[p.inward[k]]);
        };
        for (int64_t lo = 0, hi; lo < p.centres; lo = hi) {
            hi = std::min(lo + kMost, p.centres);
            int m = 0;
            for (int64_t k = lo; k < hi; ++k) {
                if (!island(p.slot[k])) list[m++] = request(p.slot[k], towards(p, k));
            }
            beliefs(list, m);
        }
        for (int64_t k = 0; k < p.centres; ++k) {
            const bool two = p.inward[k] > k;
            const bool one = (late || p.inward[k] < 0) && decided(k);
            const bool other = late && two && decided(p.inward[k]);
            if ((one && !take(k)) || (other && !take(p.inward[k]))) return false;
            // One that stays free goes on with the row of the other.
            if (two && one != other) {
                const int64_t stays = one ? p.inward[k] : k, q = p.slot[stays];
                if (!island(q)) {
                    RowRequest again = request(q, towards(p, stays), row(stays));
                    v_.gather(self_, &again, 1);
                    beliefs(&again, 1);
                }
            }
            if (two) ++k;
        }
        for (int64_t lo = p.centres, hi; lo < p.n; lo = hi) {
            int m = 0;
            for (hi = lo; hi < p.n && m < kMost; ++hi) {
                const int64_t w = p.inward[hi], q = p.slot[hi];
                if (w >= lo) break;
                if (!island(q) && !island(p.slot[w])) list[m++] = request(p.slot[w], q);
            }
            if (!ticker_.go_on(hi - lo) || !exclude(list, m)) return false;
            m = 0;
            const auto flush = [&] {
                beliefs(list, m);
                m = 0;
            };
            for (int64_t k = lo; k < hi; ++k) {
                if (!island(p.slot[k])) list[m++] = request(p.slot[k], towards(p, k));
                if (m == kMost) flush();
            }
            flush();
            for (int64_t k = lo; k < hi; ++k) {
                if (late && decided(k) && !take(k)) return false;
            }
        }
        for (int64_t i = 0; late && i < *n_late; ++i) {
            const int64_t q = p.slot[late[i]], w = p.slot[p.inward[late[i]]];
            mark_changed(q, w);
            if (!tell(q, w, true)) return false;
        }
        return true;
    }
    bool exclude(RowRequest* list, int m) {
        if (m > 0) v_.exclude(self_, list, m);
        return send(list, m);
    }
    // Passes through the pieces of `count` roots once more. A message is made again when its
    // variable was released in this round, or when another message into that has changed; m' when
    // any has.
    bool pass_again(const int64_t* roots, int64_t count, Pieces* p) {
        if (!from_roots(roots, count, p) || !take_rows(*p, false)) return fail();
        uint8_t* made = scratch_.array<uint8_t>(p->n);
        int64_t* changed = scratch_.array<int64_t>(p->n);
        if (scratch_.failed) return fail();
        RowRequest list[kMost];
        for (int64_t hi = p->n, lo; hi > 0; hi = lo) {
            lo = batch_start(*p, hi);
            if (!ticker_.go_on(hi - lo)) return false;
            int m = 0, sends = 0;
            for (int64_t k = hi; k-- > lo;) {
                const int64_t q = p->slot[k], to = towards(*p, k);
                changed[k] = count_changed(q, to);
                made[k] = changed[k] > 0 || is_fresh(q);
                if (!made[k]) continue;
                list[m++] = request(q, to, row(k));
                if (to >= 0) mark_changed(q, to);
            }
            if (m > 0) v_.gather(self_, list, m);
            for (int r = 0; r < m; ++r) {
                if (list[r].other >= 0) list[sends++] = list[r];
            }
            if (!send(list, sends)) return false;
        }
        for (int64_t lo = 0, hi; lo < p->n; lo = hi) {
            int m = 0;
            for (hi = lo; hi < p->n && hi - lo < kMost; ++hi) {
                const int64_t in = p->inward[hi], q = p->slot[hi];
                if (in >= lo) break;
                if (in < 0) continue;
                const int64_t w = p->slot[in];
                if (!is_fresh(w) && changed[in] == has_changed(w, q)) continue;
                mark_changed(w, q);
                list[m++] = request(w, q);
            }
            if (!ticker_.go_on(hi - lo) || !exclude(list, m)) return false;
            RowRequest lacks[kMost];
            int l = m = 0;
            for (int64_t k = lo; k < hi; ++k) {
                const int64_t q = p->slot[k], from = towards(*p, k);
                if (from >= 0) changed[k] += has_changed(q, from);
                if (!changed[k] && !is_fresh(q)) continue;
                list[m++] = request(q, from, row(k));
                if (!made[k]) lacks[l++] = list[m - 1];
            }
            if (l > 0) v_.gather(self_, lacks, l);
            beliefs(list, m);
        }
        return true;
    }
    // Messages from the free variables of pieces to the islands beside them: all, or, after
    // pass_again, those that it has made stale.
    bool tell_islands(const Pieces& p, bool again) {
        RowRequest list[kMost];
        int m = 0;
        for (int64_t k = 0; k < p.n; ++k) {
            const int64_t q = p.slot[k];
            if (island(q)) continue;
            int64_t changed = again ? count_changed(q, -1) : -1;
            if (changed == 0 && !is_fresh(q)) continue;
            bool ok = true;
            neighbours(q, [&](int64_t o) {
                if (!island(o) || !ok) return;
                // One that was decided on the way in, or late, has had its message.
                const bool had = o == towards(p, k) || (s_.flag[o] & kLate);
                if ((again || had) && !is_fresh(q)) {
                    if (changed < 0) changed = count_changed(q, -1);
                    if (changed == has_changed(q, o)) return;
                }
                if (again) touch(o);
                list[m++] = request(q, o);
                if (m < kMost) return;
                ok = exclude(list, m) && ticker_.go_on(m);
                m = 0;
            });
            if (!ok) return false;
        }
        return ticker_.go_on(p.n) && exclude(list, m);
    }
    // Lists an island for a new m'; several workers may.
    void touch(int64_t q) {
        if (s_.stamp[q].exchange(s_.round, std::memory_order_relaxed) == s_.round) return;
        s_.touched[s_.n_touched.fetch_add(1, std::memory_order_relaxed)] = q;
    }

    const Topology& t_;
    IslandState& s_;
    const IslandVerbs& v_;
    Scratch& scratch_;
    IslandCall<Topology>& call_;
    VS_NS::Ticker ticker_;
    void* self_;

  private:
    // Adds messages of the tree of q. Those of the one at hand are kept until another's turn.
    void count(int64_t q, int64_t full, int64_t sparse) {
        const int64_t tree = t_.tree[q];
        if (tree != tree_) leave();
        tree_ = tree;
        full_ += full;
        sparse_ += sparse;
    }
    void leave() {
        if (tree_ < 0) return;
        if (s_.of_tree) {
            s_.of_tree[tree_].full += full_;
            s_.of_tree[tree_].sparse += sparse_;
        } else {
            s_.full[tree_].fetch_add(full_, std::memory_order_relaxed);
            s_.sparse[tree_].fetch_add(sparse_, std::memory_order_relaxed);
        }
        full_ = sparse_ = 0;
    }
    char* rows_ = nullptr;
    int64_t tree_ = -1, full_ = 0, sparse_ = 0;
};

}  // namespace vs
