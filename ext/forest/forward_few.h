// Forward messages of chains of a few labels that lie side by side: they stay in registers from
// position to position. Bits are those of Abreast::advance_any() (path_abreast.h).
#pragma once

#include <cstring>

#include "core/ticker.h"
#include "forest/path_exact.h"
#include "forest/scores_abreast.h"
#include "rows/tile_abreast.h"
#include "simd/each.h"

namespace VS_NS {

// Sums along the forward messages of lanes.
template <class D>
class ForwardSums {
  public:
    using T = typename D::T;
    static constexpr int N = Vec<T>::N;
    using Bits = std::conditional_t<sizeof(T) == 8, int64_t, int32_t>;
    double value[N] = {}, rest[N] = {};        // of each lane's Sum
    double edges[N] = {}, edges_rest[N] = {};  // likewise, of tables that edges have each
    int64_t exponents[N] = {};
    T high[N] = {}, lowest[N];  // the largest of a row; the lowest of these
    T touched[N] = {};          // above 0: an entry that a floor may have made
    bool plain = true;          // nothing has been forbidden

    ForwardSums() {
        for (int r = 0; r < N; ++r) lowest[r] = T(1);
    }
    // Adds the exponents of `high`, which is not negative, in the width of T: so they stay in
    // vectors. 32 bits hold those of a few rows; then count() takes them.
    VS_INLINE void scale() {
        Bits bits[N];
        std::memcpy(bits, high, sizeof(high));
        for (int r = 0; r < N; ++r) few_[r] += bits[r] >> kMantissa;
        scaled_ += 1;
    }
    VS_INLINE void count() {
        for (int r = 0; r < N; ++r) {
            exponents[r] += few_[r] - scaled_ * kBias;
            few_[r] = 0;
        }
        scaled_ = 0;
    }
    void begin(int r) {
        value[r] = rest[r] = edges[r] = edges_rest[r] = 0.0;
        touched[r] = T(0);
        exponents[r] = 0;
    }

  private:
    static constexpr int kMantissa = sizeof(T) == 8 ? 52 : 23, kBias = sizeof(T) == 8 ? 1023 : 127;
    Bits few_[N] = {}, scaled_ = 0;
};

// Where the forward messages of some lanes go on otherwise, or end: at most 4 a lane, and one.
template <class D, class L>
int forward_stops(const D& d, const L* lanes, int m, int64_t* stops) {
    const bool starts = d.in.start != nullptr, ends = d.in.end != nullptr;
    int n = 0;
    if (starts) stops[n++] = 1;
    const auto add = [&](int64_t at) {
        if (n == 0 || stops[n - 1] != at) stops[n++] = at;
    };
    for (int r = 0; r < m; ++r) {
        const L& s = lanes[r];
        if (s.enter > 0) add(s.enter);
        if (ends) add(s.n - 1);
        if (s.last < s.n) add(s.last);
        add(s.n);
    }
    return n;
}

// The first of those behind position i, at most `last`.
inline int64_t next_stop(const int64_t* stops, int n, int64_t i, int64_t last) {
    for (int q = 0; q < n; ++q) {
        if (stops[q] > i && stops[q] < last) last = stops[q];
    }
    return last;
}

// BOTH: local factors are kept behind the messages, for the way back.
template <class D, int K, bool BOTH>
class ForwardFew {
  public:
    using T = typename D::T;
    using In = typename D::In;
    using V = Vec<T>;
    using S = Vec<In>;
    using Wide = Vec<double>;
    using Scores = ScoresAbreast<D>;
    using Top = typename Scores::Top;
    static constexpr int N = V::N, kSize = K * N;

    // send_few() sums a column in one block, in the order of send_abreast().
    static bool serves(const D& d) {
        return d.K == K && !d.in.c.per_edge && !d.g.lone && rows_of_block<T>(d.g.width(0)) >= K;
    }

