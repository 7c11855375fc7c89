#include "graph/engine.h"

#include <algorithm>
#include <atomic>

#include "graph/rows.h"

namespace vs {
namespace {

// LinearWide as rows.h wants it: one number at a time.
struct WideRows : LinearWide {
    struct V {
        static constexpr int N = 1;
        Wide v;
        static V load(const Wide* p) { return {*p}; }
        static V load_part(const Wide* p, int, Wide) { return {*p}; }
        void store(Wide* p) const { *p = v; }
        void store_part(Wide* p, int) const { *p = v; }
    };
    static V set1(Wide x) { return {x}; }
    using LinearWide::add;
    using LinearWide::mul;
    static V mul(V a, V b) { return {wide::mul(a.v, b.v)}; }
    static V add(V a, V b) { return {wide::add(a.v, b.v)}; }
    static Wide fold(V a) { return a.v; }
};

template <class A>
constexpr int algebra() {
    return std::is_same<A, Best>::value ? kMaxPlus : kSumProduct;
}

// All settings of d.var from the outermost on: f(offset in the table of strides `stride`).
template <class F>
void each(const Domains& d, const std::vector<int32_t>& var, const std::vector<int64_t>& stride,
          F&& f) {
    const size_t n = var.size();
    std::vector<int64_t> state(n, 0);
    int64_t at = 0;
    for (;;) {
        f(at);
        size_t i = n;
        while (i > 0) {
            --i;
            at += stride[i];
            if (++state[i] < d.size(var[i])) break;
            at -= stride[i] * d.size(var[i]);
            state[i] = 0;
            if (i == 0) return;
        }
        if (n == 0) return;
    }
}

constexpr double kTrust = -900.0;  // log2 of the smallest product that is let pass

}  // namespace

template <class A>
Engine<A>::Engine(const Compiled& c) : c_(c) {
    part_.resize(c.t.clique.size());
    shift_.assign(part_.size(), 0.0);
    marginal_.resize(static_cast<size_t>(c.g.n));
    query_.resize(c.queries.size());
}

// The log-tables of the factors of clique c, added up in the layout of its statics.
template <class A>
void Engine<A>::load(size_t c, const double* const* soft) {
    const CliqueLayout& l = c_.l.clique[c];
    Part& p = part_[c];
    p.tables.resize(l.statics.size());
    p.low.assign(l.statics.size(), 0.0);
    shift_[c] = 0.0;
    std::vector<double> sum;
    for (size_t s = 0; s < l.statics.size(); ++s) {
        const Static& st = l.statics[s];
        const size_t size = static_cast<size_t>(st.dims.size);
        sum.assign(size, 0.0);
        const auto add = [&](const double* table, const std::vector<int32_t>& scope,
                             const std::vector<std::vector<int64_t>>& offset) {
            // offset[i][x]: of the x-th living value of scope[i] in the table.
            const size_t n = st.dims.var.size();
            std::vector<const int64_t*> at(n, nullptr);
            int64_t fixed = 0;
            for (size_t i = 0; i < scope.size(); ++i) {
                if (c_.d.size(scope[i]) == 1) {
                    fixed += offset[i][0];
                    continue;
                }
                for (size_t j = 0; j < n; ++j) {
                    if (st.dims.var[j] == scope[i]) at[j] = offset[i].data();
                }
            }
            // The innermost variable in a loop of its own.
            std::vector<int64_t> state(n, 0);
            const int64_t last = n > 0 ? c_.d.size(st.dims.var[n - 1]) : 1;
            const int64_t* inner = n > 0 ? at[n - 1] : nullptr;
            int64_t base = fixed;
            for (size_t j = 0; j + 1 < n; ++j) base += at[j] ? at[j][0] : 0;
            double* out = sum.data();
            for (;;) {
                if (inner) {
                    for (int64_t x = 0; x < last; ++x) out[x] += table[base + inner[x]];
                } else {
                    const double add_all = table[base];
                    for (int64_t x = 0; x < last; ++x) out[x] += add_all;
                }
                out += last;
                if (out == sum.data() + size) break;
                for (size_t j = n - 1; j-- > 0;) {
                    const int64_t before = at[j] ? at[j][state[j]] : 0;
                    if (++state[j] == c_.d.size(st.dims.var[j])) state[j] = 0;
                    base += (at[j] ? at[j][state[j]] : 0) - before;
                    if (state[j] != 0) break;
                }
            }
        };
        std::vector<int32_t> scope;
        std::vector<std::vector<int64_t>> offset;
        for (int64_t f : st.factors) {
            const Factor factor = factor_of(c_.g, f, soft);
            scope.assign(factor.scope, factor.scope + factor.arity);
            offset.assign(scope.size(), {});
            int64_t stride = 1;
            for (size_t i = scope.size(); i-- > 0;) {
                const int64_t left = c_.d.size(scope[i]);
                const int32_t* value = c_.d.values(scope[i]);
                for (int64_t x = 0; x < left; ++x) offset[i].push_back(stride * value[x]);
                stride *= c_.g.card[scope[i]];
            }
            add(factor.table, scope, offset);
        }
        double top = -INFINITY, low = INFINITY;
        for (double x : sum) {
            top = x > top ? x : top;
            if (x > -INFINITY && x < low) low = x;
        }
        if (!(top > -INFINITY)) top = low = 0.0;
        std::vector<T>& out = p.tables[s];
        out.resize(size);
        const double take = std::is_same<A, Best>::value ? 0.0 : top;
        for (size_t i = 0; i < size; ++i) out[i] = A::from_log(sum[i] - take);
        shift_[c] += take;
        p.low[s] = (low - top) * 1.4426950408889634;
    }
}

template <class A>
void Engine<A>::run(const RowJob<T>& job, int64_t rows, Temporary& tmp) const {
    if (tmp.row.size() < static_cast<size_t>(job.width) + 64) {
        tmp.row.resize(static_cast<size_t>(job.width) + 64);
    }
    if constexpr (std::is_same<T, double>::value) {
        graph_level().rows(algebra<A>(), job, 0, rows, tmp.row.data());
    } else {
        level_scalar::rows<WideRows>(job, 0, rows, tmp.row.data());
    }
}

template <class A>
void Engine<A>::spread(const View& v, int64_t width, const std::vector<T>& table,
                       std::vector<T>* wide) const {
    wide->resize(static_cast<size_t>(v.size));
    const int64_t n = static_cast<int64_t>(v.base.size());
    if constexpr (std::is_same<T, double>::value) {
        graph_level().spread(table.data(), v.base.data(), n, v.inner.data(), width, wide->data());
    } else {
        level_scalar::spread_rows<T>(table.data(), v.base.data(), n, v.inner.data(), width,
                                     wide->data());
    }
}

template <class A>
void Engine<A>::gather(const View& v, int64_t width, const std::vector<T>& wide,
                       std::vector<T>* table) const {
    const int64_t n = static_cast<int64_t>(v.base.size());
    if constexpr (std::is_same<T, double>::value) {
        graph_level().gather(algebra<A>(), wide.data(), v.base.data(), n, v.inner.data(), width,
                             table->data());
    } else {
        level_scalar::gather_rows<WideRows>(wide.data(), v.base.data(), n, v.inner.data(), width,
                                            table->data());
    }
}

// log2 of the smallest entry that is not zero.
template <class A>
double Engine<A>::smallest(const std::vector<T>& x) const {
    if (!A::kChecked) return 0.0;
    T low = A::zero();
    for (const T& v : x) {
        if (!A::is_zero(v) && (A::is_zero(low) || A::less(v, low))) low = v;
    }
    return A::is_zero(low) ? 0.0 : A::bits(low);
}

// Pointers of a row job, gathered before it is run.
template <class T>
struct Bench {
    std::vector<const T*> vec, scalar;
    std::vector<const int32_t*> vec_at, scalar_at;
    std::vector<T*> vec_out, scalar_out;
    std::vector<const int32_t*> vec_out_at, scalar_out_at;

