// The factors of a clique, multiplied into its static tables.
#include "core/ln2.h"
#include "junction/state.h"

namespace vs::junction {
namespace {

// The offset of each living value of a variable in a table; zero where the table has it not.
struct Axis {
    int64_t stride;
    const int32_t* value;  // null: the number of the value itself

    int64_t at(int64_t x) const { return stride * (value ? value[x] : x); }
};

// How the settings of some variables stand in a table.
struct Steps {
    Few<Axis, 8> axis;
    int64_t fixed = 0;  // of the variables that have one value left

    // A table without variables.
    explicit Steps(const Set& var) : axis(var.size()) {}
    // The variables `var` in a table over `of`: living values, or those of `original`.
    template <class Scope>
    Steps(const Domains& d, const Set& var, const Scope& of, const Graph* original)
        : axis(var.size()) {
        int64_t stride = 1;
        for (size_t i = of.size(); i-- > 0;) {
            const int64_t v = of[i], n = d.size(v), all = original ? original->card[v] : n;
            const int32_t* const value = n < all ? d.values(v) : nullptr;
            if (n == 1 && value) fixed += stride * value[0];
            for (size_t j = 0; j < var.size(); ++j) {
                if (var[j] == v) axis[j] = {stride, value};
            }
            stride *= all;
        }
    }
};

// Settings of the last of some variables, side by side in the table that is made of two others. It
// takes more of them as long as either table has its entries side by side, too, or always the same
// one; a row of fewer entries is worth a list of offsets.
struct Row {
    size_t lead;          // variables before these
    int64_t width = 1;    // entries
    int64_t step[2]{};    // of entries side by side: 0 or 1
    bool listed = false;  // offsets are in at[]
    const int32_t* at[2]{};

