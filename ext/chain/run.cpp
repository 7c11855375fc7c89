#include "chain/run.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <new>

#include "chain/exact_plan.h"
#include "chain/islands_call.h"
#include "chain/nbest.h"
#include "chain/reach.h"
#include "core/score.h"
#include "core/session.h"
#include "chain/table.h"
#include "rows/pack_plan.h"

namespace vs {

namespace {

const PoolApi* g_pool = nullptr;

bool stores_in_output(int arithmetic, int dtype) {
    return arithmetic != kLinear64of32 && (arithmetic != kLog || dtype == kFloat64);
}

// exp(transition), and for energies its depth; false when memory is exhausted.
bool pack(const Chains& c, int arithmetic, bool rows, int threads, Session& session, Packing* out,
          Control* control, Packing* depth = nullptr) {
    session.packing.reset();
    return pack_table(level().packing, *g_pool, c, arithmetic, rows, threads, session.packing,
                      session.temporary(), out, control) &&
           (depth == nullptr ||
            pack_table(level().packing, *g_pool, c, arithmetic, false, threads, session.packing,
                       session.temporary(), depth, control, true));
}

}  // namespace

struct Prepared {
    const Level* level;
    Scratch workspace;
    Packing packing;
    void* scores = nullptr;  // PackTable::pack_scores
};

namespace {

// The packing to use for a pass in this arithmetic, if it was made.
const Prepared* fitting(const Prepared* p, const Chains& c) {
    return p != nullptr && p->level == &level() && c.dtype == kFloat64 && !c.per_edge ? p : nullptr;
}

struct ExactJob {
    ExactPass pass;
    int arithmetic;
    const Tasks* tasks;
};

void exact_piece(void* context, int64_t task, int worker) {
    ExactJob& j = *static_cast<ExactJob*>(context);
    level().exact(j.arithmetic, &j.pass, j.tasks->kind(task), j.tasks->item(task), worker, task);
}

bool wants_edges(const Request& r) {
    return r.pairwise || r.expectations || r.log_forward || r.energies;
}

// The plan of one pass in one arithmetic over `order`, longest first.
ExactPlan plan_pass(const Request& r, const std::vector<int64_t>& order, int arithmetic) {
    const bool split =
        r.marginals && !wants_edges(r) && stores_in_output(arithmetic, r.chains.dtype);
    return plan_exact(r.chains, order, r.threads, split, r.expectations ? r.expectation_chunks : 0,
                      is_log(arithmetic) ? 20.0 : 1.0);
}

int threads_for(const Request& r, const ExactPlan& plan) {
    return plan.nanoseconds < 15e3 ? 1 : r.threads;
}

Plan through(Plan plan, const std::vector<int64_t>& order) {
    plan.order64 = order.data();
    plan.n_order = static_cast<int64_t>(order.size());
    return plan;
}

// A task for each sequence.
Plan one_by_one(const char* label, const std::vector<int64_t>& order) {
    return through(Plan(label, static_cast<int64_t>(order.size())), order);
}

// One pass in one arithmetic over `order` (longest first); fills status.
void exact_pass(const Request& r, const std::vector<int64_t>& order, int arithmetic,
                bool forward_only, const Packing& packing, const Packing& depth, Session& session,
                std::vector<int32_t>& status, Control* control) {
    const Chains& c = r.chains;
    const int64_t K = c.n_labels;
    ExactJob job;
    ExactPass& p = job.pass;
    job.arithmetic = arithmetic;
    p.chains = &c;
    p.packing = &packing;
    p.order = order.data();
    p.marginals = r.marginals;
    p.pairwise = r.pairwise;
    p.pairwise_first = r.pairwise_first;
    p.pairwise_last = r.pairwise_last;
    p.expectations = nullptr;
    p.weights = r.weights;
    p.log_forward = r.log_forward;
    p.log_outgoing = r.log_outgoing;
    p.energies = r.energies;
    p.depth = depth.forward != nullptr ? &depth : nullptr;
    p.log_z = r.log_z;
    p.status = status.data();
    p.scratch = session.keep();
    p.control = control;
    p.forward_only = forward_only;
    p.stored_bytes = int64_t{256} << 10;

    const ExactPlan plan = plan_pass(r, order, arithmetic);
    const size_t n_split = plan.n_split, n_tasks = static_cast<size_t>(plan.tasks.size());
    job.tasks = &plan.tasks;
    session.keep()[0].reset();
    std::vector<void*> lanes(2 * n_split), slots(2 * n_split);
    p.split = slots.data();
    for (size_t i = 0; i < n_split; ++i) {
        for (int k = 0; k < 2; ++k) lanes[2 * i + k] = session.keep()[0].take(level().lane_bytes());
        if (session.keep()[0].failed ||
            !level().split_open(arithmetic, &p, static_cast<int64_t>(i), lanes[2 * i],
                                lanes[2 * i + 1], &session.keep()[0])) {
            status[static_cast<size_t>(order[i])] = kNoMemory;
            return;
        }
    }
    std::vector<double> sums;
    if (r.expectations) {
        sums.assign(n_tasks * static_cast<size_t>(K * K), 0.0);
        p.expectations = sums.data();
    }
    // The split lanes live in worker 0's first scratch, which groups would reset.
    if (n_split > 0) p.scratch = session.temporary();
    g_pool->run_plan(through(plan.tasks.view("exact"), order), exact_piece, &job,
                     threads_for(r, plan), control);
    for (size_t i = 0; i < n_split; ++i) {
        level().split_close(arithmetic, &p, static_cast<int64_t>(i), &session.keep()[0]);
    }
    if (r.expectations) {
        const size_t kk = static_cast<size_t>(K * K);
        const bool bare = !is_log(arithmetic) && !c.per_edge;  // sums leave the transition out
        for (size_t i = 0; i < kk; ++i) {
            double sum = 0.0;
            for (size_t t = 0; t < n_tasks; ++t) sum += sums[t * kk + i];
            if (bare && sum != 0.0) {
                sum *= std::exp(entry(c, c.transition, static_cast<int64_t>(i)) - packing.shift);
            }
            r.expectations[i] += sum;
        }
    }
}

// Sequences that hold positions, in the order of memory.
std::vector<int64_t> non_empty(const Chains& c) {
    std::vector<int64_t> order;
    order.reserve(static_cast<size_t>(c.n_sequences));
    for (int64_t s = 0; s < c.n_sequences; ++s) {
        if (length(c, s) > 0) order.push_back(s);
    }
    return order;
}

// The same, longest first (ties: lowest index), by counting where lengths are ordinary.
std::vector<int64_t> by_length(const Chains& c, const std::vector<int64_t>& order) {
    int64_t longest = 0;
    for (int64_t s : order) longest = std::max(longest, length(c, s));
    std::vector<int64_t> sorted(order);
    if (longest > 4 * static_cast<int64_t>(order.size()) + 1024) {
        std::stable_sort(sorted.begin(), sorted.end(),
                         [&](int64_t a, int64_t b) { return length(c, a) > length(c, b); });
        return sorted;
    }
    std::vector<int64_t> at(static_cast<size_t>(longest) + 2, 0);
    for (int64_t s : order) ++at[static_cast<size_t>(longest - length(c, s)) + 1];
    for (size_t i = 1; i < at.size(); ++i) at[i] += at[i - 1];
    for (int64_t s : order) {
        sorted[static_cast<size_t>(at[static_cast<size_t>(longest - length(c, s))]++)] = s;
    }
    return sorted;
}

// The rest of a finished pass: sequences to widen in `order`, or a reason to stop.
bool next_pass(const Chains& c, std::vector<int64_t>& order, const std::vector<int32_t>& status,
               Report& report, const Control& control) {
    if (control.stop.load()) {
        report.status = control.stop.load() == 2 ? kNoMemory : kCancelled;
        return false;
    }
    std::vector<int64_t> wide;
    for (int64_t s : order) {
        switch (status[static_cast<size_t>(s)]) {
            case kWiden:
                wide.push_back(s);
                break;
            case kInfeasible:
                if (report.sequence < 0 || s < report.sequence) report.sequence = s;
                break;
            case kNoMemory:
                report.status = kNoMemory;
                return false;
            case kCancelled:
                report.status = kCancelled;
                return false;
            default:
                break;
        }
    }
    if (report.sequence >= 0) {
        report.status = kInfeasible;
        // An earlier sequence that still waits for a wider domain may be infeasible too.
        for (int64_t s : wide) {
            if (s < report.sequence && first_dead(c, s) >= 0) report.sequence = s;
        }
        report.position = first_dead(c, report.sequence);
        return false;
    }
    order.swap(wide);
    return true;
}

}  // namespace

void use_pool(const PoolApi* api) { g_pool = api; }

Prepared* prepare(const Chains& c) {
    if (c.dtype != kFloat64 || c.per_edge) return nullptr;
    std::unique_ptr<Prepared> p(new Prepared);
    p->level = &level();
    Scratch temporary;
    Control control;
    bool fits = pack_table(p->level->packing, *g_pool, c, kLinear64, false, 1, p->workspace,
                           &temporary, &p->packing, &control);
    int64_t stride, size;
    p->level->packing.layout(c.dtype, c.n_labels, &stride, &size);
    if (fits) p->scores = p->workspace.take(size * static_cast<int64_t>(sizeof(double)) + 64);
    if (p->scores == nullptr) throw std::bad_alloc();
    p->level->packing.pack_scores(kFloat64, &c, p->scores);
    return p.release();
}

void release(Prepared* p) { delete p; }

const ChainApi* chain_api() {
    static const ChainApi api{infer, decode, prepare, release};
    return &api;
}

Report infer(const Request& r, Control& control) {
    const Chains& c = r.chains;
    Report report;
    Workspace workspace(r.threads);
    Session& session = workspace.session();
    for (int64_t s = 0; s < c.n_sequences; ++s) r.log_z[s] = 0.0;
    std::vector<int64_t> order = non_empty(c);
    std::vector<int32_t> status(static_cast<size_t>(c.n_sequences), kOk);
    const bool islands = r.zeta < 1.0;
    if (!islands) {
        report.counts.sparse = 2 * static_cast<int64_t>(order.size());
        report.counts.full = 2 * (c.n_positions - static_cast<int64_t>(order.size()));
        report.counts.segments = static_cast<int64_t>(order.size());
    }
    int steps[3];
    const int n_steps = ladder(c.dtype, steps);
    // Sequences that forward messages alone do not settle are done in full.
    bool forward_only = !islands && !r.marginals && !wants_edges(r);
    for (int step = 0; step < n_steps && !order.empty();) {
        const int arithmetic = steps[step];
        if (step > 0) {
            report.counts.widened =
                std::max(report.counts.widened, static_cast<int64_t>(order.size()));
        }
        Packing packing, depth;
        const Prepared* prepared = arithmetic == kLinear64 ? fitting(r.prepared, c) : nullptr;
        if (prepared != nullptr && !islands && !r.energies) {
            packing = prepared->packing;
        } else if (!pack(c, arithmetic, islands || r.pairwise, r.threads, session, &packing,
                         &control, r.energies ? &depth : nullptr)) {
            report.status = kNoMemory;
            break;
        }
        // In float32 a transition held at its floor may be felt, whatever the messages.
        forward_only = forward_only && !(arithmetic == kLinear32 && packing.floored);
        if (islands) {
            island_pass(*g_pool, r, order, arithmetic, packing, session, status, report.counts,
                        &control);
        } else {
            exact_pass(r, by_length(c, order), arithmetic, forward_only, packing, depth, session,
                       status, &control);
        }
        if (!next_pass(c, order, status, report, control)) break;
        if (!forward_only) ++step;
        forward_only = false;
    }
    return report;
}

void show(const Request& r) {
    int steps[3];
    ladder(r.chains.dtype, steps);
    const std::vector<int64_t> order = by_length(r.chains, non_empty(r.chains));
    const ExactPlan plan = plan_pass(r, order, steps[0]);
    g_pool->show_plan(through(plan.tasks.view("exact"), order), threads_for(r, plan));
}

namespace {

struct DecodeJob {
    const Chains* chains;
    const int64_t* order;
    const void *packed, *wide;  // scores in tiles, of the model's type and of doubles; or null
    int64_t n_best, stride;     // stride of rows of doubles
    int64_t* states;
    double* scores;
    Scratch* scratch;
    Control* control;
};

void decode_piece(void* context, int64_t task, int worker) {
    DecodeJob& j = *static_cast<DecodeJob*>(context);
    const int64_t s = j.order[task], begin = j.chains->offset[s];
    if (j.n_best == 1) {
        level().viterbi(j.chains, j.packed, s, j.states + begin, j.scores + s, &j.scratch[worker],
                        j.control, worker == 0);
        return;
    }
    try {  // an exception must not leave a worker of the pool
        // Where rounding leaves a choice the best is what is returned for one alone.
        const int64_t n = length(*j.chains, s);
        std::vector<int64_t> best(static_cast<size_t>(n));
        double score = -std::numeric_limits<double>::infinity();
        Scratch& scratch = j.scratch[worker];
        level().viterbi(j.chains, j.packed, s, best.data(), &score, &scratch, j.control,
                        worker == 0);
        if (j.control->stop.load() != 0 || score == -std::numeric_limits<double>::infinity()) {
            return;
        }
        scratch.reset();
        double* rows = scratch.array<double>(n * j.stride);
        level().prefix_scores(j.chains, j.wide, s, rows, &scratch, j.control, worker == 0);
        if (j.control->stop.load() != 0) return;
        n_best(*j.chains, s, j.n_best, rows, j.stride, scratch, j.states, j.scores, *j.control,
               worker == 0);
        if (j.control->stop.load() != 0) return;
        lead_with(*j.chains, s, j.n_best, best.data(), score, j.states, j.scores);
    } catch (const std::bad_alloc&) {
        j.control->stop.store(2);
    }
}

// How many sequences a task draws from together: bits do not depend on it, and every thread has
// some tasks.
int64_t together(int64_t sequences, int threads) {
    constexpr int64_t kTogether = 4, kTasks = 4;
    return std::clamp(sequences / (kTasks * threads), int64_t{1}, kTogether);
}

struct SampleJob {
    ExactPass pass;
    int arithmetic;
    int64_t size;
    const double* uniforms;
    int64_t* states;
    int64_t n, group;  // sequences, and how many of them go together
};

void sample_piece(void* context, int64_t task, int worker) {
    SampleJob& j = *static_cast<SampleJob*>(context);
    const Item item{j.group * task, std::min(j.n, j.group * (task + 1))};
    level().sample(j.arithmetic, &j.pass, item, j.size, j.uniforms, j.states, worker);
}

}  // namespace

Report decode(const Chains& c, int64_t k, int threads, int64_t* states, double* scores,
              Control& control, const Prepared* prepared) {
    Report report;
    Workspace workspace(threads);
    Session& session = workspace.session();
    const std::vector<int64_t> order = by_length(c, non_empty(c));
    for (int64_t i = 0; i < k * c.n_sequences; ++i) {
        const int64_t s = i % c.n_sequences;
        scores[i] =
            length(c, s) == 0 && i < c.n_sequences ? 0.0 : -std::numeric_limits<double>::infinity();
    }
    session.packing.reset();
    int64_t stride = 0;
    const auto packed_in = [&](int compute) -> const void* {
        int64_t size;
        level().packing.layout(compute, c.n_labels, &stride, &size);
        if (c.per_edge) return nullptr;
        if (compute == kFloat64 && fitting(prepared, c) != nullptr) return prepared->scores;
        void* packed = session.packing.take(size * (compute == kFloat32 ? 4 : 8) + 64);
        if (packed != nullptr) level().packing.pack_scores(compute, &c, packed);
        return packed;
    };
    const void* packed = packed_in(c.dtype);
    const void* wide = k == 1 || c.dtype == kFloat64 ? packed : packed_in(kFloat64);
    if (session.packing.failed) {
        report.status = kNoMemory;
        return report;
    }
    DecodeJob job{&c,     order.data(), packed, wide,           k,
                  stride, states,       scores, session.keep(), &control};
    const double total = position_cost(c.n_labels) * static_cast<double>(c.n_positions);
    g_pool->run_plan(one_by_one("decode", order), decode_piece, &job, total < 15e3 ? 1 : threads,
                     &control);
    if (control.stop.load()) {
        report.status = control.stop.load() == 2 ? kNoMemory : kCancelled;
        return report;
    }
    for (int64_t s = 0; s < c.n_sequences; ++s) {
        if (length(c, s) == 0 || scores[s] > -std::numeric_limits<double>::infinity()) continue;
        report.status = kInfeasible;
        report.sequence = s;
        report.position = first_dead(c, s);
        break;
    }
    return report;
}

Report sample(const Chains& c, int64_t size, const double* uniforms, int64_t* states, int threads,
              Control& control) {
    Report report;
    Workspace workspace(threads);
    Session& session = workspace.session();
    std::vector<int64_t> order = by_length(c, non_empty(c));
    std::vector<int32_t> status(static_cast<size_t>(c.n_sequences), kOk);
    std::vector<double> log_z(static_cast<size_t>(c.n_sequences));
    int steps[3];
    const int n_steps = ladder(c.dtype, steps);
    for (int step = 0; step < n_steps; ++step) {
        const int arithmetic = steps[step];
        if (order.empty()) break;
        Packing packing;
        if (!pack(c, arithmetic, true, threads, session, &packing, &control)) {
            report.status = kNoMemory;
            break;
        }
        SampleJob job;
        job.pass = ExactPass{};
        job.pass.chains = &c;
        job.pass.packing = &packing;
        job.pass.order = order.data();
        job.pass.log_z = log_z.data();
        job.pass.status = status.data();
        job.pass.scratch = session.keep();
        job.pass.control = &control;
        job.arithmetic = arithmetic;
        job.size = size;
        job.uniforms = uniforms;
        job.states = states;
        job.n = static_cast<int64_t>(order.size());
        job.group = together(job.n, threads);
        g_pool->run_plan(Plan("sample", (job.n + job.group - 1) / job.group), sample_piece, &job,
                         threads, &control);
        if (!next_pass(c, order, status, report, control)) break;
    }
    return report;
}

}  // namespace vs
