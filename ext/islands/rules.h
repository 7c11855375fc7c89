// When a variable becomes an island, moves or is released (SMM11 section 3), in an order-free
// formulation that chains, trees and their batches share (docs/islands.md).
//
// Round 0. Variables whose local factor has a mode >= zeta are islands; what they leave falls into
// pieces, the connected free variables. Each piece is passed through from its ends to its centre
// and back. On the way in a variable becomes an island when its local factor times the messages of
// all neighbours but the next reaches zeta, on the way out when its m' does (only if revisiting is
// allowed). A single centre is decided when it has all its messages; two exchange theirs and are
// decided together. Then the messages that went in through a variable decided on the way out are
// computed again.
// Round r >= 1. All events are read off the m' of round r - 1 at once, then only the messages that
// a change touches are computed again:
//   a piece without mass given its islands          -> its islands are released
//   an island whose m' has no value >= zeta         -> released
//   an island whose mode has moved                  -> takes the new value once, then released
//   a free variable, never released, with m' >= zeta -> island
// A tree that meets contradictions, pieces without mass or values forbidden, in more than
// kMostContradicted rounds gives up its islands, and is answered exactly.
// A variable can become an island, flip and be released once each: at most 3 n events, and every
// round but the last has one. Events of a piece depend on the piece alone and rounds are
// synchronous, so neither threads nor the cutting into blocks can show.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>

#include "core/problem.h"
#include "islands/verbs.h"

namespace vs {

enum IslandFlag : uint8_t {
    kIsland = 1,
    kReleased = 2,
    kFlipped = 4,
    kLocal = 8,   // an island by its local factor
    kPlain = 16,  // its local factor forbids nothing
    kSafe = 32,   // no entry of its belief is too small for a factor to be divided out
    kAgain = 64,  // in a piece that is passed through again
    kLate = 128,  // an island since the way out, after the message into it
};
enum IslandEvent : uint8_t {
    kNone,
    kDead,           // no mass given the islands around
    kContradiction,  // a message forbids the value that is held
    kRelease,
    kFlip,
    kBecome,
    kMarked = 128  // beside the event: to be released in this round
};

// Where contradictions are next to one another, each round releases those at the ends only.
constexpr uint32_t kMostContradicted = 24;

// Adds counts of other sequences to `to`.
inline void add(Counts& to, const Counts& c) {
    to.islands += c.islands;
    to.segments += c.segments;
    to.full += c.full;
    to.sparse += c.sparse;
    to.released += c.released;
    to.flipped += c.flipped;
    to.unsettled += c.unsettled;
    to.without += c.without;
    to.widened += c.widened;
    to.rounds = c.rounds > to.rounds ? c.rounds : to.rounds;
}

// The state of each variable, by its slot.
struct IslandState {
    int64_t n = 0;
    uint8_t *flag, *event;
    int32_t* held;
    std::atomic<uint32_t>* stamp;  // the round in which a slot was listed
    // The pass in which the message from (to) the parent has changed, in which q was released.
    uint32_t *changed_down, *changed_up, *fresh;
    int64_t *changed, *pieces, *touched;
    int64_t n_changed = 0, n_pieces = 0;
    std::atomic<int64_t> n_touched{0};
    uint32_t round = 1, pass = 1;  // round 1 is the stamp of what is done with its block
    bool decides_late = false;     // revisiting is allowed
    std::atomic<int32_t>* status;  // of each tree; its variables are decided while that is kOk
    struct Contradicted {
        uint32_t rounds = 0, latest = 0;  // how many, and the number of the latest
    };
    Contradicted* contradicted;  // of each tree
    // Messages of each tree, which several workers may send, and the counts of all; where one
    // worker counts, those of each tree in place of both.
    std::atomic<int64_t>*full = nullptr, *sparse = nullptr;
    Counts counts;
    Counts* of_tree = nullptr;
    Counts* events = nullptr;  // of each tree, where `of_tree` has none: released, flipped, rounds