    void in(const View& v, const std::vector<T>& table) {
        (v.scalar ? scalar : vec).push_back(table.data());
        (v.scalar ? scalar_at : vec_at).push_back(v.at.data());
    }
    void out(const View& v, std::vector<T>& table) {
        (v.scalar ? scalar_out : vec_out).push_back(table.data());
        (v.scalar ? scalar_out_at : vec_out_at).push_back(v.at.data());
    }
    RowJob<T> job(int64_t width) const {
        RowJob<T> j;
        j.width = width;
        j.n_vec = static_cast<int>(vec.size());
        j.n_scalar = static_cast<int>(scalar.size());
        j.n_vec_out = static_cast<int>(vec_out.size());
        j.n_scalar_out = static_cast<int>(scalar_out.size());
        j.vec = vec.data();
        j.vec_at = vec_at.data();
        j.scalar = scalar.data();
        j.scalar_at = scalar_at.data();
        j.vec_out = vec_out.data();
        j.vec_out_at = vec_out_at.data();
        j.scalar_out = scalar_out.data();
        j.scalar_out_at = scalar_out_at.data();
        return j;
    }
};

template <class A>
Status Engine<A>::collect(size_t c, Temporary& tmp) {
    const CliqueLayout& l = c_.l.clique[c];
    Part& p = part_[c];
    double low = 0.0;
    p.scale = 0.0;
    for (double x : p.low) low += x;
    // Messages that lie within others are multiplied into those first, smaller ones before.
    for (int32_t i : l.order) {
        const Child& k = l.children[i];
        Part& child = part_[k.clique];
        low += child.message_low;
        p.scale += child.scale;
        const std::vector<T>& mine = child.product.empty() ? child.message : child.product;
        if (k.host < 0) {
            if (!k.view.scalar && !k.view.direct) spread(k.view, l.width, mine, &child.spread);
            continue;
        }
        Part& host = part_[l.children[k.host].clique];
        if (host.product.empty()) host.product = host.message;
        for (size_t e = 0; e < host.product.size(); ++e) {
            host.product[e] = A::mul(host.product[e], mine[k.map[e]]);
        }
    }
    if (A::kChecked && low < kTrust) return kWiden;
    Bench<T> b;
    for (size_t s = 0; s < l.statics.size(); ++s) b.in(l.statics[s].view, p.tables[s]);
    for (const Child& k : l.children) {
        if (k.host < 0) b.in(k.view, seen(k));
    }
    std::vector<T>* message = &p.message;
    message->assign(static_cast<size_t>(l.message.size), A::zero());
    if (c_.t.parent[c] < 0) {
        b.scalar_out.push_back(message->data());
        b.scalar_out_at.push_back(nullptr);
        run(b.job(l.width), l.rows, tmp);
    } else if (l.up.scalar || l.up.direct) {
        b.out(l.up, *message);
        run(b.job(l.width), l.rows, tmp);
    } else {
        tmp.spread.assign(static_cast<size_t>(l.up.size), A::zero());
        b.out(l.up, tmp.spread);
        run(b.job(l.width), l.rows, tmp);
        gather(l.up, l.width, tmp.spread, message);
    }
    p.product.clear();
    T top = A::zero();
    for (const T& x : *message) {
        if (A::less(top, x)) top = x;
    }
    if (A::is_zero(top)) return kInfeasible;
    p.scale += A::scale(message->data(), l.message.size, top);
    p.message_low = smallest(*message);
    return kOk;
}

template <class A>
Status Engine<A>::distribute(size_t c, Temporary& tmp) {
    const CliqueLayout& l = c_.l.clique[c];
    Part& p = part_[c];
    double low = p.belief_low;
    for (double x : p.low) low += x;
    for (const Child& k : l.children) low += part_[k.clique].message_low;
    if (A::kChecked && low < kTrust) return kWiden;
    Bench<T> b;
    for (size_t s = 0; s < l.statics.size(); ++s) b.in(l.statics[s].view, p.tables[s]);
    for (const Child& k : l.children) {
        if (k.host < 0) b.in(k.view, seen(k));
    }
    if (c_.t.parent[c] >= 0) {
        if (l.up.scalar || l.up.direct) {
            b.in(l.up, p.belief);
        } else {
            spread(l.up, l.width, p.belief, &tmp.spread);
            b.in(l.up, tmp.spread);
        }
    }
    // What is collected: beliefs of the children's separators, and what no separator shows.
    std::vector<std::vector<T>> wide(l.children.size());
    for (size_t i = 0; i < l.children.size(); ++i) {
        const Child& k = l.children[i];
        Part& child = part_[k.clique];
        child.belief.assign(static_cast<size_t>(c_.l.clique[k.clique].message.size), A::zero());
        if (k.host >= 0) continue;
        if (k.view.scalar || k.view.direct) {
            b.out(k.view, child.belief);
        } else {
            wide[i].assign(static_cast<size_t>(k.view.size), A::zero());
            b.out(k.view, wide[i]);
        }
    }
    std::vector<T> tile;
    if (l.alone_tile) {
        tile.assign(static_cast<size_t>(l.width), A::zero());
        b.vec_out.push_back(tile.data());
        b.vec_out_at.push_back(nullptr);
    }
    for (const Alone& a : l.alone_outer) {
        marginal_[a.var].assign(static_cast<size_t>(c_.d.size(a.var)), A::zero());
        b.scalar_out.push_back(marginal_[a.var].data());
        b.scalar_out_at.push_back(a.at.data());
    }
    std::vector<std::pair<size_t, std::vector<T>>> asked;
    for (size_t q = 0; q < c_.queries.size(); ++q) {
        const Query& query = c_.queries[q];
        if (query.clique != static_cast<int32_t>(c)) continue;
        query_[q].assign(static_cast<size_t>(query.dims.size), A::zero());
        asked.emplace_back(q, std::vector<T>());
    }
    for (auto& [q, room] : asked) {
        const View& v = c_.queries[q].view;
        if (v.scalar || v.direct) {
            b.out(v, query_[q]);
        } else {
            room.assign(static_cast<size_t>(v.size), A::zero());
            b.out(v, room);
        }
    }
    run(b.job(l.width), l.rows, tmp);
    for (auto& [q, room] : asked) {
        if (!room.empty()) gather(c_.queries[q].view, l.width, room, &query_[q]);
    }
    if (l.alone_tile) {
        const Dims d = [&] {
            Dims r;
            r.var = l.tile;
            r.stride.resize(l.tile.size());
            int64_t stride = 1;
            for (size_t i = l.tile.size(); i-- > 0;) {
                r.stride[i] = stride;
                stride *= c_.d.size(l.tile[i]);
            }
            r.size = stride;
            return r;
        }();
        for (int32_t v : l.alone) {
            if (d.stride_of(v) > 0) read_marginal(v, d, tile.data());
        }
    }
    // The children's, larger separators first: others are summed out of them.
    for (size_t o = l.order.size(); o-- > 0;) {
        const size_t i = static_cast<size_t>(l.order[o]);
        const Child& k = l.children[i];
        Part& child = part_[k.clique];
        const Dims& d = c_.l.clique[k.clique].message;
        if (k.host >= 0) {
            const std::vector<T>& from = part_[l.children[k.host].clique].sum;
            for (size_t e = 0; e < from.size(); ++e) {
                child.belief[k.map[e]] = A::add(child.belief[k.map[e]], from[e]);
            }
        } else if (!wide[i].empty()) {
            gather(k.view, l.width, wide[i], &child.belief);
        }
        if (k.hosts) child.sum = child.belief;
        for (int32_t v : d.var) {
            if (c_.l.seen_in[v] == k.clique) read_marginal(v, d, child.belief.data());
        }
        T top = A::zero();
        for (size_t e = 0; e < child.belief.size(); ++e) {
            child.belief[e] = A::ratio(child.belief[e], child.message[e]);
            if (A::less(top, child.belief[e])) top = child.belief[e];
        }
        if (A::is_zero(top)) return A::kChecked ? kWiden : kInfeasible;
        A::scale(child.belief.data(), d.size, top);
        child.belief_low = smallest(child.belief);
    }
    for (const Child& k : l.children) part_[k.clique].sum.clear();
    return kOk;
}

template <class A>
const std::vector<typename A::T>& Engine<A>::seen(const Child& k) const {
    const Part& child = part_[k.clique];
    if (!k.view.scalar && !k.view.direct) return child.spread;
    return child.product.empty() ? child.message : child.product;
}

// Sums a table over everything but v.
template <class A>
void Engine<A>::read_marginal(int32_t v, const Dims& d, const T* table) {
    const int64_t stride = d.stride_of(v), values = c_.d.size(v);
    std::vector<T>& m = marginal_[v];
    m.assign(static_cast<size_t>(values), A::zero());
    for (int64_t outer = 0; outer < d.size; outer += stride * values) {
        for (int64_t x = 0; x < values; ++x) {
            T sum = A::zero();
            const T* from = table + outer + x * stride;
            for (int64_t i = 0; i < stride; ++i) sum = A::add(sum, from[i]);
            m[x] = A::add(m[x], sum);
        }
    }
}

template <class A>
Status Engine<A>::up(const double* const* soft, int threads, Control* control) {
    constant_ = 0.0;
    for (int64_t f = 0; f < c_.g.n_factors; ++f) {
        int64_t at = 0;
        bool alive = false;
        for (int64_t i = c_.g.scope_ptr[f]; i < c_.g.scope_ptr[f + 1]; ++i) {
            const int64_t v = c_.g.scope[i];
            alive = alive || c_.d.size(v) > 1;
            at = at * c_.g.card[v] + c_.d.values(v)[0];
        }
        if (!alive) constant_ += c_.g.table[f][at];
    }
    if (soft) {
        for (int64_t v = 0; v < c_.g.n; ++v) {
            if (soft[v] && c_.d.size(v) == 1) constant_ += soft[v][c_.d.values(v)[0]];
        }
    }
    if (constant_ == -INFINITY) return kInfeasible;
    soft_ = soft;
    const Status status = walk(true, threads, control);
    if (status != kOk) return status;
    log_z_ = constant_;
    for (size_t c = 0; c < part_.size(); ++c) log_z_ += shift_[c];
    for (size_t c = 0; c < part_.size(); ++c) {
        if (c_.t.parent[c] < 0) {
            log_z_ += A::log_of(part_[c].message[0]) + part_[c].scale * 0.693147180559945309417;
        }
    }
    return kOk;
}

template <class A>
Status Engine<A>::down(int threads, Control* control) {
    return walk(false, threads, control);
}

template <class A>
Status Engine<A>::walk(bool upward, int, Control* control) {
    Temporary tmp;
    const size_t n = part_.size();
    for (size_t i = 0; i < n; ++i) {
        const size_t c = upward ? i : n - 1 - i;
        if (upward) load(c, soft_);
        const Status s = upward ? collect(c, tmp) : distribute(c, tmp);
        if (s != kOk) return s;
        if (control->poll && control->poll(control->arg)) return kCancelled;
    }
    return kOk;
}

template <class A>
void Engine<A>::marginals(const int64_t* ptr, double* out) const {
    std::fill(out, out + ptr[c_.g.n], 0.0);
    for (int64_t v = 0; v < c_.g.n; ++v) {
        const int32_t* value = c_.d.values(v);
        double* p = out + ptr[v];
        if (c_.d.size(v) == 1) {
            p[value[0]] = 1.0;
            continue;
        }
        T total = A::zero();
        for (const T& x : marginal_[v]) total = A::add(total, x);
        for (int64_t x = 0; x < c_.d.size(v); ++x) p[value[x]] = A::share(marginal_[v][x], total);
    }
}

template <class A>
void Engine<A>::query(size_t q, double* out) const {
    if (c_.queries[q].clique < 0) {  // everything is decided
        out[0] = 1.0;
        return;
    }
    T total = A::zero();
    for (const T& x : query_[q]) total = A::add(total, x);
    for (size_t i = 0; i < query_[q].size(); ++i) out[i] = A::share(query_[q][i], total);
}

template <class A>
void Engine<A>::pick(const double* uniform, int64_t* states) const {
    std::vector<int32_t> value(static_cast<size_t>(c_.g.n), 0);
    std::vector<T> weight;
    for (size_t i = part_.size(); i-- > 0;) {  // parents first
        const CliqueLayout& l = c_.l.clique[i];
        const Part& p = part_[i];
        // Variables that the parent has not set.
        std::vector<int32_t> open;
        for (const auto* list : {&l.outer, &l.tile}) {
            for (int32_t v : *list) {
                if (l.message.stride_of(v) == 0) open.push_back(v);
            }
        }
        int64_t size = 1;
        for (int32_t v : open) size *= c_.d.size(v);
        weight.assign(static_cast<size_t>(size), A::one());
        const auto times = [&](const Dims& d, const std::vector<T>& table) {
            int64_t fixed = 0;
            for (size_t j = 0; j < d.var.size(); ++j) {
                if (std::find(open.begin(), open.end(), d.var[j]) == open.end()) {
                    fixed += d.stride[j] * value[d.var[j]];
                }
            }
            std::vector<int64_t> stride(open.size());
            for (size_t j = 0; j < open.size(); ++j) stride[j] = d.stride_of(open[j]);
            size_t e = 0;
            each(c_.d, open, stride, [&](int64_t at) {
                weight[e] = A::mul(weight[e], table[fixed + at]);
                ++e;
            });
        };
        for (size_t s = 0; s < l.statics.size(); ++s) times(l.statics[s].dims, p.tables[s]);
        for (const Child& k : l.children) {
            times(c_.l.clique[k.clique].message, part_[k.clique].message);
        }
        int64_t chosen = 0;
        if (std::is_same<A, Best>::value) {
            for (int64_t e = 1; e < size; ++e) {
                if (A::less(weight[chosen], weight[e])) chosen = e;
            }
        } else {
            T total = A::zero();
            for (const T& w : weight) total = A::add(total, w);
            double left = uniform[i];
            chosen = -1;
            for (int64_t e = 0; e < size; ++e) {
                if (A::is_zero(weight[e])) continue;
                chosen = e;  // the last one that can be, should rounding leave some over
                left -= A::share(weight[e], total);
                if (left < 0.0) break;
            }
        }
        for (size_t j = open.size(); j-- > 0;) {
            const int64_t n = c_.d.size(open[j]);
            value[open[j]] = static_cast<int32_t>(chosen % n);
            chosen /= n;
        }
    }
    for (int64_t v = 0; v < c_.g.n; ++v) states[v] = c_.d.values(v)[value[v]];
}

template class Engine<Linear64>;
template class Engine<LinearWide>;
template class Engine<Best>;

}  // namespace vs
