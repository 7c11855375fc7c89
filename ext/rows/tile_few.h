// The message kernel of tile.h for one row of few labels, which stays in registers: NV vectors, and
// with LONE a last number that a dot product makes (see Tiling).
#pragma once

#include <type_traits>

#include "rows/tile.h"
#include "simd/each.h"

namespace VS_NS {

// y = the message of x through a table of one tile, with the operations of tile.h in their order.
template <class A, int NV, bool LONE, class T>
VS_INLINE void message_of_few(const Tiling<T>& g, const T* e, const T* x,
                              Vec<T> (&y)[LONE ? NV + 1 : NV]) {
    using V = Vec<T>;
    constexpr int N = V::N;
    const T zero = A::template zero<T>();
    const int width = g.width(0), rest = g.K - (NV - 1) * N;
    each<NV>([&](auto j) VS_INLINE_LAMBDA { y[j] = V::set1(zero); });
    const T* row = e;
    for (int l = 0; l < g.K; ++l, row += width) {
        const V b = V::set1(x[l]);
        each<NV>([&](auto j) VS_INLINE_LAMBDA {
            constexpr bool narrow = Tail<T>::N < N && !LONE && j == NV - 1;
            const V own = narrow ? V::load_part(row + j * N, rest, zero) : V::load(row + j * N);
            y[j] = A::accumulate(b, own, y[j]);
        });
    }
    if constexpr (LONE) {
        const T* const lone = e + g.lone_offset();
        V sum = V::set1(zero);
        each<NV + 1>([&](auto w) VS_INLINE_LAMBDA {
            sum = A::accumulate(V::load(x + w * N), V::load(lone + w * N), sum);
        });
        y[NV] = V::set1(A::reduce(sum));
    }
}

constexpr int kMostFewVectors = 3;

// Are there so few labels, in one tile?
template <class T>
bool is_few(const Tiling<T>& g) {
    return g.Kp <= kMostFewVectors * Vec<T>::N && g.n_tiles == 1;
}
// f(NV, LONE) for these labels.
template <class T, class F>
auto with_few(const Tiling<T>& g, F f) {
    const auto of = [&](auto nv) {
        if constexpr (nv.value < kMostFewVectors) {
            if (g.lone) return f(nv, std::true_type());
        }
        return f(nv, std::false_type());
    };
    const int vectors = g.Kp / Vec<T>::N - (g.lone ? 1 : 0);
    return vectors == 1   ? of(std::integral_constant<int, 1>())
           : vectors == 2 ? of(std::integral_constant<int, 2>())
                          : of(std::integral_constant<int, 3>());
}

}  // namespace VS_NS
