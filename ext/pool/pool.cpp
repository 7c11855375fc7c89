#include "pool/pool.h"

#include "pool/record.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <vector>

#if defined(__linux__)
#include <sched.h>
#endif
#if defined(__x86_64__) || defined(_M_X64)
#include <immintrin.h>
#endif

namespace vs {
namespace {

void pause_cpu() {
#if defined(__x86_64__) || defined(_M_X64)
    _mm_pause();
#elif defined(__aarch64__) && !defined(_MSC_VER)
    __asm__ __volatile__("yield");
#endif
}

using Clock = std::chrono::steady_clock;
constexpr std::chrono::microseconds kSpin{100};  // how long an idle worker stays awake
constexpr int kMostThreads = 4096;               // MAX_THREADS of threads.py

// Ready tasks of one worker, a list through `links` (two per task, of the whole job): the owner
// takes the newest, thieves the oldest. A short lock is enough: tasks are tens of microseconds.
struct alignas(64) Ready {
    std::atomic_flag lock = ATOMIC_FLAG_INIT;
    int64_t* links = nullptr;
    int64_t oldest = -1, newest = -1;
    std::atomic<int64_t> size{0};

    void push(int64_t t) {
        guard();
        older(t) = newest;
        newer(t) = -1;
        (newest < 0 ? oldest : newer(newest)) = t;
        newest = t;
        size.fetch_add(1, std::memory_order_release);
        lock.clear(std::memory_order_release);
    }
    int64_t take(bool first) {
        if (size.load(std::memory_order_acquire) == 0) return -1;
        guard();
        const int64_t t = first ? oldest : newest;
        if (t >= 0) {
            const int64_t before = older(t), after = newer(t);
            (before < 0 ? oldest : newer(before)) = after;
            (after < 0 ? newest : older(after)) = before;
            size.fetch_sub(1, std::memory_order_relaxed);
        }
        lock.clear(std::memory_order_release);
        return t;
    }

  private:
    int64_t& older(int64_t t) { return links[2 * t]; }
    int64_t& newer(int64_t t) { return links[2 * t + 1]; }
    void guard() {
        while (lock.test_and_set(std::memory_order_acquire)) pause_cpu();
    }
};

// Tasks that wait for nothing, of one worker: the owner takes the first, thieves the last.
struct alignas(64) Part {
    std::atomic<uint64_t> left{0};  // first task, and in the lower half the one after the last

    void set(int64_t first, int64_t last) {
        left.store(static_cast<uint64_t>(first) << 32 | static_cast<uint64_t>(last));
    }
    int64_t take(bool first) {
        uint64_t now = left.load(std::memory_order_relaxed);
        for (;;) {
            const uint64_t a = now >> 32, b = now & 0xffffffffu;
            if (a == b) return -1;
            const uint64_t next = first ? now + (uint64_t{1} << 32) : now - 1;
            if (left.compare_exchange_weak(now, next, std::memory_order_relaxed)) {
                return static_cast<int64_t>(first ? a : b - 1);
            }
        }
    }
};

// The calling thread polls for signals, deadlines and progress between tasks. After tasks that are
// so short that reading the clock would be felt, it looks at one in several.
class Poller {
  public:
    explicit Poller(Control* control) : control_(control) {}
    void look() {
        if (!control_->poll || --left_ > 0) return;
        const auto now = Clock::now();
        stride_ = now - last_ < kShort ? std::min(2 * stride_, 16) : 1;
        left_ = stride_;
        last_ = now;
        if (now < due_) return;
        due_ = now + kEvery;
        if (control_->poll(control_->arg)) control_->stop.store(1);
    }

