// Islands of certainty (SMM11 section 3) in an order-free formulation.
//
// Round 0. Variables whose local factor has a mode >= zeta are islands. Between two of them lies
// a gap; each gap is swept by a forward and a backward pass that meet in its middle. In its first
// half a pass turns a variable into an island when psi * message reaches zeta; in its second half,
// where the other direction's message is known, when m' does (only if revisiting is allowed). The
// variable in the middle of a gap of odd length is decided when it has both messages; the two of an
// even one exchange theirs and are decided together: a chain answers like its reverse.
// Out of an island a message is one row (column) of the transition: O(K).
// Round r >= 1. All events are read off the m' of round r - 1 at once, then only the messages
// between a changed variable and the next unchanged island are computed again:
//   a segment without mass given its islands        -> its islands are released
//   an island whose m' has no value >= zeta         -> released
//   an island whose mode has moved                  -> takes the new value once, then released
//   a free variable, never released, with m' >= zeta -> island
// A variable can become an island, flip and be released once each: at most 3 n events, and every
// round but the last has one. What happens in a gap depends on the gap alone and rounds are
// synchronous, so neither threads nor the cutting into spans can show.
#pragma once

#include "chain/island_messages.h"

namespace VS_NS {

template <class D>
class Islands : public IslandMessages<D> {
  public:
    using Base = IslandMessages<D>;
    using Base::decide_late;
    using Base::zeta;
    using typename Base::Flag;
    using typename Base::In;
    using typename Base::T;
    using typename Base::Worker;

    using Base::actual;
    using Base::actuals;
    using Base::added_by_floors;
    using Base::b;
    using Base::become;
    using Base::begin;
    using Base::begin_backward;
    using Base::begin_forward;
    using Base::edge;
    using Base::event;
    using Base::f;
    using Base::flag;
    using Base::full;
    using Base::held;
    using Base::island;
    using Base::kBackward;
    using Base::kBecome;
    using Base::kContradiction;
    using Base::kDead;
    using Base::kFlip;
    using Base::kFlipped;
    using Base::kForward;
    using Base::kIsland;
    using Base::kLocal;
    using Base::kNone;
    using Base::kRelease;
    using Base::kReleased;
    using Base::kTogether;
    using Base::kToRelease;
    using Base::mass_of;
    using Base::n;
    using Base::out;
    using Base::own;
    using Base::own_b;
    using Base::own_f;
    using Base::plain;
    using Base::psi;
    using Base::pull_backward;
    using Base::pull_forward;
    using Base::scale_b;
    using Base::scale_f;
    using Base::shift;
    using Base::stale;
    using Base::widen;
    using typename Base::Pull;

    // Round 0 on positions [lo, hi): lo is the sequence's start or a local island, so is hi.
    // First the local factors, then the gaps between islands: they are appended to `gaps`
    // (space for (hi - lo + 1) / 2).
    void find_gaps(int64_t lo, int64_t hi, vs::Status* status, GapRun<D>* gaps, int64_t* n_gaps) {
        for (int64_t a = lo; a < hi;) {
            if (island(a)) {
                ++a;
                continue;
            }
            int64_t z = a + 1;
            while (z < hi && !island(z)) ++z;
            gaps[(*n_gaps)++] = GapRun<D>::whole(this, a, z, status);
            a = z;
        }
    }
    // Then the gaps are run (run_gaps), then the local islands. While other spans are under way
    // (`apart`), messages into hi from the left and into lo from the right are computed too, and
    // m' of lo > 0 is left to the caller.
    bool close_span(Worker& w, int64_t lo, int64_t hi, bool apart) {
        int64_t at[kTogether];
        int m = 0;
        for (int64_t i = lo; i < hi; ++i) {
            if (!(flag[i] & kLocal)) continue;
            // Messages out of a gap have been sent by its run.
            const bool whole = !apart || i > lo || i == 0;
            if (whole && (i == 0 || (flag[i - 1] & kLocal)) && !pull_forward(w, i)) return false;
            if ((i == n - 1 || (flag[i + 1] & kLocal)) && !pull_backward(w, i)) return false;
            if (!whole) continue;
            at[m++] = i;
            if (m == kTogether) {
                if (!actuals(w, at, m)) return false;
                m = 0;
            }
        }
        if (!actuals(w, at, m)) return false;
        return !apart || hi >= n || !(flag[hi - 1] & kLocal) || pull_forward(w, hi);
    }

