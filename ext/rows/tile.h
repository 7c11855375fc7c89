// The message kernel: y[m][k] = plus_l times(x[m][l], E[l][k]) for up to kMaxRows rows at once.
// E is packed in tiles of a few vectors; one load of a tile row serves every m. Each output is
// one chain of operations in the order of l, block by block of its tile, whatever m: bits do not
// depend on that (tile_abreast.h and forest/path_lone.h keep to that order). A sum in blocks rounds
// less: kSumRows + K / kFewestSumRows times at most.
#pragma once

#include <cmath>

#include "simd/each.h"
#include "simd/vec.h"

namespace VS_NS {

// The algebra is a parameter: sum-product on probabilities, max-sum on log-potentials.
struct SumProduct {
    static constexpr bool kAnyRows = true;
    template <class T>
    static VS_INLINE T zero() {
        return T(0);
    }
    template <class V>
    static VS_INLINE V accumulate(V x, V e, V acc) {
        return V::fma(x, e, acc);
    }
    template <class V>
    static VS_INLINE V plus(V x, V y) {
        return x + y;
    }
    template <class V>
    static VS_INLINE auto reduce(V acc) {
        return acc.hsum();
    }
};

struct MaxSum {
    static constexpr bool kAnyRows = false;  // as many rows as a tile takes at once, or one
    template <class T>
    static VS_INLINE T zero() {
        return -static_cast<T>(INFINITY);
    }
    template <class V>
    static VS_INLINE V accumulate(V x, V e, V acc) {
        return V::max(acc, x + e);
    }
    template <class V>
    static VS_INLINE V plus(V x, V y) {
        return V::max(x, y);
    }
    template <class V>
    static VS_INLINE auto reduce(V acc) {
        return acc.hmax();
    }
};

// How K columns are cut into tiles.
template <class T>
struct Tiling {
    using V = Vec<T>;
    int K, Kp;           // columns; columns rounded up to whole vectors (row stride of buffers)
    int full;            // whole vectors
    bool tail;           // a narrower last vector
    bool lone;           // the last column stands alone: a dot product over l, not a vector
    int units, n_tiles;  // vectors in all; tiles
    int small, large;    // vectors of a tile; tiles that have one more

