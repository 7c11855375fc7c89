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

#include "kernels/domain.h"
#include "kernels/scratch.h"
#include "kernels/ticker.h"

namespace VS_NS {

// The buffers of one thread.
template <class D>
struct IslandWorker {
    using T = typename D::T;
    static constexpr int kSlots = 2 * kMaxRows;  // gaps advanced together
    static constexpr int kRows = 2 + kSlots;     // buffers of Kp
    D& d;
    Ticker& t;
    vs::Scratch& keep;             // rows of messages, until the sequence is done
    vs::Scratch* temporary;        // until the piece of work is done
    T* psi;                        // (Kp,)
    T* product;                    // (Kp,)
    T* slots;                      // (kSlots, Kp)
    int64_t full = 0, sparse = 0;  // messages, of chains that several threads share
    vs::Status status = vs::kOk;
};

template <class D>
class Islands;

// A gap [a, z) between local islands under way: where its two passes are. A pass stops when it
// needs a full message, so that the messages of several gaps are computed together.
template <class D>
struct GapRun {
    enum Phase : uint8_t {
        kFirstForward,
        kFirstBackward,
        kMiddleBackward,
        kMiddleForward,
        kSecondForward,
        kSecondBackward,
        kRenewStale,
        kLastForward,
        kLastBackward,
        kDone
    };
    Islands<D>* chain;
    int64_t a, z, i;
    vs::Status* status;  // of the sequence: other gaps of it stop too
    typename D::T* x;    // (Kp,) outgoing product of position `ready`, scaled
    int64_t ready;
    double scale;      // what scaling x took out
    typename D::T* y;  // where the pending message goes
    int64_t edge;
    Phase phase, until;  // now; the last one to run
    bool waited;         // the message into i has arrived
    bool again;          // something was decided late

    // Where the forward pass crosses the middle, and where the backward pass does: the same
    // position when the length is odd.
    int64_t middle() const { return a + (z - a) / 2; }
    int64_t middle_back() const { return z - (z - a) / 2 - 1; }
    // The gap, or only some phases of it.
    static GapRun part(Islands<D>* chain, int64_t a, int64_t z, int64_t i, Phase phase, Phase until,
                       vs::Status* status) {
        return {chain, a, z, i, status, nullptr, -1, 0.0, nullptr, 0, phase, until, false, false};
    }
    static GapRun whole(Islands<D>* chain, int64_t a, int64_t z, vs::Status* status) {
        return part(chain, a, z, a, kFirstForward, kLastBackward, status);
    }
};

template <class D>
class Islands {
  public:
    using T = typename D::T;
    using In = typename D::In;
    using Worker = IslandWorker<D>;

    enum Flag : uint8_t {
        kIsland = 1,
        kReleased = 2,
        kFlipped = 4,
        kForward = 8,     // changed: messages to the right must be computed again
        kBackward = 16,   // ... to the left
        kPlain = 32,      // the local factor forbids nothing (see Linear::Probe)
        kToRelease = 64,  // to be released in this round
        kLocal = 128,     // an island by its local factor
    };
    enum Event : uint8_t { kNone, kDead, kContradiction, kRelease, kFlip, kBecome };

    int64_t begin, n, edge;
    In* out;
    int32_t* held;
    double zeta;
    bool decide_late;  // revisiting is allowed
    uint8_t *flag, *event;
    std::atomic<uint8_t>* stale;  // m' must be computed again; the only bytes two threads may set
    const T **f, **b;             // message into i from the left, from the right
    T **own_f, **own_b;           // rows allocated for them
    double *scale_f, *scale_b, *mass_of, *shift;
    float*
        added_by_floors;  // what floors may have added at each position, relative to the mass there
    T* ones;
    T** psi_at;           // (n,) stored local factors, null where they are computed again
    bool shared = false;  // several threads at work: they count messages themselves
    int64_t full = 0, sparse = 0;

