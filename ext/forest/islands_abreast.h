// Islands of chains of few labels: a sequence in each lane of vectors. The rules are those of
// islands/rules.h, in sweeps over all positions of all lanes instead of lists of what is free:
// a product with a small table is cheaper than a look at who needs it.
//
//   locals      islands by local factors, and the halves of the gaps that they leave
//   inward      messages from both ends of a gap to its centre; islands on the way
//   centres     islands where both messages are known first
//   outward     messages on through the other half; islands by m'
//   settle      rounds, until nothing changes
//
// What an island sends is the product of the table with a row that is one at its value. A message
// is made again where one of its lanes asks for that: it is a function of the islands, and the
// other lanes get what they had. Numbers, and counts of messages, are those of IslandPasses with
// PathRows, in their order: bits are the same. A lane that meets anything unusual is left to these.
#pragma once

#include <cmath>
#include <limits>

#include "core/ticker.h"
#include "forest/forward_few.h"
#include "forest/path_exact.h"
#include "forest/scores_abreast.h"
#include "forest/worth.h"
#include "islands/rules.h"
#include "rows/tile_abreast.h"

namespace VS_NS {

template <class D>
class IslandsAbreast {
  public:
    using T = typename D::T;
    using In = typename D::In;
    using V = Vec<T>;
    using Mask = uint32_t;  // a bit a lane
    static constexpr int N = V::N;

    static bool serves(const D& d) {
        return d.K > 1 && d.K < vs::kLeastLabels && d.g.n_tiles == 1 && !d.in.c.per_edge &&
               !d.in.c.allowed && !d.e.sparse_forward;
    }
    // Memory of so many positions is worth having.
    static bool fits(const D& d, int64_t n) {
        constexpr int64_t kMostRows = 4096, kMostBytes = int64_t{4} << 20;
        return n <= kMostRows &&
               4 * n * N * d.K * static_cast<int64_t>(sizeof(T)) <= kMostBytes;
    }

    // Lanes that have ended, or are none, take as long as others.
    static bool pays(int64_t positions, int64_t longest) {
        return 3 * positions >= N * longest;
    }

    // lanes[0..m), at most N, the longest first. False: no memory.
    bool open(const Lane<D>* lanes, int m, const D& d, double zeta, int64_t revisit,
              vs::Scratch& scratch) {
        lanes_ = lanes;
        m_ = m;
        K_ = d.K;
        zeta_ = zeta;
        least_share_ = static_cast<T>(zeta);
        if (static_cast<double>(least_share_) < zeta) {
            least_share_ = std::nextafter(least_share_, T(2));
        }
        revisit_ = revisit;
        plain_ = d.e.positive;
        size_ = N * static_cast<int64_t>(d.K);
        rows_ = lanes[0].n;
        psi_ = scratch.array<T>(4 * rows_ * size_ + size_);
        held_ = scratch.array<T>((kPerRow + (sizeof(T) == 4)) * rows_ * N);
        shift_ = scratch.array<double>(rows_ * N);
        place_ = scratch.array<Place>(rows_);
        if (scratch.failed || !scores_.open(d, scratch)) return false;
        f_ = psi_ + rows_ * size_;
        b_ = f_ + rows_ * size_;
        p_ = b_ + rows_ * size_;
        a_ = p_ + rows_ * size_;
        mass_ = held_ + rows_ * N;
        high_ = mass_ + rows_ * N;
        gap_ = high_ + rows_ * N;
        added_ = gap_ + rows_ * N;
        for (int r = 0; r < N; ++r) {
            lowest_[r] = T(1);
            least_[r] = static_cast<T>(INFINITY);
            most_[r] = T(0);
            counts_[r] = vs::Counts();
            full_[r] = 0;
        }
        for (int64_t i = 0; i < rows_; ++i) place_[i] = Place();
        for (int r = 0; r < m; ++r) {
            for (int64_t i = 0; i < lanes[r].n; ++i) place_[i].inside |= Mask{1} << r;
            place_[lanes[r].n - 1].last |= Mask{1} << r;
        }
        return true;
    }