    explicit Tiling(int64_t labels) {
        K = static_cast<int>(labels);
        Kp = (K + V::N - 1) / V::N * V::N;
        const int rest = K % V::N;
        full = K / V::N;
        lone = rest == 1 && full > 0;
        tail = rest > 0 && !lone && Tail<T>::N < V::N && rest <= Tail<T>::N;
        if (rest > 0 && !tail && !lone) ++full;
        units = full + (tail ? 1 : 0);
        n_tiles = units <= kTileUnitsOne ? 1 : (units + kTileUnits - 1) / kTileUnits;
        small = units / n_tiles;
        large = units % n_tiles;
    }
    // First unit of tile t; tiles differ by at most one unit.
    int first_unit(int t) const { return t * small + (t < large ? t : large); }
    int tile_full(int t) const {  // whole vectors of tile t
        return first_unit(t + 1) - first_unit(t) - (tail && t == n_tiles - 1 ? 1 : 0);
    }
    bool tile_tail(int t) const { return tail && t == n_tiles - 1; }
    int width(int t) const { return tile_full(t) * V::N + (tile_tail(t) ? Tail<T>::N : 0); }
    int64_t offset(int t) const {  // of tile t in the packed matrix
        return static_cast<int64_t>(first_unit(t)) * V::N * K;
    }
    int64_t packed_size() const { return static_cast<int64_t>(K) * Kp; }
    // The lone column: Kp numbers behind the tiles.
    int64_t lone_offset() const { return static_cast<int64_t>(K - 1) * K; }
    int tile_of(int k) const {  // that holds column k
        int t = 0;
        while (t + 1 < n_tiles && first_unit(t + 1) * V::N <= k) ++t;
        return t;
    }
};

// Rows [l0, l1) of a tile, added to y where l0 > 0.
template <class A, class T, int M, int NV, bool TAIL>
static void tile_kernel(const T* e, int l0, int l1, const T* const* x, T* const* y) {
    using V = Vec<T>;
    using H = Tail<T>;
    constexpr int width = NV * V::N + (TAIL ? H::N : 0);
    V acc[M][NV > 0 ? NV : 1], b[M];
    H last[M];
    const T* xm[M];
    each<M>([&](auto m) VS_INLINE_LAMBDA {
        each<NV>([&](auto j) VS_INLINE_LAMBDA { acc[m][j] = V::set1(A::template zero<T>()); });
        last[m] = H::set1(A::template zero<T>());
        xm[m] = x[m];
    });
    for (int l = l0; l < l1; ++l, e += width) {
        each<M>([&](auto m) VS_INLINE_LAMBDA { b[m] = V::set1(xm[m][l]); });
        each<NV>([&](auto j) VS_INLINE_LAMBDA {
            const V ej = V::load(e + j * V::N);
            each<M>([&](auto m)
                        VS_INLINE_LAMBDA { acc[m][j] = A::accumulate(b[m], ej, acc[m][j]); });
        });
        if (TAIL) {
            const H ej = H::load(e + NV * V::N);
            each<M>([&](auto m)
                        VS_INLINE_LAMBDA { last[m] = A::accumulate(H::low(b[m]), ej, last[m]); });
        }
    }
    each<M>([&](auto m) VS_INLINE_LAMBDA {
        if (l0 > 0) {
            each<NV>([&](auto j) VS_INLINE_LAMBDA {
                acc[m][j] = A::plus(V::load(y[m] + j * V::N), acc[m][j]);
            });
            if (TAIL) last[m] = A::plus(H::load(y[m] + NV * V::N), last[m]);
        }
        each<NV>([&](auto j) VS_INLINE_LAMBDA { acc[m][j].store(y[m] + j * V::N); });
        if constexpr (TAIL && A::kAnyRows) {
            last[m].store_whole(y[m] + NV * V::N);
        } else if (TAIL) {
            last[m].store(y[m] + NV * V::N);
        }
    });
}

template <class A, class T, int M>
static void tile_rows(int full, bool tail, const T* e, int l0, int l1, const T* const* x,
                      T* const* y) {
    constexpr bool can_tail = Tail<T>::N < Vec<T>::N;
#define VS_TILE(NV)                                                                   \
    case NV:                                                                          \
        return tail && can_tail ? tile_kernel<A, T, M, NV, can_tail>(e, l0, l1, x, y) \
                                : tile_kernel<A, T, M, NV, false>(e, l0, l1, x, y);
    switch (full) {
        VS_TILE(0)
        VS_TILE(1)
        VS_TILE(2)
        VS_TILE(3)
        VS_TILE(4)
        VS_TILE(5)
        VS_TILE(6)
        VS_TILE(7)
#if VS_LEVEL == VS_LEVEL_SCALAR
        VS_TILE(8)
#endif
    }
#undef VS_TILE
}

constexpr int kBlockBytes = 24 << 10;  // of a tile, in the fastest cache beside rows
// Rows of a block of a sum: proofs count them (inference/_certified.py).
constexpr int kSumRows = 128, kFewestSumRows = 32;
static_assert(kBlockBytes / 4 / (kTileUnitsOne * Vec<float>::N) >= kFewestSumRows, "see above");

// Rows of a tile that are summed up before others: they stay in the fastest cache.
template <class T>
VS_INLINE int rows_of_block(int width) {
    const int fits = kBlockBytes / static_cast<int>(sizeof(T)) / width;
    return fits < kSumRows ? fits : kSumRows;
}

// The lone column: y[m] = plus_l times(x[m][l], e[l]), a vector of l at a time.
template <class A, class T, int M>
static VS_INLINE void lone_column(const T* e, int Kp, const T* const* x, T* const* y, int at) {
    using V = Vec<T>;
    V acc[M];
    each<M>([&](auto m) VS_INLINE_LAMBDA { acc[m] = V::set1(A::template zero<T>()); });
    for (int l = 0; l < Kp; l += V::N) {
        const V el = V::load(e + l);
        each<M>([&](auto m)
                    VS_INLINE_LAMBDA { acc[m] = A::accumulate(V::load(x[m] + l), el, acc[m]); });
    }
    each<M>([&](auto m) VS_INLINE_LAMBDA {
        if constexpr (A::kAnyRows) {
            V::set1(A::reduce(acc[m])).first(1).store(y[m] + at);
        } else {
            y[m][at] = A::reduce(acc[m]);
        }
    });
}

// All tiles for `rows` rows (any number). The rows of a tile are taken a block at a time, which
// stays in the fastest cache while it serves them all: a table that lies in memory is read once a
// call.
template <class A, class T>
static void messages(const Tiling<T>& g, const T* packed, int rows, const T* const* x,
                     T* const* y) {
    constexpr int step = kMaxRows;
    T* out[step];
    for (int t = 0; t < g.n_tiles; ++t) {
        const T* e = packed + g.offset(t);
        const int column = g.first_unit(t) * Vec<T>::N;
        const int full = g.tile_full(t);
        const bool tail = g.tile_tail(t);
        const int width = g.width(t);
        // One row reads a tile once; which sums are blocks is part of their bits.
        const int block = rows == 1 && !A::kAnyRows ? g.K : rows_of_block<T>(width);
        for (int l0 = 0, l1; l0 < g.K; l0 = l1, e += static_cast<int64_t>(block) * width) {
            l1 = g.K - l0 < block ? g.K : l0 + block;
            for (int r = 0, m; r < rows; r += m) {
                m = rows - r >= step ? step : A::kAnyRows ? rows - r : 1;
                for (int i = 0; i < m; ++i) out[i] = y[r + i] + column;
                if (m == 1) tile_rows<A, T, 1>(full, tail, e, l0, l1, x + r, out);
                if constexpr (step == 2 || (step > 2 && A::kAnyRows)) {
                    if (m == 2) tile_rows<A, T, 2>(full, tail, e, l0, l1, x + r, out);
                }
                if constexpr (step >= 4 && A::kAnyRows) {
                    if (m == 3) tile_rows<A, T, 3>(full, tail, e, l0, l1, x + r, out);
                }
                if constexpr (step >= 4) {
                    if (m == 4) tile_rows<A, T, 4>(full, tail, e, l0, l1, x + r, out);
                }
            }
        }
    }
    if (!g.lone) return;
    const T* e = packed + g.lone_offset();
    int r = 0;
    for (; r + 4 <= rows; r += 4) lone_column<A, T, 4>(e, g.Kp, x + r, y + r, g.K - 1);
    for (; r < rows; ++r) lone_column<A, T, 1>(e, g.Kp, x + r, y + r, g.K - 1);
}

}  // namespace VS_NS
