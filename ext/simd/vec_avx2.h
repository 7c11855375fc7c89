// x86-64-v3: 256-bit vectors with FMA, 16 registers.
#pragma once

#include <immintrin.h>

namespace VS_NS {

constexpr int kTileUnits = 6;
constexpr int kTileUnitsOne = 6;
constexpr int kMaxRows = 2;

// After the last stream() of a task: what it wrote is seen by whoever waits for the task.
VS_INLINE void stream_fence() { _mm_sfence(); }

template <class T>
struct Vec;

template <>
struct Vec<double> {
    static constexpr int N = 4;
    __m256d v;
    static VS_INLINE __m256i mask(int m) {
        return _mm256_cmpgt_epi64(_mm256_set1_epi64x(m), _mm256_setr_epi64x(0, 1, 2, 3));
    }
    static VS_INLINE Vec set1(double x) { return {_mm256_set1_pd(x)}; }
    static VS_INLINE Vec low(Vec x) { return x; }
    static VS_INLINE Vec load(const double* p) { return {_mm256_loadu_pd(p)}; }
    static VS_INLINE Vec load_part(const double* p, int m, double fill) {
        const __m256i k = mask(m);
        return {_mm256_blendv_pd(_mm256_set1_pd(fill), _mm256_maskload_pd(p, k),
                                 _mm256_castsi256_pd(k))};
    }
    // p where a byte is wanted, else fill.
    static VS_INLINE Vec load_where(const double* p, const uint8_t* wanted, double fill) {
        int b;
        std::memcpy(&b, wanted, 4);
        const __m256i k =
            _mm256_cmpgt_epi64(_mm256_cvtepu8_epi64(_mm_cvtsi32_si128(b)), _mm256_setzero_si256());
        return {_mm256_blendv_pd(_mm256_set1_pd(fill), _mm256_loadu_pd(p), _mm256_castsi256_pd(k))};
    }
    static VS_INLINE Vec gather(const double* p, const int32_t* at) {
        return {_mm256_setr_pd(p[at[0]], p[at[1]], p[at[2]], p[at[3]])};
    }
    VS_INLINE void store(double* p) const { _mm256_storeu_pd(p, v); }
    // Past the caches; p on a vector's boundary.
    VS_INLINE void stream(double* p) const { _mm256_stream_pd(p, v); }
    VS_INLINE void store_part(double* p, int m) const { _mm256_maskstore_pd(p, mask(m), v); }
    // 0 beyond m lanes.
    VS_INLINE Vec first(int m) const { return {_mm256_and_pd(_mm256_castsi256_pd(mask(m)), v)}; }
    friend VS_INLINE Vec operator+(Vec a, Vec b) { return {_mm256_add_pd(a.v, b.v)}; }
    friend VS_INLINE Vec operator-(Vec a, Vec b) { return {_mm256_sub_pd(a.v, b.v)}; }
    friend VS_INLINE Vec operator*(Vec a, Vec b) { return {_mm256_mul_pd(a.v, b.v)}; }
    friend VS_INLINE Vec operator/(Vec a, Vec b) { return {_mm256_div_pd(a.v, b.v)}; }
    static VS_INLINE Vec fma(Vec a, Vec b, Vec c) { return {_mm256_fmadd_pd(a.v, b.v, c.v)}; }
    static VS_INLINE Vec max(Vec a, Vec b) { return {_mm256_max_pd(a.v, b.v)}; }
    static VS_INLINE Vec min(Vec a, Vec b) { return {_mm256_min_pd(a.v, b.v)}; }
    static VS_INLINE Vec where_positive(Vec a, Vec b, Vec x) {
        const __m256d z = _mm256_setzero_pd();
        const __m256d k =
            _mm256_and_pd(_mm256_cmp_pd(a.v, z, _CMP_GT_OQ), _mm256_cmp_pd(b.v, z, _CMP_GT_OQ));
        return {_mm256_and_pd(k, x.v)};
    }
    static VS_INLINE Vec where_ge(Vec a, Vec limit, Vec x) {
        return {_mm256_and_pd(_mm256_cmp_pd(a.v, limit.v, _CMP_GE_OQ), x.v)};
    }
    // x where a == b, else 0.
    static VS_INLINE Vec where_equal(Vec a, Vec b, Vec x) {
        return {_mm256_and_pd(_mm256_cmp_pd(a.v, b.v, _CMP_EQ_OQ), x.v)};
    }
    // x where a lane has a bit, else 0.
    static VS_INLINE Vec where_bit(unsigned bits, Vec x) {
        const __m256i own = _mm256_setr_epi64x(1, 2, 4, 8);
        const __m256i all = _mm256_set1_epi64x(static_cast<int64_t>(bits));
        const __m256i k = _mm256_cmpeq_epi64(_mm256_and_si256(all, own), own);
        return {_mm256_and_pd(_mm256_castsi256_pd(k), x.v)};
    }
    static VS_INLINE Vec round(Vec a) {
        return {_mm256_round_pd(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
    }
    static VS_INLINE Vec scale2(Vec p, Vec n) {
        // n + 1.5 * 2**52 leaves the integer n in the low mantissa bits.
        const __m256d magic = _mm256_set1_pd(6755399441055744.0);
        const __m256i i = _mm256_castpd_si256(_mm256_add_pd(n.v, magic));
        return {_mm256_castsi256_pd(
            _mm256_add_epi64(_mm256_castpd_si256(p.v), _mm256_slli_epi64(i, 52)))};
    }
    // 2^-e of the exponents e.
    VS_INLINE Vec over_power() const {
        const __m256i field = _mm256_set1_epi64x(int64_t{0x7ff} << 52),
                      twice = _mm256_set1_epi64x(int64_t{2046} << 52);
        const __m256i power = _mm256_and_si256(_mm256_castpd_si256(v), field);
        return {_mm256_castsi256_pd(_mm256_sub_epi64(twice, power))};
    }
    VS_INLINE double hsum() const {
        const __m128d s = _mm_add_pd(_mm256_castpd256_pd128(v), _mm256_extractf128_pd(v, 1));
        return _mm_cvtsd_f64(_mm_add_sd(s, _mm_unpackhi_pd(s, s)));
    }
    VS_INLINE double hmax() const {
        const __m128d s = _mm_max_pd(_mm256_castpd256_pd128(v), _mm256_extractf128_pd(v, 1));
        return _mm_cvtsd_f64(_mm_max_sd(s, _mm_unpackhi_pd(s, s)));
    }
    // One bit a lane: is it >= limit?
    VS_INLINE unsigned ge(Vec limit) const {
        return static_cast<unsigned>(_mm256_movemask_pd(_mm256_cmp_pd(v, limit.v, _CMP_GE_OQ)));
    }
    VS_INLINE bool any_bad() const {
        return _mm256_movemask_pd(
                   _mm256_cmp_pd(v, _mm256_set1_pd(1.7976931348623157e308), _CMP_NLE_UQ)) != 0;
    }
};

template <>
struct Vec<float> {
    static constexpr int N = 8;
    __m256 v;
    // From vectors of doubles side by side, and back.
    static VS_INLINE Vec narrow(const Vec<double>* x) {
        return {_mm256_set_m128(_mm256_cvtpd_ps(x[1].v), _mm256_cvtpd_ps(x[0].v))};
    }
    VS_INLINE void widen(Vec<double>* x) const {
        x[0] = {_mm256_cvtps_pd(_mm256_castps256_ps128(v))};
        x[1] = {_mm256_cvtps_pd(_mm256_extractf128_ps(v, 1))};
    }
    static VS_INLINE __m256i mask(int m) {
        return _mm256_cmpgt_epi32(_mm256_set1_epi32(m), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
    }
    static VS_INLINE Vec set1(float x) { return {_mm256_set1_ps(x)}; }
    static VS_INLINE Vec low(Vec x) { return x; }
    static VS_INLINE Vec load(const float* p) { return {_mm256_loadu_ps(p)}; }
    static VS_INLINE Vec load_part(const float* p, int m, float fill) {
        const __m256i k = mask(m);
        return {_mm256_blendv_ps(_mm256_set1_ps(fill), _mm256_maskload_ps(p, k),
                                 _mm256_castsi256_ps(k))};
    }
    static VS_INLINE Vec load_where(const float* p, const uint8_t* wanted, float fill) {
        const __m128i b = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(wanted));
        const __m256i k = _mm256_cmpgt_epi32(_mm256_cvtepu8_epi32(b), _mm256_setzero_si256());
        return {_mm256_blendv_ps(_mm256_set1_ps(fill), _mm256_loadu_ps(p), _mm256_castsi256_ps(k))};
    }
    VS_INLINE void store(float* p) const { _mm256_storeu_ps(p, v); }
    // Past the caches; p on a vector's boundary.
    VS_INLINE void stream(float* p) const { _mm256_stream_ps(p, v); }
    VS_INLINE void store_part(float* p, int m) const { _mm256_maskstore_ps(p, mask(m), v); }
    VS_INLINE Vec first(int m) const { return {_mm256_and_ps(_mm256_castsi256_ps(mask(m)), v)}; }
    friend VS_INLINE Vec operator+(Vec a, Vec b) { return {_mm256_add_ps(a.v, b.v)}; }
    friend VS_INLINE Vec operator-(Vec a, Vec b) { return {_mm256_sub_ps(a.v, b.v)}; }
    friend VS_INLINE Vec operator*(Vec a, Vec b) { return {_mm256_mul_ps(a.v, b.v)}; }
    friend VS_INLINE Vec operator/(Vec a, Vec b) { return {_mm256_div_ps(a.v, b.v)}; }
    static VS_INLINE Vec fma(Vec a, Vec b, Vec c) { return {_mm256_fmadd_ps(a.v, b.v, c.v)}; }
    static VS_INLINE Vec max(Vec a, Vec b) { return {_mm256_max_ps(a.v, b.v)}; }
    static VS_INLINE Vec min(Vec a, Vec b) { return {_mm256_min_ps(a.v, b.v)}; }
    static VS_INLINE Vec where_positive(Vec a, Vec b, Vec x) {
        const __m256 z = _mm256_setzero_ps();
        const __m256 k =
            _mm256_and_ps(_mm256_cmp_ps(a.v, z, _CMP_GT_OQ), _mm256_cmp_ps(b.v, z, _CMP_GT_OQ));
        return {_mm256_and_ps(k, x.v)};
    }
    static VS_INLINE Vec where_ge(Vec a, Vec limit, Vec x) {
        return {_mm256_and_ps(_mm256_cmp_ps(a.v, limit.v, _CMP_GE_OQ), x.v)};
    }
    // x where a == b, else 0.
    static VS_INLINE Vec where_equal(Vec a, Vec b, Vec x) {
        return {_mm256_and_ps(_mm256_cmp_ps(a.v, b.v, _CMP_EQ_OQ), x.v)};
    }
    static VS_INLINE Vec where_bit(unsigned bits, Vec x) {
        const __m256i own = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
        const __m256i all = _mm256_set1_epi32(static_cast<int32_t>(bits));
        const __m256i k = _mm256_cmpeq_epi32(_mm256_and_si256(all, own), own);
        return {_mm256_and_ps(_mm256_castsi256_ps(k), x.v)};
    }
    static VS_INLINE Vec round(Vec a) {
        return {_mm256_round_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
    }
    static VS_INLINE Vec scale2(Vec p, Vec n) {
        const __m256i i = _mm256_cvtps_epi32(n.v);
        return {_mm256_castsi256_ps(
            _mm256_add_epi32(_mm256_castps_si256(p.v), _mm256_slli_epi32(i, 23)))};
    }
    // p * 2**n where that is a normal number, t = n + 1.5 * 2**52 in doubles.
    static VS_INLINE Vec scale2(Vec p, const Vec<double>* t) {
        const __m256 low =
            _mm256_shuffle_ps(_mm256_castpd_ps(t[0].v), _mm256_castpd_ps(t[1].v), 0x88);
        const __m256i i = _mm256_permute4x64_epi64(_mm256_castps_si256(low), 0xd8);
        return {_mm256_castsi256_ps(
            _mm256_add_epi32(_mm256_castps_si256(p.v), _mm256_slli_epi32(i, 23)))};
    }
    // 2^-e of the exponents e.
    VS_INLINE Vec over_power() const {
        const __m256i field = _mm256_set1_epi32(0x7f800000), twice = _mm256_set1_epi32(254 << 23);
        const __m256i power = _mm256_and_si256(_mm256_castps_si256(v), field);
        return {_mm256_castsi256_ps(_mm256_sub_epi32(twice, power))};
    }
    VS_INLINE float hsum() const {
        __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
        s = _mm_add_ps(s, _mm_movehl_ps(s, s));
        return _mm_cvtss_f32(_mm_add_ss(s, _mm_shuffle_ps(s, s, 1)));
    }
    VS_INLINE float hmax() const {
        __m128 s = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
        s = _mm_max_ps(s, _mm_movehl_ps(s, s));
        return _mm_cvtss_f32(_mm_max_ss(s, _mm_shuffle_ps(s, s, 1)));
    }
    VS_INLINE unsigned ge(Vec limit) const {
        return static_cast<unsigned>(_mm256_movemask_ps(_mm256_cmp_ps(v, limit.v, _CMP_GE_OQ)));
    }
    VS_INLINE bool any_bad() const {
        return _mm256_movemask_ps(
                   _mm256_cmp_ps(v, _mm256_set1_ps(3.402823466e+38f), _CMP_NLE_UQ)) != 0;
    }
};

// No narrower vector is cheaper here: the tail is a full vector.
template <class T>
using Tail = Vec<T>;

}  // namespace VS_NS
