// How long loops are stopped: by signals, deadlines, or what a progress callback raises.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <new>

#include "core/problem.h"

namespace vs::junction {

constexpr int64_t kPoll = 1 << 18;  // entries between two polls: some milliseconds, at most

// Only the calling thread polls; the others read the flag that it sets.
struct Poll {
    Control* control;
    bool calls = true;
    int64_t left = kPoll;

    // False: leave everything as it is.
    bool go_on() const {
        if (control->stop.load(std::memory_order_relaxed)) return false;
        if (!calls || !control->poll || !control->poll(control->arg)) return true;
        control->stop.store(1);
        return false;
    }
    // The same where loops count their steps: polls once in kPoll of them.
    bool go_on_after(int64_t steps) {
        left -= steps;
        if (left > 0) return true;
        left = kPoll;
        return go_on();
    }
    // f(a, b) for parts of [first, last), as long as the call goes on.
    template <class F>
    void parts(int64_t first, int64_t last, int64_t part, F&& f) const {
        for (int64_t a = first; a < last && (a == first || go_on()); a += part) {
            f(a, std::min(last, a + part));
        }
    }
};

// The status of a call that runs several tasks: the first that is not kOk.
class Outcome {
  public:
    // False where this task, or one before, ended with another status.
    template <class F>
    bool run(F&& f) {
        if (status_.load(std::memory_order_relaxed) != kOk) return false;
        int found, none = kOk;
        try {
            found = f();
        } catch (const std::bad_alloc&) {
            found = kNoMemory;
        }
        if (found != kOk) status_.compare_exchange_strong(none, found);
        return found == kOk;
    }
    bool fine() const { return status_.load(std::memory_order_relaxed) == kOk; }
    Status end(const Control& control) const {
        const Status found = static_cast<Status>(status_.load());
        return found == kOk && control.stop.load() ? kCancelled : found;
    }

  private:
    std::atomic<int> status_{kOk};
};

// Piece p of n that a loop is cut into.
struct LoopPiece {
    int p, n;
    int64_t first(int64_t all) const { return all * p / n; }
    int64_t last(int64_t all) const { return all * (p + 1) / n; }
};

}  // namespace vs::junction
