// The rounds of a call with islands: steps on blocks of slots or on parts of a list, each of which
// sees all that the one before has done.
#pragma once

#include "islands/passes.h"

namespace vs {

enum IslandStep : int {
    kIslandsLocals,
    kIslandsRows,
    kIslandsFirst,
    kIslandsAll,
    kIslandsPieces,
    kIslandsRefresh,
    kIslandsTally
};

template <class Topology>
class Islands : public IslandPasses<Topology> {
  public:
    using Base = IslandPasses<Topology>;
    using Base::Base;

    bool begin_task() { return self_ && ticker_.begin_task(); }
    void step(int step, int64_t first, int64_t last) {
        if (!self_) return;
        switch (step) {
            case kIslandsLocals:
                locals(first);
                break;
            case kIslandsRows:
                rows(first);
                break;
            case kIslandsFirst:
                first_pass(s_.pieces, first, last, false);
                break;
            case kIslandsAll:
                all_islands(first, last);
                break;
            case kIslandsPieces:
                pieces(first, last);
                break;
            case kIslandsRefresh:
                refresh(first, last);
                break;
            case kIslandsTally:
                v_.tally(self_, first);
                break;
        }
    }

    // The list of the pieces that are left, each by the one of its variables that is nearest to the
    // root.
    void find() {
        s_.n_pieces = 0;
        for (int64_t q = 0; q < s_.n; ++q) {
            if (is_top(q) && !inside(q) && alive(q)) s_.pieces[s_.n_pieces++] = q;
        }
    }
    // Reads all events; makes the list of changes and of the pieces and islands they touch.
    // `limited`: contradictions only. False: no memory.
    bool decide(bool limited) {
        const Scratch::Mark mark = scratch_.mark();
        ++s_.round;
        // Contradictions first: they are judged on the islands of the last round.
        for (int64_t q = s_.next_event(0); q < s_.n; q = s_.next_event(q + 1)) {
            const int e = s_.event[q] & ~kMarked;
            if (e == kNone || e > kContradiction || !alive(q)) continue;
            s_.contradict(t_.tree[q]);
            if (!alive(q)) continue;
            if (island(q)) {
                s_.event[q] |= kMarked;
                if (e == kDead) continue;
                neighbours(q, [&](int64_t o) {
                    if (island(o) && v_.forbids(self_, q, o)) s_.event[o] |= kMarked;
                });
            } else if (!listed(q)) {
                scratch_.rewind(mark);
                if (!release_around(q)) return fail();
            }
        }
        const int64_t this_round = s_.counts.rounds + 1;
        s_.n_changed = s_.n_pieces = 0;
        s_.n_touched.store(0);
        for (int64_t q = s_.next_event(0); q < s_.n; q = s_.next_event(q + 1)) {
            const bool leaves = s_.event[q] & kMarked;
            if (!leaves && (limited || s_.event[q] <= kContradiction)) continue;
            if (!alive(q)) {
                s_.event[q] &= ~kMarked;
                continue;
            }
            Counts& count = (s_.of_tree ? s_.of_tree : s_.events)[t_.tree[q]];
            count.rounds = this_round;
            s_.take_event(q, count, [&] { return v_.mode(self_, q, nullptr); });
            s_.changed[s_.n_changed++] = q;
        }
        scratch_.rewind(mark);
        if (s_.n_changed == 0) return true;
        s_.counts.rounds = this_round;
        ++s_.round;
        ++s_.pass;
        // Rows out of changed islands; the pieces and islands beside a change.
        for (int64_t i = 0; i < s_.n_changed; ++i) {
            const int64_t q = s_.changed[i];
            if (!island(q)) {
                s_.fresh[q] = s_.pass;
                add_piece(q);
                continue;
            }
            if (!announce(q)) return false;
            touch(q);
            neighbours(q, [&](int64_t o) { island(o) ? touch(o) : add_piece(o); });
        }
        return true;
    }

