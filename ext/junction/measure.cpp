// How large everything is: cliques, their static tables, tiles and messages.
#include <algorithm>
#include <cmath>
#include <limits>

#include "junction/planner.h"

namespace vs::junction {
namespace {

// The factors of each clique: in it the first of their variables is eliminated.
struct FactorLists {
    std::vector<int64_t> begin, factor;  // those of clique c are factor[begin[c]..begin[c + 1])

    FactorLists(const Graph& g, const Domains& d, const CliqueTree& t,
                const std::vector<int64_t>& soft)
        : begin(t.clique.size() + 2) {
        const size_t n = static_cast<size_t>(g.n_factors) + soft.size();
        std::vector<int32_t> home(n, -1);
        const auto number = [&](size_t i) {
            const int64_t f = static_cast<int64_t>(i) - g.n_factors;
            return f < 0 ? f + g.n_factors : g.n_factors + soft[static_cast<size_t>(f)];
        };
        for (size_t i = 0; i < n; ++i) {
            const Factor x = factor_of(g, number(i), nullptr);
            int64_t first = -1;
            for (int64_t k = 0; k < x.arity; ++k) {
                const int64_t v = x.scope[k];
                if (d.size(v) > 1 && (first < 0 || t.rank[v] < t.rank[first])) first = v;
            }
            if (first < 0) continue;
            home[i] = t.home[first];
            ++begin[static_cast<size_t>(home[i]) + 2];
        }
        for (size_t c = 2; c < begin.size(); ++c) begin[c] += begin[c - 1];
        factor.resize(static_cast<size_t>(begin.back()));
        for (size_t i = 0; i < n; ++i) {  // begin[c + 1] moves from the first to behind the last
            if (home[i] < 0) continue;
            factor[static_cast<size_t>(begin[static_cast<size_t>(home[i]) + 1]++)] = number(i);
        }
    }
};

// Adds the memory of a clique's tables, and the operations of its rows.
void account(const CliqueLayout& l, TableLayout* out) {
    double operands = 1.0, largest = 0.0;
    for (const Static& s : l.statics) {
        largest = std::max(largest, static_cast<double>(s.view.size));
        out->bytes += 8.0 * static_cast<double>(s.view.size) + 4.0 * static_cast<double>(l.rows);
        operands += 1.0;
    }
    // Messages up and down, their beliefs, and spread copies of both.
    const double up = static_cast<double>(l.message.size);
    out->bytes += 3.0 * 8.0 * up + 4.0 * static_cast<double>(l.rows);
    if (!l.up.direct) out->bytes += 2.0 * 8.0 * static_cast<double>(l.up.size);
    largest = std::max({largest, up, static_cast<double>(l.up.size)});
    constexpr double kMostOffsets = std::numeric_limits<int32_t>::max();
    out->addressable = out->addressable && largest <= kMostOffsets;
    for (const Child& k : l.children) operands += k.into < 0;
    out->flops += l.size * (2.0 * operands + 1.0);
}

// Views of children need the layouts of the children's messages, which their parents give.
void meet_children(const Domains& d, CliqueLayout* l, TableLayout* out) {
    for (Child& k : l->children) {
        const Dims& own = out->clique[k.clique].message;
        for (size_t i = 0; i < own.var.size(); ++i) {
            if (out->read_in[own.var[i]] == k.clique) k.n_read = static_cast<int>(i) + 1;
        }
        if (k.into < 0) {
            k.view = shape(d, own, *l);
            out->bytes += 4.0 * static_cast<double>(l->rows);
            if (!k.view.direct) out->bytes += 2.0 * 8.0 * static_cast<double>(k.view.size);
            continue;
        }
        const Dims& into = out->clique[l->children[k.into].clique].message;
        k.contiguous = !into.var.empty() && own.stride_of(into.var.back()) == 1;
        for (size_t i = into.var.size(); i-- > 0;) {
            if (own.stride_of(into.var[i]) != (k.contiguous ? k.run : 0)) break;
            k.run *= d.size(into.var[i]);
        }
        out->bytes += 4.0 * static_cast<double>(into.size / k.run);
    }
}

}  // namespace

Status measure(const Graph& g, const Domains& d, const CliqueTree& t,
               const std::vector<int64_t>& soft, Control* control, TableLayout* out) {
    const size_t m = t.clique.size();
    *out = TableLayout();
    out->clique.resize(m);
    std::vector<Set> separator(m);
    out->read_in.assign(static_cast<size_t>(g.n), -1);
    std::vector<double> smallest(static_cast<size_t>(g.n), INFINITY);
    for (size_t c = 0; c < m; ++c) {
        separator[c] = live(d, t.separator[c]);
        const double size = settings(d, separator[c]);
        for (int32_t v : separator[c]) {
            if (size >= smallest[v]) continue;
            smallest[v] = size;
            out->read_in[v] = static_cast<int32_t>(c);
        }
        if (t.parent[c] < 0) continue;
        Child child;
        child.clique = static_cast<int32_t>(c);
        out->clique[t.parent[c]].children.push_back(child);
    }
    const FactorLists factors(g, d, t, soft);
    const Poll poll{control};
    for (size_t c = m; c-- > 0;) {  // parents first: they order their children's messages
        if (!poll.go_on()) return kCancelled;
        CliqueLayout& l = out->clique[c];
        const Set vars = live(d, t.clique[c]);
        l.size = settings(d, vars);
        out->table_size += l.size;
        if (l.size > out->largest) {
            out->largest = l.size;
            out->largest_clique = static_cast<int32_t>(c);
        }
        out->width = std::max(out->width, static_cast<int>(vars.size()) - 1);
        if (t.parent[c] >= 0) {
            const CliqueLayout& parent = out->clique[t.parent[c]];
            Set order = ordered(parent.outer, separator[c]);
            for (int32_t v : ordered(parent.tile, separator[c])) order.push_back(v);
            l.message = dims_of(d, order);
        }
        for (int32_t v : vars) {
            if (out->read_in[v] < 0) l.local.push_back(v);
        }
        if (l.size > kBeyond) {
            out->bytes += 8.0 * l.size;
            continue;
        }
        absorb_messages(d, separator, &l);
        const int64_t* const own = factors.factor.data();
        group_factors(g, d, own + factors.begin[c], own + factors.begin[c + 1], &l);
        choose_tile(d, t, c, vars, separator, &l);
        account(l, out);
    }
    for (CliqueLayout& l : out->clique) {
        if (!poll.go_on()) return kCancelled;
        if (l.size <= kBeyond) meet_children(d, &l, out);
    }
    out->width = std::min(out->width, t.width);
    out->nanoseconds = predict(g, d, t, *out);
    schedule(d, t, poll, out);
    return poll.go_on() ? kOk : kCancelled;
}

}  // namespace vs::junction
