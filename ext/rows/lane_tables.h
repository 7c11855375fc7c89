// Tables of edges that have one each, side by side: entry (l, k) of N of them is one vector. The
// operations of each lane are those of Linear::edge_forward() and edge_backward(), in their order.
#pragma once

#include "core/scratch.h"
#include "rows/rows.h"
#include "rows/tile_abreast.h"
#include "simd/each.h"
#include "simd/transpose.h"

namespace VS_NS {

template <class T, class In>
class LaneTables {
  public:
    using V = Vec<T>;
    using S = Vec<In>;
    static constexpr bool kNarrows = sizeof(T) < sizeof(In);
    static constexpr int N = V::N, kScores = N / S::N;

    // e = exp(x - the largest of the lane), which goes to `shifts` (N,), unless that is null;
    // (K, K, N) both. Where T does not narrow, x may be e.
    static VS_INLINE void raise(int K, const In* x, T* e, double* shifts) {
        const int64_t entries = static_cast<int64_t>(K) * K;
        S top[kScores];
        largest(x, entries, top);
        for (int64_t j = 0; j < entries; ++j) entry(x + j * N, top).store(e + j * N);
        if (shifts == nullptr) return;
        In shift[N];
        each<kScores>([&](auto q) VS_INLINE_LAMBDA { top[q].store(shift + q * S::N); });
        for (int r = 0; r < N; ++r) shifts[r] = static_cast<double>(shift[r]);
    }
    // y(k) = sum_l a(l) E(l, k), rows (K, N).
    static VS_INLINE void forward(int K, const T* e, const T* a, T* y) {
        int k = 0;
        for (; k + 8 <= K; k += 8) columns<8>(K, e + k * N, a, y + k * N);
        if (k + 4 <= K) {
            columns<4>(K, e + k * N, a, y + k * N);
            k += 4;
        }
        for (; k < K; ++k) columns<1>(K, e + k * N, a, y + k * N);
    }
    // y(l) = sum_k E(l, k) a(k)
    static VS_INLINE void backward(int K, const T* e, const T* a, T* y) {
        for (int l = 0; l < K; ++l, e += K * N) row(K, e, a).store(y + l * N);
    }

  private:
    // The largest of each lane, 0 where all are forbidden. Several chains, as each step waits for
    // the one before.
    static VS_INLINE void largest(const In* x, int64_t entries, S* top) {
        constexpr int kChains = 4;
        S part[kChains][kScores];
        each<kChains>([&](auto c) VS_INLINE_LAMBDA {
            const In* const first = x + (c < entries ? c : 0) * N;
            each<kScores>([&](auto q) VS_INLINE_LAMBDA { part[c][q] = S::load(first + q * S::N); });
        });
        const auto see = [&](int64_t j, int c) VS_INLINE_LAMBDA {
            each<kScores>([&](auto q) VS_INLINE_LAMBDA {
                part[c][q] = S::max(part[c][q], S::load(x + j * N + q * S::N));
            });
        };
        int64_t j = kChains;
        for (; j + kChains <= entries; j += kChains) {
            each<kChains>([&](auto c) VS_INLINE_LAMBDA { see(j + c, c); });
        }
        for (; j < entries; ++j) see(j, 0);
        const S finite = S::set1(ExpConst<In>::kMostNegative);
        each<kScores>([&](auto q) VS_INLINE_LAMBDA {
            const S high = S::max(S::max(part[0][q], part[1][q]), S::max(part[2][q], part[3][q]));
            top[q] = S::where_ge(high, finite, high);
        });
    }
    static VS_INLINE V entry(const In* x, const S* top) {
        if constexpr (kNarrows) {
            S part[kScores];
            each<kScores>([&](auto q) VS_INLINE_LAMBDA { part[q] = S::load(x + q * S::N); });
            return exp_narrow<false>(part, top, S::set1(static_cast<In>(Floor<T>::kTransitionLog)));
        } else {
            const V v = V::load(x), low = V::set1(Floor<T>::kTransitionLog);
            return V::where_ge(v, V::set1(ExpConst<T>::kMostNegative),
                               exp_floor<T>(V::max(v - top[0], low)));
        }
    }
    template <int M>
    static VS_INLINE void columns(int K, const T* e, const T* a, T* y) {
        V sum[M];
        each<M>([&](auto j) VS_INLINE_LAMBDA { sum[j] = V::set1(T(0)); });
        for (int l = 0; l < K; ++l, e += K * N) {
            const V x = V::load(a + l * N);
            each<M>([&](auto j)
                        VS_INLINE_LAMBDA { sum[j] = V::fma(x, V::load(e + j * N), sum[j]); });
        }
        each<M>([&](auto j) VS_INLINE_LAMBDA { sum[j].store(y + j * N); });
    }
    static VS_INLINE V row(int K, const T* e, const T* a) {
        V part[N];
        each<N>([&](auto j) VS_INLINE_LAMBDA { part[j] = V::set1(T(0)); });
        for (int k0 = 0; k0 < K; k0 += N) {
            each<N>([&](auto j) VS_INLINE_LAMBDA {
                const int k = k0 + j;
                if (k < K) part[j] = V::fma(V::load(e + k * N), V::load(a + k * N), part[j]);
            });
        }
        return fold_apart(part);
    }
};

// Messages along edges that do not wait for each other.
template <class T, class In>
class EdgesTogether {
  public:
    using Tables = LaneTables<T, In>;
    static constexpr int N = Tables::N;
    // Rows of many labels are no slower one by one, nor are fewer edges than half of the lanes.
    static constexpr int kMostLabels = 24;

