// The loops of lanes.h at one SIMD level: included by level.cpp.
#pragma once

#include <cstring>

#include "junction/lanes.h"
#include "simd/each.h"
#include "simd/vec.h"

namespace VS_NS {
namespace {

// Numbers of all lanes: one vector, or several.
struct Lanes {
    using V = Vec<double>;
    static constexpr int U = vs::kLanes / V::N;
    static_assert(U * V::N == vs::kLanes, "lanes are whole vectors");
    static constexpr double kLeastNumber = 4.9406564584124654e-324;
    V v[U];

    static VS_INLINE Lanes set1(double x) {
        Lanes r;
        for (int u = 0; u < U; ++u) r.v[u] = V::set1(x);
        return r;
    }
    static VS_INLINE Lanes load(const double* p) {
        Lanes r;
        for (int u = 0; u < U; ++u) r.v[u] = V::load(p + u * V::N);
        return r;
    }
    VS_INLINE void store(double* p) const {
        for (int u = 0; u < U; ++u) v[u].store(p + u * V::N);
    }
    friend VS_INLINE Lanes operator+(Lanes a, Lanes b) {
        for (int u = 0; u < U; ++u) a.v[u] = a.v[u] + b.v[u];
        return a;
    }
    friend VS_INLINE Lanes operator*(Lanes a, Lanes b) {
        for (int u = 0; u < U; ++u) a.v[u] = a.v[u] * b.v[u];
        return a;
    }
    // a / b, 0 where either is 0.
    static VS_INLINE Lanes ratio(Lanes a, Lanes b) {
        for (int u = 0; u < U; ++u) a.v[u] = V::where_positive(a.v[u], b.v[u], a.v[u] / b.v[u]);
        return a;
    }
    // Whether all lanes are 0, where none is negative.
    VS_INLINE bool none() const {
        unsigned some = 0;
        for (int u = 0; u < U; ++u) some |= v[u].ge(V::set1(kLeastNumber));
        return some == 0;
    }
    static VS_INLINE Lanes max(Lanes a, Lanes b) {
        for (int u = 0; u < U; ++u) a.v[u] = V::max(a.v[u], b.v[u]);
        return a;
    }
};

static VS_INLINE Lanes lanes_at(const double* table, int32_t at) {
    return Lanes::load(table + static_cast<int64_t>(at) * vs::kLanes);
}

// The product of what is the same along a row.
static VS_INLINE Lanes lanes_even(const vs::LaneTables<const double>& in, int32_t row, Lanes by) {
    for (int k = 0; k < in.n; ++k) by = by * lanes_at(in.table[k], in.at[k][row]);
    return by;
}

// Adds to an entry of a table.
static VS_INLINE void lanes_put(double* table, int32_t at, Lanes x) {
    double* const to = table + static_cast<int64_t>(at) * vs::kLanes;
    (Lanes::load(to) + x).store(to);
}

// K tables that vary along a row, in registers: a store might change the arrays that list them.
template <class T, int K>
struct LaneList {
    T* table[K > 0 ? K : 1];
    const int32_t* at[K > 0 ? K : 1];

    explicit VS_INLINE LaneList(const vs::LaneTables<T>& some) {
        each<K>([&](auto k) VS_INLINE_LAMBDA {
            table[k] = some.table[k];
            at[k] = some.at[k];
        });
    }
    template <class F>
    VS_INLINE void run(int32_t e, F f) const {
        each<K>([&](auto k) VS_INLINE_LAMBDA { f(table[k], at[k][e]); });
    }
};

// As many as there are.
template <class T>
struct LaneList<T, -1> {
    const vs::LaneTables<T> some;

