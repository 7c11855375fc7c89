#include "loopy/scopes.h"

#include <algorithm>

namespace vs {
namespace {

size_t at(int64_t i) { return static_cast<size_t>(i); }

}  // namespace

Status same_scopes(int64_t n, const std::vector<int64_t>& ptr, const std::vector<int64_t>& scope,
                   const Control* control, std::vector<int64_t>* first) {
    const int64_t count = static_cast<int64_t>(ptr.size()) - 1;
    std::vector<int64_t> sorted(scope), fill(at(n + 2), 0), order(at(count));
    first->resize(at(count));
    for (int64_t f = 0; f < count; ++f) {
        if (cancelled(control, f)) return kCancelled;
        std::sort(sorted.begin() + ptr[at(f)], sorted.begin() + ptr[at(f + 1)]);
        ++fill[at(sorted[at(ptr[at(f)])] + 1)];
    }
    for (int64_t v = 0; v < n; ++v) fill[at(v + 1)] += fill[at(v)];
    const std::vector<int64_t> bucket(fill);
    for (int64_t f = 0; f < count; ++f) order[at(fill[at(sorted[at(ptr[at(f)])])]++)] = f;
    const auto compare = [&](int64_t f, int64_t g) {
        return std::lexicographical_compare(
            sorted.begin() + ptr[at(f)], sorted.begin() + ptr[at(f + 1)],
            sorted.begin() + ptr[at(g)], sorted.begin() + ptr[at(g + 1)]);
    };
    for (int64_t v = 0; v < n; ++v) {
        if (cancelled(control, v)) return kCancelled;
        const auto begin = order.begin() + bucket[at(v)], end = order.begin() + fill[at(v)];
        if (end - begin > 1) {
            std::sort(begin, end, [&](int64_t f, int64_t g) {
                return compare(f, g) || (f < g && !compare(g, f));
            });
        }
        for (auto i = begin; i < end; ++i) {
            (*first)[at(*i)] = i > begin && !compare(i[-1], *i) ? (*first)[at(i[-1])] : *i;
        }
    }
    return kOk;
}

Status greedy_forest(int64_t n, const int64_t* ptr, const int64_t* scope, const int64_t* order,
                     int64_t n_order, const Control* control, std::vector<int64_t>* taken) {
    std::vector<int64_t> root(at(n)), tops;
    for (int64_t v = 0; v < n; ++v) root[at(v)] = v;
    const auto top = [&](int64_t v) {
        while (root[at(v)] != v) v = root[at(v)] = root[at(root[at(v)])];
        return v;
    };
    taken->clear();
    for (int64_t i = 0; i < n_order; ++i) {
        if (cancelled(control, i)) return kCancelled;
        const int64_t f = order[i];
        bool apart = true;
        tops.clear();
        for (int64_t e = ptr[f]; e < ptr[f + 1]; ++e) {
            const int64_t t = top(scope[e]);
            for (int64_t other : tops) apart = apart && other != t;
            tops.push_back(t);
        }
        if (!apart) continue;
        taken->push_back(f);
        for (int64_t t : tops) root[at(t)] = tops[0];
    }
    return kOk;
}

void two_core(int64_t n, int64_t count, const int64_t* pair, uint8_t* left) {
    // Of each variable: how many pairs, and the xor of their numbers, which is the last one's.
    std::vector<int64_t> degree(static_cast<size_t>(n), 0), last(static_cast<size_t>(n), 0), ends;
    for (int64_t e = 0; e < count; ++e) {
        left[e] = 1;
        for (int64_t i = 0; i < 2; ++i) {
            ++degree[static_cast<size_t>(pair[2 * e + i])];
            last[static_cast<size_t>(pair[2 * e + i])] ^= e;
        }
    }
    for (int64_t v = 0; v < n; ++v) {
        if (degree[static_cast<size_t>(v)] == 1) ends.push_back(v);
    }
    while (!ends.empty()) {
        const int64_t v = ends.back();
        ends.pop_back();
        if (degree[static_cast<size_t>(v)] != 1) continue;
        const int64_t e = last[static_cast<size_t>(v)];
        const int64_t u = pair[2 * e] == v ? pair[2 * e + 1] : pair[2 * e];
        left[e] = 0;
        degree[static_cast<size_t>(v)] = 0;
        last[static_cast<size_t>(u)] ^= e;
        if (--degree[static_cast<size_t>(u)] == 1) ends.push_back(u);
    }
}

void selected_inverse(int64_t n, const int32_t* ptr, const int32_t* row, const double* factor,
                      const double* pivot, double* value, double* diagonal) {
    std::vector<double> l(at(n), 0.0), sum(at(n), 0.0);
    for (int64_t j = n; j-- > 0;) {
        for (int32_t p = ptr[j]; p < ptr[j + 1]; ++p) {
            l[at(row[p])] = factor[p];
            sum[at(row[p])] = 0.0;
        }
        // sum[i] = sum over k of inverse(i, k) L(k, j); column i has all the k > i it takes, and
        // what it adds where L(k, j) = 0 is not looked at.
        for (int32_t p = ptr[j]; p < ptr[j + 1]; ++p) {
            const int32_t i = row[p];
            if (i == j) continue;
            const double li = factor[p];
            l[at(i)] = 0.0;  // of the diagonal, which the sum of k > i would meet a second time
            double own = 0.0;
            for (int32_t q = ptr[i]; q < ptr[i + 1]; ++q) {
                const size_t k = at(row[q]);
                own += value[q] * l[k];
                sum[k] += value[q] * li;
            }
            sum[at(i)] += own;
            l[at(i)] = li;
        }
        double d = 1.0 / pivot[j];
        for (int32_t p = ptr[j]; p < ptr[j + 1]; ++p) {
            if (row[p] == j) continue;
            value[p] = -sum[at(row[p])];
            d -= value[p] * factor[p];
        }
        diagonal[j] = d;
        for (int32_t p = ptr[j]; p < ptr[j + 1]; ++p) {
            if (row[p] == j) value[p] = d;
            l[at(row[p])] = 0.0;
        }
    }
}

}  // namespace vs