    // Moves a gap on until it is done or needs a full message: +1 forward, -1 backward.
    int advance(Worker& w, GapRun<D>& r) {
        using G = GapRun<D>;
        const int64_t mid = r.middle(), back = r.middle_back();
        for (;;) {
            switch (r.phase) {
                case G::kFirstForward:
                    if (r.i == mid) {
                        enter_phase(r, G::kFirstBackward, r.z - 1);
                        break;
                    }
                    if (need_forward(w, r)) return 1;
                    if (w.status != vs::kOk || !decide_early(w, r, f[r.i])) return 0;
                    ++r.i;
                    break;
                case G::kFirstBackward:
                    if (r.i == back) {
                        enter_phase(r, G::kMiddleBackward, back);
                        break;
                    }
                    if (need_backward(w, r)) return -1;
                    if (w.status != vs::kOk || !decide_early(w, r, b[r.i])) return 0;
                    --r.i;
                    break;
                case G::kMiddleBackward:
                    if (need_backward(w, r)) return -1;
                    if (w.status != vs::kOk) return 0;
                    enter_phase(r, G::kMiddleForward, mid);
                    break;
                case G::kMiddleForward:
                    if (need_forward(w, r)) return 1;
                    if (w.status != vs::kOk || !meet_in_middle(w, r)) return 0;
                    enter_phase(r, G::kSecondForward, mid + 1);
                    break;
                case G::kSecondForward:
                    if (r.i == r.z) {
                        enter_phase(r, G::kSecondBackward, back - 1);
                        break;
                    }
                    if (need_forward(w, r)) return 1;
                    if (w.status != vs::kOk || !meet(w, r, kBackward)) return 0;
                    ++r.i;
                    break;
                case G::kSecondBackward:
                    if (r.i < r.a) {
                        enter_phase(r, G::kRenewStale, r.a);
                        break;
                    }
                    if (need_backward(w, r)) return -1;
                    if (w.status != vs::kOk || !meet(w, r, kForward)) return 0;
                    --r.i;
                    break;
                case G::kRenewStale:
                    if (r.again && !renew_stale(w, r.a, r.z)) return 0;
                    enter_phase(r, G::kLastForward, r.z);
                    break;
                case G::kLastForward:  // into the islands at both ends
                    if (r.z < n) {
                        if (need_forward(w, r)) return 1;
                        if (w.status != vs::kOk) return 0;
                    }
                    enter_phase(r, G::kLastBackward, r.a - 1);
                    break;
                case G::kLastBackward:
                    if (r.a > 0) {
                        if (need_backward(w, r)) return -1;
                        if (w.status != vs::kOk) return 0;
                    }
                    enter_phase(r, G::kDone, 0);
                    break;
                case G::kDone:
                    return 0;
            }
        }
    }
    // The two halves of a gap, run apart, agree on the middle before they meet.
    bool cross_middle(Worker& w, GapRun<D>& r) {
        return pull_backward(w, r.middle_back()) && pull_forward(w, r.middle()) &&
               meet_in_middle(w, r);
    }

