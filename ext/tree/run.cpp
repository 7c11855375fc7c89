#include "tree/run.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/session.h"
#include "rows/pack_plan.h"
#include "core/sum.h"
#include "tree/call.h"
#include "tree/edge_sums.h"
#include "tree/islands_call.h"
#include "tree/plan.h"
#include "tree/table.h"

namespace vs {

namespace {

using std::size_t;

const PoolApi* g_pool = nullptr;
const SimdApi* g_simd = nullptr;

struct TreeJob {
    TreePass pass{};
    int arithmetic = 0;
    int64_t n_blocks = 0;
    const void* const* packed = nullptr;  // decoding
    const void* const* turned = nullptr;
    int64_t* states = nullptr;
    const double* uniforms = nullptr;  // samples
    int64_t size = 0, together = 0;    // of them, in a task
};

void infer_piece(void* context, int64_t task, int worker) {
    TreeJob& j = *static_cast<TreeJob*>(context);
    if (task < j.n_blocks) {
        tree_level().up(j.arithmetic, &j.pass, j.n_blocks - 1 - task, worker);
    } else {
        tree_level().down(j.arithmetic, &j.pass, task - j.n_blocks, worker);
    }
}

void decode_piece(void* context, int64_t task, int worker) {
    TreeJob& j = *static_cast<TreeJob*>(context);
    if (task < j.n_blocks) {
        const int64_t block = j.n_blocks - 1 - task;
        tree_level().decode_up(&j.pass, j.packed, j.turned, block, worker);
        // Reading states off on the way down takes next to nothing.
        j.pass.control->done.fetch_add(j.pass.t.begin[block + 1] - j.pass.t.begin[block],
                                       std::memory_order_relaxed);
    } else {
        tree_level().decode_down(&j.pass, j.states, task - j.n_blocks, worker);
    }
}

void sample_piece(void* context, int64_t task, int worker) {
    TreeJob& j = *static_cast<TreeJob*>(context);
    const int64_t row = j.together * task, at = row * j.pass.t.n;
    tree_level().sample(j.arithmetic, &j.pass, std::min(j.together, j.size - row), j.uniforms + at,
                        j.states + at, worker);
}

int threads_for(const TreeModel& m, int threads) {
    return exact_cost(m, m.layout->n) < 15e3 ? 1 : threads;
}

void run(const char* label, Task task, TreeJob& job, const TreeModel& m, int threads,
         Control* control) {
    const ForestPlan plan(*m.layout);
    job.n_blocks = m.layout->n_blocks;
    g_pool->run_plan(plan.view(label, job.pass.upward_only), task, &job, threads_for(m, threads),
                     control);
}

bool stopped(const Control& control, TreeReport& report) {
    if (!control.stop.load()) return false;
    report.status = control.stop.load() == 2 ? kNoMemory : kCancelled;
    return true;
}

// Sums the accounts of each tree; false when that ends the call. `todo`: the trees to widen.
bool renew_stale(const Call& call, const std::atomic<int32_t>* islands, int arithmetic,
                 double* log_z, std::vector<uint8_t>& todo, bool* again, TreeReport& report) {
    const Layout& t = *call.model.layout;
    const double unit = is_log(arithmetic) ? 1.0 : 0.693147180559945309417;
    const size_t n = at(t.n_trees);
    std::vector<Account> sum(call.account.begin(), call.account.begin() + t.n_trees);
    for (int64_t b = 0; b < t.n_blocks; ++b) {
        if (t.above[at(b)] < 0) continue;
        const Account& part = call.account[n + at(b)];
        Account& a = sum[at(t.tree[at(t.begin[at(b)])])];
        if (a.status == kOk) a.status = part.status;
        Sum shift{a.shift, a.rest};
        shift.add(part.shift);
        a.shift = shift.value;
        a.rest = shift.rest + part.rest;
        a.scale += part.scale;
        a.added += part.added;
    }
    bool infeasible = false;
    *again = false;
    for (size_t i = 0; i < n; ++i) {
        if (!todo[i]) continue;
        const Account& a = sum[i];
        int32_t status = islands && islands[i].load() ? islands[i].load() : a.status;
        if (status == kOk && arithmetic == kLinear32 && a.added > 1e-7) status = kWiden;
        if (status == kNoMemory || status == kCancelled) {
            report.status = static_cast<Status>(status);
            return false;
        }
        infeasible |= status == kInfeasible;
        todo[i] = status == kWiden;
        *again |= todo[i] != 0;
        if (status == kOk) log_z[i] = a.shift + (a.rest + unit * a.scale + a.log_end);
    }
    if (!infeasible) return true;
    report.status = kInfeasible;
    first_dead_node(call.model, &report.tree, &report.node);
    return false;
}

// Numbers that the passes of one arithmetic keep; `kept`: messages as well.
bool take_rows(TreePass& p, int arithmetic, bool islands, bool kept, const Layout& t, Scratch& s) {
    const int compute = arithmetic == kLinear32 ? kFloat32 : kFloat64;
    const int64_t bytes = compute == kFloat32 ? 4 : 8;
    int64_t unused;
    tree_level().pack.layout(compute, p.n_labels, &p.stride, &unused);
    if (islands) return true;
    p.block_up = s.take(t.n_blocks * p.stride * bytes);
    p.block_exponent = s.array<int64_t>(t.n_blocks * p.stride);
    p.block_wide = s.array<uint8_t>(t.n_blocks);
    if (p.upward_only) return !s.failed;
    p.block_down = s.take(t.n_blocks * p.stride * bytes);
    p.alpha = s.take(t.n * p.stride * bytes);
    if (kept) p.up = s.take(t.n * p.stride * bytes);
    return !s.failed;
}

}  // namespace

const TreeLevel& tree_level() { return at_level<TreeLevel>(g_simd->level()); }
const PoolApi& tree_pool() { return *g_pool; }

void tree_use_pool(const PoolApi* api) { g_pool = api; }
void tree_use_simd(const SimdApi* api) { g_simd = api; }

void tree_show(const TreeModel& m, int threads) {
    const ForestPlan plan(*m.layout);
    g_pool->show_plan(plan.view("exact", false), threads_for(m, threads));
}

TreeReport tree_infer(const TreeRequest& r, Control& control) {
    const TreeModel& m = r.model;
    const Layout& t = *m.layout;
    TreeReport report;
    Workspace workspace(r.threads);
    Session& session = workspace.session();
    Call call(m, session);
    std::vector<uint8_t> todo(at(t.n_trees), 1);
    const bool islands = r.zeta < 1.0;
    if (!islands) {
        report.counts.full = 2 * (t.n - t.n_trees);
        report.counts.segments = t.n_trees;
    }
    int steps[3];
    const int n_steps = ladder(m.arrays.dtype, steps);
    // Trees that upward messages alone do not settle are done in full.
    bool first = true, upward_only = !islands && !r.marginals && !wants_edge_sums(r);
    std::vector<Packing> depth;
    bool again = t.n > 0;
    for (int step = 0; step < n_steps && again;) {
        const int arithmetic = steps[step];
        session.packing.reset();
        TreeJob job;
        TreePass& p = job.pass;
        bool packed = call.pack(arithmetic, islands || r.pairwise, r.threads, &control);
        call.fill(p, &control);
        // In float32 a table held at its floor may be felt, whatever the messages.
        if (packed && arithmetic == kLinear32 && call.packing[0].floored) upward_only = false;
        p.upward_only = upward_only;
        p.marginals = r.marginals;
        if (!r.marginals && !upward_only) {
            const int64_t width = m.arrays.dtype == kFloat32 ? 4 : 8;
            p.marginals = session.packing.take(t.n * m.arrays.n_labels * width);
            packed = packed && p.marginals != nullptr;
        }
        p.log_z = r.log_z;
        p.todo = first ? nullptr : todo.data();
        first = false;
        p.log_left = r.log_left;
        p.log_right = r.log_right;
        p.log_mass = r.log_mass;
        // Messages are kept where making them again would take longer than fetching them: in small
        // models, and with many labels.
        constexpr int64_t kSmall = int64_t{24} << 20, kManyLabels = 40;
        const int64_t bytes = 2 * t.n * m.arrays.n_labels * 8;
        const bool kept =
            !islands && (step > 0 || bytes <= kSmall || m.arrays.n_labels >= kManyLabels);
        if (!packed || !take_rows(p, arithmetic, islands, kept, t, session.packing)) {
            report.status = kNoMemory;
            break;
        }
        if (wants_edge_sums(r) && !open_edge_sums(r, call, p, arithmetic, depth, &control)) {
            report.status = kNoMemory;
            break;
        }
        job.arithmetic = arithmetic;
        TreeIslands with(t);
        if (islands) {
            p.zeta = r.zeta;
            const int threads = 0.35 * exact_cost(m, t.n) < 15e3 ? 1 : r.threads;
            if (!with.run(p, arithmetic, todo, r.revisit, threads, session)) {
                report.status = kNoMemory;
                break;
            }
        } else {
            run("exact", infer_piece, job, m, r.threads, &control);
        }
        if (stopped(control, report)) break;
        std::vector<uint8_t> good(todo);
        if (!renew_stale(call, islands ? with.status() : nullptr, arithmetic, r.log_z, todo, &again,
                         report))
            break;
        if (islands) {
            for (size_t i = 0; i < good.size(); ++i) good[i] = good[i] && !todo[i];
            with.finish(good, r.islands, report.counts);
        }
        if (wants_edge_sums(r)) {
            for (size_t i = 0; i < good.size(); ++i) good[i] = good[i] && !todo[i];
            p.todo = good.data();
            add_edge_sums(r, call, p, arithmetic, &control);
            if (stopped(control, report)) break;
        }
        if (upward_only) {
            upward_only = false;
            continue;
        }
        ++step;
        report.counts.widened = std::max(
            report.counts.widened, static_cast<int64_t>(std::count(todo.begin(), todo.end(), 1)));
    }
    return report;
}

TreeReport tree_sample(const TreeModel& m, int64_t size, const double* uniforms, int64_t* states,
                       int threads, Control& control) {
    const Layout& t = *m.layout;
    TreeReport report;
    Workspace workspace(threads);
    Session& session = workspace.session();
    Call call(m, session);
    std::vector<uint8_t> todo(at(t.n_trees), 1);
    std::vector<double> log_z(at(t.n_trees));
    int steps[3];
    const int n_steps = ladder(m.arrays.dtype, steps);
    // Trees that upward messages alone do not settle are passed through both ways.
    bool first = true, upward_only = true, again = t.n > 0;
    for (int step = 0; step < n_steps && again;) {
        const int arithmetic = steps[step];
        session.packing.reset();
        TreeJob job;
        TreePass& p = job.pass;
        const bool packed = call.pack(arithmetic, true, threads, &control);
        call.fill(p, &control);
        p.todo = first ? nullptr : todo.data();
        first = false;
        const int64_t width = arithmetic == kLinear32 ? 4 : 8;
        if (packed && arithmetic == kLinear32 && call.packing[0].floored) upward_only = false;
        p.upward_only = upward_only;
        if (!upward_only) p.marginals = session.packing.take(t.n * m.arrays.n_labels * width);
        if (!packed || !take_rows(p, arithmetic, false, true, t, session.packing)) {
            report.status = kNoMemory;
            break;
        }
        p.kept_alpha = session.packing.take(t.n * p.stride * width);
        if (session.packing.failed) {
            report.status = kNoMemory;
            break;
        }
        job.arithmetic = arithmetic;
        run("exact", infer_piece, job, m, threads, &control);
        if (stopped(control, report)) break;
        std::vector<uint8_t> good(todo);
        if (!renew_stale(call, nullptr, arithmetic, log_z.data(), todo, &again, report)) break;
        for (size_t i = 0; i < good.size(); ++i) good[i] = good[i] && !todo[i];
        p.todo = good.data();
        job.uniforms = uniforms;
        job.states = states;
        job.size = size;
        job.together = std::clamp(size / threads, int64_t{1}, int64_t{4});
        g_pool->run_plan(Plan("sample", (size + job.together - 1) / job.together), sample_piece,
                         &job, threads, &control);
        if (stopped(control, report)) break;
        step += !upward_only;
        upward_only = false;
    }
    return report;
}

TreeReport tree_decode(const TreeModel& m, int threads, int64_t* states, double* scores,
                       Control& control) {
    const Layout& t = *m.layout;
    TreeReport report;
    Workspace workspace(threads);
    Session& session = workspace.session();
    session.packing.reset();
    Scratch& s = session.packing;
    Call call(m, session);
    const int64_t K = m.arrays.n_labels, bytes = m.arrays.dtype == kFloat32 ? 4 : 8;
    TreeJob job;
    TreePass& p = job.pass;
    call.fill(p, &control);
    int64_t size;
    tree_level().pack.layout(m.arrays.dtype, K, &p.stride, &size);
    p.alpha = s.take(t.n * p.stride * bytes);
    p.up = s.take(t.n * p.stride * bytes);
    p.block_up = s.take(t.n_blocks * p.stride * bytes);
    std::vector<const void*> packed(call.tables.size()), turned(call.tables.size());
    for (size_t i = 0; i < call.tables.size() && !call.per_edge; ++i) {
        void* out[2] = {s.take(size * bytes + 64), s.take(size * bytes + 64)};
        char* transposed = s.array<char>(K * K * bytes);
        if (s.failed) break;
        const char* from = static_cast<const char*>(call.tables[i].transition);
        for (int64_t l = 0; l < K; ++l) {
            for (int64_t k = 0; k < K; ++k) {
                std::copy_n(from + (l * K + k) * bytes, bytes, transposed + (k * K + l) * bytes);
            }
        }
        Chains c = call.tables[i];
        tree_level().pack.pack_scores(m.arrays.dtype, &c, out[0]);
        c.transition = transposed;
        tree_level().pack.pack_scores(m.arrays.dtype, &c, out[1]);
        packed[i] = out[0];
        turned[i] = out[1];
    }
    if (s.failed) {
        report.status = kNoMemory;
        return report;
    }
    if (!call.per_edge) {
        job.packed = packed.data();
        job.turned = turned.data();
    }
    job.states = states;
    run("decode", decode_piece, job, m, threads, &control);
    if (stopped(control, report)) return report;
    std::vector<uint8_t> todo(at(t.n_trees), 1);
    bool again;
    renew_stale(call, nullptr, kLog, scores, todo, &again, report);
    return report;
}

}  // namespace vs
