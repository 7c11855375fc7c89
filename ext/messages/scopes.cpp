#include "messages/scopes.h"

#include <algorithm>
#include <cstdint>

#include "simd/level.h"

namespace vs::messages {
namespace {

Status same_pairs(int64_t n, const std::vector<int64_t>& scope, const Control* control,
                  std::vector<int64_t>* first) {
    const int64_t count = static_cast<int64_t>(scope.size()) / 2;
    std::vector<int64_t> fill(at(n + 1), 0), order(at(count)), seen(at(n), -1);
    first->resize(at(count));
    for (int64_t f = 0; f < count; ++f) {
        ++fill[at(std::min(scope[at(2 * f)], scope[at(2 * f + 1)]) + 1)];
    }
    for (int64_t v = 0; v < n; ++v) fill[at(v + 1)] += fill[at(v)];
    for (int64_t f = 0; f < count; ++f) {
        order[at(fill[at(std::min(scope[at(2 * f)], scope[at(2 * f + 1)]))]++)] = f;
    }
    // Pairs of one lower variable stand together: the first that has the same higher one.
    for (int64_t i = 0; i < count; ++i) {
        if (cancelled(control, i)) return kCancelled;
        const int64_t f = order[at(i)];
        const int64_t low = std::min(scope[at(2 * f)], scope[at(2 * f + 1)]);
        int64_t& other = seen[at(std::max(scope[at(2 * f)], scope[at(2 * f + 1)]))];
        const bool same =
            other >= 0 && std::min(scope[at(2 * other)], scope[at(2 * other + 1)]) == low;
        if (!same) other = f;
        (*first)[at(f)] = other;
    }
    return kOk;
}

}  // namespace

Status same_scopes(int64_t n, const std::vector<int64_t>& ptr, const std::vector<int64_t>& scope,
                   const std::vector<const factors::Structured*>& apart, const Control* control,
                   std::vector<int64_t>* first) {
    const int64_t count = static_cast<int64_t>(ptr.size()) - 1;
    bool pairs = ptr.back() == 2 * count && apart.empty();
    for (int64_t f = 0; f < count && pairs; ++f) pairs = ptr[at(f)] == 2 * f;
    if (pairs) return same_pairs(n, scope, control, first);
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
    const auto less = [&](int64_t f, int64_t g) {
        return std::lexicographical_compare(
            sorted.begin() + ptr[at(f)], sorted.begin() + ptr[at(f + 1)],
            sorted.begin() + ptr[at(g)], sorted.begin() + ptr[at(g + 1)]);
    };
    const auto rank = [&](int64_t f) { return apart.empty() || !apart[at(f)] ? 0 : f + 1; };
    const auto compare = [&](int64_t f, int64_t g) {
        return less(f, g) || (rank(f) < rank(g) && !less(g, f));
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

namespace {

// Kruskal's algorithm for factors of two variables each. Indices of 32 bits, and lines asked for
// ahead: factors come in any order, so that each of them waits for memory twice.
Status forest_of_pairs(int64_t n, const int64_t* scope, const int64_t* order, int64_t n_order,
                       const Control* control, std::vector<int64_t>* taken) {
    constexpr int64_t kScopes = 16, kRoots = 8;  // so many factors ahead
    std::vector<int32_t> root(at(n));
    for (int64_t v = 0; v < n; ++v) root[at(v)] = static_cast<int32_t>(v);
    const auto root_of = [&](int64_t v) {
        auto r = static_cast<int32_t>(v);
        while (root[at(r)] != r) r = root[at(r)] = root[at(root[at(r)])];
        return r;
    };
    for (int64_t i = 0; i < n_order; ++i) {
        if (cancelled(control, i)) return kCancelled;
        if (static_cast<int64_t>(taken->size()) == n - 1) break;  // a tree of all variables
        if (i + kScopes < n_order) VS_PREFETCH_READ(scope + 2 * order[i + kScopes]);
        if (i + kRoots < n_order) {
            const int64_t* ahead = scope + 2 * order[i + kRoots];
            VS_PREFETCH_READ(root.data() + ahead[0]);
            VS_PREFETCH_READ(root.data() + ahead[1]);
        }
        const int64_t* ends = scope + 2 * order[i];
        const int32_t a = root_of(ends[0]), b = root_of(ends[1]);
        if (a == b) continue;
        root[at(b)] = a;
        taken->push_back(order[i]);
    }
    return kOk;
}

}  // namespace

Status greedy_forest(int64_t n, const int64_t* ptr, const int64_t* scope, const int64_t* order,
                     int64_t n_order, const Control* control, std::vector<int64_t>* taken) {
    taken->clear();
    bool pairs = n <= INT32_MAX;
    for (int64_t i = 0; i < n_order && pairs; ++i) {
        const int64_t f = order[i];
        pairs = ptr[f] == 2 * f && ptr[f + 1] == 2 * f + 2;
    }
    if (pairs) return forest_of_pairs(n, scope, order, n_order, control, taken);
    std::vector<int64_t> root(at(n)), reached(at(n), -1);
    for (int64_t v = 0; v < n; ++v) root[at(v)] = v;
    const auto root_of = [&](int64_t v) {
        while (root[at(v)] != v) v = root[at(v)] = root[at(root[at(v)])];
        return v;
    };
    for (int64_t i = 0; i < n_order; ++i) {
        if (cancelled(control, i)) return kCancelled;
        const int64_t f = order[i];
        bool apart = true;
        for (int64_t e = ptr[f]; e < ptr[f + 1] && apart; ++e) {
            int64_t& last = reached[at(root_of(scope[e]))];
            apart = last != i;
            last = i;
        }
        if (!apart) continue;
        taken->push_back(f);
        const int64_t first = root_of(scope[ptr[f]]);
        for (int64_t e = ptr[f]; e < ptr[f + 1]; ++e) root[at(root_of(scope[e]))] = first;
    }
    return kOk;
}

}  // namespace vs::messages
