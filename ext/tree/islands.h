// Islands of certainty in a forest (SMM11 section 3), in the order-free formulation of
// kernels/islands.h.
//
// Round 0. Variables whose local factor has a mode >= zeta are islands; what they leave falls into
// pieces, the connected free variables. Each piece is passed through from its leaves to its centre
// and back, wherever the tree has its root. On the way in a variable becomes an island when its
// local factor times the messages of all neighbours but the next reaches zeta, on the way out when
// its m' does (only if revisiting is allowed). Two centres exchange their messages first. Then the
// messages that went in through a variable decided on the way out are computed again.
// Round r >= 1. All events are read off the m' of round r - 1 at once, as on chains. Then the
// pieces that a change touches are passed through again, and islands beside a change get a new m'.
// A piece without mass given the islands around it releases them all.
//
// What a free parent says to a child may not always be found by taking the child's message back
// out of the parent's belief, as in pass.h: m' of an island below also weighs the states that its
// value rules out. Unless nothing was small, the product is made again without it, every entry
// with an exponent and a count of zeros of its own (Total).
#pragma once

#include <atomic>

#include "tree/piece.h"
#include "tree/total.h"

namespace VS_NS {

template <class D>
class TreeIslands {
  public:
    using T = typename D::T;
    using In = typename D::In;
    using Bench = TreeBench<D>;

    enum Flag : uint8_t {
        kIsland = 1,
        kReleased = 2,
        kFlipped = 4,
        kLocal = 8,    // an island by its local factor
        kPlain = 16,   // its local factor forbids nothing
        kDoomed = 32,  // to be released in this round
        kSafe = 64,    // no entry of its belief is too small for a factor to be divided out
        kAgain = 128,  // first of a piece that is passed through again
    };
    enum Event : uint8_t { kNone, kDead, kContradiction, kRelease, kFlip, kBecome };

    TreeIslands(Bench& bench, int worker)
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
    ~TreeIslands() {
        s_.full.fetch_add(full_, std::memory_order_relaxed);
        s_.sparse.fetch_add(sparse_, std::memory_order_relaxed);
    }

    bool island(int64_t s) const { return s_.flag[s] & kIsland; }

    // ------------------------------------------------------------------------------ round 0