    // False: cancelled.
    bool find(const D& d, Ticker& ticker) {
        const bool late = revisit_ != 0;
        if (!locals(d, ticker)) return false;
        if (!served_) return true;
        halves();
        if (!ticker.go_on(m_ * rows_)) return false;
        inward_right(d);
        inward_left(d);
        centres(d, late);
        if (late) {
            if (!ticker.go_on(m_ * rows_)) return false;
            outward_right(d);
            outward_left(d);
        }
        refresh(d, late ? Count::kStale : Count::kNone);
        for (int64_t i = 0; i < rows_; ++i) {
            const Place& p = place_[i];
            count((p.one | p.right) & ~p.island & ~p.last);
            if (i > 0) count((p.one | p.left) & ~p.island);
        }
        judge_touched(d);
        for (int64_t round = 1; revisit_ < 0 || round <= revisit_; ++round) {
            if (!ticker.go_on(m_ * rows_)) return false;
            if (!take_events(round)) break;
            refresh(d, Count::kAll);
            judge_touched(d);
        }
        for (int64_t i = 0; i < rows_; ++i) {
            each_lane(place_[i].events(), [&](int r) { counts_[r].unsettled = 1; });
        }
        for (int r = 0; r < N; ++r) counts_[r].full = full_[r];
        return true;
    }

    // Whether all went well in lane r.
    bool well(int r) const {
        const bool any = served_ && !(bad_ >> r & 1u) && least_[r] > T(0);
        if (!any || !(exponent_of(lowest_[r]) > D::kLowest)) return false;
        if (sizeof(T) == 8) return static_cast<double>(least_[r]) >= Floor<double>::kTrust;
        // Sums are made in another order than that of PathRows, which decides near its bounds.
        constexpr double kNear = 0.99;
        double added = 0.0;
        for (int64_t i = 0; i < lanes_[r].n; ++i) added += static_cast<double>(added_[i * N + r]);
        return static_cast<double>(most_[r]) <= kNear * Floor<float>::kTolerance &&
               added <= kNear * Floor<float>::kMostAdded;
    }

    bool island(int64_t i, int r) const { return (place_[i].island >> r & 1u) != 0; }
    // A local island that never moved: it holds the mode of its local factor.
    bool stayed(int64_t i, int r) const {
        const Place& p = place_[i];
        return ((p.local & ~p.flipped) >> r & 1u) != 0;
    }
    // Was it an island by its local factor?
    bool local(int64_t i, int r) const { return (place_[i].local >> r & 1u) != 0; }
    // How many rows an island sends.
    int rows_out(int64_t i, int r) const { return (i > 0) + (i + 1 < lanes_[r].n); }
    int held(int64_t i, int r) const { return static_cast<int>(held_[i * N + r]); }
    double shift(int64_t i, int r) const { return shift_[i * N + r]; }
    double mass(int64_t i, int r) const { return static_cast<double>(mass_[i * N + r]); }
    // What is taken out of the message into i from the right.
    double scale(int64_t i, int r) const {
        int64_t sum = 0;
        for (int64_t j = i + 1; j < lanes_[r].n && !island(j, r); ++j) {
            sum += exponent_of(high_[j * N + r]);
        }
        return static_cast<double>(sum);
    }
    const vs::Counts& counts(int r) const { return counts_[r]; }
    const T* marginals(int64_t i) const { return p_ + i * size_; }  // (K, N)

