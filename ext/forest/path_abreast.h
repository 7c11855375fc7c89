// Passes of Exact for chains of few labels: a sequence, or a chunk, in each lane of vectors.
//
// A row of few labels is mostly overhead: its last vector is half empty, and its largest entry, its
// exponents and its sums are of one number each. Side by side, entry k of all rows is one vector.
// Each number goes through the operations of Exact in their order, so bits are the same. Lanes are
// aligned where they begin: one that has ended, or that has not begun on the way back, computes
// what nobody reads. A lane that meets anything unusual is left to Exact, which says what it was.
#pragma once

#include "forest/compare.h"
#include "forest/forward_few.h"
#include "forest/lane_trust.h"
#include "forest/path_edges.h"
#include "forest/path_exact.h"
#include "forest/scores_abreast.h"
#include "forest/tables_abreast.h"
#include "forest/wanted.h"
#include "rows/tile_abreast.h"
#include "simd/transpose.h"

namespace VS_NS {

template <class D>
class Abreast {
  public:
    using T = typename D::T;
    using In = typename D::In;
    using V = Vec<T>;
    using Wide = Vec<double>;
    using Top = typename ScoresAbreast<D>::Top;
    static constexpr int N = V::N;

    // Rows of many labels are no slower by themselves, but for vectors of 512 bits.
    static constexpr int kMostLabels = VS_LEVEL == VS_LEVEL_V4 ? 1000 : 25;

    static bool serves(const D& d) {
        const int most = d.in.c.per_edge ? static_cast<int>(vs::kAbreastEdges) : kMostLabels;
        return d.K <= most && d.g.n_tiles == 1 && !d.e.sparse_forward;
    }
    // Lanes that have ended, or are none, take as long as others. Measured: side by side a position
    // takes so many hundredths of what it takes by rows.
    static bool pays(const Lane<D>* lanes, int m, int K) {
        const int64_t line = sizeof(T) == 8 ? 22 + 2 * K : 14 + 3 * K / 2;
        const int64_t most = sizeof(T) == 8 ? 86 : 88, percent = line < most ? line : most;
        const LaneSizes sizes = lane_sizes(lanes, m);
        return 100 * sizes.positions > percent * N * sizes.longest;
    }

    // lanes[0..m), at most N. False: no memory.
    bool open(Lane<D>* lanes, int m, const Wanted<D>& wanted, const D& d, vs::Scratch& scratch) {
        const Keep keep = keep_ = wanted.keep;
        proved_ = wanted.proved;
        if (wanted.edges) edges_.open(*wanted.edges, lanes, m);
        if (wanted.energies && !energies_.open(wanted.depth, wanted.energies, d.K, scratch)) {
            return false;
        }
        if (wanted.compared && Beside<D>::kFits && !beside_.open(*wanted.compared, d.K, scratch)) {
            return false;
        }
        lanes_ = lanes;
        m_ = m;
        size_ = N * d.K;
        trust_.begin();
        for (int r = 0; r < m; ++r) {
            if (lanes[r].n > lanes[longest_].n) longest_ = r;
            last_ = lanes[r].last > last_ ? lanes[r].last : last_;
            lanes[r].compared = beside_.on();
        }
        rows_ = lanes[longest_].n;
        const int64_t padded = N * static_cast<int64_t>(d.Kp);
        y_ = scratch.array<T>((kAtOnce + 3) * padded);
        a_ = y_ + padded;
        psi_ = a_ + padded;
        p_ = psi_ + padded;
        row_ = scratch.array<In>(kAtOnce * d.Kp);
        lane_row_ = scratch.array<T>(d.Kp);
        if (lane_row_) d.clear(lane_row_);
        step_ = keep == Keep::kBoth ? 2 * size_ : size_;
        kept_ = keep == Keep::kNothing ? nullptr : scratch.array<T>(step_ * rows_);
        return scores_.open(d, scratch) &&
               tables_.open(d, rows_, keep != Keep::kNothing, energies_.on(), scratch) && y_ &&
               row_ && lane_row_ && (kept_ != nullptr) == (keep != Keep::kNothing);
    }
    bool well(int r) const { return trust_.well[r]; }  // whether all went well in lane r
    // Whether this arithmetic is not good enough for lane r.
    bool lost(int r) const { return trust_.lost[r]; }
    // Forward messages of position i (K, N), where they are kept; tables of the edges into it.
    const T* kept(int64_t i) const { return kept_ + i * step_; }
    const T* kept_table(int64_t i) const { return i < rows_ ? tables_.kept(i) : nullptr; }