    // Positions [i, end), in which nothing begins or ends; the messages of one stand at `to`, those
    // of the next `step` behind. soon(i) is called on the way. False: cancelled.
    template <class Soon>
    static bool run(Scores& scores, ForwardSums<D>& sums, const D& d, Ticker& ticker, int lanes,
                    int64_t i, int64_t end, T* to, int64_t step, Soon soon) {
        ForwardFew f(sums);
        each<K>([&](auto k) VS_INLINE_LAMBDA {
            f.y_[k] = V::set1(T(1));
            f.a_[k] = i > 0 ? V::load(to - step + k * N) : f.y_[k];
        });
        const V least = V::set1(d.least_untouched());
        bool go = true;
        for (int64_t rows; i < end && go; i += rows) {
            rows = end - i < Scores::kAtOnce ? end - i : Scores::kAtOnce;
            const In* x = scores.look(d, rows);
            for (int64_t j = 0; j < rows; ++j, x += kSize, to += step) {
                soon(i + j);
                bool plain;
                const Top top = scores.template largest<K>(K, x, &plain);
                plain &= d.e.positive;
                sums.plain &= plain;
                if (i + j > 0) f.send(d);
                const bool normalise = (i + j) % D::kEvery == D::kEvery - 1;
                plain ? f.template enter<true>(scores, x, top, normalise, to, least)
                      : f.template enter<false>(scores, x, top, normalise, to, least);
                if (step > 0) f.store(to);
                f.add(top);
            }
            sums.count();
            go = ticker.go_on(lanes * rows);
        }
        if (step == 0) f.store(to);
        f.close(least);
        return go;
    }

  private:
    static constexpr int kWide = Scores::kWide;

    explicit ForwardFew(ForwardSums<D>& sums) : sums_(sums) {
        each<kWide>([&](auto q) VS_INLINE_LAMBDA {
            value_[q] = Wide::load(sums.value + q * Wide::N);
            rest_[q] = Wide::load(sums.rest + q * Wide::N);
        });
        touched_ = V::load(sums.touched);
        low_ = V::set1(T(1));
        lowest_ = V::load(sums.lowest);
    }
    void close(V least) const {
        each<kWide>([&](auto q) VS_INLINE_LAMBDA {
            value_[q].store(sums_.value + q * Wide::N);
            rest_[q].store(sums_.rest + q * Wide::N);
        });
        V::max(touched_, least - low_).store(sums_.touched);
        lowest_.store(sums_.lowest);
    }
    VS_INLINE void store(T* to) const {
        each<K>([&](auto k) VS_INLINE_LAMBDA { a_[k].store(to + k * N); });
    }
    VS_INLINE void send(const D& d) { send_few<K>(d.e.forward, d.g.width(0), a_, y_); }
    // The exponentials of scores, of which one of two is 1.
    template <bool PLAIN>
    VS_INLINE void locals(const Scores& scores, const In* x, const Top& top) {
        if constexpr (K == 2 && PLAIN) {
            const V one = V::set1(T(1)), zero = V::set1(T(0));
            V apart, other;
            scores.local_of_two(x, &apart, &other);
            psi_[0] = V::max(V::where_ge(apart, zero, one), other);
            psi_[1] = V::max(V::where_ge(zero, apart, one), other);
        } else {
            each<K>([&](auto k)
                        VS_INLINE_LAMBDA { psi_[k] = scores.template local<PLAIN>(x, k, top); });
        }
    }
    // As Abreast::enter() and scale().
    template <bool PLAIN>
    VS_INLINE void enter(const Scores& scores, const In* x, const Top& top, bool normalise, T* to,
                         V least) {
        locals<PLAIN>(scores, x, top);
        const V floor = V::set1(Floor<T>::kMessage), kept = V::set1(D::kTouched);
        each<K>([&](auto k) VS_INLINE_LAMBDA {
            if (BOTH) psi_[k].store(to + kSize + k * N);
            if (!BOTH && PLAIN) low_ = V::min(low_, y_[k]);
            if (!BOTH && !PLAIN) {
                touched_ = V::max(touched_, V::where_ge(y_[k], kept, least - y_[k]));
            }
            a_[k] = psi_[k] * y_[k];
        });
        if (normalise) {
            V high = V::set1(T(0));
            each<K>([&](auto k) VS_INLINE_LAMBDA { high = V::max(high, a_[k]); });
            const V by = high.over_power();
            lowest_ = V::min(lowest_, high);
            high.store(sums_.high);
            sums_.scale();
            each<K>([&](auto k) VS_INLINE_LAMBDA { a_[k] = a_[k] * by; });
        }
        each<K>([&](auto k) VS_INLINE_LAMBDA {
            const V most = V::max(a_[k], floor);
            a_[k] = PLAIN ? most : V::where_positive(psi_[k], y_[k], most);
        });
    }
    VS_INLINE void add(const Top& top) {
        Wide shift[kWide];
        Scores::widen(top, shift);
        each<kWide>([&](auto q) VS_INLINE_LAMBDA { vs::add_to(value_[q], rest_[q], shift[q]); });
    }

    ForwardSums<D>& sums_;
    V a_[K], y_[K], psi_[K];    // what goes out, what comes in; local factors
    V touched_, low_, lowest_;  // low_: of y_, where nothing is forbidden
    Wide value_[kWide], rest_[kWide];
};

}  // namespace VS_NS
