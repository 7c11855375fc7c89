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
template <class T, int N, class Out>
static VS_INLINE void unweave_rows(const T* from, int64_t first, int64_t last, Out* const* to) {
    for (int i = 0; i < N; ++i) {
        for (int64_t k = first; k < last; ++k) to[i][k] = static_cast<Out>(from[k * N + i]);
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
// The same into doubles.
template <int N>
static VS_INLINE int64_t widen_blocks(const float*, int64_t, double* const*) {
    return 0;
}

// As many rows as a vector has numbers, in registers.
template <class S>
struct Registers {
    using T = S;
    static constexpr int N = Vec<T>::N;
    Vec<T> r[N];
    VS_INLINE void load(int i, const T* p) { r[i] = Vec<T>::load(p); }
    VS_INLINE void load_part(int i, const T* p, int m) { r[i] = Vec<T>::load_part(p, m, T(0)); }
    // m < N of them; where Out is wider, they are widened.
    template <class Out>
    VS_INLINE void store(int i, Out* p) const {
        parts<Out>(i, [&](auto x, int at) VS_INLINE_LAMBDA { x.store(p + at); });
    }
    template <class Out>
    VS_INLINE void store_part(int i, Out* p, int m) const {
        parts<Out>(i, [&](auto x, int at) VS_INLINE_LAMBDA {
            if (m >= at + x.N) {
                x.store(p + at);
            } else if (m > at) {
                x.store_part(p + at, m - at);
            }
        });
    }

  private:
    template <class Out, class F>
    VS_INLINE void parts(int i, F f) const {  // f(some of row i, where they stand)
        using W = Vec<Out>;
        if constexpr (W::N == N) {
            f(r[i], 0);
        } else {
            W x[N / W::N];
            r[i].widen(x);
            each<N / W::N>([&](auto q) VS_INLINE_LAMBDA { f(x[q], q * W::N); });
        }
    }
};

// R are registers that can be transposed; kSide numbers stand side by side.
template <class R, int kSide = R::N>
VS_INLINE int64_t weave_squares(const typename R::T* const* from, int64_t n, typename R::T* to) {
    R x;
    int64_t k = 0;
    for (; k + R::N <= n; k += R::N) {
        each<R::N>([&](auto i) VS_INLINE_LAMBDA { x.load(i, from[i] + k); });
        x.transpose();
        each<R::N>([&](auto i) VS_INLINE_LAMBDA { x.store(i, to + (k + i) * kSide); });
    }
    const int m = static_cast<int>(n - k);
    if (m == 0) return n;
    each<R::N>([&](auto i) VS_INLINE_LAMBDA { x.load_part(i, from[i] + k, m); });
    x.transpose();
    each<R::N>([&](auto i) VS_INLINE_LAMBDA {
        if (i < m) x.store(i, to + (k + i) * kSide);
    });
    return n;
}
template <class R, int kSide = R::N, class Out>
VS_INLINE int64_t unweave_squares(const typename R::T* from, int64_t n, Out* const* to) {
    R x;
    int64_t k = 0;
    for (; k + R::N <= n; k += R::N) {
        each<R::N>([&](auto i) VS_INLINE_LAMBDA { x.load(i, from + (k + i) * kSide); });
        x.transpose();
        each<R::N>([&](auto i) VS_INLINE_LAMBDA { x.store(i, to[i] + k); });
    }
    const int m = static_cast<int>(n - k);
    if (m == 0) return n;
    each<R::N>([&](auto i) VS_INLINE_LAMBDA {
        x.load(i, from + (i < m ? k + i : k) * kSide);  // what is not stored may be anything
    });
    x.transpose();
    each<R::N>([&](auto i) VS_INLINE_LAMBDA { x.store_part(i, to[i] + k, m); });
    return n;
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
// Four numbers of four rows; kSide stand side by side.
template <int kSide>
VS_INLINE void weave_four(const double* const* from, int64_t k, double* to) {
    __m256d a = _mm256_loadu_pd(from[0] + k), b = _mm256_loadu_pd(from[1] + k);
    __m256d c = _mm256_loadu_pd(from[2] + k), d = _mm256_loadu_pd(from[3] + k);
    transpose(&a, &b, &c, &d);
    _mm256_storeu_pd(to, a);
    _mm256_storeu_pd(to + kSide, b);
    _mm256_storeu_pd(to + 2 * kSide, c);
    _mm256_storeu_pd(to + 3 * kSide, d);
}
template <int kSide>
VS_INLINE void unweave_four(const double* from, int64_t k, double* const* to) {
    __m256d a = _mm256_loadu_pd(from), b = _mm256_loadu_pd(from + kSide);
    __m256d c = _mm256_loadu_pd(from + 2 * kSide), d = _mm256_loadu_pd(from + 3 * kSide);
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
// Twice as many rows as a vector has numbers.
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
struct Rows8 : Registers<float> {
    VS_INLINE void transpose() {
        __m256 four[N];  // as numbers j and 4 + j of four rows
        each<2>([&](auto q) VS_INLINE_LAMBDA {
            constexpr int o = 4 * q;
            const __m256d a = _mm256_castps_pd(_mm256_unpacklo_ps(r[o].v, r[o + 1].v));
            const __m256d b = _mm256_castps_pd(_mm256_unpackhi_ps(r[o].v, r[o + 1].v));
            const __m256d c = _mm256_castps_pd(_mm256_unpacklo_ps(r[o + 2].v, r[o + 3].v));
            const __m256d d = _mm256_castps_pd(_mm256_unpackhi_ps(r[o + 2].v, r[o + 3].v));
            four[o] = _mm256_castpd_ps(_mm256_unpacklo_pd(a, c));
            four[o + 1] = _mm256_castpd_ps(_mm256_unpackhi_pd(a, c));
            four[o + 2] = _mm256_castpd_ps(_mm256_unpacklo_pd(b, d));
            four[o + 3] = _mm256_castpd_ps(_mm256_unpackhi_pd(b, d));
        });
        each<4>([&](auto j) VS_INLINE_LAMBDA {
            r[j].v = _mm256_permute2f128_ps(four[j], four[4 + j], 0x20);
            r[4 + j].v = _mm256_permute2f128_ps(four[j], four[4 + j], 0x31);
        });
    }
};
template <>
VS_INLINE int64_t weave_blocks<float, 8>(const float* const* from, int64_t n, float* to) {
    return weave_squares<Rows8>(from, n, to);
}
template <>
VS_INLINE int64_t unweave_blocks<float, 8>(const float* from, int64_t n, float* const* to) {
    return unweave_squares<Rows8>(from, n, to);
}
template <>
VS_INLINE int64_t widen_blocks<8>(const float* from, int64_t n, double* const* to) {
    return unweave_squares<Rows8>(from, n, to);
}
template <>
VS_INLINE int64_t weave_blocks<float, 16>(const float* const* from, int64_t n, float* to) {
    weave_squares<Rows8, 16>(from, n, to);
    return weave_squares<Rows8, 16>(from + 8, n, to + 8);
}
template <>
VS_INLINE int64_t unweave_blocks<float, 16>(const float* from, int64_t n, float* const* to) {
    unweave_squares<Rows8, 16>(from, n, to);
    return unweave_squares<Rows8, 16>(from + 8, n, to + 8);
}
#elif VS_LEVEL == VS_LEVEL_V4
// Rows of doubles, and of floats, in registers.
struct Rows8 : Registers<double> {
    VS_INLINE void transpose() {
        __m512d pair[N];  // low, then high numbers of two rows each
        each<4>([&](auto i) VS_INLINE_LAMBDA {
            pair[i] = _mm512_unpacklo_pd(r[2 * i].v, r[2 * i + 1].v);
            pair[4 + i] = _mm512_unpackhi_pd(r[2 * i].v, r[2 * i + 1].v);
        });
        each<2>([&](auto odd) VS_INLINE_LAMBDA {
            constexpr int o = 4 * odd;
            const __m512d a = _mm512_shuffle_f64x2(pair[o], pair[o + 1], 0x44);
            const __m512d b = _mm512_shuffle_f64x2(pair[o], pair[o + 1], 0xee);
            const __m512d c = _mm512_shuffle_f64x2(pair[o + 2], pair[o + 3], 0x44);
            const __m512d d = _mm512_shuffle_f64x2(pair[o + 2], pair[o + 3], 0xee);
            r[odd].v = _mm512_shuffle_f64x2(a, c, 0x88);
            r[2 + odd].v = _mm512_shuffle_f64x2(a, c, 0xdd);
            r[4 + odd].v = _mm512_shuffle_f64x2(b, d, 0x88);
            r[6 + odd].v = _mm512_shuffle_f64x2(b, d, 0xdd);
        });
    }
};
struct Rows16 : Registers<float> {
    // Number j of a row stands in quarter j / 4: of four rows first, then of all.
    VS_INLINE void transpose() {
        __m512 four[N];
        each<4>([&](auto q) VS_INLINE_LAMBDA {
            constexpr int o = 4 * q;
            const __m512d a = _mm512_castps_pd(_mm512_unpacklo_ps(r[o].v, r[o + 1].v));
            const __m512d b = _mm512_castps_pd(_mm512_unpackhi_ps(r[o].v, r[o + 1].v));
            const __m512d c = _mm512_castps_pd(_mm512_unpacklo_ps(r[o + 2].v, r[o + 3].v));
            const __m512d d = _mm512_castps_pd(_mm512_unpackhi_ps(r[o + 2].v, r[o + 3].v));
            four[o] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, c));
            four[o + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, c));
            four[o + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(b, d));
            four[o + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(b, d));
        });
        each<4>([&](auto j) VS_INLINE_LAMBDA {
            const __m512 a = _mm512_shuffle_f32x4(four[j], four[4 + j], 0x44);
            const __m512 b = _mm512_shuffle_f32x4(four[j], four[4 + j], 0xee);
            const __m512 c = _mm512_shuffle_f32x4(four[8 + j], four[12 + j], 0x44);
            const __m512 d = _mm512_shuffle_f32x4(four[8 + j], four[12 + j], 0xee);
            r[j].v = _mm512_shuffle_f32x4(a, c, 0x88);
            r[4 + j].v = _mm512_shuffle_f32x4(a, c, 0xdd);
            r[8 + j].v = _mm512_shuffle_f32x4(b, d, 0x88);
            r[12 + j].v = _mm512_shuffle_f32x4(b, d, 0xdd);
        });
    }
};
template <>
VS_INLINE int64_t weave_blocks<double, 8>(const double* const* from, int64_t n, double* to) {
    return weave_squares<Rows8>(from, n, to);
}
template <>
VS_INLINE int64_t unweave_blocks<double, 8>(const double* from, int64_t n, double* const* to) {
    return unweave_squares<Rows8>(from, n, to);
}
template <>
VS_INLINE int64_t weave_blocks<double, 16>(const double* const* from, int64_t n, double* to) {
    weave_squares<Rows8, 16>(from, n, to);
    return weave_squares<Rows8, 16>(from + 8, n, to + 8);
}
template <>
VS_INLINE int64_t unweave_blocks<double, 16>(const double* from, int64_t n, double* const* to) {
    unweave_squares<Rows8, 16>(from, n, to);
    return unweave_squares<Rows8, 16>(from + 8, n, to + 8);
}
template <>
VS_INLINE int64_t weave_blocks<float, 16>(const float* const* from, int64_t n, float* to) {
    return weave_squares<Rows16>(from, n, to);
}
template <>
VS_INLINE int64_t unweave_blocks<float, 16>(const float* from, int64_t n, float* const* to) {
    return unweave_squares<Rows16>(from, n, to);
}
template <>
VS_INLINE int64_t widen_blocks<16>(const float* from, int64_t n, double* const* to) {
    return unweave_squares<Rows16>(from, n, to);
}
#endif

// to[k * N + i] = from[i][k] for all N rows i and n numbers k.
template <class T, int N>
static VS_INLINE void weave(const T* const* from, int64_t n, T* to) {
    weave_rows<T, N>(from, weave_blocks<T, N>(from, n, to), n, to);
}
// to[i][k] = from[k * N + i], likewise; floats may become doubles.
template <class T, int N, class Out>
static VS_INLINE void unweave(const T* from, int64_t n, Out* const* to) {
    if constexpr (sizeof(T) == sizeof(Out)) {
        unweave_rows<T, N>(from, unweave_blocks<T, N>(from, n, to), n, to);
    } else {
        unweave_rows<T, N>(from, widen_blocks<N>(from, n, to), n, to);
    }
}

}  // namespace VS_NS
