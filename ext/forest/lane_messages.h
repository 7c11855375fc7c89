// Messages and marginals of chains of few labels where some variables are held: a sequence in each
// lane of vectors, a position at a time. Numbers are those of PathRows, in its order.
#pragma once

#include <cmath>
#include <limits>

#include "core/ticker.h"
#include "forest/forward_few.h"
#include "forest/path_exact.h"
#include "forest/scores_abreast.h"
#include "rows/tile_abreast.h"

namespace VS_NS {

template <class D>
class LaneMessages {
  public:
    using T = typename D::T;
    using In = typename D::In;
    using V = Vec<T>;
    using Mask = uint32_t;  // a bit a lane
    static constexpr int N = V::N;

    // What a variable is held at, or below 0.
    int held(int64_t i, int r) const { return static_cast<int>(held_[i * N + r]); }
    // The largest score of a local factor; the sum that m' was divided by.
    double shift(int64_t i, int r) const { return shift_[i * N + r]; }
    double mass(int64_t i, int r) const { return static_cast<double>(mass_[i * N + r]); }
    // What is taken out of the message into i from the right.
    double scale(int64_t i, int r) const {
        int64_t sum = 0;
        for (int64_t j = i + 1; j < lanes_[r].n && held_[j * N + r] < T(0); ++j) {
            sum += exponent_of(high_[j * N + r]);
        }
        return static_cast<double>(sum);
    }
    const T* marginals(int64_t i) const { return p_ + i * size_; }  // (K, N)

  protected:
    static constexpr int kWide = ScoresAbreast<D>::kWide;

    // lanes[0..m), the longest first. False: no memory.
    bool open(const Lane<D>* lanes, int m, const D& d, vs::Scratch& scratch) {
        constexpr int64_t kPerRow = sizeof(T) == 8 ? 3 : 4;  // arrays (rows, N)
        lanes_ = lanes;
        m_ = m;
        K_ = d.K;
        plain_ = d.e.positive;
        size_ = N * static_cast<int64_t>(d.K);
        rows_ = lanes[0].n;
        psi_ = scratch.array<T>((4 * rows_ + 1) * size_);
        held_ = scratch.array<T>(kPerRow * rows_ * N);
        shift_ = scratch.array<double>(rows_ * N);
        inside_ = scratch.array<Mask>(2 * rows_);
        if (scratch.failed || !scores_.open(d, scratch)) return false;
        f_ = psi_ + rows_ * size_;
        b_ = f_ + rows_ * size_;
        p_ = b_ + rows_ * size_;
        a_ = p_ + rows_ * size_;
        mass_ = held_ + rows_ * N;
        high_ = mass_ + rows_ * N;
        added_ = high_ + rows_ * N;
        last_ = inside_ + rows_;
        for (int64_t i = 0; i < rows_; ++i) inside_[i] = last_[i] = 0;
        for (int r = 0; r < m; ++r) {
            for (int64_t i = 0; i < lanes[r].n; ++i) inside_[i] |= Mask{1} << r;
            last_[lanes[r].n - 1] |= Mask{1} << r;
        }
        for (int r = 0; r < N; ++r) {
            lowest_[r] = T(1);
            least_[r] = static_cast<T>(INFINITY);
            most_[r] = T(0);
        }
        return true;
    }
    // Were the numbers of lane r never too small?
    bool large_enough(int r) const {
        if (!(exponent_of(lowest_[r]) > D::kLowest) || !(least_[r] > T(0))) return false;
        if (sizeof(T) == 8) return static_cast<double>(least_[r]) >= Floor<double>::kTrust;
        // Sums are made in another order than that of PathRows, which decides near its bounds.
        constexpr double kNear = 0.99;
        double added = 0.0;
        for (int64_t i = 0; i < lanes_[r].n; ++i) added += static_cast<double>(added_[i * N + r]);
        return static_cast<double>(most_[r]) <= kNear * Floor<float>::kTolerance &&
               added <= kNear * Floor<float>::kMostAdded;
    }

    // f(lane) for each bit.
    template <class F>
    static VS_INLINE void each_lane(Mask lanes, F f) {
        for (; lanes; lanes &= lanes - 1) f(vs_first_bit(lanes));
    }
    // The lowest index of the largest entry of lane r.
    int mode(const T* row, int r) const {
        int best = 0;
        for (int k = 1; k < K_; ++k) {
            if (row[k * N + r] > row[best * N + r]) best = k;
        }
        return best;
    }

