#include <algorithm>

#include "core/logs.h"
#include "crf/evaluator.h"

namespace vs::crf {

namespace {

// Marginals kept at a time, 8 MiB: they are read again by attribute, from cache.
constexpr int64_t kBlockNumbers = int64_t{1} << 20;

// Nanoseconds per item of scoring, forward-backward and gradient: decides sizes, never a result.
double item_cost(int64_t labels, int64_t pairs) {
    const double k = static_cast<double>(labels);
    return 0.2 * static_cast<double>(pairs) + 5.0 * k + 100.0;
}

}  // namespace

Evaluator::Evaluator(const Corpus& corpus) : c_(corpus), stride_(corpus.n_labels) {
    const int64_t K = c_.n_labels;
    place_.reserve(static_cast<size_t>(c_.n_attributes));
    for (int64_t a = 0; a < c_.n_attributes; ++a) {
        const int64_t n = c_.first[a + 1] - c_.first[a];
        int32_t row = kSparse;
        if (n == K) {
            row = kFull;
        } else if (n >= 4 && 4 * n >= K) {
            row = static_cast<int32_t>(dense_attributes_.size());
            dense_attributes_.push_back(static_cast<int32_t>(a));
        }
        place_.push_back({c_.first[a], static_cast<int32_t>(n), row});
    }
    rows_.assign(dense_attributes_.size() * static_cast<size_t>(stride_), 0.0);
    if (c_.set) {
        partial_.assign(static_cast<size_t>(c_.n_sequences), 0);
        for (int64_t s = 0; s < c_.n_sequences; ++s) {
            for (int64_t i = c_.offset[s]; i < c_.offset[s + 1]; ++i) {
                if (c_.gold[i] < 0) partial_[static_cast<size_t>(s)] = 1;
            }
        }
    }
    list_pairs();
    cut();
}

int64_t Corpus::weight_of(int64_t before, int64_t after) const {
    const int32_t *first = target + source[before], *last = target + source[before + 1];
    const int32_t* at = std::lower_bound(first, last, static_cast<int32_t>(after));
    return at == last || *at != after ? -1 : n_states + (at - target);
}

void Evaluator::list_pairs() {
    const int64_t K = c_.n_labels;
    pairs_.n_labels = K;
    // Pairs that are not listed are all banned, or all without a weight: what there is more of.
    bool mostly = false;
    if (c_.banned) {
        int64_t plain = 0;
        const int64_t banned = std::count(c_.banned, c_.banned + K * K, uint8_t{1});
        for (int64_t l = 0; l < K; ++l) {
            int64_t e = c_.source[l];
            for (int64_t k = 0; k < K; ++k) {
                const bool weighed = e < c_.source[l + 1] && c_.target[e] == k;
                e += weighed;
                plain += !weighed && !c_.banned[l * K + k];
            }
        }
        mostly = banned > plain;
    }
    pairs_.rest = mostly ? kNever : 0.0;
    pairs_.start.assign(1, 0);
    const auto list = [&](int64_t before, int64_t after, int64_t weight) {
        const bool never = c_.banned && c_.banned[before * K + after];
        if (never) weight = -1;
        if (weight < 0 && never == mostly) return;
        pairs_.column.push_back(static_cast<int32_t>(after));
        pairs_.score.push_back(never ? kNever : 0.0);
        pair_weight_.push_back(weight);
    };
    for (int64_t l = 0; l < K; ++l) {
        int64_t e = c_.source[l];
        for (int64_t k = 0; c_.banned && k < K; ++k) {
            const bool weighed = e < c_.source[l + 1] && c_.target[e] == k;
            list(l, k, weighed ? c_.n_states + e++ : -1);
        }
        for (; e < c_.source[l + 1]; ++e) list(l, c_.target[e], c_.n_states + e);
        pairs_.start.push_back(static_cast<int64_t>(pairs_.column.size()));
    }
    few_pairs_ = pairs_.pays(kFloat64);
    n_sums_ = few_pairs_ ? pairs_.n_listed() : K * K;
}

int64_t Evaluator::sum_of(int64_t before, int64_t after) const {
    if (!few_pairs_) return before * c_.n_labels + after;
    const int32_t* first = pairs_.column.data() + pairs_.start[static_cast<size_t>(before)];
    const int32_t* last = pairs_.column.data() + pairs_.start[static_cast<size_t>(before) + 1];
    const int32_t* at = std::lower_bound(first, last, static_cast<int32_t>(after));
    return at == last || *at != after ? -1 : at - pairs_.column.data();
}

void Evaluator::cut() {
    const int64_t K = c_.n_labels;
    if (c_.n_items == 0) return;  // there may be no labels either
    // Enough sequences go side by side where messages read pairs.
    const int64_t most = std::max<int64_t>(few_pairs_ ? 1024 : 1, kBlockNumbers / K);
    const double wanted =
        few_pairs_ ? std::max(256.0, 1e6 / item_cost(K, n_sums_)) : 1e6 / item_cost(K, K * K);
    int64_t chunk = std::min<int64_t>(std::max<int64_t>(static_cast<int64_t>(wanted), 128), 16384);
    chunk = std::min(chunk, std::max<int64_t>(128, c_.n_items / 32));
    std::vector<int64_t> count(static_cast<size_t>(c_.n_attributes), 0);
    for (int64_t s = 0; s < c_.n_sequences;) {
        SequenceBlock block;
        block.first = s;
        block.chunk.push_back(s);
        const int64_t begin = c_.offset[s];
        int64_t chunk_begin = begin;
        // One sequence at least, however long.
        do {
            ++s;
            if (c_.offset[s] - chunk_begin >= chunk) {
                largest_chunk_ = std::max(largest_chunk_, c_.offset[s] - chunk_begin);
                block.chunk.push_back(s);
                chunk_begin = c_.offset[s];
            }
        } while (s < c_.n_sequences && c_.offset[s + 1] - begin <= most);
        if (block.chunk.back() != s) {
            largest_chunk_ = std::max(largest_chunk_, c_.offset[s] - chunk_begin);
            block.chunk.push_back(s);
        }
        block.last = s;
        largest_block_ = std::max(largest_block_, c_.offset[s] - begin);
        most_chunks_ = std::max(most_chunks_, static_cast<int64_t>(block.chunk.size()) - 1);
        transpose(block, count);
        blocks_.push_back(std::move(block));
    }
}

// Items by attribute, in corpus order. `count` is zero before and after.
void Evaluator::transpose(SequenceBlock& b, std::vector<int64_t>& count) {
    const int64_t i0 = c_.offset[b.first], i1 = c_.offset[b.last];
    const int64_t m0 = c_.item[i0], m1 = c_.item[i1];
    for (int64_t m = m0; m < m1; ++m) {
        const size_t a = static_cast<size_t>(c_.id[m]);
        if (c_.first[a + 1] == c_.first[a]) continue;
        if (count[a]++ == 0) b.attributes.push_back(c_.id[m]);
    }
    std::sort(b.attributes.begin(), b.attributes.end());
    b.begin.reserve(b.attributes.size() + 1);
    int64_t at = 0;
    double work = 0.0, total = 0.0;
    const auto cost = [&](size_t a, int64_t items) {
        return static_cast<double>(items) *
               (4.0 + 0.5 * static_cast<double>(c_.first[a + 1] - c_.first[a]));
    };
    for (int32_t id : b.attributes) {
        total += cost(static_cast<size_t>(id), count[static_cast<size_t>(id)]);
    }
    const double target = std::max(total / 64.0, 2e4);
    b.attribute_ranges.push_back(0);
    for (size_t j = 0; j < b.attributes.size(); ++j) {
        const size_t a = static_cast<size_t>(b.attributes[j]);
        b.begin.push_back(at);
        const int64_t n = count[a];
        work += cost(a, n);
        count[a] = at;
        at += n;
        if (work >= target) {
            b.attribute_ranges.push_back(static_cast<int64_t>(j) + 1);
            work = 0.0;
        }
    }
    b.begin.push_back(at);
    if (b.attribute_ranges.back() != static_cast<int64_t>(b.attributes.size())) {
        b.attribute_ranges.push_back(static_cast<int64_t>(b.attributes.size()));
    }
    b.at.resize(static_cast<size_t>(at));
    if (c_.value) b.value.resize(static_cast<size_t>(at));
    for (int64_t i = i0; i < i1; ++i) {
        for (int64_t m = c_.item[i]; m < c_.item[i + 1]; ++m) {
            const size_t a = static_cast<size_t>(c_.id[m]);
            if (c_.first[a + 1] == c_.first[a]) continue;
            const size_t to = static_cast<size_t>(count[a]++);
            b.at[to] = static_cast<int32_t>(i - i0);
            if (c_.value) b.value[to] = c_.value[m];
        }
    }
    for (int32_t id : b.attributes) count[static_cast<size_t>(id)] = 0;
}

}  // namespace vs::crf