    // Forward messages. False: cancelled.
    bool forward(const Exact<D>& engine, const D& d, Ticker& ticker) {
        forward_.plain = d.e.positive;
        int64_t stops[4 * N + 1];
        const int n_stops = forward_stops(d, lanes_, m_, stops);
        for (int64_t i = 0; i < last_;) {
            const int64_t end = next_stop(stops, n_stops, i, last_);
            const bool go = keep_ == Keep::kBoth ? advance<true>(d, ticker, i, end)
                                                 : advance<false>(d, ticker, i, end);
            if (!go) return false;
            bool summed = false;
            for (int r = 0; r < m_; ++r) {
                if (end == lanes_[r].enter) run_in(engine, d, r, block(end - 1));
                if (end != lanes_[r].last) continue;
                if (!summed) sum_last(d.K, block(end - 1));
                summed = true;
                end_forward(d, r, block(end - 1));
            }
            i = end;
        }
        for (int64_t i = last_; keep_ == Keep::kBoth && i < rows_; ++i) {
            scores_.aim(d, lanes_, m_, longest_, i);
            const In* const x = scores_.look(d, 1);
            const Top top = largest(d, x);
            T* const psi = block(i) + size_;
            for (int k = 0; k < d.K; ++k) {
                scores_.template local<false>(x, k, top).store(psi + k * N);
            }
            tables_.prepare(d, lanes_, m_, longest_, i);
        }
        return true;
    }

    // Backward messages, and marginals. False: cancelled.
    bool backward(const D& d, Ticker& ticker) {
        int64_t first = rows_;
        for (int r = 0; r < m_; ++r) first = lanes_[r].enter < first ? lanes_[r].enter : first;
        for (int64_t i = 0; i < D::kEvery; ++i) scaled_[i] = 0;
        for (int r = 0; r < N; ++r) scaled_[lanes_[r < m_ ? r : 0].n % D::kEvery] |= 1u << r;
        for (int k = 0; k < size_; ++k) y_[k] = T(1);
        for (int64_t i = rows_ - 1;; --i) {
            int64_t end = first;  // the last of those that go alike
            bool meets = false;
            for (int r = 0; r < N; ++r) to_[r] = nullptr;
            for (int r = m_; r < N && energies_.on(); ++r) energies_.aim(r, -1);
            for (int r = 0; r < m_; ++r) {
                const Lane<D>& s = lanes_[r];
                if (i == s.n - 1) begin_backward(d, r);
                if (i == s.last) enter_backward(d, r);
                if (i == s.last - 1) trust_.begin_own(r);
                const bool own = s.enter <= i && i < s.last;
                meets |= own;
                if (energies_.on()) energies_.aim(r, own ? s.begin + i : -1);
                if (beside_.on()) {
                    beside_.aim(r, own ? s.begin + i : -1, s.sequence);
                } else if (own && s.out) {
                    to_[r] = s.out + i * d.K;
                }
                for (const int64_t at : {s.n - 1, s.last, s.last - 1, s.enter - 1}) {
                    if (at < i && at + 1 > end) end = at + 1;
                }
            }
            const bool go = !meets           ? retreat<false, false>(d, ticker, i, end)
                            : forward_.plain ? retreat<true, true>(d, ticker, i, end)
                                             : retreat<false, true>(d, ticker, i, end);
            if (!go) return false;
            for (int r = 0; r < m_; ++r) {
                if (end == lanes_[r].enter) end_backward(d, r);
            }
            if (end == first) return true;
            send_back(d, end);
            i = end;
        }
    }

