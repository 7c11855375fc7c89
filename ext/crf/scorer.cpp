#include "crf/scorer.h"

#include <algorithm>
#include <atomic>

namespace vs::crf {

void WeightRows::add(const int32_t* labels, const double* weights, int64_t n) {
    begin.push(weight.size());
    // Four additions in vectors cost as much as one that has to find its label.
    const bool full = 4 * n >= n_labels;
    size.push(full ? kFull : static_cast<int32_t>(n));
    if (full) {
        double* w = weight.reserve(n_labels);
        int32_t* l = label.reserve(n_labels);
        for (int64_t k = 0; k < n_labels; ++k) {
            w[k] = 0.0;
            l[k] = 0;
        }
        for (int64_t i = 0; i < n; ++i) w[labels[i]] += weights[i];
        weight.used(n_labels);
        label.used(n_labels);
    } else {
        weight.append(weights, n);
        label.append(labels, n);
    }
}

namespace {

VS_INLINE void add_row(const WeightRows& rows, int32_t id, double value, double* score) {
    const int64_t at = rows.begin[id], n = rows.size[id];
    const double* const w = rows.weight.data() + at;
    if (n == WeightRows::kFull) {
        for (int64_t k = 0; k < rows.n_labels; ++k) score[k] += w[k] * value;
        return;
    }
    const int32_t* const label = rows.label.data() + at;
    for (int64_t j = 0; j < n; ++j) score[label[j]] += w[j] * value;
}

}  // namespace

int64_t score_items(const Dictionary& names, const WeightRows& rows, const Items& items,
                    int64_t first, int64_t last, double limit, double* unary) noexcept {
    const int64_t K = rows.n_labels;
    const int64_t stop = last > first ? items.item_end[last - 1] : items.first(first);
    int64_t item = first, at = items.first(first);
    std::fill(unary + first * K, unary + last * K, 0.0);
    int32_t ids[Dictionary::kBlock];
    while (at < stop) {
        const int64_t n = std::min(stop - at, Dictionary::kBlock);
        names.look_up(items, at, at + n, ids);
        for (int64_t i = 0; i < n; ++i) {
            if (ids[i] < 0) continue;
            VS_PREFETCH_READ(rows.begin.data() + ids[i]);
            VS_PREFETCH_READ(rows.size.data() + ids[i]);
        }
        for (int64_t i = 0; i < n; ++i) {
            if (ids[i] < 0) continue;
            const int64_t row = rows.begin[ids[i]];
            VS_PREFETCH_READ(rows.label.data() + row);
            VS_PREFETCH_READ(rows.weight.data() + row);
        }
        for (int64_t i = 0; i < n; ++i, ++at) {
            while (at == items.item_end[item]) ++item;
            // In the order of the attributes, as CRFsuite adds them.
            if (ids[i] >= 0) add_row(rows, ids[i], items.value[at], unary + item * K);
        }
    }
    for (int64_t i = first; i < last; ++i) {
        if (!all_within(unary + i * K, K, limit)) return i;
    }
    return -1;
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
    const Plan plan("scores", (n + kPiece - 1) / kPiece);
    pool.run_plan(plan, score_piece, &job, threads, control);
    return job.bad.load() < n ? job.bad.load() : -1;
}

}  // namespace vs::crf
