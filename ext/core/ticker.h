// Lets long loops be interrupted: every few milliseconds of work the calling thread polls, the
// others read the flag by which it stops them.
#pragma once

#include "core/problem.h"
#include "simd/level.h"

namespace VS_NS {

class Ticker {
  public:
    // slower: how many times longer than a linear message of the same size one takes.
    Ticker(vs::Control* control, bool caller, int64_t labels, int64_t slower = 1)
        : control_(control), caller_(caller) {
        const int64_t cost = slower * (labels * labels + 64 * labels);
        every_ = 16 * 1024 * 1024 / cost + 1;
        left_ = every_;
    }
    // After `steps` positions; false: leave at once.
    bool go_on(int64_t steps = 1) {
        left_ -= steps;
        return left_ > 0 || check();
    }

    // At the start of a task, where tasks are too short to get there by counting.
    bool begin_task() { return check(); }

  private:
    bool check() {
        left_ = every_;
        if (control_->stop.load(std::memory_order_relaxed)) return false;
        if (caller_ && control_->poll && control_->poll(control_->arg)) {
            control_->stop.store(1, std::memory_order_relaxed);
            return false;
        }
        return true;
    }
    vs::Control* control_;
    bool caller_;
    int64_t every_, left_;
};

}  // namespace VS_NS
