#include <new>

#include "higher/run.h"

namespace vs::higher {

namespace {

enum Stop : int { kNothing, kAsked, kMemory };

struct Job {
    const LongerModel& model;
    const LongerRequest& ask;
    Control* control;
    std::vector<LogTable> tables;
    std::vector<int64_t> position;  // of each sequence where nothing is left, or -1

    static void task(void* context, int64_t task, int worker) {
        Job& job = *static_cast<Job*>(context);
        if (!job.ask.triples) return job.sequence(task, worker, nullptr);
        const int64_t B = job.model.sequences, K = job.model.labels, C = job.ask.chunks;
        for (int64_t s = B * task / C; s < B * (task + 1) / C; ++s) {
            job.sequence(s, worker, job.ask.triples + task * K * K * K);
        }
    }
    void sequence(int64_t s, int worker, double* triples) {
        Job& job = *this;
        try {
            Run run(job.model, job.ask, job.control);
            const bool done = job.model.longest ? run.segments(s, worker, job.tables[0])
                                                : run.second(s, worker, job.tables, triples);
            if (!done) job.position[static_cast<size_t>(s)] = run.position;
        } catch (const std::bad_alloc&) {  // must not leave a worker of the pool
            job.control->stop.store(kMemory);
        }
        job.control->done.fetch_add(job.model.offset[s + 1] - job.model.offset[s]);
    }
};

}  // namespace

LongerReport answer(const LongerModel& model, const LongerRequest& ask, const PoolApi& pool,
                    int threads, Control* control) {
    const int64_t K = model.labels;
    Job job{model, ask, control, {}, {}};
    job.position.assign(static_cast<size_t>(model.sequences), -1);
    if (model.longest) {
        job.tables.emplace_back(model.transition, K, K);
    } else {
        job.tables.reserve(static_cast<size_t>(K));
        for (int64_t c = 0; c < K; ++c) job.tables.emplace_back(model.transition + c * K, K * K, K);
    }
    const int64_t tasks = ask.triples ? ask.chunks : model.sequences;
    pool.run_plan(Plan(model.longest ? "segments" : "order 2", tasks), Job::task, &job, threads,
                  control);
    LongerReport a;
    const int stop = control->stop.load();
    if (stop != kNothing) {
        a.status = stop == kMemory ? kNoMemory : kCancelled;
        return a;
    }
    for (int64_t s = 0; s < model.sequences; ++s) {
        if (job.position[static_cast<size_t>(s)] < 0) continue;
        a.status = kInfeasible;
        a.sequence = s;
        a.position = job.position[static_cast<size_t>(s)];
        break;
    }
    return a;
}

}  // namespace vs::higher
