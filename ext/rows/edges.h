// Sums over the pairwise marginals of edges, from the two rows that one is made of:
//
//   xi(l, k) = a(l) E(l, k) g(k) / mass      the energy: sum_lk xi(l, k) t(l, k)
#pragma once

#include <algorithm>
#include <cmath>
#include <new>

#include "core/scratch.h"
#include "rows/pack.h"
#include "rows/rows.h"
#include "rows/tile_abreast.h"
#include "simd/each.h"

namespace VS_NS {

// sums(l, k) += sum_r a_r(l) g_r(k) for L rows l and NV vectors of columns k, from (l0, k0) on.
template <class T, int L, int NV>
static VS_INLINE void outer_tile(const T* a, int64_t a_stride, const T* g, int64_t g_stride, int m,
                                 int K, int l0, int k0, double* sums) {
    using V = Vec<T>;
    V acc[L][NV], b[NV];
    each<L>([&](auto l) VS_INLINE_LAMBDA {
        each<NV>([&](auto j) VS_INLINE_LAMBDA { acc[l][j] = V::set1(T(0)); });
    });
    a += l0;
    g += k0;
    for (int r = 0; r < m; ++r, a += a_stride, g += g_stride) {
        each<NV>([&](auto j) VS_INLINE_LAMBDA { b[j] = V::load(g + j * V::N); });
        each<L>([&](auto l) VS_INLINE_LAMBDA {
            const V x = V::set1(a[l]);
            each<NV>([&](auto j) VS_INLINE_LAMBDA { acc[l][j] = V::fma(x, b[j], acc[l][j]); });
        });
    }
    each<L>([&](auto l) VS_INLINE_LAMBDA {
        double* const to = sums + static_cast<int64_t>(l0 + l) * K + k0;
        each<NV>([&](auto j) VS_INLINE_LAMBDA {
            T part[V::N];
            acc[l][j].store(part);
            const int left = std::min(K - k0 - j * V::N, V::N);
            for (int q = 0; q < left; ++q) to[j * V::N + q] += static_cast<double>(part[q]);
        });
    });
}

template <class T, int L>
static VS_INLINE void outer_rows(const T* a, int64_t a_stride, const T* g, int64_t g_stride, int m,
                                 int K, int l0, double* sums) {
    constexpr int N = Vec<T>::N;
    int k = 0;
    for (; k + 2 * N < K; k += 3 * N) {
        outer_tile<T, L, 3>(a, a_stride, g, g_stride, m, K, l0, k, sums);
    }
    if (k + N < K) {
        outer_tile<T, L, 2>(a, a_stride, g, g_stride, m, K, l0, k, sums);
    } else if (k < K) {
        outer_tile<T, L, 1>(a, a_stride, g, g_stride, m, K, l0, k, sums);
    }
}

// sums += a^T g over m rows; rows of g are padded to whole vectors.
template <class T>
static void add_outer(const T* a, int64_t a_stride, const T* g, int64_t g_stride, int m, int K,
                      double* sums) {
    int l = 0;
    for (; l + 4 <= K; l += 4) outer_rows<T, 4>(a, a_stride, g, g_stride, m, K, l, sums);
    for (; l < K; ++l) outer_rows<T, 1>(a, a_stride, g, g_stride, m, K, l, sums);
}

template <class T>
static double row_dot(const T* a, const T* b, int K) {
    using V = Vec<T>;
    V sum = V::set1(T(0));
    int k = 0;
    for (; k + V::N <= K; k += V::N) sum = V::fma(V::load(a + k), V::load(b + k), sum);
    double total = static_cast<double>(sum.hsum());
    for (; k < K; ++k) total += static_cast<double>(a[k] * b[k]);
    return total;
}

// The table E(l, k) (c - t(l, k)), c the largest t, in an arithmetic of its own: energies of edges
// that share it are c - sum_lk a(l) depth(l, k) g(k) / mass, in which nothing cancels.
template <class D>
class Depth {
  public:
    using T = typename D::T;
    static constexpr int kRows = 16;

