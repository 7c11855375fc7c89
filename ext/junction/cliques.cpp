#include "junction/cliques.h"

#include <algorithm>

#include "junction/dims.h"

namespace vs::junction {
namespace {

double table(const Set& set, const std::vector<double>& values) {
    double t = 1.0;
    for (int32_t v : set) t *= values[v];
    return t;
}

}  // namespace

CliqueTree build_cliques(const Elimination& e, const std::vector<double>& values, double merge) {
    const int32_t n = static_cast<int32_t>(e.order.size());
    CliqueTree t;
    t.rank.assign(static_cast<size_t>(n), 0);
    t.home.assign(static_cast<size_t>(n), -1);
    for (int32_t i = 0; i < n; ++i) t.rank[e.order[i]] = i;
    const auto earlier = [&](int32_t a, int32_t b) { return t.rank[a] < t.rank[b]; };

    // From the last variable to the first. A variable and its later neighbours are a clique, below
    // the one in which the first of these neighbours is eliminated. Where that clique has no other
    // variables, this one joins it.
    std::vector<Set> clique, separator;
    std::vector<int32_t> parent;
    for (int32_t i = n - 1; i >= 0; --i) {
        const int32_t v = e.order[i];
        const Set& later = e.later[v];
        if (values[v] <= 1.0 && later.empty()) continue;  // decided: in no table
        t.width = std::max(t.width, static_cast<int>(later.size()));
        int32_t above = -1;
        if (!later.empty()) above = t.home[*std::min_element(later.begin(), later.end(), earlier)];
        if (above >= 0 && clique[above].size() == later.size()) {
            clique[above].push_back(v);
            t.home[v] = above;
            continue;
        }
        t.home[v] = static_cast<int32_t>(clique.size());
        clique.push_back(later);
        clique.back().push_back(v);
        separator.push_back(later);
        parent.push_back(above);
    }

    // Small cliques are merged into their parents, children first: they have higher numbers here.
    const int32_t m = static_cast<int32_t>(clique.size());
    std::vector<int32_t> into(static_cast<size_t>(m));
    for (int32_t c = 0; c < m; ++c) into[c] = c;
    for (int32_t c = m - 1; c >= 0; --c) {
        const int32_t p = parent[c];
        if (p < 0) continue;
        const double own = table(clique[c], values), above = table(clique[p], values);
        const double both = own / table(separator[c], values) * above;
        if (both > own + above + merge) continue;
        for (int32_t v : clique[c]) {
            if (!has(clique[p], v)) clique[p].push_back(v);
        }
        into[c] = p;
    }
    // The cliques that are left, numbered so that children come before their parents.
    std::vector<int32_t> number(static_cast<size_t>(m), -1);
    int32_t kept = 0;
    for (int32_t c = m - 1; c >= 0; --c) {
        if (into[c] == c) number[c] = kept++;
    }
    const auto last = [&](int32_t c) {
        while (into[c] != c) c = into[c];
        return c;
    };
    t.clique.resize(static_cast<size_t>(kept));
    t.separator.resize(static_cast<size_t>(kept));
    t.parent.assign(static_cast<size_t>(kept), -1);
    for (int32_t c = m - 1; c >= 0; --c) {
        if (into[c] != c) continue;
        const int32_t k = number[c];
        std::sort(clique[c].begin(), clique[c].end(), earlier);
        std::sort(separator[c].begin(), separator[c].end(), earlier);
        t.clique[k].swap(clique[c]);
        t.separator[k].swap(separator[c]);
        t.parent[k] = parent[c] < 0 ? -1 : number[last(parent[c])];
    }
    for (int32_t v = 0; v < n; ++v) {
        if (t.home[v] >= 0) t.home[v] = number[last(t.home[v])];
    }
    return t;
}

}  // namespace vs::junction