    // False: no memory.
    bool open(int64_t slots, int64_t trees, Scratch& s) {
        n = slots;
        contradicted = s.array<Contradicted>(trees);
        flag = s.array<uint8_t>(2 * n + 8);
        held = s.array<int32_t>(n);
        stamp = s.array<std::atomic<uint32_t>>(n);
        changed_down = s.array<uint32_t>(3 * n);
        changed = s.array<int64_t>(3 * n);
        if (s.failed) return false;
        for (int64_t t = 0; t < trees; ++t) contradicted[t] = {};
        event = flag + n;
        changed_up = changed_down + n;
        fresh = changed_up + n;
        pieces = changed + n;
        touched = pieces + n;
        std::memset(event + n, 0, 8);  // next_event looks beyond the end
        return true;
    }
    // Counts of `trees` trees for several workers; false: no memory.
    bool count_trees(int64_t trees, Scratch& s) {
        full = s.array<std::atomic<int64_t>>(2 * trees);
        events = s.array<Counts>(trees);
        if (!full || !events) return false;
        for (int64_t t = 0; t < trees; ++t) new (events + t) Counts();
        sparse = full + trees;
        for (int64_t t = 0; t < 2 * trees; ++t) new (full + t) std::atomic<int64_t>(0);
        return true;
    }
    void blank(int64_t first, int64_t last) {
        const std::size_t m = static_cast<std::size_t>(last - first);
        std::memset(flag + first, 0, m);
        std::memset(event + first, 0, m);
        std::memset(held + first, -1, sizeof(*held) * m);
        for (int64_t q = first; q < last; ++q) stamp[q].store(0, std::memory_order_relaxed);
        std::memset(changed_down + first, 0, sizeof(uint32_t) * m);
        std::memset(changed_up + first, 0, sizeof(uint32_t) * m);
        std::memset(fresh + first, 0, sizeof(uint32_t) * m);
    }
    // Notes a contradiction in a tree, which gives up where rounds with some are too many.
    void contradict(int64_t tree) {
        Contradicted& c = contradicted[tree];
        if (c.latest == round) return;
        c.latest = round;
        int32_t ok = kOk;
        if (++c.rounds > kMostContradicted) status[tree].compare_exchange_strong(ok, kWithout);
    }
    VS_INLINE bool island(int64_t q) const { return flag[q] & kIsland; }
    // The first slot from q on that has an event.
    int64_t next_event(int64_t q) const {
        for (; q < n; q += 8) {
            uint64_t some;
            std::memcpy(&some, event + q, 8);
            if (some) break;
        }
        for (; q < n && !event[q]; ++q) {
        }
        return q;
    }
    void hold(int64_t q, int v) {
        flag[q] |= kIsland;
        held[q] = v;
    }

    // The event that m' of a free variable, or of an island, calls for.
    IslandEvent free_event(const RowRequest& m, double zeta) const {
        return free_event(m, flag[m.slot], zeta);
    }
    static IslandEvent free_event(const RowRequest& m, uint8_t flags, double zeta) {
        if (!m.alive) return kDead;
        return m.largest >= zeta && !(flags & kReleased) ? kBecome : kNone;
    }
    static IslandEvent island_event(const RowRequest& m, double zeta) {
        if (!m.alive) return kDead;
        if (m.own >= zeta && m.own >= m.largest) return kNone;
        return m.forbidden ? kContradiction : m.largest >= zeta ? kFlip : kRelease;
    }
    // Takes q's event; `mode` is called for the value that an island gets.
    template <class F>
    void take_event(int64_t q, Counts& count, F mode) {
        const bool leaves = event[q] & kMarked;
        take_event(leaves ? int{kRelease} : event[q], flag[q], held[q], count, mode);
        event[q] = kNone;
    }
    // The same for a variable whose flags and value are kept elsewhere.
    template <class Value, class F>
    static void take_event(int e, uint8_t& flags, Value& value, Counts& count, F mode) {
        if (e == kRelease || (e == kFlip && (flags & kFlipped))) {
            flags = static_cast<uint8_t>((flags & ~kIsland) | kReleased);
            value = -1;
            ++count.released;
            return;
        }
        if (e == kFlip) {
            flags |= kFlipped;
            ++count.flipped;
        }
        flags |= kIsland;
        value = static_cast<Value>(mode());
    }
};

}  // namespace vs
