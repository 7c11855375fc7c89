// Rows that lie apart into numbers side by side, and back.
#pragma once

#include <cstdint>

#include "simd/each.h"
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
// Blocks of four rows; `kStride` numbers stand side by side.
template <int kStride>
static VS_INLINE void weave_four(const double* const* from, int64_t k, double* to) {
    __m256d a = _mm256_loadu_pd(from[0] + k), b = _mm256_loadu_pd(from[1] + k);
    __m256d c = _mm256_loadu_pd(from[2] + k), d = _mm256_loadu_pd(from[3] + k);
    transpose(&a, &b, &c, &d);
    _mm256_storeu_pd(to, a);
    _mm256_storeu_pd(to + kStride, b);
    _mm256_storeu_pd(to + 2 * kStride, c);
    _mm256_storeu_pd(to + 3 * kStride, d);
}
template <int kStride>
static VS_INLINE void unweave_four(const double* from, int64_t k, double* const* to) {
    __m256d a = _mm256_loadu_pd(from), b = _mm256_loadu_pd(from + kStride);
    __m256d c = _mm256_loadu_pd(from + 2 * kStride), d = _mm256_loadu_pd(from + 3 * kStride);
    transpose(&a, &b, &c, &d);
    _mm256_storeu_pd(to[0] + k, a);
    _mm256_storeu_pd(to[1] + k, b);
    _mm256_storeu_pd(to[2] + k, c);
    _mm256_storeu_pd(to[3] + k, d);
}
template <>
VS_INLINE int64_t weave_blocks<double, 4>(const double* const* from, int64_t n, double* to) {
    const double *p = from[0], *q = from[1], *r = from[2], *s = from[3];
    int64_t k = 0;
    for (; k + 4 <= n; k += 4, to += 16) weave_four<4>(from, k, to);
    // The rest is short, and read as vectors at once.
    for (; k < n; ++k, to += 4) _mm256_storeu_pd(to, _mm256_setr_pd(p[k], q[k], r[k], s[k]));
    return n;
}
template <>
VS_INLINE int64_t unweave_blocks<double, 4>(const double* from, int64_t n, double* const* to) {
    int64_t k = 0;
    for (; k + 4 <= n; k += 4, from += 16) unweave_four<4>(from, k, to);
    return k;
}
template <>
VS_INLINE int64_t weave_blocks<double, 8>(const double* const* from, int64_t n, double* to) {
    int64_t k = 0;
    for (; k + 4 <= n; k += 4, to += 32) {
        weave_four<8>(from, k, to);
        weave_four<8>(from + 4, k, to + 4);
    }
    return k;
}
template <>
VS_INLINE int64_t unweave_blocks<double, 8>(const double* from, int64_t n, double* const* to) {
    int64_t k = 0;
    for (; k + 4 <= n; k += 4, from += 32) {
        unweave_four<8>(from, k, to);
        unweave_four<8>(from + 4, k, to + 4);
    }
    return k;
}
#elif VS_LEVEL == VS_LEVEL_V4
static VS_INLINE void transpose(__m512d (&r)[8]) {
    __m512d pair[8];  // low, then high numbers of two rows each
    each<4>([&](auto i) VS_INLINE_LAMBDA {
        pair[i] = _mm512_unpacklo_pd(r[2 * i], r[2 * i + 1]);
        pair[4 + i] = _mm512_unpackhi_pd(r[2 * i], r[2 * i + 1]);
    });
    each<2>([&](auto odd) VS_INLINE_LAMBDA {
        constexpr int p = 4 * decltype(odd)();
        const __m512d a = _mm512_shuffle_f64x2(pair[p], pair[p + 1], 0x44);
        const __m512d b = _mm512_shuffle_f64x2(pair[p], pair[p + 1], 0xee);
        const __m512d c = _mm512_shuffle_f64x2(pair[p + 2], pair[p + 3], 0x44);
        const __m512d d = _mm512_shuffle_f64x2(pair[p + 2], pair[p + 3], 0xee);
        r[odd] = _mm512_shuffle_f64x2(a, c, 0x88);
        r[2 + odd] = _mm512_shuffle_f64x2(a, c, 0xdd);
        r[4 + odd] = _mm512_shuffle_f64x2(b, d, 0x88);
        r[6 + odd] = _mm512_shuffle_f64x2(b, d, 0xdd);
    });
}
template <>
VS_INLINE int64_t weave_blocks<double, 8>(const double* const* from, int64_t n, double* to) {
    int64_t k = 0;
    for (; k + 8 <= n; k += 8) {
        __m512d r[8];
        each<8>([&](auto i) VS_INLINE_LAMBDA { r[i] = _mm512_loadu_pd(from[i] + k); });
        transpose(r);
        each<8>([&](auto i) VS_INLINE_LAMBDA { _mm512_storeu_pd(to + (k + i) * 8, r[i]); });
    }
    return k;
}
template <>
VS_INLINE int64_t unweave_blocks<double, 8>(const double* from, int64_t n, double* const* to) {
    int64_t k = 0;
    for (; k + 8 <= n; k += 8) {
        __m512d r[8];
        each<8>([&](auto i) VS_INLINE_LAMBDA { r[i] = _mm512_loadu_pd(from + (k + i) * 8); });
        transpose(r);
        each<8>([&](auto i) VS_INLINE_LAMBDA { _mm512_storeu_pd(to[i] + k, r[i]); });
    }
    return k;
}
#endif

