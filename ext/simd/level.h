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
#else
#define VS_INLINE inline __attribute__((always_inline))
#endif