    // Marks in `flag` the variables that change in this round; `limited`: contradictions only.
    // Appends them to `changed` in ascending order. False: the full model is infeasible (w.status).
    // Events are read from positions `at[0..count)`, ascending.
    bool decide(Worker& w, const int64_t* at, int64_t count, bool limited, vs::Counts& counts,
                int64_t* changed, int64_t* n_changed) {
        // Contradictions first: they are judged on the islands of the last round.
        int64_t handled = 0;
        for (int64_t q = 0; q < count; ++q) {
            const int64_t i = at[q];
            if (event[i] == kContradiction) {
                mark_for_release(i);
                if (!D::alive(f[i][held[i]])) mark_for_release(previous_island(i));
                if (!D::alive(b[i][held[i]])) mark_for_release(next_island(i));
            } else if (event[i] == kDead && island(i)) {
                mark_for_release(i);
            } else if (event[i] == kDead && i >= handled) {
                const int64_t p = previous_island(i), z = next_island(i);
                handled = z;
                if (p < 0 && z >= n) {
                    w.status = vs::kInfeasible;
                    return false;
                }
                mark_for_release(p);
                mark_for_release(z);
            }
        }
        // A leaves neighbour may carry no event of its own: collect them by walking outwards.
        int64_t m = 0;
        handled = 0;
        for (int64_t q = 0; q < count; ++q) {
            const int64_t i = at[q];
            if (event[i] == kDead && !island(i)) {
                if (i < handled) continue;
                handled = next_island(i);
            }
            if (event[i] == kContradiction || event[i] == kDead) {
                const int64_t p = previous_island(i), z = next_island(i);
                if (p >= 0 && (flag[p] & kToRelease)) m = insert(changed, m, p);
                if (flag[i] & kToRelease) m = insert(changed, m, i);
                if (z < n && (flag[z] & kToRelease)) m = insert(changed, m, z);
                continue;
            }
            if (event[i] == kNone || (flag[i] & kToRelease)) continue;
            if (limited) continue;
            m = insert(changed, m, i);
        }
        for (int64_t q = 0; q < m; ++q) {
            const int64_t i = changed[q];
            if ((flag[i] & kToRelease) || event[i] == kRelease ||
                (event[i] == kFlip && (flag[i] & kFlipped))) {
                flag[i] = static_cast<uint8_t>((flag[i] & ~(kIsland | kToRelease)) | kReleased);
                held[i] = -1;
                ++counts.released;
            } else if (event[i] == kFlip) {
                flag[i] |= kFlipped;
                held[i] = row_argmax(out + i * w.d.K, w.d.K);
                ++counts.flipped;
            } else {
                become(i, row_argmax(out + i * w.d.K, w.d.K));
            }
            event[i] = kNone;
            flag[i] |= kForward | kBackward;
        }
        *n_changed = m;
        return true;
    }

    // Messages that the changes of one round touch; appends the positions touched. The caller
    // cuts the list of changes where both neighbours are islands or an island lies between.
    bool redo(Worker& w, const int64_t* changed, int64_t m, int64_t* touched, int64_t* n_touched) {
        for (int64_t q = 0; q < m; ++q) {
            if (!redo_forward(w, changed[q], n, touched, n_touched)) return false;
        }
        for (int64_t q = m; q-- > 0;) {
            if (!redo_backward(w, changed[q], -1, touched, n_touched)) return false;
        }
        return true;
    }
    bool separable(int64_t x, int64_t y) const {  // changes x < y do not reach across each other
        if (island(x) && island(y)) return true;
        for (int64_t i = x + 1; i < y; ++i) {
            if (island(i)) return true;
        }
        return false;
    }
    bool refresh(Worker& w, const int64_t* touched, int64_t count) {
        if (!actuals(w, touched, count)) return false;
        for (int64_t q = 0; q < count; ++q) {
            stale[touched[q]].store(0, std::memory_order_relaxed);
        }
        return true;
    }
    void forget(const int64_t* changed, int64_t m) {  // the round is over
        for (int64_t q = 0; q < m; ++q) {
            flag[changed[q]] &= static_cast<uint8_t>(~(kForward | kBackward));
        }
    }

