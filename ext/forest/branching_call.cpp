#include <algorithm>
#include <cmath>

#include "core/ln2.h"
#include "core/sum.h"
#include "forest/call.h"
#include "islands/on_pool.h"
#include "forest/branching.h"

namespace vs {
namespace {

// One table for each type is packed only while they are few.
bool packs_types(const ForestModel& m) {
    return m.tables == Tables::kTyped && m.n_tables <= 64 &&
           m.n_tables * m.arrays.n_labels * m.arrays.n_labels <= (int64_t{1} << 22);
}

template <class T>
double lowest_of(const void* table, int64_t n) {
    const T* x = static_cast<const T*>(table);
    return *std::min_element(x, x + n);
}

}  // namespace

BranchingCall::BranchingCall(const Request& request, Control& control)
    : ForestCall(request, control), t_(*request.model.layout) {
    const ForestModel& m = r_.model;
    if (!islands_) {
        int64_t nodes = t_.n;
        if (r_.components) {
            std::vector<int64_t> size(at(t_.n_trees), 0);
            for (int32_t tree : t_.tree) ++size[at(tree)];
            nodes = 0;
            for (int64_t tree : order_) nodes += size[at(tree)];
        }
        report_.counts.segments = static_cast<int64_t>(order_.size());
        report_.counts.full = 2 * (nodes - report_.counts.segments);
    }
    const bool typed = packs_types(m);
    tables_.assign(typed ? at(m.n_tables) : 1, c_);
    for (size_t i = 0; i < tables_.size(); ++i) {
        const int64_t from = static_cast<int64_t>(i) * c_.n_labels * c_.n_labels * bytes(c_.dtype);
        if (c_.transition) tables_[i].transition = static_cast<const char*>(c_.transition) + from;
        if (m.tables != Tables::kShared) tables_[i].sparse = nullptr;
        tables_[i].per_edge = m.tables != Tables::kShared && !typed;
    }
    if (m.tables == Tables::kPerEdge) which_ = t_.edge;
    if (m.tables == Tables::kTyped) {
        which_.resize(t_.edge.size());
        for (size_t q = 0; q < which_.size(); ++q) {
            which_[q] = static_cast<int32_t>(m.type[t_.edge[q]]);
        }
    }
}

void BranchingCall::show() {
    const ForestPlan plan = plan_branching(t_, c_.n_labels);
    pool().show_plan(through(plan.tasks.view("exact"), t_),
                     threads_for(plan.nanoseconds, r_.threads));
}

// The fields that every pass needs.
void BranchingCall::open(int compute) {
    int64_t unused;
    p_ = BranchingPass();
    fill(p_);
    account_.assign(at(t_.n_trees + t_.n_blocks), Account());
    todo_.assign(at(t_.n_trees), 0);
    for (int64_t i : order_) todo_[at(i)] = 1;
    p_.t = t_.view();
    p_.tables = tables_.data();
    p_.n_table_views = static_cast<int64_t>(tables_.size());
    p_.which = which_.empty() ? nullptr : which_.data();
    p_.todo = static_cast<int64_t>(order_.size()) == t_.n_trees ? nullptr : todo_.data();
    p_.account = account_.data();
    p_.scratch = session_.temporary();
    level().packing.layout(compute, c_.n_labels, &p_.stride, &unused);
}

// Messages over several tables meet at a node: what holds of all of them.
void BranchingCall::join_tables() {
    const int64_t kk = c_.n_labels * c_.n_labels;
    Packing all;
    all.positive = true;
    double range = 0.0;
    for (size_t i = 0; i < packing_.size(); ++i) {
        const void* table = tables_[i].transition;
        const double lowest = !table                 ? c_.sparse->least()
                              : c_.dtype == kFloat32 ? lowest_of<float>(table, kk)
                                                     : lowest_of<double>(table, kk);
        range = std::max(range, packing_[i].shift - lowest);
        all.reach = std::max(all.reach, packing_[i].reach);
        all.floored |= packing_[i].floored;
        all.positive &= packing_[i].positive;
    }
    for (Packing& p : packing_) {
        p.reach = all.reach;
        p.floored = all.floored;
        p.positive = all.positive;
    }
    // A message has entries in [exp(-range), 2 K]: a product of `together` keeps within exp(+-250),
    // and within exp(+-32) where numbers have 32 bits.
    if (all.positive && !is_log(arithmetic_)) {
        const double most = std::log(2.0 * static_cast<double>(c_.n_labels));
        p_.together =
            static_cast<int64_t>((is_single(arithmetic_) ? 32.0 : 250.0) / std::max(range, most));
    }
}

// Memory for the rows that an exact pass keeps.
void BranchingCall::keep_rows() {
    Scratch& s = session_.packing;
    const int64_t width = p_.stride * bytes(computes()), all = t_.n * width;
    if (sums_edges()) p_.edge_left = s.take(all);
    if (sums_edges()) p_.edge_right = s.take(all);
    if (r_.size > 0) p_.kept_alpha = s.take(all);
    p_.block_up = s.take(t_.n_blocks * width);
    p_.block_exponent = s.array<int64_t>(t_.n_blocks * p_.stride);
    p_.block_wide = s.array<uint8_t>(t_.n_blocks);
    if (one_way_) return;
    p_.block_down = s.take(t_.n_blocks * width);
    p_.alpha = s.take(all);
    // Messages are kept where making them again would take longer than fetching them: in small
    // models, and with many labels.
    constexpr int64_t kSmall = int64_t{24} << 20, kManyLabels = 40;
    const bool small = 2 * t_.n * c_.n_labels * 8 <= kSmall || c_.n_labels >= kManyLabels;
    if (step_ > 0 || r_.size > 0 || small) p_.up = s.take(all);
}

bool BranchingCall::pass() {
    open(computes());
    join_tables();
    if (!r_.marginals && !one_way_) {
        p_.marginals = session_.packing.take(t_.n * c_.n_labels * bytes(c_.dtype));
    }
    if (!islands_) keep_rows();
    if (session_.packing.failed) return false;
    if (!islands_) {
        run_blocks("exact", false);
    } else if (!find_islands()) {
        return false;
    }
    collect();
    return true;
}

void BranchingCall::run_blocks(const char* label, bool decoding) {
    const ForestPlan plan = plan_branching(t_, c_.n_labels);
    Plan view = through(plan.tasks.view(label), t_);
    const int64_t n = t_.n_blocks;
    if (one_way_) view.n = n;  // upward passes come first
    run(view, threads_for(plan.nanoseconds, r_.threads), [&](int64_t task, int worker) {
        const bool up = task < n;
        const int64_t block = up ? n - 1 - task : task - n;
        if (!decoding) {
            const Verb verb = up ? Verb::kUp : Verb::kDown;
            return level().run(&p_, {verb, TaskKind::kPiece, {block, block + 1}, worker, nullptr});
        }
        level().best(&p_, up, block, worker);
        if (!up) return;  // reading states off takes next to nothing
        control_.done.fetch_add(t_.begin[at(block) + 1] - t_.begin[at(block)],
                                std::memory_order_relaxed);
    });
}

// Sums the accounts of each tree: its status and its log Z.
void BranchingCall::collect() {
    if (control_.stop.load()) return;
    const double unit = is_log(arithmetic_) ? 1.0 : kLn2;
    for (int64_t b = 0; b < t_.n_blocks; ++b) {
        if (t_.above[at(b)] < 0) continue;
        const Account& part = account_[at(t_.n_trees + b)];
        Account& a = account_[at(t_.tree[at(t_.begin[at(b)])])];
        if (a.status == kOk) a.status = part.status;
        Sum shift{a.shift, a.rest};
        shift.add(part.shift);
        a.shift = shift.value;
        a.rest = shift.rest + part.rest;
        merge(&a.scale, part.scale);
        a.added += part.added;
    }
    for (int64_t i : order_) {
        const Account& a = account_[at(i)];
        int32_t& status = status_[at(i)];
        status = islands_ ? island_status_[at(i)].load() : int32_t{kOk};
        if (status == kOk) status = a.status;
        if (status == kOk && is_single(arithmetic_) && a.added > 1e-7) status = kWiden;
        if (status == kOk) log_z_[i] = a.shift + (a.rest + unit * a.scale.total() + a.log_end);
    }
}

void BranchingCall::finish(const std::vector<int64_t>& done) {
    todo_.assign(at(t_.n_trees), 0);
    for (int64_t i : done) todo_[at(i)] = 1;
    p_.todo = todo_.data();
    if (islands_) {
        for (int64_t i = 0; i < t_.n_trees; ++i) {
            if (!todo_[at(i)]) island_status_[at(i)].store(kWiden);
        }
        count_islands(Branching{p_.t, p_.t.tree}, *state_, report_.counts);
        for (int64_t q = 0; q < t_.n; ++q) {
            if (todo_[at(t_.tree[at(q)])]) r_.islands[t_.node[at(q)]] = state_->held[q];
        }
    }
    if (sums_edges()) add_edges();
    if (r_.size > 0 && !control_.stop.load()) {
        constexpr int64_t kMost = 16;  // as many as lie side by side
        const int64_t group = std::clamp(r_.size / r_.threads, int64_t{1}, kMost);
        run(Plan("sample", (r_.size + group - 1) / group), r_.threads, [&](int64_t i, int worker) {
            const Item item{group * i, std::min(r_.size, group * (i + 1))};
            level().run(&p_, {Verb::kBranchingSample, TaskKind::kPiece, item, worker, nullptr});
        });
    }
}

// Sums over edges, after the way down.
void BranchingCall::add_edges() {
    const int64_t kk = c_.n_labels * c_.n_labels;
    const int64_t all = (r_.model.tables == Tables::kTyped ? r_.model.n_tables : 1) * kk;
    const int64_t size = r_.pairs ? std::max(int64_t{1}, r_.pairs->n_listed()) : all;
    // Cut by the data alone: sums over tasks must not show the threads.
    const int64_t most = r_.expectations ? std::min(int64_t{64}, int64_t{8000000} / size) : 64;
    const int64_t tasks = std::max(int64_t{1}, std::min(most, t_.n / 256));
    const int64_t slots = (t_.n + tasks - 1) / tasks;
    std::vector<double> sums(r_.expectations ? at(tasks * size) : 0, 0.0);
    run(Plan("edges", tasks), r_.threads, [&](int64_t task, int worker) {
        const Item item{task * slots, std::min((task + 1) * slots, t_.n)};
        level().run(&p_, {Verb::kEdges, TaskKind::kPiece, item, worker,
                          r_.expectations ? sums.data() + task * size : nullptr});
    });
    if (r_.expectations && !control_.stop.load()) add_expectations(sums, size);
}

// All rounds of the trees to do in one arithmetic; false: no memory.
bool BranchingCall::find_islands() {
    Scratch& s = session_.packing;
    TreeRows& rows = rows_;
    const int64_t n = t_.n;
    rows.u = s.array<const void*>(2 * n);
    rows.own_u = s.array<void*>(3 * n);
    rows.shift = s.array<double>(4 * n);
    rows.added = s.array<float>(4 * n);
    rows.keep = session_.keep();
    state_.reset(new IslandState);
    if (!state_->open(n, t_.n_trees, s) || !state_->count_trees(t_.n_trees, s) || s.failed)
        return false;
    rows.y = rows.u + n;
    rows.own_y = rows.own_u + n;
    rows.row = rows.own_u + 2 * n;
    rows.scale = rows.shift + n;
    rows.scale_up = rows.shift + 2 * n;
    rows.log_mass = rows.shift + 3 * n;
    rows.floor_gain = rows.added + n;
    rows.floor_gain_u = rows.added + 2 * n;
    rows.floor_gain_y = rows.added + 3 * n;
    island_status_.reset(new std::atomic<int32_t>[todo_.size()]);
    for (size_t i = 0; i < todo_.size(); ++i) island_status_[i].store(todo_[i] ? kOk : kWiden);
    state_->status = island_status_.get();
    p_.state = state_.get();
    p_.rows = &rows_;
    const int threads =
        threads_for(0.35 * node_cost(c_.n_labels) * static_cast<double>(n), r_.threads);
    for (int w = 0; w < threads; ++w) session_.keep()[w].reset();
    auto call = island_call(Branching{p_.t, p_.t.tree}, level().branching_islands(arithmetic_), p_,
                            t_.n_blocks);
    islands_on_pool(pool(), call, r_.revisit, threads, session_.temporary(), s);
    return true;
}

// V_v = u_v + sum_c max_k (t(., k) + V_c(k)), and states from the roots down.
bool BranchingCall::best() {
    Scratch& s = session_.packing;
    open(c_.dtype);
    const int64_t width = p_.stride * bytes(c_.dtype);
    p_.alpha = s.take(t_.n * width);
    p_.up = s.take(t_.n * width);
    p_.block_up = s.take(t_.n_blocks * width);
    std::vector<Scores> up, down;
    for (size_t i = 0; i < tables_.size() && !tables_[i].per_edge; ++i) {
        if (t_.any_flipped) down.push_back(scores(tables_[i], c_.dtype, false));
        up.push_back(scores(tables_[i], c_.dtype, true));
    }
    if (s.failed) return false;
    p_.scores_up = up.empty() ? nullptr : up.data();
    p_.scores_down = down.empty() ? nullptr : down.data();

    std::vector<ScanBackoff> backoff(at(r_.threads));
    p_.backoff = backoff.data();
    run_blocks("decode", true);
    collect();
    return true;
}

}  // namespace vs
