// Islands of chains of few labels: a sequence in each lane of vectors. The rules are those of
// islands/rules.h, in sweeps over all positions of all lanes instead of lists of what is free:
// a product with a small table is cheaper than a look at who needs it.
//
//   locals      islands by local factors, and the halves of the gaps that they leave
//   inward      messages from both ends of a gap to its centre; islands on the way
//   centres     islands where both messages are known first
//   outward     messages on through the other half; islands by m'
//   rounds      until nothing changes
//
// A message is made again where one of the lanes asks for that: it is a function of the islands,
// and the other lanes get what they had. Bits, and counts of messages, are those of IslandPasses
// with PathRows. A lane that meets anything unusual is left to these.
//
// Lanes may also be the stretches of one long chain, cut at islands that two of them share: both
// are told what comes in there. Where one is released messages go on in the other; where several
// are, a message is made, and counts, once for each stretch that what it tells has come through.
#pragma once

#include "forest/lane_messages.h"
#include "forest/worth.h"
#include "islands/rules.h"

namespace VS_NS {

template <class D>
class IslandsAbreast : public LaneMessages<D> {
  public:
    using Base = LaneMessages<D>;
    using Base::each_lane;
    using Base::N;
    using typename Base::Mask;
    using typename Base::T;
    using typename Base::V;

    // lanes[0..m), at most N, the longest first. False: no memory.
    bool open(const Lane<D>* lanes, int m, const D& d, double zeta, int64_t revisit,
              vs::Scratch& scratch) {
        if (!Base::open(lanes, m, d, scratch)) return false;
        zeta_ = zeta;
        least_share_ = static_cast<T>(zeta);
        if (static_cast<double>(least_share_) < zeta) {
            least_share_ = std::nextafter(least_share_, T(2));
        }
        revisit_ = revisit;
        gap_ = exponent_ = scratch.array<T>(rows_ * N);
        place_ = scratch.array<Place>(rows_);
        if (scratch.failed) return false;
        for (int64_t i = 0; i < rows_; ++i) place_[i] = Place();
        for (int r = 0; r < N; ++r) counts_[r] = vs::Counts();
        return true;
    }

    // The lanes are stretches of one chain; after[r]: the lane that goes on from lane r, or -1.
    void join(const int8_t* after) {
        Base::after_ = after;
        islands_ = 1 - m_;  // the first of all but one lane are no sign of how many there are
    }

    // False: cancelled.
    bool find(const D& d, Ticker& ticker) {
        const bool late = revisit_ != 0;
        const auto see = [&](int64_t i, V sum, V high)
                             VS_INLINE_LAMBDA { see_local(i, sum, high); };
        const bool all = Base::locals(d, see, [&](int64_t end) {
            pays_ = K_ <= kAlways || 100 * islands_ <= kMostIslands * m_ * end;
            return pays_ && ticker.go_on(m_);
        });
        if (!all) return !pays_;
        if (!holds_together()) return true;
        halves();
        inward_right(d);
        if (!ticker.go_on(m_ * rows_)) return false;
        inward_left(d);
        centres(d, late);
        if (!ticker.go_on(m_ * rows_)) return false;
        if (late) {
            outward_right(d);
            outward_left(d);
            if (!ticker.go_on(m_ * rows_)) return false;
        }
        refresh(d, late ? Count::kStale : Count::kNone);
        for (int64_t i = 0; i < rows_; ++i) {
            const Place& p = place_[i];
            count((p.one | p.right) & ~p.island & ~last_[i]);
            if (i > 0) count((p.one | p.left) & ~p.island);
        }
        tell_across();
        judge_touched(d);
        for (int64_t round = 1; revisit_ < 0 || round <= revisit_; ++round) {
            if (!ticker.go_on(m_ * rows_)) return false;
            if (!take_events(round)) break;
            // So many rounds are few events each, and a sweep over a long chain for these is dear.
            pays_ = !after_ || round <= kMostRounds;
            if (!pays_) return true;
            do {
                if (!ticker.go_on(m_ * rows_)) return false;
                refresh(d, Count::kAll);
            } while (tell_across());
            judge_touched(d);
        }
        for (int64_t i = 0; i < rows_; ++i) {
            each_lane(place_[i].events(), [&](int r) { counts_[r].unsettled = 1; });
        }
        for (int r = 0; r < N; ++r) counts_[r].full = full_[r];
        exponents();
        return true;
    }

