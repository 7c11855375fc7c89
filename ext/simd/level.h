// The SIMD levels, in the order of preference used by the dispatcher.
#pragma once

#define VS_LEVEL_SCALAR 0
#define VS_LEVEL_V2 2
#define VS_LEVEL_V3 3
#define VS_LEVEL_V4 4
#define VS_LEVEL_NEON 5

#ifndef VS_LEVEL
#define VS_LEVEL VS_LEVEL_SCALAR
#endif

#if VS_LEVEL == VS_LEVEL_V4
#define VS_NS level_v4
#elif VS_LEVEL == VS_LEVEL_V3
#define VS_NS level_v3
#elif VS_LEVEL == VS_LEVEL_V2
#define VS_NS level_v2
#elif VS_LEVEL == VS_LEVEL_NEON
#define VS_NS level_neon
#else
#define VS_NS level_scalar
#endif

#if defined(_MSC_VER)
#define VS_INLINE __forceinline
#define VS_INLINE_LAMBDA  // only an attribute in front would do; the optimiser has to see it
#else
#define VS_INLINE inline __attribute__((always_inline))
#define VS_INLINE_LAMBDA __attribute__((always_inline))
#endif

#if defined(_MSC_VER)
#include <intrin.h>
#define VS_PREFETCH_READ(p) _mm_prefetch(reinterpret_cast<const char*>(p), _MM_HINT_T0)
#define VS_PREFETCH_WRITE(p) _mm_prefetch(reinterpret_cast<const char*>(p), _MM_HINT_T0)
VS_INLINE int vs_first_bit(unsigned long long m) {  // m != 0
    unsigned long i;
    _BitScanForward64(&i, m);
    return static_cast<int>(i);
}
#else
#define VS_PREFETCH_READ(p) __builtin_prefetch((p), 0, 3)
#define VS_PREFETCH_WRITE(p) __builtin_prefetch((p), 1, 3)
VS_INLINE int vs_first_bit(unsigned long long m) { return __builtin_ctzll(m); }
#endif

namespace vs {
// What the extension module that chooses the level hands to the others, in a capsule.
struct SimdApi {
    int (*level)();  // VS_LEVEL_*
};
}  // namespace vs
