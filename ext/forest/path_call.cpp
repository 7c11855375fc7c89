#include <algorithm>
#include <utility>

#include "forest/call.h"

namespace vs {
// Longest first (ties: lowest index), by counting where lengths are ordinary.
std::vector<int64_t> PathCall::by_length(const std::vector<int64_t>& order) const {
    if (order.size() < 2) return order;
    int64_t longest = 0;
    for (int64_t s : order) longest = std::max(longest, length(c_, s));
    std::vector<int64_t> sorted(order);
    if (longest > 4 * static_cast<int64_t>(order.size()) + 1024) {
        std::stable_sort(sorted.begin(), sorted.end(),
                         [&](int64_t a, int64_t b) { return length(c_, a) > length(c_, b); });
        return sorted;
    }
    std::vector<int64_t> next(at(longest) + 2, 0);
    for (int64_t s : order) ++next[at(longest - length(c_, s)) + 1];
    for (size_t i = 1; i < next.size(); ++i) next[i] += next[i - 1];
    for (int64_t s : order) sorted[at(next[at(longest - length(c_, s))]++)] = s;
    return sorted;
}

PathCall::PathCall(const Request& request, Control& control) : ForestCall(request, control) {
    if (islands_) return;
    report_.counts.segments = static_cast<int64_t>(order_.size());
    report_.counts.sparse = 2 * report_.counts.segments;
    int64_t positions = 0;
    for (int64_t s : order_) positions += length(c_, s);
    report_.counts.full = 2 * (positions - report_.counts.segments);
}

bool PathCall::pass() {
    if (islands_) {
        find_islands();
    } else if (r_.size > 0) {
        sample(order_, Draw::kAlone);
    } else {
        exact(order_, true);
    }
    return true;
}

ForestPlan PathCall::plan(const std::vector<int64_t>& order, const Cuts& cuts,
                          int arithmetic) const {
    const bool in_output = arithmetic != kLinear32of64;
    const bool halves = (r_.marginals || r_.compared) && !edges_ && in_output;
    return plan_path(c_, order, cuts, r_.threads, halves, r_.narrow,
                     r_.expectations ? r_.expectation_chunks : 0, is_log(arithmetic) ? 20.0 : 1.0);
}

Cuts PathCall::cut_messages(std::vector<int64_t>& order) {
    // Rows of logarithms seldom agree before they do bit for bit: cutting takes longer.
    if (is_log(arithmetic_)) return Cuts();
    PathPass p;
    fill(p);
    return cut(order, p, Verb::kPathProbe);
}

void PathCall::show() {
    int steps[3];
    arithmetics_of(c_.dtype, r_.narrow, steps);
    arithmetic_ = steps[0];
    std::vector<int64_t> order = by_length(order_);
    session_.packing.reset();
    if (!order.empty() && length(c_, order[0]) >= cut_rule().least && !pack()) return;
    const Cuts cuts = cut_messages(order);
    const ForestPlan p = plan(order, cuts, arithmetic_);
    pool().show_plan(through(p.tasks.view("exact"), order), threads_for(p.nanoseconds, r_.threads));
}

void PathCall::exact(const std::vector<int64_t>& some, bool may_cut, std::vector<int64_t>* left) {
    std::vector<int64_t> order = by_length(some);
    const Cuts cuts = may_cut ? cut_messages(order) : Cuts();
    if (left) {
        const auto first = order.begin() + static_cast<int64_t>(cuts.end.size());
        left->assign(first, order.end());
        order.erase(first, order.end());
    }
    const ForestPlan whole = plan(order, cuts, arithmetic_);
    const Tasks& tasks = whole.tasks;
    const int64_t n_split = static_cast<int64_t>(whole.n_split);
    const int64_t first_split = static_cast<int64_t>(cuts.end.size());
    const int64_t kk = r_.pairs ? r_.pairs->n_listed() : c_.n_labels * c_.n_labels;
    PathPass p;
    fill(p);
    p.order = order.data();
    std::vector<void*> lanes(2 * (cuts.end.size() + whole.n_split));
    p.split = lanes.data();
    session_.keep()[0].reset();
    const auto split = [&](Verb verb) {
        p.scratch = session_.keep();
        for (int64_t i = first_split; i < first_split + n_split; ++i) {
            level().run(&p, {verb, TaskKind::kPiece, {i, i + 1}, 0, nullptr});
        }
    };
    split(Verb::kPathOpen);
    for (int64_t i = first_split; i < first_split + n_split; ++i) {
        if (status_[at(order[at(i)])] == kNoMemory) return;
    }
    std::vector<ChunkEnd> ends(cuts.chunk.size());
    std::vector<double> rows(cut_rows(computes()) * cuts.chunk.size());
    p.chunk = cuts.chunk.data();
    p.chunk_end = ends.data();
    p.cut_rows = rows.data();
    std::vector<double> sums(r_.expectations ? at(tasks.size() * kk) : 0, 0.0);
    // The split lanes live in worker 0's first scratch, which groups would reset.
    if (n_split > 0) p.scratch = session_.temporary();
    run(through(tasks.view("exact"), order), threads_for(whole.nanoseconds, r_.threads),
        [&](int64_t task, int worker) {
            level().run(&p, {Verb::kPathExact, tasks.kind(task), tasks.item(task), worker,
                             r_.expectations ? sums.data() + task * kk : nullptr});
        });
    split(Verb::kPathClose);
    const std::vector<int64_t> uncut = join(p, cuts, whole, sums, kk);
    if (r_.expectations) add_expectations(sums, kk);
    if (left) {
        left->insert(left->end(), uncut.begin(), uncut.end());
    } else if (!uncut.empty() && !control_.stop.load()) {
        exact(uncut, false);
    }
}

std::vector<int64_t> PathCall::take_proved(std::vector<int64_t>& open) {
    std::vector<int64_t> unknown(open), proved;
    for (int64_t s : unknown) status_[at(s)] = kWiden;
    const int64_t size = std::exchange(r_.size, 0);
    exact(unknown, true, &open);
    r_.size = size;
    for (int64_t s : open) status_[at(s)] = kWiden;
    open.clear();
    for (int64_t s : unknown) {
        const bool well = status_[at(s)] == kOk;
        (well ? proved : open).push_back(s);
        if (well) control_.done.fetch_sub(length(c_, s));
    }
    return proved;
}

void PathCall::sample(const std::vector<int64_t>& some, Draw by) {
    std::vector<int64_t> order = by_length(some), open;
    // A table held at its floor may be felt in float32: messages one way do not tell. Tasks find
    // out where each edge has a table.
    if (by == Draw::kAlone && !c_.per_edge && is_single(arithmetic_) && packing_[0].floored) {
        const auto is_cut = [&](int64_t s) {
            return cut_rule().least >= 0 && length(c_, s) >= cut_rule().least;
        };
        const auto middle = std::stable_partition(order.begin(), order.end(), is_cut);
        open.assign(order.begin(), middle);
        order.erase(order.begin(), middle);
        by = Draw::kWhole;
    }
    if (!order.empty()) draw(order, by, open);
    if (open.empty() || control_.stop.load()) return;
    if (by == Draw::kProved) return sample(open, Draw::kWhole);
    const std::vector<int64_t> proved = take_proved(open);
    if (control_.stop.load()) return;
    if (!proved.empty()) sample(proved, Draw::kProved);
    if (!open.empty() && !control_.stop.load()) sample(open, Draw::kWhole);
}

void PathCall::draw(std::vector<int64_t>& order, Draw by, std::vector<int64_t>& unknown) {
    const Cuts cuts = by == Draw::kWhole ? Cuts() : cut_messages(order);
    const bool abreast = c_.n_labels <= (c_.per_edge ? kAbreastEdges : kAbreast32);
    const int64_t together = abreast ? sequences_together(c_, false) : 4;
    const ForestPlan whole = plan_samples(c_, order, cuts, r_.threads, together, r_.size);
    std::vector<ChunkEnd> ends(cuts.chunk.size());
    std::vector<int64_t> into(cuts.chunk.size() * at(r_.size));
    std::vector<double> rows(cut_rows(computes()) * cuts.chunk.size());
    PathPass p;
    fill(p);
    p.order = order.data();
    p.chunk = cuts.chunk.data();
    p.chunk_end = ends.data();
    p.cut_rows = rows.data();
    p.into = into.data();
    p.proved = by == Draw::kProved;
    std::atomic<int64_t> in_vain{-1};
    p.in_vain = &in_vain;
    const int64_t tails = static_cast<int64_t>(ends.size()) * kTailRows * c_.n_labels;
    if (tails > 0) {
        p.tails = session_.packing.take(tails * bytes(computes()));
        if (!p.tails) return control_.stop.store(2);
    }
    run(through(whole.tasks.view("sample"), order), threads_for(whole.nanoseconds, r_.threads),
        [&](int64_t task, int worker) {
            level().run(&p, {Verb::kPathSample, whole.tasks.kind(task), whole.tasks.item(task),
                             worker, nullptr});
        });
    std::vector<int64_t> uncut = join_samples(p, cuts, unknown);
    if (!uncut.empty() && !control_.stop.load()) draw(uncut, Draw::kWhole, unknown);
}

}  // namespace vs
