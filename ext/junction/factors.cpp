// The factors of a clique, multiplied into its static tables.
#include "junction/state.h"

namespace vs::junction {
namespace {

constexpr double kLog2e = 1.4426950408889634;

// A table over some variables of a clique, in the clique's order.
template <class A>
struct Factored {
    Set var;
    std::vector<typename A::T> x;
};

// The offset of each living value of some variables in a table; null where it has no such variable.
struct Steps {
    Few<const int64_t*, 8> at;
    int64_t fixed = 0;  // of the variables that have one value left

    // A table without variables.
    explicit Steps(const Set& var) : at(var.size()) {}
    // The shape of the variables `var` in a table over `of`: living values, or those of `original`.
    template <class Scope>
    Steps(const Domains& d, const Set& var, const Scope& of, const Graph* original)
        : at(var.size()) {
        int64_t total = 0, stride = 1, used = 0;
        for (int64_t v : of) total += d.size(v);
        storage_.resize(static_cast<size_t>(total));
        for (size_t i = of.size(); i-- > 0;) {
            const int64_t v = of[i], n = d.size(v);
            int64_t* own = storage_.data() + used;
            used += n;
            for (int64_t x = 0; x < n; ++x) own[x] = stride * (original ? d.values(v)[x] : x);
            stride *= original ? original->card[v] : n;
            if (n == 1) fixed += own[0];
            for (size_t j = 0; j < var.size(); ++j) {
                if (var[j] == v) at[j] = own;
            }
        }
    }
    Steps(const Steps&) = delete;  // it points into itself

