#include "crf/scorer.h"

#include <algorithm>

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

}  // namespace vs
