// Passes of Exact for a chain of few labels that has none beside it.
//
// A step of few labels takes as long as it waits for the one before. So forward messages of the
// front half and backward messages of the other half, which do not wait for each other, take turns;
// then each goes on through the half of the other, meets its messages and leaves marginals. Local
// factors are made before. Each number goes through the operations of Exact in their order, so bits
// are the same. A chain that meets anything unusual is left to Exact, which says what it was.
#pragma once

#include <type_traits>

#include "forest/path_edges.h"
#include "forest/path_exact.h"
#include "rows/tile_few.h"
#include "simd/each.h"

namespace VS_NS {

template <class D>
constexpr bool kHasLone = std::is_same<D, Linear<typename D::T, typename D::In>>::value;

// NV vectors of a message, and with LONE a last number that a dot product makes (see Tiling).
template <class D, int NV, bool LONE>
class LonePass {
  public:
    using T = typename D::T;
    using V = Vec<T>;
    static constexpr int N = V::N, W = LONE ? NV + 1 : NV;

    // `edges`: where what answers about edges are made of goes, or null; then the lane has rows
    // for forward messages.
    LonePass(const D& d, Ticker& ticker, Lane<D>& lane, const EdgeSink<D>* edges)
        : d_(d),
          ticker_(ticker),
          s_(lane),
          outgoing_(edges ? edges->outgoing[&lane - edges->lanes] : nullptr),
          mass_(edges ? edges->mass[&lane - edges->lanes] : nullptr),
          rest_(LONE ? 1 : d.K - (NV - 1) * N) {}

    // Both directions. False: no memory, cancelled, or something that Exact has to see.
    bool run(vs::Scratch& scratch) {
        if (!open(scratch, s_.n) || !locals(0, s_.n)) return false;
        return s_.plain ? both<true>() : both<false>();
    }
    // Forward messages alone, of which the last stays.
    bool run_one_way(vs::Scratch& scratch) {
        if (!open(scratch, kRows)) return false;
        for (int64_t first = 0; first < s_.n; first += kRows) {
            const int64_t end = s_.n - first < kRows ? s_.n : first + kRows;
            s_.plain = true;
            if (!locals(first, end)) return false;
            if (!(s_.plain ? one_way<true>(first, end) : one_way<false>(first, end))) return false;
        }
        end_forward();
        return true;
    }

  private:
    static constexpr int64_t kRows = 64;  // local factors at a time, one way

    bool open(vs::Scratch& scratch, int64_t rows) {
        const int64_t row = static_cast<int64_t>(W) * N;
        rows_ = scratch.array<T>(2 * rows * row);
        forward_ = scratch.array<T>(3 * row);
        if (rows_ == nullptr || forward_ == nullptr) return false;
        backward_ = forward_ + row;
        product_ = backward_ + row;
        return true;
    }
    // A forward or a backward message of position i, and the local factor there.
    T* message(int64_t i) const { return rows_ + 2 * i * (W * N); }
    T* psi(int64_t i) const { return message(i) + W * N; }

    // Local factors of positions [first, end), the first of which has that of row 0.
    bool locals(int64_t first, int64_t end) {
        for (int64_t i = first; i < end; ++i) {
            T* const own = psi(i - first);
            const typename D::Probe probe =
                d_.probe(s_.begin + i, i == 0 && s_.head, i == s_.n - 1 && s_.tail, own);
            if (!probe.any) return false;
            d_.local(probe, own);
            s_.plain = s_.plain && probe.plain;
            s_.shift.add(probe.shift());
        }
        return true;
    }