  private:
    Few<int64_t, 32> storage_;
};

// Walks all settings of `var` in rows of its last variable: row(i, a, b) is called with the number
// of the row's first entry and the offsets that its other variables have in two tables.
template <class F>
void each_row(const Domains& d, const Set& var, const Steps& in_a, const Steps& in_b, F&& row) {
    const size_t n = var.size();
    int64_t size = 1;
    for (int32_t v : var) size *= d.size(v);
    const int64_t last = n > 0 ? d.size(var[n - 1]) : 1;
    Strides state(n);
    int64_t a = in_a.fixed, b = in_b.fixed;
    for (size_t j = 0; j + 1 < n; ++j) {
        a += in_a.at[j] ? in_a.at[j][0] : 0;
        b += in_b.at[j] ? in_b.at[j][0] : 0;
    }
    for (int64_t i = 0; i < size; i += last) {
        row(i, a, b);
        if (n == 0) break;
        for (size_t j = n - 1; j-- > 0;) {
            const int64_t x = state[j], y = x + 1 == d.size(var[j]) ? 0 : x + 1;
            if (in_a.at[j]) a += in_a.at[j][y] - in_a.at[j][x];
            if (in_b.at[j]) b += in_b.at[j][y] - in_b.at[j][x];
            state[j] = y;
            if (y != 0) break;
        }
    }
}

// exp(table - its largest entry) over the living values, variables in the order of `clique`.
template <class A>
Factored<A> open_factor(const Graph& g, const Domains& d, const Factor& f, const Set& clique,
                        std::vector<double>* logs, double* top, double* low) {
    const Set scope(f.scope, f.scope + f.arity);
    Factored<A> r;
    r.var = ordered(clique, scope);
    const Steps steps(d, r.var, scope, &g), none(r.var);
    logs->resize(static_cast<size_t>(settings(d, r.var)));
    double* const x = logs->data();
    const int64_t last = r.var.empty() ? 1 : d.size(r.var.back());
    *top = -INFINITY;
    *low = INFINITY;
    each_row(d, r.var, steps, none, [&](int64_t i, int64_t a, int64_t) {
        const double* from = f.table + a;
        for (int64_t t = 0; t < last; ++t) {
            const double y = from[r.var.empty() ? 0 : steps.at.back()[t]];
            x[i + t] = y;
            *top = y > *top ? y : *top;
            if (y > -INFINITY && y < *low) *low = y;
        }
    });
    if (!(*top > -INFINITY)) *top = *low = 0.0;
    const double take = std::is_same_v<A, Best> ? 0.0 : *top;
    r.x.resize(logs->size());
    for (size_t i = 0; i < logs->size(); ++i) {
        r.x[i] = x[i] > -INFINITY ? A::from_log(x[i] - take) : A::zero();
    }
    return r;
}

// The product of two tables over the union of their variables, in the order of `order`.
template <class A>
Factored<A> times(const Domains& d, const Factored<A>& a, const Factored<A>& b, const Set& order) {
    using T = typename A::T;
    Factored<A> r;
    for (int32_t v : order) {
        if (has(a.var, v) || has(b.var, v)) r.var.push_back(v);
    }
    const Steps steps_a(d, r.var, a.var, nullptr), steps_b(d, r.var, b.var, nullptr);
    r.x.resize(static_cast<size_t>(settings(d, r.var)));
    const int64_t last = r.var.empty() ? 1 : d.size(r.var.back());
    const bool in_a = !r.var.empty() && steps_a.at.back();
    const bool in_b = !r.var.empty() && steps_b.at.back();
    each_row(d, r.var, steps_a, steps_b, [&](int64_t i, int64_t p, int64_t q) {
        T* out = r.x.data() + i;
        const T *x = a.x.data() + p, *y = b.x.data() + q;
        // The last variable is the last one of either table that has it: its stride there is 1.
        if (in_a && in_b) {
            for (int64_t t = 0; t < last; ++t) out[t] = A::mul(x[t], y[t]);
        } else if (in_a) {
            for (int64_t t = 0; t < last; ++t) out[t] = A::mul(x[t], *y);
        } else if (in_b) {
            for (int64_t t = 0; t < last; ++t) out[t] = A::mul(*x, y[t]);
        } else {
            out[0] = A::mul(*x, *y);
        }
    });
    return r;
}

// Multiplies tables until one is left, always the two whose product is smallest: late products are
// large, but few.
template <class A>
void multiply_all(const Domains& d, const Set& order, std::vector<Factored<A>>* tables) {
    constexpr size_t kCompared = 24;
    while (tables->size() > 1) {
        size_t bi = 0, bj = 1;
        double best = INFINITY;
        const size_t n = std::min(tables->size(), kCompared);
        for (size_t i = 0; i < n; ++i) {
            for (size_t j = i + 1; j < n; ++j) {
                double size = static_cast<double>((*tables)[i].x.size());
                for (int32_t v : (*tables)[j].var) {
                    if (!has((*tables)[i].var, v)) size *= static_cast<double>(d.size(v));
                }
                if (size < best) {
                    best = size;
                    bi = i;
                    bj = j;
                }
            }
        }
        (*tables)[bi] = times(d, (*tables)[bi], (*tables)[bj], order);
        tables->erase(tables->begin() + static_cast<std::ptrdiff_t>(bj));
    }
}

}  // namespace

template <class A>
void load(State<A>* s, size_t c) {
    const CliqueLayout& l = s->c.l.clique[c];
    const Domains& d = s->c.d;
    typename State<A>::Clique& own = s->clique[c];
    own.tables.resize(l.statics.size());
    own.low.assign(l.statics.size(), 0.0);
    s->shift[c] = Sum();
    Set order = l.outer;
    order.append(l.tile.begin(), l.tile.end());
    std::vector<Factored<A>> tables;
    std::vector<double> logs;
    for (size_t i = 0; i < l.statics.size(); ++i) {
        const Static& st = l.statics[i];
        tables.clear();
        for (int64_t f : st.factors) {
            double top, low;
            const Factor factor = factor_of(s->c.g, f, s->soft);
            tables.push_back(open_factor<A>(s->c.g, d, factor, order, &logs, &top, &low));
            if (!std::is_same_v<A, Best>) s->shift[c].add(top);
            own.low[i] += (low - top) * kLog2e;
        }
        multiply_all(d, order, &tables);
        if (tables[0].var != st.dims.var) {  // spread over the tile
            Factored<A> wide{st.dims.var, {}};
            wide.x.assign(static_cast<size_t>(st.dims.size), A::one());
            tables[0] = times(d, wide, tables[0], order);
        }
        own.tables[i].swap(tables[0].x);
    }
}

void add_expected(const Graph& g, const Domains& d, const Factor& f, const Set& vars,
                  const std::vector<double>& p, ExpectedScore* to) {
    const Set scope(f.scope, f.scope + f.arity);
    const Steps steps(d, vars, scope, &g), none(vars);
    const int64_t last = vars.empty() ? 1 : d.size(vars.back());
    const int64_t* const step = vars.empty() ? nullptr : steps.at.back();
    each_row(d, vars, steps, none, [&](int64_t i, int64_t a, int64_t) {
        double score = 0.0, magnitude = 0.0;
        for (int64_t t = 0; t < last; ++t) {
            if (!(p[i + t] > 0.0)) continue;  // its score may be -inf
            const double x = p[i + t] * f.table[a + (step ? step[t] : 0)];
            score += x;
            magnitude += std::fabs(x);
        }
        to->score.add(score);
        to->magnitude.add(magnitude);
    });
}

template void load(State<Linear64>*, size_t);
template void load(State<LinearWide>*, size_t);
template void load(State<Best>*, size_t);

}  // namespace vs::junction