    // Local factors and their largest scores. see(i, sum, high) is called for each position, with
    // the sum and the largest entry of each lane, and go_on(positions) now and then; false where
    // that is.
    template <class See, class GoOn>
    bool locals(const D& d, See see, GoOn go_on) {
        constexpr int64_t kAtOnce = ScoresAbreast<D>::kAtOnce;
        constexpr int64_t kFirst = kAtOnce / 2;  // positions after which go_on is called at first
        int64_t stops[4 * N + 1];
        const int n_stops = forward_stops(d, lanes_, m_, stops);
        for (int64_t i = 0, end; i < rows_; i = end) {
            end = next_stop(stops, n_stops, i, i > 0 || rows_ < kFirst ? rows_ : kFirst);
            scores_.aim(d, lanes_, m_, 0, i);
            const In* x = nullptr;
            for (int64_t j = i; j < end; ++j, x += size_) {
                if ((j - i) % kAtOnce == 0) {
                    x = scores_.look(d, end - j < kAtOnce ? end - j : kAtOnce);
                }
                bool plain;
                const typename ScoresAbreast<D>::Top top = scores_.largest(d.K, x, &plain);
                plain_ &= plain;
                V sum, high;
                plain ? local<true>(x, top, j, &sum, &high) : local<false>(x, top, j, &sum, &high);
                see(j, sum, high);
            }
            if (!go_on(end)) return false;
        }
        return true;
    }

    // a_ = psi_i * y; the largest, and where asked the sum.
    template <bool SUM>
    VS_INLINE V multiply(int64_t i, const T* y, V* sum) {
        const T* const psi = psi_ + i * size_;
        const V zero = V::set1(T(0));
        V part[N], high = zero;
        if (SUM) each<N>([&](auto j) VS_INLINE_LAMBDA { part[j] = zero; });
        each_entry([&](int k, auto j) VS_INLINE_LAMBDA {
            const V z = V::load(psi + k * N) * V::load(y + k * N);
            z.store(a_ + k * N);
            high = V::max(high, z);
            if (SUM) part[j] = part[j] + z;
        });
        if (SUM) *sum = fold_apart(part);
        return high;
    }
    // Scales a_ = psi_i * y, whose largest entries are `high`; of what is held 1 at its value, and
    // nothing else: the table makes a row of that.
    VS_INLINE void enter(int64_t i, const T* y, V high) {
        V::min(V::load(lowest_), high).store(lowest_);
        plain_ ? enter_row<true>(i, y, high) : enter_row<false>(i, y, high);
    }
    // The message into i + 1 from a_, or into i - 1.
    void send_right(const D& d, int64_t i) {
        if (i + 1 < rows_) send_abreast(d.g, d.e.forward, a_, f_ + (i + 1) * size_);
    }
    void send_left(const D& d, int64_t i) {
        if (i == 0) return;
        T* const to = b_ + (i - 1) * size_;
        send_abreast(d.g, d.e.backward, a_, to);
        each_lane(last_[i - 1], [&](int r) {  // nothing comes in at an end
            for (int k = 0; k < K_; ++k) to[k * N + r] = T(1);
        });
    }
    void again_right(const D& d, int64_t i) {
        const T* const y = f_ + i * size_;
        enter(i, y, multiply<false>(i, y, nullptr));
        send_right(d, i);
    }
    void again_left(const D& d, int64_t i) {
        const T* const y = b_ + i * size_;
        const V high = multiply<false>(i, y, nullptr);
        high.store(high_ + i * N);
        enter(i, y, high);
        send_left(d, i);
    }
    // m' of position i into p_, and its largest entry.
    VS_INLINE V believe(const D& d, int64_t i) {
        return plain_ ? believe_row<true>(d, i) : believe_row<false>(d, i);
    }

