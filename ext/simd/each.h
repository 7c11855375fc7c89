// Loops that are always unrolled.
#pragma once

#include <utility>

#include "simd/level.h"

namespace VS_NS {

template <int I>
struct Index {  // a number of this level's own: std::integral_constant is shared between levels
    VS_INLINE constexpr operator int() const { return I; }
};

// f(0), ..., f(N - 1), each in a copy of its own: what is indexed so stays in registers, however
// little the compiler unrolls.
template <class F, int... I>
VS_INLINE void each_of(std::integer_sequence<int, I...>, [[maybe_unused]] F f) {
    (f(Index<I>()), ...);
}
template <int N, class F>
VS_INLINE void each(F f) {
    each_of(std::make_integer_sequence<int, N>(), f);
}

}  // namespace VS_NS
