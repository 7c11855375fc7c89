// Chains that are cut into chunks: which, and how the chunks are joined.
#include <algorithm>

#include "core/sum.h"
#include "forest/call.h"

namespace vs {
namespace {

// A chain has the status of its worst chunk: the one that ends the call first.
int32_t worse(int32_t a, int32_t b) {
    const auto rank = [](int32_t status) {
        return status == kWiden ? 1 : status == kOk ? 0 : 1 + status;
    };
    return rank(b) > rank(a) ? b : a;
}

}  // namespace

Cuts PathCall::cut(std::vector<int64_t>& order, PathPass& p, Verb probe) {
    const CutRule rule = cut_rule();
    Cuts cuts;
    // The longest is the first.
    if (rule.least < 0 || order.empty() || length(c_, order[0]) < rule.least) return cuts;
    p.scratch = session_.temporary();
    p.agree = rule.agree;
    std::vector<int64_t> in_chunks, rest;
    for (int64_t s : order) {
        p.run_in = 0;
        if (length(c_, s) >= rule.least && !control_.stop.load()) {
            if (rule.run_in > 0) {
                p.run_in = rule.run_in;
            } else {
                level().run(&p, {probe, TaskKind::kPiece, {s, s + 1}, 0, nullptr});
            }
        }
        const size_t before = cuts.chunk.size();
        const CutFor what = probe == Verb::kPathBestProbe ? CutFor::kBest
                            : r_.size > 0                 ? CutFor::kSamples
                                                          : CutFor::kMessages;
        if (p.run_in > 0) cut_chain(c_, s, p.run_in, what, p.narrow, cuts);
        (cuts.chunk.size() > before ? in_chunks : rest).push_back(s);
    }
    order = in_chunks;
    order.insert(order.end(), rest.begin(), rest.end());
    return cuts;
}

size_t PathCall::cut_rows(int compute) const {
    int64_t row, unused;
    level().packing.layout(compute, c_.n_labels, &row, &unused);
    return at(4 * row * bytes(compute) / 8);
}

void PathCall::do_chunks(PathPass& p, Verb verb, bool forward, int64_t first, int64_t last) {
    const TaskKind kind = forward ? TaskKind::kForward : TaskKind::kBackward;
    if (first < last) level().run(&p, {verb, kind, {first, last}, 0, nullptr});
}

PathCall::Joined PathCall::compare(PathPass& p, int64_t first, int64_t last, Verb compare,
                                   Verb pass_on) {
    do_chunks(p, compare, true, first + 1, last);
    if (!one_way_) do_chunks(p, compare, false, first, last - 1);
    int64_t wrong = 0, wrong_states = 0;
    for (int64_t i = first; i < last; ++i) {
        wrong += p.chunk_end[i].wrong_f + p.chunk_end[i].wrong_b;
        wrong_states += p.chunk_end[i].wrong_b;
    }
    if (wrong == 0) return Joined::kRight;
    // Passing messages on in order takes longer than a pass from both ends; states, no longer than
    // all in order.
    const int64_t few = compare == Verb::kPathCompare ? 8 : 2;
    if (compare == Verb::kPathSampleCompare) wrong -= wrong_states;  // these soon meet
    if (cut_rule().run_in == 0 && few * wrong > last - first) return Joined::kApart;
    for (int64_t i = first + 1; i < last && !control_.stop.load(); ++i) {
        if (!p.chunk_end[i].wrong_f) continue;
        do_chunks(p, pass_on, true, i, i + 1);
        do_chunks(p, compare, true, i + 1, std::min(i + 2, last));
    }
    // Chunks that were done again may end otherwise.
    if (!one_way_) do_chunks(p, compare, false, first, last - 1);
    for (int64_t i = last - 2; i >= first && !control_.stop.load(); --i) {
        if (!p.chunk_end[i].wrong_b) continue;
        do_chunks(p, pass_on, false, i, i + 1);
        do_chunks(p, compare, false, std::max(i - 1, first), i);
    }
    return Joined::kPassedOn;
}

std::vector<int64_t> PathCall::join(PathPass& p, const Cuts& cuts, const ForestPlan& whole,
                                    std::vector<double>& sums, int64_t size) {
    std::vector<int64_t> uncut;
    std::vector<int32_t> status(cuts.end.size(), kOk);
    p.scratch = session_.temporary();
    p.agree = cut_rule().agree;
    const auto ends = [&](size_t which) { return Item{cuts.first(which), cuts.end[which]}; };
    bool any = false;
    // Sums lose what its chunks have added; positions count when they are done again.
    const auto leave_out = [&](size_t which) {
        for (int64_t i = ends(which).first; i < ends(which).last; ++i) {
            const Chunk& part = cuts.chunk[at(i)];
            if (p.chunk_end[i].status == kOk) control_.done.fetch_sub(part.last - part.first);
            p.chunk_end[i].left_out = true;
        }
        any = true;
    };
    const auto read_status = [&](size_t which) {
        if (p.chunk_end[ends(which).first].left_out) return;
        double added = 0.0;
        for (int64_t i = ends(which).first; i < ends(which).last; ++i) {
            status[which] = worse(status[which], p.chunk_end[i].status);
            added += p.chunk_end[i].added;
        }
        // States at floors that cuts do not compare have 6 times as much: see least_compared().
        const bool wide = is_single(arithmetic_) && added > 1e-8;
        if (status[which] == kOk && wide) status[which] = kWiden;
        if (status[which] == kWiden) leave_out(which);
    };
    for (size_t which = 0; which < cuts.end.size(); ++which) {
        const int64_t first = ends(which).first, last = ends(which).last;
        read_status(which);
        if (status[which] != kOk) continue;
        const Joined joined = compare(p, first, last, Verb::kPathCompare, Verb::kPathPassOn);
        any |= joined == Joined::kPassedOn;
        if (joined != Joined::kApart) continue;
        uncut.push_back(cuts.chunk[at(first)].sequence);
        leave_out(which);
    }
    p.again = true;
    while (any && !control_.stop.load()) {
        any = false;
        do_again(p, whole, sums, size);
        for (size_t which = 0; which < cuts.end.size(); ++which) read_status(which);
    }
    for (size_t which = 0; which < cuts.end.size(); ++which) {
        const int64_t s = cuts.chunk[at(ends(which).first)].sequence;
        if (std::find(uncut.begin(), uncut.end(), s) != uncut.end()) continue;
        status_[at(s)] = status[which];
        Sum log_z;
        for (int64_t i = ends(which).first; i < ends(which).last; ++i) {
            log_z.add(p.chunk_end[i].log_mass);
        }
        if (status[which] == kOk) log_z_[s] = log_z.total();
    }
    return uncut;
}

std::vector<int64_t> PathCall::join_samples(PathPass& p, const Cuts& cuts,
                                            std::vector<int64_t>& unknown) {
    std::vector<int64_t> uncut;
    each_cut(p, cuts, [&](int64_t s, int64_t first, int64_t last) {
        const auto well = [&] {
            return std::all_of(p.chunk_end + first, p.chunk_end + last,
                               [](const ChunkEnd& e) { return e.status == kOk; });
        };
        const bool known = well();
        const bool joined = known && compare(p, first, last, Verb::kPathSampleCompare,
                                             Verb::kPathSampleAgain) != Joined::kApart;
        if (joined && well()) {
            status_[at(s)] = kOk;
            return;
        }
        // Whole sequences know what to do where something is the matter.
        (known || p.proved ? uncut : unknown).push_back(s);
        for (int64_t i = first; i < last; ++i) {
            const Chunk& part = cuts.chunk[at(i)];
            if (p.chunk_end[i].status == kOk) control_.done.fetch_sub(part.last - part.first);
        }
    });
    return uncut;
}

void PathCall::do_again(PathPass& p, const ForestPlan& whole, std::vector<double>& sums,
                        int64_t size) {
    // Whole tasks are done again: each has one table of sums.
    std::vector<int64_t> again;
    Tasks tasks;
    for (int64_t t = 0; t < whole.tasks.size(); ++t) {
        const Item item = whole.tasks.item(t);
        if (whole.tasks.kind(t) != TaskKind::kChunks) continue;
        const bool wrong =
            std::any_of(p.chunk_end + item.first, p.chunk_end + item.last,
                        [](const ChunkEnd& e) { return e.wrong_f || e.wrong_b || e.left_out; });
        if (!wrong) continue;
        again.push_back(t);
        tasks.add(TaskKind::kChunks, item.first, item.last, 0.0);
        if (r_.expectations) std::fill_n(sums.data() + t * size, size, 0.0);
    }
    tasks.finish();
    run(tasks.view("join"), threads_for(whole.nanoseconds, r_.threads),
        [&](int64_t task, int worker) {
            double* to = r_.expectations ? sums.data() + again[at(task)] * size : nullptr;
            level().run(&p, {Verb::kPathExact, TaskKind::kChunks, tasks.item(task), worker, to});
        });
}

}  // namespace vs