  private:
    static constexpr std::chrono::microseconds kShort{50}, kEvery{5000};
    Control* control_;
    Clock::time_point due_{}, last_{};  // the first poll is due
    int stride_ = 1, left_ = 1;
};

// Records a plan that runs, if the calling thread has a recorder. The thread has none until the
// end, because plans that tasks run are part of those tasks.
class Recording {
  public:
    Recording(const Plan& plan, int* threads) : recorder_(Recorder::set_current(nullptr)) {
        if (!recorder_) return;
        try {
            record_ = std::make_shared<Record>(plan, *threads, true);
        } catch (...) {
            Recorder::set_current(std::move(recorder_));
            throw;
        }
        if (recorder_->serial) *threads = 1;
    }
    Recording(const Recording&) = delete;
    Recording& operator=(const Recording&) = delete;
    ~Recording() {
        if (recorder_) Recorder::set_current(std::move(recorder_));
    }
    bool on() const { return record_ != nullptr; }
    template <class F>
    void time(int64_t task, int worker, F&& f) const {
        const size_t t = static_cast<size_t>(task);
        record_->start[t] = recorder_->now();
        f();
        record_->measured[t] = recorder_->now() - record_->start[t];
        record_->worker[t] = worker;
    }
    void end() {
        if (recorder_) recorder_->add(std::move(record_));
    }

  private:
    std::shared_ptr<Recorder> recorder_;
    std::shared_ptr<Record> record_;
};

struct RunningPlan {
    const Plan* plan;
    Task task;
    void* context;
    Control* control;
    const Recording* recording;
    int threads;
    std::unique_ptr<std::atomic<int32_t>[]> waits;
    std::vector<int64_t> roots;
    std::unique_ptr<Ready[]> ready;
    std::unique_ptr<Part[]> parts;     // of a plan that stays
    std::unique_ptr<int64_t[]> links;  // of the lists in `ready`: tasks allocate nothing
    std::atomic<int64_t> next{0};      // ticket into the roots
    std::atomic<int64_t> remaining{0};

    // Throws nothing, for the pool is taken already: without memory tasks go by tickets.
    void divide() noexcept {
        if (threads < 2 || !plan->stays || plan->waits || plan->n >> 32) return;
        parts.reset(new (std::nothrow) Part[static_cast<size_t>(threads)]);
        for (int w = 0; w < threads && parts; ++w) {
            parts[w].set(plan->n * w / threads, plan->n * (w + 1) / threads);
        }
    }
    void run(int64_t t, int worker) {
        if (recording->on()) {
            recording->time(t, worker, [&] { task(context, t, worker); });
        } else {
            task(context, t, worker);
        }
    }
    void execute(int64_t t, int worker) {
        if (!control->stop.load(std::memory_order_relaxed)) run(t, worker);
        if (plan->waits) {
            for (int64_t s = plan->succ_ptr[t]; s < plan->succ_ptr[t + 1]; ++s) {
                const int64_t u = plan->succ[s];
                if (u >= plan->n) continue;
                if (waits[u].fetch_sub(1, std::memory_order_acq_rel) == 1) ready[worker].push(u);
            }
        }
        remaining.fetch_sub(1, std::memory_order_acq_rel);
    }
    int64_t find(int worker) {
        if (parts) {
            int64_t t = parts[worker].take(true);
            for (int k = 1; t < 0 && k < threads; ++k) {
                t = parts[(worker + k) % threads].take(false);
            }
            return t;
        }
        int64_t t = plan->waits ? ready[worker].take(false) : -1;
        if (t >= 0) return t;
        const int64_t n = plan->waits ? static_cast<int64_t>(roots.size()) : plan->n;
        if (next.load(std::memory_order_relaxed) < n) {
            t = next.fetch_add(1, std::memory_order_relaxed);
            if (t < n) return plan->waits ? roots[static_cast<size_t>(t)] : t;
        }
        if (!plan->waits) return -1;
        for (int k = 1; k < threads; ++k) {
            t = ready[(worker + k) % threads].take(true);
            if (t >= 0) return t;
        }
        return -1;
    }
    // The order of a plan is an order to run it in.
    void work_alone() {
        Poller poller(control);
        for (int64_t t = 0; t < plan->n && !control->stop.load(std::memory_order_relaxed); ++t) {
            run(t, 0);
            poller.look();
        }
    }
    // Works until nothing is left, or (tasks without order) until nothing is left to start.
    void work(int worker, bool caller) {
        Poller poller(control);
        int idle = 0;
        while (remaining.load(std::memory_order_acquire) > 0) {
            const int64_t t = find(worker);
            if (t >= 0) {
                execute(t, worker);
                if (caller) poller.look();
                idle = 0;
                continue;
            }
            if (!caller && !plan->waits) return;
            pause_cpu();
            if (++idle % 64 == 0) {
                if (idle > 4096) std::this_thread::yield();
                if (caller) poller.look();
            }
        }
    }
};

class Pool {
  public:
    bool run(RunningPlan& job) {
        // Not a mutex: the thread that runs a job may ask again from within it (see Control::poll).
        if (busy_.exchange(true)) return false;
        start(job.threads - 1);
        job.threads = std::min(job.threads, threads_ + 1);
        job.divide();
        job_.store(&job);
        epoch_.fetch_add(1);
        if (parked_.load() > 0) {
            std::lock_guard<std::mutex> hold(mutex_);
            wake_.notify_all();
        }
        job.work(0, true);
        job_.store(nullptr);
        while (active_.load() > 0) pause_cpu();
        busy_.store(false);
        return true;
    }