    // `tmp`: as of the arithmetic itself. False when memory is exhausted.
    bool open(const Input<typename D::In>& in, const vs::Packing& packing, T* tmp,
              vs::Scratch& scratch) {
        d_ = static_cast<D*>(scratch.take(sizeof(D)));
        const int64_t stride = Tiling<T>(in.c.n_labels).Kp;
        rows_ = scratch.array<T>(kRows * stride);
        if (scratch.failed) return false;
        packed_ = packed_view<T>(packing);
        new (d_) D(in, packed_, tmp);
        return d_->open(scratch);
    }
    // The energies of m <= kRows edges.
    void add(int m, const T* const* a, const T* const* g, const double* mass,
             double* const* energy) {
        T* y[kRows] = {};
        int64_t edge[kRows] = {};
        double unused[kRows] = {};
        for (int r = 0; r < m; ++r) y[r] = rows_ + static_cast<int64_t>(r) * d_->Kp;
        d_->forward(edge, m, a, y, unused);
        for (int r = 0; r < m; ++r) {
            *energy[r] = d_->edge_shift(0) - row_dot(y[r], g[r], d_->K) / mass[r];
        }
    }
    // Can energies be had of rows that lie side by side?
    bool serves_abreast() const { return d_->g.n_tiles == 1 && !d_->e.sparse_forward; }
    double shift() const { return d_->edge_shift(0); }
    // sum_lk a(l) depth(l, k) g(k) of rows side by side (K, N), by the operations of add(), in
    // doubles; y: (K, N).
    VS_INLINE void dots_abreast(const T* a, const T* g, T* y, Vec<double>* total) const {
        using V = Vec<T>;
        constexpr int N = V::N;
        const int K = d_->K, whole = K - K % N;
        send_abreast(d_->g, d_->e.forward, a, y);
        V part[N];
        each<N>([&](auto j) VS_INLINE_LAMBDA { part[j] = V::set1(T(0)); });
        for (int k0 = 0; k0 < whole; k0 += N) {
            each<N>([&](auto j) VS_INLINE_LAMBDA {
                const int64_t at = static_cast<int64_t>(k0 + j) * N;
                part[j] = V::fma(V::load(y + at), V::load(g + at), part[j]);
            });
        }
        widen_to(fold_apart(part), total);
        for (int k = whole; k < K; ++k) {
            Vec<double> more[kWidened<double, T>];
            widen_to(V::load(y + k * N) * V::load(g + k * N), more);
            each<kWidened<double, T>>([&](auto q)
                                          VS_INLINE_LAMBDA { total[q] = total[q] + more[q]; });
        }
    }

  private:
    Packed<T> packed_{};  // the arithmetic reads it
    D* d_ = nullptr;
    T* rows_ = nullptr;
};

// The energy of one edge: products of a column are added up row by row, then columns in order, as
// TablesAbreast does. Forbidden pairs have xi = 0. NaN in logarithms: xi is wrong by eps times
// scores that are large, and would be multiplied by them.
template <class D>
static double edge_energy(D& d, int64_t edge, const typename D::T* a, const typename D::T* g,
                          double mass) {
    if constexpr (D::kUnit == 1.0) {
        return NAN;
    } else {
        using T = typename D::T;
        using In = typename D::In;
        using V = Vec<T>;
        using Wide = Vec<double>;
        constexpr int kWide = kWidened<double, T>;
        double* const column = d.column;
        for (int k = 0; k < d.Kp; ++k) column[k] = 0.0;
        const In* t = d.in_edge(edge);
        d.edge_rows(edge, [&](int l, const T* table) {
            if constexpr (sizeof(T) == sizeof(In)) {
                const V own = V::set1(a[l]);
                for_row<T>(d.K, [&](int k, int m, auto whole) VS_INLINE_LAMBDA {
                    Wide p[kWide], score[kWide];
                    widen_to(own * V::load(table + k) * V::load(g + k), p);
                    widen_to(whole.value ? V::load(t + k) : V::load_part(t + k, m, T(0)), score);
                    each<kWide>([&](auto q) VS_INLINE_LAMBDA {
                        double* const to = column + k + q * Wide::N;
                        const Wide more = Wide::where_positive(p[q], p[q], p[q] * score[q]);
                        (Wide::load(to) + more).store(to);
                    });
                });
            } else {
                for (int k = 0; k < d.K; ++k) {
                    const double p = static_cast<double>(a[l] * table[k] * g[k]);
                    if (p > 0.0) column[k] += p * static_cast<double>(t[k]);
                }
            }
            t += d.K;
        });
        double sum = 0.0;
        for (int k = 0; k < d.K; ++k) sum += column[k];
        return sum / mass;
    }
}

// The answers about one edge that need its xi: written to `out`, added to `sums` with a weight, or
// neither; its energy where that is `wanted`.
template <class D>
static double edge_answers(D& d, int64_t edge, const typename D::T* a, const typename D::T* g,
                           double mass, typename D::In* out, double* sums, double weight,
                           bool wanted) {
    if (out || sums) {
        d.edge_marginal(edge, a, g, mass, [&](int l, const typename D::T* xi) {
            const int64_t at = static_cast<int64_t>(l) * d.K;
            for (int k = 0; out && k < d.K; ++k) {
                out[at + k] = static_cast<typename D::In>(xi[k]);
            }
            for (int k = 0; sums && k < d.K; ++k)
                sums[at + k] += weight * static_cast<double>(xi[k]);
        });
    }
    return wanted ? edge_energy(d, edge, a, g, mass) : 0.0;
}

}  // namespace VS_NS
