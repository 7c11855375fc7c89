// Which variables of a clique are the tile that its rows run over, and the order of the others.
#include <cmath>

#include "junction/planner.h"

namespace vs::junction {
namespace {

constexpr double kRow = 64.0;  // entries that make a row worth its overhead
constexpr double kLeastRow = 16.0;
constexpr double kSmallClique = 256.0;  // one row

// Entries of a table over `s` once it is spread over `tile`; 0 where it is constant along rows.
double spread_size(const Domains& d, const Set& s, const Set& tile) {
    double size = settings(d, tile);
    bool meets = false;
    for (int32_t v : s) {
        if (has(tile, v)) {
            meets = true;
        } else {
            size *= static_cast<double>(d.size(v));
        }
    }
    return meets ? size : 0.0;
}

// Entries of the copies that have to be spread over `tile`.
double spread_all(const Domains& d, const std::vector<Set>& sets, const Set& tile) {
    double cost = 0.0;
    for (const Set& s : sets) {
        if (!within(tile, s)) cost += spread_size(d, s, tile);
    }
    return cost;
}

// The tile that costs least, in nanoseconds of rows and of copies spread and gathered again.
Set best_tile(const Domains& d, const CliqueTree& t, size_t c, const Set& vars,
              const std::vector<Set>& separator, const CliqueLayout& l) {
    const Set &up = separator[c], &message = l.message.var;
    const bool root = t.parent[c] < 0;
    std::vector<Set> sets;
    for (const Child& k : l.children) {
        if (k.into < 0) sets.push_back(separator[k.clique]);
    }
    const double operands = 2.0 + static_cast<double>(sets.size() + l.statics.size());
    Set best;
    double least = INFINITY;
    const auto consider = [&](const Set& tile) {
        double cost = l.size / settings(d, tile) * (3.0 + operands) + 0.15 * operands * l.size +
                      3.0 * spread_all(d, sets, tile);
        // The message up needs no copy where its last variables are those of the tile.
        const bool direct = message.size() >= tile.size() &&
                            std::equal(tile.rbegin(), tile.rend(), message.rbegin());
        if (!root && !direct) cost += 3.0 * spread_size(d, up, tile);
        if (cost < least) {
            least = cost;
            best = tile;
        }
    };
    Set tile;
    for (size_t i = message.size(); i-- > 0 && settings(d, tile) < kRow;) {
        tile.insert(tile.begin(), message[i]);
        if (settings(d, tile) >= kLeastRow) consider(tile);
    }
    // Greedily, the next variable the one that spreads least; late ones break ties, as neighbours
    // in the tree hold them too.
    std::vector<Set> all = sets;
    if (!root) all.push_back(up);
    tile.clear();
    while (tile.size() < vars.size() && settings(d, tile) < kRow) {
        int32_t next = -1;
        double next_cost = INFINITY;
        for (int32_t v : vars) {
            if (has(tile, v)) continue;
            Set more = tile;
            more.push_back(v);
            const double cost = spread_all(d, all, more);
            if (cost <= next_cost) {
                next_cost = cost;
                next = v;
            }
        }
        tile.push_back(next);
        if (settings(d, tile) < kLeastRow && tile.size() < vars.size()) continue;
        Set sorted = tile;
        std::sort(sorted.begin(), sorted.end(),
                  [&](int32_t x, int32_t y) { return t.rank[x] < t.rank[y]; });
        consider(sorted);
    }
    return best;
}

// The variables that most tables share: cut there, blocks of rows seldom meet the same entries.
Set best_cut(const Domains& d, const Set& up, const Set& vars, const std::vector<Set>& separator,
             const CliqueLayout& l) {
    Set cut;
    while (settings(d, cut) < kBlocks) {
        int32_t best = -1;
        double most = -1.0;
        for (int32_t v : vars) {
            if (has(l.tile, v) || has(cut, v)) continue;
            Set more = cut;
            more.push_back(v);
            double shared = within(more, up) ? settings(d, up) : 0.0;
            for (const Child& k : l.children) {
                const Set& s = separator[k.clique];
                if (k.into < 0 && within(more, s)) shared += settings(d, s);
            }
            if (shared > most) {
                most = shared;
                best = v;
            }
        }
        if (best < 0) break;
        cut.push_back(best);
    }
    return cut;
}

}  // namespace

void choose_tile(const Domains& d, const CliqueTree& t, size_t c, const Set& vars,
                 const std::vector<Set>& separator, CliqueLayout* l) {
    l->tile = l->size <= kSmallClique ? vars : best_tile(d, t, c, vars, separator, *l);
    l->width = static_cast<int64_t>(settings(d, l->tile));
    if (l->size > kBlock) l->cut = best_cut(d, separator[c], vars, separator, *l);
    // The separator comes next, so that what is sent up is collected place by place.
    l->outer = l->cut;
    for (const Set* more : std::initializer_list<const Set*>{&l->message.var, &vars}) {
        for (int32_t v : *more) {
            if (!has(l->tile, v) && !has(l->outer, v)) l->outer.push_back(v);
        }
    }
    l->rows = static_cast<int64_t>(settings(d, l->outer));
    for (Static& s : l->statics) {
        Set order = ordered(l->outer, s.dims.var);
        if (!ordered(l->tile, s.dims.var).empty()) {
            order.append(l->tile.begin(), l->tile.end());
        }
        s.dims = dims_of(d, order);
        s.view = shape(d, s.dims, *l);
    }
    for (int32_t v : l->local) l->local_in_tile = l->local_in_tile || has(l->tile, v);
    if (t.parent[c] >= 0) l->up = shape(d, l->message, *l);
}

View shape(const Domains& d, const Dims& table, const CliqueLayout& l) {
    View v;
    const Set shared = ordered(l.tile, table.var);
    v.scalar = shared.empty();
    v.size = table.size;
    if (v.scalar) return v;
    v.direct = shared.size() == l.tile.size();
    int64_t stride = 1;
    for (size_t i = l.tile.size(); i-- > 0 && v.direct;) {
        v.direct = table.stride_of(l.tile[i]) == stride;
        stride *= d.size(l.tile[i]);
    }
    if (!v.direct) {
        v.size = l.width;
        for (int32_t u : table.var) {
            if (!has(l.tile, u)) v.size *= d.size(u);
        }
    }
    return v;
}

}  // namespace vs::junction
