// Islands of certainty in a forest (SMM11 section 3), in the order-free formulation of
// kernels/islands.h.
//
// Round 0. Variables whose local factor has a mode >= zeta are islands. On the way up a variable
// also becomes one when its local factor times what its children say reaches zeta; on the way down
// every m' is known. Out of an island a message is one row (column) of its table.
// Round r >= 1. All events are read off the m' of round r - 1 at once, as on chains. Then the
// pieces (connected free variables) that a change touches are passed through again, upwards and
// downwards, each on its own; islands that hear of a change get a new m'. A piece without mass
// given the islands around it releases them all.
//
// What a free parent says to a child may not always be found by taking the child's message back
// out of the parent's belief, as in pass.h: m' of an island below also weighs the states that its
// value rules out. Unless nothing was small, the product is made again without it, every entry
// with an exponent and a count of zeros of its own (Total).
#pragma once

#include <atomic>

#include "tree/pass.h"

namespace VS_NS {

// The product of everything said to a node, from which any one factor can be taken out again.
template <class D>
struct Total {
    using T = typename D::T;
    static constexpr bool kLog = D::kUnit == 1.0;
    double* value;  // (K,) product of the factors that are not zero (sum, in the log domain)
    int64_t* exponent;
    int32_t* zeros;
    int K;
    int64_t of = -1;  // slot

    void start(int64_t s) {
        of = s;
        for (int k = 0; k < K; ++k) {
            value[k] = kLog ? 0.0 : 1.0;
            exponent[k] = 0;
            zeros[k] = 0;
        }
    }
    void multiply(const T* m) {
        for (int k = 0; k < K; ++k) {
            if (!D::alive(m[k])) {
                ++zeros[k];
            } else if (kLog) {
                value[k] += static_cast<double>(m[k]);
            } else {
                int e, f;
                value[k] = std::frexp(value[k] * std::frexp(static_cast<double>(m[k]), &e), &f);
                exponent[k] += e + f;
            }
        }
    }
    // A local factor given as a score: exp(score - shift), whatever its size.
    void multiply_score(int k, double score, double shift) {
        if (!(score > -INFINITY)) {
            ++zeros[k];
        } else if (kLog) {
            value[k] += score - shift;
        } else {
            int64_t e;
            value[k] *= power_of(score - shift, &e);
            exponent[k] += e;
        }
    }
    // out: the product without m, scaled, entries held at the floor; returns the exponent that
    // scaling took out.
    double without(const D& d, const T* m, T* out) const {
        d.clear(out);
        double best = -INFINITY;
        int64_t top = INT64_MIN;
        auto lives = [&](int k) { return zeros[k] == (D::alive(m[k]) ? 0 : 1); };
        for (int k = 0; k < K; ++k) {
            if (!lives(k)) continue;
            if (kLog) {
                const double v = value[k] - (D::alive(m[k]) ? static_cast<double>(m[k]) : 0.0);
                out[k] = static_cast<T>(v);
                best = v > best ? v : best;
            } else {
                const int64_t e = exponent_without(k, m);
                top = e > top ? e : top;
            }
        }
        for (int k = 0; k < K; ++k) {
            if (!lives(k)) continue;
            if constexpr (kLog) {
                out[k] -= best;
            } else {
                int e, f = 0;
                double v = value[k];
                if (D::alive(m[k])) {
                    v = std::frexp(v / std::frexp(static_cast<double>(m[k]), &e), &f);
                } else {
                    v = std::frexp(v, &f);
                }
                const int64_t by = exponent_without(k, m) - top;
                const T x = by < -1000 ? T(0) : static_cast<T>(std::ldexp(v, static_cast<int>(by)));
                out[k] = x > Floor<T>::kMessage ? x : Floor<T>::kMessage;
            }
        }
        return top > INT64_MIN ? static_cast<double>(top) : 0.0;
    }

