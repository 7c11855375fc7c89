// A table of sixteen numbers that stays in registers: the entries at some places, one a lane.
#pragma once

#include <cstdint>

#include "simd/vec.h"

namespace VS_NS {

// Not there: rows that are woven are as fast.
template <class T>
struct Lookup {
    static constexpr bool kThere = false;
};

#if VS_LEVEL == VS_LEVEL_V4
template <>
struct Lookup<double> {
    static constexpr bool kThere = true;
    VS_INLINE explicit Lookup(Vec<double> at) : v(_mm512_cvttpd_epi64(at.v)) {}
    VS_INLINE explicit Lookup(const int32_t* at)  // (8,)
        : v(_mm512_cvtepi32_epi64(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)))) {}
    VS_INLINE Vec<double> operator()(const double* p) const {
        return {_mm512_permutex2var_pd(_mm512_loadu_pd(p), v, _mm512_loadu_pd(p + 8))};
    }
    __m512i v;
};

template <>
struct Lookup<float> {
    static constexpr bool kThere = true;
    VS_INLINE explicit Lookup(Vec<float> at) : v(_mm512_cvttps_epi32(at.v)) {}
    VS_INLINE explicit Lookup(const int32_t* at) : v(_mm512_loadu_si512(at)) {}  // (16,)
    VS_INLINE Vec<float> operator()(const float* p) const {
        return {_mm512_permutexvar_ps(v, _mm512_loadu_ps(p))};
    }
    __m512i v;
};
#endif

}  // namespace VS_NS
