// One vector type per (level, dtype). A level is a translation unit: VS_LEVEL chooses
// the instructions, VS_NS the namespace, so that units of different levels never share code.
#pragma once

#include <cstdint>
#include <cstring>

#include "simd/level.h"

#if VS_LEVEL == VS_LEVEL_V4
#include "simd/vec_avx512.h"
#elif VS_LEVEL == VS_LEVEL_V3
#include "simd/vec_avx2.h"
#elif VS_LEVEL == VS_LEVEL_V2
#include "simd/vec_sse.h"
#elif VS_LEVEL == VS_LEVEL_NEON
#include "simd/vec_neon.h"
#else
#include "simd/vec_scalar.h"
#endif

namespace VS_NS {

// Vectors of U, which is T or wider, for one of T.
template <class U, class T>
constexpr int kWidened = Vec<T>::N / Vec<U>::N;

template <class U, class T>
VS_INLINE void widen_to(Vec<T> x, Vec<U>* out) {
    if constexpr (sizeof(U) == sizeof(T)) {
        out[0] = x;
    } else {
        x.widen(out);
    }
}

}  // namespace VS_NS