    // The part of a block of positions in log Z and in the counts. Blocks have a fixed size, so
    // that sums do not show who added them.
    struct Tally {
        double log_mass, added;
        int64_t islands, segments, unsettled;
    };
    static constexpr int64_t kTallied = 4096;
    int64_t n_tallies() const { return (n + kTallied - 1) / kTallied; }
    Tally tally(const D& d, int64_t block) const {
        Tally t{0.0, 0.0, 0, 0, 0};
        vs::Sum total;
        const int64_t last = (block + 1) * kTallied < n ? (block + 1) * kTallied : n;
        for (int64_t i = block * kTallied; i < last; ++i) {
            t.added += static_cast<double>(added_by_floors[i]);
            if (event[i] != kNone) t.unsettled = 1;
            if (island(i)) {
                ++t.islands;
                // A local island that never moved holds the mode of its local factor.
                const bool mode = (flag[i] & (kLocal | kFlipped)) == kLocal;
                total.add(
                    mode ? shift[i]
                         : static_cast<double>(d.in.score(begin + i, held[i], i == 0, i == n - 1)));
                if (i > 0 && island(i - 1)) {
                    total.add(
                        static_cast<double>(d.in.edge_score(edge + i - 1, held[i - 1], held[i])));
                }
                continue;
            }
            total.add(shift[i]);
            if (i > 0) total.add(d.edge_shift(edge + i - 1));
            if (i + 1 < n && island(i + 1)) total.add(d.edge_shift(edge + i));
            if (i == 0 || island(i - 1)) {
                ++t.segments;
                total.add(d.log_mass(mass_of[i]) + D::kUnit * (scale_f[i] + scale_b[i]));
            }
        }
        t.log_mass = total.total();
        return t;
    }
    // log mass of the configurations that agree with the islands; counts what is left. kWiden in
    // w.status when the floors may have added too much over the sequence.
    double finish(Worker& w, const Tally* parts, vs::Counts& counts) {
        vs::Sum total;
        double added = 0.0;
        for (int64_t p = 0; p < n_tallies(); ++p) {
            total.add(parts[p].log_mass);
            added += parts[p].added;
            counts.islands += parts[p].islands;
            counts.segments += parts[p].segments;
            counts.unsettled |= parts[p].unsettled;
        }
        if (!D::tight(added)) widen(w);
        return total.total();
    }