    // Whether all went well in lane r.
    bool well(int r) const { return pays_ && !(bad_ >> r & 1u) && Base::large_enough(r); }
    // Which lanes have a position i, and end there; which are islands, were ones by their local
    // factors, and hold the modes of these.
    Mask inside(int64_t i) const { return inside_[i]; }
    Mask last(int64_t i) const { return last_[i]; }
    Mask islands(int64_t i) const { return place_[i].island; }
    Mask local(int64_t i) const { return place_[i].local; }
    Mask stayed(int64_t i) const {
        const Place& p = place_[i];
        return p.island & p.local & ~p.flipped;
    }
    // The power of 2 that is taken out of the message into i from the right.
    double exponent(int64_t i, int r) const { return static_cast<double>(exponent_[i * N + r]); }
    // Of islands by local factors the rows are not counted.
    const vs::Counts& counts(int r) const { return counts_[r]; }

  private:
    using Base::a_;
    using Base::after_;
    using Base::again_left;
    using Base::again_right;
    using Base::b_;
    using Base::each_joint;
    using Base::f_;
    using Base::held_;
    using Base::inside_;
    using Base::K_;
    using Base::kWide;
    using Base::lanes_;
    using Base::last_;
    using Base::m_;
    using Base::mode;
    using Base::p_;
    using Base::positive;
    using Base::psi_;
    using Base::rows_;
    using Base::size_;
    using Base::tell;

    static constexpr Mask kAll = static_cast<Mask>((uint64_t{1} << N) - 1);
    // Lanes for which something holds at a position.
    struct Place {
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
    // Lists of what is free are faster with more labels, where so many of a hundred are islands.
    static constexpr int kAlways = 20, kMostIslands = 4;
    static constexpr int64_t kMostRounds = 64;  // of stretches

    // How many rows an island sends.
    int64_t rows_out(int64_t i, int r) const { return (i > 0) + (i + 1 < lanes_[r].n); }
    // Messages of K * K operations.
    VS_INLINE void count(Mask lanes) {
        for (int r = 0; r < N; ++r) full_[r] += static_cast<int32_t>(lanes >> r & 1u);
    }

