// The persistent thread pool and the plan it runs.
#pragma once

#include <cstdint>

#include "core/problem.h"
#include "pool/gate.h"

namespace vs {

// A schedule: tasks in an order in which every task comes after those it waits for.
struct Plan {
    int64_t n = 0;
    const int32_t* waits = nullptr;     // (n,) number of predecessors; null: all zero
    const int64_t* succ_ptr = nullptr;  // (n + 1,) CSR successors; null with waits
    const int64_t* succ = nullptr;
    // (n,) of the tasks that wait for nothing the lowest goes first; null: the first. Of those that
    // a task makes ready, a worker goes on with the last.
    const int32_t* rank = nullptr;
};

using Task = void (*)(void* context, int64_t task, int worker);

// Runs every task once, in an order that respects the plan; at most `threads` at a time, the
// caller being worker 0. A pool that is busy with another call leaves all tasks to the caller.
void run_plan(const Plan& plan, Task task, void* context, int threads, Control* control);

int get_num_threads();
void set_num_threads(int n);
void forget_pool() noexcept;  // a child of fork has no workers: it makes a pool of its own
int hardware_threads();       // cores this process may use: affinity and container quota respected

// The capsule by which other extension modules use the pool.
struct PoolApi {
    void (*run_plan)(const Plan&, Task, void*, int, Control*);
    bool (*call_back)(Ask, void*, Control*, int*);
};

}  // namespace vs
