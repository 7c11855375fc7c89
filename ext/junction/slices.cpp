#include "junction/slices.h"

#include <algorithm>
#include <cmath>

namespace vs::junction {

double log_sum(const double* x, int64_t n) {
    const double top = *std::max_element(x, x + n);
    if (top == -INFINITY) return top;
    double sum = 0.0;
    for (int64_t i = 0; i < n; ++i) sum += std::exp(x[i] - top);
    return top + std::log(sum);
}

bool distribution(const double* score, int64_t n, double* p) {
    const double top = *std::max_element(score, score + n);
    if (top == -INFINITY) return false;
    double sum = 0.0;
    for (int64_t i = 0; i < n; ++i) sum += p[i] = std::exp(score[i] - top);
    for (int64_t i = 0; i < n; ++i) p[i] /= sum;
    return true;
}

TableSlices::TableSlices(const Graph& g, const double* const* soft)
    : g_(g), ptr_(static_cast<size_t>(g.n) + 1), of_ptr_(ptr_.size()) {
    for (int64_t v = 0; v < g.n; ++v) ptr_[v + 1] = ptr_[v] + g.card[v];
    unary_.resize(static_cast<size_t>(ptr_.back()));
    for (int64_t v = 0; v < g.n; ++v) {
        if (soft && soft[v]) std::copy(soft[v], soft[v] + g.card[v], own(v));
    }
    for (int64_t f = 0; f < g.n_factors; ++f) {
        const Factor x = factor(f);
        if (x.arity == 0 && x.table[0] == -INFINITY) impossible_ = true;
        if (x.arity == 0 && !impossible_) constant_.add(x.table[0]);
        if (x.arity == 1) {
            double* to = own(x.scope[0]);
            for (int64_t i = 0; i < g.card[x.scope[0]]; ++i) to[i] += x.table[i];
        }
        if (x.arity < 2) continue;
        for (int64_t i = 0; i < x.arity; ++i) ++of_ptr_[x.scope[i] + 1];
    }
    for (int64_t v = 0; v < g.n; ++v) of_ptr_[v + 1] += of_ptr_[v];
    of_.resize(static_cast<size_t>(of_ptr_.back()));
    std::vector<int64_t> at(of_ptr_.begin(), of_ptr_.end() - 1);
    for (int64_t f = 0; f < g.n_factors; ++f) {
        const Factor x = factor(f);
        for (int64_t i = 0; x.arity > 1 && i < x.arity; ++i) of_[at[x.scope[i]]++] = f;
    }
}

void TableSlices::cut(int64_t f, const std::vector<int64_t>& held, TableSlice* to) const {
    const Factor x = factor(f);
    to->first = x.table;
    to->var.clear();
    to->stride.clear();
    to->whole = true;
    int64_t stride = 1;
    for (int64_t i = x.arity; i-- > 0;) {
        const int64_t v = x.scope[i];
        if (held[v] >= 0) {
            to->first += stride * held[v];
            to->whole = false;
        } else {
            to->var.push_back(v);
            to->stride.push_back(stride);
        }
        stride *= g_.card[v];
    }
    std::reverse(to->var.begin(), to->var.end());
    std::reverse(to->stride.begin(), to->stride.end());
}

void TableSlices::copy(const TableSlice& s, std::vector<double>* to) const {
    const size_t k = s.var.size();
    std::vector<int64_t> state(k, 0);
    const double* from = s.first;
    for (;;) {
        to->push_back(*from);
        size_t i = k;
        while (i-- > 0) {
            from += s.stride[i];
            if (++state[i] < g_.card[s.var[i]]) break;
            from -= s.stride[i] * state[i];
            state[i] = 0;
        }
        if (i == static_cast<size_t>(-1)) return;
    }
}

void TableSlices::local(int64_t v, const std::vector<int64_t>& held, double* score) const {
    std::copy(unary(v), unary(v) + g_.card[v], score);
    for (const int64_t* i = begin(v); i != end(v); ++i) {
        const Factor x = factor(*i);
        const double* from = x.table;
        int64_t stride = 1, own = 0;
        bool others = false;
        for (int64_t j = x.arity; j-- > 0; stride *= g_.card[x.scope[j]]) {
            const int64_t u = x.scope[j];
            if (u == v) {
                own = stride;
            } else if (held[u] >= 0) {
                from += stride * held[u];
            } else {
                others = true;
                break;
            }
        }
        if (others) continue;
        for (int64_t s = 0; s < g_.card[v]; ++s) score[s] += from[s * own];
    }
}

bool TableSlices::score(int64_t f, const std::vector<int64_t>& held, double* score) const {
    const Factor x = factor(f);
    int64_t at = 0;
    for (int64_t i = 0; i < x.arity; ++i) {
        if (held[x.scope[i]] < 0) return false;
        at = at * g_.card[x.scope[i]] + held[x.scope[i]];
    }
    *score = x.table[at];
    return true;
}

}  // namespace vs::junction
