// The persistent thread pool, which runs plans.
#pragma once

#include <cstdint>

#include "core/problem.h"
#include "pool/gate.h"
#include "pool/plan.h"

namespace vs {

using Task = void (*)(void* context, int64_t task, int worker);

// Runs every task once, in an order that respects the plan; at most `threads` at a time, the
// caller being worker 0. A pool that is busy with another call leaves all tasks to the caller.
// Where the calling thread has a recorder, the plan and the times of its tasks are added to it.
void run_plan(const Plan& plan, Task task, void* context, int threads, Control* control);

int get_num_threads();
void set_num_threads(int n);
void forget_pool() noexcept;  // a child of fork has no workers: it makes a pool of its own
int hardware_threads();       // cores this process may use: affinity and container quota respected

// The capsule by which other extension modules use the pool.
struct PoolApi {
    void (*run_plan)(const Plan&, Task, void*, int, Control*);
    bool (*call_back)(Ask, void*, Control*, int*);
    void (*show_plan)(const Plan&, int threads);
};

}  // namespace vs