    bool init(D& d, const vs::Chains& c, int64_t sequence, In* marginals, int32_t* islands,
              double threshold, bool late, bool keep_psi, vs::Scratch& s) {
        begin = c.offset[sequence];
        n = c.offset[sequence + 1] - begin;
        edge = c.edge[sequence];
        out = marginals + begin * d.K;
        held = islands + begin;
        zeta = threshold;
        decide_late = late;
        flag = s.array<uint8_t>(2 * n);
        stale = s.array<std::atomic<uint8_t>>(n);
        f = s.array<const T*>(2 * n);
        own_f = s.array<T*>(2 * n);
        scale_f = s.array<double>(4 * n);
        added_by_floors = s.array<float>(n);
        ones = s.array<T>(d.Kp);
        psi_at = s.array<T*>(n);
        T* rows = keep_psi ? s.array<T>(n * d.Kp) : nullptr;
        if (s.failed) return false;
        event = flag + n;
        b = f + n;
        own_b = own_f + n;
        scale_b = scale_f + n;
        mass_of = scale_f + 2 * n;
        shift = scale_f + 3 * n;
        if (keep_psi) store_psi(0, n, rows, d.Kp);
        d.clear(ones);
        d.ones(ones);
        return true;
    }
    // To be called for all positions before anything else.
    void blank(int64_t lo, int64_t hi) {
        for (int64_t i = lo; i < hi; ++i) {
            flag[i] = event[i] = 0;
            stale[i].store(0, std::memory_order_relaxed);
            held[i] = -1;
            own_f[i] = own_b[i] = nullptr;
            if (shared) psi_at[i] = nullptr;
        }
    }

    bool island(int64_t i) const { return flag[i] & kIsland; }
    bool plain(int64_t i) const { return flag[i] & kPlain; }

    // Where local factors of [lo, hi) are kept: rows of Kp, or null for nowhere.
    void store_psi(int64_t lo, int64_t hi, T* rows, int stride) {
        for (int64_t i = lo; i < hi; ++i) psi_at[i] = rows ? rows + (i - lo) * stride : nullptr;
    }

    const T* psi(Worker& w, int64_t i) {
        if (psi_at[i]) return psi_at[i];
        w.d.local(w.d.probe(begin + i, i == 0, i == n - 1, w.psi), w.psi);
        return w.psi;
    }

    // The local factors of [lo, hi); an island where the mode reaches zeta. A few at a time, sweep
    // by sweep: decisions are hard to predict, and sums take long to arrive.
    bool locals(Worker& w, int64_t lo, int64_t hi) {
        D& d = w.d;
        typename D::Probe probe[kTogether];
        T* p[kTogether];
        double sum[kTogether];
        for (int64_t i0 = lo; i0 < hi; i0 += kTogether) {
            const int m = static_cast<int>(hi - i0 < kTogether ? hi - i0 : kTogether);
            for (int r = 0; r < m; ++r) {
                const int64_t i = i0 + r;
                p[r] = psi_at[i] ? psi_at[i] : w.slots + r * d.Kp;
                probe[r] = d.probe(begin + i, i == 0, i == n - 1, p[r]);
            }
            for (int r = 0; r < m; ++r) {
                // Also beyond the sequence: the next one usually follows in memory.
                d.prefetch(begin + i0 + r + kAhead);
                row_prefetch_write(out + (i0 + r) * d.K, d.K);
                sum[r] = d.local(probe[r], p[r]);
            }
            for (int r = 0; r < m; ++r) {
                const int64_t i = i0 + r;
                shift[i] = probe[r].shift();
                if (!(sum[r] > 0.0)) {
                    w.status = vs::kInfeasible;
                    return false;
                }
                // An island at a cut is known already, and another thread may be reading it.
                if (island(i)) continue;
                if (probe[r].plain) flag[i] |= kPlain;
                if (1.0 >= zeta * sum[r]) {
                    become(i, row_find(p[r], d.K, D::one()));
                    flag[i] |= kLocal;
                }
            }
        }
        return true;
    }

