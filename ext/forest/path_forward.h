// Forward messages that nothing is kept of, for log Z alone: whole lanes of Exact in the lanes of
// vectors, where there are few labels.
//
// A row of few labels is mostly overhead: its last vector is half empty, and its largest entry, its
// exponents and its sums are of one number each. Side by side, entry k of all rows is one vector.
// Each number goes through the operations of Exact::forward in their order, so bits are the same.
#pragma once

#include <type_traits>

#include "forest/path_exact.h"
#include "simd/transpose.h"

namespace VS_NS {

template <class D>
class ForwardAbreast {
  public:
    using T = typename D::T;
    using V = Vec<T>;
    // As many rows as Exact takes together; the sum of a column that stands alone is that of
    // hsum().
    static constexpr int N = 4;
    static constexpr bool kFits = std::is_same<D, Linear<double, double>>::value && V::N == N;

    // lanes[0..N); false: no memory.
    bool open(Lane<D>* lanes, const D& d, vs::Scratch& scratch) {
        lanes_ = lanes;
        const int64_t size = N * static_cast<int64_t>(d.Kp);
        x_ = scratch.array<T>(3 * size);
        y_ = x_ + size;
        a_ = y_ + size;
        row_ = scratch.array<T>(d.Kp);
        return x_ != nullptr && row_ != nullptr;
    }
    static bool serves(const D& d) {
        return !d.in.c.per_edge && !d.in.c.allowed && !d.e.sparse_forward && d.e.positive &&
               d.g.n_tiles == 1;
    }

    // Positions [i, last), which count and are not the last of any lane; *done: one past the last
    // that was done, as a row forbids something there. False: cancelled.
    bool run(D& d, Ticker& ticker, int64_t i, int64_t last, int64_t* done) {
        const T *message[N], *scores[N];
        T* to[N];
        double value[N], rest[N];
        for (int r = 0; r < N; ++r) {
            message[r] = to[r] = lanes_[r].message;
            value[r] = lanes_[r].shift.value;
            rest[r] = lanes_[r].shift.rest;
        }
        weave<T, N>(message, d.K, a_);
        V total = V::load(value), lost = V::load(rest);
        V least = V::set1(static_cast<T>(INFINITY));
        bool go = true;
        for (; i < last; ++i) {
            go = ticker.go_on(N);
            if (!go) break;
            for (int r = 0; r < N; ++r) {
                const int64_t at = lanes_[r].begin + i;
                scores[r] = d.in.unary + at * d.K;
                if (i + Exact<D>::kAhead < last) d.prefetch(at + Exact<D>::kAhead);
            }
            weave<T, N>(scores, d.K, x_);
            V top = V::load(x_), low = top;
            for (int k = 1; k < d.K; ++k) {
                const V x = V::load(x_ + k * N);
                top = V::max(top, x);
                low = V::min(low, x);
            }
            if (low.ge(V::set1(ExpConst<T>::kMostNegative)) != (1u << N) - 1u) break;
            send(d);
            least = enter(d, top, i % D::kEvery == D::kEvery - 1, least);
            const V sum = total + top, more = sum - total;  // as Sum::add
            lost = lost + ((total - (sum - more)) + (top - more));
            total = sum;
        }
        *done = i;
        total.store(value);
        lost.store(rest);
        unweave<T, N>(a_, d.K, to);
        T smallest[N];
        least.store(smallest);
        for (int r = 0; r < N; ++r) {
            lanes_[r].shift.value = value[r];
            lanes_[r].shift.rest = rest[r];
            for (int k = 0; k < d.K; ++k) row_[k] = smallest[r];
            for (int k = d.K; k < d.Kp; ++k) row_[k] = T(0);
            if (!d.untouched(row_)) lanes_[r].status = vs::kWiden;
        }
        return go;
    }

