#include "crf/scorer.h"

#include <algorithm>
#include <atomic>

namespace vs {

int64_t score_items(const Dictionary& names, const WeightRows& rows, const Items& items,
                    int64_t first, int64_t last, double limit, double* unary) noexcept {
    const int64_t K = rows.n_labels;
    const int64_t stop = last > first ? items.item_end[last - 1] : items.first(first);
    int64_t item = first, at = items.first(first), bad = -1;
    std::fill(unary + first * K, unary + last * K, 0.0);
    int32_t ids[Dictionary::kBlock];
    while (at < stop) {
        const int64_t n = std::min(stop - at, Dictionary::kBlock);
        names.look_up(items, at, at + n, ids);
        for (int64_t i = 0; i < n; ++i) {
            if (ids[i] >= 0) VS_PREFETCH_READ(rows.begin.data() + ids[i]);
        }
        for (int64_t i = 0; i < n; ++i) {
            if (ids[i] < 0) continue;
            const int64_t row = rows.begin[ids[i]];
            VS_PREFETCH_READ(rows.label.data() + row);
            VS_PREFETCH_READ(rows.weight.data() + row);
        }
        for (int64_t i = 0; i < n; ++i, ++at) {
            while (at == items.item_end[item]) ++item;
            if (ids[i] < 0) continue;
            // In the order of the attributes, as CRFsuite adds them.
            double* const score = unary + item * K;
            const double v = items.value[at];
            const int64_t end = rows.begin[ids[i] + 1];
            for (int64_t j = rows.begin[ids[i]]; j < end; ++j) {
                score[rows.label[j]] += rows.weight[j] * v;
            }
        }
    }
    for (int64_t i = last * K - 1; i >= first * K; --i) {
        // NaN fails both comparisons.
        if (!(unary[i] <= limit && unary[i] >= -limit)) bad = i / K;
    }
    return bad;
}

namespace {

constexpr int64_t kPiece = 256;  // items: a task of some tens of microseconds

struct ScoreJob {
    const Dictionary* names;
    const WeightRows* rows;
    const Items* items;
    double limit;
    double* unary;
    std::atomic<int64_t> bad;  // the first of all tasks
};

void score_piece(void* context, int64_t task, int) {
    ScoreJob& j = *static_cast<ScoreJob*>(context);
    const int64_t first = task * kPiece, last = std::min(first + kPiece, j.items->n_items());
    const int64_t bad = score_items(*j.names, *j.rows, *j.items, first, last, j.limit, j.unary);
    int64_t known = j.bad.load();
    while (bad >= 0 && bad < known && !j.bad.compare_exchange_weak(known, bad)) {
    }
}

}  // namespace

int64_t score_all(const PoolApi& pool, int threads, const Dictionary& names, const WeightRows& rows,
                  const Items& items, double limit, double* unary, Control* control) {
    const int64_t n = items.n_items();
    ScoreJob job{&names, &rows, &items, limit, unary, {n}};
    Plan plan;
    plan.n = (n + kPiece - 1) / kPiece;
    if (plan.n == 1) {
        score_piece(&job, 0, 0);
    } else if (plan.n > 1) {
        pool.run_plan(plan, score_piece, &job, threads, control);
    }
    return job.bad.load() < n ? job.bad.load() : -1;
}

}  // namespace vs
