#include "forest/call.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <new>
#include <numeric>

#include "core/score.h"
#include "forest/dead.h"
#include "forest/in_double.h"
#include "forest/worth.h"
#include "rows/pack_plan.h"

namespace vs {
namespace {

const PoolApi* g_pool = nullptr;

template <class F>
auto with_call(const Request& r, Control& control, F f) {
    if (r.model.layout) {
        BranchingCall call(r, control);
        return f(call);
    }
    PathCall call(r, control);
    return f(call);
}

}  // namespace

struct Prepared {
    const Level* level;
    std::unique_ptr<SparseTable> listed;  // where the caller has not looked for a default
    Scratch workspace;
    Packing packing;
    Scores scores;  // rows: the caller's
};

namespace {

// (K, stride) the columns of a table, -inf beyond.
template <class In, class T>
void columns_of(const In* table, int64_t K, int64_t stride, T* columns) {
    std::fill_n(columns, K * stride, -std::numeric_limits<T>::infinity());
    for (int64_t l = 0; l < K; ++l) {
        for (int64_t k = 0; k < K; ++k) {
            columns[k * stride + l] = static_cast<T>(table[l * K + k]);
        }
    }
}

// `columns`: of chains; `many`: several of its rows may be asked for at once. `failed` of the
// scratch: no memory.
Scores scores_of(const PackTable& packing, const Chains& c, int compute, bool columns, bool many,
                 Scratch& s) {
    const int64_t K = c.n_labels, bytes = compute == kFloat32 ? 4 : 8;
    int64_t stride, size;
    packing.layout(compute, K, &stride, &size);
    Scores scores;
    if (K <= Scores::kTilesTo || many) {
        void* tiles = s.take(size * bytes + 64);
        if (tiles) packing.pack_scores(compute, &c, tiles);
        scores.tiles = tiles;
    }
    if (K >= Scores::rows_from(compute)) {
        scores.rows = c.transition;
        if (compute != c.dtype) {  // float32 scores, added in double
            double* wide = s.array<double>(K * K);
            if (!wide) return scores;
            std::copy_n(static_cast<const float*>(c.transition), K * K, wide);
            scores.rows = wide;
        }
    }
    if (columns && !scores.rows) {
        void* to = s.take(K * stride * bytes);
        if (!to) return scores;
        const auto turn = [&](const auto* table) {
            compute == kFloat32 ? columns_of(table, K, stride, static_cast<float*>(to))
                                : columns_of(table, K, stride, static_cast<double*>(to));
        };
        c.dtype == kFloat32 ? turn(static_cast<const float*>(c.transition))
                            : turn(static_cast<const double*>(c.transition));
        scores.columns = to;
    }
    void* tops = s.take(stride * bytes);
    if (tops) packing.column_tops(compute, c.dtype, c.transition, K, tops);
    scores.tops = tops;
    return scores;
}

// The prepared tables, if they are of these chains.
const Prepared* fitting(const Prepared* p, const Chains& c) {
    return p != nullptr && p->level == &level() && c.dtype == kFloat64 && !c.per_edge ? p : nullptr;
}

}  // namespace

const PoolApi& pool() { return *g_pool; }
void use_pool(const PoolApi* api) { g_pool = api; }

Prepared* prepare(const Chains& c) {
    if (c.dtype != kFloat64 || c.per_edge) return nullptr;
    std::unique_ptr<Prepared> p(new Prepared);
    p->level = &level();
    Scratch temporary;
    Control control;
    if (!c.sparse) p->listed = find_default(c.dtype, c.transition, c.n_labels);
    const SparseTable* listed = c.sparse ? c.sparse : p->listed.get();
    bool fits = listed ? pack_sparse(*listed, kFloat64, p->workspace, &p->packing)
                       : pack_table(p->level->packing, pool(), c, kLinear64, false, 1, p->workspace,
                                    &temporary, &p->packing, &control);
    if (fits && c.transition) {
        p->scores = scores_of(p->level->packing, c, kFloat64, true, false, p->workspace);
    }
    if (!fits || p->workspace.failed) throw std::bad_alloc();
    return p.release();
}

void release(Prepared* p) { delete p; }
const SparseTable* listed_by(const Prepared* p) { return p ? p->listed.get() : nullptr; }

namespace {

// Of a call that was answered exactly for some components, and with islands for others.
Report joined(const Report& exact, const Report& islands) {
    Report out = islands;
    add(out.counts, exact.counts);
    // The first infeasible component counts; no memory, and the caller's wish, count before it.
    const bool first = exact.status == kInfeasible &&
                       (islands.status == kOk ||
                        (islands.status == kInfeasible && exact.component < islands.component));
    if (!first) return out;
    Report other = exact;
    other.counts = out.counts;
    return other;
}
bool is_over(const Report& report) { return report.status != kOk && report.status != kInfeasible; }

// `without`: gets components that gave up their islands, and have no answer yet, ascending.
Report answer(const Request& r, std::vector<int64_t>& without, Control& control) {
    std::vector<int64_t> wide, none;
    Report report =
        with_call(r, control, [&](ForestCall& call) { return call.solve(without, wide); });
    for (size_t i = 0; i < wide.size() && report.status == kOk;) {
        const InDouble part(r, wide, &i);
        const Report more = with_call(part.request(), control,
                                      [&](ForestCall& call) { return call.solve(without, none); });
        part.write();
        report.status = more.status;
        report.component = more.component;
        report.position = more.position;
        Counts counts = more.counts;
        counts.widened = 0;
        if (r.zeta < 1.0) add(report.counts, counts);  // else all components count from the start
    }
    std::sort(without.begin(), without.end());
    return report;
}

Report exactly(const Request& r, const std::vector<int64_t>* components, int64_t number,
               Control& control) {
    Request exact(r);
    exact.zeta = 1.0;
    exact.islands = nullptr;
    exact.components = components;
    std::vector<int64_t> none;
    Report report = answer(exact, none, control);
    report.counts.without = number;
    return report;
}

Report solve(const Request& r, Control& control) {
    std::vector<int64_t> without;
    const Report report = answer(r, without, control);
    if (without.empty() || is_over(report)) return report;
    const Report exact = exactly(r, &without, static_cast<int64_t>(without.size()), control);
    return is_over(exact) ? exact : joined(exact, report);
}

}  // namespace

Report infer(const Request& r, Control& control) {
    const Chains& c = r.model.arrays;
    if (r.zeta < 1.0 && c.sparse && c.n_labels >= kLeastLabels) {
        // A message that reads a list costs no more than what islands cost beside messages.
        return exactly(r, r.components,
                       r.components ? static_cast<int64_t>(r.components->size()) : c.n_sequences,
                       control);
    }
    // Chains tell as they go, while their scores are in the cache.
    if (!(r.zeta < 1.0) || !r.model.layout || !may_lack_islands(c.n_labels, c.n_positions, false)) {
        return solve(r, control);
    }
    const std::vector<uint8_t> worth =
        worth_islands(r, turned_tables(r.model), 0, r.model.arrays.n_sequences, control);
    std::vector<int64_t> some[2];
    for (size_t s = 0; s < worth.size(); ++s) some[worth[s]].push_back(static_cast<int64_t>(s));
    if (some[0].empty()) return solve(r, control);
    const Report report = exactly(r, some[1].empty() ? nullptr : &some[0],
                                  static_cast<int64_t>(some[0].size()), control);
    if (some[1].empty() || is_over(report)) return report;
    Request rest(r);
    rest.components = &some[1];
    return joined(report, solve(rest, control));
}

Report decode(const Request& r, Control& control) {
    return with_call(r, control, [](ForestCall& call) { return call.decode(); });
}

void show(const Request& r) {
    Control control;
    with_call(r, control, [](ForestCall& call) { call.show(); });
}

const ForestApi* forest_api() {
    static const ForestApi api{infer, decode, prepare, release, listed_by};
    return &api;
}

ForestCall::ForestCall(const Request& request, Control& control)
    : r_(request),
      c_(request.model.arrays),
      control_(control),
      workspace_(request.threads),
      session_(workspace_.session()),
      islands_(request.zeta < 1.0),
      edges_(request.pairwise || request.expectations || request.log_left || request.energies),
      status_(at(c_.n_sequences), kOk),
      tables_(1, c_),
      log_z_(request.log_z) {
    order_.reserve(status_.size());
    if (r_.components) {
        order_ = *r_.components;
    } else {
        order_.resize(status_.size());
        std::iota(order_.begin(), order_.end(), int64_t{0});
    }
    if (!log_z_) {
        own_log_z_.resize(status_.size());
        log_z_ = own_log_z_.data();
    }
    for (int64_t s : order_) log_z_[s] = 0.0;
    if (r_.model.layout) return;
    const auto empty = [&](int64_t s) { return length(c_, s) == 0; };
    order_.erase(std::remove_if(order_.begin(), order_.end(), empty), order_.end());
}

bool ForestCall::spell() {
    if (c_.transition || c_.per_edge) return true;
    const int64_t size = c_.n_labels * c_.n_labels * bytes(c_.dtype);
    spelled_.reset(new (std::nothrow) char[at(size)]);
    if (!spelled_) return false;
    c_.sparse->spell(c_.dtype, spelled_.get());
    for (Chains* c : {&r_.model.arrays, &tables_[0]}) c->transition = spelled_.get();
    return true;
}

Report ForestCall::no_memory() {
    report_.status = kNoMemory;
    return report_;
}

Report ForestCall::solve(std::vector<int64_t>& without, std::vector<int64_t>& wide) {
    int steps[3];
    const int n_steps = arithmetics_of(c_.dtype, r_.narrow, steps);
    // Components that messages one way do not settle are done in full. Those of chains that are
    // drawn from go with the samples.
    const bool alone = !r_.marginals && !r_.compared && !edges_;
    one_way_ = !islands_ && alone && (r_.model.layout || r_.size == 0);
    while (step_ < n_steps && !order_.empty()) {
        arithmetic_ = steps[step_];
        session_.packing.reset();
        if (!pack()) return no_memory();
        // In float32 a table held at its floor may be felt, whatever the messages.
        for (const Packing& p : packing_) one_way_ &= !(is_single(arithmetic_) && p.floored);
        if (!pass()) return no_memory();
        std::vector<int64_t> done;
        if (!judge(&done, &without)) break;
        finish(done);
        if (control_.stop.load()) {
            judge(nullptr, nullptr);
            break;
        }
        if (!one_way_ && step_ == 0) {
            report_.counts.widened = static_cast<int64_t>(order_.size());
        }
        step_ += !one_way_;
        one_way_ = false;
    }
    if (report_.status == kOk) wide.swap(order_);
    return report_;
}

Report ForestCall::decode() {
    session_.packing.reset();
    if (!best()) return no_memory();
    judge(nullptr, nullptr);
    return report_;
}

// exp(transition) of each table, and for energies its depth; false when memory is exhausted.
bool ForestCall::pack() {
    packing_.assign(tables_.size(), Packing());
    depth_.assign(r_.energies ? tables_.size() : 0, Packing());
    const Prepared* prepared = arithmetic_ == kLinear64 ? fitting(r_.prepared, c_) : nullptr;
    if (prepared != nullptr && !islands_ && !r_.energies) {
        packing_[0] = prepared->packing;
        return true;
    }
    const auto made = [&](size_t i, bool rows, std::vector<Packing>& out, bool depth) {
        return pack_table(level().packing, pool(), tables_[i], arithmetic_, rows, r_.threads,
                          session_.packing, session_.temporary(), &out[i], &control_, depth);
    };
    for (size_t i = 0; i < tables_.size(); ++i) {
        const SparseTable* list = tables_[i].sparse;
        // The depths of a sum of rows and columns have no such default.
        const bool plain = !list || (list->rows.empty() && list->columns.empty());
        if (list && !islands_ && (plain || !r_.energies) && !is_log(arithmetic_)) {
            if (!pack_sparse(*list, computes(), session_.packing, &packing_[i])) return false;
            if (r_.energies &&
                !pack_sparse(*list, computes(), session_.packing, &depth_[i], true)) {
                return false;
            }
            continue;
        }
        if (!spell()) return false;
        if (!made(i, islands_ || r_.pairwise || r_.size > 0, packing_, false)) return false;
        if (r_.energies && !made(i, false, depth_, true)) return false;
    }
    return true;
}

void ForestCall::fill(Pass& p) {
    static_cast<Request&>(p) = r_;
    p.log_z = log_z_;
    p.arithmetic = arithmetic_;
    p.packing = packing_.data();
    p.depth = !depth_.empty() && (depth_[0].forward || depth_[0].sparse) ? depth_.data() : nullptr;
    p.one_way = one_way_;
    p.status = status_.data();
    p.scratch = session_.keep();
    p.control = &control_;
}

Scores ForestCall::scores(const Chains& table, int compute, bool turned) {
    Scratch& s = session_.packing;
    if (table.sparse && !table.per_edge) {
        Scores found;
        found.listed = list_scores(*table.sparse, table.dtype, compute, turned, s);
        return found;
    }
    constexpr int64_t kMany = 256;  // positions for which it pays to put a large table into tiles
    const bool chains = !r_.model.layout, many = c_.n_positions >= kMany;
    if (compute == kFloat64 && !turned && fitting(r_.prepared, c_) && r_.prepared->scores.tops) {
        Scores ready = r_.prepared->scores;
        if (ready.rows) ready.rows = c_.transition;
        if (ready.tiles || !many) return ready;
    }
    const int64_t K = c_.n_labels, width = bytes(table.dtype);
    Chains c = table;
    if (turned) {
        const char* from = static_cast<const char*>(c.transition);
        char* to = s.array<char>(K * K * width);
        for (int64_t l = 0; to && l < K; ++l) {
            for (int64_t k = 0; k < K; ++k) {
                std::copy_n(from + (l * K + k) * width, width, to + (k * K + l) * width);
            }
        }
        c.transition = to;
    }
    return s.failed ? Scores() : scores_of(level().packing, c, compute, chains, many, s);
}

void ForestCall::add_expectations(const std::vector<double>& sums, int64_t size) {
    const int64_t kk = c_.n_labels * c_.n_labels;
    const bool bare = !is_log(arithmetic_) && !tables_[0].per_edge;  // sums leave the table out
    const auto score = [&](int64_t i, size_t table) {
        if (r_.pairs) return r_.pairs->score[at(i)];
        if (!c_.transition) return c_.sparse->at_pair(c_.dtype, i / c_.n_labels, i % c_.n_labels);
        return entry(c_, tables_[table].transition, i % kk);
    };
    for (int64_t i = 0; i < size; ++i) {
        double sum = 0.0;
        for (size_t t = at(i); t < sums.size(); t += at(size)) sum += sums[t];
        if (bare && sum != 0.0) {
            const size_t table = tables_.size() > 1 ? at(i / kk) : 0;
            sum *= std::exp(score(i, table) - packing_[table].shift);
        }
        r_.expectations[i] += sum;
    }
}

// After a pass: `done` gets the components that are, `order_` has those to be done again. False:
// the call is over, and the report says why.
bool ForestCall::judge(std::vector<int64_t>* done, std::vector<int64_t>* without) {
    if (const int stop = control_.stop.load()) {
        report_.status = stop == 2 ? kNoMemory : kCancelled;
        return false;
    }
    std::vector<int64_t> wide, unsettled;
    for (int64_t s : order_) {
        switch (status_[at(s)]) {
            case kOk:
                if (done) done->push_back(s);
                break;
            case kWithout:
                if (without) without->push_back(s);
                break;
            case kWiden:
                wide.push_back(s);
                unsettled.push_back(s);
                break;
            case kInfeasible:
                if (report_.component < 0) report_.component = s;
                unsettled.push_back(s);
                break;
            default:
                report_.status = static_cast<Status>(status_[at(s)]);
                return false;
        }
    }
    if (report_.component >= 0) {
        report_.status = kInfeasible;
        // An earlier one that still waits for a wider arithmetic may be infeasible too.
        if (!spell()) {
            report_.status = kNoMemory;
            return false;
        }
        first_dead(r_.model, unsettled, &report_.component, &report_.position);
        return false;
    }
    order_.swap(wide);
    return true;
}

}  // namespace vs
