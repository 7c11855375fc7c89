// The workspaces of a call, reused by later calls.
#pragma once

#include <memory>
#include <utility>

#include "core/scratch.h"

namespace vs {

class Session {
  public:
    // One that waits, or a new one; throws bad_alloc.
    static std::unique_ptr<Session> take();
    // Waits for the next call, unless too much memory waits already.
    static void give_back(std::unique_ptr<Session> session) noexcept;
    static void free_waiting() noexcept;

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
    // Keeps memory for the next call: 256 MiB of the caller's, and of all workers' together as much
    // of either kind, or 4 MiB of each worker where they are many; `bytes`: how much that is.
    void trim() {
        constexpr int64_t kKeep = int64_t{256} << 20, kLeast = int64_t{4} << 20;
        const int64_t each = count_ > 0 && kKeep / count_ > kLeast ? kKeep / count_ : kLeast;
        bytes = packing.release(kKeep);
        for (int i = 0; i < count_; ++i) {
            bytes += keep_[i].release(each) + temporary_[i].release(each);
        }
    }
    Scratch packing;
    int64_t bytes = 0;

  private:
    std::unique_ptr<Scratch[]> keep_, temporary_;
    int count_ = 0;
};

// The memory of one call. Calls at once have a session each, whoever makes them: another thread,
// or what polls (`progress=`, a signal handler) from within a call.
class Workspace {
  public:
    explicit Workspace(int workers) : session_(Session::take()) { session_->prepare(workers); }
    Workspace(const Workspace&) = delete;
    Workspace& operator=(const Workspace&) = delete;
    ~Workspace() { Session::give_back(std::move(session_)); }
    Session& session() { return *session_; }

  private:
    std::unique_ptr<Session> session_;
};

}  // namespace vs