    explicit VS_INLINE LaneList(const vs::LaneTables<T>& given) : some(given) {}
    template <class F>
    VS_INLINE void run(int32_t e, F f) const {
        for (int k = 0; k < some.n; ++k) f(some.table[k], some.at[k][e]);
    }
};

// I tables vary along a row, and O of those that are written to; -1: as many as the job says.
template <int I>
void lanes_up_of(const vs::LanesUp& j) {
    const vs::LaneClique c = j.clique;
    const LaneList<const double, I> in(j.varying);
    const Lanes one = Lanes::set1(1.0), zero = Lanes::set1(0.0);
    for (int64_t s = 0; s < c.n_separator; ++s) {
        Lanes sum = zero;
        for (int32_t r = c.row[s]; r < c.row[s + 1]; ++r) {
            const Lanes by = lanes_even(j.even, r, one);
            if (by.none()) continue;  // by what is known
            Lanes own = zero;
            for (int32_t e = c.entry[r]; e < c.entry[r + 1]; ++e) {
                Lanes p = Lanes::set1(c.psi[e]);
                in.run(e, [&](const double* x, int32_t at)
                              VS_INLINE_LAMBDA { p = p * lanes_at(x, at); });
                own = own + p;
            }
            sum = sum + own * by;
        }
        sum.store(j.message + s * vs::kLanes);
    }
}

void lanes_up(const vs::LanesUp& j) {
    switch (j.varying.n) {
        case 0:
            return lanes_up_of<0>(j);
        case 1:
            return lanes_up_of<1>(j);
        case 2:
            return lanes_up_of<2>(j);
        case 3:
            return lanes_up_of<3>(j);
        default:
            return lanes_up_of<-1>(j);
    }
}

template <int I, int O>
void lanes_down_of(const vs::LanesDown& j) {
    const vs::LaneClique c = j.clique;
    const LaneList<const double, I> in(j.varying);
    const LaneList<double, O> out(j.varying_out);
    const Lanes one = Lanes::set1(1.0), zero = Lanes::set1(0.0);
    double* const counts = j.counts;
    const Lanes weight = counts ? Lanes::load(j.weight) : zero;
    for (int64_t s = 0; s < c.n_separator; ++s) {
        const Lanes d = j.message ? Lanes::load(j.message + s * vs::kLanes) : one;
        if (d.none()) continue;
        for (int32_t r = c.row[s]; r < c.row[s + 1]; ++r) {
            const Lanes by = lanes_even(j.even, r, d);
            if (by.none()) continue;
            Lanes own = zero;
            const int32_t last = c.entry[r + 1];
            for (int32_t e = c.entry[r]; e < last; ++e) {
                Lanes p = by * Lanes::set1(c.psi[e]);
                in.run(e, [&](const double* x, int32_t at)
                              VS_INLINE_LAMBDA { p = p * lanes_at(x, at); });
                out.run(e, [&](double* x, int32_t at) VS_INLINE_LAMBDA { lanes_put(x, at, p); });
                if (counts) lanes_put(counts, e, p * weight);
                own = own + p;
            }
            for (int k = 0; k < j.even_out.n; ++k) {
                lanes_put(j.even_out.table[k], j.even_out.at[k][r], own);
            }
        }
    }
}

template <int I>
void lanes_down_to(const vs::LanesDown& j) {
    switch (j.varying_out.n) {
        case 0:
            return lanes_down_of<I, 0>(j);
        case 1:
            return lanes_down_of<I, 1>(j);
        case 2:
            return lanes_down_of<I, 2>(j);
        case 3:
            return lanes_down_of<I, 3>(j);
        default:
            return lanes_down_of<I, -1>(j);
    }
}

void lanes_down(const vs::LanesDown& j) {
    switch (j.varying.n) {
        case 0:
            return lanes_down_to<0>(j);
        case 1:
            return lanes_down_to<1>(j);
        case 2:
            return lanes_down_to<2>(j);
        case 3:
            return lanes_down_to<3>(j);
        default:
            return lanes_down_to<-1>(j);
    }
}

void lanes_scale(double* x, int64_t n, int64_t* bits) {
    Lanes top = Lanes::set1(0.0);
    for (int64_t e = 0; e < n; ++e) top = Lanes::max(top, Lanes::load(x + e * vs::kLanes));
    double largest[vs::kLanes], by[vs::kLanes];
    top.store(largest);
    for (int i = 0; i < vs::kLanes; ++i) {
        uint64_t u;
        std::memcpy(&u, largest + i, 8);
        // 2^(e - 1022) is the power of two above; 0 and what is below the normal numbers stay.
        const uint64_t e = u >> 52;
        const uint64_t power = e == 0 ? uint64_t{1023} : uint64_t{2045} - e;
        const uint64_t kept = power << 52;
        std::memcpy(by + i, &kept, 8);
        if (bits && e != 0) bits[i] += static_cast<int64_t>(e) - 1022;
    }
    const Lanes factor = Lanes::load(by);
    for (int64_t e = 0; e < n; ++e) {
        (Lanes::load(x + e * vs::kLanes) * factor).store(x + e * vs::kLanes);
    }
}

void lanes_divide(double* x, const double* by, int64_t n) {
    for (int64_t e = 0; e < n; ++e) {
        double* const to = x + e * vs::kLanes;
        Lanes::ratio(Lanes::load(to), Lanes::load(by + e * vs::kLanes)).store(to);
    }
}

void lanes_multiply(double* x, const int32_t* at, int64_t n, const double* by) {
    for (int64_t e = 0; e < n; ++e) {
        double* const to = x + e * vs::kLanes;
        (Lanes::load(to) * lanes_at(by, at[e])).store(to);
    }
}

void lanes_add(const double* x, const int32_t* at, int64_t n, double* to) {
    for (int64_t e = 0; e < n; ++e) {
        double* const sum = to + static_cast<int64_t>(at[e]) * vs::kLanes;
        (Lanes::load(sum) + Lanes::load(x + e * vs::kLanes)).store(sum);
    }
}

void lanes_dot(const double* x, const double* y, int64_t n, double* sum) {
    Lanes total = Lanes::set1(0.0);
    for (int64_t e = 0; e < n; ++e) {
        const Lanes a = Lanes::load(x + e * vs::kLanes);
        total = total + (y ? a * Lanes::load(y + e * vs::kLanes) : a);
    }
    total.store(sum);
}

void lanes_share(double* x, const double* by, int64_t n) {
    const Lanes total = Lanes::load(by);
    for (int64_t e = 0; e < n; ++e) {
        double* const to = x + e * vs::kLanes;
        Lanes::ratio(Lanes::load(to), total).store(to);
    }
}

const vs::LaneLevel kLaneLevel = {lanes_up,       lanes_down, lanes_scale, lanes_divide,
                                  lanes_multiply, lanes_add,  lanes_dot,   lanes_share};

}  // namespace

template <>
const vs::LaneLevel* table<vs::LaneLevel>() {
    return &kLaneLevel;
}

}  // namespace VS_NS