  private:
    // y = messages out of a, as tile.h makes them.
    void send(const D& d) {
        const int width = d.g.width(0);
        const T* e = d.e.forward;
        int k = 0;
        while (k < width) {
            const int units = (width - k) / 4;
            const int take = units == 4 ? 2 : units < 3 ? units : 3;  // 16: no unit is left alone
            if (take == 1) columns<4>(d.K, width, e + k, y_ + k * N);
            if (take == 2) columns<8>(d.K, width, e + k, y_ + k * N);
            if (take == 3) columns<12>(d.K, width, e + k, y_ + k * N);
            k += 4 * take;
        }
        if (!d.g.lone) return;
        V part[N];
        for (int j = 0; j < N; ++j) part[j] = V::set1(T(0));
        e += d.g.lone_offset();
        for (int l = 0; l < d.K; ++l) {
            part[l % N] = V::fma(V::load(a_ + l * N), V::set1(e[l]), part[l % N]);
        }
        ((part[0] + part[2]) + (part[1] + part[3])).store(y_ + (d.K - 1) * N);
    }
    template <int M>
    VS_INLINE void columns(int K, int width, const T* e, T* y) const {
        V sum[M];
        each<M>([&](auto j) VS_INLINE_LAMBDA { sum[j] = V::set1(T(0)); });
        for (int l = 0; l < K; ++l, e += width) {
            const V x = V::load(a_ + l * N);
            each<M>([&](auto j) VS_INLINE_LAMBDA { sum[j] = V::fma(x, V::set1(e[j]), sum[j]); });
        }
        each<M>([&](auto j) VS_INLINE_LAMBDA { sum[j].store(y + j * N); });
    }
    // a = exp(x - top) * y, as row_exp_absorb and row_absorb_by make it; returns the smaller of
    // `least` and the entries of y.
    V enter(const D& d, V top, bool normalise, V least) {
        const V floor = V::set1(Floor<T>::kMessage);
        if (!normalise) {
            for (int k = 0; k < d.K; ++k) {
                const V y = V::load(y_ + k * N);
                least = V::min(least, y);
                V::max(exp_floor<T>(V::load(x_ + k * N) - top) * y, floor).store(a_ + k * N);
            }
            return least;
        }
        V high = V::set1(T(0));
        for (int k = 0; k < d.K; ++k) {
            const V y = V::load(y_ + k * N);
            least = V::min(least, y);
            const V z = exp_floor<T>(V::load(x_ + k * N) - top) * y;
            high = V::max(high, z);
            z.store(a_ + k * N);
        }
        T largest[N], scale[N];
        high.store(largest);
        for (int r = 0; r < N; ++r) {
            const int ex = largest[r] > T(0) ? exponent_of(largest[r]) : 0;
            scale[r] = power_of_two(-ex, T(0));
            lanes_[r].scale += ex;
            if (!(ex > D::kLowest)) lanes_[r].status = vs::kWiden;
        }
        const V by = V::load(scale);
        for (int k = 0; k < d.K; ++k) V::max(V::load(a_ + k * N) * by, floor).store(a_ + k * N);
        return least;
    }

    Lane<D>* lanes_ = nullptr;
    T *x_ = nullptr, *y_ = nullptr, *a_ = nullptr;  // (K, N): scores, what comes in, what goes out
    T* row_ = nullptr;                              // (Kp,)
};

// Forward messages of whole lanes, longest first, of which none is kept: group_forward of kPass.
template <class D>
bool forward_alone(Exact<D>& engine, D& d, Ticker& ticker, Lane<D>* lanes, int m,
                   vs::Scratch& scratch) {
    int64_t i = 0;
    const auto to = [&](int r, int64_t end) {
        const int64_t from = i;
        i = end;
        return engine.forward(lanes, r, from, end, Role::kPass);
    };
    if constexpr (ForwardAbreast<D>::kFits) {
        using Abreast = ForwardAbreast<D>;
        Abreast abreast;
        if (m == Abreast::N && Abreast::serves(d)) {
            if (!abreast.open(lanes, d, scratch)) {
                for (int r = 0; r < m; ++r) lanes[r].status = vs::kNoMemory;
                return true;
            }
            int64_t first = 1, last = lanes[m - 1].last - 1;
            for (int r = 0; r < m; ++r) {
                first = lanes[r].enter > first ? lanes[r].enter : first;
                last = lanes[r].last - 1 < last ? lanes[r].last - 1 : last;
            }
            // Where rows forbid something again and again, they are left to the other for longer.
            int64_t wait = 1;
            if (first < last && !to(m, first)) return false;
            while (first < last && i < last) {
                if (!abreast.run(d, ticker, i, last, &i)) return false;
                if (i < last && !to(m, i + wait < last ? i + wait : last)) return false;
                wait *= 2;
            }
        }
    }
    for (int r = m; r > 0; --r) {
        if (!to(r, lanes[r - 1].last)) return false;
    }
    return true;
}

}  // namespace VS_NS