    // Local factors of a block; islands where they reach zeta. What touches no other block is passed
    // through at once, while its rows are in cache: those of the rest are kept.
    bool locals(int64_t b) {
        const int64_t begin = t_.begin[b], end = t_.begin[b + 1];
        T* const kept = alpha_;
        alpha_ = w_.scratch.template array<T>((end - begin) * Kp_);
        if (!alpha_) return fail();
        first_ = begin;
        typename D::Seen seen[Bench::kBatch];
        double sum[Bench::kBatch];
        for (int64_t lo = begin; lo < end; lo += Bench::kBatch) {
            const int m = static_cast<int>(std::min<int64_t>(Bench::kBatch, end - lo));
            if (!w_.ticker.go_on(m)) return false;
            for (int r = 0; r < m; ++r) {
                const int64_t q = lo + r;
                blank(q);
                if (q + kAhead < end) fetch(t_.node[q + kAhead]);
                w_.clear_pads(alpha(q));
                seen[r] = w_.d->look(t_.node[q], false, false, alpha(q));
                sum[r] = w_.d->local(seen[r], alpha(q));
            }
            for (int r = 0; r < m; ++r) {
                const int64_t q = lo + r;
                s_.shift[q] = seen[r].shift();
                if (seen[r].plain) s_.flag[q] |= kPlain;
                if (!(sum[r] > 0.0)) {
                    if (w_.wanted(q)) s_.tree_status[t_.tree[q]].store(vs::kInfeasible);
                } else if (1.0 >= w_.pass.zeta * sum[r]) {
                    hold(q, row_find(alpha(q), w_.K, D::one()));
                    s_.flag[q] |= kLocal;
                }
            }
        }
        // A row of its own is only had once its block is known to be blank.
        if (!w_.d->copies_rows() && !inside(begin, end)) return false;
        for (int64_t q = begin; q < end; ++q) {
            if (s_.stamp[q] == kInside) continue;
            std::memcpy(kept + q * Kp_, alpha(q), sizeof(T) * static_cast<size_t>(Kp_));
        }
        return true;
    }
    // Messages out of the islands of a block, when all blocks know theirs.
    void rows(int64_t b) {
        for (int64_t q = t_.begin[b]; q < t_.begin[b + 1]; ++q) {
            if (island(q) && s_.stamp[q] != kInside && alive_tree(q)) tell(q);
        }
    }
    // The list of the pieces that are left, each by the one of its variables that is nearest to the
    // root.
    void find() {
        s_.n_pieces = 0;
        for (int64_t q = 0; q < t_.n; ++q) {
            if (is_top(q) && s_.stamp[q] != kInside && alive_tree(q)) {
                s_.pieces[s_.n_pieces++] = q;
            }
        }
    }
    // Passes through pieces [first, last) of a list for the first time.
    bool first_pass(const int64_t* tops, int64_t first, int64_t last) {
        const vs::Scratch::Mark mark = w_.scratch.mark();
        PieceList list(w_.scratch);
        list.open();
        for (int64_t i = first; i < last; ++i) {
            if (!add_centres(tops[i], list)) return fail();
        }
        if (!spread(list)) return fail();
        const Pieces p = list.pieces();
        int64_t* late = w_.scratch.template array<int64_t>(p.n);
        int64_t* again = w_.scratch.template array<int64_t>(p.n);
        if (w_.scratch.failed) return fail();
        int64_t n_late = 0, n_again = 0;
        if (!pass_in(p, true) || !pass_out(p, s_.decides_late ? late : nullptr, &n_late)) {
            return false;
        }
        // What went in through a variable that was decided on the way out is stale.
        for (int64_t k = 0; k < n_late; ++k) {
            const int64_t w = p.inward[late[k]];
            if (w < 0 || island(p.slot[w])) continue;
            const int64_t top = top_of(p.slot[w]);
            if (s_.flag[top] & kAgain) continue;
            s_.flag[top] |= kAgain;
            again[n_again++] = top;
        }
        for (int64_t k = 0; k < n_again; ++k) s_.flag[again[k]] &= static_cast<uint8_t>(~kAgain);
        if (n_again && !pass_again(again, n_again)) return false;
        if (!tell_islands(p)) return false;
        w_.pass.control->done.fetch_add(p.n, std::memory_order_relaxed);
        w_.scratch.rewind(mark);
        return true;
    }
    // m' of the islands among slots [first, last) that have none.
    bool all_islands(int64_t first, int64_t last) {
        int64_t local = 0;
        for (int64_t q = first; q < last; ++q) {
            if (!island(q) || s_.stamp[q] == kInside || !alive_tree(q)) continue;
            if (q + kSoon < last) row_prefetch_alone(output(q + kSoon), w_.K, true);
            local += (s_.flag[q] & kLocal) != 0;
            if (!w_.ticker.go_on() || !first_actual(q)) return false;
        }
        w_.pass.control->done.fetch_add(local, std::memory_order_relaxed);
        return true;
    }

    // ------------------------------------------------------------------------- later rounds

