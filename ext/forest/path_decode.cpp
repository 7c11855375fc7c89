// The best configurations of chains.
#include <algorithm>
#include <limits>
#include <new>

#include "forest/call.h"
#include "forest/nbest.h"

namespace vs {
namespace {

constexpr double kNoScore = -std::numeric_limits<double>::infinity();

}  // namespace

bool PathCall::best() {
    for (int64_t s : order_) log_z_[s] = kNoScore;
    PathPass p;
    fill(p);
    const Scores own = c_.per_edge ? Scores() : scores(c_, c_.dtype, false);
    if (!c_.per_edge) p.scores = &own;
    std::vector<ScanBackoff> backoff(at(r_.threads));
    p.backoff = backoff.data();
    if (r_.n_best == 1) {
        if (session_.packing.failed) return false;
        best_states(p, order_, true);
    } else if (!n_best(p)) {
        return false;
    }
    for (int64_t s : order_) status_[at(s)] = log_z_[s] > kNoScore ? kOk : kInfeasible;
    return true;
}

void PathCall::best_states(PathPass& p, const std::vector<int64_t>& some, bool may_cut) {
    std::vector<int64_t> order = by_length(some);
    const Cuts cuts = may_cut ? cut(order, p, Verb::kPathBestProbe) : Cuts();
    const ForestPlan whole = plan_best(c_, order, cuts, r_.threads);
    std::vector<ChunkEnd> ends(cuts.chunk.size());
    std::vector<double> rows(cut_rows(c_.dtype) * cuts.chunk.size());
    p.order = order.data();
    p.chunk = cuts.chunk.data();
    p.chunk_end = ends.data();
    p.cut_rows = rows.data();
    p.scratch = session_.keep();
    run(through(whole.tasks.view("decode"), order), threads_for(whole.nanoseconds, r_.threads),
        [&](int64_t task, int worker) {
            level().run(&p, {Verb::kPathBest, whole.tasks.kind(task), whole.tasks.item(task),
                             worker, nullptr});
        });
    const std::vector<int64_t> uncut = join_best(p, cuts);
    if (!uncut.empty() && !control_.stop.load()) best_states(p, uncut, false);
}

std::vector<int64_t> PathCall::join_best(PathPass& p, const Cuts& cuts) {
    std::vector<int64_t> uncut;
    each_cut(p, cuts, [&](int64_t s, int64_t first, int64_t last) {
        // A guess forbids nothing: where it leads nowhere nothing does.
        const auto dead = [&] {
            return std::any_of(p.chunk_end + first, p.chunk_end + last,
                               [](const ChunkEnd& e) { return e.status != kOk; });
        };
        if (dead()) return;
        const Joined joined = compare(p, first, last, Verb::kPathBestCompare, Verb::kPathBestAgain);
        if (joined == Joined::kApart) uncut.push_back(s);
        if (joined == Joined::kApart || control_.stop.load() || dead()) return;
        level().run(&p, {Verb::kPathBestScore, TaskKind::kPiece, {s, s + 1}, 0, nullptr});
    });
    return uncut;
}

bool PathCall::n_best(PathPass& p) {
    const int64_t k = r_.n_best;
    std::fill_n(log_z_ + c_.n_sequences, (k - 1) * c_.n_sequences, kNoScore);
    const Scores wider =
        c_.per_edge || c_.dtype == kFloat64 ? Scores() : scores(c_, kFloat64, false);
    const Scores* const wide = c_.dtype == kFloat64 || c_.per_edge ? p.scores : &wider;
    if (session_.packing.failed) return false;
    int64_t stride, unused;
    level().packing.layout(kFloat64, c_.n_labels, &stride, &unused);
    // Where rounding leaves a choice the best is what is returned for one alone.
    std::vector<int64_t> first(at(c_.n_positions));
    std::vector<double> score(at(c_.n_sequences), kNoScore);
    p.states = first.data();
    p.log_z = score.data();
    best_states(p, order_, true);
    if (control_.stop.load()) return true;
    const std::vector<int64_t> order = by_length(order_);
    const ForestPlan plan = plan_best(c_, order, Cuts(), r_.threads);
    const double* const columns = wide ? static_cast<const double*>(wide->columns) : nullptr;
    const NBest lists = {c_,
                         k,
                         level().heads,
                         columns,
                         wide ? wide->listed : nullptr,
                         stride,
                         first.data(),
                         score.data(),
                         r_.states,
                         log_z_,
                         control_};
    const auto found = [&](int64_t s) { return score[at(s)] > kNoScore; };
    const auto task_of = [&](const Item& item, int worker) {
        Scratch& scratch = session_.keep()[worker];
        int64_t some[kMostTogether];
        double* rows[kMostTogether];
        const int64_t most = c_.n_labels <= kBestAbreast64 ? kMostTogether : 1;
        for (int64_t i = item.first; i < item.last;) {
            scratch.reset();
            int m = 0;
            for (; i < item.last && m < most; ++i) {
                const int64_t s = order[at(i)];
                if (found(s)) some[m++] = s;
            }
            for (int r = 0; r < m; ++r) {
                rows[r] = scratch.array<double>(length(c_, some[r]) * stride);
            }
            if (scratch.failed) throw std::bad_alloc();
            level().prefix_scores(&c_, wide, some, m, rows, &scratch, p.backoff + worker, &control_,
                                  worker == 0);
            if (control_.stop.load() != 0) return;
            vs::n_best(lists, some, m, rows, scratch, worker == 0);
        }
    };
    run(through(plan.tasks.view("decode"), order), threads_for(plan.nanoseconds, r_.threads),
        [&](int64_t task, int worker) {
            try {  // an exception must not leave a worker of the pool
                task_of(plan.tasks.item(task), worker);
            } catch (const std::bad_alloc&) {
                control_.stop.store(2);
            }
        });
    return true;
}

}  // namespace vs
