#include "graph/engine.h"

#include <algorithm>
#include <atomic>
#include <new>

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

// 2^bits where small numbers may be lost, else one.
template <class A>
typename A::T start(double bits) {
    if constexpr (A::kChecked) return std::ldexp(A::one(), static_cast<int>(bits));
    return A::one();
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

constexpr int64_t kPoll = 1 << 18;     // entries between two looks at the clock
constexpr double kWorthThreads = 1e6;  // nanoseconds of work that is faster on several threads
constexpr double kTrust = -900.0;      // log2 of a product above which none underflows
constexpr double kBoost = 900.0;       // log2 of what products start from where some are below
constexpr double kTiny = -1022.0;      // log2 of what an underflow takes, at most
constexpr double kLost = -100.0;       // log2 of the share of a sum that may be lost

}  // namespace

template <class A>
void Engine<A>::keep(const std::vector<uint8_t>& tables, const std::vector<uint8_t>& messages) {
    for (size_t c = 0; c < part_.size(); ++c) {
        part_[c].loaded = part_[c].loaded && tables[c];
        part_[c].sent = part_[c].sent && messages[c];
    }
}

template <class A>
int64_t Engine<A>::n_sent() const {
    return std::count_if(part_.begin(), part_.end(), [](const Part& p) { return p.sent; });
}

template <class A>
Engine<A>::Engine(const Compiled& c) : c_(c) {
    part_.resize(c.t.clique.size());
    shift_.assign(part_.size(), 0.0);
    marginal_.resize(static_cast<size_t>(c.g.n));
    query_.resize(c.queries.size());
}

// A table over some variables of a clique, in the clique's order.
template <class A>
struct Factored {
    using T = typename A::T;
    std::vector<int32_t> var;
    std::vector<T> x;
};

// Walks all settings of `var` in rows of its last variable: row(i, a, b) is called with the number
// of the row's first entry and the offsets that steps_a and steps_b give its other variables.
template <class F>
void each_row(const Domains& d, const std::vector<int32_t>& var, const int64_t* const* steps_a,
              const int64_t* const* steps_b, F&& row) {
    const size_t n = var.size();
    int64_t size = 1;
    for (int32_t v : var) size *= d.size(v);
    const int64_t last = n > 0 ? d.size(var[n - 1]) : 1;
    std::vector<int64_t> state(n, 0);
    int64_t a = 0, b = 0;
    for (size_t j = 0; j + 1 < n; ++j) {
        a += steps_a[j] ? steps_a[j][0] : 0;
        b += steps_b[j] ? steps_b[j][0] : 0;
    }
    for (int64_t i = 0; i < size; i += last) {
        row(i, a, b);
        for (size_t j = n - 1; j-- > 0;) {
            const int64_t x = state[j], y = x + 1 == d.size(var[j]) ? 0 : x + 1;
            if (steps_a[j]) a += steps_a[j][y] - steps_a[j][x];
            if (steps_b[j]) b += steps_b[j][y] - steps_b[j][x];
            state[j] = y;
            if (y != 0) break;
        }
        if (n == 0) break;
    }
}

// Offsets of the values of each variable of `var` in a table over `of`; null where it has none.
static std::vector<const int64_t*> steps_of(const Domains& d, const std::vector<int32_t>& var,
                                            const std::vector<int32_t>& of,
                                            std::vector<int64_t>* room) {
    int64_t total = 0;
    for (int32_t v : of) total += d.size(v);
    room->resize(static_cast<size_t>(total));
    std::vector<const int64_t*> steps(var.size(), nullptr);
    int64_t stride = 1, used = 0;
    for (size_t i = of.size(); i-- > 0;) {
        const int64_t n = d.size(of[i]);
        int64_t* mine = room->data() + used;
        used += n;
        for (int64_t x = 0; x < n; ++x) mine[x] = x * stride;
        stride *= n;
        for (size_t j = 0; j < var.size(); ++j) {
            if (var[j] == of[i]) steps[j] = mine;
        }
    }
    return steps;
}

