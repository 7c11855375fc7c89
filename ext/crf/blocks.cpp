#include <algorithm>

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
    pairs_.start.assign(c_.source, c_.source + K + 1);
    pairs_.column.assign(c_.target, c_.target + c_.source[K]);
    pairs_.score.assign(pairs_.column.size(), 0.0);
    few_pairs_ = pairs_.pays(kFloat64);
    n_sums_ = few_pairs_ ? pairs_.n_listed() : K * K;
}

int64_t Evaluator::sum_of(int64_t before, int64_t after) const {
    if (!few_pairs_) return before * c_.n_labels + after;
    const int64_t weight = c_.weight_of(before, after);
    return weight < 0 ? -1 : weight - c_.n_states;
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
