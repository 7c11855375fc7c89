#include "chain/islands_call.h"

#include <algorithm>

#include "chain/exact_plan.h"

namespace vs {
namespace {

struct IslandJob {
    const PoolApi* pool;
    IslandPass pass;
    int arithmetic;
    std::vector<int64_t> first, last;
    int threads;
    Control* control;
};

void island_piece(void* context, int64_t task, int worker) {
    IslandJob& j = *static_cast<IslandJob*>(context);
    const size_t t = static_cast<size_t>(task);
    level().islands(j.arithmetic, &j.pass, j.first[t], j.last[t], worker);
}

void island_parallel(void* self, void (*piece)(void*, int64_t, int), void* context, int64_t count) {
    IslandJob& j = *static_cast<IslandJob*>(self);
    Plan plan;
    plan.n = count;
    j.pool->run_plan(plan, piece, context, j.threads, j.control);
}

}  // namespace

void island_pass(const PoolApi& pool, const Request& r, std::vector<int64_t>& order, int arithmetic,
                 const Packing& packing, Session& session, std::vector<int32_t>& status,
                 Counts& counts, Control* control) {
    const Chains& c = r.chains;
    std::vector<Counts> per_worker(static_cast<size_t>(r.threads));
    IslandJob job;
    job.pool = &pool;
    job.arithmetic = arithmetic;
    job.threads = r.threads;
    job.control = control;
    IslandPass& p = job.pass;
    p.chains = &c;
    p.packing = &packing;
    p.order = order.data();
    p.marginals = r.marginals;
    p.islands = r.islands;
    p.log_z = r.log_z;
    p.status = status.data();
    p.keep = session.keep();
    p.temporary = session.temporary();
    p.counts = per_worker.data();
    p.control = control;
    p.zeta = r.zeta;
    p.revisit = r.revisit;
    p.threads = r.threads;
    p.parallel = island_parallel;
    p.self = &job;

    // A third of an exact pass is a fair guess of what islands leave to do.
    const double cost = position_cost(c.n_labels) * (is_log(arithmetic) ? 10.0 : 0.35);
    double total = 0.0;
    for (int64_t s : order) total += cost * static_cast<double>(length(c, s));
    const int64_t row = c.n_labels * (c.dtype == kFloat32 ? 4 : 8);
    // Long chains first, each on all threads; the rest in the order of memory. What counts is the
    // work if few islands are found: then threads are needed most.
    const double exact = cost / 0.35;
    const double worth = std::max(30e3, exact / cost * total / (2.0 * r.threads));
    const auto is_long = [&](int64_t s) {
        const int64_t n = length(c, s);
        return n * row > (int64_t{4} << 20) ||
               (r.threads > 1 && exact * static_cast<double>(n) > worth);
    };
    const auto rest = std::stable_partition(order.begin(), order.end(), is_long);
    const size_t n_long = static_cast<size_t>(rest - order.begin());
    for (size_t i = 0; i < n_long; ++i) {
        // Several spans per thread, of 5 to 100 microseconds of exact work.
        const int64_t even = length(c, order[i]) / (8 * r.threads) + 1;
        const int64_t span = std::min(std::max(even, static_cast<int64_t>(5e3 / exact) + 1),
                                      static_cast<int64_t>(100e3 / exact) + 1);
        for (int w = 0; w < r.threads; ++w) session.keep()[w].reset();
        level().islands_long(arithmetic, &p, static_cast<int64_t>(i), span);
        if (control->stop.load()) return;
    }
    const double target = std::min(std::max(total / 128.0, 10e3), 2e6);
    for (size_t i = n_long; i < order.size();) {
        double sum = 0.0;
        size_t j = i;
        while (j < order.size() && sum < target) {
            sum += cost * static_cast<double>(length(c, order[j++]));
        }
        job.first.push_back(static_cast<int64_t>(i));
        job.last.push_back(static_cast<int64_t>(j));
        i = j;
    }
    const int threads = total < 15e3 ? 1 : r.threads;
    Plan plan;
    plan.n = static_cast<int64_t>(job.first.size());
    pool.run_plan(plan, island_piece, &job, threads, control);
    for (const Counts& w : per_worker) {
        counts.islands += w.islands;
        counts.segments += w.segments;
        counts.full += w.full;
        counts.sparse += w.sparse;
        counts.released += w.released;
        counts.flipped += w.flipped;
        counts.unsettled += w.unsettled;
        counts.rounds = std::max(counts.rounds, w.rounds);
    }
}

}  // namespace vs