  private:
    // Rows of marginals that are written so soon are asked for on the way there.
    static constexpr int64_t kSoonBytes = 16 << 10;
    static constexpr int64_t kAtOnce = ScoresAbreast<D>::kAtOnce;
    static constexpr int kWide = ScoresAbreast<D>::kWide;
    static constexpr unsigned kAll = (1u << N) - 1u;

    // The numbers of position i: those of all lanes, psi behind alpha.
    T* block(int64_t i) { return kept_ ? kept_ + i * step_ : a_; }
    // A row of lane r out of numbers side by side.
    T* row_of(const D& d, int r, const T* from) const {
        for (int k = 0; k < d.K; ++k) lane_row_[k] = from[k * N + r];
        return lane_row_;
    }
    void sum_last(int K, const T* a) {
        V part[N];
        each<N>([&](auto j) VS_INLINE_LAMBDA { part[j] = V::set1(T(0)); });
        for (int k0 = 0; k0 < K; k0 += N) {
            each<N>([&](auto j) VS_INLINE_LAMBDA {
                if (k0 + j < K) part[j] = part[j] + V::load(a + (k0 + j) * N);
            });
        }
        fold_apart(part).store(last_sum_);
    }

    // The largest scores of a row; `forward_.plain` stays where none is forbidden.
    VS_INLINE Top largest(const D& d, const In* x) {
        bool plain;
        const Top top = scores_.largest(d.K, x, &plain);
        row_plain_ = d.e.positive && plain;
        forward_.plain &= plain;
        return top;
    }