    // False: no memory.
    bool open(int K, int Kp, vs::Scratch& scratch) {
        K_ = K;
        Kp_ = Kp;
        if (N == 1 || K > kMostLabels) return true;
        const int64_t table = static_cast<int64_t>(K) * K * N;
        e_ = scratch.array<T>(table + 2 * static_cast<int64_t>(K) * N + Kp);
        x_ = Tables::kNarrows ? scratch.array<In>(table) : reinterpret_cast<In*>(e_);
        if (e_ == nullptr || x_ == nullptr) return false;
        a_ = e_ + table;
        y_ = a_ + K * N;
        unused_ = y_ + K * N;
        return true;
    }
    // Sends along the first of `rows` edges; returns how many. Adds what their tables were divided
    // by to `shift`, unless that is null. table(r): where that of edge r begins.
    template <bool FORWARD, class F>
    int send(F table, int rows, const T* const* x, T* const* y, double* shift) {
        const int done = send_all<FORWARD>(table, rows, x, y, shift);
        return done < rows ? done : rows;
    }

  private:
    template <bool FORWARD, class F>
    int send_all(F table, int rows, const T* const* x, T* const* y, double* shift) {
        int done = 0;
        for (; e_ != nullptr && 2 * (rows - done) >= N; done += N) {
            const int m = rows - done < N ? rows - done : N;
            const In* t[N];
            const T* from[N];
            T* to[N];
            for (int r = 0; r < N; ++r) {
                const int i = done + (r < m ? r : 0);
                t[r] = table(i);
                from[r] = x[i];
                to[r] = r < m ? y[i] : unused_;
            }
            weave<In, N>(t, static_cast<int64_t>(K_) * K_, x_);
            double shifts[N];
            Tables::raise(K_, x_, e_, shifts);
            weave<T, N>(from, K_, a_);
            FORWARD ? Tables::forward(K_, e_, a_, y_) : Tables::backward(K_, e_, a_, y_);
            unweave<T, N>(y_, K_, to);
            for (int r = 0; r < m; ++r) {
                for (int k = K_; k < Kp_; ++k) to[r][k] = T(0);
                if (shift != nullptr) shift[done + r] += shifts[r];
            }
        }
        return done;
    }

    int K_ = 0, Kp_ = 0;
    T *e_ = nullptr, *a_ = nullptr, *y_ = nullptr;  // (K, K, N); (K, N) what comes in, and out
    T* unused_ = nullptr;                           // (Kp,)
    In* x_ = nullptr;                               // (K, K, N) scores, in e_ unless T narrows
};

}  // namespace VS_NS
