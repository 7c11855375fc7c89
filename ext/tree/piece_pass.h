// Passes through the pieces of a forest: messages to their centres and back, then to the islands
// beside them.
#pragma once

#include "tree/island_rows.h"
#include "tree/piece.h"

namespace VS_NS {

template <class D>
class PiecePass : public IslandRows<D> {
  public:
    using Rows = IslandRows<D>;
    using Rows::Rows;
    using typename Rows::Bench;
    using typename Rows::T;

  protected:
    using Rows::alpha;
    using Rows::announce;
    using Rows::become;
    using Rows::belief;
    using Rows::count_changed;
    using Rows::exclude;
    using Rows::fail;
    using Rows::fetch_messages;
    using Rows::full_;
    using Rows::has_changed;
    using Rows::hold;
    using Rows::is_fresh;
    using Rows::island;
    using Rows::kBecome;
    using Rows::kNone;
    using Rows::Kp_;
    using Rows::kPlain;
    using Rows::local;
    using Rows::make_product;
    using Rows::mark_changed;
    using Rows::message;
    using Rows::neighbours;
    using Rows::note_message;
    using Rows::output;
    using Rows::own_row;
    using Rows::product;
    using Rows::s_;
    using Rows::t_;
    using Rows::w_;

    int64_t top_of(int64_t q) const {
        while (t_.parent[q] >= 0 && !island(t_.parent[q])) q = t_.parent[q];
        return q;
    }
    bool is_top(int64_t q) const {
        return !island(q) && (t_.parent[q] < 0 || island(t_.parent[q]));
    }
    bool spread(PieceList& list) {
        return list.spread([&](int64_t q, int64_t from, auto&& add) {
            neighbours(q, [&](int64_t o) {
                if (o != from && !island(o)) add(o);
            });
        });
    }
    // The pieces of `count` tops, listed from there.
    bool from_tops(const int64_t* tops, int64_t count, Pieces* p) {
        PieceList list(w_.scratch);
        list.open();
        for (int64_t i = 0; i < count; ++i) {
            if (!list.add(tops[i], -1)) return false;
        }
        if (!spread(list)) return false;
        *p = list.pieces();
        return true;
    }
    bool from_top(int64_t top, Pieces* p) { return from_tops(&top, 1, p); }
    // Adds the centres of the piece below `top`.
    bool add_centres(int64_t top, PieceList& list) {
        bool alone = true;
        w_.for_children(top, [&](int64_t c) { alone = alone && island(c); });
        if (alone) return list.add(top, -1);
        Pieces p;
        if (!from_top(top, &p)) return false;
        int64_t* work = w_.scratch.template array<int64_t>(3 * p.n);
        if (!work) return false;
        const Centres c = find_centres(p, work);
        const int64_t place = list.size();
        if (c.other < 0) return list.add(p.slot[c.one], -1);
        return list.add(p.slot[c.one], place + 1) && list.add(p.slot[c.other], place);
    }
    // Full messages that are sent together, those to parents apart from those to children.
    struct Batch {
        int64_t edge[2][Bench::kBatch];
        const T* x[2][Bench::kBatch];
        T* y[2][Bench::kBatch];
        int n[2] = {0, 0};
    };
    // A message of `x` from q to its neighbour o.
    bool add(Batch& batch, int64_t q, int64_t o, const T* x) {
        const bool up = o == t_.parent[q];
        const int64_t edge = up ? q : o;
        T* own = own_row(up ? s_.own_u : s_.own_y, edge);
        if (!own) return fail();
        (up ? s_.u : s_.y)[edge] = own;
        const int i = batch.n[up]++;
        batch.edge[up][i] = edge;
        batch.x[up][i] = x;
        batch.y[up][i] = own;
        ++full_;
        return true;
    }
    void send(Batch& batch) {
        for (int up = 0; up < 2; ++up) {
            if (batch.n[up]) {
                w_.send(batch.edge[up], batch.n[up], up, batch.x[up], batch.y[up]);
            }
            batch.n[up] = 0;
        }
    }
    // The last of the places before `hi` that need no message of one another, inwards.
    static int64_t batch_start(const Pieces& p, int64_t hi) {
        int64_t lo = hi - 1;
        for (; lo > 0 && hi - lo < Bench::kBatch; --lo) {
            if (p.first[lo - 1] < hi && p.first[lo] > p.first[lo - 1]) break;
        }
        return lo;
    }
    // The first messages towards the centres. A variable whose product reaches zeta becomes an
    // island.
    bool pass_in(const Pieces& p) {
        Batch batch;
        for (int64_t hi = p.n, lo; hi > 0; hi = lo) {
            lo = batch_start(p, hi);
            if (!w_.ticker.go_on(hi - lo)) return false;
            for (int64_t k = lo; k < hi; ++k) fetch_messages(p.slot[k], towards(p, k));
            for (int64_t k = hi; k-- > lo;) {
                const int64_t q = p.slot[k], to = towards(p, k);
                double largest = 0.0;
                product(q, to, s_.flag[q] & kPlain, alpha(q), &largest);
                if (largest > 0.0 && largest >= w_.pass.zeta) {
                    become(q, row_argmax(alpha(q), w_.K));
                } else if (to >= 0) {
                    note_message(q, to, s_.scale[q], s_.raised[q]);
                    if (!add(batch, q, to, alpha(q))) return false;
                }
            }
            send(batch);
        }
        return true;
    }
    static int64_t towards(const Pieces& p, int64_t k) {
        return p.inward[k] < 0 ? -1 : p.slot[p.inward[k]];
    }
    // The first messages away from the centres, and m' of all that are free. `late`: where to put
    // the places that become islands by m', or null.
    bool pass_out(const Pieces& p, int64_t* late, int64_t* n_late) {
        Batch batch;
        const auto decided = [&](int64_t k) {
            return late && !island(p.slot[k]) && s_.event[p.slot[k]] == kBecome;
        };
        const auto take = [&](int64_t k) {
            const int64_t q = p.slot[k];
            s_.event[q] = kNone;
            hold(q, row_argmax(output(q), w_.K));
            announce(q);
            late[(*n_late)++] = k;
        };
        for (int64_t k = 0; k < p.centres; ++k) {
            if (!island(p.slot[k])) belief(p.slot[k], towards(p, k), alpha(p.slot[k]));
        }
        for (int64_t k = 0; k < p.centres; ++k) {
            const bool two = p.inward[k] > k;
            const bool one = decided(k), other = two && decided(p.inward[k]);
            if (one) take(k);
            if (other) take(p.inward[k]);
            // One that stays free goes on with the row of the other.
            if (two && one != other) {
                const int64_t stays = one ? p.inward[k] : k, q = p.slot[stays];
                if (!island(q)) {
                    make_product(q, towards(p, stays), alpha(q));
                    belief(q, towards(p, stays), alpha(q));
                }
            }
            if (two) ++k;
        }
        for (int64_t lo = p.centres, hi; lo < p.n; lo = hi) {
            int c = 0;
            for (hi = lo; hi < p.n && c < Bench::kBatch; ++hi) {
                const int64_t w = p.inward[hi], q = p.slot[hi];
                if (w >= lo) break;
                if (island(q) || island(p.slot[w])) continue;
                T* x = w_.x + c++ * Kp_;
                exclude(p.slot[w], q, alpha(p.slot[w]), x);
                if (!add(batch, p.slot[w], q, x)) return false;
            }
            if (!w_.ticker.go_on(hi - lo)) return false;
            send(batch);
            for (int64_t k = lo; k < hi; ++k) {
                const int64_t q = p.slot[k];
                if (island(q)) continue;
                belief(q, p.slot[p.inward[k]], alpha(q));
                if (decided(k)) take(k);
            }
        }
        return true;
    }
    // Passes through the pieces of `count` tops once more. A message is made again when its
    // variable was released in this round, or when another message into that has changed; m' when
    // any has.
    // `rows`: the beliefs of the places for which that is so.
    bool pass_again(const int64_t* tops, int64_t count, Pieces* p, T** beliefs) {
        if (!from_tops(tops, count, p)) return fail();
        T* const rows = w_.scratch.template array<T>(p->n * Kp_);
        *beliefs = rows;
        uint8_t* made = w_.scratch.template array<uint8_t>(p->n);
        int64_t* changed = w_.scratch.template array<int64_t>(p->n);
        if (w_.scratch.failed) return fail();
        Batch batch;
        for (int64_t hi = p->n, lo; hi > 0; hi = lo) {
            lo = batch_start(*p, hi);
            if (!w_.ticker.go_on(hi - lo)) return false;
            for (int64_t k = lo; k < hi; ++k) {
                const int64_t q = p->slot[k], to = towards(*p, k);
                changed[k] = count_changed(q, to);
                made[k] = changed[k] > 0 || is_fresh(q);
                if (made[k]) fetch_messages(q, to);
            }
            for (int64_t k = hi; k-- > lo;) {
                const int64_t q = p->slot[k], to = towards(*p, k);
                if (!made[k]) continue;
                make_product(q, to, rows + k * Kp_);
                if (to < 0) continue;
                note_message(q, to, s_.scale[q], s_.raised[q]);
                mark_changed(q, to);
                if (!add(batch, q, to, rows + k * Kp_)) return false;
            }
            send(batch);
        }
        for (int64_t lo = 0, hi; lo < p->n; lo = hi) {
            int c = 0;
            for (hi = lo; hi < p->n && c < Bench::kBatch; ++hi) {
                const int64_t in = p->inward[hi], q = p->slot[hi];
                if (in >= lo) break;
                if (in < 0) continue;
                const int64_t w = p->slot[in];
                if (!is_fresh(w) && changed[in] == has_changed(w, q)) continue;
                T* x = w_.x + c++ * Kp_;
                exclude(w, q, rows + in * Kp_, x);
                mark_changed(w, q);
                if (!add(batch, w, q, x)) return false;
            }
            if (!w_.ticker.go_on(hi - lo)) return false;
            send(batch);
            for (int64_t k = lo; k < hi; ++k) {
                const int64_t q = p->slot[k], from = towards(*p, k);
                if (from >= 0) changed[k] += has_changed(q, from);
                if (!changed[k] && !is_fresh(q)) continue;
                if (!made[k]) make_product(q, from, rows + k * Kp_);
                belief(q, from, rows + k * Kp_);
            }
        }
        return true;
    }
    // Messages from the free variables of pieces to the islands beside them: all, or, where
    // pass_again has made these `rows`, those that it has made stale.
    bool tell_islands(const Pieces& p, const T* rows) {
        Batch batch;
        int c = 0;
        for (int64_t k = 0; k < p.n; ++k) {
            const int64_t q = p.slot[k];
            if (island(q)) continue;
            const bool every = !rows || is_fresh(q);
            const int64_t changed = every ? 0 : count_changed(q, -1);
            if (!every && changed == 0) continue;
            bool ok = true;
            neighbours(q, [&](int64_t o) {
                if (!island(o) || !ok || (!every && changed == has_changed(q, o))) return;
                mark_changed(q, o);
                if (c == Bench::kBatch) {
                    send(batch);
                    c = 0;
                }
                T* x = w_.x + c++ * Kp_;
                exclude(q, o, rows ? rows + k * Kp_ : alpha(q), x);
                ok = add(batch, q, o, x);
            });
            if (!ok || !w_.ticker.go_on()) return false;
        }
        send(batch);
        return true;
    }
};

}  // namespace VS_NS
