// Loops over many small things, on the pool.
#pragma once

#include <algorithm>

#include "pool/pool.h"

namespace vs {

// f(first, last) for each block of `size` out of [0, n). None waits for another; each worker gets
// the blocks that it had in other loops of that length, whose memory is near.
template <class F>
void run_blocks(const PoolApi& pool, const char* label, int64_t n, int64_t size, int threads,
                Control* control, const F& f) {
    struct Job {
        const F& f;
        int64_t n, size;
        static void task(void* context, int64_t i, int) {
            const Job& j = *static_cast<const Job*>(context);
            j.f(i * j.size, std::min(j.n, (i + 1) * j.size));
        }
    };
    Job job{f, n, size};
    Plan plan(label, (n + size - 1) / size);
    plan.stays = true;
    pool.run_plan(plan, Job::task, &job, threads, control);
}

// f(item) for each task of a plan that has items.
template <class F>
void run_items(const PoolApi& pool, const Plan& plan, int threads, Control* control, const F& f) {
    struct Job {
        const F& f;
        const Item* item;
        static void task(void* context, int64_t t, int) {
            const Job& j = *static_cast<const Job*>(context);
            j.f(j.item[t]);
        }
    };
    Job job{f, plan.item};
    pool.run_plan(plan, Job::task, &job, threads, control);
}

}  // namespace vs