    template <bool PLAIN>
    bool both() {
        const int64_t n = s_.n, half = n / 2;
        V y[W];
        for (int64_t t = 0; t < n - half; ++t) {
            if (!ticker_.go_on(2)) return false;
            if (t < half) {
                receive(t, d_.e.forward, t > 0 ? message(t - 1) : nullptr, y);
                if (!send_on<PLAIN>(t, y, message(t))) return false;
            }
            const int64_t i = n - 1 - t;
            receive(t, d_.e.backward, backward_, y);
            each<W>([&](auto w) VS_INLINE_LAMBDA { y[w].store(message(i) + w * N); });
            if (!send_back<PLAIN>(i, y)) return false;
        }
        for (int64_t t = half; t < n; ++t) {
            if (!ticker_.go_on(2)) return false;
            const T* const before = t > half ? forward_ : t > 0 ? message(t - 1) : nullptr;
            receive(t, d_.e.forward, before, y);
            if (!send_on<PLAIN>(t, y, forward_) || !meet(t, forward_, message(t))) return false;
            const int64_t i = n - 1 - t - (n - 2 * half);
            if (i < 0) continue;
            receive(n - 1 - i, d_.e.backward, backward_, y);
            each<W>([&](auto w) VS_INLINE_LAMBDA { y[w].store(product_ + w * N); });
            if (!meet(i, message(i), product_) || !send_back<PLAIN>(i, y)) return false;
        }
        end_forward();
        return sizeof(T) == 8 || s_.added <= kNearBound * Floor<float>::kMostAdded;
    }
    template <bool PLAIN>
    bool one_way(int64_t first, int64_t end) {
        V y[W];
        for (int64_t i = first; i < end; ++i) {
            if (!ticker_.go_on()) return false;
            receive(i, d_.e.forward, forward_, y);
            each<W>([&](auto w) VS_INLINE_LAMBDA { y[w].store(product_ + w * N); });
            if (!enter<PLAIN>(psi(i - first), y, i % D::kEvery == D::kEvery - 1, forward_,
                              &s_.scale) ||
                !d_.untouched(product_)) {
                return false;
            }
        }
        return true;
    }
    void end_forward() { s_.log_end = d_.log_sum(forward_); }

    // y = the message through a table out of `x`; ones where `steps` is 0.
    VS_INLINE void receive(int64_t steps, const T* e, const T* x, V (&y)[W]) const {
        if (steps == 0) {
            each<W>([&](auto w) VS_INLINE_LAMBDA { y[w] = V::set1(T(1)); });
        } else {
            message_of_few<SumProduct, NV, LONE>(d_.g, e, x, y);
        }
        y[W - 1] = y[W - 1].first(rest_);
    }
    // out = psi * y as Linear::absorb(); false where Exact has to see it.
    template <bool PLAIN>
    VS_INLINE bool enter(const T* psi, const V* y, bool normalise, T* out, double* scale) const {
        const V floor = V::set1(Floor<T>::kMessage);
        V u[W], z[W];
        each<W>([&](auto w) VS_INLINE_LAMBDA {
            u[w] = V::load(psi + w * N);
            z[w] = u[w] * y[w];
        });
        int e = 0;
        if (normalise) {
            V top = V::set1(T(0));
            each<W>([&](auto w) VS_INLINE_LAMBDA { top = V::max(top, z[w]); });
            const T high = top.hmax();
            e = high > T(0) ? exponent_of(high) : 0;
            const V by = V::set1(power_of_two(-e, T(0)));
            each<W>([&](auto w) VS_INLINE_LAMBDA { z[w] = z[w] * by; });
            *scale += e;
        }
        each<W - 1>([&](auto w) VS_INLINE_LAMBDA {
            floored<T, PLAIN, true>(u[w], y[w], z[w], floor, N).store(out + w * N);
        });
        floored<T, PLAIN, false>(u[W - 1], y[W - 1], z[W - 1], floor, rest_)
            .store(out + (W - 1) * N);
        return e > D::kLowest;
    }
    // The messages that go on from position i.
    template <bool PLAIN>
    VS_INLINE bool send_on(int64_t i, const V* y, T* out) {
        const bool kept = enter<PLAIN>(psi(i), y, i % D::kEvery == D::kEvery - 1, out, &s_.scale);
        if (outgoing_) copy(out, s_.alpha + i * s_.stride);
        return kept;
    }
    template <bool PLAIN>
    VS_INLINE bool send_back(int64_t i, const V* y) {
        double unused = 0.0;
        const bool kept = enter<PLAIN>(psi(i), y, (s_.n - i) % D::kEvery == 0, backward_, &unused);
        if (outgoing_ && i > 0) copy(backward_, outgoing_ + (i - 1) * (W * N));
        return kept;
    }
    VS_INLINE void copy(const T* from, T* to) const {
        each<W>([&](auto w) VS_INLINE_LAMBDA { V::load(from + w * N).store(to + w * N); });
    }
    // The marginal at i from forward and backward messages.
    VS_INLINE bool meet(int64_t i, const T* a, const T* b) {
        V sum = V::set1(T(0)), sum_a = sum, sum_b = sum;
        V z[W];
        each<W>([&](auto w) VS_INLINE_LAMBDA {
            const V x = V::load(a + w * N), y = V::load(b + w * N);
            z[w] = x * y;
            sum = sum + z[w];
            if (sizeof(T) == 4) {
                sum_a = sum_a + x;
                sum_b = sum_b + y;
            }
        });
        each<W>([&](auto w) VS_INLINE_LAMBDA { z[w].store(product_ + w * N); });
        const Product<T> r = {sum.hsum(), T(0), sizeof(T) == 4 ? sum_a.hsum() : T(0),
                              sizeof(T) == 4 ? sum_b.hsum() : T(0)};
        if (mass_) mass_[i] = static_cast<double>(r.sum);
        return r.sum > T(0) && d_.divide(r, product_, s_.out ? s_.out + i * d_.K : s_.row, &s_.mass,
                                         &s_.added) == vs::kOk;
    }

