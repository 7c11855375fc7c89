#include "chain/islands_call.h"

#include <algorithm>
#include <new>

#include "chain/exact_plan.h"
#include "core/sum.h"
#include "islands/on_pool.h"
#include "islands/path.h"

namespace vs {
namespace {

// Sequences laid end to end, on which the machine works at once.
class Group {
  public:
    struct Job {
        const Request* request;
        const Packing* packing;
        int arithmetic;
        Scratch *keep, *temporary;  // one of each per worker
        std::vector<int32_t>* status;
        Control* control;
    };

    // Sequences order[0, m), which follow one another in memory. Arrays come from `memory`.
    Group(const Job& j, const int64_t* order, int64_t m, int64_t span, bool alone, Scratch& memory)
        : j_(j), order_(order), m_(m) {
        const Chains& c = j.request->chains;
        const int64_t begin = c.offset[order[0]], n = c.offset[order[m - 1] + 1] - begin;
        if (!state_.open(n, memory)) return;
        int32_t* tree = memory.array<int32_t>(n);
        int64_t* edge = memory.array<int64_t>(m);
        state_.status = memory.array<std::atomic<int32_t>>(m);
        state_.of_tree = alone ? nullptr : memory.array<Counts>(m);
        p_.f = memory.array<const void*>(3 * n);
        p_.own_f = memory.array<void*>(2 * n);
        p_.scale_f = memory.array<double>(4 * n);
        p_.added = memory.array<float>(n);
        p_.part = memory.array<IslandPart>(n / kTallied + m);
        if (memory.failed) return;
        // Not by blocks: an island next to a block writes that of its neighbour.
        std::fill_n(p_.scale_f, 2 * n, 0.0);
        for (int64_t t = 0, q = 0; t < m; ++t) {
            const int64_t s = order[t], end = q + length(c, s);
            new (state_.status + t) std::atomic<int32_t>(kOk);
            if (!alone) new (state_.of_tree + t) Counts();
            edge[t] = c.edge[s] - q - 1;
            std::fill(tree + q, tree + end, static_cast<int32_t>(t));
            for (; q < end; q = p_.part[n_parts_++].last) {
                p_.part[n_parts_] = {q, std::min(q + kTallied, end), 0.0, 0.0};
            }
        }
        p_.chains = &c;
        p_.packing = j.packing;
        p_.marginals = j.request->marginals;
        p_.zeta = j.request->zeta;
        p_.keep = j.keep;
        p_.state = &state_;
        p_.begin = begin;
        p_.tree = tree;
        p_.edge = edge;
        p_.b = p_.f + n;
        p_.row = p_.f + 2 * n;
        p_.own_b = p_.own_f + n;
        p_.scale_b = p_.scale_f + n;
        p_.mass = p_.scale_f + 2 * n;
        p_.shift = p_.scale_f + 3 * n;
        int64_t unused;
        level().packing.layout(j.arithmetic == kLinear32 ? kFloat32 : kFloat64, c.n_labels,
                               &call_.row_bytes, &unused);
        call_.row_bytes *= j.arithmetic == kLinear32 ? 4 : 8;
        call_.t = {tree, n, span > 0 ? span : n};
        call_.verbs = level().islands(j.arithmetic);
        call_.pass = &p_;
        call_.state = &state_;
        call_.zeta = p_.zeta;
        call_.control = j.control;
        call_.n_labels = c.n_labels;
        call_.n_tallies = n_parts_;
        call_.slower = is_log(j.arithmetic) ? kLogSlower : 1;
        ok = true;
    }
    bool ok = false;

    // All on one worker.
    void run_serial(int worker) {
        Scratch& scratch = j_.temporary[worker];
        scratch.reset();
        Islands<Path> work(call_, worker, scratch);
        island_rounds(call_, work, j_.request->revisit, [&](int step, int64_t count, int64_t part) {
            constexpr int64_t kTogether = 64;
            const int64_t by = part == 1 ? 1 : kTogether;
            for (int64_t i = 0; i < count && !j_.control->stop.load(); i += by) {
                work.step(step, i, std::min(i + by, count));
            }
            return !j_.control->stop.load();
        });
    }
    void run_on_pool(const PoolApi& pool, Scratch& serial) {
        const Scratch::Mark mark = serial.mark();
        islands_on_pool(pool, call_, j_.request->revisit, j_.request->threads, j_.temporary,
                        serial);
        serial.rewind(mark);
    }
    // Writes the answers, unless the call was stopped.
    void finish(Counts& counts) {
        const Request& r = *j_.request;
        Counts done;
        for (int64_t t = 0, p = 0; t < m_; ++t) {
            const int64_t first = p_.part[p].first;
            Sum total;
            double added = 0.0;
            for (; p < n_parts_ && p_.tree[p_.part[p].first] == t; ++p) {
                total.add(p_.part[p].log_mass);
                added += p_.part[p].added;
            }
            if (j_.arithmetic == kLinear32 && added > 1e-7) widen(t);
            const int32_t status = state_.status[t].load();
            (*j_.status)[static_cast<size_t>(order_[t])] = status;
            if (status != kOk) continue;
            r.log_z[order_[t]] = total.total();
            const int64_t n = length(r.chains, order_[t]);
            std::copy_n(state_.held + first, n, r.islands + r.chains.offset[order_[t]]);
            if (state_.of_tree) add(counts, state_.of_tree[t]);
            counts.sparse += 2;  // into the ends
        }
        count_islands(call_.t, state_, done);
        if (state_.of_tree || state_.status[0].load() == kOk) add(counts, done);
    }

