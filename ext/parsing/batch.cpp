#include "parsing/batch.h"

#include <algorithm>
#include <cmath>
#include <new>
#include <vector>

#include "core/session.h"

namespace vs::parsing {
namespace {

constexpr double kWork = 1 << 16;  // n^3 of a task, about: 30 microseconds

struct Job {
    const Batch& batch;
    const Tasks& tasks;
    Control* control;
    int64_t most;      // arcs of the longest sentence
    double** scratch;  // of each worker
    const int64_t *arc_at, *word_at, *order, *groups;
    double *value, *marginals, *of_parts;
    int64_t* heads;
    Fault* fault;  // of each task

    // Whether all scores are some; else where the first stands that is none.
    static bool good(const double* x, int64_t n, Fault* fault) {
        if (dependency::valid(x, (n + 1) * (n + 1), kLargestScore)) return true;
        for (int64_t h = 0; h <= n; ++h) {
            for (int64_t m = 1; m <= n; ++m) {
                const double v = x[h * (n + 1) + m];
                if (m != h && !(v <= kLargestScore && (v >= -kLargestScore || v == -INFINITY))) {
                    fault->head = h;
                    fault->modifier = m;
                    return false;
                }
            }
        }
        return true;
    }

    // The scores of a sentence as doubles, null where they are none.
    const double* scores(int64_t i, double* work, Fault* fault) const {
        const int64_t n = batch.words[i], size = (n + 1) * (n + 1);
        const double* x = static_cast<const double*>(batch.scores[i]);
        if (batch.dtype == kFloat32) {
            const float* narrow = static_cast<const float*>(batch.scores[i]);
            std::copy(narrow, narrow + size, work);
            x = work;
        }
        if (good(x, n, fault)) return x;
        fault->sentence = i;
        return nullptr;
    }

    void sentence(int64_t i, double* work, Fault* fault) const {
        const double* x = scores(i, work, fault);
        if (!x) return;
        work += most;
        const dependency::Sentence s{x, batch.words[i], batch.single_root};
        if (batch.part_at) {
            const int64_t first = batch.part_at[i];
            const dependency::Grandparents parts{batch.part_at[i + 1] - first,
                                                 batch.part_words + 3 * first,
                                                 batch.part_score + first};
            value[i] = heads ? dependency::best_grandparents(s, parts, heads + word_at[i], work)
                             : dependency::grandparents(s, parts, marginals + arc_at[i],
                                                        of_parts + first, work);
        } else if (heads) {
            value[i] = dependency::best(batch.kind, s, heads + word_at[i], work);
        } else {
            dependency::Arcs arcs;
            arcs.marginal = marginals + arc_at[i];
            value[i] = dependency::marginals(batch.kind, s, arcs, work);
        }
        if (!(value[i] > -INFINITY)) *fault = {i, -1, -1};
    }

    // Some sentences side by side; the fault is that of the first, in the order of the batch.
    void several(const int64_t* which, int64_t count, double* work, Fault* fault) const {
        dependency::Sentence s[dependency::kMostLanes] = {};
        double *out[dependency::kMostLanes] = {}, found[dependency::kMostLanes];
        int64_t own[dependency::kMostLanes], some = 0;
        for (int64_t l = 0; l < count; ++l) {
            const int64_t i = which[l], n = batch.words[i];
            Fault here;
            const double* x = scores(i, work, &here);
            if (!x) {
                keep_first(here, fault);
                continue;
            }
            work += (n + 1) * (n + 1);
            s[some] = {x, n, batch.single_root};
            out[some] = marginals + arc_at[i];
            own[some++] = i;
        }
        if (some > 0) dependency::several(batch.kind, s, some, out, found, work);
        for (int64_t l = 0; l < some; ++l) {
            value[own[l]] = found[l];
            if (!(found[l] > -INFINITY)) keep_first({own[l], -1, -1}, fault);
        }
    }
    // Faults have the number of a sentence, or -1: none.
    static void keep_first(const Fault& other, Fault* fault) {
        if (other.sentence < 0) return;
        if (fault->sentence < 0 || other.sentence < fault->sentence) *fault = other;
    }