  private:
    bool need_forward(Worker& w, GapRun<D>& r) {
        if (r.waited) return r.waited = false;
        const Pull p = begin_forward(w, r.i, r.x, r.ready == r.i - 1, r.scale);
        r.y = own_f[r.i];
        r.edge = edge + r.i - 1;
        return r.waited = p == Pull::kFull;
    }
    bool need_backward(Worker& w, GapRun<D>& r) {
        if (r.waited) return r.waited = false;
        const Pull p = begin_backward(w, r.i, r.x, r.ready == r.i + 1, r.scale);
        r.y = own_b[r.i];
        r.edge = edge + r.i;
        return r.waited = p == Pull::kFull;
    }
    // An island when psi * message reaches zeta; the product serves the next message otherwise.
    bool decide_early(Worker& w, GapRun<D>& r, const T* message) {
        r.scale = 0.0;
        double largest;
        if (!w.d.absorb_share(psi(w, r.i), plain(r.i), message, r.x, &r.scale, &largest))
            return widen(w);
        r.ready = r.i;
        if (largest > 0.0 && largest >= zeta) become(r.i, row_argmax(r.x, w.d.K));
        return true;
    }
    // m' of the middle, and whether it is an island.
    bool meet_in_middle(Worker& w, GapRun<D>& r) {
        const int64_t right = r.middle(), left = r.middle_back();
        if (!actual(w, right) || (left != right && !actual(w, left))) return false;
        if (left == right) {
            if (event[left] == kBecome) take_value(w, left);
            return true;
        }
        if (!decide_late) return true;
        const bool holds_right = event[right] == kBecome, holds_left = event[left] == kBecome;
        if (holds_right) take_value(w, right);
        if (holds_left) take_value(w, left);
        // The other one goes on with its row; so its own m' has to be made again.
        if (holds_right && !pull_backward(w, left)) return false;
        if (holds_left && !pull_forward(w, right)) return false;
        if (holds_right) stale[left].store(1, std::memory_order_relaxed);
        if (holds_left) stale[right].store(1, std::memory_order_relaxed);
        r.again |= holds_right || holds_left;
        return true;
    }
    void take_value(Worker& w, int64_t i) {
        become(i, row_argmax(out + i * w.d.K, w.d.K));
        event[i] = kNone;
    }
    // m' of a variable whose second message has come.
    bool meet(Worker& w, GapRun<D>& r, Flag stale) {
        if (!actual(w, r.i)) return false;
        r.again |= late(w, r.i, stale);
        return true;
    }
    static void enter_phase(GapRun<D>& r, typename GapRun<D>::Phase next, int64_t i) {
        r.phase = r.phase == r.until ? GapRun<D>::kDone : next;
        r.i = i;
        // A product made before may be of another position or have lost its variable since.
        if (next != GapRun<D>::kMiddleBackward) r.ready = -1;
    }
    // A late decision leaves stale messages behind it, up to the next island.
    bool renew_stale(Worker& w, int64_t a, int64_t z) {
        int64_t ignored = 0;
        for (int64_t i = a; i < z; ++i) {
            if ((flag[i] & kForward) && !redo_forward(w, i, z, nullptr, &ignored)) return false;
        }
        for (int64_t i = z; i-- > a;) {
            if ((flag[i] & kBackward) && !redo_backward(w, i, a - 1, nullptr, &ignored)) {
                return false;
            }
        }
        for (int64_t i = a; i < z; ++i) {
            if (stale[i].load(std::memory_order_relaxed) && !actual(w, i)) return false;
            stale[i].store(0, std::memory_order_relaxed);
            flag[i] &= static_cast<uint8_t>(~(kForward | kBackward));
        }
        return true;
    }
    // An island found when its second message arrives: the first direction is stale beyond it.
    bool late(Worker& w, int64_t i, Flag stale) {
        if (!decide_late || event[i] != kBecome) return false;
        take_value(w, i);
        flag[i] |= stale;
        return true;
    }
    bool redo_forward(Worker& w, int64_t i, int64_t limit, int64_t* touched, int64_t* m) {
        for (int64_t j = i + 1; j < limit; ++j) {
            if (!pull_forward(w, j)) return false;
            touch(j, touched, m);
            if (island(j) || (flag[j] & kForward)) break;
        }
        return true;
    }
    bool redo_backward(Worker& w, int64_t i, int64_t limit, int64_t* touched, int64_t* m) {
        for (int64_t j = i - 1; j > limit; --j) {
            if (!pull_backward(w, j)) return false;
            touch(j, touched, m);
            if (island(j) || (flag[j] & kBackward)) break;
        }
        return true;
    }
    // Each touched position is refreshed once.
    void touch(int64_t j, int64_t* touched, int64_t* m) {
        if (stale[j].exchange(1, std::memory_order_relaxed)) return;
        if (touched) touched[(*m)++] = j;
    }
    int64_t previous_island(int64_t i) const {
        for (--i; i >= 0 && !island(i);) --i;
        return i;
    }
    int64_t next_island(int64_t i) const {
        for (++i; i < n && !island(i);) ++i;
        return i;
    }
    void mark_for_release(int64_t i) {
        if (i >= 0 && i < n) flag[i] |= kToRelease;
    }
    // Keeps `changed` ascending and without repeats; entries arrive nearly in order.
    static int64_t insert(int64_t* changed, int64_t m, int64_t i) {
        int64_t q = m;
        while (q > 0 && changed[q - 1] > i) --q;
        if (q > 0 && changed[q - 1] == i) return m;
        for (int64_t r = m; r > q; --r) changed[r] = changed[r - 1];
        changed[q] = i;
        return m + 1;
    }
};

}  // namespace VS_NS
