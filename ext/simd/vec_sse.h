// x86-64-v2: 128-bit vectors up to SSE4.2, no FMA (a product is rounded before it is added).
#pragma once

#include <nmmintrin.h>

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
    static constexpr int N = 2;
    __m128d v;
    static VS_INLINE Vec set1(double x) { return {_mm_set1_pd(x)}; }
    static VS_INLINE Vec low(Vec x) { return x; }
    static VS_INLINE Vec load(const double* p) { return {_mm_loadu_pd(p)}; }
    static VS_INLINE Vec load_part(const double* p, int m, double fill) {
        return m >= 2 ? load(p) : Vec{_mm_set_pd(fill, p[0])};
    }
    // p where a byte is wanted, else fill.
    static VS_INLINE Vec load_where(const double* p, const uint8_t* wanted, double fill) {
        double t[N];
        for (int i = 0; i < N; ++i) t[i] = wanted[i] ? p[i] : fill;
        return load(t);
    }
    static VS_INLINE Vec gather(const double* p, const int32_t* at) {
        return {_mm_setr_pd(p[at[0]], p[at[1]])};
    }
    VS_INLINE void store(double* p) const { _mm_storeu_pd(p, v); }
    // Past the caches; p on a vector's boundary.
    VS_INLINE void stream(double* p) const { _mm_stream_pd(p, v); }
    VS_INLINE void store_part(double* p, int m) const {
        if (m >= 2) {
            store(p);
        } else {
            _mm_store_sd(p, v);
        }
    }
    // 0 beyond m lanes.
    VS_INLINE Vec first(int m) const {
        return m >= 2 ? *this : Vec{_mm_move_sd(_mm_setzero_pd(), v)};
    }
    friend VS_INLINE Vec operator+(Vec a, Vec b) { return {_mm_add_pd(a.v, b.v)}; }
    friend VS_INLINE Vec operator-(Vec a, Vec b) { return {_mm_sub_pd(a.v, b.v)}; }
    friend VS_INLINE Vec operator*(Vec a, Vec b) { return {_mm_mul_pd(a.v, b.v)}; }
    friend VS_INLINE Vec operator/(Vec a, Vec b) { return {_mm_div_pd(a.v, b.v)}; }
    static VS_INLINE Vec fma(Vec a, Vec b, Vec c) { return a * b + c; }
    static VS_INLINE Vec max(Vec a, Vec b) { return {_mm_max_pd(a.v, b.v)}; }
    static VS_INLINE Vec min(Vec a, Vec b) { return {_mm_min_pd(a.v, b.v)}; }
    static VS_INLINE Vec where_positive(Vec a, Vec b, Vec x) {
        const __m128d z = _mm_setzero_pd();
        return {_mm_and_pd(_mm_and_pd(_mm_cmpgt_pd(a.v, z), _mm_cmpgt_pd(b.v, z)), x.v)};
    }
    static VS_INLINE Vec where_ge(Vec a, Vec limit, Vec x) {
        return {_mm_and_pd(_mm_cmpge_pd(a.v, limit.v), x.v)};
    }
    // x where a == b, else 0.
    static VS_INLINE Vec where_equal(Vec a, Vec b, Vec x) {
        return {_mm_and_pd(_mm_cmpeq_pd(a.v, b.v), x.v)};
    }
    // x where a lane has a bit, else 0.
    static VS_INLINE Vec where_bit(unsigned bits, Vec x) {
        const __m128i own = _mm_set_epi64x(2, 1);
        const __m128i all = _mm_set1_epi64x(static_cast<int64_t>(bits));
        const __m128i k = _mm_cmpeq_epi64(_mm_and_si128(all, own), own);
        return {_mm_and_pd(_mm_castsi128_pd(k), x.v)};
    }
    static VS_INLINE Vec round(Vec a) {
        return {_mm_round_pd(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
    }
    static VS_INLINE Vec scale2(Vec p, Vec n) {
        const __m128d magic = _mm_set1_pd(6755399441055744.0);
        const __m128i i = _mm_castpd_si128(_mm_add_pd(n.v, magic));
        return {_mm_castsi128_pd(_mm_add_epi64(_mm_castpd_si128(p.v), _mm_slli_epi64(i, 52)))};
    }
    // 2^-e of the exponents e.
    VS_INLINE Vec over_power() const {
        const __m128i field = _mm_set1_epi64x(int64_t{0x7ff} << 52),
                      twice = _mm_set1_epi64x(int64_t{2046} << 52);
        const __m128i power = _mm_and_si128(_mm_castpd_si128(v), field);
        return {_mm_castsi128_pd(_mm_sub_epi64(twice, power))};
    }
    VS_INLINE double hsum() const { return _mm_cvtsd_f64(_mm_add_sd(v, _mm_unpackhi_pd(v, v))); }
    VS_INLINE double hmax() const { return _mm_cvtsd_f64(_mm_max_sd(v, _mm_unpackhi_pd(v, v))); }
    // One bit a lane: is it >= limit?
    VS_INLINE unsigned ge(Vec limit) const {
        return static_cast<unsigned>(_mm_movemask_pd(_mm_cmpge_pd(v, limit.v)));
    }
    VS_INLINE bool any_bad() const {
        return _mm_movemask_pd(_mm_cmpnle_pd(v, _mm_set1_pd(1.7976931348623157e308))) != 0;
    }
};

template <>
struct Vec<float> {
    static constexpr int N = 4;
    __m128 v;
    // From vectors of doubles side by side, and back.
    static VS_INLINE Vec narrow(const Vec<double>* x) {
        return {_mm_movelh_ps(_mm_cvtpd_ps(x[0].v), _mm_cvtpd_ps(x[1].v))};
    }
    VS_INLINE void widen(Vec<double>* x) const {
        x[0] = {_mm_cvtps_pd(v)};
        x[1] = {_mm_cvtps_pd(_mm_movehl_ps(v, v))};
    }
    static VS_INLINE Vec set1(float x) { return {_mm_set1_ps(x)}; }
    static VS_INLINE Vec low(Vec x) { return x; }
    static VS_INLINE Vec load(const float* p) { return {_mm_loadu_ps(p)}; }
    static VS_INLINE Vec load_part(const float* p, int m, float fill) {
        if (m >= 4) return load(p);
        float t[4] = {fill, fill, fill, fill};
        for (int i = 0; i < m; ++i) t[i] = p[i];
        return load(t);
    }
    static VS_INLINE Vec load_where(const float* p, const uint8_t* wanted, float fill) {
        float t[N];
        for (int i = 0; i < N; ++i) t[i] = wanted[i] ? p[i] : fill;
        return load(t);
    }
    VS_INLINE void store(float* p) const { _mm_storeu_ps(p, v); }
    // Past the caches; p on a vector's boundary.
    VS_INLINE void stream(float* p) const { _mm_stream_ps(p, v); }
    VS_INLINE void store_part(float* p, int m) const {
        if (m >= 4) return store(p);
        float t[4];
        store(t);
        for (int i = 0; i < m; ++i) p[i] = t[i];
    }
    VS_INLINE Vec first(int m) const {
        const __m128i live = _mm_cmplt_epi32(_mm_setr_epi32(0, 1, 2, 3), _mm_set1_epi32(m));
        return {_mm_and_ps(_mm_castsi128_ps(live), v)};
    }
    friend VS_INLINE Vec operator+(Vec a, Vec b) { return {_mm_add_ps(a.v, b.v)}; }
    friend VS_INLINE Vec operator-(Vec a, Vec b) { return {_mm_sub_ps(a.v, b.v)}; }
    friend VS_INLINE Vec operator*(Vec a, Vec b) { return {_mm_mul_ps(a.v, b.v)}; }
    friend VS_INLINE Vec operator/(Vec a, Vec b) { return {_mm_div_ps(a.v, b.v)}; }
    static VS_INLINE Vec fma(Vec a, Vec b, Vec c) { return a * b + c; }
    static VS_INLINE Vec max(Vec a, Vec b) { return {_mm_max_ps(a.v, b.v)}; }
    static VS_INLINE Vec min(Vec a, Vec b) { return {_mm_min_ps(a.v, b.v)}; }
    static VS_INLINE Vec where_positive(Vec a, Vec b, Vec x) {
        const __m128 z = _mm_setzero_ps();
        return {_mm_and_ps(_mm_and_ps(_mm_cmpgt_ps(a.v, z), _mm_cmpgt_ps(b.v, z)), x.v)};
    }
    static VS_INLINE Vec where_ge(Vec a, Vec limit, Vec x) {
        return {_mm_and_ps(_mm_cmpge_ps(a.v, limit.v), x.v)};
    }
    // x where a == b, else 0.
    static VS_INLINE Vec where_equal(Vec a, Vec b, Vec x) {
        return {_mm_and_ps(_mm_cmpeq_ps(a.v, b.v), x.v)};
    }
    static VS_INLINE Vec where_bit(unsigned bits, Vec x) {
        const __m128i own = _mm_setr_epi32(1, 2, 4, 8);
        const __m128i all = _mm_set1_epi32(static_cast<int32_t>(bits));
        const __m128i k = _mm_cmpeq_epi32(_mm_and_si128(all, own), own);
        return {_mm_and_ps(_mm_castsi128_ps(k), x.v)};
    }
    static VS_INLINE Vec round(Vec a) {
        return {_mm_round_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
    }
    static VS_INLINE Vec scale2(Vec p, Vec n) {
        const __m128i i = _mm_cvtps_epi32(n.v);
        return {_mm_castsi128_ps(_mm_add_epi32(_mm_castps_si128(p.v), _mm_slli_epi32(i, 23)))};
    }
    // p * 2**n where that is a normal number, t = n + 1.5 * 2**52 in doubles.
    static VS_INLINE Vec scale2(Vec p, const Vec<double>* t) {
        const __m128i i =
            _mm_castps_si128(_mm_shuffle_ps(_mm_castpd_ps(t[0].v), _mm_castpd_ps(t[1].v), 0x88));
        return {_mm_castsi128_ps(_mm_add_epi32(_mm_castps_si128(p.v), _mm_slli_epi32(i, 23)))};
    }
    // 2^-e of the exponents e.
    VS_INLINE Vec over_power() const {
        const __m128i field = _mm_set1_epi32(0x7f800000), twice = _mm_set1_epi32(254 << 23);
        const __m128i power = _mm_and_si128(_mm_castps_si128(v), field);
        return {_mm_castsi128_ps(_mm_sub_epi32(twice, power))};
    }
    VS_INLINE float hsum() const {
        const __m128 s = _mm_add_ps(v, _mm_movehl_ps(v, v));
        return _mm_cvtss_f32(_mm_add_ss(s, _mm_shuffle_ps(s, s, 1)));
    }
    VS_INLINE float hmax() const {
        const __m128 s = _mm_max_ps(v, _mm_movehl_ps(v, v));
        return _mm_cvtss_f32(_mm_max_ss(s, _mm_shuffle_ps(s, s, 1)));
    }
    VS_INLINE unsigned ge(Vec limit) const {
        return static_cast<unsigned>(_mm_movemask_ps(_mm_cmpge_ps(v, limit.v)));
    }
    VS_INLINE bool any_bad() const {
        return _mm_movemask_ps(_mm_cmpnle_ps(v, _mm_set1_ps(3.402823466e+38f))) != 0;
    }
};

template <class T>
using Tail = Vec<T>;

}  // namespace VS_NS