    const D& d_;
    Ticker& ticker_;
    Lane<D>& s_;
    T* const outgoing_;   // (n, W, N) at the left end of an edge, or null
    double* const mass_;  // (n,), or null
    const int rest_;      // numbers of the last vector
    T* rows_ = nullptr;   // (n, 2, W, N)
    T *forward_ = nullptr, *backward_ = nullptr, *product_ = nullptr;  // (W, N)
};

// Chooses the pass for a number of labels.
template <class D>
class LoneFew {
  public:
    // Do so many lanes go faster one after the other than in lockstep? Measured.
    static bool pays(int K, int m, bool one_way) {
        return one_way ? K <= 8 : K <= 16 || m * K <= 48;
    }
    static bool serves(const D& d, const Lane<D>& s) {
        const int64_t row = 2 * static_cast<int64_t>(d.Kp) * sizeof(typename D::T);
        return is_few(d.g) && !d.in.c.per_edge && !d.e.sparse_forward && s.chunk < 0 &&
               s.n * row <= kMostBytes;
    }
    // Whether a lane, a whole sequence, had its pass this way. If not it is as it was.
    static bool run(const D& d, Ticker& ticker, Lane<D>& s, bool one_way, const EdgeSink<D>* edges,
                    vs::Scratch& scratch) {
        const Lane<D> before = s;
        const vs::Scratch::Mark mark = scratch.mark();
        const bool well = by_size(d, ticker, s, one_way, edges, scratch);
        scratch.rewind(mark);
        if (!well) s = before;
        return well;
    }

  private:
    static constexpr int64_t kMostBytes = int64_t{2} << 20;

    static bool by_size(const D& d, Ticker& ticker, Lane<D>& s, bool one_way,
                        const EdgeSink<D>* edges, vs::Scratch& scratch) {
        return with_few(d.g, [&](auto nv, auto lone) {
            LonePass<D, nv.value, lone.value> p(d, ticker, s, edges);
            return one_way ? p.run_one_way(scratch) : p.run(scratch);
        });
    }
};

}  // namespace VS_NS