    // Forward messages of [i, end), in which nothing begins or ends.
    template <bool BOTH>
    bool advance(const D& d, Ticker& ticker, int64_t i, int64_t end) {
        scores_.aim(d, lanes_, m_, longest_, i);
        bool go;
        if (few<BOTH, 2>(d, ticker, i, end, &go) || few<BOTH, 3>(d, ticker, i, end, &go) ||
            few<BOTH, 4>(d, ticker, i, end, &go) || few<BOTH, 5>(d, ticker, i, end, &go)) {
            return go;
        }
        return advance_any<BOTH>(d, ticker, i, end);
    }
    template <bool BOTH, int K>
    bool few(const D& d, Ticker& ticker, int64_t i, int64_t end, bool* go) {
        using Few = ForwardFew<D, K, BOTH>;
        if (!Few::serves(d)) return false;
        *go = Few::run(scores_, forward_, d, ticker, m_, i, end, block(i), kept_ ? step_ : 0,
                       [&](int64_t at) VS_INLINE_LAMBDA { ask_for<BOTH>(d, at); });
        return true;
    }
    // Rows of marginals that are written soon.
    template <bool BOTH>
    VS_INLINE void ask_for(const D& d, int64_t i) {
        if (!BOTH || rows_ * size_ * static_cast<int64_t>(sizeof(T)) > kSoonBytes) return;
        for (int r = 0; r < m_; ++r) {
            if (beside_.on()) {
                beside_.prefetch(lanes_[r].begin + (i < lanes_[r].n ? i : 0));
            } else if (lanes_[r].out) {
                row_prefetch_write(lanes_[r].out + i * d.K, d.K);
            }
        }
    }
    template <bool BOTH>
    bool advance_any(const D& d, Ticker& ticker, int64_t i, int64_t end) {
        Wide value[kWide], rest[kWide];
        for (int q = 0; q < kWide; ++q) {
            value[q] = Wide::load(forward_.value + q * Wide::N);
            rest[q] = Wide::load(forward_.rest + q * Wide::N);
        }
        V touched = V::load(forward_.touched), low = V::set1(T(1));
        const V least = V::set1(d.least_untouched());
        if (i == 0) {
            for (int k = 0; k < size_; ++k) y_[k] = T(1);
        }
        bool go = true;
        const In* x = nullptr;
        for (const int64_t first = i; i < end && go; ++i, x += size_) {
            ask_for<BOTH>(d, i);
            if ((i - first) % kAtOnce == 0) {
                forward_.count();
                x = scores_.look(d, end - i < kAtOnce ? end - i : kAtOnce);
            }
            const Top top = largest(d, x);
            if (i > 0) send_on(d, i);
            T* const a = block(i);
            const bool normalise = i % D::kEvery == D::kEvery - 1;
            const V high = row_plain_
                               ? enter<BOTH, true>(d.K, x, top, normalise, a, least, &low)
                               : enter<BOTH, false>(d.K, x, top, normalise, a, least, &touched);
            if (normalise) {
                const V by = powers(high, kAll);
                forward_.scale();
                const T* const psi = BOTH ? a + size_ : psi_;
                row_plain_ ? scale<true>(d.K, psi, by, a) : scale<false>(d.K, psi, by, a);
            }
            Wide shift[kWide];
            ScoresAbreast<D>::widen(top, shift);
            for (int q = 0; q < kWide; ++q) vs::add_to(value[q], rest[q], shift[q]);
            go = ticker.go_on(m_);
        }
        for (int q = 0; q < kWide; ++q) {
            value[q].store(forward_.value + q * Wide::N);
            rest[q].store(forward_.rest + q * Wide::N);
        }
        V::max(touched, least - low).store(forward_.touched);
        forward_.count();
        return go;
    }
    // psi = exp(x - top) and a = psi * y, or where `normalise` the largest of that. Where psi is
    // not kept, `extreme` is above 0 from an entry of y below `least` on; PLAIN: the least entry.
    template <bool BOTH, bool PLAIN>
    VS_INLINE V enter(int K, const In* x, const Top& top, bool normalise, T* a, V least,
                      V* extreme) {
        const V floor = V::set1(Floor<T>::kMessage), kept = V::set1(D::kTouched);
        V high = V::set1(T(0));
        for (int k = 0; k < K; ++k) {
            const V y = V::load(y_ + k * N);
            const V psi = scores_.template local<PLAIN>(x, k, top);
            if (BOTH || normalise) psi.store((BOTH ? a + size_ : psi_) + k * N);
            if (!BOTH) {  // as row_within; where nothing is forbidden no entry is 0
                *extreme =
                    PLAIN ? V::min(*extreme, y) : V::max(*extreme, V::where_ge(y, kept, least - y));
            }
            put<PLAIN>(k, psi, y, psi * y, floor, normalise, a, &high);
        }
        return high;
    }
    // Entry k of psi * y into `a`, held at the floor, unless it is yet to be scaled.
    template <bool PLAIN>
    VS_INLINE void put(int k, V psi, V y, V z, V floor, bool normalise, T* a, V* high) {
        if (normalise) {
            *high = V::max(*high, z);
        } else {
            const V most = V::max(z, floor);
            (PLAIN ? most : V::where_positive(psi, y, most)).store(a + k * N);
        }
    }
    // a = psi * y_ * by, held at the floor.
    template <bool PLAIN>
    VS_INLINE void scale(int K, const T* psi, V by, T* a) {
        const V floor = V::set1(Floor<T>::kMessage);
        for (int k = 0; k < K; ++k) {
            const V u = V::load(psi + k * N), y = V::load(y_ + k * N);
            const V most = V::max(u * y * by, floor);
            (PLAIN ? most : V::where_positive(u, y, most)).store(a + k * N);
        }
    }
    // 2^-e of the exponents e of `high` in the lanes asked for, else 1.
    VS_INLINE V powers(V high, unsigned lanes) {
        high.store(forward_.high);
        if (lanes == kAll) {
            V::min(V::load(forward_.lowest), high).store(forward_.lowest);
            return high.over_power();
        }
        T by[N];
        for (int r = 0; r < N; ++r) {
            const bool asked = (lanes >> r & 1u) != 0;
            by[r] = asked ? power_of_two(-exponent_of(forward_.high[r]), T(0)) : T(1);
            if (asked && forward_.high[r] < forward_.lowest[r])
                forward_.lowest[r] = forward_.high[r];
        }
        return V::load(by);
    }
    void run_in(const Exact<D>& engine, const D& d, int r, T* a) {
        Lane<D>& s = lanes_[r];
        T* const row = row_of(d, r, a);
        engine.ran_in(s, row);
        for (int k = 0; k < d.K; ++k) a[k * N + r] = row[k];
        forward_.begin(r);
    }
    void end_forward(const D& d, int r, const T* a) {
        Lane<D>& s = lanes_[r];
        s.log_end = std::log(static_cast<double>(last_sum_[r]));
        if (s.left_f) {
            std::memcpy(s.left_f, row_of(d, r, a), sizeof(T) * static_cast<size_t>(d.Kp));
        }
        s.shift.value = forward_.value[r];
        s.shift.rest = forward_.rest[r];
        s.scale = static_cast<double>(forward_.exponents[r]);
        s.edge_shift = {forward_.edges[r], forward_.edges_rest[r]};
        trust_.scaled(r, forward_.lowest[r]);
        if (!proved_ && forward_.touched[r] > T(0)) trust_.well[r] = false;
    }
    void begin_backward(const D& d, int r) {
        for (int k = 0; k < d.K; ++k) y_[k * N + r] = T(1);
        forward_.lowest[r] = T(1);
    }
    // The message into a chunk's own part.
    void enter_backward(const D& d, int r) {
        Lane<D>& s = lanes_[r];
        if (s.entry_b) {
            const T* const row = row_of(d, r, y_);
            std::memcpy(s.entry_b, row, sizeof(T) * static_cast<size_t>(d.Kp));
        }
        if (!s.true_b) return;
        for (int k = 0; k < d.K; ++k) y_[k * N + r] = s.true_b[k];
    }
    void end_backward(const D& d, int r) {
        Lane<D>& s = lanes_[r];
        if (s.y) std::memcpy(s.y, row_of(d, r, y_), sizeof(T) * static_cast<size_t>(d.Kp));
        s.added = static_cast<double>(trust_.added[r]);
        trust_.scaled(r, forward_.lowest[r]);
        trust_.met(r);
    }

