#include "junction/engine.h"

#include <algorithm>
#include <atomic>
#include <new>

#include "junction/rows.h"

namespace vs::junction {
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
typename A::T first_factor(double bits) {
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
constexpr int64_t kNear = 2048;        // entries that stay in a near cache between two looks
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
    shift_.resize(part_.size());
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
    shift_[c] = Compensated();
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
            if (!std::is_same<A, Best>::value) shift_[c].add(top);
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
template <class F>
void Engine<A>::Ear::parts(int64_t first, int64_t last, int64_t part, F&& f) const {
    for (int64_t a = first; a < last && (a == first || go_on()); a += part) {
        f(a, std::min(last, a + part));
    }
}

// Resizes in parts: memory that is new is cleared by the system first, which takes its time.
template <class A>
void Engine<A>::grow(std::vector<T>* x, int64_t size, const Ear& ear) const {
    const int64_t there = static_cast<int64_t>(x->size());
    if (there >= size) return x->resize(static_cast<size_t>(size));
    x->reserve(static_cast<size_t>(size));
    ear.parts(there, size, 4 * kPoll,
              [&](int64_t, int64_t end) { x->resize(static_cast<size_t>(end)); });
}

template <class A>
void Engine<A>::spread(const View& v, int64_t width, const std::vector<T>& table, Share share,
                       const Ear& ear, std::vector<T>* wide) const {
    const int64_t all = static_cast<int64_t>(v.base.size());
    ear.parts(share.first(all), share.last(all), std::max<int64_t>(1, 4 * kPoll / width),
              [&](int64_t a, int64_t b) {
                  T* out = wide->data() + a * width;
                  if constexpr (std::is_same<T, double>::value) {
                      graph_level().spread(table.data(), v.base.data() + a, b - a, v.inner.data(),
                                           width, out);
                  } else {
                      level_scalar::spread_rows<T>(table.data(), v.base.data() + a, b - a,
                                                   v.inner.data(), width, out);
                  }
              });
}

// Rows meet entries of their own: pieces do not.
template <class A>
void Engine<A>::gather(const View& v, int64_t width, const std::vector<T>& wide, Share share,
                       const Ear& ear, std::vector<T>* table) const {
    const int64_t all = static_cast<int64_t>(v.base.size());
    ear.parts(share.first(all), share.last(all), std::max<int64_t>(1, 4 * kPoll / width),
              [&](int64_t a, int64_t b) {
                  const T* in = wide.data() + a * width;
                  if constexpr (std::is_same<T, double>::value) {
                      graph_level().gather(algebra<A>(), in, v.base.data() + a, b - a,
                                           v.inner.data(), width, table->data());
                  } else {
                      level_scalar::gather_rows<WideRows>(in, v.base.data() + a, b - a,
                                                          v.inner.data(), width, table->data());
                  }
              });
}

template <class A>
typename Engine<A>::Range Engine<A>::range(const T* x, int64_t n) const {
    Range r;
    if constexpr (std::is_same<A, Linear64>::value) {
        graph_level().bounds(x, n, &r.top, &r.least);
    } else {
        for (int64_t i = 0; i < n; ++i) {
            if (A::less(r.top, x[i])) r.top = x[i];
        }
    }
    return r;
}

template <class A>
void Engine<A>::join(const Range& a, Range* b) {
    if (A::less(b->top, a.top)) b->top = a.top;
    if (a.least > 0.0 && !(b->least > 0.0 && b->least < a.least)) b->least = a.least;
}

// A message is scaled by a power of two, log2 of which goes to `bits`; log2 of its smallest entry
// that is not zero goes to `low`. False when all are zero.
template <class A>
bool Engine<A>::weigh_scale(const Range& all, double* bits, double* low) const {
    *low = 0.0;
    *bits = 0.0;
    if (A::is_zero(all.top)) return false;
    if constexpr (std::is_same<A, Linear64>::value) {
        int e;
        std::frexp(all.top, &e);
        *low = std::log2(all.least) - e;
        *bits = e;
    } else {
        *bits = A::scale(nullptr, 0, all.top);
    }
    return true;
}

template <class A>
void Engine<A>::scale(std::vector<T>* x, T top, Share share, const Ear& ear) const {
    const int64_t n = static_cast<int64_t>(x->size());
    if constexpr (std::is_same<A, Linear64>::value) {
        int e;
        std::frexp(top, &e);
        if (e == 0) return;
        // In two steps where one would leave the range.
        const int half = e > -1000 && e < 1000 ? e : e / 2;
        ear.parts(share.first(n), share.last(n), 4 * kPoll, [&](int64_t a, int64_t b) {
            if (half != 0) graph_level().multiply(x->data() + a, std::ldexp(1.0, -half), b - a);
            if (half != e) graph_level().multiply(x->data() + a, std::ldexp(1.0, half - e), b - a);
        });
    } else {
        const int64_t first = share.first(n);
        A::scale(x->data() + first, share.last(n) - first, top);
    }
}

template <class A>
void Engine<A>::divide(T* x, const T* by, int64_t n) const {
    if constexpr (std::is_same<A, Linear64>::value) {
        graph_level().divide(x, by, n);
    } else {
        for (int64_t i = 0; i < n; ++i) x[i] = A::ratio(x[i], by[i]);
    }
}

// The sum of x, which is added to `into` too where that is not null.
template <class A>
typename A::T Engine<A>::fold(const T* x, int64_t n, T* into) const {
    if constexpr (std::is_same<A, Linear64>::value) {
        return graph_level().fold(x, n, into);
    } else {
        T sum = A::zero();
        for (int64_t i = 0; i < n; ++i) {
            sum = A::add(sum, x[i]);
            if (into) into[i] = A::add(into[i], x[i]);
        }
        return sum;
    }
}

// Sets a share of each table to zero.
template <class A>
void Engine<A>::Flight::clear(const std::vector<std::vector<T>*>& list, Share share,
                              const Ear& ear) const {
    for (std::vector<T>* x : list) {
        const int64_t n = static_cast<int64_t>(x->size());
        ear.parts(share.first(n), share.last(n), 4 * kPoll, [&](int64_t a, int64_t b) {
            std::fill(x->begin() + a, x->begin() + b, A::zero());
        });
    }
}

template <class A>
void Engine<A>::Flight::take(const View& v, const std::vector<T>& table) {
    (v.scalar ? scalar : vec).push_back(table.data());
    (v.scalar ? scalar_at : vec_at).push_back(v.at.data());
}

template <class A>
void Engine<A>::Flight::give(Spare* spare, const Ear& ear, bool is_scalar, bool apart,
                             const int32_t* at, int64_t size, std::vector<T>* into) {
    Sum s;
    s.scalar = is_scalar;
    s.at = at;
    s.into = into;
    if (blocks > 1 && !apart) s.own.resize(static_cast<size_t>(blocks) - 1);
    const auto grow = [&](std::vector<T>* x) {
        const int64_t there = static_cast<int64_t>(x->size());
        x->resize(static_cast<size_t>(std::min(there, size)));
        ear.parts(there, size, 4 * kPoll,
                  [&](int64_t, int64_t end) { x->resize(static_cast<size_t>(end)); });
        zero.push_back(x);
    };
    spare->need(size, into);
    grow(into);
    for (auto& o : s.own) {
        spare->need(size, &o);
        grow(&o);
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
    j.first = first_factor<A>(f.boost);
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

// Adds up what blocks have collected, in their order.
template <class A>
void Engine<A>::Flight::merge(Share share, const Ear& ear) const {
    for (const Sum& s : sums) {
        if (s.own.empty()) continue;
        const int64_t n = static_cast<int64_t>(s.into->size());
        // In parts that stay in a near cache from copy to copy.
        ear.parts(share.first(n), share.last(n), 2048, [&](int64_t a, int64_t b) {
            T* to = s.into->data();
            for (const auto& o : s.own) {
                const T* from = o.data();
                for (int64_t e = a; e < b; ++e) to[e] = A::add(to[e], from[e]);
            }
        });
    }
}

template <class A>
void Engine<A>::Flight::end(Spare* spare) {
    for (Sum& s : sums) {
        for (auto& o : s.own) spare->put(std::move(o));
    }
    spare->put(std::move(wide_up));
    for (auto& w : wide) spare->put(std::move(w));
    spare->put(std::move(folded));
}

template <class A>
void Engine<A>::Flight::reset() {
    for (auto* list : {&vec, &scalar}) list->clear();
    for (auto* list : {&vec_at, &scalar_at}) list->clear();
    for (auto* list : {&zero, &late_zero}) list->clear();
    for (auto* list : {&wide, &asked}) {
        for (auto& x : *list) x.clear();
    }
    sums.clear();
    closing.clear();
    found.clear();
    wide_up.clear();
    unit = blocks = 1;
    boost = 0.0;
    loss = -INFINITY;
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
void Engine<A>::Spare::need(int64_t size, std::vector<T>* x) {
    if (x->capacity() >= static_cast<size_t>(size)) return;
    if (static_cast<size_t>(size) >= kWorthKeeping) *x = take(size);
    x->reserve(static_cast<size_t>(size));
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

// What the guests of child k say is multiplied into its message.
template <class A>
void Engine<A>::host(const CliqueLayout& l, const Child& k, Share share, const Ear& ear) {
    Part& child = part_[k.clique];
    const int64_t n = static_cast<int64_t>(child.message.size());
    ear.parts(share.first(n), share.last(n), kNear, [&](int64_t a, int64_t b) {
        T* to = child.product.data();
        std::copy(child.message.data() + a, child.message.data() + b, to + a);
        for (int32_t i : k.guests) {
            const Child& guest = l.children[i];
            const Part& p = part_[guest.clique];
            const T* from = guest.hosts ? p.product.data() : p.message.data();
            for (int64_t e = a, i = a / guest.run; e < b; ++i) {
                const int64_t end = std::min(b, (i + 1) * guest.run);
                const T* x = from + guest.map[i];
                if (guest.along) {
                    x += e - i * guest.run;
                    for (; e < end; ++e, ++x) to[e] = A::mul(to[e], *x);
                } else {
                    for (; e < end; ++e) to[e] = A::mul(to[e], *x);
                }
            }
        }
    });
}

template <class A>
void Engine<A>::open_up(size_t c, Flight* f, const Ear& ear) {
    const CliqueLayout& l = c_.l.clique[c];
    Part& p = part_[c];
    if (!p.loaded) {
        load(c, soft_);
        p.loaded = true;
    }
    // Smaller ones before: messages that lie within others are multiplied into those first.
    for (int32_t i : l.order) {
        const Child& k = l.children[i];
        Part& child = part_[k.clique];
        if (!ear.go_on()) return;
        if (k.hosts) {
            grow(&child.product, static_cast<int64_t>(child.message.size()), ear);
            if (k.host >= 0) host(l, k, {0, 1}, ear);
        }
        if (k.host < 0 && !k.view.scalar && !k.view.direct) grow(&child.spread, k.view.size, ear);
    }
    weigh(c, 0.0, f);
    take_inputs(c, f);
    f->unit = l.unit;
    f->blocks = l.blocks_up;
    f->closing.resize(1);
    f->found.resize(static_cast<size_t>(l.shut_up));
    if (c_.t.parent[c] < 0) {
        f->give(&spare_, ear, true, false, nullptr, 1, &p.message);
    } else if (l.up.scalar || l.up.direct) {
        f->give(&spare_, ear, l.up.scalar, l.up.apart, l.up.at.data(), l.message.size, &p.message);
    } else {
        f->give(&spare_, ear, false, l.up.apart, l.up.at.data(), l.up.size, &f->wide_up);
        spare_.need(l.message.size, &p.message);
        grow(&p.message, l.message.size, ear);
        f->late_zero.push_back(&p.message);
    }
}

template <class A>
Status Engine<A>::stage_up(size_t c, Flight* f, Stage stage, Share share, const Ear& ear) {
    const CliqueLayout& l = c_.l.clique[c];
    Part& p = part_[c];
    switch (stage) {
        case kOpen:
            open_up(c, f, ear);
            return kOk;
        case kHosts:
            for (const Child& k : l.children) {
                if (k.hosts && k.host < 0) host(l, k, share, ear);
            }
            return kOk;
        case kSpread:
            for (const Child& k : l.children) {
                if (k.host >= 0 || k.view.scalar || k.view.direct) continue;
                Part& child = part_[k.clique];
                spread(k.view, l.width, k.hosts ? child.product : child.message, share, ear,
                       &child.spread);
            }
            f->clear(f->zero, share, ear);
            return kOk;
        case kMerge:
            f->merge(share, ear);
            f->clear(f->late_zero, share, ear);
            return kOk;
        case kGather:
            if (!f->wide_up.empty()) gather(l.up, l.width, f->wide_up, share, ear, &p.message);
            return kOk;
        case kShare: {
            const int64_t n = static_cast<int64_t>(p.message.size()), first = share.first(n);
            f->found[share.p] = range(p.message.data() + first, share.last(n) - first);
            return kOk;
        }
        case kClose:
            return close_up(c, f);
        case kScale:
            scale(&p.message, f->closing[0].top, share, ear);
            return kOk;
        case kLeave:
            p.sent = true;
            f->end(&spare_);
            return kOk;
        default:
            return kOk;
    }
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
bool Engine<A>::faithful() const {
    return lossless() && !lost_.load(std::memory_order_relaxed);
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
Status Engine<A>::close_up(size_t c, Flight* f) {
    Part& p = part_[c];
    Range all;
    for (const Range& r : f->found) join(r, &all);
    double bits = 0.0;
    if (!weigh_scale(all, &bits, &p.message_low)) {
        return f->loss > -INFINITY ? kWiden : kInfeasible;
    }
    p.loss = f->loss + f->boost - bits;
    if (A::kChecked && p.message_low < kTiny) p.loss = std::max(p.loss, kTiny) + 1.0;
    if (p.loss > kLost) return kWiden;
    p.scale = bits - f->boost;
    p.tail = A::tail(all.top);
    f->closing[0].top = all.top;
    return kOk;
}

template <class A>
Status Engine<A>::open_down(size_t c, Flight* f, const Ear& ear) {
    const CliqueLayout& l = c_.l.clique[c];
    Part& p = part_[c];
    weigh(c, p.belief_low, f);
    if constexpr (A::kChecked) {
        if (f->loss > -INFINITY) lost_.store(true, std::memory_order_relaxed);
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
            spare_.need(l.up.size, &f->wide_up);
            grow(&f->wide_up, l.up.size, ear);
            f->take(l.up, f->wide_up);
        }
    }
    // What is collected: beliefs of the children's separators, and what no separator shows.
    f->wide.resize(l.children.size());
    f->closing.resize(l.children.size());
    int64_t folded = 0, sums = 0;
    for (size_t i = 0; i < l.children.size(); ++i) {
        const Child& k = l.children[i];
        Part& child = part_[k.clique];
        const Dims& d = c_.l.clique[k.clique].message;
        if (k.host < 0 && (k.view.scalar || k.view.direct)) {
            f->give(&spare_, ear, k.view.scalar, k.view.apart, k.view.at.data(), d.size,
                    &child.belief);
        } else {
            spare_.need(d.size, &child.belief);
            grow(&child.belief, d.size, ear);
            if (k.host < 0) {
                f->give(&spare_, ear, false, k.view.apart, k.view.at.data(), k.view.size,
                        &f->wide[i]);
                f->late_zero.push_back(&child.belief);
            }
        }
        f->closing[i].folded = folded;
        f->closing[i].sums = sums;
        if (k.shown > 0) sums += l.shut_down * c_.d.size(d.var[0]);
        if (k.shown > 1) folded += d.stride[0];
        if (!ear.go_on()) return kOk;
    }
    f->found.resize(l.children.size() * static_cast<size_t>(l.shut_down));
    spare_.need(folded, &f->folded);
    grow(&f->folded, folded, ear);
    grow(&f->sum, sums, ear);
    if (l.alone_tile) f->give(&spare_, ear, false, false, nullptr, l.width, &f->tile);
    for (const Alone& a : l.alone_outer) {
        f->give(&spare_, ear, true, false, a.at.data(), c_.d.size(a.var), &marginal_[a.var]);
    }
    f->asked.resize(c_.queries.size());
    for (size_t q = 0; q < c_.queries.size(); ++q) {
        const Query& query = c_.queries[q];
        if (query.clique != static_cast<int32_t>(c)) continue;
        const View& v = query.view;
        if (v.scalar || v.direct) {
            f->give(&spare_, ear, v.scalar, false, v.at.data(), query.dims.size, &query_[q]);
        } else {
            f->give(&spare_, ear, false, false, v.at.data(), v.size, &f->asked[q]);
        }
    }
    return kOk;
}

// The belief of a child that is hosted, summed out of its host's. Pieces are values of its first
// variable: each has entries of its own, and adds to each in the same order.
template <class A>
void Engine<A>::hear_host(const CliqueLayout& l, const Child& k, Share share, const Ear& ear) {
    const int32_t above = l.children[k.host].clique;
    const Dims &d = c_.l.clique[k.clique].message, &from = c_.l.clique[above].message;
    const T* in = part_[above].belief.data();
    T* out = part_[k.clique].belief.data();
    if (d.var.empty()) {
        if (share.p == 0) out[0] = fold(in, from.size, nullptr);
        return;
    }
    const int64_t values = c_.d.size(d.var[0]), stride = from.stride_of(d.var[0]);
    const int64_t first = share.first(values), last = share.last(values);
    const int64_t begin = first * d.stride[0], size = (last - first) * d.stride[0];
    if (size == 0) return;
    // Pieces that write to the same cache lines would take them from each other all the time.
    std::vector<T> near;
    T* to = out + begin;
    if (share.n > 1 && size <= kNear) {
        near.resize(static_cast<size_t>(size));
        to = near.data();
    }
    std::fill(to, to + size, A::zero());
    // Blocks of entries with those values: runs, or (along) parts of one run.
    const int64_t block = stride * values, run = std::min(k.run, (last - first) * stride);
    ear.parts(0, from.size / block, std::max<int64_t>(1, 4 * kPoll / block),
              [&](int64_t a, int64_t b) {
                  for (int64_t i = a; i < b; ++i) {
                      const int64_t end = i * block + last * stride;
                      int64_t e = i * block + first * stride, r = e / k.run;
                      for (; e < end; e += run, ++r) {
                          T* x = to + (k.map[r] - begin + (k.along ? e - r * k.run : 0));
                          if (k.along) {
                              for (int64_t t = 0; t < run; ++t) x[t] = A::add(x[t], in[e + t]);
                          } else if (run > 32) {
                              *x = A::add(*x, fold(in + e, run, nullptr));
                          } else {
                              T sum = in[e];
                              for (int64_t t = 1; t < run; ++t) sum = A::add(sum, in[e + t]);
                              *x = A::add(*x, sum);
                          }
                      }
                  }
              });
    if (!near.empty()) std::copy(near.begin(), near.end(), out + begin);
}

// What the belief of a child's separator says of its variables, and the belief over its message.
template <class A>
void Engine<A>::share_out(const Child& k, size_t i, Flight* f, Share share, const Ear& ear) {
    Part& child = part_[k.clique];
    const Dims& d = c_.l.clique[k.clique].message;
    T* belief = child.belief.data();
    const T* message = child.message.data();
    Range found;
    const auto pass = [&](int64_t a, int64_t b) {
        divide(belief + a, message + a, b - a);
        join(range(belief + a, b - a), &found);
    };
    Range& all = f->found[i * static_cast<size_t>(share.n) + static_cast<size_t>(share.p)];
    if (k.shown == 0) {
        ear.parts(share.first(d.size), share.last(d.size), kNear, pass);
        all = found;
        return;
    }
    const int64_t values = c_.d.size(d.var[0]), stride = d.stride[0];
    const int64_t first = share.first(stride), last = share.last(stride);
    T* into = k.shown > 1 ? f->folded.data() + f->closing[i].folded : nullptr;
    T* sums = f->sum.data() + f->closing[i].sums + share.p * values;
    if (into) std::fill(into + first, into + last, A::zero());
    for (int64_t x = 0; x < values; ++x) {
        T sum = A::zero();
        ear.parts(first, last, kNear, [&](int64_t a, int64_t b) {
            sum = A::add(sum, fold(belief + x * stride + a, b - a, into ? into + a : nullptr));
            if (share.n > 1) pass(x * stride + a, x * stride + b);
        });
        sums[x] = sum;
    }
    if (share.n == 1) ear.parts(0, d.size, kNear, pass);
    all = found;
}

// From what share_out() has found: the first variable's, then those of what is left without it.
template <class A>
void Engine<A>::read_marginals(const Child& k, const Closing& g, Flight* f, int pieces) {
    const Dims& d = c_.l.clique[k.clique].message;
    T* table = f->folded.data() + g.folded;
    const T* sums = f->sum.data() + g.sums;
    for (int i = 0; i < k.shown; ++i) {
        const int32_t v = d.var[i];
        const int64_t values = c_.d.size(v), stride = d.stride[i];
        const bool wanted = c_.l.seen_in[v] == k.clique;
        std::vector<T>& m = marginal_[v];
        if (i == 0) {
            if (!wanted) continue;
            m.assign(sums, sums + values);
            for (int p = 1; p < pieces; ++p) {
                for (int64_t x = 0; x < values; ++x) m[x] = A::add(m[x], sums[p * values + x]);
            }
            continue;
        }
        if (wanted) m.resize(static_cast<size_t>(values));
        for (int64_t x = 0; x < values; ++x) {
            T* into = i + 1 < k.shown && x > 0 ? table : nullptr;
            const T sum = stride == 1 && !into ? table[x] : fold(table + x * stride, stride, into);
            if (wanted) m[x] = sum;
        }
    }
}

template <class A>
Status Engine<A>::stage_down(size_t c, Flight* f, Stage stage, Share share, const Ear& ear) {
    const CliqueLayout& l = c_.l.clique[c];
    const size_t n = l.children.size();
    switch (stage) {
        case kOpen:
            return open_down(c, f, ear);
        case kSpread:
            if (!f->wide_up.empty()) {
                spread(l.up, l.width, part_[c].belief, share, ear, &f->wide_up);
            }
            f->clear(f->zero, share, ear);
            return kOk;
        case kMerge:
            f->merge(share, ear);
            f->clear(f->late_zero, share, ear);
            return kOk;
        case kGather:
            for (size_t i = 0; i < n; ++i) {
                if (f->wide[i].empty()) continue;
                const Child& k = l.children[i];
                gather(k.view, l.width, f->wide[i], share, ear, &part_[k.clique].belief);
            }
            return kOk;
        case kHosted:
        case kDeep:
            // Larger ones first: others are summed out of them.
            for (size_t o = n; o-- > 0 && ear.go_on();) {
                const Child& k = l.children[l.order[o]];
                if (k.host < 0) continue;
                const bool deep = l.children[k.host].host >= 0;
                if (deep == (stage == kDeep)) hear_host(l, k, share, ear);
            }
            return kOk;
        case kShare:
            for (size_t i = 0; i < n; ++i) {
                share_out(l.children[i], i, f, share, ear);
            }
            return kOk;
        case kClose:
            return close_down(c, f, ear);
        case kScale:
            for (size_t i = 0; i < n; ++i) {
                scale(&part_[l.children[i].clique].belief, f->closing[i].top, share, ear);
            }
            return kOk;
        case kLeave:
            f->end(&spare_);
            return kOk;
        default:
            return kOk;
    }
}

template <class A>
Status Engine<A>::close_down(size_t c, Flight* f, const Ear& ear) {
    const CliqueLayout& l = c_.l.clique[c];
    for (size_t q = 0; q < f->asked.size(); ++q) {
        if (f->asked[q].empty()) continue;
        query_[q].assign(static_cast<size_t>(c_.queries[q].dims.size), A::zero());
        gather(c_.queries[q].view, l.width, f->asked[q], {0, 1}, ear, &query_[q]);
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
    for (size_t i = 0; i < l.children.size(); ++i) {
        const Child& k = l.children[i];
        Closing& g = f->closing[i];
        read_marginals(k, g, f, l.shut_down);
        Range all;
        for (int p = 0; p < l.shut_down; ++p) join(f->found[i * l.shut_down + p], &all);
        double bits = 0.0;
        if (!weigh_scale(all, &bits, &part_[k.clique].belief_low)) {
            return A::kChecked ? kWiden : kInfeasible;
        }
        g.top = all.top;
    }
    return kOk;
}

template <class A>
Status Engine<A>::run(size_t c, Flight* f, bool upward, Stage from, Stage to, int piece,
                      Temporary& tmp, const Ear& ear, int worker) {
    const CliqueLayout& l = c_.l.clique[c];
    for (int s = from; s <= to; ++s) {
        int n = 1;
        if (s == kHosts || s == kSpread) {
            n = upward ? l.open_up : l.open_down;
        } else if (s == kSweep) {
            n = f->blocks;
        } else if (s != kOpen && s != kDeep && s != kClose && s != kLeave) {
            n = upward ? l.shut_up : l.shut_down;
        }
        const bool all = from != to || n == 1;
        for (int p = all ? 0 : piece; p < (all ? n : piece + 1); ++p) {
            const Stage stage = static_cast<Stage>(s);
            Status status = kOk;
            if (stage == kSweep) {
                block(c, *f, p, tmp, ear.control, worker);
            } else if (upward) {
                status = stage_up(c, f, stage, {p, n}, ear);
            } else {
                status = stage_down(c, f, stage, {p, n}, ear);
            }
            if (status != kOk || !ear.go_on()) return status;
        }
    }
    return kOk;
}

template <class A>
const std::vector<typename A::T>& Engine<A>::seen(const Child& k) const {
    const Part& child = part_[k.clique];
    if (!k.view.scalar && !k.view.direct) return child.spread;
    return k.hosts ? child.product : child.message;
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
    // Exponents are added as whole numbers, so that log Z errs by a few eps times the largest
    // partial score, however many cliques there are. Hardly any is positive, and all of them
    // together are log2 of Z less that of the tables' largest entries: see kLargestSum.
    int64_t bits = 0;
    for (size_t c = 0; c < part_.size(); ++c) {
        total.add(shift_[c].sum);
        total.lost += shift_[c].lost;
        bits += static_cast<int64_t>(part_[c].scale) + static_cast<int64_t>(part_[c].tail);
        if (c_.t.parent[c] < 0) total.add(A::log_of(part_[c].message[0]));
    }
    const double high = static_cast<double>(bits);
    double rest;
    total.add(VS_NS::log_of_power(high, &rest));
    total.add(rest + static_cast<double>(bits - static_cast<int64_t>(high)) * VS_NS::kLn2);
    log_z_ = total.value();
    return kOk;
}

template <class A>
Status Engine<A>::down(int threads, Control* control) {
    lost_.store(false);
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
    const auto ear = [&](size_t c) {
        return Ear{w.control, worker == 0 && e.c_.l.clique[c].size > kPoll};
    };
    try {
        const int64_t first = s.first[task], last = s.last[task];
        const size_t c = static_cast<size_t>(first);
        switch (s.kind[task]) {
            case Schedule::kWhole:
                for (int64_t i = first; i < last && status == kOk; ++i) {
                    const size_t one = static_cast<size_t>(s.order[i]);
                    if (w.upward && e.part_[one].sent) continue;
                    Flight& f = tmp.flight;
                    f.reset();
                    status = e.run(one, &f, w.upward, kOpen, kLeave, 0, tmp, ear(one), worker);
                    if (w.control->stop.load(std::memory_order_relaxed)) return;
                    w.control->done.fetch_add(1, std::memory_order_relaxed);
                }
                break;
            case Schedule::kBlock:
                if (!w.flight[c]) break;
                e.block(c, *w.flight[c], static_cast<int>(last), tmp, w.control, worker);
                break;
            default: {
                const Stage from = Schedule::from(last), to = Schedule::to(last);
                if (from == kOpen) {
                    if (w.upward && e.part_[c].sent) break;
                    w.flight[c].reset(new Flight);
                }
                if (!w.flight[c]) break;
                status = e.run(c, w.flight[c].get(), w.upward, from, to, Schedule::piece(last), tmp,
                               ear(c), worker);
                if (to != kLeave) break;
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
double Engine<A>::share_of(T x, T total, bool logs) {
    return logs ? A::log_of(A::ratio(x, total)) : A::share(x, total);
}

template <class A>
void Engine<A>::marginals(const int64_t* ptr, bool logs, double* out) const {
    std::fill(out, out + ptr[c_.g.n], logs ? -INFINITY : 0.0);
    for (int64_t v = 0; v < c_.g.n; ++v) {
        const int32_t* value = c_.d.values(v);
        double* p = out + ptr[v];
        if (c_.d.size(v) == 1) {
            p[value[0]] = logs ? 0.0 : 1.0;
            continue;
        }
        T total = A::zero();
        for (const T& x : marginal_[v]) total = A::add(total, x);
        for (int64_t x = 0; x < c_.d.size(v); ++x) {
            p[value[x]] = share_of(marginal_[v][x], total, logs);
        }
    }
}

template <class A>
void Engine<A>::query(size_t q, bool logs, double* out) const {
    if (c_.queries[q].clique < 0) {  // everything is decided
        out[0] = logs ? 0.0 : 1.0;
        return;
    }
    T total = A::zero();
    for (const T& x : query_[q]) total = A::add(total, x);
    for (size_t i = 0; i < query_[q].size(); ++i) out[i] = share_of(query_[q][i], total, logs);
}

// Weights of the joint settings of a clique's open variables, given the others: in blocks, settings
// of the last variables, so that there is no table of them all.
template <class A>
void Engine<A>::Picks::start(const Domains& d, const CliqueLayout& l) {
    open.clear();
    for (const auto* list : {&l.outer, &l.tile}) {
        for (int32_t v : *list) {
            if (l.message.stride_of(v) == 0) open.push_back(v);
        }
    }
    size = 1;
    for (int32_t v : open) size *= d.size(v);
    head = size <= kWhole ? 0 : open.size();
    width = 1;
    if (head == 0) width = size;
    while (head > 0 && (head == open.size() || width * d.size(open[head - 1]) <= kTail)) {
        width *= d.size(open[--head]);
    }
    inner.assign(open.begin() + static_cast<std::ptrdiff_t>(head), open.end());
    weight.resize(static_cast<size_t>(width) + 64);
    used = 0;
}

// One more table that is multiplied in; `value`: of variables that are not open.
template <class A>
void Engine<A>::Picks::meet(const Domains& d, const Dims& dims, const std::vector<T>& table,
                            const std::vector<int32_t>& value) {
    if (used == met.size()) met.emplace_back();
    Met& m = met[used++];
    m.table = table.data();
    m.fixed = 0;
    for (size_t j = 0; j < dims.var.size(); ++j) {
        if (std::find(open.begin(), open.end(), dims.var[j]) == open.end()) {
            m.fixed += dims.stride[j] * value[dims.var[j]];
        }
    }
    stride.clear();
    for (int32_t v : inner) stride.push_back(dims.stride_of(v));
    m.scalar = std::all_of(stride.begin(), stride.end(), [](int64_t x) { return x == 0; });
    m.at.clear();
    if (!m.scalar) each(d, inner, stride, [&](int64_t at) { m.at.push_back(at); });
    m.along = !m.scalar;
    for (int64_t t = 0; m.along && t < width; ++t) m.along = m.at[t] == t;
    if (!m.along) m.row.resize(static_cast<size_t>(width));
    m.last = nullptr;
    m.step.clear();
    for (size_t j = 0; j < head; ++j) m.step.push_back(dims.stride_of(open[j]));
}

// Its entries along the block side by side.
template <class A>
const typename A::T* Engine<A>::Picks::Met::along_row(int64_t width) {
    const T* x = table + base;
    if (along || x == last) return along ? x : row.data();
    last = x;
    if (scalar) {
        std::fill(row.begin(), row.end(), *x);
    } else {
        for (int64_t t = 0; t < width; ++t) row[t] = x[at[t]];
    }
    return row.data();
}

// f(number of its first entry, the sum of all) for blocks that may have mass, from `first` on,
// their weights in `weight`; until it says that it was enough.
template <class A>
template <class F>
Status Engine<A>::Picks::blocks(const Domains& d, int64_t first, Control* control, F&& f) {
    state.assign(head, 0);
    for (size_t i = 0; i < used; ++i) met[i].base = met[i].fixed;
    int64_t rest = first / width;
    for (size_t j = head; j-- > 0;) {
        const int64_t n = d.size(open[j]);
        state[j] = rest % n;
        rest /= n;
        for (size_t i = 0; i < used; ++i) met[i].base += met[i].step[j] * state[j];
    }
    int64_t poll = kPoll;
    for (int64_t at = first; at < size; at += width) {
        // Multiplied in their order, those that are the same for all entries first.
        T common = first_factor<A>(kBoost);
        size_t lead = 0;
        bool any = true;
        for (size_t i = 0; any && i < used; ++i) {
            if (!met[i].scalar) continue;
            const T x = met[i].table[met[i].base];
            any = !A::is_zero(x);
            if (i == lead) {
                common = A::mul(common, x);
                ++lead;
            }
        }
        any = any && !A::is_zero(common);
        if (any) {
            vec.clear();
            for (size_t i = lead; i < used; ++i) vec.push_back(met[i].along_row(width));
            const int32_t here = 0;
            at_here.assign(vec.size(), &here);
            T sum = A::zero();
            T* const out = &sum;
            const int32_t* const nowhere = nullptr;
            RowJob<T> j;
            j.first = common;
            j.width = width;
            j.n_vec = static_cast<int>(vec.size());
            j.n_scalar_out = 1;
            j.vec = vec.data();
            j.vec_at = at_here.data();
            j.scalar_out = &out;
            j.scalar_out_at = &nowhere;
            if constexpr (std::is_same<T, double>::value) {
                graph_level().rows(algebra<A>(), j, 0, 1, weight.data());
            } else {
                level_scalar::rows<WideRows>(j, 0, 1, weight.data());
            }
            if (!f(at, sum)) return kOk;
        }
        poll -= any ? width : 1;
        if (poll <= 0) {
            poll = kPoll;
            if (control->poll && control->poll(control->arg)) control->stop.store(1);
            if (control->stop.load(std::memory_order_relaxed)) return kCancelled;
        }
        for (size_t j = head; j-- > 0;) {
            const int64_t n = d.size(open[j]);
            const int64_t by = ++state[j] < n ? 1 : 1 - n;
            for (size_t i = 0; i < used; ++i) met[i].base += met[i].step[j] * by;
            if (by == 1) break;
            state[j] = 0;
        }
    }
    return kOk;
}

template <class A>
Status Engine<A>::pick(const double* uniform, Control* control, Picks* picks,
                       int64_t* states) const {
    std::vector<int32_t>& value = picks->value;
    value.assign(static_cast<size_t>(c_.g.n), 0);
    picks->masses.resize(part_.size());
    for (size_t i = part_.size(); i-- > 0;) {  // parents first
        const CliqueLayout& l = c_.l.clique[i];
        const Part& p = part_[i];
        picks->start(c_.d, l);
        for (size_t s = 0; s < l.statics.size(); ++s) {
            picks->meet(c_.d, l.statics[s].dims, p.tables[s], value);
        }
        for (const Child& k : l.children) {
            picks->meet(c_.d, c_.l.clique[k.clique].message, part_[k.clique].message, value);
        }
        const std::vector<T>& weight = picks->weight;
        const int64_t width = picks->width;
        int64_t chosen = 0;
        Status status = kOk;
        if constexpr (std::is_same<A, Best>::value) {
            T best = A::zero();
            status = picks->blocks(c_.d, 0, control, [&](int64_t at, T top) {
                if (A::less(best, top)) {  // of equals the first
                    best = top;
                    chosen = at + (std::find(weight.begin(), weight.end(), top) - weight.begin());
                }
                return true;
            });
        } else {
            // The mass of all blocks so far, for each: of roots, that of all samples.
            std::vector<typename Picks::Mass>& mass = picks->masses[i];
            if (mass.empty() || !l.message.var.empty()) {
                T sum = A::zero();
                mass.clear();
                status = picks->blocks(c_.d, 0, control, [&](int64_t at, T) {
                    for (int64_t e = 0; e < width; ++e) sum = A::add(sum, weight[e]);
                    mass.push_back({at, sum});
                    return true;
                });
                if (status != kOk) return status;
            }
            if (mass.empty()) return kInfeasible;
            const T total = mass.back().sum;
            const auto above = std::upper_bound(
                mass.begin(), mass.end() - 1, uniform[i],
                [&](double u, const auto& m) { return u < A::share(m.sum, total); });
            const int64_t block = above->first;
            double left = uniform[i];
            if (above != mass.begin()) left -= A::share((above - 1)->sum, total);
            status = picks->blocks(c_.d, block, control, [&](int64_t, T) {
                for (int64_t e = 0; e < width; ++e) {
                    if (A::is_zero(weight[e])) continue;
                    chosen =
                        block + e;  // the last one that can be, should rounding leave some over
                    left -= A::share(weight[e], total);
                    if (left < 0.0) break;
                }
                return false;
            });
        }
        if (status != kOk) return status;
        for (size_t j = picks->open.size(); j-- > 0;) {
            const int64_t n = c_.d.size(picks->open[j]);
            value[picks->open[j]] = static_cast<int32_t>(chosen % n);
            chosen /= n;
        }
    }
    for (int64_t v = 0; v < c_.g.n; ++v) states[v] = c_.d.values(v)[value[v]];
    return kOk;
}

template class Engine<Linear64>;
template class Engine<LinearWide>;
template class Engine<Best>;

}  // namespace vs::junction
