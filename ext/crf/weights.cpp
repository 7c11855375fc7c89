// Weights as scores: of items, of transitions, of gold labels; and residuals as gradients.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "crf/evaluator.h"
#include "simd/level.h"

namespace vs::crf {

Chains chains_of(const Corpus& corpus, const double* unary, const double* table,
                 const int64_t* offset, const int64_t* edge, int64_t n_positions,
                 int64_t n_sequences) {
    Chains c{};
    c.unary = unary;
    c.transition = table;
    c.start = corpus.start;
    c.end = corpus.end;
    c.offset = offset;
    c.edge = edge;
    c.n_positions = n_positions;
    c.n_labels = corpus.n_labels;
    c.n_sequences = n_sequences;
    c.dtype = kFloat64;
    return c;
}

void Evaluator::transitions(const double* w, double* table) const {
    const int64_t K = c_.n_labels;
    std::fill_n(table, K * K, 0.0);
    for (int64_t l = 0; l < K; ++l, table += K) {
        for (int64_t e = c_.source[l]; e < c_.source[l + 1]; ++e) {
            table[c_.target[e]] = w[c_.n_states + e];
        }
    }
    if (!c_.banned) return;
    table -= K * K;
    for (int64_t i = 0; i < K * K; ++i) {
        if (c_.banned[i]) table[i] = -std::numeric_limits<double>::infinity();
    }
}

void Evaluator::mask(int64_t first, int64_t n, uint8_t* allowed) const {
    const int64_t K = c_.n_labels;
    for (int64_t i = first; i < first + n; ++i, allowed += K) {
        const int64_t begin = c_.set[i], end = c_.set[i + 1];
        const bool any = c_.gold[i] < 0 && begin == end;
        std::memset(allowed, any, static_cast<size_t>(K));
        if (c_.gold[i] >= 0) allowed[c_.gold[i]] = 1;
        for (int64_t m = begin; m < end; ++m) allowed[c_.member[m]] = 1;
    }
}

// Weights into dense rows and the table of transitions.
void Evaluator::spread(const double* w) {
    for (size_t d = 0; d < dense_attributes_.size(); ++d) {
        const int32_t a = dense_attributes_[d];
        double* row = rows_.data() + d * static_cast<size_t>(stride_);
        for (int64_t f = c_.first[a]; f < c_.first[a + 1]; ++f) row[c_.label[f]] = w[f];
    }
    largest_pair_ = 0.0;
    pairs_.largest = pairs_.rest;
    for (size_t e = 0; e < pairs_.score.size(); ++e) {
        if (pair_weight_[e] < 0) continue;
        const double x = w[pair_weight_[e]];
        pairs_.score[e] = x;
        pairs_.largest = std::max(pairs_.largest, x);
        largest_pair_ = std::max(largest_pair_, std::fabs(x));
    }
    if (std::isinf(pairs_.largest)) pairs_.largest = 0.0;
    reads_pairs_ = few_pairs_ && pairs_.pays(kFloat64);
    if (reads_pairs_) return;
    table_.resize(static_cast<size_t>(c_.n_labels * c_.n_labels));
    transitions(w, table_.data());
}

template <bool kRows>
void Evaluator::score_items(int64_t first, int64_t last, const double* w, double* unary) const {
    const int64_t K = c_.n_labels;
    constexpr int64_t kFar = 24, kNear = 10;  // attributes between a prefetch and its use
    const int64_t end = c_.item[last];
    const double* rows = rows_.data();
    for (int64_t i = first; i < last; ++i, unary += K) {
        std::memset(unary, 0, sizeof(double) * static_cast<size_t>(K));
        for (int64_t m = c_.item[i]; m < c_.item[i + 1]; ++m) {
            if (m + kFar < end) {
                VS_PREFETCH_READ(&place_[static_cast<size_t>(c_.id[m + kFar])]);
                const WeightRow& ahead = place_[static_cast<size_t>(c_.id[m + kNear])];
                const bool row = kRows && ahead.row >= 0;
                const double* to = row ? rows + ahead.row * stride_ : w + ahead.first;
                VS_PREFETCH_READ(to);
                if (ahead.row != kFull && !row) VS_PREFETCH_READ(c_.label + ahead.first);
                const int64_t size = row ? K : ahead.count;
                for (int64_t k = 8; k < size; k += 8) VS_PREFETCH_READ(to + k);
            }
            const WeightRow& at = place_[static_cast<size_t>(c_.id[m])];
            const double v = c_.value ? c_.value[m] : 1.0;
            if (at.row == kSparse || (!kRows && at.row != kFull)) {
                const double* x = w + at.first;
                const int32_t* label = c_.label + at.first;
                for (int32_t f = 0; f < at.count; ++f) unary[label[f]] += v * x[f];
                continue;
            }
            const double* row = at.row == kFull ? w + at.first : rows + at.row * stride_;
            for (int64_t k = 0; k < K; ++k) unary[k] += v * row[k];
        }
    }
}

double gold_score(const int32_t* gold, int64_t n, int64_t K, const double* unary,
                  const double* table) {
    double sum = 0.0;
    for (int64_t i = 0; i < n; ++i) {
        sum += unary[i * K + gold[i]];
        if (i > 0) sum += table[gold[i - 1] * K + gold[i]];
    }
    return sum;
}

// The score of the gold labels of a sequence.
double Evaluator::gold_score(int64_t sequence, const double* unary) const {
    const int64_t i = c_.offset[sequence], n = c_.offset[sequence + 1] - i;
    if (!reads_pairs_) return crf::gold_score(c_.gold + i, n, c_.n_labels, unary, table_.data());
    double sum = 0.0;
    for (int64_t j = 0; j < n; ++j) {
        sum += unary[j * c_.n_labels + c_.gold[i + j]];
        const int64_t at = j > 0 ? sum_of(c_.gold[i + j - 1], c_.gold[i + j]) : -1;
        if (at >= 0) sum += pairs_.score[static_cast<size_t>(at)];
    }
    return sum;
}

template void Evaluator::score_items<true>(int64_t, int64_t, const double*, double*) const;
template void Evaluator::score_items<false>(int64_t, int64_t, const double*, double*) const;

void Evaluator::score_sequence(int64_t sequence, const double* w, double* unary) const {
    score_items<false>(c_.offset[sequence], c_.offset[sequence + 1], w, unary);
}

void Evaluator::pull(int64_t sequence, const double* residual, std::vector<int64_t>& features,
                     std::vector<double>& values) {
    const int64_t K = c_.n_labels;
    const int64_t first = c_.offset[sequence], last = c_.offset[sequence + 1];
    marked_.resize(static_cast<size_t>(c_.n_states), 0);
    pulled_.resize(static_cast<size_t>(c_.n_states));
    features.clear();
    for (int64_t i = first; i < last; ++i, residual += K) {
        bool any = false;
        for (int64_t k = 0; k < K; ++k) any |= residual[k] != 0.0;
        if (!any) continue;
        for (int64_t m = c_.item[i]; m < c_.item[i + 1]; ++m) {
            const size_t a = static_cast<size_t>(c_.id[m]);
            const double v = c_.value ? c_.value[m] : 1.0;
            for (int64_t f = c_.first[a]; f < c_.first[a + 1]; ++f) {
                const double x = residual[c_.label[f]];
                if (x == 0.0) continue;
                const size_t at = static_cast<size_t>(f);
                if (!marked_[at]) {
                    marked_[at] = 1;
                    pulled_[at] = 0.0;
                    features.push_back(f);
                }
                pulled_[at] += v * x;
            }
        }
    }
    values.resize(features.size());
    for (size_t j = 0; j < features.size(); ++j) {
        values[j] = pulled_[static_cast<size_t>(features[j])];
        marked_[static_cast<size_t>(features[j])] = 0;
    }
}

}  // namespace vs::crf
