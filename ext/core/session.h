// The workspaces of one calling thread, reused from call to call.
#pragma once

#include <memory>

#include "core/scratch.h"

namespace vs {

class Session {
  public:
    Session() = default;
    static Session& mine();  // of the calling thread

    // Memory of `workers`; contiguous, as the passes want it.
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
    bool in_use = false;

    // Memory kept for the next call: 256 MiB of the caller's, as much of all workers' together.
    void release() {
        constexpr int64_t kKeep = int64_t{256} << 20, kLeast = int64_t{16} << 20;
        const int64_t each = count_ > 0 && kKeep / count_ > kLeast ? kKeep / count_ : kLeast;
        for (int i = 0; i < count_; ++i) {
            keep_[i].release(each);
            temporary_[i].release(each);
        }
        packing.release(kKeep);
    }

  private:
    std::unique_ptr<Scratch[]> keep_, temporary_;
    int count_ = 0;
};

// The memory of one call: the thread's session, or a session of its own where that is in use,
// because what polls (`progress=`, a signal handler) made this call from within another.
class Workspace {
  public:
    explicit Workspace(int workers) {
        Session& mine = Session::mine();
        if (mine.in_use) own_.reset(new Session);
        session_ = own_ ? own_.get() : &mine;
        session_->prepare(workers);
        session_->in_use = true;
    }
    Workspace(const Workspace&) = delete;
    Workspace& operator=(const Workspace&) = delete;
    ~Workspace() {
        session_->release();
        session_->in_use = false;
    }
    Session& session() { return *session_; }

  private:
    std::unique_ptr<Session> own_;
    Session* session_;
};

}  // namespace vs