  private:
    using Base::actuals;
    using Base::alive;
    using Base::announce;
    using Base::call_;
    using Base::count_changed;
    using Base::fail;
    using Base::from_roots;
    using Base::is_top;
    using Base::island;
    using Base::kMost;
    using Base::neighbours;
    using Base::pass_again;
    using Base::pass_in;
    using Base::pass_out;
    using Base::request;
    using Base::s_;
    using Base::scratch_;
    using Base::self_;
    using Base::spread;
    using Base::t_;
    using Base::take_rows;
    using Base::tell;
    using Base::tell_islands;
    using Base::ticker_;
    using Base::top_of;
    using Base::touch;
    using Base::v_;

    // Local factors of a block; islands where they reach zeta. A piece that touches no other block
    // is passed through at once, while its rows are in cache.
    bool locals(int64_t b) {
        const int64_t begin = t_.begin(b), end = t_.begin(b + 1);
        char* rows = static_cast<char*>(scratch_.take((end - begin) * call_.row_bytes));
        if (!rows) return fail();
        s_.blank(begin, end);
        double sum[kMost];
        int mode[kMost];
        for (int64_t lo = begin, by = 0; lo < end; lo += by) {
            int m = 0;  // trees that are over have no use for theirs
            while (m < kMost && lo + m < end && alive(lo + m)) ++m;
            by = std::max(m, 1);
            if (m == 0) continue;
            if (!ticker_.go_on(m)) return false;
            char* at = rows + (lo - begin) * call_.row_bytes;
            v_.locals(self_, lo, m, at, sum);
            v_.local_modes(self_, call_.zeta, m, at, sum, mode);
            for (int r = 0; r < m; ++r) {
                const int64_t q = lo + r;
                if (!(sum[r] > 0.0)) {
                    int32_t ok = kOk;
                    s_.status[t_.tree[q]].compare_exchange_strong(ok, kInfeasible);
                } else if (mode[r] >= 0) {
                    s_.hold(q, mode[r]);
                    s_.flag[q] |= kLocal;
                }
            }
        }
        if (call_.choose && end - begin == s_.n) {
            call_.choose(call_.of, s_);
            v_.whole(self_, rows);
        }
        v_.locals_at(self_, begin, end, rows);
        // Rows of tables that are copied need all blocks to be blank.
        if (v_.copies_rows(self_) && end - begin < s_.n) return true;
        return pass_inside(begin, end);
    }
    // Passes through all of a block that touches no other block.
    bool pass_inside(int64_t begin, int64_t end) {
        int64_t* list = scratch_.template array<int64_t>(end - begin);
        if (!list) return fail();
        // Lists without branches: where islands lie is hard to predict. First this one: a tree that
        // another worker finds to need more ends the rest of the block.
        int64_t n = 0;
        for (int64_t q = begin; q < end; ++q) {
            list[n] = q;
            n += int{island(q)} & int{alive(q)};
        }
        for (int64_t i = 0; i < n; ++i) {
            if (!tell(list[i])) return false;
        }
        const bool all = end - begin == s_.n;
        n = 0;
        if (all) {
            for (int64_t q = begin; q < end; ++q) {
                list[n] = q;
                n += int{is_top(q)} & int{alive(q)};
            }
        } else if (!find_inside(begin, end, list, &n)) {
            return fail();
        }
        for (int64_t i = 0; i < n; i += kTogether) {
            if (!first_pass(list, i, std::min(i + kTogether, n), true)) return false;
        }
        if (all) return all_islands(begin, end);
        return actuals_of(begin, end, [&](int64_t q) {
            if (t_.leaves(q, begin, end)) return false;
            bool known = true;
            neighbours(q, [&](int64_t o) { known = known && (island(o) || inside(o)); });
            if (known) s_.stamp[q].store(kInside, std::memory_order_relaxed);
            return known;
        });
    }
    // The pieces of a block that touch no other block. Children come after parents.
    bool find_inside(int64_t begin, int64_t end, int64_t* roots, int64_t* n) {
        uint8_t* leaves = scratch_.template array<uint8_t>(end - begin);
        if (!leaves) return false;
        for (int64_t q = end; q-- > begin;) {
            bool any = t_.leaves(q, begin, end) || !alive(q);
            if (!any) {
                t_.children(q, [&](int64_t c) { any |= !island(c) && leaves[c - begin]; });
            }
            leaves[q - begin] = any;
        }
        for (int64_t q = begin; q < end; ++q) {
            if (island(q)) continue;
            const int64_t p = t_.parent(q);
            if (p >= begin && !island(p)) {
                leaves[q - begin] = leaves[p - begin];
            } else if (!leaves[q - begin]) {
                roots[(*n)++] = q;
            }
            if (!leaves[q - begin]) s_.stamp[q].store(kInside, std::memory_order_relaxed);
        }
        return true;
    }
    // Messages out of the islands of a block, when all blocks know theirs: where they are copies.
    bool rows(int64_t b) {
        if (!v_.copies_rows(self_)) return true;
        for (int64_t q = t_.begin(b); q < t_.begin(b + 1); ++q) {
            if (island(q) && !inside(q) && alive(q) && !tell(q)) return false;
        }
        return true;
    }
    // Passes through pieces [first, last) of a list for the first time.
    bool first_pass(const int64_t* roots, int64_t first, int64_t last, bool stored) {
        const Scratch::Mark mark = scratch_.mark();
        PieceList list(scratch_);
        list.open();
        for (int64_t i = first; i < last; ++i) {
            if (!t_.add_centres(s_, roots[i], list, scratch_)) return fail();
        }
        if (!spread(list)) return fail();
        const Pieces p = list.pieces();
        int64_t* late = scratch_.template array<int64_t>(p.n);
        int64_t* again = scratch_.template array<int64_t>(p.n);
        if (scratch_.failed || !take_rows(p, stored)) return fail();
        int64_t n_late = 0, n_again = 0;
        if (!pass_in(p) || !pass_out(p, s_.decides_late ? late : nullptr, &n_late)) return false;
        // Messages that went in through a variable that was decided on the way out are stale.
        for (int64_t k = 0; k < n_late; ++k) {
            int64_t w = p.slot[p.inward[late[k]]];
            if (island(w) || (s_.flag[w] & kAgain)) continue;
            for (s_.flag[w] |= kAgain; !is_top(w) && !(s_.flag[t_.parent(w)] & kAgain);) {
                w = t_.parent(w);
                s_.flag[w] |= kAgain;
            }
            if (is_top(w)) again[n_again++] = w;
        }
        for (int64_t k = 0; k < p.n && n_again; ++k)
            s_.flag[p.slot[k]] &= static_cast<uint8_t>(~kAgain);
        Pieces stale;
        if (n_again && !pass_again(again, n_again, &stale)) return false;
        if (!tell_islands(p, false)) return false;
        call_.control->done.fetch_add(p.n, std::memory_order_relaxed);
        scratch_.rewind(mark);
        return true;
    }
    // m' of the islands among slots [first, last) that have none.
    bool all_islands(int64_t first, int64_t last) {
        return actuals_of(first, last, [&](int64_t q) { return !inside(q); });
    }
    template <class F>
    bool actuals_of(int64_t first, int64_t last, F wanted) {
        RowRequest list[kMost];
        int64_t at[kTogether], local = 0;
        for (int64_t lo = first; lo < last; lo += kTogether) {
            int n = 0;
            for (int64_t q = lo; q < std::min(lo + kTogether, last); ++q) {
                at[n] = q;
                n += int{island(q)} & int{alive(q)};
            }
            int m = 0;
            for (int i = 0; i < n; ++i) {
                if (!wanted(at[i])) continue;
                local += (s_.flag[at[i]] & kLocal) != 0;
                list[m++] = request(at[i], -1);
                if (m < kMost) continue;
                actuals(list, m);
                m = 0;
            }
            actuals(list, m);
            if (!ticker_.go_on(n)) return false;
        }
        call_.control->done.fetch_add(local, std::memory_order_relaxed);
        return true;
    }
    // Passes through pieces [first, last) of the list again.
    bool pieces(int64_t first, int64_t last) {
        const Scratch::Mark mark = scratch_.mark();
        Pieces p;
        const bool ok = pass_again(s_.pieces + first, last - first, &p) && tell_islands(p, true);
        scratch_.rewind(mark);
        return ok;
    }
    // m' of touched islands [first, last).
    bool refresh(int64_t first, int64_t last) {
        RowRequest list[kMost];
        for (int64_t i = first; i < last; i += kMost) {
            const int m = static_cast<int>(std::min<int64_t>(kMost, last - i));
            if (!ticker_.go_on(m)) return false;
            for (int r = 0; r < m; ++r) list[r] = request(s_.touched[i + r], -1);
            actuals(list, m);
        }
        return true;
    }
    // Marks the islands around the piece of q, which has no mass given them.
    bool release_around(int64_t q) {
        const int64_t top = top_of(q);
        bool any = false;
        Pieces p;
        if (!from_roots(&top, 1, &p)) return false;
        for (int64_t k = 0; k < p.n; ++k) {
            s_.stamp[p.slot[k]].store(s_.round, std::memory_order_relaxed);
            neighbours(p.slot[k], [&](int64_t o) {
                if (!island(o)) return;
                s_.event[o] |= kMarked;
                any = true;
            });
        }
        if (!any) s_.status[t_.tree[q]].store(kInfeasible);
        return true;
    }
    bool inside(int64_t q) const { return s_.stamp[q].load(std::memory_order_relaxed) == kInside; }
    bool listed(int64_t q) const { return s_.stamp[q].load(std::memory_order_relaxed) == s_.round; }
    // Lists the piece of a free variable by its top. Variables on the way are marked, so that the
    // piece of many that have changed is walked up once.
    void add_piece(int64_t q) {
        for (; !listed(q); q = t_.parent(q)) {
            s_.stamp[q].store(s_.round, std::memory_order_relaxed);
            if (!is_top(q)) continue;
            s_.pieces[s_.n_pieces++] = q;
            return;
        }
    }