    // f[i]: the message from i - 1, at once when that is an island or there is none. Otherwise
    // what the full message needs is prepared: its product in x (already there when `ready`).
    enum class Pull { kThere, kFull, kFailed };
    Pull begin_forward(Worker& w, int64_t i, T* x, bool ready, double scale) {
        D& d = w.d;
        if (i == 0) {
            f[0] = ones;
            scale_f[0] = 0.0;
            ++(shared ? w.sparse : sparse);
            return Pull::kThere;
        }
        const bool row = island(i - 1);
        if ((!row || d.copies_rows()) && !own(w, &own_f[i])) return Pull::kFailed;
        if (row) {
            f[i] = d.row_message(edge + i - 1, held[i - 1], own_f[i]);
            scale_f[i] = 0.0;
            ++(shared ? w.sparse : sparse);
            return Pull::kThere;
        }
        if (!ready) {
            scale = 0.0;
            if (!d.absorb(psi(w, i - 1), plain(i - 1), f[i - 1], true, x, &scale)) {
                widen(w);
                return Pull::kFailed;
            }
        }
        scale_f[i] = scale_f[i - 1] + scale;
        f[i] = own_f[i];
        ++(shared ? w.full : full);
        return Pull::kFull;
    }
    // b[i]: the message from i + 1, likewise.
    Pull begin_backward(Worker& w, int64_t i, T* x, bool ready, double scale) {
        D& d = w.d;
        if (i == n - 1) {
            b[i] = ones;
            scale_b[i] = 0.0;
            ++(shared ? w.sparse : sparse);
            return Pull::kThere;
        }
        const bool row = island(i + 1);
        if ((!row || d.copies_rows()) && !own(w, &own_b[i])) return Pull::kFailed;
        if (row) {
            b[i] = d.column_message(edge + i, held[i + 1], own_b[i]);
            scale_b[i] = 0.0;
            ++(shared ? w.sparse : sparse);
            return Pull::kThere;
        }
        if (!ready) {
            scale = 0.0;
            if (!d.absorb(psi(w, i + 1), plain(i + 1), b[i + 1], true, x, &scale)) {
                widen(w);
                return Pull::kFailed;
            }
        }
        scale_b[i] = scale_b[i + 1] + scale;
        b[i] = own_b[i];
        ++(shared ? w.full : full);
        return Pull::kFull;
    }
    bool pull_forward(Worker& w, int64_t i) {
        const Pull p = begin_forward(w, i, w.product, false, 0.0);
        if (p != Pull::kFull) return p == Pull::kThere;
        const int64_t e = edge + i - 1;
        const T* x = w.product;
        double unused = 0.0;
        w.d.forward(&e, 1, &x, &own_f[i], &unused);
        return w.t.go_on() || cancel(w);
    }
    bool pull_backward(Worker& w, int64_t i) {
        const Pull p = begin_backward(w, i, w.product, false, 0.0);
        if (p != Pull::kFull) return p == Pull::kThere;
        const int64_t e = edge + i;
        const T* x = w.product;
        w.d.backward(&e, 1, &x, &own_b[i]);
        return w.t.go_on() || cancel(w);
    }

    // m'_i from both messages; notes the event that it calls for.
    bool actual(Worker& w, int64_t i) {
        Pending m;
        multiply(w, i, w.d.row, m);
        return conclude(w, m, w.d.row);
    }
    // The same for a list of positions, when no gap is under way.
    bool actuals(Worker& w, const int64_t* at, int64_t count) {
        Pending m[kTogether];
        for (int64_t q0 = 0; q0 < count; q0 += kTogether) {
            const int c = static_cast<int>(count - q0 < kTogether ? count - q0 : kTogether);
            for (int r = 0; r < c; ++r) multiply(w, at[q0 + r], w.slots + r * w.d.Kp, m[r]);
            for (int r = 0; r < c; ++r) {
                if (!conclude(w, m[r], w.slots + r * w.d.Kp)) return false;
            }
        }
        return true;
    }

    // Round 0 on positions [lo, hi): lo is the sequence's start or a local island, so is hi.
    // First the local factors, then the gaps between islands: they are appended to `gaps`
    // (workspace for (hi - lo + 1) / 2).
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
        Sum total;
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
        Sum total;
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
    static constexpr int64_t kAhead = 4;  // rows between a prefetch and its use
    static constexpr int kTogether = 4;   // rows in flight

