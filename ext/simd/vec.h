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