// exp(table - its largest entry) over the living values, variables in the order of `clique`.
template <class A>
Factored<A> open_factor(const Graph& g, const Domains& d, const Factor& f,
                        const std::vector<int32_t>& clique, double* top, double* low) {
    Factored<A> r;
    std::vector<int64_t> room;
    std::vector<const int64_t*> steps;
    int64_t total = 0;
    for (int64_t i = 0; i < f.arity; ++i) total += d.size(f.scope[i]);
    room.resize(static_cast<size_t>(total));
    int64_t stride = 1, fixed = 0, used = 0;
    std::vector<std::pair<int64_t, const int64_t*>> own;
    for (int64_t i = f.arity; i-- > 0;) {
        const int64_t v = f.scope[i], n = d.size(v);
        const int32_t* value = d.values(v);
        if (n == 1) {
            fixed += stride * value[0];
        } else {
            int64_t* mine = room.data() + used;
            used += n;
            for (int64_t x = 0; x < n; ++x) mine[x] = stride * value[x];
            own.push_back({v, mine});
        }
        stride *= g.card[v];
    }
    int64_t size = 1;
    for (int32_t v : clique) {
        for (const auto& [u, mine] : own) {
            if (u != v) continue;
            r.var.push_back(v);
            steps.push_back(mine);
            size *= d.size(v);
        }
    }
    std::vector<double> x(static_cast<size_t>(size));
    const std::vector<const int64_t*> none(steps.size(), nullptr);
    const int64_t last = r.var.empty() ? 1 : d.size(r.var.back());
    *top = -INFINITY;
    *low = INFINITY;
    each_row(d, r.var, steps.data(), none.data(), [&](int64_t i, int64_t a, int64_t) {
        const double* from = f.table + fixed + a;
        for (int64_t t = 0; t < last; ++t) {
            const double y = from[steps.empty() ? 0 : steps.back()[t]];
            x[i + t] = y;
            *top = y > *top ? y : *top;
            if (y > -INFINITY && y < *low) *low = y;
        }
    });
    if (!(*top > -INFINITY)) *top = *low = 0.0;
    const double take = std::is_same<A, Best>::value ? 0.0 : *top;
    r.x.resize(x.size());
    for (size_t i = 0; i < x.size(); ++i) {
        r.x[i] = x[i] > -INFINITY ? A::from_log(x[i] - take) : A::zero();
    }
    return r;
}