  private:
    void widen(int64_t t) {
        int32_t ok = kOk;
        state_.status[t].compare_exchange_strong(ok, kWiden);
    }
    static constexpr int64_t kTallied = 4096;
    const Job& j_;
    const int64_t* order_;
    int64_t m_, n_parts_ = 0;
    IslandState state_;
    IslandPass p_{};
    IslandCall<Path> call_{};
};

struct GroupTasks {
    Group::Job job;
    const std::vector<int64_t>* order;
    Tasks tasks;
    std::vector<Counts> counts;  // one per worker

    // Sequences of a task, so many at a time that their local factors stay in cache.
    static void run(void* context, int64_t task, int worker) {
        GroupTasks& g = *static_cast<GroupTasks*>(context);
        constexpr int64_t kMost = 128, kBytes = 256 * 1024;
        const Chains& c = g.job.request->chains;
        const auto [first, last] = g.tasks.item(task);
        const int64_t row = c.n_labels * (g.job.arithmetic == kLinear32 ? 4 : 8);
        Scratch& keep = g.job.keep[worker];
        keep.reset();
        for (int64_t i = first, m; i < last; i += m) {
            const int64_t* order = g.order->data() + i;
            const int64_t begin = c.offset[order[0]];
            for (m = 1; m < kMost && i + m < last; ++m) {
                const int64_t end = c.offset[order[m - 1] + 1];
                if (c.offset[order[m]] != end || (end - begin) * row >= kBytes) break;
            }
            const Scratch::Mark mark = keep.mark();
            Group group(g.job, order, m, 0, false, keep);
            if (!group.ok) g.job.control->stop.store(2);
            if (group.ok) group.run_serial(worker);
            if (g.job.control->stop.load()) return;
            group.finish(g.counts[static_cast<size_t>(worker)]);
            keep.rewind(mark);
        }
    }
};

}  // namespace

void island_pass(const PoolApi& pool, const Request& r, std::vector<int64_t>& order, int arithmetic,
                 const Packing& packing, Session& session, std::vector<int32_t>& status,
                 Counts& counts, Control* control) {
    const Chains& c = r.chains;
    GroupTasks tasks{
        {&r, &packing, arithmetic, session.keep(), session.temporary(), &status, control},
        &order,
        {},
        std::vector<Counts>(static_cast<size_t>(r.threads))};
    // A third of an exact pass is a fair guess of what islands leave to do.
    const double cost = position_cost(c.n_labels) * (is_log(arithmetic) ? 10.0 : 0.35);
    double total = 0.0;
    for (int64_t s : order) total += cost * static_cast<double>(length(c, s));
    const int64_t row = c.n_labels * (c.dtype == kFloat32 ? 4 : 8);
    // Long chains first, each on all threads; the rest in the order of memory. They are weighed by
    // the work if few islands are found: then threads are needed most.
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
        // Several blocks per thread, of 5 to 100 microseconds of exact work.
        const int64_t even = length(c, order[i]) / (8 * r.threads) + 1;
        const int64_t span = std::min(std::max(even, static_cast<int64_t>(5e3 / exact) + 1),
                                      static_cast<int64_t>(100e3 / exact) + 1);
        for (int w = 0; w < r.threads; ++w) session.keep()[w].reset();
        const Scratch::Mark mark = session.packing.mark();
        Group group(tasks.job, &order[i], 1, span, true, session.packing);
        if (!group.ok) control->stop.store(2);
        if (group.ok) group.run_on_pool(pool, session.packing);
        if (control->stop.load()) return;
        group.finish(counts);
        session.packing.rewind(mark);
    }
    const double target = std::min(std::max(total / 128.0, 10e3), 2e6);
    for (size_t i = n_long; i < order.size();) {
        double sum = 0.0;
        size_t j = i;
        while (j < order.size() && sum < target) {
            sum += cost * static_cast<double>(length(c, order[j++]));
        }
        tasks.tasks.add(TaskKind::kSequences, static_cast<int64_t>(i), static_cast<int64_t>(j),
                        0.0);
        i = j;
    }
    Plan plan = tasks.tasks.view("islands");
    plan.order64 = order.data();
    plan.n_order = static_cast<int64_t>(order.size());
    pool.run_plan(plan, GroupTasks::run, &tasks, total < 15e3 ? 1 : r.threads, control);
    for (const Counts& w : tasks.counts) add(counts, w);
}

}  // namespace vs