    static constexpr int64_t kTogether = 64;  // pieces
    static constexpr uint32_t kInside = 1;    // stamp: done with its block
};

// Adds what is left to `counts`, and the messages of trees that came to their end: how far others
// got before they were left to a wider arithmetic depends on the workers.
template <class Topology>
void count_islands(const Topology& t, const IslandState& s, Counts& counts) {
    for (int64_t q = 0; q < s.n; ++q) {
        if (s.status[t.tree[q]].load(std::memory_order_relaxed) != kOk) continue;
        if (s.event[q] != kNone) counts.unsettled = 1;
        const int64_t p = t.parent(q);
        counts.islands += s.island(q);
        counts.segments += !s.island(q) && (p < 0 || s.island(p));
        if (s.of_tree || p >= 0) continue;
        counts.full += s.full[t.tree[q]].load();
        counts.sparse += s.sparse[t.tree[q]].load();
        const Counts& own = s.events[t.tree[q]];
        counts.released += own.released;
        counts.flipped += own.flipped;
        counts.rounds = std::max(counts.rounds, own.rounds);
    }
}

// All rounds. run(step, count, part): a step on parts of `count` things; false: the call was
// stopped. `whole`: what is done by one worker.
template <class Topology, class Run>
void island_rounds(IslandCall<Topology>& call, Islands<Topology>& whole, int64_t revisit, Run run) {
    IslandState& s = *call.state;
    s.decides_late = revisit != 0;
    const int64_t blocks = call.t.n_blocks();
    if (!run(kIslandsLocals, blocks, 1)) return;
    if (blocks > 1) {
        if (!run(kIslandsRows, blocks, 1)) return;
        whole.find();
        if (!run(kIslandsFirst, s.n_pieces, 32) || !run(kIslandsAll, s.n, 512)) return;
    }
    for (;;) {
        const bool limited = revisit >= 0 && s.counts.rounds >= revisit;
        if (!whole.decide(limited)) return;
        if (s.n_changed == 0) break;
        if (!run(kIslandsPieces, s.n_pieces, 8) || !run(kIslandsRefresh, s.n_touched.load(), 256)) {
            return;
        }
    }
    run(kIslandsTally, call.n_tallies, 1);
}

}  // namespace vs