#if VS_LEVEL == VS_LEVEL_V3 || VS_LEVEL == VS_LEVEL_V4
static VS_INLINE void transpose(__m256 (&r)[8]) {
    __m256 pair[8], four[8];
    each<4>([&](auto i) VS_INLINE_LAMBDA {
        pair[2 * i] = _mm256_unpacklo_ps(r[2 * i], r[2 * i + 1]);
        pair[2 * i + 1] = _mm256_unpackhi_ps(r[2 * i], r[2 * i + 1]);
    });
    each<2>([&](auto half) VS_INLINE_LAMBDA {
        constexpr int p = 4 * decltype(half)();
        four[p] = _mm256_shuffle_ps(pair[p], pair[p + 2], 0x44);
        four[p + 1] = _mm256_shuffle_ps(pair[p], pair[p + 2], 0xee);
        four[p + 2] = _mm256_shuffle_ps(pair[p + 1], pair[p + 3], 0x44);
        four[p + 3] = _mm256_shuffle_ps(pair[p + 1], pair[p + 3], 0xee);
    });
    each<4>([&](auto i) VS_INLINE_LAMBDA {
        r[i] = _mm256_permute2f128_ps(four[i], four[4 + i], 0x20);
        r[4 + i] = _mm256_permute2f128_ps(four[i], four[4 + i], 0x31);
    });
}
// Blocks of eight rows; N numbers stand side by side.
template <int N>
static VS_INLINE int64_t weave_eights(const float* const* from, int64_t n, float* to) {
    int64_t k = 0;
    for (; k + 8 <= n; k += 8) {
        each<N / 8>([&](auto part) VS_INLINE_LAMBDA {
            constexpr int first = 8 * decltype(part)();
            __m256 r[8];
            each<8>([&](auto i) VS_INLINE_LAMBDA { r[i] = _mm256_loadu_ps(from[first + i] + k); });
            transpose(r);
            each<8>([&](auto i)
                        VS_INLINE_LAMBDA { _mm256_storeu_ps(to + (k + i) * N + first, r[i]); });
        });
    }
    return k;
}
template <int N>
static VS_INLINE int64_t unweave_eights(const float* from, int64_t n, float* const* to) {
    int64_t k = 0;
    for (; k + 8 <= n; k += 8) {
        each<N / 8>([&](auto part) VS_INLINE_LAMBDA {
            constexpr int first = 8 * decltype(part)();
            __m256 r[8];
            each<8>([&](auto i)
                        VS_INLINE_LAMBDA { r[i] = _mm256_loadu_ps(from + (k + i) * N + first); });
            transpose(r);
            each<8>([&](auto i) VS_INLINE_LAMBDA { _mm256_storeu_ps(to[first + i] + k, r[i]); });
        });
    }
    return k;
}
template <>
VS_INLINE int64_t weave_blocks<float, 8>(const float* const* from, int64_t n, float* to) {
    return weave_eights<8>(from, n, to);
}
template <>
VS_INLINE int64_t unweave_blocks<float, 8>(const float* from, int64_t n, float* const* to) {
    return unweave_eights<8>(from, n, to);
}
template <>
VS_INLINE int64_t weave_blocks<float, 16>(const float* const* from, int64_t n, float* to) {
    return weave_eights<16>(from, n, to);
}
template <>
VS_INLINE int64_t unweave_blocks<float, 16>(const float* from, int64_t n, float* const* to) {
    return unweave_eights<16>(from, n, to);
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