    // A marginal between its product and its division.
    struct Pending {
        int64_t i;
        Product<T> product;
        vs::Status massive;
        bool alone;  // the island's own probability is enough: above one half it is the mode
    };
    VS_INLINE void multiply(Worker& w, int64_t i, T* product, Pending& m) {
        const D& d = w.d;
        const T* local = psi(w, i);
        m.i = i;
        m.alone = zeta > 0.5 && island(i);
        m.product = m.alone ? d.template product3<false>(local, plain(i), f[i], b[i], product)
                            : d.template product3<true>(local, plain(i), f[i], b[i], product);
        m.massive = d.massive(m.product, local, f[i], b[i]);
    }
    VS_INLINE bool conclude(Worker& w, const Pending& m, const T* product) {
        const D& d = w.d;
        const int64_t i = m.i;
        In* p = out + i * d.K;
        double mass = 0.0, added = 0.0;
        event[i] = kNone;
        vs::Status s = m.massive;
        if (s == vs::kOk) s = d.divide(m.product, product, p, &mass, &added);
        if (s == vs::kWiden) return widen(w);
        if (s == vs::kInfeasible) {
            event[i] = kDead;
            return true;
        }
        mass_of[i] = mass;
        added_by_floors[i] = static_cast<float>(added);
        if (!island(i)) {
            if (D::peak(m.product) >= zeta && !(flag[i] & kReleased)) event[i] = kBecome;
            return true;
        }
        const int v = held[i];
        const double pv = static_cast<double>(p[v]);
        if (pv >= zeta && (m.alone || pv >= D::peak(m.product))) return true;
        if (!D::alive(f[i][v]) || !D::alive(b[i][v])) {
            event[i] = kContradiction;
        } else {
            event[i] = static_cast<double>(row_max(p, d.K)) >= zeta ? kFlip : kRelease;
        }
        return true;
    }

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
    void become(int64_t i, int v) {
        flag[i] |= kIsland;
        held[i] = v;
    }
    bool own(Worker& w, T** row) {
        if (*row) return true;
        *row = w.keep.template array<T>(w.d.Kp);
        if (*row == nullptr) {
            w.status = vs::kNoMemory;
            return false;
        }
        w.d.clear(*row);
        return true;
    }
    bool widen(Worker& w) {
        w.status = vs::kWiden;
        return false;
    }
    bool cancel(Worker& w) {
        w.status = vs::kCancelled;
        return false;
    }
};

// Runs gaps, several at a time; a failure stops the gaps of its sequence. False: cancelled.
template <class D>
bool run_gaps(IslandWorker<D>& w, GapRun<D>* gaps, int64_t n_gaps) {
    using T = typename D::T;
    constexpr int kSlots = IslandWorker<D>::kSlots;
    GapRun<D>* slot[kSlots];
    int wants[kSlots] = {};
    int used = 0;
    int64_t next = 0;
    for (;;) {
        // Every slot holds a gap that waits for a message, while there are gaps.
        int forward = 0, backward = 0;
        for (int q = 0; q < kSlots; ++q) {
            while (q < used ? wants[q] == 0 : next < n_gaps) {
                if (q == used) {
                    slot[used++] = &gaps[next];
                    gaps[next++].x = w.slots + static_cast<int64_t>(q) * w.d.Kp;
                }
                GapRun<D>& r = *slot[q];
                w.status = vs::kOk;
                wants[q] = *r.status == vs::kOk ? r.chain->advance(w, r) : 0;
                if (w.status != vs::kOk) {
                    *r.status = w.status;
                    wants[q] = 0;
                }
                if (wants[q] == 0) {
                    if (next == n_gaps) break;
                    slot[q] = &gaps[next];
                    gaps[next++].x = w.slots + static_cast<int64_t>(q) * w.d.Kp;
                }
            }
            if (q < used && wants[q] > 0) ++forward;
            if (q < used && wants[q] < 0) ++backward;
        }
        if (forward + backward == 0) return true;
        const int sign = forward >= backward ? 1 : -1;
        const T* x[kMaxRows];
        T* y[kMaxRows];
        int64_t edge[kMaxRows];
        double unused[kMaxRows] = {};
        int rows = 0;
        for (int q = 0; q < used && rows < kMaxRows; ++q) {
            if (wants[q] * sign <= 0) continue;
            x[rows] = slot[q]->x;
            y[rows] = slot[q]->y;
            edge[rows++] = slot[q]->edge;
            wants[q] = 0;
        }
        if (sign > 0) {
            w.d.forward(edge, rows, x, y, unused);
        } else {
            w.d.backward(edge, rows, x, y);
        }
        if (!w.t.go_on(rows)) {
            w.status = vs::kCancelled;
            return false;
        }
    }
}

}  // namespace VS_NS
