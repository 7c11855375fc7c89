// The workspaces of one calling thread, reused from call to call.
#pragma once

#include <memory>
#include <vector>

#include "kernels/table.h"

namespace vs {

struct Workspace {
    Scratch keep, temporary;
};

class Session {
  public:
    static Session& mine();  // of the calling thread

    // Room for `workers`; contiguous, as the passes want it.
    void prepare(int workers) {
        if (workers > count_) {
            keep_.reset(new Scratch[static_cast<size_t>(workers)]);
            temporary_.reset(new Scratch[static_cast<size_t>(workers)]);
            count_ = workers;
        }
    }
    Scratch* keep() { return keep_.get(); }
    Scratch* temporary() { return temporary_.get(); }
    Scratch packing;

    void release() {
        constexpr int64_t kKeep = int64_t{64} << 20;
        for (int i = 0; i < count_; ++i) {
            keep_[i].release(kKeep);
            temporary_[i].release(kKeep);
        }
        packing.release(kKeep);
    }

  private:
    std::unique_ptr<Scratch[]> keep_, temporary_;
    int count_ = 0;
};

const Level& level();

}  // namespace vs