    // Backward messages, and where lanes meet marginals, from i down to `end`. The message that
    // goes on stands in a_.
    template <bool PLAIN, bool MEETS>
    bool retreat(const D& d, Ticker& ticker, int64_t i, int64_t end) {
        V least = V::load(trust_.least), most = V::load(trust_.most), added = V::load(trust_.added);
        const V from_a = V::set1(static_cast<T>(d.floors_of_forward()));
        const V from_b = V::set1(Floor<T>::kMessage);
        int64_t step[N];
        for (int r = 0; r < N; ++r) {
            step[r] = to_[r] ? d.K : 0;
            if (!to_[r]) to_[r] = row_;
        }
        bool go = true;
        int64_t rows = 0;  // of marginals that wait, last first
        for (;; --i) {
            const unsigned scaled = scaled_[i % D::kEvery];
            V sum = V::set1(T(0)), sum_a = sum, sum_b = sum;
            T* const p = p_ + (kAtOnce - 1 - rows) * size_;
            if (MEETS && edges_.on()) edges_.rows(d, i, block(i), a_, psi_);
            if (MEETS && energies_.on()) {
                energies_.rows(block(i), a_, [&](Wide* total) VS_INLINE_LAMBDA {
                    if (i + 1 < rows_)
                        tables_.energies(d, lanes_, m_, longest_, i + 1, block(i), a_, total);
                });
            }
            const V high = meet<PLAIN, MEETS>(d.K, block(i), scaled != 0, p, &sum, &sum_a, &sum_b);
            if (scaled) scale<PLAIN>(d.K, block(i) + size_, powers(high, scaled), a_);
            if (MEETS) {
                const V inverse = V::set1(T(1)) / sum;
                if (edges_.on()) edges_.masses(i, sum);
                if (energies_.on()) energies_.masses(sum);
                least = V::min(least, sum);
                if (sizeof(T) == 4) {
                    const V here = (from_a * sum_a + from_b * sum_b) * inverse;
                    most = V::max(most, here);
                    added = added + here;
                }
                if (beside_.on()) {
                    beside_.row(i - end + 1, p, inverse);
                } else {
                    for (int k = 0; k < d.K; ++k) (V::load(p + k * N) * inverse).store(p + k * N);
                    if (++rows == kAtOnce || i == end) {
                        for (int r = 0; r < N; ++r) to_[r] -= (rows - 1) * step[r];
                        unweave<T, N>(p, rows * d.K, to_);
                        for (int r = 0; r < N; ++r) to_[r] -= step[r];
                        rows = 0;
                    }
                }
            }
            go = ticker.go_on(m_);
            if (i == end || !go) break;
            send_back(d, i);
        }
        least.store(trust_.least);
        most.store(trust_.most);
        added.store(trust_.added);
        return go;
    }
    // p = alpha * y with its sum, and the message that goes on, psi * y, as enter() leaves it.
    template <bool PLAIN, bool MEETS>
    VS_INLINE V meet(int K, const T* alpha, bool normalise, T* p, V* sum, V* sum_a, V* sum_b) {
        const T* const psi = alpha + size_;
        const V floor = V::set1(Floor<T>::kMessage);
        V part[N], high = V::set1(T(0));
        each<N>([&](auto j) VS_INLINE_LAMBDA { part[j] = V::set1(T(0)); });
        for (int k0 = 0; k0 < K; k0 += N) {
            each<N>([&](auto j) VS_INLINE_LAMBDA {
                const int k = k0 + j;
                if (k >= K) return;
                const V y = V::load(y_ + k * N), u = V::load(psi + k * N);
                if (MEETS) {
                    const V a = V::load(alpha + k * N), z = a * y;
                    z.store(p + k * N);
                    part[j] = part[j] + z;
                    if (sizeof(T) == 4) {
                        *sum_a = *sum_a + a;
                        *sum_b = *sum_b + y;
                    }
                }
                put<PLAIN>(k, u, y, u * y, floor, normalise, a_, &high);
            });
        }
        if (MEETS) *sum = fold_apart(part);
        return high;
    }
    // y_ = messages into position i.
    VS_INLINE void send_on(const D& d, int64_t i) {
        if (!tables_.on()) return send_abreast(d.g, d.e.forward, block(i - 1), y_);
        tables_.forward(d, lanes_, m_, longest_, i, block(i - 1), y_, &forward_);
    }
    // y_ = messages out of position i, which stand in a_, into the one before.
    VS_INLINE void send_back(const D& d, int64_t i) {
        if (!tables_.on()) return send_abreast(d.g, d.e.backward, a_, y_);
        tables_.backward(d, lanes_, m_, longest_, i, a_, y_);
    }