  private:
    // Where the system gives no more threads, those that there are do the work.
    void start(int helpers) {
        while (threads_ < helpers) {
            const int worker = threads_ + 1;
            const uint64_t seen = epoch_.load();
            try {
                std::thread([this, worker, seen] { loop(worker, seen); }).detach();
            } catch (const std::exception&) {
                return;
            }
            threads_ = worker;
        }
    }
    // What a thread needs to throw is made when it first does: then there may be no memory, which
    // would end the process. Until there is some, others do its work.
    static bool can_throw() {
        void* const probe = std::malloc(std::size_t{64} << 10);
        if (!probe) return false;
        std::free(probe);
        try {
            throw 0;
        } catch (int) {
        }
        return true;
    }
    void loop(int worker, uint64_t seen) {
        for (bool ready = false;;) {
            wait(seen);
            seen = epoch_.load();
            active_.fetch_add(1);
            RunningPlan* job = job_.load();
            ready = ready || can_throw();
            if (job && ready && worker < job->threads) job->work(worker, false);
            active_.fetch_sub(1);
        }
    }
    void wait(uint64_t seen) {
        const auto until = Clock::now() + kSpin;
        for (int i = 1; epoch_.load() == seen; ++i) {
            pause_cpu();
            if (i % 32 == 0 && Clock::now() > until) {
                std::unique_lock<std::mutex> hold(mutex_);
                parked_.fetch_add(1);
                wake_.wait(hold, [&] { return epoch_.load() != seen; });
                parked_.fetch_sub(1);
                return;
            }
        }
    }

