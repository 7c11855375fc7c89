#include "junction/solver.h"

#include <algorithm>
#include <new>

#include "junction/draw.h"
#include "junction/kernels.h"
#include "junction/lanes.h"
#include "junction/planner.h"

namespace vs::junction {
namespace {

const PoolApi* g_pool = nullptr;
const SimdApi* g_simd = nullptr;

// The graph that is triangulated: variables with more than one value left.
Status moral_graph(const Graph& g, const Domains& d, const std::vector<Query>& queries,
                   Control* control, Moral* m) {
    Poll poll{control};
    m->near.resize(static_cast<size_t>(g.n));
    m->values.resize(static_cast<size_t>(g.n));
    for (int64_t v = 0; v < g.n; ++v) {
        m->values[v] = static_cast<double>(d.size(v));
    }
    const auto join = [&](const Set& clique) {
        for (int32_t a : clique) {
            for (int32_t b : clique) {
                if (a != b) m->near[a].push_back(b);
            }
        }
        return poll.go_on_after(static_cast<int64_t>(clique.size() * clique.size()) + 16);
    };
    for (int64_t f = 0; f < g.n_factors; ++f) {
        if (!join(scope_of(g, d, f))) return kCancelled;
    }
    for (const Query& q : queries) {
        if (!join(live(d, q.vars))) return kCancelled;
    }
    for (auto& near : m->near) {
        std::sort(near.begin(), near.end());
        near.erase(std::unique(near.begin(), near.end()), near.end());
        if (!poll.go_on_after(static_cast<int64_t>(16 * near.size()))) return kCancelled;
    }
    return kOk;
}

}  // namespace

void use_modules(const PoolApi* pool, const SimdApi* simd) {
    g_pool = pool;
    g_simd = simd;
}

const PoolApi& pool() { return *g_pool; }

const GraphLevel& level() { return at_level<GraphLevel>(g_simd->level()); }

const LaneLevel& lane_level() { return at_level<LaneLevel>(g_simd->level()); }

template <class F>
Status Solver::guarded(Control* control, F&& f) {
    Status status = kOk;
    try {
        if (!sound_) {
            complete_ = false;
            status = measure(g_, domains_, tree_, soft_, control, &layout_);
            sound_ = status == kOk;
        }
        if (status == kOk) status = f();
    } catch (const std::bad_alloc&) {
        status = kNoMemory;
    }
    if (status == kNoMemory) {
        release();
        sound_ = false;
    }
    return status;
}

int64_t Solver::compile(const int64_t* held, std::vector<int64_t> soft, const Search& search,
                        Control* control) {
    const int64_t empty = find_domains(g_, held, control, &domains_);
    if (empty != kReady) return empty;
    held_.assign(held, held + g_.n);
    soft_ = std::move(soft);
    last_soft_.clear();
    Moral m;
    if (moral_graph(g_, domains_, queries_, control, &m) != kOk) return kStopped;
    Elimination e;
    const Found found = best_elimination(m, search, control, &e, &tried_);
    if (found != Found::kOrder) return found == Found::kTooLarge ? kTooLarge : kStopped;
    constexpr double kMerge = 64.0;
    tree_ = build_cliques(e, m.values, kMerge);
    if (measure(g_, domains_, tree_, soft_, control, &layout_) != kOk) return kStopped;
    complete_ = false;
    release();
    return kReady;
}

int64_t Solver::prepare(const int64_t* held, std::vector<int64_t> soft, Control* control) {
    Domains d;
    const int64_t empty = find_domains(g_, held, control, &d);
    if (empty != kReady) return empty;
    std::vector<int64_t> now(held, held + g_.n);
    if (d == domains_ && soft == soft_) {
        held_.swap(now);
        return kReady;
    }
    // All or nothing: what may be stopped, or run out of memory, comes first.
    TableLayout layout;
    if (measure(g_, d, tree_, soft, control, &layout) != kOk) return kStopped;
    held_.swap(now);
    std::swap(domains_, d);
    std::swap(layout_, layout);
    soft_.swap(soft);
    last_soft_.clear();
    complete_ = false;
    if (!linear_ && !wide_ && !best_) return kReady;
    try {
        keep_what_holds(d, layout);
    } catch (const std::bad_alloc&) {
        release();  // nothing holds then
    }
    return kReady;
}

// Messages from cliques below which nothing has changed are still good.
void Solver::keep_what_holds(const Domains& before, const TableLayout& old) {
    const size_t m = tree_.clique.size();
    std::vector<uint8_t> same(static_cast<size_t>(g_.n)), tables(m), messages(m);
    for (int64_t v = 0; v < g_.n; ++v) {
        same[v] =
            before.size(v) == domains_.size(v) &&
            std::equal(before.values(v), before.values(v) + before.size(v), domains_.values(v));
    }
    for (size_t c = 0; c < m; ++c) {
        const CliqueLayout &a = old.clique[c], &b = layout_.clique[c];
        bool equal = a.outer == b.outer && a.tile == b.tile && a.statics.size() == b.statics.size();
        for (int32_t v : tree_.clique[c]) equal = equal && same[v];
        for (size_t s = 0; equal && s < a.statics.size(); ++s) {
            equal = a.statics[s].dims.var == b.statics[s].dims.var &&
                    a.statics[s].factors == b.statics[s].factors;
            for (int64_t f : a.statics[s].factors) {
                // Decided variables of a scope are in no clique.
                const Factor x = factor_of(g_, f, nullptr);
                for (int64_t i = 0; i < x.arity; ++i) equal = equal && same[x.scope[i]];
            }
        }
        tables[c] = equal;
        messages[c] = a.message.var == b.message.var;
    }
    keep(tables, messages);
}

void Solver::keep(const std::vector<uint8_t>& tables, const std::vector<uint8_t>& messages) {
    if (linear_) linear_->keep(tables, messages);
    if (wide_) wide_->keep(tables, messages);
    if (best_) best_->keep(tables, messages);
}

void Solver::forget() {
    const size_t m = tree_.clique.size();
    keep(std::vector<uint8_t>(m, 1), std::vector<uint8_t>(m, 0));
}

void Solver::release() {
    linear_.reset();
    wide_.reset();
    best_.reset();
}

Status Solver::complete_once(int threads, Control* control) {
    if (complete_) return kOk;
    if (!layout_.addressable) throw std::bad_alloc();  // tables of 16 GB and more
    const Status s =
        junction::complete(domains_, tree_, &layout_, &queries_, pool(), threads, control);
    if (s == kOk && asks_factors_) locate_factors(g_, domains_, layout_, &queries_);
    complete_ = s == kOk;
    return s;
}

// Forgets what soft evidence that has other numbers than the last time went into.
void Solver::forget_changed(const double* const* soft) {
    std::vector<uint8_t> tables(tree_.clique.size(), 1);
    std::vector<double> now;
    bool known = !last_soft_.empty();
    for (int64_t v : soft_) {
        const double* const first = soft[v];
        const size_t at = now.size();
        now.insert(now.end(), first, first + g_.card[v]);
        if (domains_.size(v) < 2) continue;
        known = known && now.size() <= last_soft_.size();
        if (!known || !std::equal(first, first + g_.card[v], last_soft_.data() + at)) {
            tables[tree_.home[v]] = 0;
        }
    }
    last_soft_.clear();  // in case that memory runs out in between
    keep(tables, tables);
    last_soft_ = std::move(now);
}

Status Solver::solve(const double* const* soft, int threads, Control* control, Want want) {
    widened_ = false;
    if (!both_fit()) {
        wide_.reset();
        best_.reset();
    }
    Status s = complete_once(threads, control);
    if (s != kOk) return s;
    if (probed_) forget();
    probed_ = false;
    if (soft) forget_changed(soft);
    if (want == kLogs) return solve_wide(soft, threads, control, true);
    if (!linear_) linear_.reset(new Propagation<Linear64>(compiled()));
    reused_ = linear_->n_sent();
    s = linear_->run(soft, want != kMarginals, threads, control);
    // The loss has not been compared with the mass of the whole: the way down does that.
    if (s == kOk && want == kSamples && !linear_->lossless()) s = kWiden;
    if (s != kWiden) return s;
    control->done.store(0);
    return solve_wide(soft, threads, control, want == kMarginals);
}

Status Solver::solve_wide(const double* const* soft, int threads, Control* control,
                          bool marginals) {
    if (!both_fit()) linear_.reset();
    if (!wide_) wide_.reset(new Propagation<LinearWide>(compiled()));
    reused_ = wide_->n_sent();
    widened_ = true;
    return wide_->run(soft, !marginals, threads, control);
}

void Solver::show(int threads) const {
    pool().show_plan(layout_.schedule.plan(false), threads_for(layout_.schedule, threads));
}

Status Solver::infer(const double* const* soft, int threads, Control* control, const int64_t* ptr,
                     bool logs, double* marginals, double* log_z) {
    return guarded(control, [&] {
        logs_ = logs;
        const Want want = logs ? kLogs : marginals ? kMarginals : kMass;
        const Status s = solve(soft, threads, control, want);
        if (s != kOk) return s;
        solved([&](const auto& p) {
            if (marginals) p.marginals(ptr, logs, marginals);
            *log_z = p.log_z();
        });
        return kOk;
    });
}

Status Solver::log_ratio(const double* const* soft, const std::vector<int32_t>& changed,
                         Control* control, double* ratio) {
    return guarded(control, [&] {
        probed_ = true;
        return widened_ ? wide_->log_ratio(soft, changed, control, ratio)
                        : linear_->log_ratio(soft, changed, control, ratio);
    });
}

bool Solver::ask(Set vars) {
    const Set wanted = live(domains_, vars);
    const auto holds = [&](const Set& clique) { return within(wanted, clique); };
    const bool held = std::any_of(tree_.clique.begin(), tree_.clique.end(), holds);
    queries_.clear();
    if (vars.empty() || !(held || wanted.empty())) return false;
    queries_.emplace_back().vars = std::move(vars);
    Control none;
    if (complete_) locate(domains_, tree_, layout_, &queries_, Poll{&none});
    return true;
}

void Solver::ask_factors(bool wanted) {
    asks_factors_ = wanted;
    queries_.clear();
    if (wanted && complete_) locate_factors(g_, domains_, layout_, &queries_);
}

double Solver::factor_entries() const {
    double entries = 0.0;
    for (const CliqueLayout& l : layout_.clique) {
        for (const Static& s : l.statics) {
            entries += settings(domains_, factor_vars(g_, domains_, l, s));
        }
    }
    return entries;
}

ExpectedScore Solver::expected() const {
    return solved([&](const auto& p) { return p.expected(); });
}

void Solver::joint(int64_t q, double* out) const {
    solved([&](const auto& p) { p.query(static_cast<size_t>(q), logs_, out); });
}

Status Solver::decode(const double* const* soft, int threads, Control* control, double above,
                      int64_t* states, double* score) {
    return guarded(control, [&] {
        Status s = complete_once(threads, control);
        if (s != kOk) return s;
        if (!both_fit()) best_.reset();
        if (probed_) forget();
        probed_ = false;
        if (soft) forget_changed(soft);
        if (!best_) best_.reset(new Propagation<MaxLogs>(compiled()));
        s = best_->run(soft, true, threads, control);
        if (s != kOk) return s;
        *score = best_->log_z();
        if (*score > above) s = best_states(best_->state(), control, states);
        if (!both_fit()) best_.reset();
        return s;
    });
}

Status Solver::sample(const double* const* soft, int threads, Control* control, int64_t size,
                      const double* uniforms, int64_t* states) {
    return guarded(control, [&] {
        const Status s = solve(soft, threads, control, kSamples);
        if (s != kOk) return s;
        return solved([&](const auto& p) {
            return junction::sample(p.state(), threads, control, size, uniforms, states);
        });
    });
}

}  // namespace vs::junction