  private:
    struct Place {
        Mask inside = 0, last = 0;  // lanes that have this position, that end here
        Mask island = 0, local = 0, released = 0, flipped = 0;  // see IslandFlag
        // Which half of a gap a free variable lies in; single centres; one of two.
        Mask left = 0, right = 0, one = 0, two = 0;
        // What goes on to the right (left) has to be made again for the islands of now.
        Mask stale_f = 0, stale_b = 0;
        Mask late_right = 0, late_left = 0;  // decided on the way out
        Mask touched = ~Mask{0};             // m' is to be made
        Mask become = 0, flip = 0, release = 0;
        Mask events() const { return become | flip | release; }
    };
    enum class Count { kNone, kStale, kAll };
    static constexpr int64_t kAtOnce = ScoresAbreast<D>::kAtOnce;
    static constexpr int kPerRow = 4;  // arrays (rows, N)
    // Lists of what is free are faster with more labels, where so many of a hundred are islands.
    static constexpr int kAlways = 20, kMostIslands = 15;

    template <class F>
    static VS_INLINE void each_lane(Mask lanes, F f) {
        for (; lanes; lanes &= lanes - 1) f(vs_first_bit(lanes));
    }
    // Messages of K * K operations.
    VS_INLINE void count(Mask lanes) {
        for (int r = 0; r < N; ++r) full_[r] += static_cast<int32_t>(lanes >> r & 1u);
    }
    void count_rows(int64_t i, int r) { counts_[r].sparse += rows_out(i, r); }
    // The lowest index of the largest entry of lane r.
    int mode(const T* row, int r) const {
        int best = 0;
        for (int k = 1; k < K_; ++k) {
            if (row[k * N + r] > row[best * N + r]) best = k;
        }
        return best;
    }
    static VS_INLINE V from_mask(Mask lanes) {  // 1 where there is a bit
        T x[N];
        for (int r = 0; r < N; ++r) x[r] = static_cast<T>(lanes >> r & 1u);
        return V::load(x);
    }

    // Local factors, their largest scores, and the islands by them. False: cancelled.
    bool locals(const D& d, Ticker& ticker) {
        int64_t stops[4 * N + 1];
        const int n_stops = forward_stops(d, lanes_, m_, stops);
        for (int64_t i = 0, end; i < rows_; i = end) {
            end = rows_;
            for (int q = 0; q < n_stops; ++q) {
                if (stops[q] > i && stops[q] < end) end = stops[q];
            }
            scores_.aim(d, lanes_, m_, 0, i);
            const In* x = nullptr;
            for (int64_t j = i; j < end; ++j, x += size_) {
                if ((j - i) % kAtOnce == 0) {
                    x = scores_.look(d, end - j < kAtOnce ? end - j : kAtOnce);
                }
                bool plain;
                const typename ScoresAbreast<D>::Top top = scores_.largest(d.K, x, &plain);
                plain_ &= plain;
                plain ? make_local<true>(x, top, j) : make_local<false>(x, top, j);
            }
            served_ = d.K <= kAlways || 100 * islands_ <= kMostIslands * m_ * end;
            if (!served_) return true;
            if (!ticker.go_on(m_ * (end - i))) return false;
        }
        return true;
    }
    template <bool PLAIN>
    VS_INLINE void make_local(const In* x, const typename ScoresAbreast<D>::Top& top, int64_t i) {
        constexpr int kWide = ScoresAbreast<D>::kWide;
        T* const psi = psi_ + i * size_;
        const V zero = V::set1(T(0)), one = V::set1(T(1)), none = V::set1(static_cast<T>(K_));
        V part[N], high = zero, index = none;
        each<N>([&](auto j) VS_INLINE_LAMBDA { part[j] = zero; });
        for (int k0 = 0; k0 < K_; k0 += N) {
            each<N>([&](auto j) VS_INLINE_LAMBDA {
                const int k = k0 + j;
                if (k >= K_) return;
                const V u = scores_.template local<PLAIN>(x, k, top);
                u.store(psi + k * N);
                part[j] = part[j] + u;
                high = V::max(high, u);
            });
        }
        const V sum = fold_apart(part);
        Vec<double> wide[kWide];
        ScoresAbreast<D>::widen(top, wide);
        each<kWide>([&](auto q)
                        VS_INLINE_LAMBDA { wide[q].store(shift_ + i * N + q * Vec<double>::N); });
        Place& p = place_[i];
        p.island = p.local = reaches(sum) & p.inside;
        for (Mask lanes = p.island; lanes; lanes &= lanes - 1) ++islands_;
        bad_ |= ~sum.ge(V::set1(std::numeric_limits<T>::min())) & p.inside;
        for (int k = 0; p.island && k < K_; ++k) {
            const V at = V::set1(static_cast<T>(k));
            index = V::min(index, none + V::where_ge(V::load(psi + k * N), high, at - none));
        }
        // What lies behind an end bounds the last gap as an island would.
        ((index + one) * from_mask(p.island | ~p.inside) - one).store(held_ + i * N);
    }
    // Does a row of this sum, whose largest entry is one, reach zeta?
    VS_INLINE Mask reaches(V sum) const {
        if constexpr (sizeof(T) == 8) {
            return V::set1(T(1)).ge(V::set1(static_cast<T>(zeta_)) * sum);
        } else {
            T s[N];
            sum.store(s);
            Mask lanes = 0;
            for (int r = 0; r < N; ++r) {
                lanes |= static_cast<Mask>(1.0 >= zeta_ * static_cast<double>(s[r])) << r;
            }
            return lanes;
        }
    }
    // Halves of gaps, by the distances to the islands at their ends.
    void halves() {
        const V zero = V::set1(T(0)), one = V::set1(T(1));
        V far = zero;
        const auto next = [&](int64_t i) VS_INLINE_LAMBDA {
            far = V::where_ge(V::set1(T(-0.5)), V::load(held_ + i * N), far + one);
        };
        for (int64_t i = 0; i < rows_; ++i) {
            next(i);
            far.store(gap_ + i * N);
        }
        far = zero;
        for (int64_t i = rows_; i-- > 0;) {
            next(i);
            Place& p = place_[i];
            const Mask is_free = p.inside & ~p.island;
            const V from_left = V::load(gap_ + i * N);
            const Mask more = from_left.ge(far), less = far.ge(from_left);
            p.one = more & less & is_free;
            p.left = ~more & is_free;
            p.right = ~less & is_free;
            p.two = (p.left & (from_left + one).ge(far)) | (p.right & (far + one).ge(from_left));
        }
    }

