// Which messages are multiplied into others, and which factors are multiplied together.
#include <cmath>

#include "junction/planner.h"

namespace vs::junction {

Set scope_of(const Graph& g, const Domains& d, int64_t f) {
    const Factor x = factor_of(g, f, nullptr);
    Set r;
    for (int64_t i = 0; i < x.arity; ++i) {
        if (d.size(x.scope[i]) > 1) r.push_back(static_cast<int32_t>(x.scope[i]));
    }
    return r;
}

// A message is absorbed by one with the same separator, else by the smallest that contains it.
void absorb_messages(const Domains& d, const std::vector<Set>& separator, CliqueLayout* l) {
    constexpr size_t kManyChildren = 512;  // not compared pair by pair
    const size_t k = l->children.size();
    l->order.resize(k);
    for (size_t i = 0; i < k; ++i) l->order[i] = static_cast<int32_t>(i);
    if (k < 2) return;
    std::vector<Set> sorted(k);
    for (size_t i = 0; i < k; ++i) {
        sorted[i] = separator[l->children[i].clique];
        std::sort(sorted[i].begin(), sorted[i].end());
    }
    Set order = l->order, distinct;
    std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
        return sorted[a] != sorted[b] ? sorted[a] < sorted[b] : a < b;
    });
    for (int32_t i : order) {
        if (!distinct.empty() && sorted[distinct.back()] == sorted[i]) {
            l->children[i].into = distinct.back();
        } else {
            distinct.push_back(i);
        }
    }
    if (distinct.size() > kManyChildren) distinct.clear();
    for (int32_t i : distinct) {
        int32_t best = -1;
        for (int32_t j : distinct) {
            if (sorted[j].size() <= sorted[i].size()) continue;
            if (best >= 0 && settings(d, sorted[j]) >= settings(d, sorted[best])) continue;
            if (within(sorted[i], sorted[j])) best = j;
        }
        l->children[i].into = best;
    }
    for (const Child& c : l->children) {
        if (c.into >= 0) l->children[c.into].absorbs = true;
    }
    std::stable_sort(l->order.begin(), l->order.end(), [&](int32_t a, int32_t b) {
        const size_t na = sorted[a].size(), nb = sorted[b].size();
        if (na != nb) return na < nb;
        // The one that absorbs others of the same separator comes last.
        return sorted[a] != sorted[b] ? sorted[a] < sorted[b]
                                      : !l->children[a].absorbs && l->children[b].absorbs;
    });
    for (int32_t i : l->order) {
        const int32_t into = l->children[i].into;
        if (into >= 0) l->children[into].absorbed.push_back(i);
    }
}

// Largest factor first; each joins the table that grows least, or begins a new one.
void group_factors(const Graph& g, const Domains& d, const int64_t* first, const int64_t* last,
                   CliqueLayout* l) {
    constexpr double kStatic = 32768.0;  // entries of factors multiplied together
    struct Sized {
        double size;
        int64_t f;
        bool operator<(const Sized& o) const { return size != o.size ? size > o.size : f < o.f; }
    };
    Few<Sized, 8> order;
    for (; first < last; ++first) {
        const Factor x = factor_of(g, *first, nullptr);
        double size = 1.0;
        for (int64_t i = 0; i < x.arity; ++i) size *= static_cast<double>(d.size(x.scope[i]));
        order.push_back({size, *first});
    }
    std::sort(order.begin(), order.end());
    // Larger ones would be read from memory, not from a cache.
    const double free = std::min(kStatic, l->size <= 4096.0 ? l->size : l->size / 8.0);
    for (const auto& [size, f] : order) {
        const Set s = scope_of(g, d, f);
        Static* best = nullptr;
        Set best_vars;
        double best_size = INFINITY;
        for (Static& table : l->statics) {
            Set both = table.dims.var;
            for (int32_t v : s) {
                if (!has(both, v)) both.push_back(v);
            }
            const double t = settings(d, both);
            if ((both.size() == table.dims.var.size() || t <= free) && t < best_size) {
                best = &table;
                best_size = t;
                best_vars.swap(both);
            }
        }
        if (!best) {
            best = &l->statics.emplace_back();
            best_vars = s;
        }
        best->dims.var.swap(best_vars);  // in order once the tile is known
        best->factors.push_back(f);
    }
}

}  // namespace vs::junction
