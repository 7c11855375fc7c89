// The index arrays of a layout: which entry of a table each row meets.
#include "junction/planner.h"

namespace vs::junction {

void offsets(const Domains& d, const Set& vars, const Strides& stride, Set* out) {
    const auto at = [&](size_t i, int64_t x) { return x * stride[i]; };
    each_offset(d, vars.data(), vars.size(), at, out);
}

namespace {

// Offsets of rows, and of spread rows, in a table.
void fill(const Domains& d, const CliqueLayout& l, const Dims& table, View* v) {
    Strides stride = table.strides_of(l.outer);
    if (copied(*v)) {
        const Set held = ordered(l.outer, table.var);
        const Dims wide = dims_of(d, held);
        stride = wide.strides_of(l.outer);
        for (int64_t& s : stride) s *= l.width;
        offsets(d, held, table.strides_of(held), &v->base);
        offsets(d, l.tile, table.strides_of(l.tile), &v->inner);
    }
    offsets(d, l.outer, stride, &v->at);
}

// Where each run of the table `from`, over its last variables, stands in the table `to`.
void fill_map(const Domains& d, const Dims& from, const Dims& to, Child* k) {
    Set var = from.var;
    while (!var.empty() && from.stride[var.size() - 1] < k->run) var.pop_back();
    offsets(d, var, to.strides_of(var), &k->map);
}

struct Fill {
    const Domains& d;
    const CliqueTree& t;
    TableLayout* layout;
    std::vector<size_t> begin;  // (runs + 1,) of cliques
    Control* control;
    Outcome outcome{};

    static void task(void* context, int64_t run, int worker) {
        Fill& w = *static_cast<Fill*>(context);
        w.outcome.run([&] {
            for (size_t c = w.begin[run]; c < w.begin[run + 1]; ++c) w.clique(c, worker == 0);
            return kOk;
        });
    }
    void clique(size_t c, bool calls) {
        constexpr int64_t kRowsPolled = 65536;  // rows whose indices take long enough to poll
        CliqueLayout& l = layout->clique[c];
        const Poll poll{control, calls && l.rows > kRowsPolled};
        for (Static& s : l.statics) {
            fill(d, l, s.dims, &s.view);
            if (!poll.go_on()) return;
        }
        for (Child& k : l.children) {
            const Dims& own = layout->clique[k.clique].message;
            if (k.into < 0) {
                fill(d, l, own, &k.view);
            } else {
                fill_map(d, layout->clique[l.children[k.into].clique].message, own, &k);
            }
            if (!poll.go_on()) return;
        }
        if (t.parent[c] >= 0) fill(d, l, l.message, &l.up);
        l.local_outer.clear();
        for (int32_t v : l.local) {
            if (has(l.tile, v)) continue;
            if (!poll.go_on()) return;
            View own;
            own.scalar = true;
            fill(d, l, dims_of(d, {v}), &own);
            l.local_outer.push_back({v, std::move(own.at)});
        }
    }
};

}  // namespace

// Lays out a query in its clique, over these variables.
static void place(const Domains& d, const TableLayout& layout, const Set& vars, Query* q) {
    q->dims = dims_of(d, vars);
    if (q->clique < 0) return;
    const CliqueLayout& l = layout.clique[q->clique];
    q->view = shape(d, q->dims, l);
    fill(d, l, q->dims, &q->view);
}

void locate(const Domains& d, const CliqueTree& t, const TableLayout& layout,
            std::vector<Query>* queries, const Poll& poll) {
    std::vector<Set> holders(d.ptr.size() - 1);  // the cliques that have each variable
    Set smallest;  // the one where decided variables alone are asked for
    const auto smaller = [&](int32_t a, int32_t b) {
        return layout.clique[a].size < layout.clique[b].size;
    };
    for (int32_t c = 0; c < static_cast<int32_t>(layout.clique.size()); ++c) {
        if (smallest.empty() || smaller(c, smallest[0])) smallest = {c};
        for (int32_t v : t.clique[c]) holders[v].push_back(c);
    }
    for (Query& q : *queries) {
        // Known when it was compiled in, or asked for: some clique holds them all.
        const Set vars = live(d, q.vars);
        const Set* fewest = &smallest;
        for (int32_t v : vars) {
            if (fewest == &smallest || holders[v].size() < fewest->size()) fewest = &holders[v];
        }
        q.clique = -1;
        for (int32_t c : *fewest) {
            if (!within(vars, t.clique[c])) continue;
            if (q.clique < 0 || smaller(c, q.clique)) q.clique = c;
        }
        place(d, layout, vars, &q);
        if (!poll.go_on()) return;
    }
}

Set factor_vars(const Graph& g, const Domains& d, const CliqueLayout& l, const Static& s) {
    Set used;
    for (int64_t f : s.factors) {
        const Factor x = factor_of(g, f, nullptr);
        for (int64_t i = 0; i < x.arity; ++i) {
            const int32_t v = static_cast<int32_t>(x.scope[i]);
            if (d.size(v) > 1 && !has(used, v)) used.push_back(v);
        }
    }
    Set order = ordered(l.outer, used);
    for (int32_t v : ordered(l.tile, used)) order.push_back(v);
    return order;
}

void locate_factors(const Graph& g, const Domains& d, const TableLayout& layout,
                    std::vector<Query>* queries) {
    queries->clear();
    for (size_t c = 0; c < layout.clique.size(); ++c) {
        for (const Static& s : layout.clique[c].statics) {
            Query& q = queries->emplace_back();
            q.clique = static_cast<int32_t>(c);
            q.vars = factor_vars(g, d, layout.clique[c], s);
            place(d, layout, q.vars, &q);
        }
    }
}

// Cliques in runs that are worth a task each.
Status complete(const Domains& d, const CliqueTree& t, TableLayout* layout,
                std::vector<Query>* queries, const PoolApi& pool, int threads, Control* control) {
    constexpr double kRunRows = 262144.0;  // rows of cliques whose indices are one task
    Fill work{d, t, layout, {0}, control};
    double rows = 0.0, all = 0.0;
    for (size_t c = 0; c < layout->clique.size(); ++c) {
        const double own = static_cast<double>(layout->clique[c].rows);
        all += own;
        rows += own + 64.0;
        if (rows < kRunRows && c + 1 < layout->clique.size()) continue;
        work.begin.push_back(c + 1);
        rows = 0.0;
    }
    const Plan plan("indices", static_cast<int64_t>(work.begin.size()) - 1);
    pool.run_plan(plan, Fill::task, &work, all < kRunRows ? 1 : threads, control);
    if (!queries->empty()) {
        work.outcome.run([&] { return locate(d, t, *layout, queries, Poll{control}), kOk; });
    }
    return work.outcome.end(*control);
}

}  // namespace vs::junction
