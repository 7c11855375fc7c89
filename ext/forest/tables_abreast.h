// Messages along edges that have a table each, for chains that lie side by side: an entry of all
// lanes' tables is one vector.
//
//   y(k) = sum_l a(l) E(l, k), forward;   y(l) = sum_k E(l, k) x(k), backward;   E = exp(t - its
//   largest entry)
//
// The operations of each lane are those of Linear::edge_forward() and edge_backward(), in their
// order.
#pragma once

#include "forest/scores_abreast.h"
#include "rows/lane_tables.h"
#include "simd/each.h"
#include "simd/transpose.h"

namespace VS_NS {

template <class D>
class TablesAbreast {
  public:
    using T = typename D::T;
    using In = typename D::In;
    using V = Vec<T>;
    using S = Vec<In>;
    using Wide = Vec<double>;
    static constexpr int N = V::N;

    bool on() const { return e_ != nullptr; }
    // For `rows` positions; `again`: they are asked for when messages have gone forward. False: no
    // memory.
    bool open(const D& d, int64_t rows, bool again, bool energies, vs::Scratch& scratch) {
        if (!d.in.c.per_edge) return true;
        size_ = static_cast<int64_t>(d.K) * d.K * N;
        kept_ = again && rows * size_ * static_cast<int64_t>(sizeof(T)) <= kMostKept;
        e_ = scratch.array<T>((kept_ ? rows : 1) * size_);
        x_ = D::kNarrows || energies ? scratch.array<In>(size_) : reinterpret_cast<In*>(e_);
        column_ = energies ? scratch.array<double>(static_cast<int64_t>(d.K) * N) : nullptr;
        return e_ != nullptr && x_ != nullptr && (column_ != nullptr) == energies;
    }
    // Those of the edges into position i (K, K, N), or null: they are not kept.
    const T* kept(int64_t i) const { return kept_ ? e_ + i * size_ : nullptr; }
    // y of position i from a of the one before; adds what the tables were divided by to the lanes'
    // sums over `edges`.
    template <class L, class Sums>
    void forward(const D& d, const L* lanes, int m, int longest, int64_t i, const T* a, T* y,
                 Sums* sums) {
        double shift[N];
        const T* const e = make(d, lanes, m, longest, i, shift);
        each<kWide>([&](auto q) VS_INLINE_LAMBDA {
            double *const to = sums->edges + q * Wide::N, *const rest =
                                                              sums->edges_rest + q * Wide::N;
            Wide value = Wide::load(to), lost = Wide::load(rest);
            vs::add_to(value, lost, Wide::load(shift + q * Wide::N));
            value.store(to);
            lost.store(rest);
        });
        Tables::forward(d.K, e, a, y);
    }
    // For the way back alone.
    template <class L>
    void prepare(const D& d, const L* lanes, int m, int longest, int64_t i) {
        if (kept_ && i > 0) make(d, lanes, m, longest, i, nullptr);
    }
    // y of position i - 1 from a of position i.
    template <class L>
    void backward(const D& d, const L* lanes, int m, int longest, int64_t i, const T* a, T* y) {
        const T* e = kept_ ? e_ + i * size_ : make(d, lanes, m, longest, i, nullptr);
        Tables::backward(d.K, e, a, y);
    }

    // total = sum_k sum_l a(l) E(l, k) g(k) t(l, k) of the edges into position i, from which
    // backward() has just come: the operations of edge_energy().
    template <class L>
    void energies(const D& d, const L* lanes, int m, int longest, int64_t i, const T* a, const T* g,
                  Wide* total) {
        weave_scores(d, lanes, m, longest, i);
        const int64_t width = static_cast<int64_t>(d.K) * N;
        for (int64_t j = 0; j < width; j += Wide::N) Wide::set1(0.0).store(column_ + j);
        const T* e = kept_ ? e_ + i * size_ : e_;
        const In* t = x_;
        for (int l = 0; l < d.K; ++l) {
            const V own = V::load(a + l * N);
            for (int64_t j = 0; j < width; j += N, e += N, t += N) {
                Wide p[kWide], score[kWide];
                widen_to(own * V::load(e) * V::load(g + j), p);
                each<kScores>([&](auto q) VS_INLINE_LAMBDA {
                    widen_to(S::load(t + q * S::N), score + q * kWidened<double, In>);
                });
                each<kWide>([&](auto q) VS_INLINE_LAMBDA {
                    double* const to = column_ + j + q * Wide::N;
                    const Wide more = Wide::where_positive(p[q], p[q], p[q] * score[q]);
                    (Wide::load(to) + more).store(to);
                });
            }
        }
        each<kWide>([&](auto q) VS_INLINE_LAMBDA { total[q] = Wide::set1(0.0); });
        for (int64_t j = 0; j < width; j += N) {
            each<kWide>([&](auto q) VS_INLINE_LAMBDA {
                total[q] = total[q] + Wide::load(column_ + j + q * Wide::N);
            });
        }
    }

  private:
    // Tables beyond this are made again on the way back.
    static constexpr int64_t kMostKept = int64_t{4} << 20;
    static constexpr int kScores = N / S::N, kWide = kWidened<double, T>;
    using Tables = LaneTables<T, In>;

    // x_: the scores of the edges into position i; lanes that have ended go on with the longest.
    template <class L>
    void weave_scores(const D& d, const L* lanes, int m, int longest, int64_t i) {
        const In* from[N];
        for (int r = 0; r < N; ++r) {
            const L& s = lanes[r < m && i < lanes[r].n ? r : longest];
            from[r] = d.in_edge(s.edge + i - 1);
        }
        weave<In, N>(from, static_cast<int64_t>(d.K) * d.K, x_);
    }
    // Their exponentials.
    template <class L>
    const T* make(const D& d, const L* lanes, int m, int longest, int64_t i, double* shifts) {
        T* const e = kept_ ? e_ + i * size_ : e_;
        if (!D::kNarrows && !column_) x_ = reinterpret_cast<In*>(e);
        weave_scores(d, lanes, m, longest, i);
        Tables::raise(d.K, x_, e, shifts);
        return e;
    }

    int64_t size_ = 0;
    bool kept_ = false;
    T* e_ = nullptr;            // (rows or 1, K, K, N)
    In* x_ = nullptr;           // (K, K, N) scores; in e_ where they are not needed beside it
    double* column_ = nullptr;  // (K, N) where energies are wanted
};

}  // namespace VS_NS