    const Lane<D>* lanes_ = nullptr;
    int m_ = 0, K_ = 0;
    int64_t size_ = 0, rows_ = 0;
    bool plain_ = true;  // nothing is forbidden
    ScoresAbreast<D> scores_;
    T *psi_ = nullptr, *f_ = nullptr, *b_ = nullptr, *p_ = nullptr;  // (rows, K, N)
    T* a_ = nullptr;                                                 // (K, N): what goes out
    T *held_ = nullptr, *mass_ = nullptr, *high_ = nullptr, *added_ = nullptr;  // (rows, N)
    double* shift_ = nullptr;                                                   // (rows, N)
    Mask *inside_ = nullptr, *last_ = nullptr;  // (rows,) lanes that have a position, that end here
    T lowest_[N], least_[N], most_[N];  // of what was scaled; of masses; of what floors added

  private:
    // f(k, k % N), with the latter known to the compiler.
    template <class F>
    VS_INLINE void each_entry(F f) const {
        for (int k0 = 0; k0 < K_; k0 += N) {
            each<N>([&](auto j) VS_INLINE_LAMBDA {
                if (k0 + j < K_) f(k0 + j, j);
            });
        }
    }
    template <bool PLAIN>
    VS_INLINE void local(const In* x, const typename ScoresAbreast<D>::Top& top, int64_t i, V* sum,
                         V* high) {
        T* const psi = psi_ + i * size_;
        const V zero = V::set1(T(0));
        V part[N], most = zero;
        each<N>([&](auto j) VS_INLINE_LAMBDA { part[j] = zero; });
        each_entry([&](int k, auto j) VS_INLINE_LAMBDA {
            const V u = scores_.template local<PLAIN>(x, k, top);
            u.store(psi + k * N);
            part[j] = part[j] + u;
            most = V::max(most, u);
        });
        *sum = fold_apart(part);
        *high = most;
        Vec<double> wide[kWide];
        ScoresAbreast<D>::widen(top, wide);
        each<kWide>([&](auto q)
                        VS_INLINE_LAMBDA { wide[q].store(shift_ + i * N + q * Vec<double>::N); });
    }
    template <bool PLAIN>
    VS_INLINE void enter_row(int64_t i, const T* y, V high) {
        const T* const psi = psi_ + i * size_;
        const V h = V::load(held_ + i * N), floor = V::set1(Floor<T>::kMessage);
        const V one = V::set1(T(1)), half = V::set1(T(-0.5)), by = high.over_power();
        for (int k = 0; k < K_; ++k) {
            V x = V::max(V::load(a_ + k * N) * by, floor);
            if (!PLAIN) x = V::where_positive(V::load(psi + k * N), V::load(y + k * N), x);
            const V own = V::where_equal(h, V::set1(static_cast<T>(k)), one);
            (V::where_ge(half, h, x) + own).store(a_ + k * N);
        }
    }
    template <bool PLAIN>
    VS_INLINE V believe_row(const D& d, int64_t i) {
        const T *const psi = psi_ + i * size_, *const f = f_ + i * size_, *const b = b_ + i * size_;
        T* const out = p_ + i * size_;
        const V zero = V::set1(T(0)), floor = V::set1(Floor<T>::kMessage);
        V part[N], part_a[N], part_b[N], high = zero;
        each<N>([&](auto j) VS_INLINE_LAMBDA { part[j] = part_a[j] = part_b[j] = zero; });
        each_entry([&](int k, auto j) VS_INLINE_LAMBDA {
            const V u = V::load(psi + k * N), v = V::load(f + k * N), y = V::load(b + k * N);
            const V most = V::max(u * v, floor);
            const V x = PLAIN ? most : V::where_positive(u, v, most), z = x * y;
            z.store(out + k * N);
            part[j] = part[j] + z;
            high = V::max(high, z);
            if (sizeof(T) == 4) {
                part_a[j] = part_a[j] + x;
                part_b[j] = part_b[j] + y;
            }
        });
        const V sum = fold_apart(part), inverse = V::set1(T(1)) / sum;
        V::min(V::load(least_), sum).store(least_);
        sum.store(mass_ + i * N);
        if (sizeof(T) == 4) {
            const V from_a = V::set1(static_cast<T>(d.floors_of_forward()));
            const V here = (from_a * fold_apart(part_a) + floor * fold_apart(part_b)) * inverse;
            V::max(V::load(most_), here).store(most_);
            here.store(added_ + i * N);
        }
        for (int k = 0; k < K_; ++k) (V::load(out + k * N) * inverse).store(out + k * N);
        return high * inverse;
    }
};

}  // namespace VS_NS