    // Reads all events; makes the list of changes and of the pieces and islands they touch.
    bool decide(bool limited) {
        vs::Counts& counts = s_.counts;
        const vs::Scratch::Mark mark = w_.scratch.mark();
        ++s_.round;
        // Contradictions first: they are judged on the islands of the last round.
        s_.n_changed = s_.n_pieces = s_.n_touched = 0;
        for (int64_t q = 0; q < t_.n; ++q) {
            if (s_.event[q] == kNone || s_.event[q] > kContradiction || !alive_tree(q)) continue;
            if (island(q)) {
                doom(q);
                if (s_.event[q] == kContradiction) {
                    const int v = s_.held[q];
                    neighbours(q, [&](int64_t o) {
                        if (island(o) && !D::alive(message(q, o)[v])) doom(o);
                    });
                }
                continue;
            }
            if (s_.stamp[q] == s_.round) continue;
            bool any = false;
            Pieces p;
            w_.scratch.rewind(mark);
            if (!from_top(top_of(q), &p)) return fail();
            for (int64_t k = 0; k < p.n; ++k) {
                s_.stamp[p.slot[k]] = s_.round;
                neighbours(p.slot[k], [&](int64_t o) {
                    if (!island(o)) return;
                    doom(o);
                    any = true;
                });
            }
            if (!any) s_.tree_status[t_.tree[q]].store(vs::kInfeasible);
        }
        for (int64_t q = 0; q < t_.n; ++q) {
            const uint8_t e = s_.event[q];
            const bool doomed = s_.flag[q] & kDoomed;
            if (!doomed && (limited || e <= kContradiction)) continue;
            if (!alive_tree(q)) {
                s_.flag[q] &= static_cast<uint8_t>(~kDoomed);
                continue;
            }
            if (doomed || e == kRelease || (e == kFlip && (s_.flag[q] & kFlipped))) {
                s_.flag[q] = static_cast<uint8_t>((s_.flag[q] & ~(kIsland | kDoomed)) | kReleased);
                s_.held[q] = -1;
                ++counts.released;
            } else if (e == kFlip) {
                s_.flag[q] |= kFlipped;
                s_.held[q] = row_argmax(output(q), w_.K);
                ++counts.flipped;
            } else {
                hold(q, row_argmax(output(q), w_.K));
            }
            s_.event[q] = kNone;
            s_.changed[s_.n_changed++] = q;
        }
        if (s_.n_changed == 0) return true;
        ++counts.rounds;
        ++s_.round;
        // Rows out of changed islands; pieces and islands that hear of a change.
        for (int64_t i = 0; i < s_.n_changed; ++i) {
            const int64_t v = s_.changed[i];
            if (!island(v)) {
                piece(top_of(v));
                continue;
            }
            tell(v);
            touch(v);
            neighbours(v, [&](int64_t o) { island(o) ? touch(o) : piece(top_of(o)); });
        }
        return true;
    }
    // Passes through pieces [first, last) of the list again.
    bool pieces(int64_t first, int64_t last) {
        Pieces p;
        return pass_again(s_.pieces + first, last - first, &p) && tell_islands(p);
    }
    // m' of touched islands [first, last).
    bool refresh(int64_t first, int64_t last) {
        for (int64_t i = first; i < last; ++i) {
            if (!w_.ticker.go_on()) return false;
            if (i + kSoon < last) {
                fetch(t_.node[s_.touched[i + kSoon]]);
                row_prefetch_alone(output(s_.touched[i + kSoon]), w_.K, true);
            }
            if (!renew(s_.touched[i])) return false;
        }
        return true;
    }
    // Islands around the pieces of this round, ascending with those touched already.
    bool around() {
        const vs::Scratch::Mark mark = w_.scratch.mark();
        for (int64_t i = 0; i < s_.n_pieces; ++i) {
            Pieces p;
            w_.scratch.rewind(mark);
            if (!from_top(s_.pieces[i], &p)) return fail();
            for (int64_t k = 0; k < p.n; ++k) {
                neighbours(p.slot[k], [&](int64_t o) {
                    if (island(o)) touch(o);
                });
            }
        }
        return true;
    }

    // Islands and counts of a block, of the trees that need no wider arithmetic.
    void count(int64_t b) {
        vs::Counts& c = s_.block_counts[b];
        for (int64_t q = t_.begin[b]; q < t_.begin[b + 1]; ++q) {
            if (!w_.wanted(q)) continue;
            if (s_.event[q] != kNone) c.unsettled = 1;
            w_.pass.islands[t_.node[q]] = island(q) ? s_.held[q] : -1;
            const int64_t p = t_.parent[q];
            if (island(q)) {
                ++c.islands;
            } else if (p < 0 || island(p)) {
                ++c.segments;
            }
        }
    }
    // What a block adds to log Z.
    void tally(int64_t b) {
        Ledger sum;
        for (int64_t q = t_.begin[b]; q < t_.begin[b + 1]; ++q) {
            if (!w_.wanted(q)) continue;
            vs::Account& a = w_.account(b, q);
            const int64_t p = t_.parent[q];
            const bool doubted =
                s_.leak[q] == kUntrue || (s_.leak[q] == kUnheard && p >= 0 && !island(p));
            if (!doubted) {
                if (s_.leak[q] > 0.0f) a.leak += static_cast<double>(s_.leak[q]);
            } else if (alive_tree(q)) {
                widen(q);
            }
            D& d = w_.domain(q);
            if (island(q)) {
                const bool mode = (s_.flag[q] & (kLocal | kFlipped)) == kLocal;
                sum.add(a, mode ? s_.shift[q]
                                : static_cast<double>(
                                      w_.d->in.score(t_.node[q], s_.held[q], false, false)));
                if (p >= 0 && island(p)) {
                    const int l = t_.flipped[q] ? s_.held[q] : s_.held[p];
                    const int k = t_.flipped[q] ? s_.held[p] : s_.held[q];
                    sum.add(a, static_cast<double>(d.in.edge_score(w_.table(q), l, k)));
                } else if (p >= 0) {
                    sum.add(a, d.edge_shift(w_.table(q)));
                }
            } else {
                sum.add(a, s_.shift[q]);
                const bool top = p < 0 || island(p);
                a.scale += top ? s_.scale[q] : s_.scale_up[q];
                if (p >= 0) sum.add(a, d.edge_shift(w_.table(q)));
                if (top) sum.add(a, s_.log_mass[q]);
            }
        }
    }

