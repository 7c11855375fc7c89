// Runs the rounds of a call with islands, on the pool or on one worker.
#pragma once

#include <algorithm>

#include "core/subnormals.h"
#include "islands/machine.h"
#include "pool/pool.h"

namespace vs {

// A step as tasks of the pool, each on a part of a list.
template <class Topology>
struct IslandTasks {
    IslandCall<Topology>* call;
    Scratch* scratch;  // one per worker
    int step;
    int64_t count, part;

    static void run(void* context, int64_t task, int worker) {
        IslandTasks& j = *static_cast<IslandTasks*>(context);
        const int64_t first = task * j.part, last = std::min(first + j.part, j.count);
        Scratch& scratch = j.scratch[worker];
        scratch.reset();
        const VS_NS::Subnormals subnormals(j.call->single);
        Islands<Topology> work(*j.call, worker, scratch);
        if (work.begin_task()) work.step(j.step, first, last);
    }
};

// `scratch`: one per worker; `serial`: of what one worker does between the steps.
template <class Topology>
void islands_on_pool(const PoolApi& pool, IslandCall<Topology>& call, int64_t revisit, int threads,
                     Scratch* scratch, Scratch& serial) {
    Islands<Topology> whole(call, 0, serial);
    island_rounds(call, whole, revisit, [&](int step, int64_t count, int64_t part) {
        if (part > 1) part = std::min(std::max(part, count / (8 * threads)), 8 * part);
        IslandTasks<Topology> tasks{&call, scratch, step, count, part};
        Plan plan("islands", (count + part - 1) / part);
        plan.round = call.state->counts.rounds;
        if (plan.n > 0 && !call.control->stop.load()) {
            pool.run_plan(plan, IslandTasks<Topology>::run, &tasks, threads, call.control);
        }
        return !call.control->stop.load();
    });
}

// The same on one worker.
template <class Topology>
void islands_alone(IslandCall<Topology>& call, int64_t revisit, int worker, Scratch& scratch) {
    scratch.reset();
    const VS_NS::Subnormals subnormals(call.single);
    Islands<Topology> work(call, worker, scratch);
    const std::atomic<int>& stop = call.control->stop;
    island_rounds(call, work, revisit, [&](int step, int64_t count, int64_t part) {
        constexpr int64_t kTogether = 64;
        const int64_t by = part == 1 ? 1 : kTogether;
        for (int64_t i = 0; i < count && !stop.load(); i += by) {
            work.step(step, i, std::min(i + by, count));
        }
        return !stop.load();
    });
}

}  // namespace vs
