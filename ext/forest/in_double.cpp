#include "forest/in_double.h"

#include <algorithm>
#include <limits>
#include <new>

#include "core/at.h"
#include "core/large_pages.h"
#include "forest/layout.h"
#include "forest/plan.h"

namespace vs {
namespace {

// What a part takes, unless one component takes more.
constexpr int64_t kPartBytes = int64_t{64} << 20;

// Row `row` of a table of rows of `size` numbers.
void widen(const void* from, int64_t row, int64_t size, double* to) {
    std::copy_n(static_cast<const float*>(from) + row * size, size, to + row * size);
}
// Probabilities; those below the normal range are zeros, as where float32 computes.
void narrow(const double* from, int64_t row, int64_t size, void* to) {
    const double* const x = from + row * size;
    std::transform(x, x + size, static_cast<float*>(to) + row * size, [](double p) {
        const float y = static_cast<float>(p);
        return y < std::numeric_limits<float>::min() ? 0.0f : y;
    });
}

}  // namespace

InDouble::Doubles InDouble::zeros(int64_t n) const {
    const size_t count = static_cast<size_t>(std::max(n, int64_t{1}));
    if (count > std::numeric_limits<size_t>::max() / sizeof(double)) throw std::bad_alloc();
    Doubles x(static_cast<double*>(std::calloc(count, sizeof(double))));
    if (!x) throw std::bad_alloc();
    // Where hardly anything stays untouched.
    if (dense_) prefer_large_pages(x.get(), static_cast<int64_t>(count * sizeof(double)));
    return x;
}

InDouble::InDouble(const Request& single, const std::vector<int64_t>& components, size_t* next)
    : single_(single), r_(single) {
    take(components, next);
    find_rows();
    if (!rows_.empty()) {
        const auto ends = std::minmax_element(rows_.begin(), rows_.end());
        dense_ = 2 * static_cast<int64_t>(rows_.size()) > *ends.second - *ends.first;
    }
    r_.components = &components_;
    r_.prepared = nullptr;
    r_.narrow = false;
    r_.model.arrays.dtype = kFloat64;
    compose();
    copy_tables();
    open_answers();
}

void InDouble::take(const std::vector<int64_t>& components, size_t* next) {
    const Chains& c = single_.model.arrays;
    const bool tables = c.per_edge || single_.model.tables == Tables::kPerEdge || single_.pairwise;
    const int64_t row = 16 * c.n_labels * (tables ? c.n_labels : 1);
    std::vector<int64_t> size;
    if (const Layout* t = single_.model.layout) {
        size.assign(at(t->n_trees), 0);
        for (int32_t tree : t->tree) ++size[at(tree)];
    }
    int64_t rows = 0;
    for (; *next < components.size(); ++*next) {
        const int64_t s = components[*next];
        rows += size.empty() ? length(c, s) : size[at(s)];
        if (!components_.empty() && rows > kPartBytes / row) break;
        components_.push_back(s);
    }
}

void InDouble::find_rows() {
    const Chains& c = single_.model.arrays;
    if (const Layout* t = single_.model.layout) {
        std::vector<uint8_t> asked(at(t->n_trees), 0);
        for (int64_t s : components_) asked[at(s)] = 1;
        for (size_t q = 0; q < t->node.size(); ++q) {
            if (asked[at(t->tree[q])]) rows_.push_back(t->node[q]);
        }
        return;
    }
    for (int64_t s : components_) {
        for (int64_t i = c.offset[s]; i < c.offset[s + 1]; ++i) rows_.push_back(i);
    }
}

void InDouble::compose() {
    Chains& c = r_.model.arrays;
    const int64_t K = c.n_labels;
    const Chains& from = single_.model.arrays;
    unary_ = zeros(c.n_positions * K);
    for (int64_t i : rows_) {
        widen(from.unary, i, K, unary_.get());
        double* const x = unary_.get() + i * K;
        for (int64_t k = 0; from.allowed && k < K; ++k) {
            if (!from.allowed[i * K + k]) x[k] = -std::numeric_limits<double>::infinity();
        }
    }
    const auto add = [&](const void* scores, int64_t i) {
        if (!scores) return;
        double* const x = unary_.get() + i * K;
        for (int64_t k = 0; k < K; ++k) {
            x[k] = double{static_cast<float>(x[k]) + static_cast<const float*>(scores)[k]};
        }
    };
    for (int64_t s : components_) {
        if (single_.model.layout || length(from, s) == 0) continue;
        add(from.start, from.offset[s]);
        add(from.end, from.offset[s + 1] - 1);
    }
    c.unary = unary_.get();
    c.start = c.end = nullptr;
    c.allowed = nullptr;
}

template <class F>
void InDouble::each_table(F f) const {
    const ForestModel& m = single_.model;
    if (m.tables == Tables::kPerEdge) {
        for (int64_t node : rows_) f(node);
    } else if (m.arrays.per_edge) {
        for (int64_t s : components_) {
            for (int64_t e = m.arrays.edge[s]; e < m.arrays.edge[s + 1]; ++e) f(e);
        }
    } else {
        for (int64_t i = 0; i < m.n_tables; ++i) f(i);
    }
}

void InDouble::copy_tables() {
    Chains& c = r_.model.arrays;
    if (!c.transition) return;
    const int64_t kk = c.n_labels * c.n_labels;
    const int64_t count = c.per_edge ? c.edge[c.n_sequences] : single_.model.n_tables;
    tables_ = zeros(count * kk);
    each_table([&](int64_t i) { widen(c.transition, i, kk, tables_.get()); });
    c.transition = tables_.get();
}

template <class F>
void InDouble::each_pair(F f) const {
    const Chains& c = single_.model.arrays;
    if (single_.pairwise_row) {
        for (int64_t node : rows_) {
            if (single_.pairwise_row[node] >= 0) f(single_.pairwise_row[node]);
        }
        return;
    }
    for (int64_t s : components_) {
        const int64_t first = std::max(c.edge[s], single_.pairwise_first);
        const int64_t last = std::min(c.edge[s + 1], single_.pairwise_last);
        for (int64_t e = first; e < last; ++e) f(e - single_.pairwise_first);
    }
}

void InDouble::open_answers() {
    const Chains& c = single_.model.arrays;
    const int64_t K = c.n_labels;
    if (single_.marginals) marginals_ = zeros(c.n_positions * K);
    if (single_.pairwise) {
        int64_t rows = single_.pairwise_last - single_.pairwise_first;
        each_pair([&](int64_t row) { rows = std::max(rows, row + 1); });
        pairwise_ = zeros(rows * K * K);
    }
    r_.marginals = marginals_.get();
    r_.pairwise = pairwise_.get();
    if (!single_.compared) return;
    compared_ = zeros(c.n_positions * K);
    for (int64_t i : rows_) {
        widen(single_.compared->rows, i, K, compared_.get());
    }
    comparison_ = *single_.compared;
    comparison_.rows = compared_.get();
    r_.compared = &comparison_;
}

void InDouble::write() const {
    const int64_t K = single_.model.arrays.n_labels;
    if (marginals_) {
        for (int64_t i : rows_) {
            narrow(marginals_.get(), i, K, single_.marginals);
        }
    }
    if (pairwise_) {
        each_pair([&](int64_t row) { narrow(pairwise_.get(), row, K * K, single_.pairwise); });
    }
}

}  // namespace vs
