// The loops of lanes.h at one SIMD level: included by level.cpp.
#pragma once

#include <cstring>

#include "junction/lanes.h"
#include "simd/vec.h"

namespace VS_NS {
namespace {

// Numbers of all lanes: one vector, or several.
struct Lanes {
    using V = Vec<double>;
    static constexpr int U = vs::kLanes / V::N;
    static_assert(U * V::N == vs::kLanes, "lanes are whole vectors");
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
    static VS_INLINE Lanes max(Lanes a, Lanes b) {
        for (int u = 0; u < U; ++u) a.v[u] = V::max(a.v[u], b.v[u]);
        return a;
    }
};

// K tables come in; -1: as many as the job says.
template <int K>
void lanes_up_of(const vs::LanesUp& j) {
    const int n = K < 0 ? j.n_in : K;
    for (int64_t s = 0; s < j.clique.n_separator; ++s) {
        Lanes sum = Lanes::set1(0.0);
        for (int32_t e = j.clique.ptr[s]; e < j.clique.ptr[s + 1]; ++e) {
            Lanes p = Lanes::set1(j.clique.psi[e]);
            for (int k = 0; k < n; ++k) {
                p = p * Lanes::load(j.in[k] + static_cast<int64_t>(j.at[k][e]) * vs::kLanes);
            }
            p.store(j.product + static_cast<int64_t>(e) * vs::kLanes);
            sum = sum + p;
        }
        sum.store(j.message + s * vs::kLanes);
    }
}

void lanes_up(const vs::LanesUp& j) {
    switch (j.n_in) {
        case 0: return lanes_up_of<0>(j);
        case 1: return lanes_up_of<1>(j);
        case 2: return lanes_up_of<2>(j);
        case 3: return lanes_up_of<3>(j);
        default: return lanes_up_of<-1>(j);
    }
}

template <int K>
void lanes_down_of(const vs::LanesDown& j) {
    const int n = K < 0 ? j.n_out : K;
    const Lanes weight = j.counts ? Lanes::load(j.weight) : Lanes::set1(0.0);
    for (int64_t s = 0; s < j.clique.n_separator; ++s) {
        const Lanes d = j.message ? Lanes::load(j.message + s * vs::kLanes) : Lanes::set1(1.0);
        for (int32_t e = j.clique.ptr[s]; e < j.clique.ptr[s + 1]; ++e) {
            const Lanes b = Lanes::load(j.product + static_cast<int64_t>(e) * vs::kLanes) * d;
            for (int k = 0; k < n; ++k) {
                double* const to = j.out[k] + static_cast<int64_t>(j.at[k][e]) * vs::kLanes;
                (Lanes::load(to) + b).store(to);
            }
            if (j.counts) {
                double* const to = j.counts + static_cast<int64_t>(e) * vs::kLanes;
                (Lanes::load(to) + b * weight).store(to);
            }
        }
    }
}

void lanes_down(const vs::LanesDown& j) {
    switch (j.n_out) {
        case 1: return lanes_down_of<1>(j);
        case 2: return lanes_down_of<2>(j);
        case 3: return lanes_down_of<3>(j);
        default: return lanes_down_of<-1>(j);
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

const vs::LaneLevel kLaneLevel = {lanes_up,  lanes_down, lanes_scale, lanes_divide,
                                  lanes_add, lanes_dot,  lanes_share};

}  // namespace

template <>
const vs::LaneLevel* table<vs::LaneLevel>() {
    return &kLaneLevel;
}

}  // namespace VS_NS