    static void run(void* context, int64_t task, int worker) {
        Job& job = *static_cast<Job*>(context);
        double* work = job.scratch[worker];
        const Item item = job.tasks.item(task);
        for (int64_t g = item.first; g < item.last; ++g) {
            if (job.control->stop.load(std::memory_order_relaxed)) return;
            const int64_t first = job.groups[g], count = job.groups[g + 1] - first;
            Fault fault;
            if (count == 1) {
                job.sentence(job.order[first], work, &fault);
            } else {
                job.several(job.order + first, count, work, &fault);
            }
            keep_first(fault, &job.fault[task]);
        }
    }
};

// Sentences in groups that are done together, in their order: over all trees those of one length,
// where they fill more than half of the lanes; over projective ones those of about one. An answer's
// bits follow from the batch alone.
void group(const Batch& b, bool side_by_side, std::vector<int64_t>* order,
           std::vector<int64_t>* groups) {
    for (int64_t i = 0; i < b.sentences; ++i) order->push_back(i);
    const bool any = b.kind == dependency::Kind::kTree;
    const int64_t lanes = side_by_side ? dependency::lanes() : 1;
    const int64_t longest = any ? dependency::kMostAbreast : dependency::kMostSpans;
    const auto words = [&](int64_t place) { return b.words[(*order)[at(place)]]; };
    if (lanes > 1) {
        std::stable_sort(order->begin(), order->end(),
                         [&](int64_t i, int64_t j) { return b.words[i] < b.words[j]; });
    }
    groups->push_back(0);
    while (groups->back() < b.sentences) {
        const int64_t first = groups->back(), n = words(first);
        const int64_t most = n > 1 && n <= longest ? lanes : 1;
        const auto fits = [&](int64_t more) { return any ? more == n : more <= longest; };
        int64_t last = first + 1;
        while (last < b.sentences && last < first + most && fits(words(last))) ++last;
        groups->push_back(!any || 2 * (last - first) > most ? last : first + 1);
    }
}

Fault run(const Batch& b, const PoolApi& pool, Control* control, double* value, double* marginals,
          double* of_parts, int64_t* heads) {
    Tasks tasks;
    std::vector<int64_t> arc_at{0}, word_at{0}, order, groups;
    int64_t longest = 0;
    for (int64_t i = 0; i < b.sentences; ++i) {
        const int64_t n = b.words[i];
        arc_at.push_back(arc_at.back() + (n + 1) * (n + 1));
        word_at.push_back(word_at.back() + n);
        longest = std::max(longest, n);
    }
    const bool together = !heads && !b.part_at;
    group(b, together, &order, &groups);
    const auto count = static_cast<int64_t>(groups.size()) - 1;
    double work = 0.0;
    for (int64_t g = 0, first = 0; g < count; ++g) {
        const double m = static_cast<double>(b.words[order[at(groups[at(g)])]] + 1);
        const auto size = static_cast<double>(groups[at(g + 1)] - groups[at(g)]);
        work += size * (b.part_at ? m * m * m * m : m * m * m);
        if (work < kWork && g + 1 < count) continue;
        tasks.add(TaskKind::kPiece, first, g + 1, work);
        first = g + 1;
        work = 0.0;
    }
    tasks.finish();
    const int64_t most = (longest + 1) * (longest + 1);
    const int64_t own = b.part_at ? dependency::grandparents_scratch_size(longest)
                                  : dependency::scratch_size(b.kind, longest);
    int64_t size = most + own;
    for (int64_t g = 0; g < count; ++g) {
        const int64_t some = groups[at(g + 1)] - groups[at(g)];
        if (some < 2) continue;
        const int64_t n = b.words[order[at(groups[at(g + 1)] - 1)]];
        size = std::max(size, some * (n + 1) * (n + 1) + dependency::several_size(b.kind, n));
    }
    const int64_t workers = std::max<int64_t>(1, std::min<int64_t>(b.threads, tasks.size()));
    // Memory of calls before: the system clears what is new.
    Workspace workspace(static_cast<int>(workers));
    std::vector<double*> scratch(at(workers));
    for (int64_t w = 0; w < workers; ++w) {
        Scratch& own_scratch = workspace.session().temporary()[w];
        own_scratch.reset();
        scratch[at(w)] = own_scratch.array<double>(size);
        if (!scratch[at(w)]) throw std::bad_alloc();
    }
    std::vector<Fault> fault(at(tasks.size()));
    Job job{b,
            tasks,
            control,
            most,
            scratch.data(),
            arc_at.data(),
            word_at.data(),
            order.data(),
            groups.data(),
            value,
            marginals,
            of_parts,
            heads,
            fault.data()};
    pool.run_plan(tasks.view("sentences"), Job::run, &job, static_cast<int>(workers), control);
    Fault found;
    for (const Fault& f : fault) Job::keep_first(f, &found);
    return found;
}

}  // namespace

Fault marginals(const Batch& batch, const PoolApi& pool, Control* control, double* log_z,
                double* out, double* of_parts) {
    return run(batch, pool, control, log_z, out, of_parts, nullptr);
}

Fault best(const Batch& batch, const PoolApi& pool, Control* control, double* score,
           int64_t* heads) {
    return run(batch, pool, control, score, nullptr, nullptr, heads);
}

}  // namespace vs::parsing
