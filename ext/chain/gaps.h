// Gaps between local islands under way, several at a time, so that their full messages are computed
// together.
#pragma once

#include "core/sum.h"
#include "rows/linear.h"
#include "rows/log.h"
#include "core/scratch.h"
#include "core/ticker.h"

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
