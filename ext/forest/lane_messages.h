// Messages and marginals of chains of few labels where some variables are held: a sequence in each
// lane of vectors, a position at a time. Numbers are those of PathRows, in its order.
#pragma once

#include <cmath>
#include <limits>

#include "core/ticker.h"
#include "forest/forward_few.h"
#include "forest/path_exact.h"
#include "forest/scores_abreast.h"
#include "forest/worth.h"
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

    static bool serves(const D& d) {
        return d.K > 1 && d.K < vs::kLeastLabels && d.g.n_tiles == 1 && !d.in.c.per_edge &&
               !d.e.sparse_forward;
    }
    // Is the memory of so many positions worth having? Of stretches, there is none without it.
    static bool fits(const D& d, int64_t n) {
        constexpr int64_t kMostBytes = int64_t{4} << 20;
        return n <= vs::kLongestLane && bytes(d, n) <= kMostBytes;
    }
    static int64_t bytes(const D& d, int64_t n) {
        return 4 * n * N * d.K * static_cast<int64_t>(sizeof(T));
    }
    static bool fits_joined(const D& d, int64_t n) { return bytes(d, n) <= int64_t{1} << 27; }
    // Lanes that have ended, or are none, take as long as others.
    static bool pays(const D& d, int64_t positions, int64_t longest) {
        return 100 * positions > (25 + 3 * d.K / 2) * N * longest;
    }

    // What a variable is held at, or below 0.
    int held(int64_t i, int r) const { return static_cast<int>(held_[i * N + r]); }
    // The largest scores of local factors (N,); the sum that m' was divided by.
    const double* shifts(int64_t i) const { return shift_ + i * N; }
    double mass(int64_t i, int r) const { return static_cast<double>(mass_[i * N + r]); }
    const T* marginals(int64_t i) const { return p_ + i * size_; }  // (K, N)
    // What floors have added to lane r, relative to Z, and whether that is little. In float64 it
    // always is.
    double added(int r) const {
        double sum = 0.0;
        for (int64_t i = 0; sizeof(T) == 4 && i < lanes_[r].n; ++i) {
            sum += static_cast<double>(added_[i * N + r]);
        }
        return sum;
    }
    bool little(double added) const { return added <= kNear * Floor<float>::kMostAdded; }

    // f(lane) for each bit.
    template <class F>
    static VS_INLINE void each_lane(Mask lanes, F f) {
        for (; lanes; lanes &= lanes - 1) f(vs_first_bit(lanes));
    }

  protected:
    static constexpr int kWide = ScoresAbreast<D>::kWide;
    // Sums are made in another order than that of PathRows, which decides near its bounds.
    static constexpr double kNear = 0.99;

    // lanes[0..m), the longest first. False: no memory.
    bool open(const Lane<D>* lanes, int m, const D& d, vs::Scratch& scratch) {
        constexpr int64_t kPerRow = sizeof(T) == 8 ? 3 : 4;  // arrays (rows, N)
        lanes_ = lanes;
        m_ = m;
        K_ = d.K;
        few_ = d.K <= kFew && !d.g.lone && rows_of_block<T>(d.g.width(0)) >= d.K ? d.K : 0;
        plain_ = d.e.positive;
        size_ = N * static_cast<int64_t>(d.K);
        rows_ = lanes[0].n;
        psi_ = scratch.array<T>((4 * rows_ + 2) * size_);
        held_ = scratch.array<T>(kPerRow * rows_ * N);
        shift_ = scratch.array<double>(rows_ * N);
        inside_ = scratch.array<Mask>(2 * rows_);
        if (scratch.failed || !scores_.open(d, scratch)) return false;
        f_ = psi_ + rows_ * size_;
        b_ = f_ + rows_ * size_;
        p_ = b_ + rows_ * size_;
        a_ = p_ + rows_ * size_;
        entry_ = a_ + size_;
        for (int64_t k = 0; k < size_; ++k) entry_[k] = T(1);
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
        return static_cast<double>(most_[r]) <= kNear * Floor<float>::kTolerance &&
               little(added(r));
    }

    // f(last position of lane r, r, the lane that begins there).
    template <class F>
    void each_joint(F f) const {
        for (int r = 0; after_ && r < m_; ++r) {
            if (after_[r] >= 0) f(lanes_[r].n - 1, r, after_[r]);
        }
    }
    // Copies a message from lane to lane; was it another one?
    bool tell(const T* from, T* to) const {
        bool other = false;
        for (int k = 0; k < K_; ++k) {
            other |= to[k * N] != from[k * N];
            to[k * N] = from[k * N];
        }
        return other;
    }
    static VS_INLINE Mask positive(V x) { return x.ge(V::set1(std::numeric_limits<T>::min())); }
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
        // Positions after which go_on is called, at first and then.
        constexpr int64_t kFirst = kAtOnce / 2, kPolled = 4096;
        int64_t stops[4 * N + 1];
        const int n_stops = forward_stops(d, lanes_, m_, stops);
        for (int64_t i = 0, end; i < rows_; i = end) {
            const int64_t most = i > 0 || rows_ < kFirst ? i + kPolled : kFirst;
            end = next_stop(stops, n_stops, i, most < rows_ ? most : rows_);
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
                by_labels([&](auto few) VS_INLINE_LAMBDA {
                    plain ? local<true, few>(x, top, j, &sum, &high)
                          : local<false, few>(x, top, j, &sum, &high);
                });
                see(j, sum, high);
            }
            if (!go_on(end)) return false;
        }
        return true;
    }

    // a_ = psi_i * y; the largest, and where asked the sum.
    template <bool SUM>
    VS_INLINE V multiply(int64_t i, const T* y, V* sum) {
        V high;
        by_labels([&](auto few) VS_INLINE_LAMBDA {
            high = multiply_row<SUM, few>(psi_ + i * size_, y, sum);
        });
        return high;
    }
    // Scales a_ = psi_i * y, whose largest entries are `high`; of what is held 1 at its value, and
    // nothing else: the table makes a row of that.
    VS_INLINE void enter(int64_t i, const T* y, V high) {
        by_labels([&](auto few) VS_INLINE_LAMBDA { enter_row<few>(i, y, high); });
    }
    // The message into i + 1 from a_, or into i - 1.
    VS_INLINE void send_right(const D& d, int64_t i) {
        by_labels([&](auto few) VS_INLINE_LAMBDA { to_right<few>(d, i); });
    }
    VS_INLINE void send_left(const D& d, int64_t i) {
        by_labels([&](auto few) VS_INLINE_LAMBDA { to_left<few>(d, i); });
    }
    void again_right(const D& d, int64_t i) {
        by_labels([&](auto few) VS_INLINE_LAMBDA {
            const T* const y = f_ + i * size_;
            enter_row<few>(i, y, multiply_row<false, few>(psi_ + i * size_, y, nullptr));
            to_right<few>(d, i);
        });
    }
    void again_left(const D& d, int64_t i) {
        by_labels([&](auto few) VS_INLINE_LAMBDA {
            const T* const y = b_ + i * size_;
            const V high = multiply_row<false, few>(psi_ + i * size_, y, nullptr);
            high.store(high_ + i * N);
            enter_row<few>(i, y, high);
            to_left<few>(d, i);
        });
    }
    // m' of position i into p_: its largest entry, and that of what is held, or 0.
    VS_INLINE V believe(const D& d, int64_t i, V* own) {
        V high;
        by_labels([&](auto few) VS_INLINE_LAMBDA {
            high = plain_ ? believe_row<true, few>(d, i, own) : believe_row<false, few>(d, i, own);
        });
        return high;
    }

    const Lane<D>* lanes_ = nullptr;
    int m_ = 0, K_ = 0, few_ = 0;
    int64_t size_ = 0, rows_ = 0;
    bool plain_ = true;  // nothing is forbidden
    ScoresAbreast<D> scores_;
    T *psi_ = nullptr, *f_ = nullptr, *b_ = nullptr, *p_ = nullptr;  // (rows, K, N)
    T* a_ = nullptr;                                                 // (K, N): what goes out
    T* entry_ = nullptr;             // (K, N): what comes in at the ends of lanes: ones
    const int8_t* after_ = nullptr;  // (m,) the lane that goes on from each, -1: none; or null
    T *held_ = nullptr, *mass_ = nullptr, *high_ = nullptr, *added_ = nullptr;  // (rows, N)
    double* shift_ = nullptr;                                                   // (rows, N)
    Mask *inside_ = nullptr, *last_ = nullptr;  // (rows,) lanes that have a position, that end here
    T lowest_[N], least_[N], most_[N];  // of what was scaled; of masses; of what floors added

  private:
    static constexpr int kFew = 5;

    // f(K) where so few labels are loops unrolled by the compiler, else f(0).
    template <class F>
    VS_INLINE void by_labels(F f) const {
        switch (few_) {
            case 2:
                return f(Index<2>());
            case 3:
                return f(Index<3>());
            case 4:
                return f(Index<4>());
            case 5:
                return f(Index<5>());
            default:
                return f(Index<0>());
        }
    }
    template <int FEW, class F>
    VS_INLINE void each_label(F f) const {
        if constexpr (FEW > 0) {
            each<FEW>(f);
        } else {
            for (int k = 0; k < K_; ++k) f(k);
        }
    }
    // f(k, k % N), with the latter known to the compiler.
    template <int FEW, class F>
    VS_INLINE void each_entry(F f) const {
        if constexpr (FEW > 0) {
            each<FEW>([&](auto k) VS_INLINE_LAMBDA { f(k, Index<k % N>()); });
            return;
        }
        for (int k0 = 0; k0 < K_; k0 += N) {
            each<N>([&](auto j) VS_INLINE_LAMBDA {
                if (k0 + j < K_) f(k0 + j, j);
            });
        }
    }
    // The sums that it has made.
    template <int FEW>
    static VS_INLINE V total(V (&part)[N]) {
        if constexpr (FEW > 0) return fold_few<(FEW < N ? FEW : N)>(part);
        return fold_apart(part);
    }
    template <bool PLAIN, int FEW>
    VS_INLINE void local(const In* x, const typename ScoresAbreast<D>::Top& top, int64_t i, V* sum,
                         V* high) {
        T* const psi = psi_ + i * size_;
        const V zero = V::set1(T(0));
        V part[N], most = zero;
        each<N>([&](auto j) VS_INLINE_LAMBDA { part[j] = zero; });
        each_entry<FEW>([&](int k, auto j) VS_INLINE_LAMBDA {
            const V u = scores_.template local<PLAIN>(x, k, top);
            u.store(psi + k * N);
            part[j] = part[j] + u;
            most = V::max(most, u);
        });
        *sum = total<FEW>(part);
        *high = most;
        Vec<double> wide[kWide];
        ScoresAbreast<D>::widen(top, wide);
        each<kWide>([&](auto q)
                        VS_INLINE_LAMBDA { wide[q].store(shift_ + i * N + q * Vec<double>::N); });
    }
    template <bool SUM, int FEW>
    VS_INLINE V multiply_row(const T* psi, const T* y, V* sum) {
        const V zero = V::set1(T(0));
        V part[N], high = zero;
        if (SUM) each<N>([&](auto j) VS_INLINE_LAMBDA { part[j] = zero; });
        each_entry<FEW>([&](int k, auto j) VS_INLINE_LAMBDA {
            const V z = V::load(psi + k * N) * V::load(y + k * N);
            z.store(a_ + k * N);
            high = V::max(high, z);
            if (SUM) part[j] = part[j] + z;
        });
        if (SUM) *sum = total<FEW>(part);
        return high;
    }
    template <int FEW>
    VS_INLINE void enter_row(int64_t i, const T* y, V high) {
        V::min(V::load(lowest_), high).store(lowest_);
        plain_ ? enter_row<true, FEW>(i, y, high) : enter_row<false, FEW>(i, y, high);
    }
    template <bool PLAIN, int FEW>
    VS_INLINE void enter_row(int64_t i, const T* y, V high) {
        const T* const psi = psi_ + i * size_;
        const V h = V::load(held_ + i * N), floor = V::set1(Floor<T>::kMessage);
        const V one = V::set1(T(1)), half = V::set1(T(-0.5)), by = high.over_power();
        each_label<FEW>([&](int k) VS_INLINE_LAMBDA {
            V x = V::max(V::load(a_ + k * N) * by, floor);
            if (!PLAIN) x = V::where_positive(V::load(psi + k * N), V::load(y + k * N), x);
            const V own = V::where_equal(h, V::set1(static_cast<T>(k)), one);
            (V::where_ge(half, h, x) + own).store(a_ + k * N);
        });
    }
    template <int FEW>
    VS_INLINE void send(const D& d, const T* e, T* to) {
        if constexpr (FEW > 0) {
            V a[FEW], y[FEW];
            each<FEW>([&](auto k) VS_INLINE_LAMBDA { a[k] = V::load(a_ + k * N); });
            send_few<FEW>(e, d.g.width(0), a, y);
            each<FEW>([&](auto k) VS_INLINE_LAMBDA { y[k].store(to + k * N); });
        } else {
            send_abreast(d.g, e, a_, to);
        }
    }
    template <int FEW>
    VS_INLINE void to_right(const D& d, int64_t i) {
        if (i + 1 < rows_) send<FEW>(d, d.e.forward, f_ + (i + 1) * size_);
    }
    template <int FEW>
    VS_INLINE void to_left(const D& d, int64_t i) {
        if (i == 0) return;
        T* const to = b_ + (i - 1) * size_;
        send<FEW>(d, d.e.backward, to);
        each_lane(last_[i - 1], [&](int r) {
            for (int k = 0; k < K_; ++k) to[k * N + r] = entry_[k * N + r];
        });
    }
    template <bool PLAIN, int FEW>
    VS_INLINE V believe_row(const D& d, int64_t i, V* own) {
        const T *const psi = psi_ + i * size_, *const f = f_ + i * size_, *const b = b_ + i * size_;
        T* const out = p_ + i * size_;
        const V zero = V::set1(T(0)), floor = V::set1(Floor<T>::kMessage);
        const V h = V::load(held_ + i * N);
        V part[N], part_a[N], part_b[N], high = zero, mine = zero;
        each<N>([&](auto j) VS_INLINE_LAMBDA { part[j] = part_a[j] = part_b[j] = zero; });
        each_entry<FEW>([&](int k, auto j) VS_INLINE_LAMBDA {
            const V u = V::load(psi + k * N), v = V::load(f + k * N), y = V::load(b + k * N);
            const V most = V::max(u * v, floor);
            const V x = PLAIN ? most : V::where_positive(u, v, most), z = x * y;
            z.store(out + k * N);
            part[j] = part[j] + z;
            high = V::max(high, z);
            mine = mine + V::where_equal(h, V::set1(static_cast<T>(k)), z);
            if (sizeof(T) == 4) {
                part_a[j] = part_a[j] + x;
                part_b[j] = part_b[j] + y;
            }
        });
        const V sum = total<FEW>(part), inverse = V::set1(T(1)) / sum;
        V::min(V::load(least_), sum).store(least_);
        sum.store(mass_ + i * N);
        if (sizeof(T) == 4) {
            const V from_a = V::set1(static_cast<T>(d.floors_of_forward()));
            const V here = (from_a * total<FEW>(part_a) + floor * total<FEW>(part_b)) * inverse;
            V::max(V::load(most_), here).store(most_);
            here.store(added_ + i * N);
        }
        each_label<FEW>(
            [&](int k) VS_INLINE_LAMBDA { (V::load(out + k * N) * inverse).store(out + k * N); });
        *own = mine * inverse;
        return high * inverse;
    }
};

}  // namespace VS_NS