    // b may be null: there is one other table only.
    Row(const Domains& d, const Set& var, const Steps& a, const Steps* b, Set* lists)
        : lead(var.size()) {
        constexpr int64_t kShort = 16;
        const Steps* const both[2] = {&a, b};
        const int n = b ? 2 : 1;
        for (int s = 0; s < n; ++s) step[s] = lead > 0 ? both[s]->axis.back().stride : 0;
        for (; lead > 0; --lead) {
            bool even = true;
            for (int s = 0; s < n; ++s) {
                const Axis& x = both[s]->axis[lead - 1];
                even = even && step[s] <= 1 && !x.value && x.stride == step[s] * width;
            }
            if ((!even || listed) && width >= kShort) break;
            listed = listed || !even;
            width *= d.size(var[lead - 1]);
        }
        if (!listed) return;
        for (int s = 0; s < n; ++s) {
            const Axis* const x = both[s]->axis.data() + lead;
            const auto offset = [&](size_t i, int64_t t) { return x[i].at(t); };
            each_offset(d, var.data() + lead, var.size() - lead, offset, &lists[s]);
            at[s] = lists[s].data();
        }
    }
};

// Walks the rows of all settings of `var`: f(i, a, b) is called with the number of the row's first
// entry and the offsets that its other variables have in two tables.
template <class F>
void each_row(const Domains& d, const Set& var, const Row& row, const Steps& in_a,
              const Steps& in_b, F&& f) {
    Strides state(row.lead);
    int64_t n = 1, a = in_a.fixed, b = in_b.fixed;
    for (size_t j = 0; j < row.lead; ++j) {
        n *= d.size(var[j]);
        a += in_a.axis[j].at(0);
        b += in_b.axis[j].at(0);
    }
    for (int64_t i = 0; i < n; ++i) {
        f(i * row.width, a, b);
        for (size_t j = row.lead; j-- > 0;) {
            const int64_t x = state[j], y = x + 1 == d.size(var[j]) ? 0 : x + 1;
            a += in_a.axis[j].at(y) - in_a.axis[j].at(x);
            b += in_b.axis[j].at(y) - in_b.axis[j].at(x);
            state[j] = y;
            if (y != 0) break;
        }
    }
}

// exp(table - its largest entry) over the living values of `var`, its variables.
template <class A>
void open_factor(const Graph& g, const Domains& d, const Factor& f, const Set& scope,
                 const Set& var, Loading<A>* by, double* top, double* low,
                 std::vector<typename A::T>* out) {
    const Steps steps(d, var, scope, &g), none(var);
    const Row row(d, var, steps, nullptr, by->at);
    by->logs.resize(static_cast<size_t>(settings(d, var)));
    double* const x = by->logs.data();
    double high = -INFINITY, least = INFINITY;
    each_row(d, var, row, steps, none, [&](int64_t i, int64_t a, int64_t) {
        const double* from = f.table + a;
        for (int64_t t = 0; t < row.width; ++t) {
            const double y = from[row.listed ? row.at[0][t] : t * row.step[0]];
            x[i + t] = y;
            high = y > high ? y : high;
            const double z = y > -INFINITY ? y : INFINITY;
            least = z < least ? z : least;
        }
    });
    if (!(high > -INFINITY)) high = least = 0.0;
    *top = high;
    *low = least;
    const double take = std::is_same_v<A, MaxLogs> ? 0.0 : high;
    const size_t n = by->logs.size();
    out->resize(n);
    typename A::T* const to = out->data();
    if constexpr (std::is_same_v<A, Linear64>) {
        level().exponentials(x, static_cast<int64_t>(n), take, to);
    } else {
        for (size_t i = 0; i < n; ++i) {
            to[i] = x[i] > -INFINITY ? A::from_log(x[i] - take) : A::zero();
        }
    }
}

// The product of two tables over `var`, which has their variables, in the same order.
template <class A>
void times(const Domains& d, const Factored<A>& a, const Factored<A>& b, const Set& var, Set* lists,
           std::vector<typename A::T>* made) {
    using T = typename A::T;
    const Steps in_a(d, var, a.var, nullptr), in_b(d, var, b.var, nullptr);
    const Row row(d, var, in_a, &in_b, lists);
    made->resize(static_cast<size_t>(settings(d, var)));
    const int64_t width = row.width;
    each_row(d, var, row, in_a, in_b, [&](int64_t i, int64_t p, int64_t q) {
        T* out = made->data() + i;
        const T *x = a.x.data() + p, *y = b.x.data() + q;
        if (row.listed) {
            const int32_t *u = row.at[0], *v = row.at[1];
            for (int64_t t = 0; t < width; ++t) out[t] = A::mul(x[u[t]], y[v[t]]);
        } else if (row.step[0] && row.step[1]) {
            for (int64_t t = 0; t < width; ++t) out[t] = A::mul(x[t], y[t]);
        } else if (row.step[0]) {
            for (int64_t t = 0; t < width; ++t) out[t] = A::mul(x[t], *y);
        } else if (row.step[1]) {
            for (int64_t t = 0; t < width; ++t) out[t] = A::mul(*x, y[t]);
        } else {
            std::fill(out, out + width, A::mul(*x, *y));
        }
    });
}

// Multiplies the first n tables until two are left, which are the first then, always those two of
// the next kCompared whose product is smallest: late products are large, but few.
template <class A>
void multiply_until_two(const Domains& d, const Set& order, size_t n, Loading<A>* by) {
    constexpr size_t kCompared = 24;
    std::vector<Factored<A>>& tables = by->table;
    if (tables.size() == n) tables.emplace_back();
    Factored<A>& made = tables.back();
    size_t at[kCompared], m = std::min(n, kCompared);
    for (size_t i = 0; i < m; ++i) at[i] = i;
    for (size_t next = m; m > 2;) {
        size_t bi = 0, bj = 1;
        double best = INFINITY;
        for (size_t i = 0; i < m; ++i) {
            const Factored<A>& one = tables[at[i]];
            for (size_t j = i + 1; j < m; ++j) {
                double size = static_cast<double>(one.x.size());
                for (int32_t v : tables[at[j]].var) {
                    if (!has(one.var, v)) size *= static_cast<double>(d.size(v));
                }
                if (size < best) {
                    best = size;
                    bi = i;
                    bj = j;
                }
            }
        }
        Factored<A>&one = tables[at[bi]], &other = tables[at[bj]];
        made.var.clear();
        for (int32_t v : order) {
            if (has(one.var, v) || has(other.var, v)) made.var.push_back(v);
        }
        times(d, one, other, made.var, by->at, &made.x);
        std::swap(one, made);
        std::copy(at + bj + 1, at + m, at + bj);
        if (next < n) {
            at[m - 1] = next++;
        } else {
            --m;
        }
    }
    // Places are in order: none of the two is swapped away.
    for (size_t i = 0; i < 2; ++i) {
        if (at[i] != i) std::swap(tables[i], tables[at[i]]);
    }
}

}  // namespace

template <class A>
void load(State<A>* s, size_t c, Loading<A>* by) {
    constexpr size_t kWorthKeeping = 4096;
    const CliqueLayout& l = s->c.l.clique[c];
    const Domains& d = s->c.d;
    typename State<A>::Clique& own = s->clique[c];
    own.tables.resize(l.statics.size());
    own.low.assign(l.statics.size(), 0.0);
    s->shift[c] = Sum();
    Set order = l.outer;
    order.append(l.tile.begin(), l.tile.end());
    std::vector<Factored<A>>& tables = by->table;
    for (size_t i = 0; i < l.statics.size(); ++i) {
        const Static& st = l.statics[i];
        const size_t n = std::max<size_t>(2, st.factors.size());
        if (tables.size() < n) tables.resize(n);
        bool done = false;
        for (size_t k = 0; k < st.factors.size(); ++k) {
            double top, low;
            const Factor f = factor_of(s->c.g, st.factors[k], s->soft);
            const Set scope(f.scope, f.scope + f.arity);
            tables[k].var = ordered(order, scope);
            done = st.factors.size() == 1 && tables[k].var == st.dims.var;
            open_factor<A>(s->c.g, d, f, scope, tables[k].var, by, &top, &low,
                           done ? &own.tables[i] : &tables[k].x);
            if (!std::is_same_v<A, MaxLogs>) s->shift[c].add(top);
            own.low[i] += (low - top) * kLog2e;
        }
        if (done) continue;
        if (st.factors.size() == 1) {  // spread over the tile
            tables[1].var.clear();
            tables[1].x.assign(1, A::one());
        }
        multiply_until_two(d, order, n, by);
        times(d, tables[0], tables[1], st.dims.var, by->at, &own.tables[i]);
    }
    for (Factored<A>& x : tables) {
        if (x.x.capacity() > kWorthKeeping) std::vector<typename A::T>().swap(x.x);
    }
}

void add_expected(const Graph& g, const Domains& d, const Factor& f, const Set& vars,
                  const std::vector<double>& p, ExpectedScore* to) {
    const Set scope(f.scope, f.scope + f.arity);
    const Steps steps(d, vars, scope, &g), none(vars);
    Set lists[2];
    const Row row(d, vars, steps, nullptr, lists);
    each_row(d, vars, row, steps, none, [&](int64_t i, int64_t a, int64_t) {
        double score = 0.0, magnitude = 0.0;
        for (int64_t t = 0; t < row.width; ++t) {
            if (!(p[i + t] > 0.0)) continue;  // its score may be -inf
            const double x = p[i + t] * f.table[a + (row.listed ? row.at[0][t] : t * row.step[0])];
            score += x;
            magnitude += std::fabs(x);
        }
        to->score.add(score);
        to->magnitude.add(magnitude);
    });
}

template void load(State<Linear64>*, size_t, Loading<Linear64>*);
template void load(State<LinearWide>*, size_t, Loading<LinearWide>*);
template void load(State<MaxLogs>*, size_t, Loading<MaxLogs>*);

}  // namespace vs::junction
