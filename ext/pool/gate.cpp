#include "pool/gate.h"

#include <chrono>
#include <mutex>
#include <new>
#include <thread>

#include "core/subnormals.h"

namespace vs {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kLook{1};  // how often who closes looks whether all are out

thread_local char t_self;  // its address names the thread, after a fork too

// A call that is inside the interpreter, on the stack of its thread.
struct Visit {
    const void* thread;
    Control* control;
    Visit* next;
};

struct Gate {
    std::mutex mutex;
    const void* closer = nullptr;  // the thread that closed it; null: open
    Visit* visits = nullptr;

    void remove(Visit* visit) {
        Visit** at = &visits;
        while (*at != visit) at = &(*at)->next;
        *at = visit->next;
    }
    bool others() const {
        for (Visit* v = visits; v; v = v->next) {
            if (v->thread != &t_self) return true;
        }
        return false;
    }
};

Gate& gate() noexcept {
    // Never destroyed: threads outlive the interpreter.
    alignas(Gate) static unsigned char place[sizeof(Gate)];
    static Gate* g = new (place) Gate;
    return *g;
}

class EntryGuard {
  public:
    explicit EntryGuard(Control* control) : visit_{&t_self, control, nullptr} {
        Gate& g = gate();
        const std::lock_guard<std::mutex> lock(g.mutex);
        open = !g.closer || g.closer == &t_self;
        if (!open) return;
        visit_.next = g.visits;
        g.visits = &visit_;
    }
    ~EntryGuard() {
        if (!open) return;
        Gate& g = gate();
        const std::lock_guard<std::mutex> lock(g.mutex);
        g.remove(&visit_);
    }
    EntryGuard(const EntryGuard&) = delete;
    EntryGuard& operator=(const EntryGuard&) = delete;

    bool open;

  private:
    Visit visit_;
};

}  // namespace

bool call_back(Ask ask, void* arg, Control* control, int* answer) {
    try {
        const EntryGuard entry(control);
        if (!entry.open) return false;
        const VS_NS::Subnormals subnormals(false);  // Python has such numbers
        *answer = ask(arg);
        return true;
    } catch (...) {
        // Only the end of the interpreter comes here: until 3.14 it unwinds each thread that wants
        // the GIL. Other threads may still work on what stands on this stack, and an unwinding that
        // is swallowed further up ends the process: so this thread waits for the end here.
        for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
    }
}

void close_gate(double seconds) {
    Gate& g = gate();
    const auto until = Clock::now() + std::chrono::duration<double>(seconds);
    std::unique_lock<std::mutex> lock(g.mutex);
    g.closer = &t_self;
    while (g.others()) {
        if (Clock::now() > until) {
            for (Visit* v = g.visits; v; v = v->next) {
                if (v->control && v->thread != &t_self) v->control->stop.store(1);
            }
            return;
        }
        lock.unlock();
        std::this_thread::sleep_for(kLook);
        lock.lock();
    }
}

bool gate_closed() noexcept {
    Gate& g = gate();
    const std::lock_guard<std::mutex> lock(g.mutex);
    return g.closer != nullptr;
}

void lock_gate() { gate().mutex.lock(); }
void unlock_gate() { gate().mutex.unlock(); }

void reopen_gate() noexcept {
    Gate& g = gate();
    if (g.closer != &t_self) g.closer = nullptr;
    for (Visit** at = &g.visits; *at;) {
        if ((*at)->thread == &t_self) {
            at = &(*at)->next;
        } else {
            *at = (*at)->next;
        }
    }
}

}  // namespace vs