    Lane<D>* lanes_ = nullptr;
    int m_ = 0, longest_ = 0;          // lanes, and the longest
    int64_t size_ = 0;                 // numbers of one kind at a position
    int64_t rows_ = 0, last_ = 0;      // positions; those with forward messages
    T *y_ = nullptr, *a_ = nullptr;    // (K, N): what comes in, what goes out
    T *psi_ = nullptr, *p_ = nullptr;  // (K, N): what is not kept; (kAtOnce, K, N): products
    In* row_ = nullptr;                // (kAtOnce, Kp): marginals that nobody asked for
    T* lane_row_ = nullptr;            // (Kp,): the row of one lane, 0 beyond K
    T* kept_ = nullptr;                // (rows, 1 or 2, K, N): forward messages, local factors
    int64_t step_ = 0;                 // from one position's to the next
    Keep keep_ = Keep::kNothing;
    ScoresAbreast<D> scores_;
    TablesAbreast<D> tables_;  // of edges that have one each
    In* to_[N];                // rows of marginals, or null
    EdgesBeside<D> edges_;
    EnergiesBeside<D> energies_;
    Beside<D> beside_;                         // or what they are compared with
    bool row_plain_ = false, proved_ = false;  // nothing is forbidden in this row; see Wanted
    LaneTrust<D> trust_;
    unsigned scaled_[D::kEvery];  // the lanes whose backward messages are scaled, by position
    ForwardSums<D> forward_;
    T last_sum_[N];  // of the last messages
};

}  // namespace VS_NS