    // a_ = psi_i * y; the largest, and where asked the sum.
    template <bool SUM>
    VS_INLINE V multiply(int64_t i, const T* y, V* sum) {
        const T* const psi = psi_ + i * size_;
        const V zero = V::set1(T(0));
        V part[N], high = zero;
        if (SUM) each<N>([&](auto j) VS_INLINE_LAMBDA { part[j] = zero; });
        for (int k0 = 0; k0 < K_; k0 += N) {
            each<N>([&](auto j) VS_INLINE_LAMBDA {
                const int k = k0 + j;
                if (k >= K_) return;
                const V z = V::load(psi + k * N) * V::load(y + k * N);
                z.store(a_ + k * N);
                high = V::max(high, z);
                if (SUM) part[j] = part[j] + z;
            });
        }
        if (SUM) *sum = fold_apart(part);
        return high;
    }
    // Scales a_ = psi_i * y, whose largest entries are `high`; 1 at the value of islands, and
    // nothing else.
    VS_INLINE void enter(int64_t i, const T* y, V high) {
        plain_ ? enter_row<true>(i, y, high) : enter_row<false>(i, y, high);
    }
    template <bool PLAIN>
    VS_INLINE void enter_row(int64_t i, const T* y, V high) {
        const T* const psi = psi_ + i * size_;
        const V h = V::load(held_ + i * N), floor = V::set1(Floor<T>::kMessage);
        const V one = V::set1(T(1)), half = V::set1(T(-0.5)), by = high.over_power();
        V::min(V::load(lowest_), high).store(lowest_);
        for (int k = 0; k < K_; ++k) {
            V x = V::max(V::load(a_ + k * N) * by, floor);
            if (!PLAIN) x = V::where_positive(V::load(psi + k * N), V::load(y + k * N), x);
            const V own = V::where_equal(h, V::set1(static_cast<T>(k)), one);
            (V::where_ge(half, h, x) + own).store(a_ + k * N);
        }
    }
    // The message into i + 1 from a_, or into i - 1.
    void send_right(const D& d, int64_t i) {
        if (i + 1 < rows_) send_abreast(d.g, d.e.forward, a_, f_ + (i + 1) * size_);
    }
    void send_left(const D& d, int64_t i) {
        if (i == 0) return;
        send_abreast(d.g, d.e.backward, a_, b_ + (i - 1) * size_);
        begin_left(i - 1);
    }
    void begin_left(int64_t i) {  // nothing comes in at an end
        each_lane(place_[i].last, [&](int r) {
            for (int k = 0; k < K_; ++k) b_[i * size_ + k * N + r] = T(1);
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

    // Lanes of i become islands of the modes of `row`.
    void become(int64_t i, Mask lanes, const T* row) {
        Place& p = place_[i];
        p.island |= lanes;
        p.stale_f |= lanes;
        p.stale_b |= lanes;
        p.touched |= lanes;
        each_lane(lanes, [&](int r) {
            held_[i * N + r] = static_cast<T>(mode(row, r));
            count_rows(i, r);
        });
    }
    // Of a_, made by multiply<true>: lanes of `test` whose largest share reaches zeta become
    // islands, the others send.
    VS_INLINE void decide_inward(int64_t i, Mask test, V high, V sum) {
        const Mask hits = (high / sum).ge(V::set1(least_share_)) & test;
        count(test & ~hits);
        if (hits) become(i, hits, a_);
    }
    void inward_right(const D& d) {
        for (int64_t k = 0; k < size_; ++k) f_[k] = T(1);
        for (int64_t i = 0; i < rows_; ++i) {
            Place& p = place_[i];
            const Mask test = p.left & ~p.island;
            const T* const y = f_ + i * size_;
            V sum, high = test ? multiply<true>(i, y, &sum) : multiply<false>(i, y, nullptr);
            if (test) decide_inward(i, test, high, sum);
            p.stale_f = 0;
            enter(i, y, high);
            send_right(d, i);
        }
    }
    void inward_left(const D& d) {
        T* const end = b_ + (rows_ - 1) * size_;
        for (int64_t k = 0; k < size_; ++k) end[k] = T(1);
        for (int64_t i = rows_; i-- > 0;) {
            Place& p = place_[i];
            const Mask test = p.right & ~p.island;
            const T* const y = b_ + i * size_;
            V sum, high = test ? multiply<true>(i, y, &sum) : multiply<false>(i, y, nullptr);
            if (test) decide_inward(i, test, high, sum);
            p.stale_b = 0;
            high.store(high_ + i * N);
            enter(i, y, high);
            send_left(d, i);
        }
    }

    // m' of position i, and its largest entry.
    VS_INLINE V believe(const D& d, int64_t i) {
        return plain_ ? believe_row<true>(d, i) : believe_row<false>(d, i);
    }
    template <bool PLAIN>
    VS_INLINE V believe_row(const D& d, int64_t i) {
        T* const out = p_ + i * size_;
        const T *const psi = psi_ + i * size_, *const f = f_ + i * size_, *const b = b_ + i * size_;
        const V zero = V::set1(T(0)), floor = V::set1(Floor<T>::kMessage);
        V part[N], part_a[N], part_b[N], high = zero;
        each<N>([&](auto j) VS_INLINE_LAMBDA { part[j] = part_a[j] = part_b[j] = zero; });
        for (int k0 = 0; k0 < K_; k0 += N) {
            each<N>([&](auto j) VS_INLINE_LAMBDA {
                const int k = k0 + j;
                if (k >= K_) return;
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
        }
        const V sum = fold_apart(part), inverse = V::set1(T(1)) / sum;
        V::min(V::load(least_), sum).store(least_);
        sum.store(mass_ + i * N);
        if (sizeof(T) == 4) {
            const V from_a = V::set1(static_cast<T>(d.floors_of_forward()));
            const V here =
                (from_a * fold_apart(part_a) + floor * fold_apart(part_b)) * inverse;
            V::max(V::load(most_), here).store(most_);
            here.store(added_ + i * N);
        }
        for (int k = 0; k < K_; ++k) (V::load(out + k * N) * inverse).store(out + k * N);
        return high * inverse;
    }
    // Lanes of `test` that become islands by m'.
    Mask decide(const D& d, int64_t i, Mask test) {
        if (place_[i].touched) judge(d, i);
        const Mask hits = place_[i].become & test;
        if (hits) become(i, hits, p_ + i * size_);
        return hits;
    }
    void centres(const D& d, bool late) {
        for (int64_t i = 0; i < rows_; ++i) {
            const Place& p = place_[i];
            const Mask test = (late ? p.one | p.two : p.one) & ~p.island;
            if (test) decide(d, i, test);
        }
    }
    // What is decided to the right does not show on the way to the left: it is put aside.
    void put_aside(int64_t i) {
        Place& p = place_[i];
        p.island ^= p.late_right;
        p.touched |= p.late_right;
        each_lane(p.late_right, [&](int r) { held_[i * N + r] = T(-2) - held_[i * N + r]; });
    }
    void outward_right(const D& d) {
        Mask stale = 0;
        for (int64_t i = 0; i < rows_; ++i) {
            Place& p = place_[i];
            if (stale) again_right(d, i - 1);
            p.touched |= stale;
            const Mask test = p.right & ~p.two & ~p.island;
            if (test) p.late_right = decide(d, i, test);
            stale = (p.stale_f | (stale & ~p.island)) & ~p.last;
            p.stale_f = 0;
        }
        for (int64_t i = 0; i < rows_; ++i) {
            if (place_[i].late_right) put_aside(i);
        }
    }
    void outward_left(const D& d) {
        Mask stale = 0;
        for (int64_t i = rows_; i-- > 0;) {
            Place& p = place_[i];
            if (stale) again_left(d, i + 1);
            p.touched |= stale;
            const Mask test = p.left & ~p.two & ~p.island;
            if (test) p.late_left = decide(d, i, test);
            const Mask here = p.stale_b & ~p.late_right;
            stale = i > 0 ? here | (stale & ~p.island) : 0;
            p.stale_b &= p.late_right;
        }
        for (int64_t i = 0; i < rows_; ++i) {
            if (place_[i].late_right) put_aside(i);
        }
    }

    // Makes all messages again that are stale, and notes whose m' are to be made. kStale: what goes
    // outwards to an island that is not late has not been sent, and is not counted, before.
    void refresh(const D& d, Count what) {
        Mask stale = 0;
        for (int64_t i = 0; i < rows_; ++i) {
            Place& p = place_[i];
            if (stale) again_right(d, i - 1);
            p.touched |= stale | p.stale_f;
            stale = (p.stale_f | (stale & ~p.island)) & ~p.last;
            p.stale_f = 0;
            if (stale && what != Count::kNone) {
                const Place& next = place_[i + 1];
                const Mask first = next.island & ~next.late_right & ~p.left;
                count(stale & ~p.island & (what == Count::kStale ? ~first : ~Mask{0}));
            }
        }
        stale = 0;
        for (int64_t i = rows_; i-- > 0;) {
            Place& p = place_[i];
            if (stale) again_left(d, i + 1);
            p.touched |= stale | p.stale_b;
            stale = i > 0 ? p.stale_b | (stale & ~p.island) : 0;
            p.stale_b = 0;
            if (stale && what != Count::kNone) {
                const Place& next = place_[i - 1];
                const Mask first = next.island & ~next.late_left & ~p.right;
                count(stale & ~p.island & (what == Count::kStale ? ~first : ~Mask{0}));
            }
        }
    }
    // m' of position i, and the events it calls for.
    void judge(const D& d, int64_t i) {
        Place& p = place_[i];
        const T* const row = p_ + i * size_;
        const V least = V::set1(least_share_), peak = believe(d, i);
        T own[N];
        for (int r = 0; r < N; ++r) {
            const T h = held_[i * N + r];
            own[r] = row[(h >= T(0) ? static_cast<int>(h) : 0) * N + r];
        }
        const V mine = V::load(own);
        const Mask reaches = peak.ge(least), stays = mine.ge(least) & mine.ge(peak);
        p.touched = 0;
        bad_ |= ~mine.ge(V::set1(std::numeric_limits<T>::min())) & p.island;
        p.become = reaches & p.inside & ~p.island & ~p.released;
        p.flip = reaches & ~stays & p.island;
        p.release = ~reaches & ~stays & p.island;
    }
    void judge_touched(const D& d) {
        for (int64_t i = 0; i < rows_; ++i) {
            if (place_[i].touched) judge(d, i);
        }
    }
    // Takes all events; false: there are none.
    bool take_events(int64_t round) {
        bool any = false;
        for (int64_t i = 0; i < rows_; ++i) {
            Place& p = place_[i];
            const Mask lanes = p.events();
            if (!lanes) continue;
            any = true;
            p.stale_f |= lanes;
            p.stale_b |= lanes;
            each_lane(lanes, [&](int r) { take_event(i, r, round); });
            p.become = p.flip = p.release = 0;
        }
        return any;
    }
    void take_event(int64_t i, int r, int64_t round) {
        Place& p = place_[i];
        const Mask bit = Mask{1} << r;
        const auto flag = [&](Mask lanes, uint8_t of) {
            return static_cast<uint8_t>(lanes & bit ? of : 0);
        };
        uint8_t flags = static_cast<uint8_t>(flag(p.island, vs::kIsland) |
                                             flag(p.released, vs::kReleased) |
                                             flag(p.flipped, vs::kFlipped));
        const int event = p.become & bit ? vs::kBecome : p.flip & bit ? vs::kFlip : vs::kRelease;
        int value = held(i, r);
        vs::IslandState::take_event(event, flags, value, counts_[r],
                                    [&] { return mode(p_ + i * size_, r); });
        const auto put = [&](Mask& lanes, uint8_t of) {
            lanes = flags & of ? lanes | bit : lanes & ~bit;
        };
        put(p.island, vs::kIsland);
        put(p.released, vs::kReleased);
        put(p.flipped, vs::kFlipped);
        held_[i * N + r] = static_cast<T>(value);
        counts_[r].rounds = round;
        if (p.island & bit) count_rows(i, r);
    }

    const Lane<D>* lanes_ = nullptr;
    int m_ = 0, K_ = 0;
    double zeta_ = 1.0;
    T least_share_ = T(1);  // the smallest that reaches zeta
    int64_t revisit_ = -1, size_ = 0, rows_ = 0;
    int64_t islands_ = 0;               // by local factors
    bool served_ = true, plain_ = true;  // does this pay; nothing is forbidden
    Mask bad_ = 0;                       // lanes with contradictions, or without any mass
    ScoresAbreast<D> scores_;
    T *psi_ = nullptr, *f_ = nullptr, *b_ = nullptr, *p_ = nullptr;  // (rows, K, N)
    T* a_ = nullptr;                                                 // (K, N): what goes out
    T *held_ = nullptr, *mass_ = nullptr, *high_ = nullptr;          // (rows, N)
    T *gap_ = nullptr, *added_ = nullptr;                            // (rows, N)
    double* shift_ = nullptr;                                        // (rows, N)
    Place* place_ = nullptr;                                         // (rows,)
    T lowest_[N], least_[N], most_[N];  // of what was scaled; of masses; of what floors added
    int32_t full_[N];
    vs::Counts counts_[N];
};

}  // namespace VS_NS