  private:
    int64_t exponent_without(int k, const T* m) const {
        int e = 0, f;
        double v = value[k];
        if (D::alive(m[k])) v /= std::frexp(static_cast<double>(m[k]), &e);
        std::frexp(v, &f);
        return exponent[k] - e + f;
    }
};

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
        kLocal = 8,     // an island by its local factor
        kChanged = 16,  // in this round
        kDoomed = 32,
    };
    enum Event : uint8_t { kNone, kDead, kContradiction, kRelease, kFlip, kBecome };

    TreeIslands(Bench& bench, int worker)
        : w_(bench),
          t_(bench.t),
          s_(*bench.pass.state),
          keep_(bench.pass.state->keep[worker]),
          Kp_(bench.Kp) {
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

    // What hangs from an island in the same block (or has a root in it) is settled at once, while
    // its rows are in cache; only the rest keeps rows for the way down.
    bool upward(int64_t b) {
        T* rows = w_.scratch.template array<T>((t_.begin[b + 1] - t_.begin[b]) * Kp_);
        if (!open(b, rows)) return fail();
        int64_t s[Bench::kBatch];
        const T* x[Bench::kBatch];
        T* y[Bench::kBatch];
        typename D::Seen seen[Bench::kBatch];
        double sum[Bench::kBatch];
        for (int64_t hi = end_, lo; hi > begin_; hi = lo) {
            for (lo = hi - 1; lo > begin_ && hi - lo < Bench::kBatch; --lo) {
                const int64_t kid = t_.kids[lo - 1];
                if (kid < hi && kid < t_.kids_end[lo - 1]) break;
            }
            const int m = static_cast<int>(hi - lo);
            if (!w_.ticker.go_on(m)) return false;
            for (int r = 0; r < m; ++r) {
                const int64_t q = lo + r;
                if (q - kAhead >= begin_) fetch(t_.node[q - kAhead]);
                w_.clear_pads(alpha(q));
                seen[r] = w_.d->look(t_.node[q], false, false, alpha(q));
                sum[r] = w_.d->local(seen[r], alpha(q));
            }
            int c = 0;
            for (int r = m; r-- > 0;) {
                const int64_t q = lo + r;
                blank(q);
                s_.shift[q] = seen[r].shift();
                if (sum[r] > 0.0 && 1.0 >= w_.pass.zeta * sum[r]) {
                    become(q, row_find(alpha(q), w_.K, D::one()));
                    s_.flag[q] |= kLocal;
                } else if (!know(q, seen[r].plain, alpha(q), sum[r])) {
                    return false;
                }
                if (!(sum[r] > 0.0) && w_.wanted(q))
                    s_.tree_status[t_.tree[q]].store(vs::kInfeasible);
                if (t_.parent[q] < 0) continue;
                if (island(q)) {
                    s_.u[q] = upward_row(q);
                    continue;
                }
                T* own = own_row(s_.own_u, q);
                if (!own) return fail();
                s_.u[q] = own;
                s[c] = q;
                x[c] = alpha(q);
                y[c++] = own;
            }
            if (c > 0) w_.send(s, c, true, x, y);
            full_ += c;
        }
        const int64_t tops = begin_ + t_.tops[b];
        for (int64_t q = begin_; q < end_; ++q) {
            const int64_t p = t_.parent[q];
            if (q < tops ? p < 0 : s_.flag[p] & (kIsland | kSettled)) {
                s_.flag[q] |= kSettled;
            } else {
                std::memcpy(static_cast<T*>(w_.pass.alpha) + q * Kp_, alpha(q),
                            sizeof(T) * static_cast<size_t>(Kp_));
            }
        }
        return settle(b, true);
    }

    bool downward(int64_t b) {
        if (!open(b, static_cast<T*>(w_.pass.alpha) + t_.begin[b] * Kp_)) return fail();
        return settle(b, false);
    }

    // ------------------------------------------------------------------------- later rounds

    // Reads all events; makes the list of changes and of the pieces and islands they touch.
    void decide(bool limited) {
        vs::Counts& counts = s_.counts;
        ++s_.round;
        // Contradictions first: they are judged on the islands of the last round.
        s_.n_changed = s_.n_pieces = s_.n_touched = 0;
        for (int64_t q = 0; q < t_.n; ++q) {
            if (s_.event[q] == kNone || s_.event[q] > kContradiction || !alive_tree(q)) continue;
            if (island(q)) {
                doom(q);
                if (s_.event[q] == kContradiction) {
                    const int v = s_.held[q];
                    neighbours(q, [&](int64_t o, const T* m) {
                        if (island(o) && !D::alive(m[v])) doom(o);
                    });
                }
                continue;
            }
            if (s_.stamp[q] == s_.round) continue;
            bool any = false;
            const int64_t n = gather(top_of(q), s_.list);
            for (int64_t i = 0; i < n; ++i) {
                s_.stamp[s_.list[i]] = s_.round;
                neighbours(s_.list[i], [&](int64_t o, const T*) {
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
                become(q, row_argmax(output(q), w_.K));
            }
            s_.event[q] = kNone;
            s_.changed[s_.n_changed++] = q;
        }
        if (s_.n_changed == 0) return;
        ++counts.rounds;
        ++s_.round;
        // Rows out of changed islands; pieces and islands that hear of a change.
        for (int64_t i = 0; i < s_.n_changed; ++i) {
            const int64_t v = s_.changed[i];
            if (!island(v)) {
                piece(top_of(v));
                continue;
            }
            if (t_.parent[v] >= 0) s_.u[v] = upward_row(v);
            w_.for_kids(v, [&](int64_t c) { s_.y[c] = downward_row(c, v); });
            touch(v);
            neighbours(v, [&](int64_t o, const T*) { island(o) ? touch(o) : piece(top_of(o)); });
        }
    }
    // Passes through pieces [first, last) of the list; the islands around them are touched.
    bool pieces(int64_t first, int64_t last) {
        const vs::Scratch::Mark mark = w_.scratch.mark();
        for (int64_t i = first; i < last; ++i) {
            w_.scratch.rewind(mark);
            int64_t room = 64;
            int64_t* list = w_.scratch.template array<int64_t>(room);
            if (!list) return fail();
            int64_t n = 0;
            list[n++] = s_.pieces[i];
            for (int64_t k = 0; k < n && list; ++k) {
                w_.for_kids(list[k], [&](int64_t c) {
                    if (island(c) || !list) return;
                    if (n == room) {
                        int64_t* more = w_.scratch.template array<int64_t>(2 * room);
                        if (more) std::memcpy(more, list, sizeof(*list) * static_cast<size_t>(n));
                        list = more;
                        room *= 2;
                        if (!list) return;
                    }
                    list[n++] = c;
                });
            }
            T* rows = list ? w_.scratch.template array<T>(n * Kp_) : nullptr;
            if (!rows) return fail();
            if (!pass_through(list, n, rows)) return false;
        }
        return true;
    }
    // m' of touched islands [first, last).
    bool refresh(int64_t first, int64_t last) {
        for (int64_t i = first; i < last; ++i) {
            if (!w_.ticker.go_on()) return false;
            if (i + kSoon < last) {
                fetch(t_.node[s_.touched[i + kSoon]]);
                row_prefetch_alone(output(s_.touched[i + kSoon]), w_.K, true);
            }
            double sum;
            const bool plain = local(s_.touched[i], w_.psi, &sum);
            if (!actual(s_.touched[i], plain, w_.psi)) return false;
        }
        return true;
    }
    // Islands around the pieces of this round, ascending with those touched already.
    void around() {
        for (int64_t i = 0; i < s_.n_pieces; ++i) {
            const int64_t n = gather(s_.pieces[i], s_.list);
            for (int64_t k = 0; k < n; ++k) {
                neighbours(s_.list[k], [&](int64_t o, const T*) {
                    if (island(o)) touch(o);
                });
            }
        }
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
                a.scale += s_.scale[q];
                if (p >= 0) sum.add(a, d.edge_shift(w_.table(q)));
                if (p < 0 || island(p)) sum.add(a, s_.log_mass[q]);
            }
        }
    }

  private:
    bool open(int64_t b, T* rows) {
        if (!w_.ok || !rows) return false;
        b_ = b;
        begin_ = t_.begin[b];
        end_ = t_.begin[b + 1];
        alpha_ = rows;
        return true;
    }
    // What is heard from above and m' of the nodes of a block whose flag says so.
    bool settle(int64_t b, bool settled) {
        const int64_t tops = begin_ + t_.tops[b];
        int64_t s[Bench::kBatch];
        const T* x[Bench::kBatch];
        T* y[Bench::kBatch];
        const T* above = static_cast<const T*>(w_.pass.block_down) + b * Kp_;
        const auto concerned = [&](int64_t q) { return ((s_.flag[q] & kSettled) != 0) == settled; };
        for (int64_t lo = begin_, hi; lo < end_; lo = hi) {
            int c = 0, m = 0;
            for (hi = lo; hi < end_ && c < Bench::kBatch; ++hi) {
                if (!concerned(hi)) continue;
                const int64_t p = t_.parent[hi];
                if (p >= 0 && island(p)) {
                    s_.y[hi] = downward_row(hi, p);
                } else if (p >= 0) {
                    if (hi >= tops && p >= lo) break;
                    T* own = own_row(s_.own_y, hi);
                    if (!own) return fail();
                    s_.y[hi] = own;
                    s[c] = hi;
                    x[c] = w_.x + c * Kp_;
                    y[c] = own;
                    exclude(p, hi < tops ? above : alpha(p), hi, w_.x + c * Kp_);
                    ++c;
                }
                ++m;
            }
            if (!w_.ticker.go_on(m)) return false;
            if (c > 0) w_.send(s, c, false, x, y);
            full_ += c;
            for (int64_t q = lo; q < hi; ++q) {
                if (q + kAhead < end_ && concerned(q + kAhead)) {
                    row_prefetch_alone(output(q + kAhead), w_.K, true);
                }
                if (!concerned(q)) continue;
                if (!island(q)) {
                    belief(q, alpha(q));
                    continue;
                }
                double sum;
                bool plain = false;
                T* psi = alpha(q);
                if (!(s_.flag[q] & kLocal)) plain = local(q, psi = w_.psi, &sum);
                if (!actual(q, plain, psi)) return false;
            }
        }
        for (int64_t k = t_.below_ptr[b]; k < t_.below_ptr[b + 1]; ++k) {
            const int64_t c = t_.below[k], p = t_.above[c];
            if (island(p) || !concerned(p)) continue;
            std::memcpy(static_cast<T*>(w_.pass.block_down) + c * Kp_, alpha(p),
                        sizeof(T) * static_cast<size_t>(Kp_));
        }
        return true;
    }
    bool fail() {
        w_.pass.control->stop.store(2);
        return false;
    }
    T* alpha(int64_t s) const { return alpha_ + (s - begin_) * Kp_; }
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
        s_.raised_u[q] = s_.raised_y[q] = tables_;
    }
    void become(int64_t q, int v) {
        s_.flag[q] |= kIsland;
        s_.held[q] = v;
        s_.raised_u[q] = tables_;
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
    // What island q says to its parent, and what island p says to its child q.
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
    bool local(int64_t q, T* psi, double* sum) {
        const typename D::Seen seen = w_.d->look(t_.node[q], false, false, psi);
        *sum = w_.d->local(seen, psi);
        return seen.plain;
    }

    // row: psi on entry, psi times what the children say on return, scaled. With `sum` > 0 (round
    // 0, the sum of psi) a free variable with a share of zeta becomes an island.
    bool know(int64_t q, bool plain, T* row, double sum) {
        const T* heard = nullptr;
        bool narrow = true;
        double scale = 0.0;
        float before = tables_;
        w_.for_kids(q, [&](int64_t c) {
            before = std::max(before, s_.raised_u[c]);
            if (!narrow) return;
            if (!heard) {
                heard = u(c);
                return;
            }
            narrow = w_.d->absorb(heard, w_.positive(), u(c), true, w_.acc, &scale) &&
                     !w_.d->held(w_.acc);
            heard = w_.acc;
        });
        if (!heard) {  // a message of entries below the floor could lose one
            s_.scale[q] = 0.0;
            double none = 0.0;
            if (!island(q)) w_.d->absorb(row, plain, w_.ones, false, row, &none);
            know_raised(q, raised(tables_, q, 0.0, w_.d->held(row)));
            return true;
        }
        double largest = 0.0;
        if (narrow) {
            narrow = w_.d->absorb_share(row, plain, heard, row, &scale, &largest);
        }
        if (!narrow) {
            if constexpr (Total<D>::kLog) {
                return true;
            } else {
                scale = wide(q, row);
                largest = share(row);
            }
        }
        s_.scale[q] = scale;
        know_raised(q, raised(before, q, scale, w_.d->held(row)));
        if (sum > 0.0 && !island(q) && largest > 0.0 && largest >= w_.pass.zeta) {
            become(q, row_argmax(row, w_.K));
        }
        return true;
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
    // total_: everything said to q, its local factor, and (`all`) what its parent says.
    void make_total(int64_t q, bool all) {
        total_.start(q);
        double shift = s_.shift[q];
        for (int k = 0; k < w_.K; ++k) {
            const double x = static_cast<double>(w_.d->in.score(t_.node[q], k, false, false));
            total_.multiply_score(k, x, shift);
        }
        w_.for_kids(q, [&](int64_t c) { total_.multiply(u(c)); });
        if (all && t_.parent[q] >= 0) total_.multiply(y(q));
    }
    // All of it but what the parent says; returns the exponent that scaling took out.
    double wide(int64_t q, T* row) {
        make_total(q, false);
        total_.of = -1;
        return total_.without(*w_.d, w_.ones, row);
    }
    // What free p says to child q, before the table: its belief without what q said.
    void exclude(int64_t p, const T* belief, int64_t q, T* out) {
        double scale = 0.0;
        // Of all children, q too: which the others are would take a sweep for each.
        const float before = std::max(s_.raised_u[p], raised_down(p));
        bool floored = false;
        if ((s_.flag[p] & kSafe) && w_.d->quotient(belief, u(q), true, out, &scale)) {
            scale += s_.scale[p];
        } else {
            if (total_.of != p) make_total(p, true);
            scale = total_.without(*w_.d, u(q), out);
            floored = true;
        }
        s_.raised_y[q] = raised(before, p, scale, floored);
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
    void know_raised(int64_t q, float by) {
        row_raised_ = by;
        if (!island(q)) s_.raised_u[q] = by;
    }
    float raised_down(int64_t q) const {
        const int64_t p = t_.parent[q];
        return p < 0 || island(p) ? tables_ : s_.raised_y[q];
    }
    // Might floors have made what the product in `acc` says of q? row: what q knows from below,
    // where that was scaled (`far`).
    bool untrue(int64_t q, const Product<T>& r, const T* row, bool far) {
        bool any = far && w_.d->owed(w_.acc, r, row, row_raised_);
        neighbours(q, [&](int64_t o, const T* m) {
            const bool above = o == t_.parent[q];
            any = any || w_.domain(above ? q : o)
                             .owed(w_.acc, r, m, above ? raised_down(q) : s_.raised_u[o]);
        });
        return any;
    }
    static constexpr uint8_t kSafe = 64, kSettled = 128;
    // leak of an island whose row may be untrue for its parent, and whose own m' may be
    static constexpr float kUnheard = -1.0f, kUntrue = -2.0f;
    static constexpr float kMild = 40.0f;
    static constexpr int kNear = 8;  // neighbours whose product is not scaled on the way

    // m' of free q; row: what q knows from below on entry, its belief on return. Notes the event.
    void belief(int64_t q, T* row) {
        D& d = *w_.d;
        const T* from = y(q);
        const bool held = d.held(row);
        const Product<T> r = d.template product3<true>(row, false, w_.ones, from, w_.acc);
        total_.of = total_.of == q ? -1 : total_.of;
        if (!put(q, r, d.massive(r, row, from, from))) return;
        std::memcpy(row, w_.acc, sizeof(T) * static_cast<size_t>(Kp_));
        const bool safe = !held && Total<D>::kLog == false && !tiny(row, r);
        s_.flag[q] = static_cast<uint8_t>((s_.flag[q] & ~kSafe) | (safe ? kSafe : 0));
        if (D::peak(r) >= w_.pass.zeta && !(s_.flag[q] & kReleased)) s_.event[q] = kBecome;
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
            if (!know(q, plain, row, 0.0)) return false;
            most = std::max(most, row_raised_);
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
        neighbours(q, [&](int64_t, const T* m) { dead |= !D::alive(m[v]); });
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
    // f(slot, what it says to q)
    template <class F>
    void neighbours(int64_t q, F f) {
        if (t_.parent[q] >= 0) f(t_.parent[q], y(q));
        w_.for_kids(q, [&](int64_t c) { f(c, u(c)); });
    }
    int64_t top_of(int64_t q) const {
        while (t_.parent[q] >= 0 && !island(t_.parent[q])) q = t_.parent[q];
        return q;
    }
    int64_t gather(int64_t top, int64_t* list) {
        int64_t n = 0;
        list[n++] = top;
        for (int64_t k = 0; k < n; ++k) {
            w_.for_kids(list[k], [&](int64_t c) {
                if (!island(c)) list[n++] = c;
            });
        }
        return n;
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
    bool pass_through(const int64_t* list, int64_t n, T* rows) {
        for (int64_t k = n; k-- > 0;) {
            const int64_t q = list[k];
            T* row = rows + k * Kp_;
            w_.d->clear(row);
            double sum;
            const bool plain = local(q, row, &sum);
            if (!w_.ticker.go_on() || !know(q, plain, row, 0.0)) return false;
            if (t_.parent[q] < 0) continue;
            T* own = own_row(s_.own_u, q);
            if (!own) return fail();
            s_.u[q] = own;
            const T* x = row;
            w_.send(&q, 1, true, &x, &own);
            ++full_;
        }
        int64_t next = 1;  // children follow in the order of their parents
        for (int64_t k = 0; k < n; ++k) {
            const int64_t q = list[k];
            T* row = rows + k * Kp_;
            if (!w_.ticker.go_on()) return false;
            if (k == 0 && t_.parent[q] >= 0) s_.y[q] = downward_row(q, t_.parent[q]);
            belief(q, row);
            w_.for_kids(q, [&](int64_t c) {
                T* own = own_row(s_.own_y, c);
                if (!own) {
                    fail();
                    return;
                }
                exclude(q, row, c, w_.x);
                s_.y[c] = own;
                const T* x = w_.x;
                w_.send(&c, 1, false, &x, &own);
                ++full_;
                if (!island(c)) ++next;
            });
        }
        return true;
    }

    static constexpr int64_t kAhead = 16, kSoon = 2;  // rows between a prefetch and its use
    Bench& w_;
    const vs::TreeView& t_;
    vs::IslandState& s_;
    vs::Scratch& keep_;
    int Kp_;
    T* alpha_ = nullptr;
    int64_t b_ = 0, begin_ = 0, end_ = 0, full_ = 0, sparse_ = 0;
    Total<D> total_{};
    float tables_ = kNoFloor;      // what a row of a table has been raised by
    float row_raised_ = kNoFloor;  // what the last row that was made from below has
};

template <class D>
void tree_islands(vs::TreePass* pass, int step, int64_t first, int64_t last, int worker) {
    TreeBench<D> bench(pass, worker);
    TreeIslands<D> work(bench, worker);
    if (!bench.ok) pass->control->stop.store(2);
    if (!bench.ticker.look()) return;
    bool ok = true;
    switch (step) {
        case vs::kIslandsUp:
            if (bench.wanted_block(first)) ok = work.upward(first);
            break;
        case vs::kIslandsDown:
            if (bench.wanted_block(first)) ok = work.downward(first);
            pass->control->done.fetch_add(pass->t.begin[first + 1] - pass->t.begin[first],
                                          std::memory_order_relaxed);
            break;
        case vs::kIslandsDecide:
            work.decide(last != 0);
            break;
        case vs::kIslandsPieces:
            ok = work.pieces(first, last);
            break;
        case vs::kIslandsAround:
            work.around();
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
