#include "messages/resistance.h"

#include <algorithm>

namespace vs::messages {
namespace {

// Which pairs are left when variables with one pair go, and their pair with them, until there is
// none: only those can lie on a cycle.
void two_core(int64_t n, int64_t count, const int64_t* pair, uint8_t* left) {
    // For each variable its number of pairs, and the xor of their numbers: the last one's, at one.
    std::vector<int64_t> degree(at(n), 0), last(at(n), 0), ends;
    for (int64_t e = 0; e < count; ++e) {
        left[e] = 1;
        for (int64_t i = 0; i < 2; ++i) {
            ++degree[at(pair[2 * e + i])];
            last[at(pair[2 * e + i])] ^= e;
        }
    }
    for (int64_t v = 0; v < n; ++v) {
        if (degree[at(v)] == 1) ends.push_back(v);
    }
    while (!ends.empty()) {
        const int64_t v = ends.back();
        ends.pop_back();
        if (degree[at(v)] != 1) continue;
        const int64_t e = last[at(v)];
        const int64_t u = pair[2 * e] == v ? pair[2 * e + 1] : pair[2 * e];
        left[e] = 0;
        degree[at(v)] = 0;
        last[at(u)] ^= e;
        if (--degree[at(u)] == 1) ends.push_back(u);
    }
}

// Entries of the inverse of L D L' where L has entries (Takahashi's recursion): L by columns, its
// diagonal of ones included; `diagonal` (n,) and `value` receive the inverse's.
void selected_inverse(int64_t n, const int32_t* ptr, const int32_t* row, const double* factor,
                      const double* pivot, double* value, double* diagonal) {
    std::vector<double> l(at(n), 0.0), sum(at(n), 0.0);
    for (int64_t j = n; j-- > 0;) {
        for (int32_t p = ptr[j]; p < ptr[j + 1]; ++p) {
            l[at(row[p])] = factor[p];
            sum[at(row[p])] = 0.0;
        }
        // sum[i] = sum over k of inverse(i, k) L(k, j); column i has all the k > i it takes, and
        // terms with L(k, j) = 0 are skipped.
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

}  // namespace

void Resistances::lay_out(int64_t n, int64_t count, const int64_t* pair) {
    pair_.assign(pair, pair + 2 * count);
    open_.resize(at(count));
    two_core(n, count, pair, open_.data());
    // Components, each named by its first variable, which is grounded.
    std::vector<int32_t> root(at(n), -1), degree(at(n), 0);
    const auto top = [&](int32_t v) {
        while (root[at(v)] != v) v = root[at(v)] = root[at(root[at(v)])];
        return v;
    };
    for (int64_t e = 0; e < count; ++e) {
        if (!open_[at(e)]) continue;
        int32_t end[2];
        for (int64_t i = 0; i < 2; ++i) {
            const int32_t v = end[i] = static_cast<int32_t>(pair[2 * e + i]);
            if (root[at(v)] < 0) root[at(v)] = v;
            ++degree[at(v)];
        }
        const int32_t a = top(end[0]), b = top(end[1]);
        root[at(std::max(a, b))] = std::min(a, b);
    }
    place_.assign(at(n), -1);
    int32_t m = 0;
    for (int64_t v = 0; v < n; ++v) {
        if (root[at(v)] >= 0 && root[at(v)] != v) place_[at(v)] = m++;
    }
    // By columns, in the order of the pairs; what stands in column j then goes to rows j of the
    // others, so that rows ascend.
    std::vector<int32_t> begin(at(m + 1), 0);
    const auto each = [&](auto&& f) {
        for (int64_t e = 0; e < count; ++e) {
            if (!open_[at(e)]) continue;
            const int32_t a = place_[at(pair[2 * e])], b = place_[at(pair[2 * e + 1])];
            if (a >= 0 && b >= 0) f(a, b);
        }
    };
    each([&](int32_t a, int32_t b) {
        ++begin[at(a + 1)];
        ++begin[at(b + 1)];
    });
    ptr_.assign(at(m + 1), 0);
    for (int32_t j = 0; j < m; ++j) {
        ptr_[at(j + 1)] = ptr_[at(j)] + begin[at(j + 1)] + 1;
        begin[at(j + 1)] += begin[at(j)];
    }
    std::vector<int32_t> other(at(begin.back())), fill(begin.begin(), begin.end() - 1);
    each([&](int32_t a, int32_t b) {
        other[at(fill[at(a)]++)] = b;
        other[at(fill[at(b)]++)] = a;
    });
    row_.resize(at(ptr_.back()));
    value_.assign(at(ptr_.back()), -1.0);
    fill.assign(ptr_.begin(), ptr_.end() - 1);
    for (int64_t v = 0; v < n; ++v) {
        const int32_t j = place_[at(v)];
        if (j < 0) continue;
        value_[at(fill[at(j)])] = degree[at(v)];
        row_[at(fill[at(j)]++)] = j;
        for (int32_t i = begin[at(j)]; i < begin[at(j + 1)]; ++i) {
            row_[at(fill[at(other[at(i)])]++)] = j;
        }
    }
}

void Resistances::read(const int32_t* ptr, const int32_t* row, const double* factor,
                       const double* pivot, const int32_t* order, double* found) const {
    const int64_t m = columns();
    std::vector<double> value(at(ptr[m])), diagonal(at(m));
    selected_inverse(m, ptr, row, factor, pivot, value.data(), diagonal.data());
    const int64_t count = static_cast<int64_t>(open_.size());
    // Pairs by the column of L that they are looked up in: one scattered at a time.
    std::vector<int32_t> begin(at(m + 1), 0), where(at(m), -1);
    std::vector<int64_t> pairs;
    const auto each = [&](auto&& f) {
        for (int64_t e = 0; e < count; ++e) {
            const int32_t a = place_[at(pair_[at(2 * e)])], b = place_[at(pair_[at(2 * e + 1)])];
            if (open_[at(e)] && a >= 0 && b >= 0) {
                f(e, std::min(order[a], order[b]), std::max(order[a], order[b]));
            }
        }
    };
    each([&](int64_t, int32_t low, int32_t) { ++begin[at(low + 1)]; });
    for (int64_t j = 0; j < m; ++j) begin[at(j + 1)] += begin[at(j)];
    pairs.resize(at(begin.back()));
    std::vector<int32_t> high(pairs.size()), fill(begin.begin(), begin.end() - 1);
    each([&](int64_t e, int32_t low, int32_t other) {
        pairs[at(fill[at(low)])] = e;
        high[at(fill[at(low)]++)] = other;
    });
    for (int64_t e = 0; e < count; ++e) {
        found[e] = 1.0;
        if (!open_[at(e)]) continue;
        const int32_t a = place_[at(pair_[at(2 * e)])], b = place_[at(pair_[at(2 * e + 1)])];
        found[e] = (a < 0 ? 0.0 : diagonal[at(order[a])]) + (b < 0 ? 0.0 : diagonal[at(order[b])]);
    }
    for (int64_t j = 0; j < m; ++j) {
        if (begin[at(j)] == begin[at(j + 1)]) continue;
        for (int32_t p = ptr[j]; p < ptr[j + 1]; ++p) where[at(row[p])] = p;
        for (int32_t i = begin[at(j)]; i < begin[at(j + 1)]; ++i) {
            const int32_t p = where[at(high[at(i)])];
            if (p >= ptr[j]) found[pairs[at(i)]] -= 2.0 * value[at(p)];
        }
        for (int32_t p = ptr[j]; p < ptr[j + 1]; ++p) where[at(row[p])] = -1;
    }
    for (int64_t e = 0; e < count; ++e) {
        if (open_[at(e)]) found[e] = std::min(1.0, std::max(1e-12, found[e]));
    }
}

}  // namespace vs::messages
