// x86-64-v4: 512-bit vectors, 32 registers; the tail is a 256-bit vector, which costs half.
#pragma once

// GCC's own header, before GCC 13, makes the vectors that it calls undefined from themselves.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

namespace VS_NS {

constexpr int kTileUnits = 6;     // accumulator columns of a tile when there are several tiles
constexpr int kTileUnitsOne = 7;  // ... when one tile holds all columns
constexpr int kMaxRows = 4;

// After the last stream() of a task: what it wrote is seen by whoever waits for the task.
VS_INLINE void stream_fence() { _mm_sfence(); }

template <class T>
struct Vec;
template <class T>
struct Tail;

template <>
struct Vec<double> {
    static constexpr int N = 8;
    __m512d v;
    static VS_INLINE __mmask8 mask(int m) { return static_cast<__mmask8>((1u << m) - 1u); }
    static VS_INLINE Vec set1(double x) { return {_mm512_set1_pd(x)}; }
    static VS_INLINE Vec load(const double* p) { return {_mm512_loadu_pd(p)}; }
    static VS_INLINE Vec load_part(const double* p, int m, double fill) {
        return {_mm512_mask_loadu_pd(_mm512_set1_pd(fill), mask(m), p)};
    }
    // p where a byte is wanted, else fill.
    static VS_INLINE Vec load_where(const double* p, const uint8_t* wanted, double fill) {
        const __m128i b = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(wanted));
        const __mmask8 k = static_cast<__mmask8>(_mm_test_epi8_mask(b, b));
        return {_mm512_mask_loadu_pd(_mm512_set1_pd(fill), k, p)};
    }
    static VS_INLINE Vec gather(const double* p, const int32_t* at) {
        return {
            _mm512_i32gather_pd(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)), p, 8)};
    }
    VS_INLINE void store(double* p) const { _mm512_storeu_pd(p, v); }
    // Past the caches; p on a vector's boundary.
    VS_INLINE void stream(double* p) const { _mm512_stream_pd(p, v); }
    VS_INLINE void store_part(double* p, int m) const { _mm512_mask_storeu_pd(p, mask(m), v); }
    // 0 beyond m lanes.
    VS_INLINE Vec first(int m) const { return {_mm512_maskz_mov_pd(mask(m), v)}; }
    friend VS_INLINE Vec operator+(Vec a, Vec b) { return {_mm512_add_pd(a.v, b.v)}; }
    friend VS_INLINE Vec operator-(Vec a, Vec b) { return {_mm512_sub_pd(a.v, b.v)}; }
    friend VS_INLINE Vec operator*(Vec a, Vec b) { return {_mm512_mul_pd(a.v, b.v)}; }
    friend VS_INLINE Vec operator/(Vec a, Vec b) { return {_mm512_div_pd(a.v, b.v)}; }
    static VS_INLINE Vec fma(Vec a, Vec b, Vec c) { return {_mm512_fmadd_pd(a.v, b.v, c.v)}; }
    // _mm512_max_pd returns the second operand when the first is NaN: inputs hold no NaN.
    static VS_INLINE Vec max(Vec a, Vec b) { return {_mm512_max_pd(a.v, b.v)}; }
    static VS_INLINE Vec min(Vec a, Vec b) { return {_mm512_min_pd(a.v, b.v)}; }
    // x where both a > 0 and b > 0, else 0.
    static VS_INLINE Vec where_positive(Vec a, Vec b, Vec x) {
        const __m512d z = _mm512_setzero_pd();
        const __mmask8 k = _mm512_cmp_pd_mask(a.v, z, _CMP_GT_OQ);
        return {_mm512_maskz_mov_pd(_mm512_mask_cmp_pd_mask(k, b.v, z, _CMP_GT_OQ), x.v)};
    }
    // x where a >= limit, else 0.
    static VS_INLINE Vec where_ge(Vec a, Vec limit, Vec x) {
        return {_mm512_maskz_mov_pd(_mm512_cmp_pd_mask(a.v, limit.v, _CMP_GE_OQ), x.v)};
    }
    // x where a == b, else 0.
    static VS_INLINE Vec where_equal(Vec a, Vec b, Vec x) {
        return {_mm512_maskz_mov_pd(_mm512_cmp_pd_mask(a.v, b.v, _CMP_EQ_OQ), x.v)};
    }
    // x where a lane has a bit, else 0.
    static VS_INLINE Vec where_bit(unsigned bits, Vec x) {
        return {_mm512_maskz_mov_pd(static_cast<__mmask8>(bits), x.v)};
    }
    static VS_INLINE Vec round(Vec a) {
        return {_mm512_roundscale_pd(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
    }
    // p * 2**n, n integral.
    static VS_INLINE Vec scale2(Vec p, Vec n) { return {_mm512_scalef_pd(p.v, n.v)}; }
    // 2^-e of the exponents e.
    VS_INLINE Vec over_power() const {
        const __m512i field = _mm512_set1_epi64(int64_t{0x7ff} << 52),
                      twice = _mm512_set1_epi64(int64_t{2046} << 52);
        const __m512i power = _mm512_and_si512(_mm512_castpd_si512(v), field);
        return {_mm512_castsi512_pd(_mm512_sub_epi64(twice, power))};
    }
    VS_INLINE double hsum() const { return _mm512_reduce_add_pd(v); }
    VS_INLINE double hmax() const { return _mm512_reduce_max_pd(v); }
    // One bit a lane: is it >= limit?
    VS_INLINE unsigned ge(Vec limit) const { return _mm512_cmp_pd_mask(v, limit.v, _CMP_GE_OQ); }
    // True when a lane is NaN or +inf.
    VS_INLINE bool any_bad() const {
        return _mm512_cmp_pd_mask(v, _mm512_set1_pd(1.7976931348623157e308), _CMP_NLE_UQ) != 0;
    }
};

template <>
struct Vec<float> {
    static constexpr int N = 16;
    __m512 v;
    // From vectors of doubles side by side, and back.
    static VS_INLINE Vec narrow(const Vec<double>* x) {
        return {_mm512_insertf32x8(_mm512_castps256_ps512(_mm512_cvtpd_ps(x[0].v)),
                                   _mm512_cvtpd_ps(x[1].v), 1)};
    }
    VS_INLINE void widen(Vec<double>* x) const {
        x[0] = {_mm512_cvtps_pd(_mm512_castps512_ps256(v))};
        x[1] = {_mm512_cvtps_pd(_mm512_extractf32x8_ps(v, 1))};
    }
    static VS_INLINE __mmask16 mask(int m) { return static_cast<__mmask16>((1u << m) - 1u); }
    static VS_INLINE Vec set1(float x) { return {_mm512_set1_ps(x)}; }
    static VS_INLINE Vec load(const float* p) { return {_mm512_loadu_ps(p)}; }
    static VS_INLINE Vec load_part(const float* p, int m, float fill) {
        return {_mm512_mask_loadu_ps(_mm512_set1_ps(fill), mask(m), p)};
    }
    static VS_INLINE Vec load_where(const float* p, const uint8_t* wanted, float fill) {
        const __m128i b = _mm_loadu_si128(reinterpret_cast<const __m128i*>(wanted));
        return {_mm512_mask_loadu_ps(_mm512_set1_ps(fill), _mm_test_epi8_mask(b, b), p)};
    }
    VS_INLINE void store(float* p) const { _mm512_storeu_ps(p, v); }
    // Past the caches; p on a vector's boundary.
    VS_INLINE void stream(float* p) const { _mm512_stream_ps(p, v); }
    VS_INLINE void store_part(float* p, int m) const { _mm512_mask_storeu_ps(p, mask(m), v); }
    VS_INLINE Vec first(int m) const { return {_mm512_maskz_mov_ps(mask(m), v)}; }
    friend VS_INLINE Vec operator+(Vec a, Vec b) { return {_mm512_add_ps(a.v, b.v)}; }
    friend VS_INLINE Vec operator-(Vec a, Vec b) { return {_mm512_sub_ps(a.v, b.v)}; }
    friend VS_INLINE Vec operator*(Vec a, Vec b) { return {_mm512_mul_ps(a.v, b.v)}; }
    friend VS_INLINE Vec operator/(Vec a, Vec b) { return {_mm512_div_ps(a.v, b.v)}; }
    static VS_INLINE Vec fma(Vec a, Vec b, Vec c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
    static VS_INLINE Vec max(Vec a, Vec b) { return {_mm512_max_ps(a.v, b.v)}; }
    static VS_INLINE Vec min(Vec a, Vec b) { return {_mm512_min_ps(a.v, b.v)}; }
    static VS_INLINE Vec where_positive(Vec a, Vec b, Vec x) {
        const __m512 z = _mm512_setzero_ps();
        const __mmask16 k = _mm512_cmp_ps_mask(a.v, z, _CMP_GT_OQ);
        return {_mm512_maskz_mov_ps(_mm512_mask_cmp_ps_mask(k, b.v, z, _CMP_GT_OQ), x.v)};
    }
    static VS_INLINE Vec where_ge(Vec a, Vec limit, Vec x) {
        return {_mm512_maskz_mov_ps(_mm512_cmp_ps_mask(a.v, limit.v, _CMP_GE_OQ), x.v)};
    }
    // x where a == b, else 0.
    static VS_INLINE Vec where_equal(Vec a, Vec b, Vec x) {
        return {_mm512_maskz_mov_ps(_mm512_cmp_ps_mask(a.v, b.v, _CMP_EQ_OQ), x.v)};
    }
    static VS_INLINE Vec where_bit(unsigned bits, Vec x) {
        return {_mm512_maskz_mov_ps(static_cast<__mmask16>(bits), x.v)};
    }
    static VS_INLINE Vec round(Vec a) {
        return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
    }
    static VS_INLINE Vec scale2(Vec p, Vec n) { return {_mm512_scalef_ps(p.v, n.v)}; }
    // p * 2**n where that is a normal number, t = n + 1.5 * 2**52 in doubles.
    static VS_INLINE Vec scale2(Vec p, const Vec<double>* t) {
        const __m512i low =
            _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
        const __m512i i = _mm512_permutex2var_epi32(_mm512_castpd_si512(t[0].v), low,
                                                    _mm512_castpd_si512(t[1].v));
        return {_mm512_castsi512_ps(
            _mm512_add_epi32(_mm512_castps_si512(p.v), _mm512_slli_epi32(i, 23)))};
    }
    // 2^-e of the exponents e.
    VS_INLINE Vec over_power() const {
        const __m512i field = _mm512_set1_epi32(0x7f800000), twice = _mm512_set1_epi32(254 << 23);
        const __m512i power = _mm512_and_si512(_mm512_castps_si512(v), field);
        return {_mm512_castsi512_ps(_mm512_sub_epi32(twice, power))};
    }
    VS_INLINE float hsum() const { return _mm512_reduce_add_ps(v); }
    VS_INLINE float hmax() const { return _mm512_reduce_max_ps(v); }
    VS_INLINE unsigned ge(Vec limit) const { return _mm512_cmp_ps_mask(v, limit.v, _CMP_GE_OQ); }
    VS_INLINE bool any_bad() const {
        return _mm512_cmp_ps_mask(v, _mm512_set1_ps(3.402823466e+38f), _CMP_NLE_UQ) != 0;
    }
};

// exp(x) for kLeast <= x <= 0: x = (16 m + j) ln(2)/16 + r; 2^(j/16) from a table in two registers,
// exp(r) = 1 + r + r^2 q(r) on |r| <= ln(2)/32 to 2.9e-17, 2^m by the exponent bits.
static VS_INLINE Vec<double> exp_table(Vec<double> x) {
    using V = Vec<double>;
    const __m512d low = _mm512_setr_pd(
        1.0, 1.0442737824274138403, 1.0905077326652576592, 1.1387886347566916537,
        1.1892071150027210667, 1.2418578120734840486, 1.2968395546510096659, 1.3542555469368927283);
    const __m512d high = _mm512_setr_pd(
        1.4142135623730950488, 1.4768261459394993114, 1.5422108254079408236, 1.6104903319492543082,
        1.6817928305074290861, 1.7562521603732994831, 1.8340080864093424635, 1.9152065613971472639);
    const V magic = V::set1(6755399441055744.0);  // 1.5 * 2^52: adding it rounds to an integer
    const V t = V::fma(x, V::set1(23.08312065422341451776), magic);
    const V n = t - magic;
    V r = V::fma(n, V::set1(-0.04332169877307023853), x);
    r = V::fma(n, V::set1(-1.192634330794117385e-11), r);
    const __m512i bits = _mm512_castpd_si512(t.v);
    const V table = {_mm512_permutex2var_pd(low, bits, high)};
    V q = V::fma(V::set1(0.0013889034639665864761), r, V::set1(0.0083334499341071853523));
    q = V::fma(q, r, V::set1(0.041666666664953614554));
    q = V::fma(q, r, V::set1(0.16666666665296222739));
    q = V::fma(q, r, V::set1(0.5));
    const V p = V::fma(q, r * r, r);
    const V e = V::fma(table, p, table);
    const __m512i m = _mm512_slli_epi64(_mm512_srai_epi64(bits, 4), 52);
    return {_mm512_castsi512_pd(_mm512_add_epi64(_mm512_castpd_si512(e.v), m))};
}

template <>
struct Tail<double> {
    static constexpr int N = 4;
    __m256d v;
    static VS_INLINE Tail set1(double x) { return {_mm256_set1_pd(x)}; }
    static VS_INLINE Tail low(Vec<double> x) { return {_mm512_castpd512_pd256(x.v)}; }
    static VS_INLINE Tail load(const double* p) { return {_mm256_loadu_pd(p)}; }
    VS_INLINE void store(double* p) const { _mm256_storeu_pd(p, v); }
    VS_INLINE void store_whole(double* p) const { _mm512_storeu_pd(p, _mm512_zextpd256_pd512(v)); }
    friend VS_INLINE Tail operator+(Tail a, Tail b) { return {_mm256_add_pd(a.v, b.v)}; }
    static VS_INLINE Tail fma(Tail a, Tail b, Tail c) { return {_mm256_fmadd_pd(a.v, b.v, c.v)}; }
    static VS_INLINE Tail max(Tail a, Tail b) { return {_mm256_max_pd(a.v, b.v)}; }
};

template <>
struct Tail<float> {
    static constexpr int N = 8;
    __m256 v;
    static VS_INLINE Tail set1(float x) { return {_mm256_set1_ps(x)}; }
    static VS_INLINE Tail low(Vec<float> x) { return {_mm512_castps512_ps256(x.v)}; }
    static VS_INLINE Tail load(const float* p) { return {_mm256_loadu_ps(p)}; }
    VS_INLINE void store(float* p) const { _mm256_storeu_ps(p, v); }
    VS_INLINE void store_whole(float* p) const { _mm512_storeu_ps(p, _mm512_zextps256_ps512(v)); }
    friend VS_INLINE Tail operator+(Tail a, Tail b) { return {_mm256_add_ps(a.v, b.v)}; }
    static VS_INLINE Tail fma(Tail a, Tail b, Tail c) { return {_mm256_fmadd_ps(a.v, b.v, c.v)}; }
    static VS_INLINE Tail max(Tail a, Tail b) { return {_mm256_max_ps(a.v, b.v)}; }
};

}  // namespace VS_NS
