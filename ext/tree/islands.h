// Islands of certainty in a forest (SMM11 section 3), in the order-free formulation of
// chain/islands.h.
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
// The message of a free parent to a child may not always be found by taking the child's message
// out of the parent's belief, as in pass.h: m' of an island below also weighs the states that its
// value rules out. Unless nothing was small, the product is made again without it, every entry
// with an exponent and a count of zeros of its own (Total).
#pragma once

#include "tree/piece_pass.h"

namespace VS_NS {

template <class D>
class TreeIslands : public PiecePass<D> {
  public:
    using Passes = PiecePass<D>;
    using Rows = IslandRows<D>;
    using Passes::Passes;
    using typename Rows::Bench;
    using typename Rows::In;
    using typename Rows::T;

    // Local factors of a block; islands where they reach zeta. What touches no other block is
    // passed through at once, while its rows are in cache: those of the rest are kept.
    bool locals(int64_t b) {
        const int64_t begin = t_.begin[b], end = t_.begin[b + 1];
        T* const kept = alpha_;
        alpha_ = w_.scratch.template array<T>((end - begin) * Kp_);
        if (!alpha_) return fail();
        first_ = begin;
        typename D::Probe probe[Bench::kBatch];
        double sum[Bench::kBatch];
        for (int64_t lo = begin; lo < end; lo += Bench::kBatch) {
            const int m = static_cast<int>(std::min<int64_t>(Bench::kBatch, end - lo));
            if (!w_.ticker.go_on(m)) return false;
            for (int r = 0; r < m; ++r) {
                const int64_t q = lo + r;
                blank(q);
                if (q + kAhead < end) fetch(t_.node[q + kAhead]);
                w_.clear_pads(alpha(q));
                probe[r] = w_.d->probe(t_.node[q], false, false, alpha(q));
                sum[r] = w_.d->local(probe[r], alpha(q));
            }
            for (int r = 0; r < m; ++r) {
                const int64_t q = lo + r;
                s_.shift[q] = probe[r].shift();
                if (probe[r].plain) s_.flag[q] |= kPlain;
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
    bool first_pass(const int64_t* block_roots, int64_t first, int64_t last) {
        const vs::Scratch::Mark mark = w_.scratch.mark();
        PieceList list(w_.scratch);
        list.open();
        for (int64_t i = first; i < last; ++i) {
            if (!add_centres(block_roots[i], list)) return fail();
        }
        if (!spread(list)) return fail();
        const Pieces p = list.pieces();
        int64_t* late = w_.scratch.template array<int64_t>(p.n);
        int64_t* again = w_.scratch.template array<int64_t>(p.n);
        if (w_.scratch.failed) return fail();
        int64_t n_late = 0, n_again = 0;
        if (!pass_in(p) || !pass_out(p, s_.decides_late ? late : nullptr, &n_late)) return false;
        // Messages that went in through a variable that was decided on the way out are stale.
        for (int64_t k = 0; k < n_late; ++k) {
            const int64_t w = p.inward[late[k]];
            if (w < 0 || island(p.slot[w])) continue;
            const int64_t top = top_of(p.slot[w]);
            if (s_.flag[top] & kAgain) continue;
            s_.flag[top] |= kAgain;
            again[n_again++] = top;
        }
        for (int64_t k = 0; k < n_again; ++k) s_.flag[again[k]] &= static_cast<uint8_t>(~kAgain);
        Pieces stale;
        T* beliefs;
        if (n_again && !pass_again(again, n_again, &stale, &beliefs)) return false;
        for (int64_t k = 0; n_again && k < stale.n; ++k) {
            if (count_changed(stale.slot[k], -1) == 0) continue;
            std::memcpy(alpha(stale.slot[k]), beliefs + k * Kp_, sizeof(T) * Kp_);
        }
        if (!tell_islands(p, nullptr)) return false;
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
                mark_for_release(q);
                if (s_.event[q] == kContradiction) {
                    const int v = s_.held[q];
                    neighbours(q, [&](int64_t o) {
                        if (island(o) && !D::alive(message(q, o)[v])) mark_for_release(o);
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
                    mark_for_release(o);
                    any = true;
                });
            }
            if (!any) s_.tree_status[t_.tree[q]].store(vs::kInfeasible);
        }
        for (int64_t q = 0; q < t_.n; ++q) {
            const uint8_t e = s_.event[q];
            const bool leaves = s_.flag[q] & kToRelease;
            if (!leaves && (limited || e <= kContradiction)) continue;
            if (!alive_tree(q)) {
                s_.flag[q] &= static_cast<uint8_t>(~kToRelease);
                continue;
            }
            if (leaves || e == kRelease || (e == kFlip && (s_.flag[q] & kFlipped))) {
                s_.flag[q] =
                    static_cast<uint8_t>((s_.flag[q] & ~(kIsland | kToRelease)) | kReleased);
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
        ++s_.pass;
        // Rows out of changed islands; the pieces and islands beside a change.
        for (int64_t i = 0; i < s_.n_changed; ++i) {
            const int64_t v = s_.changed[i];
            if (!island(v)) {
                s_.fresh[v] = s_.pass;
                piece(top_of(v));
                continue;
            }
            announce(v);
            touch(v);
            neighbours(v, [&](int64_t o) { island(o) ? touch(o) : piece(top_of(o)); });
        }
        return true;
    }
    // Passes through pieces [first, last) of the list again.
    bool pieces(int64_t first, int64_t last) {
        Pieces p;
        T* rows;
        return pass_again(s_.pieces + first, last - first, &p, &rows) && tell_islands(p, rows);
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
    // Islands with a changed message from the pieces of this round.
    bool around() {
        const vs::Scratch::Mark mark = w_.scratch.mark();
        for (int64_t i = 0; i < s_.n_pieces; ++i) {
            Pieces p;
            w_.scratch.rewind(mark);
            if (!from_top(s_.pieces[i], &p)) return fail();
            for (int64_t k = 0; k < p.n; ++k) {
                neighbours(p.slot[k], [&](int64_t o) {
                    if (island(o) && has_changed(o, p.slot[k])) touch(o);
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
    // The part of log Z of a block.
    void tally(int64_t b) {
        Ledger sum;
        for (int64_t q = t_.begin[b]; q < t_.begin[b + 1]; ++q) {
            if (!w_.wanted(q)) continue;
            vs::Account& a = w_.account(b, q);
            const int64_t p = t_.parent[q];
            const bool doubted =
                s_.added[q] == kInDoubt || (s_.added[q] == kRowInDoubt && row_in_doubt(q));
            if (!doubted) {
                if (s_.added[q] > 0.0f) a.added += static_cast<double>(s_.added[q]);
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
    using Passes::add_centres;
    using Passes::from_top;
    using Passes::is_top;
    using Passes::pass_again;
    using Passes::pass_in;
    using Passes::pass_out;
    using Passes::spread;
    using Passes::tell_islands;
    using Passes::top_of;
    using Rows::actual;
    using Rows::alive_tree;
    using Rows::alpha;
    using Rows::alpha_;
    using Rows::announce;
    using Rows::blank;
    using Rows::count_changed;
    using Rows::fail;
    using Rows::fetch;
    using Rows::first_;
    using Rows::has_changed;
    using Rows::hold;
    using Rows::island;
    using Rows::kAgain;
    using Rows::kAhead;
    using Rows::kContradiction;
    using Rows::kFlip;
    using Rows::kFlipped;
    using Rows::kInDoubt;
    using Rows::kIsland;
    using Rows::kLocal;
    using Rows::kNone;
    using Rows::Kp_;
    using Rows::kPlain;
    using Rows::kRelease;
    using Rows::kReleased;
    using Rows::kRowInDoubt;
    using Rows::kSoon;
    using Rows::kToRelease;
    using Rows::local;
    using Rows::mark_for_release;
    using Rows::message;
    using Rows::neighbours;
    using Rows::output;
    using Rows::renew;
    using Rows::row_in_doubt;
    using Rows::s_;
    using Rows::t_;
    using Rows::tell;
    using Rows::w_;
    using Rows::widen;

    // Passes through all of a block that touches no other block.
    bool inside(int64_t begin, int64_t end) {
        for (int64_t q = begin; q < end; ++q) {
            if (island(q) && alive_tree(q)) tell(q);
        }
        // Does a free variable of the piece have a neighbour elsewhere? Children come after
        // parents.
        uint8_t* leaves = w_.scratch.template array<uint8_t>(end - begin);
        int64_t* block_roots = w_.scratch.template array<int64_t>(end - begin);
        if (w_.scratch.failed) return fail();
        for (int64_t q = end; q-- > begin;) {
            const int64_t p = t_.parent[q];
            bool any =
                t_.children_elsewhere[q] || (p >= 0 && p < begin) || p >= end || !alive_tree(q);
            for (int64_t c = t_.children[q]; c < t_.children_end[q]; ++c) {
                any = any || (!island(c) && leaves[c - begin]);
            }
            leaves[q - begin] = any;
        }
        int64_t n = 0;
        for (int64_t q = begin; q < end; ++q) {
            if (island(q)) continue;
            if (is_top_inside(q, begin)) {
                if (!leaves[q - begin]) block_roots[n++] = q;
            } else {
                leaves[q - begin] = leaves[t_.parent[q] - begin];
            }
            if (!leaves[q - begin]) s_.stamp[q] = kInside;
        }
        for (int64_t i = 0; i < n; i += kTogether) {
            if (!first_pass(block_roots, i, std::min(i + kTogether, n))) return false;
        }
        int64_t local = 0;
        for (int64_t q = begin; q < end; ++q) {
            if (!island(q)) continue;
            bool known = !t_.children_elsewhere[q] && !(t_.parent[q] >= 0 && t_.parent[q] < begin);
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

    static constexpr int64_t kTogether = 64;  // pieces
    static constexpr uint32_t kInside = 1;    // stamp: done with its block
};

template <class D>
void tree_islands(vs::TreePass* pass, int step, int64_t first, int64_t last, int worker) {
    TreeBench<D> bench(pass, worker);
    TreeIslands<D> work(bench, worker);
    if (!bench.ok) pass->control->stop.store(2);
    if (!bench.ticker.begin_task()) return;
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
    (void)ok;  // `control` knows of a failure
}

}  // namespace VS_NS
