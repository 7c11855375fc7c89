// The messages of tile.h for rows that lie side by side, one in each lane of vectors: number k of
// all N rows is one vector. The operations of each row are those of tile.h, in their order.
#pragma once

#include <type_traits>

#include "rows/tile.h"
#include "simd/each.h"
#include "simd/vec.h"

namespace VS_NS {

// The sum of M vectors, halves at a time: what hsum() makes of one whose lanes they would be.
template <class A = SumProduct, class V, int M>
VS_INLINE V fold_apart(V (&part)[M]) {
    static_assert(M <= 16 && (M & (M - 1)) == 0, "a power of two");
    const auto halve = [&](auto half) VS_INLINE_LAMBDA {
        if constexpr (half < M) {
            each<half>([&](auto j)
                           VS_INLINE_LAMBDA { part[j] = A::plus(part[j], part[j + half]); });
        }
    };
    halve(std::integral_constant<int, 8>());
    halve(std::integral_constant<int, 4>());
    halve(std::integral_constant<int, 2>());
    halve(std::integral_constant<int, 1>());
    return part[0];
}

// The same of the first FEW, where the others are 0.
template <int FEW, class V, int M>
VS_INLINE V fold_few(V (&part)[M]) {
    if constexpr (FEW > 1) {
        constexpr int half = FEW > 8 ? 8 : FEW > 4 ? 4 : FEW > 2 ? 2 : 1;
        each<FEW - half>([&](auto j) VS_INLINE_LAMBDA { part[j] = part[j] + part[j + half]; });
        return fold_few<half>(part);
    } else {
        return part[0];
    }
}

// y = messages out of `a` through a table of one tile, for K labels whose rows are one block.
template <int K, class T>
VS_INLINE void send_few(const T* e, int width, const Vec<T> (&a)[K], Vec<T> (&y)[K]) {
    using V = Vec<T>;
    each<K>([&](auto j) VS_INLINE_LAMBDA { y[j] = a[0] * V::set1(e[j]); });
    each<K - 1>([&](auto l) VS_INLINE_LAMBDA {
        e += width;
        each<K>([&](auto j) VS_INLINE_LAMBDA { y[j] = V::fma(a[l + 1], V::set1(e[j]), y[j]); });
    });
}

// y (M, N): columns that lie in a row of a tile, whose rows are summed up in blocks.
template <class A, int M, class T>
VS_INLINE void columns_abreast(int K, int width, int block, const T* e, const T* a, T* y) {
    using V = Vec<T>;
    for (int l = 0; l < K;) {
        const bool more = l > 0;
        const int end = K - l < block ? K : l + block;
        V sum[M];
        each<M>([&](auto j) VS_INLINE_LAMBDA { sum[j] = V::set1(A::template zero<T>()); });
        for (; l < end; ++l, e += width) {
            const V x = V::load(a + l * V::N);
            each<M>([&](auto j)
                        VS_INLINE_LAMBDA { sum[j] = A::accumulate(x, V::set1(e[j]), sum[j]); });
        }
        each<M>([&](auto j) VS_INLINE_LAMBDA {
            (more ? A::plus(V::load(y + j * V::N), sum[j]) : sum[j]).store(y + j * V::N);
        });
    }
}

// y (K, N) = messages out of a (K, N) through a table of one tile.
template <class A = SumProduct, class T>
void send_abreast(const Tiling<T>& g, const T* e, const T* a, T* y) {
    using V = Vec<T>;
    constexpr int N = V::N;
    const int K = g.K, width = g.width(0), block = rows_of_block<T>(width);
    const int columns = g.lone ? K - 1 : K;
    int k = 0;
    for (; k + 8 <= columns; k += 8) columns_abreast<A, 8>(K, width, block, e + k, a, y + k * N);
    switch (columns - k) {
#define VS_COLUMNS(M)                                                \
    case M:                                                          \
        columns_abreast<A, M>(K, width, block, e + k, a, y + k * N); \
        break;
        VS_COLUMNS(1)
        VS_COLUMNS(2)
        VS_COLUMNS(3)
        VS_COLUMNS(4)
        VS_COLUMNS(5)
        VS_COLUMNS(6)
        VS_COLUMNS(7)
#undef VS_COLUMNS
    }
    if (!g.lone) return;
    V part[N];
    each<N>([&](auto j) VS_INLINE_LAMBDA { part[j] = V::set1(A::template zero<T>()); });
    e += g.lone_offset();
    for (int l0 = 0; l0 < K; l0 += N) {
        each<N>([&](auto j) VS_INLINE_LAMBDA {
            const int l = l0 + j;
            if (l < K) part[j] = A::accumulate(V::load(a + l * N), V::set1(e[l]), part[j]);
        });
    }
    fold_apart<A>(part).store(y + (K - 1) * N);
}

}  // namespace VS_NS
