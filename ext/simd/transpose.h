// Rows that lie apart into numbers side by side, and back.
#pragma once

#include <cstdint>

#include "simd/vec.h"

namespace VS_NS {

// One number at a time, those from `first` on.
template <class T, int N>
static VS_INLINE void weave_rows(const T* const* from, int64_t first, int64_t last, T* to) {
    for (int i = 0; i < N; ++i) {
        for (int64_t k = first; k < last; ++k) to[k * N + i] = from[i][k];
    }
}
template <class T, int N>
static VS_INLINE void unweave_rows(const T* from, int64_t first, int64_t last, T* const* to) {
    for (int i = 0; i < N; ++i) {
        for (int64_t k = first; k < last; ++k) to[i][k] = from[k * N + i];
    }
}

// Transposes blocks of N x N where registers hold them; returns how many numbers that was.
template <class T, int N>
static VS_INLINE int64_t weave_blocks(const T* const*, int64_t, T*) {
    return 0;
}
template <class T, int N>
static VS_INLINE int64_t unweave_blocks(const T*, int64_t, T* const*) {
    return 0;
}

#if VS_LEVEL == VS_LEVEL_V3
static VS_INLINE void transpose(__m256d* p, __m256d* q, __m256d* r, __m256d* s) {
    const __m256d a = _mm256_unpacklo_pd(*p, *q), b = _mm256_unpackhi_pd(*p, *q);
    const __m256d c = _mm256_unpacklo_pd(*r, *s), d = _mm256_unpackhi_pd(*r, *s);
    *p = _mm256_permute2f128_pd(a, c, 0x20);
    *q = _mm256_permute2f128_pd(b, d, 0x20);
    *r = _mm256_permute2f128_pd(a, c, 0x31);
    *s = _mm256_permute2f128_pd(b, d, 0x31);
}
template <>
VS_INLINE int64_t weave_blocks<double, 4>(const double* const* from, int64_t n, double* to) {
    const double *p = from[0], *q = from[1], *r = from[2], *s = from[3];
    int64_t k = 0;
    for (; k + 4 <= n; k += 4, to += 16) {
        __m256d a = _mm256_loadu_pd(p + k), b = _mm256_loadu_pd(q + k);
        __m256d c = _mm256_loadu_pd(r + k), d = _mm256_loadu_pd(s + k);
        transpose(&a, &b, &c, &d);
        _mm256_storeu_pd(to, a);
        _mm256_storeu_pd(to + 4, b);
        _mm256_storeu_pd(to + 8, c);
        _mm256_storeu_pd(to + 12, d);
    }
    // The rest is short, and read as vectors at once.
    for (; k < n; ++k, to += 4) _mm256_storeu_pd(to, _mm256_setr_pd(p[k], q[k], r[k], s[k]));
    return n;
}
template <>
VS_INLINE int64_t unweave_blocks<double, 4>(const double* from, int64_t n, double* const* to) {
    double *p = to[0], *q = to[1], *r = to[2], *s = to[3];
    int64_t k = 0;
    for (; k + 4 <= n; k += 4, from += 16) {
        __m256d a = _mm256_loadu_pd(from), b = _mm256_loadu_pd(from + 4);
        __m256d c = _mm256_loadu_pd(from + 8), d = _mm256_loadu_pd(from + 12);
        transpose(&a, &b, &c, &d);
        _mm256_storeu_pd(p + k, a);
        _mm256_storeu_pd(q + k, b);
        _mm256_storeu_pd(r + k, c);
        _mm256_storeu_pd(s + k, d);
    }
    return k;
}
#elif VS_LEVEL == VS_LEVEL_V4
static VS_INLINE void transpose(__m512d (&r)[8]) {
    __m512d pair[8];  // low, then high numbers of two rows each
    for (int i = 0; i < 4; ++i) {
        pair[i] = _mm512_unpacklo_pd(r[2 * i], r[2 * i + 1]);
        pair[4 + i] = _mm512_unpackhi_pd(r[2 * i], r[2 * i + 1]);
    }
    for (int odd = 0; odd < 2; ++odd) {
        const __m512d* p = pair + 4 * odd;
        const __m512d a = _mm512_shuffle_f64x2(p[0], p[1], 0x44);
        const __m512d b = _mm512_shuffle_f64x2(p[0], p[1], 0xee);
        const __m512d c = _mm512_shuffle_f64x2(p[2], p[3], 0x44);
        const __m512d d = _mm512_shuffle_f64x2(p[2], p[3], 0xee);
        r[odd] = _mm512_shuffle_f64x2(a, c, 0x88);
        r[2 + odd] = _mm512_shuffle_f64x2(a, c, 0xdd);
        r[4 + odd] = _mm512_shuffle_f64x2(b, d, 0x88);
        r[6 + odd] = _mm512_shuffle_f64x2(b, d, 0xdd);
    }
}
template <>
VS_INLINE int64_t weave_blocks<double, 8>(const double* const* from, int64_t n, double* to) {
    int64_t k = 0;
    for (; k + 8 <= n; k += 8) {
        __m512d r[8];
        for (int i = 0; i < 8; ++i) r[i] = _mm512_loadu_pd(from[i] + k);
        transpose(r);
        for (int i = 0; i < 8; ++i) _mm512_storeu_pd(to + (k + i) * 8, r[i]);
    }
    return k;
}
template <>
VS_INLINE int64_t unweave_blocks<double, 8>(const double* from, int64_t n, double* const* to) {
    int64_t k = 0;
    for (; k + 8 <= n; k += 8) {
        __m512d r[8];
        for (int i = 0; i < 8; ++i) r[i] = _mm512_loadu_pd(from + (k + i) * 8);
        transpose(r);
        for (int i = 0; i < 8; ++i) _mm512_storeu_pd(to[i] + k, r[i]);
    }
    return k;
}
#endif

// to[k * N + i] = from[i][k] for all N rows i and n numbers k.
template <class T, int N>
static VS_INLINE void weave(const T* const* from, int64_t n, T* to) {
    weave_rows<T, N>(from, weave_blocks<T, N>(from, n, to), n, to);
}
// to[i][k] = from[k * N + i], likewise.
template <class T, int N>
static VS_INLINE void unweave(const T* from, int64_t n, T* const* to) {
    unweave_rows<T, N>(from, unweave_blocks<T, N>(from, n, to), n, to);
}

}  // namespace VS_NS