    // Islands by local factors.
    VS_INLINE void see_local(int64_t i, V sum, V high) {
        const T* const psi = psi_ + i * size_;
        const V one = V::set1(T(1)), none = V::set1(static_cast<T>(K_));
        Place& p = place_[i];
        p.island = p.local = reaches(sum) & inside_[i];
        bad_ |= ~positive(sum) & inside_[i];
        V index = none;  // of the mode
        for (int k = 0; p.island && k < K_; ++k) {
            const V at = V::set1(static_cast<T>(k));
            index = V::min(index, none + V::where_ge(V::load(psi + k * N), high, at - none));
        }
        // What lies behind an end bounds the last gap as an island would.
        (V::where_bit(p.island | ~inside_[i], index + one) - one).store(held_ + i * N);
        for (Mask lanes = p.island; lanes; lanes &= lanes - 1) ++islands_;
    }
    // Does a row of this sum, whose largest entry is one, reach zeta?
    VS_INLINE Mask reaches(V sum) const {
        if constexpr (sizeof(T) == 8) {
            return V::set1(T(1)).ge(V::set1(static_cast<T>(zeta_)) * sum);
        } else {
            using Wide = Vec<double>;
            Wide wide[kWide];
            sum.widen(wide);
            Mask lanes = 0;
            each<kWide>([&](auto q) VS_INLINE_LAMBDA {
                lanes |= Wide::set1(1.0).ge(Wide::set1(zeta_) * wide[q]) << (q * Wide::N);
            });
            return lanes;
        }
    }
    // Halves of gaps, by the distances to the islands at their ends.
    void halves() {
        const V one = V::set1(T(1));
        V far = V::set1(T(0));
        const auto next = [&](int64_t i) VS_INLINE_LAMBDA {
            far = V::where_ge(V::set1(T(-0.5)), V::load(held_ + i * N), far + one);
        };
        for (int64_t i = 0; i < rows_; ++i) {
            next(i);
            far.store(gap_ + i * N);
        }
        far = V::set1(T(0));
        for (int64_t i = rows_; i-- > 0;) {
            next(i);
            Place& p = place_[i];
            const Mask is_free = inside_[i] & ~p.island;
            const V from_left = V::load(gap_ + i * N);
            const Mask more = from_left.ge(far), less = far.ge(from_left);
            p.one = more & less & is_free;
            p.left = ~more & is_free;
            p.right = ~less & is_free;
            p.two = (p.left & (from_left + one).ge(far)) | (p.right & (far + one).ge(from_left));
            // Behind an end nothing is held, or no number would be left there.
            each_lane(~inside_[i] & kAll, [&](int r) { held_[i * N + r] = T(-1); });
        }
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
            counts_[r].sparse += rows_out(i, r);
        });
    }
    // The product that goes on from i, where y has come in. Lanes of `test` whose largest share
    // reaches zeta become islands, and the others send.
    VS_INLINE V go_inward(int64_t i, Mask test, const T* y) {
        if (!test) return Base::template multiply<false>(i, y, nullptr);
        V sum;
        const V high = Base::template multiply<true>(i, y, &sum);
        const Mask hits = (high / sum).ge(V::set1(least_share_)) & test;
        count(test & ~hits);
        if (hits) become(i, hits, a_);
        return high;
    }
    void inward_right(const D& d) {
        for (int64_t k = 0; k < size_; ++k) f_[k] = T(1);
        for (int64_t i = 0; i < rows_; ++i) {
            Place& p = place_[i];
            const T* const y = f_ + i * size_;
            Base::enter(i, y, go_inward(i, p.left, y));
            p.stale_f = 0;
            Base::send_right(d, i);
        }
    }
    void inward_left(const D& d) {
        T* const end = b_ + (rows_ - 1) * size_;
        for (int64_t k = 0; k < size_; ++k) end[k] = T(1);
        for (int64_t i = rows_; i-- > 0;) {
            Place& p = place_[i];
            const T* const y = b_ + i * size_;
            const V high = go_inward(i, p.right, y);
            high.store(Base::high_ + i * N);
            Base::enter(i, y, high);
            p.stale_b = 0;
            Base::send_left(d, i);
        }
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
    // What is decided to the right does not show on the way to the left: it is put aside, and
    // taken back.
    void put_aside(int64_t i) {
        Place& p = place_[i];
        p.island ^= p.late_right;
        p.touched |= p.late_right;
        each_lane(p.late_right, [&](int r) { held_[i * N + r] = T(-2) - held_[i * N + r]; });
    }
    void put_all_aside() {
        for (int64_t i = 0; i < rows_; ++i) {
            if (place_[i].late_right) put_aside(i);
        }
    }
    void outward_right(const D& d) {
        Mask stale = 0;
        for (int64_t i = 0; i < rows_; ++i) {
            Place& p = place_[i];
            if (stale) again_right(d, i - 1);
            p.touched |= stale;
            const Mask test = p.right & ~p.two & ~p.island;
            if (test) p.late_right = decide(d, i, test);
            stale = (p.stale_f | (stale & ~p.island)) & ~last_[i];
            p.stale_f = 0;
        }
    }
    void outward_left(const D& d) {
        put_all_aside();
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
        put_all_aside();
    }

    // Counts messages that are made again; first: those that had not been sent before.
    VS_INLINE void count_again(Mask sent, Count what, Mask first) {
        if (sent && what != Count::kNone) count(what == Count::kStale ? sent & ~first : sent);
    }
    // Makes all messages again that are stale, and notes whose m' are to be made. On the way out
    // nothing has been sent to islands but those that became so late.
    void refresh(const D& d, Count what) {
        Mask stale = 0;
        for (int64_t i = 0; i < rows_; ++i) {
            Place& p = place_[i];
            if (stale) again_right(d, i - 1);
            p.touched |= stale | p.stale_f;
            stale = (p.stale_f | (stale & ~p.island)) & ~last_[i];
            p.stale_f = 0;
            if (!stale) continue;
            const Place& next = place_[i + 1];
            count_again(stale & ~p.island, what, next.island & ~next.late_right & ~p.left);
        }
        stale = 0;
        for (int64_t i = rows_; i-- > 0;) {
            Place& p = place_[i];
            if (stale) again_left(d, i + 1);
            p.touched |= stale | p.stale_b;
            stale = i > 0 ? p.stale_b | (stale & ~p.island) : 0;
            p.stale_b = 0;
            if (!stale) continue;
            const Place& next = place_[i - 1];
            count_again(stale & ~p.island, what, next.island & ~next.late_left & ~p.right);
        }
    }
    // m' of position i, and the events it calls for.
    void judge(const D& d, int64_t i) {
        Place& p = place_[i];
        V mine;
        const V least = V::set1(least_share_), peak = Base::believe(d, i, &mine);
        const Mask reach = peak.ge(least);
        p.touched = p.flip = p.release = 0;
        p.become = reach & inside_[i] & ~p.island & ~p.released;
        if (!p.island) return;
        const Mask stay = mine.ge(least) & mine.ge(peak);
        bad_ |= ~positive(mine) & p.island;  // a contradiction
        p.flip = reach & ~stay & p.island;
        p.release = ~reach & ~stay & p.island;
    }
    void judge_touched(const D& d) {
        for (int64_t i = 0; i < rows_; ++i) {
            if (place_[i].touched) judge(d, i);
        }
    }
    // Are all positions that two lanes have islands?
    bool holds_together() {
        each_joint([&](int64_t end, int r, int next) {
            pays_ &= (place_[end].island >> r & place_[0].island >> next & 1u) != 0;
        });
        return pays_;
    }
    // Tells lanes what comes in where the other one is; true: some of that has to go on.
    bool tell_across() {
        bool more = false;
        each_joint([&](int64_t end, int r, int next) {
            Place &left = place_[end], &right = place_[0];
            const Mask mine = Mask{1} << r, its = Mask{1} << next;
            const bool from_left = tell(f_ + end * size_ + r, f_ + next);
            const bool from_right = tell(b_ + next, b_ + end * size_ + r);
            tell(b_ + next, Base::entry_ + r);
            if (!from_left && !from_right) return;
            left.touched |= mine;
            right.touched |= its;
            if (left.island & mine) return;
            if (from_left) right.stale_f |= its;
            if (from_right) left.stale_b |= mine;
            more = true;
        });
        return more;
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
        uint8_t flags =
            static_cast<uint8_t>(flag(p.island, vs::kIsland) | flag(p.released, vs::kReleased) |
                                 flag(p.flipped, vs::kFlipped));
        const int event = p.become & bit ? vs::kBecome : p.flip & bit ? vs::kFlip : vs::kRelease;
        int value = Base::held(i, r);
        vs::Counts other;  // of what two lanes share one counts
        vs::IslandState::take_event(event, flags, value,
                                    i > 0 || lanes_[r].head ? counts_[r] : other,
                                    [&] { return mode(p_ + i * size_, r); });
        const auto put = [&](Mask& lanes, uint8_t of) {
            lanes = flags & of ? lanes | bit : lanes & ~bit;
        };
        put(p.island, vs::kIsland);
        put(p.released, vs::kReleased);
        put(p.flipped, vs::kFlipped);
        held_[i * N + r] = static_cast<T>(value);
        counts_[r].rounds = round;
        if (p.island & bit) counts_[r].sparse += rows_out(i, r);
    }

    void exponents() {
        int32_t sum[N] = {};
        for (int64_t i = rows_; i-- > 0;) {
            const T *const high = Base::high_ + i * N, *const held = held_ + i * N;
            each_lane(last_[i], [&](int r) { sum[r] = 0; });
            T* const to = exponent_ + i * N;
            for (int r = 0; r < N; ++r) {
                to[r] = static_cast<T>(sum[r]);
                sum[r] = held[r] < T(0) ? sum[r] + exponent_of(high[r]) : 0;
            }
        }
        // Segments that go on in another lane: the last lane first.
        for (int next = -1, n = 0; after_ && n < m_; ++n) {
            int r = 0;
            while (after_[r] != next) ++r;
            const int64_t end = lanes_[r].n - 1;
            for (int64_t i = end; next >= 0 && i >= 0; --i) {
                if (i == end && held_[i * N + r] >= T(0)) break;
                exponent_[i * N + r] += exponent_[next];
                if (held_[i * N + r] >= T(0)) break;
            }
            next = r;
        }
    }

    double zeta_ = 1.0;
    T least_share_ = T(1);  // the smallest that reaches zeta
    int64_t revisit_ = -1;
    int64_t islands_ = 0;                     // by local factors
    bool pays_ = true;                        // not too many of these
    Mask bad_ = 0;                            // lanes with contradictions, or without any mass
    T *gap_ = nullptr, *exponent_ = nullptr;  // (rows, N), one place: halves() come first
    Place* place_ = nullptr;                  // (rows,)
    int32_t full_[N] = {};
    vs::Counts counts_[N];
};

}  // namespace VS_NS