// The product of two tables over the union of their variables, in the order of `order`.
template <class A>
Factored<A> times(const Domains& d, const Factored<A>& a, const Factored<A>& b,
                  const std::vector<int32_t>& order) {
    using T = typename A::T;
    Factored<A> r;
    int64_t size = 1;
    for (int32_t v : order) {
        if (std::find(a.var.begin(), a.var.end(), v) == a.var.end() &&
            std::find(b.var.begin(), b.var.end(), v) == b.var.end()) {
            continue;
        }
        r.var.push_back(v);
        size *= d.size(v);
    }
    std::vector<int64_t> room_a, room_b;
    const auto steps_a = steps_of(d, r.var, a.var, &room_a);
    const auto steps_b = steps_of(d, r.var, b.var, &room_b);
    r.x.resize(static_cast<size_t>(size));
    const int64_t last = r.var.empty() ? 1 : d.size(r.var.back());
    const bool in_a = !r.var.empty() && steps_a.back(), in_b = !r.var.empty() && steps_b.back();
    each_row(d, r.var, steps_a.data(), steps_b.data(), [&](int64_t i, int64_t p, int64_t q) {
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

// The factors of clique c, multiplied into its statics.
template <class A>
void Engine<A>::load(size_t c, const double* const* soft) {
    const CliqueLayout& l = c_.l.clique[c];
    Part& p = part_[c];
    p.tables.resize(l.statics.size());
    p.low.assign(l.statics.size(), 0.0);
    shift_[c] = 0.0;
    std::vector<int32_t> order = l.outer;
    order.insert(order.end(), l.tile.begin(), l.tile.end());
    std::vector<Factored<A>> tables;
    for (size_t s = 0; s < l.statics.size(); ++s) {
        const Static& st = l.statics[s];
        tables.clear();
        for (int64_t f : st.factors) {
            double top, low;
            tables.push_back(
                open_factor<A>(c_.g, c_.d, factor_of(c_.g, f, soft), order, &top, &low));
            if (!std::is_same<A, Best>::value) shift_[c] += top;
            p.low[s] += (low - top) * 1.4426950408889634;
        }
        // Always the two whose product is smallest: late products are large, but few.
        while (tables.size() > 1) {
            size_t bi = 0, bj = 1;
            double best = INFINITY;
            const size_t look = std::min<size_t>(tables.size(), 24);
            for (size_t i = 0; i < look; ++i) {
                for (size_t j = i + 1; j < look; ++j) {
                    double size = static_cast<double>(tables[i].x.size());
                    for (int32_t v : tables[j].var) {
                        if (std::find(tables[i].var.begin(), tables[i].var.end(), v) ==
                            tables[i].var.end()) {
                            size *= static_cast<double>(c_.d.size(v));
                        }
                    }
                    if (size < best) {
                        best = size;
                        bi = i;
                        bj = j;
                    }
                }
            }
            tables[bi] = times(c_.d, tables[bi], tables[bj], order);
            tables.erase(tables.begin() + static_cast<std::ptrdiff_t>(bj));
        }
        if (tables[0].var != st.dims.var) {  // spread over the tile
            Factored<A> wide;
            wide.var = st.dims.var;
            wide.x.assign(static_cast<size_t>(st.dims.size), A::one());
            tables[0] = times(c_.d, wide, tables[0], order);
        }
        p.tables[s].swap(tables[0].x);
    }
}

template <class A>
void Engine<A>::spread(const Flight& f, const View& v, int64_t width, const std::vector<T>& table,
                       std::vector<T>* wide) const {
    wide->reserve(static_cast<size_t>(v.size));
    if (wide->size() > static_cast<size_t>(v.size)) wide->resize(static_cast<size_t>(v.size));
    const int64_t all = static_cast<int64_t>(v.base.size());
    const int64_t part = std::max<int64_t>(1, 4 * kPoll / width);
    for (int64_t i = 0; i < all && f.go_on(); i += part) {
        const int64_t n = std::min(part, all - i);
        const size_t end = static_cast<size_t>((i + n) * width);
        if (wide->size() < end) wide->resize(end);
        const int32_t* base = v.base.data() + i;
        T* out = wide->data() + i * width;
        if constexpr (std::is_same<T, double>::value) {
            graph_level().spread(table.data(), base, n, v.inner.data(), width, out);
        } else {
            level_scalar::spread_rows<T>(table.data(), base, n, v.inner.data(), width, out);
        }
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

// Scales a message by a power of two, log2 of which goes to `bits`; log2 of its smallest entry that
// is not zero goes to `low`. False when all are zero.
template <class A>
bool Engine<A>::normalise(std::vector<T>* x, double* bits, double* low) const {
    const int64_t n = static_cast<int64_t>(x->size());
    *low = 0.0;
    if constexpr (std::is_same<A, Linear64>::value) {
        double top, least;
        graph_level().bounds(x->data(), n, &top, &least);
        if (!(top > 0.0)) return false;
        int e;
        std::frexp(top, &e);
        *low = std::log2(least) - e;
        *bits = e;
        // In two steps where one would leave the range.
        const int half = e > -1000 && e < 1000 ? e : e / 2;
        if (half != 0) graph_level().multiply(x->data(), std::ldexp(1.0, -half), n);
        if (half != e) graph_level().multiply(x->data(), std::ldexp(1.0, half - e), n);
        return true;
    } else {
        T top = A::zero();
        for (const T& v : *x) {
            if (A::less(top, v)) top = v;
        }
        if (A::is_zero(top)) return false;
        *bits = A::scale(x->data(), n, top);
        return true;
    }
}

template <class A>
void Engine<A>::divide(std::vector<T>* x, const std::vector<T>& by) const {
    if constexpr (std::is_same<A, Linear64>::value) {
        graph_level().divide(x->data(), by.data(), static_cast<int64_t>(by.size()));
    } else {
        for (size_t i = 0; i < by.size(); ++i) (*x)[i] = A::ratio((*x)[i], by[i]);
    }
}

template <class A>
void Engine<A>::Flight::clear(std::vector<T>* x, int64_t size) const {
    const size_t all = static_cast<size_t>(size), part = static_cast<size_t>(4 * kPoll);
    x->clear();
    x->reserve(all);
    while (x->size() < all && (x->empty() || go_on())) {
        x->resize(std::min(all, x->size() + part), A::zero());
    }
}

template <class A>
void Engine<A>::Flight::take(const View& v, const std::vector<T>& table) {
    (v.scalar ? scalar : vec).push_back(table.data());
    (v.scalar ? scalar_at : vec_at).push_back(v.at.data());
}

template <class A>
void Engine<A>::Flight::give(Spare* spare, bool is_scalar, bool apart, const int32_t* at,
                             int64_t size, std::vector<T>* into) {
    Sum s;
    s.scalar = is_scalar;
    s.at = at;
    s.into = into;
    if (into->capacity() < static_cast<size_t>(size)) *into = spare->take(size);
    clear(into, size);
    if (blocks > 1 && !apart) {
        s.own.resize(static_cast<size_t>(blocks) - 1);
        for (auto& o : s.own) {
            o = spare->take(size);
            clear(&o, size);
        }
    }
    sums.push_back(std::move(s));
}

// Rows of block k: the first block sums into the tables themselves, the others, unless they meet
// other entries anyway, into copies that are added in order. So threads do not show.
template <class A>
void Engine<A>::block(size_t c, const Flight& f, int k, Temporary& tmp, Control* control,
                      int worker) const {
    const CliqueLayout& l = c_.l.clique[c];
    std::vector<T*> vec_out, scalar_out;
    std::vector<const int32_t*> vec_out_at, scalar_out_at;
    for (const Sum& s : f.sums) {
        T* to = k == 0 || s.own.empty() ? s.into->data() : const_cast<T*>(s.own[k - 1].data());
        (s.scalar ? scalar_out : vec_out).push_back(to);
        (s.scalar ? scalar_out_at : vec_out_at).push_back(s.at);
    }
    RowJob<T> j;
    j.first = start<A>(f.boost);
    j.width = l.width;
    j.n_vec = static_cast<int>(f.vec.size());
    j.n_scalar = static_cast<int>(f.scalar.size());
    j.n_vec_out = static_cast<int>(vec_out.size());
    j.n_scalar_out = static_cast<int>(scalar_out.size());
    j.vec = f.vec.data();
    j.vec_at = f.vec_at.data();
    j.scalar = f.scalar.data();
    j.scalar_at = f.scalar_at.data();
    j.vec_out = vec_out.data();
    j.vec_out_at = vec_out_at.data();
    j.scalar_out = scalar_out.data();
    j.scalar_out_at = scalar_out_at.data();
    if (tmp.row.size() < static_cast<size_t>(l.width) + 64) {
        tmp.row.resize(static_cast<size_t>(l.width) + 64);
    }
    const int64_t units = l.rows / f.unit;
    const int64_t first = units * k / f.blocks * f.unit, last = units * (k + 1) / f.blocks * f.unit;
    const int64_t step = std::max<int64_t>(1, kPoll / l.width);
    for (int64_t r = first; r < last; r += step) {
        const int64_t end = std::min(last, r + step);
        if constexpr (std::is_same<T, double>::value) {
            graph_level().rows(algebra<A>(), j, r, end, tmp.row.data());
        } else {
            level_scalar::rows<WideRows>(j, r, end, tmp.row.data());
        }
        if (end == last) break;
        if (worker == 0 && control->poll && control->poll(control->arg)) control->stop.store(1);
        if (control->stop.load(std::memory_order_relaxed)) return;
    }
}

template <class A>
void Engine<A>::Flight::merge(Spare* spare) {
    for (Sum& s : sums) {
        for (auto& o : s.own) {
            if (!go_on()) return;
            for (size_t e = 0; e < o.size(); ++e) (*s.into)[e] = A::add((*s.into)[e], o[e]);
            spare->put(std::move(o));
        }
        s.own.clear();
    }
}

template <class A>
void Engine<A>::Flight::end(Spare* spare) {
    spare->put(std::move(wide_up));
    for (auto& w : wide) spare->put(std::move(w));
}

// Memory that has been used before costs no page faults.
template <class A>
std::vector<typename A::T> Engine<A>::Spare::take(int64_t size) {
    const std::lock_guard<std::mutex> guard(lock);
    size_t best = list.size();
    for (size_t i = 0; i < list.size(); ++i) {
        if (list[i].capacity() < static_cast<size_t>(size)) continue;
        if (best == list.size() || list[i].capacity() < list[best].capacity()) best = i;
    }
    std::vector<T> x;
    if (best < list.size()) {
        x.swap(list[best]);
        list[best].swap(list.back());
        list.pop_back();
    }
    return x;
}

template <class A>
void Engine<A>::Spare::put(std::vector<T>&& x) {
    if (x.capacity() < kWorthKeeping) return;
    const std::lock_guard<std::mutex> guard(lock);
    list.push_back(std::move(x));
}

template <class A>
void Engine<A>::Spare::trim() {
    size_t kept = 0;
    for (auto& x : list) {
        kept += x.capacity() * sizeof(T);
        if (kept > kMostKept) std::vector<T>().swap(x);
    }
    list.erase(std::remove_if(list.begin(), list.end(),
                              [](const std::vector<T>& x) { return x.capacity() == 0; }),
               list.end());
}

template <class A>
Status Engine<A>::begin_up(size_t c, Flight* f) {
    const CliqueLayout& l = c_.l.clique[c];
    Part& p = part_[c];
    if (!p.loaded) {
        load(c, soft_);
        p.loaded = true;
    }
    p.scale = 0.0;
    for (const Child& k : l.children) part_[k.clique].product.clear();
    // Messages that lie within others are multiplied into those first, smaller ones before.
    for (int32_t i : l.order) {
        const Child& k = l.children[i];
        Part& child = part_[k.clique];
        p.scale += child.scale;
        const std::vector<T>& mine = child.product.empty() ? child.message : child.product;
        if (!f->go_on()) return kOk;
        if (k.host < 0) {
            if (!k.view.scalar && !k.view.direct) spread(*f, k.view, l.width, mine, &child.spread);
            continue;
        }
        Part& host = part_[l.children[k.host].clique];
        if (host.product.empty()) host.product = host.message;
        for (size_t e = 0; e < host.product.size(); ++e) {
            host.product[e] = A::mul(host.product[e], mine[k.map[e]]);
        }
    }
    weigh(c, 0.0, f);
    take_inputs(c, f);
    const bool root = c_.t.parent[c] < 0;
    f->unit = l.unit;
    f->blocks = l.blocks_up;
    if (root) {
        f->give(&spare_, true, false, nullptr, 1, &p.message);
    } else if (l.up.scalar || l.up.direct) {
        f->give(&spare_, l.up.scalar, l.up.apart, l.up.at.data(), l.message.size, &p.message);
    } else {
        f->give(&spare_, false, l.up.apart, l.up.at.data(), l.up.size, &f->wide_up);
    }
    return kOk;
}

// What products of clique c start from, and what their sums may lose; `low`: log2 of the smallest
// entry of the message from above.
template <class A>
void Engine<A>::weigh(size_t c, double low, Flight* f) const {
    if constexpr (A::kChecked) {
        const CliqueLayout& l = c_.l.clique[c];
        const Part& p = part_[c];
        double hosted = 0.0, loss = low < kTrust ? kTiny : -INFINITY;
        bool hosts = false;
        for (double x : p.low) {
            low += x;
            if (x < kTrust) loss = std::max(loss, kTiny);
        }
        for (const Child& k : l.children) {
            hosts = hosts || k.hosts;
            hosted += part_[k.clique].message_low;
            loss = std::max(loss, part_[k.clique].loss);
        }
        low += hosted;
        if (low >= kTrust && loss == -INFINITY) return;
        if (hosts && hosted < kTrust) loss = std::max(loss, kTiny);
        if (low < kTrust) f->boost = kBoost;
        if (low + f->boost < kTrust) loss = std::max(loss, kTiny - f->boost);
        // Each operand and each product on the way may lose as much, and entries are added up.
        const double operands = 2.0 + static_cast<double>(l.children.size() + l.statics.size());
        f->loss = loss + std::log2(l.size) + std::log2(2.0 * operands);
    }
}

template <class A>
bool Engine<A>::lossless() const {
    return std::all_of(part_.begin(), part_.end(),
                       [](const Part& p) { return p.loss == -INFINITY; });
}

template <class A>
void Engine<A>::take_inputs(size_t c, Flight* f) const {
    const CliqueLayout& l = c_.l.clique[c];
    for (size_t s = 0; s < l.statics.size(); ++s) f->take(l.statics[s].view, part_[c].tables[s]);
    for (const Child& k : l.children) {
        if (k.host < 0) f->take(k.view, seen(k));
    }
}

template <class A>
Status Engine<A>::end_up(size_t c, Flight* f) {
    const CliqueLayout& l = c_.l.clique[c];
    Part& p = part_[c];
    f->merge(&spare_);
    if (!f->go_on()) return kOk;
    std::vector<T>& message = p.message;
    if (!f->wide_up.empty()) {
        f->clear(&message, l.message.size);
        if (!f->go_on()) return kOk;
        gather(l.up, l.width, f->wide_up, &message);
    }
    double bits = 0.0;
    if (!normalise(&message, &bits, &p.message_low)) {
        return f->loss > -INFINITY ? kWiden : kInfeasible;
    }
    p.loss = f->loss + f->boost - bits;
    if (A::kChecked && p.message_low < kTiny) p.loss = std::max(p.loss, kTiny) + 1.0;
    if (p.loss > kLost) return kWiden;
    p.scale += bits - f->boost;
    p.sent = true;
    f->end(&spare_);
    return kOk;
}

template <class A>
Status Engine<A>::begin_down(size_t c, Flight* f) {
    const CliqueLayout& l = c_.l.clique[c];
    Part& p = part_[c];
    weigh(c, p.belief_low, f);
    if constexpr (A::kChecked) {
        if (f->loss > -INFINITY && c_.t.parent[c] >= 0) {  // at roots, the way up has seen to it
            double mass = 0.0;
            for (size_t e = 0; e < p.belief.size(); ++e) mass += p.belief[e] * p.message[e];
            if (!(std::log2(mass) + kLost > f->loss)) return kWiden;
        }
    }
    take_inputs(c, f);
    f->unit = l.unit;
    f->blocks = l.blocks_down;
    if (c_.t.parent[c] >= 0) {
        if (l.up.scalar || l.up.direct) {
            f->take(l.up, p.belief);
        } else {
            f->wide_up = spare_.take(l.up.size);
            spread(*f, l.up, l.width, p.belief, &f->wide_up);
            f->take(l.up, f->wide_up);
        }
    }
    // What is collected: beliefs of the children's separators, and what no separator shows.
    f->wide.resize(l.children.size());
    for (size_t i = 0; i < l.children.size(); ++i) {
        const Child& k = l.children[i];
        Part& child = part_[k.clique];
        const int64_t size = c_.l.clique[k.clique].message.size;
        if (k.host >= 0) {
            f->clear(&child.belief, size);
        } else if (k.view.scalar || k.view.direct) {
            f->give(&spare_, k.view.scalar, k.view.apart, k.view.at.data(), size, &child.belief);
        } else {
            f->give(&spare_, false, k.view.apart, k.view.at.data(), k.view.size, &f->wide[i]);
        }
    }
    if (l.alone_tile) f->give(&spare_, false, false, nullptr, l.width, &f->tile);
    for (const Alone& a : l.alone_outer) {
        f->give(&spare_, true, false, a.at.data(), c_.d.size(a.var), &marginal_[a.var]);
    }
    f->asked.resize(c_.queries.size());
    for (size_t q = 0; q < c_.queries.size(); ++q) {
        const Query& query = c_.queries[q];
        if (query.clique != static_cast<int32_t>(c)) continue;
        const View& v = query.view;
        if (v.scalar || v.direct) {
            f->give(&spare_, v.scalar, false, v.at.data(), query.dims.size, &query_[q]);
        } else {
            f->give(&spare_, false, false, v.at.data(), v.size, &f->asked[q]);
        }
    }
    return kOk;
}

template <class A>
Status Engine<A>::end_down(size_t c, Flight* f) {
    const CliqueLayout& l = c_.l.clique[c];
    f->merge(&spare_);
    if (!f->go_on()) return kOk;
    for (size_t q = 0; q < f->asked.size(); ++q) {
        if (f->asked[q].empty()) continue;
        query_[q].assign(static_cast<size_t>(c_.queries[q].dims.size), A::zero());
        gather(c_.queries[q].view, l.width, f->asked[q], &query_[q]);
    }
    if (l.alone_tile) {
        Dims d;
        d.var = l.tile;
        d.stride.resize(l.tile.size());
        for (size_t i = l.tile.size(); i-- > 0;) {
            d.stride[i] = d.size;
            d.size *= c_.d.size(l.tile[i]);
        }
        for (int32_t v : l.alone) {
            if (d.stride_of(v) > 0) read_marginal(v, d, f->tile.data());
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
        } else if (!f->wide[i].empty()) {
            f->clear(&child.belief, d.size);
            if (!f->go_on()) return kOk;
            gather(k.view, l.width, f->wide[i], &child.belief);
        }
        if (!f->go_on()) return kOk;
        if (k.hosts) child.sum = child.belief;
        for (int32_t v : d.var) {
            if (c_.l.seen_in[v] == k.clique) read_marginal(v, d, child.belief.data());
        }
        divide(&child.belief, child.message);
        double bits = 0.0;
        if (!normalise(&child.belief, &bits, &child.belief_low)) {
            return A::kChecked ? kWiden : kInfeasible;
        }
    }
    for (const Child& k : l.children) part_[k.clique].sum.clear();
    f->end(&spare_);
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

// A sum of many numbers, without what each addition rounds away (Neumaier).
struct Compensated {
    double sum = 0.0, lost = 0.0;
    void add(double x) {
        const double t = sum + x;
        lost += std::fabs(sum) >= std::fabs(x) ? (sum - t) + x : (x - t) + sum;
        sum = t;
    }
    double value() const { return sum + lost; }
};

template <class A>
Status Engine<A>::up(const double* const* soft, int threads, Control* control) {
    Compensated total;
    // Factors of which every variable is decided.
    for (int64_t f = 0; f < c_.g.n_factors + c_.g.n; ++f) {
        const Factor x = factor_of(c_.g, f, soft);
        if (x.table == nullptr) continue;
        int64_t at = 0;
        bool alive = false;
        for (int64_t i = 0; i < x.arity; ++i) {
            const int64_t v = x.scope[i];
            alive = alive || c_.d.size(v) > 1;
            at = at * c_.g.card[v] + c_.d.values(v)[0];
        }
        if (alive) continue;
        if (x.table[at] == -INFINITY) return kInfeasible;
        total.add(x.table[at]);
    }
    soft_ = soft;
    const Status status = walk(true, threads, control);
    if (status != kOk) return status;
    for (double shift : shift_) total.add(shift);
    for (size_t c = 0; c < part_.size(); ++c) {
        if (c_.t.parent[c] >= 0) continue;
        total.add(A::log_of(part_[c].message[0]));
        total.add(part_[c].scale * 0.693147180559945309417);
    }
    log_z_ = total.value();
    return kOk;
}

template <class A>
Status Engine<A>::down(int threads, Control* control) {
    return walk(false, threads, control);
}

template <class A>
Status Engine<A>::walk(bool upward, int threads, Control* control) {
    const Schedule& schedule = upward ? c_.l.upward : c_.l.downward;
    Walk w{this, &schedule, upward, control, {}, {}, {}};
    w.tmp.resize(static_cast<size_t>(std::max(threads, 1)));
    w.flight.resize(part_.size());
    if (threads == 1 || schedule.nanoseconds < kWorthThreads) {
        for (size_t t = 0; t < schedule.kind.size(); ++t) {
            step(&w, static_cast<int64_t>(t), 0);
            if (control->poll && control->poll(control->arg)) control->stop.store(1);
            if (control->stop.load(std::memory_order_relaxed)) break;
        }
    } else {
        graph_pool().run_plan(schedule.plan(), step, &w, threads, control);
    }
    spare_.trim();
    const int status = w.status.load();
    if (status != kOk) return static_cast<Status>(status);
    return control->stop.load() ? kCancelled : kOk;
}

template <class A>
void Engine<A>::step(void* context, int64_t task, int worker) {
    Walk& w = *static_cast<Walk*>(context);
    Engine& e = *w.engine;
    const Schedule& s = *w.schedule;
    if (w.status.load(std::memory_order_relaxed) != kOk) return;
    Temporary& tmp = w.tmp[static_cast<size_t>(worker)];
    Status status = kOk;
    const auto hears = [&](size_t c) { return worker == 0 && e.c_.l.clique[c].size > kPoll; };
    try {
        const int64_t first = s.first[task], last = s.last[task];
        switch (s.kind[task]) {
            case Schedule::kWhole:
                for (int64_t i = first; i < last && status == kOk; ++i) {
                    const size_t c = static_cast<size_t>(s.order[i]);
                    if (w.upward && e.part_[c].sent) continue;
                    Flight f(w.control, hears(c));
                    status = w.upward ? e.begin_up(c, &f) : e.begin_down(c, &f);
                    if (w.control->stop.load(std::memory_order_relaxed)) return;
                    for (int k = 0; k < f.blocks && status == kOk; ++k) {
                        e.block(c, f, k, tmp, w.control, worker);
                        if (w.control->stop.load(std::memory_order_relaxed)) return;
                    }
                    if (status == kOk) status = w.upward ? e.end_up(c, &f) : e.end_down(c, &f);
                    w.control->done.fetch_add(1, std::memory_order_relaxed);
                }
                break;
            case Schedule::kBegin: {
                const size_t c = static_cast<size_t>(first);
                if (w.upward && e.part_[c].sent) break;
                w.flight[c].reset(new Flight(w.control, hears(c)));
                status = w.upward ? e.begin_up(c, w.flight[c].get())
                                  : e.begin_down(c, w.flight[c].get());
                break;
            }
            case Schedule::kBlock: {
                const size_t c = static_cast<size_t>(first);
                if (!w.flight[c]) break;
                e.block(c, *w.flight[c], static_cast<int>(last), tmp, w.control, worker);
                break;
            }
            case Schedule::kEnd: {
                const size_t c = static_cast<size_t>(first);
                if (!w.flight[c]) break;
                w.flight[c]->listens = hears(c);
                status =
                    w.upward ? e.end_up(c, w.flight[c].get()) : e.end_down(c, w.flight[c].get());
                w.flight[c].reset();
                w.control->done.fetch_add(1, std::memory_order_relaxed);
                break;
            }
        }
    } catch (const std::bad_alloc&) {
        status = kNoMemory;
    }
    if (status != kOk) {
        int none = kOk;
        w.status.compare_exchange_strong(none, status);
    }
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
        weight.assign(static_cast<size_t>(size), start<A>(kBoost));
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