  private:
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
        s_.leak[q] = 0.0f;
        s_.scale[q] = s_.scale_up[q] = 0.0;
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
    void doom(int64_t q) { s_.flag[q] |= kDoomed; }
    T* own_row(void** own, int64_t q) {
        if (!own[q]) {
            T* row = keep_.template array<T>(Kp_);
            if (row) w_.clear_pads(row);
            own[q] = row;
        }
        return static_cast<T*>(own[q]);
    }
    // Messages out of island q.
    void tell(int64_t q) {
        if (t_.parent[q] >= 0) s_.u[q] = upward_row(q);
        w_.for_kids(q, [&](int64_t c) { s_.y[c] = downward_row(c, q); });
    }
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
        w_.for_kids(q, f);
    }

    // ------------------------------------------------------------------------------- pieces

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
    // The pieces of `count` tops, from there.
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
        w_.for_kids(top, [&](int64_t c) { alone = alone && island(c); });
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
    // Passes through all of a block that touches no other block.
    bool inside(int64_t begin, int64_t end) {
        for (int64_t q = begin; q < end; ++q) {
            if (island(q) && alive_tree(q)) tell(q);
        }
        // Does a free variable of the piece have a neighbour elsewhere? Children come after parents.
        uint8_t* leaves = w_.scratch.template array<uint8_t>(end - begin);
        int64_t* tops = w_.scratch.template array<int64_t>(end - begin);
        if (w_.scratch.failed) return fail();
        for (int64_t q = end; q-- > begin;) {
            const int64_t p = t_.parent[q];
            bool any = t_.hangs[q] || (p >= 0 && p < begin) || p >= end || !alive_tree(q);
            for (int64_t c = t_.kids[q]; c < t_.kids_end[q]; ++c) {
                any = any || (!island(c) && leaves[c - begin]);
            }
            leaves[q - begin] = any;
        }
        int64_t n = 0;
        for (int64_t q = begin; q < end; ++q) {
            if (island(q)) continue;
            if (is_top_inside(q, begin)) {
                if (!leaves[q - begin]) tops[n++] = q;
            } else {
                leaves[q - begin] = leaves[t_.parent[q] - begin];
            }
            if (!leaves[q - begin]) s_.stamp[q] = kInside;
        }
        for (int64_t i = 0; i < n; i += kTogether) {
            if (!first_pass(tops, i, std::min(i + kTogether, n))) return false;
        }
        int64_t local = 0;
        for (int64_t q = begin; q < end; ++q) {
            if (!island(q)) continue;
            bool known = !t_.hangs[q] && !(t_.parent[q] >= 0 && t_.parent[q] < begin);
            known = known && alive_tree(q);
            if (known) {
                neighbours(q, [&](int64_t o) { known = known && (island(o) || inside(o)); });
            }
            if (!known) continue;
            local += (s_.flag[q] & kLocal) != 0;
            if (q + kSoon < end) row_prefetch_alone(output(q + kSoon), w_.K, true);
            if (!w_.ticker.go_on() || !first_actual(q)) return false;
            s_.stamp[q] = kInside;
        }
        w_.pass.control->done.fetch_add(local, std::memory_order_relaxed);
        return true;
    }
    bool inside(int64_t q) const { return s_.stamp[q] == kInside; }
    bool is_top_inside(int64_t q, int64_t begin) const {
        return t_.parent[q] < begin || island(t_.parent[q]);
    }
    bool first_actual(int64_t q) {
        if (s_.flag[q] & kLocal) return actual(q, s_.flag[q] & kPlain, alpha(q));
        return renew(q);
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
    // The scale and the raised floors of a message from q to o.
    void note_message(int64_t q, int64_t o, double scale, float by) {
        if (o == t_.parent[q]) {
            s_.scale_up[q] = scale;
            s_.raised_u[q] = by;
        } else {
            s_.raised_y[o] = by;
        }
    }

    // Messages towards the centres. `decides`: a variable whose product reaches zeta becomes an
    // island; otherwise local factors are made again.
    bool pass_in(const Pieces& p, bool decides) {
        Batch batch;
        for (int64_t hi = p.n, lo; hi > 0; hi = lo) {
            for (lo = hi - 1; lo > 0 && hi - lo < Bench::kBatch; --lo) {
                if (p.first[lo - 1] < hi && p.first[lo] > p.first[lo - 1]) break;
            }
            if (!w_.ticker.go_on(hi - lo)) return false;
            for (int64_t k = hi; k-- > lo;) {
                const int64_t q = p.slot[k];
                const int64_t to = p.inward[k] < 0 ? -1 : p.slot[p.inward[k]];
                bool plain = s_.flag[q] & kPlain;
                if (!decides) plain = make_local(q);
                double largest = 0.0;
                product(q, to, plain, alpha(q), decides ? &largest : nullptr);
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
    // Messages away from the centres, and m' of all that are free. `late`: where to put the places
    // that become islands by m', or null.
    bool pass_out(const Pieces& p, int64_t* late, int64_t* n_late) {
        Batch batch;
        const auto decided = [&](int64_t k) {
            return late && !island(p.slot[k]) && s_.event[p.slot[k]] == kBecome;
        };
        const auto take = [&](int64_t k) {
            const int64_t q = p.slot[k];
            s_.event[q] = kNone;
            become(q, row_argmax(output(q), w_.K));
            late[(*n_late)++] = k;
        };
        const auto partner = [&](int64_t k) { return p.inward[k] < 0 ? -1 : p.slot[p.inward[k]]; };
        for (int64_t k = 0; k < p.centres; ++k) {
            if (!island(p.slot[k])) belief(p.slot[k], partner(k), alpha(p.slot[k]));
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
                    const bool plain = make_local(q);
                    product(q, partner(stays), plain, alpha(q), nullptr);
                    belief(q, partner(stays), alpha(q));
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
                exclude(p.slot[w], q, x);
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
    bool pass_again(const int64_t* tops, int64_t count, Pieces* p) {
        if (!from_tops(tops, count, p)) return fail();
        int64_t none = 0;
        return pass_in(*p, false) && pass_out(*p, nullptr, &none);
    }
    bool pass_again(const int64_t* tops, int64_t count) {
        Pieces p;
        return pass_again(tops, count, &p);
    }
    // Messages from the free variables of a piece to the islands beside them.
    bool tell_islands(const Pieces& p) {
        Batch batch;
        int c = 0;
        for (int64_t k = 0; k < p.n; ++k) {
            const int64_t q = p.slot[k];
            if (island(q)) continue;
            bool ok = true;
            neighbours(q, [&](int64_t o) {
                if (!island(o) || !ok) return;
                if (c == Bench::kBatch) {
                    send(batch);
                    c = 0;
                }
                T* x = w_.x + c++ * Kp_;
                exclude(q, o, x);
                ok = add(batch, q, o, x);
            });
            if (!ok || !w_.ticker.go_on()) return false;
        }
        send(batch);
        return true;
    }

    // ------------------------------------------------------------------------------ products

    // The local factor of free q, in its row.
    bool make_local(int64_t q) {
        double sum;
        w_.d->clear(alpha(q));
        return local(q, alpha(q), &sum);
    }
    bool local(int64_t q, T* psi, double* sum) {
        const typename D::Seen seen = w_.d->look(t_.node[q], false, false, psi);
        *sum = w_.d->local(seen, psi);
        return seen.plain;
    }
    // row: psi on entry, psi times the messages of all neighbours but one on return, scaled.
    // `largest`: its largest share, or null.
    void product(int64_t q, int64_t but, bool plain, T* row, double* largest) {
        const T* heard = nullptr;
        bool narrow = true;
        double scale = 0.0;
        float before = tables_;
        neighbours(q, [&](int64_t o) {
            if (o == but) return;
            before = std::max(before, raised_by(q, o));
            if (!narrow) return;
            const T* m = message(q, o);
            if (!heard) {
                heard = m;
                return;
            }
            narrow =
                w_.d->absorb(heard, w_.positive(), m, true, w_.acc, &scale) && !w_.d->held(w_.acc);
            heard = w_.acc;
        });
        if (!heard) {  // a message of entries below the floor could lose one
            s_.scale[q] = 0.0;
            double none = 0.0;
            if (!island(q)) w_.d->absorb(row, plain, w_.ones, false, row, &none);
            s_.raised[q] = raised(tables_, q, 0.0, w_.d->held(row));
            return;
        }
        double most = 0.0;
        if (narrow) narrow = w_.d->absorb_share(row, plain, heard, row, &scale, &most);
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
    // out: what free q sends to its neighbour o, before the table: its belief without o's message.
    void exclude(int64_t q, int64_t o, T* out) {
        double scale = 0.0;
        bool floored = false;
        const T* m = message(q, o);
        if ((s_.flag[q] & kSafe) && w_.d->quotient(alpha(q), m, true, out, &scale)) {
            scale += s_.scale[q];
        } else {
            if (total_.of != q) make_total(q, -1);
            scale = total_.without(*w_.d, m, out);
            floored = true;
        }
        note_message(q, o, scale, raised(s_.raised[q], q, scale, floored));
    }
    // What floors have put into a row or a message may have been raised on the way to it, by
    // scaling products in which the largest entries of one met small ones of another: by how many
    // powers of two, at most. A few of them for each message are its usual size and no such case.
    // Islands start anew: only their tables have floors.
    static constexpr float kNoFloor = -INFINITY;
    float raised(float before, int64_t q, double scale, bool floored) const {
        constexpr int64_t kUsual = 12;
        if (floored) before = std::max(before, 0.0f);
        if (before == kNoFloor) return before;
        const int64_t messages = 1 + t_.kids_end[q] - t_.kids[q] + (t_.hangs[q] ? kNear : 0);
        return before +
               std::max(0.0f, static_cast<float>(-scale - static_cast<double>(kUsual * messages)));
    }
    float raised_down(int64_t q) const {
        const int64_t p = t_.parent[q];
        return p < 0 || island(p) ? tables_ : s_.raised_y[q];
    }
    // Might floors have made what the product in `acc` says of q? row: what q knows from below,
    // where that was scaled (`far`).
    bool untrue(int64_t q, const Product<T>& r, const T* row, bool far) {
        bool any = far && w_.d->owed(w_.acc, r, row, s_.raised[q]);
        neighbours(q, [&](int64_t o) {
            any = any || w_.domain(o == t_.parent[q] ? q : o)
                             .owed(w_.acc, r, message(q, o), raised_by(q, o));
        });
        return any;
    }
    // leak of an island whose row may be untrue for its parent, and whose own m' may be
    static constexpr float kUnheard = -1.0f, kUntrue = -2.0f;
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
        if (!put(q, r, d.massive(r, row, m, m))) return;
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
    // m' of island q, in one sweep where the product of all that is said keeps within range; row:
    // its local factor. Notes the event.
    bool actual(int64_t q, bool plain, T* row) {
        D& d = *w_.d;
        const T* heard[kNear];
        int n = 0;
        float most = kNoFloor;
        const auto hear = [&](const T* m, float by) {
            if (n < kNear) heard[n] = m;
            most = std::max(most, by);
            ++n;
        };
        w_.for_kids(q, [&](int64_t c) { hear(u(c), s_.raised_u[c]); });
        hear(y(q), raised_down(q));
        Product<T> r;
        vs::Status status = vs::kOk;
        const bool far = n > kNear || !d.product_of(row, heard, n, w_.acc, &r);
        if (far) {
            product(q, t_.parent[q], plain, row, nullptr);
            most = std::max(most, s_.raised[q]);
            r = d.template product3<true>(row, false, w_.ones, y(q), w_.acc);
            status = d.massive(r, row, y(q), y(q));
        }
        if (!put(q, r, status)) return true;
        const int v = s_.held[q];
        // What product_of found within its range in double precision is too large for floors.
        const bool near = !far && sizeof(T) == 8 && most < kMild;
        if (most > kNoFloor && !near && untrue(q, r, row, far)) s_.leak[q] = kUntrue;
        // Its row went into products of the parent's that are scaled, whose mass would not tell.
        // That counts in the end only: an island like this is likely to be released.
        if (t_.parent[q] >= 0 && s_.leak[q] != kUntrue && !w_.domain(q).heard(y(q)[v]) &&
            !island(t_.parent[q])) {
            s_.leak[q] = kUnheard;
        }
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
        double mass = 0.0, leak = 0.0;
        s_.event[q] = kNone;
        if (!alive_tree(q)) return false;
        if (status == vs::kOk) status = w_.d->divide(r, w_.acc, output(q), &mass, &leak);
        if (status == vs::kWiden) widen(q);
        if (status == vs::kInfeasible) s_.event[q] = kDead;
        if (status != vs::kOk) return false;
        s_.leak[q] = static_cast<float>(leak);
        if (!island(q)) s_.log_mass[q] = w_.d->log_mass(mass);
        return true;
    }
    bool tiny(const T* row, const Product<T>& r) const {
        const T limit = (sizeof(T) == 8 ? T(1e-140) : T(1e-17)) * r.max;
        return row_min(row, w_.K) < limit;
    }
    void piece(int64_t top) {
        if (s_.stamp[top] == s_.round) return;
        s_.stamp[top] = s_.round;
        s_.pieces[s_.n_pieces++] = top;
    }
    void touch(int64_t q) {
        if (s_.stamp[q] == s_.round) return;
        s_.stamp[q] = s_.round;
        s_.touched[s_.n_touched++] = q;
    }

    static constexpr int64_t kAhead = 16, kSoon = 2;  // rows between a prefetch and its use
    static constexpr int64_t kTogether = 64;          // pieces
    static constexpr uint32_t kInside = 1;            // stamp: done with its block
    Bench& w_;
    const vs::TreeView& t_;
    vs::IslandState& s_;
    vs::Scratch& keep_;
    int Kp_;
    T* alpha_;           // rows of slots from `first_` on
    int64_t first_ = 0;
    int64_t full_ = 0, sparse_ = 0;
    Total<D> total_{};
    float tables_ = kNoFloor;  // what a row of a table has been raised by
};

template <class D>
void tree_islands(vs::TreePass* pass, int step, int64_t first, int64_t last, int worker) {
    TreeBench<D> bench(pass, worker);
    TreeIslands<D> work(bench, worker);
    if (!bench.ok) pass->control->stop.store(2);
    if (!bench.ticker.look()) return;
    bool ok = true;
    switch (step) {
        case vs::kIslandsLocals:
            ok = work.locals(first);
            break;
        case vs::kIslandsRows:
            work.rows(first);
            break;
        case vs::kIslandsFind:
            work.find();
            break;
        case vs::kIslandsFirst:
            ok = work.first_pass(pass->state->pieces, first, last);
            break;
        case vs::kIslandsAll:
            ok = work.all_islands(first, last);
            break;
        case vs::kIslandsDecide:
            ok = work.decide(last != 0);
            break;
        case vs::kIslandsPieces:
            ok = work.pieces(first, last);
            break;
        case vs::kIslandsAround:
            ok = work.around();
            break;
        case vs::kIslandsRefresh:
            ok = work.refresh(first, last);
            break;
        case vs::kIslandsTally:
            if (bench.wanted_block(first)) work.tally(first);
            break;
        case vs::kIslandsCount:
            if (bench.wanted_block(first)) work.count(first);
            break;
    }
    (void)ok;  // what failed has told `control`
}

}  // namespace VS_NS