    std::atomic<bool> busy_{false};
    std::mutex mutex_;
    std::condition_variable wake_;
    std::atomic<RunningPlan*> job_{nullptr};
    std::atomic<uint64_t> epoch_{0};
    std::atomic<int> active_{0}, parked_{0};
    int threads_ = 0;
};

std::atomic<Pool*> g_pool{nullptr};
std::atomic<int> g_threads{0};

Pool& pool() {
    Pool* p = g_pool.load();
    if (p) return *p;
    Pool* fresh = new Pool;
    if (g_pool.compare_exchange_strong(p, fresh)) return *fresh;
    delete fresh;
    return *p;
}

#if defined(__linux__)
// Cores that one group may use, 0 when it has no limit.
double cores_of(const std::string& folder, bool second) {
    double used = 0, period = 0;
    if (second) {
        std::ifstream file(folder + "/cpu.max");
        std::string most;
        if (!(file >> most >> period) || most == "max") return 0;
        used = std::strtod(most.c_str(), nullptr);
    } else {
        std::ifstream(folder + "/cpu.cfs_quota_us") >> used;
        std::ifstream(folder + "/cpu.cfs_period_us") >> period;
    }
    return used > 0 && period > 0 ? used / period : 0;
}

// The least of a group and those that it lies in: a quota holds for all below it.
double least_cores(const std::string& root, std::string group, bool second) {
    double least = 0;
    for (;;) {
        const double cores = cores_of(root + group, second);
        if (cores > 0 && (least == 0 || cores < least)) least = cores;
        const size_t slash = group.rfind('/');
        if (slash == std::string::npos) return least;
        group.resize(slash);
    }
}
#endif

int quota() {  // cores granted by the container, 0 when unlimited
#if defined(__linux__)
    std::ifstream groups("/proc/self/cgroup");  // lines of number:controllers:/group
    std::string line, first, second;
    while (std::getline(groups, line)) {
        const size_t a = line.find(':'), b = line.find(':', a + 1);
        if (a == std::string::npos || b == std::string::npos) continue;
        const std::string controllers = "," + line.substr(a + 1, b - a - 1) + ",";
        if (controllers == ",,") second = line.substr(b + 1);
        if (controllers.find(",cpu,") != std::string::npos) first = line.substr(b + 1);
    }
    double cores = least_cores("/sys/fs/cgroup", second, true);
    if (cores == 0) cores = least_cores("/sys/fs/cgroup/cpu", first, false);
    if (cores > 0) return cores < 1 ? 1 : static_cast<int>(cores + 0.5);
#endif
    return 0;
}

}  // namespace

int hardware_threads() {
    int n = static_cast<int>(std::thread::hardware_concurrency());
#if defined(__linux__)
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof(set), &set) == 0) n = CPU_COUNT(&set);
#endif
    const int limit = quota();
    if (limit > 0 && limit < n) n = limit;
    return n < 1 ? 1 : n;
}

int get_num_threads() {
    int n = g_threads.load();
    if (n == 0) {
        n = hardware_threads();
        if (const char* s = std::getenv("VALUESPARSE_NUM_THREADS")) {
            const long v = std::strtol(s, nullptr, 10);
            if (v >= 1 && v <= kMostThreads) n = static_cast<int>(v);
        }
        g_threads.store(n);
    }
    return n;
}

// The parent's memory is left alone.
void forget_pool() noexcept { g_pool.store(nullptr); }

void set_num_threads(int n) { g_threads.store(n < 1 ? 1 : n); }

void run_plan(const Plan& plan, Task task, void* context, int threads, Control* control) {
    if (plan.n == 0) return;
    threads = static_cast<int>(std::min<int64_t>(threads, plan.n));
    Recording recording(plan, &threads);
    RunningPlan job;
    job.plan = &plan;
    job.task = task;
    job.context = context;
    job.control = control;
    job.recording = &recording;
    job.threads = threads;
    job.remaining.store(plan.n);
    if (threads > 1 && plan.waits) {
        job.waits.reset(new std::atomic<int32_t>[static_cast<size_t>(plan.n)]);
        job.ready.reset(new Ready[static_cast<size_t>(threads)]);
        job.links.reset(new int64_t[2 * static_cast<size_t>(plan.n)]);
        for (int w = 0; w < threads; ++w) job.ready[w].links = job.links.get();
        for (int64_t t = 0; t < plan.n; ++t) {
            job.waits[t].store(plan.waits[t], std::memory_order_relaxed);
            if (plan.waits[t] == 0) job.roots.push_back(t);
        }
        if (plan.rank) {
            std::sort(job.roots.begin(), job.roots.end(),
                      [&](int64_t a, int64_t b) { return plan.rank[a] < plan.rank[b]; });
        }
    }
    if (threads <= 1 || !pool().run(job)) job.work_alone();
    recording.end();
}

}  // namespace vs

extern "C" {
#if defined(_WIN32)
#define VS_EXPORT __declspec(dllexport)
#else
#define VS_EXPORT __attribute__((visibility("default")))
#endif
VS_EXPORT int valuesparse_get_num_threads() { return vs::get_num_threads(); }
VS_EXPORT void valuesparse_set_num_threads(int n) { vs::set_num_threads(n); }
}
