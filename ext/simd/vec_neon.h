// arm64: 128-bit vectors with FMA, 32 registers.
#pragma once

#include <arm_neon.h>

namespace VS_NS {

constexpr int kTileUnits = 6;
constexpr int kTileUnitsOne = 6;
constexpr int kMaxRows = 4;

// After the last stream() of a task: what it wrote is seen by whoever waits for the task.
VS_INLINE void stream_fence() {}

template <class T>
struct Vec;

template <>
struct Vec<double> {
    static constexpr int N = 2;
    float64x2_t v;
    static VS_INLINE Vec set1(double x) { return {vdupq_n_f64(x)}; }
    static VS_INLINE Vec low(Vec x) { return x; }
    static VS_INLINE Vec load(const double* p) { return {vld1q_f64(p)}; }
    static VS_INLINE Vec load_part(const double* p, int m, double fill) {
        return m >= 2 ? load(p) : Vec{vsetq_lane_f64(p[0], vdupq_n_f64(fill), 0)};
    }
    // p where a byte is wanted, else fill.
    static VS_INLINE Vec load_where(const double* p, const uint8_t* wanted, double fill) {
        double t[N];
        for (int i = 0; i < N; ++i) t[i] = wanted[i] ? p[i] : fill;
        return load(t);
    }
    static VS_INLINE Vec gather(const double* p, const int32_t* at) {
        return {vsetq_lane_f64(p[at[1]], vdupq_n_f64(p[at[0]]), 1)};
    }
    VS_INLINE void store(double* p) const { vst1q_f64(p, v); }
    VS_INLINE void stream(double* p) const { store(p); }
    VS_INLINE void store_part(double* p, int m) const {
        if (m >= 2) {
            store(p);
        } else {
            vst1q_lane_f64(p, v, 0);
        }
    }
    // 0 beyond m lanes.
    VS_INLINE Vec first(int m) const { return m >= 2 ? *this : Vec{vsetq_lane_f64(0.0, v, 1)}; }
    friend VS_INLINE Vec operator+(Vec a, Vec b) { return {vaddq_f64(a.v, b.v)}; }
    friend VS_INLINE Vec operator-(Vec a, Vec b) { return {vsubq_f64(a.v, b.v)}; }
    friend VS_INLINE Vec operator*(Vec a, Vec b) { return {vmulq_f64(a.v, b.v)}; }
    friend VS_INLINE Vec operator/(Vec a, Vec b) { return {vdivq_f64(a.v, b.v)}; }
    static VS_INLINE Vec fma(Vec a, Vec b, Vec c) { return {vfmaq_f64(c.v, a.v, b.v)}; }
    static VS_INLINE Vec max(Vec a, Vec b) { return {vmaxq_f64(a.v, b.v)}; }
    static VS_INLINE Vec min(Vec a, Vec b) { return {vminq_f64(a.v, b.v)}; }
    static VS_INLINE Vec where_positive(Vec a, Vec b, Vec x) {
        const uint64x2_t k = vandq_u64(vcgtzq_f64(a.v), vcgtzq_f64(b.v));
        return {vreinterpretq_f64_u64(vandq_u64(k, vreinterpretq_u64_f64(x.v)))};
    }
    static VS_INLINE Vec where_ge(Vec a, Vec limit, Vec x) {
        return {
            vreinterpretq_f64_u64(vandq_u64(vcgeq_f64(a.v, limit.v), vreinterpretq_u64_f64(x.v)))};
    }
    // x where a == b, else 0.
    static VS_INLINE Vec where_equal(Vec a, Vec b, Vec x) {
        return {vreinterpretq_f64_u64(vandq_u64(vceqq_f64(a.v, b.v), vreinterpretq_u64_f64(x.v)))};
    }
    // x where a lane has a bit, else 0.
    static VS_INLINE Vec where_bit(unsigned bits, Vec x) {
        const uint64_t own[2] = {1u, 2u};
        const uint64x2_t k = vtstq_u64(vdupq_n_u64(bits), vld1q_u64(own));
        return {vreinterpretq_f64_u64(vandq_u64(k, vreinterpretq_u64_f64(x.v)))};
    }
    static VS_INLINE Vec round(Vec a) { return {vrndnq_f64(a.v)}; }
    static VS_INLINE Vec scale2(Vec p, Vec n) {
        const int64x2_t i = vshlq_n_s64(vcvtq_s64_f64(n.v), 52);
        return {vreinterpretq_f64_s64(vaddq_s64(vreinterpretq_s64_f64(p.v), i))};
    }
    VS_INLINE double hsum() const { return vaddvq_f64(v); }
    VS_INLINE double hmax() const { return vmaxvq_f64(v); }
    // One bit a lane: is it >= limit?
    VS_INLINE unsigned ge(Vec limit) const {
        const uint64x2_t m = vcgeq_f64(v, limit.v);
        return static_cast<unsigned>((vgetq_lane_u64(m, 0) & 1u) | (vgetq_lane_u64(m, 1) & 2u));
    }
    VS_INLINE bool any_bad() const {
        const uint64x2_t ok = vcleq_f64(v, vdupq_n_f64(1.7976931348623157e308));
        return (vgetq_lane_u64(ok, 0) & vgetq_lane_u64(ok, 1)) == 0;
    }
};

template <>
struct Vec<float> {
    static constexpr int N = 4;
    float32x4_t v;
    // From vectors of doubles side by side, and back.
    static VS_INLINE Vec narrow(const Vec<double>* x) {
        return {vcvt_high_f32_f64(vcvt_f32_f64(x[0].v), x[1].v)};
    }
    VS_INLINE void widen(Vec<double>* x) const {
        x[0] = {vcvt_f64_f32(vget_low_f32(v))};
        x[1] = {vcvt_high_f64_f32(v)};
    }
    static VS_INLINE Vec set1(float x) { return {vdupq_n_f32(x)}; }
    static VS_INLINE Vec low(Vec x) { return x; }
    static VS_INLINE Vec load(const float* p) { return {vld1q_f32(p)}; }
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
    VS_INLINE void store(float* p) const { vst1q_f32(p, v); }
    VS_INLINE void stream(float* p) const { store(p); }
    VS_INLINE void store_part(float* p, int m) const {
        if (m >= 4) return store(p);
        float t[4];
        store(t);
        for (int i = 0; i < m; ++i) p[i] = t[i];
    }
    VS_INLINE Vec first(int m) const {
        const uint32_t lane[4] = {0u, 1u, 2u, 3u};
        const uint32x4_t live = vcltq_u32(vld1q_u32(lane), vdupq_n_u32(static_cast<uint32_t>(m)));
        return {vreinterpretq_f32_u32(vandq_u32(live, vreinterpretq_u32_f32(v)))};
    }
    friend VS_INLINE Vec operator+(Vec a, Vec b) { return {vaddq_f32(a.v, b.v)}; }
    friend VS_INLINE Vec operator-(Vec a, Vec b) { return {vsubq_f32(a.v, b.v)}; }
    friend VS_INLINE Vec operator*(Vec a, Vec b) { return {vmulq_f32(a.v, b.v)}; }
    friend VS_INLINE Vec operator/(Vec a, Vec b) { return {vdivq_f32(a.v, b.v)}; }
    static VS_INLINE Vec fma(Vec a, Vec b, Vec c) { return {vfmaq_f32(c.v, a.v, b.v)}; }
    static VS_INLINE Vec max(Vec a, Vec b) { return {vmaxq_f32(a.v, b.v)}; }
    static VS_INLINE Vec min(Vec a, Vec b) { return {vminq_f32(a.v, b.v)}; }
    static VS_INLINE Vec where_positive(Vec a, Vec b, Vec x) {
        const uint32x4_t k = vandq_u32(vcgtzq_f32(a.v), vcgtzq_f32(b.v));
        return {vreinterpretq_f32_u32(vandq_u32(k, vreinterpretq_u32_f32(x.v)))};
    }
    static VS_INLINE Vec where_ge(Vec a, Vec limit, Vec x) {
        return {
            vreinterpretq_f32_u32(vandq_u32(vcgeq_f32(a.v, limit.v), vreinterpretq_u32_f32(x.v)))};
    }
    // x where a == b, else 0.
    static VS_INLINE Vec where_equal(Vec a, Vec b, Vec x) {
        return {vreinterpretq_f32_u32(vandq_u32(vceqq_f32(a.v, b.v), vreinterpretq_u32_f32(x.v)))};
    }
    static VS_INLINE Vec where_bit(unsigned bits, Vec x) {
        const uint32_t own[4] = {1u, 2u, 4u, 8u};
        const uint32x4_t k = vtstq_u32(vdupq_n_u32(bits), vld1q_u32(own));
        return {vreinterpretq_f32_u32(vandq_u32(k, vreinterpretq_u32_f32(x.v)))};
    }
    static VS_INLINE Vec round(Vec a) { return {vrndnq_f32(a.v)}; }
    static VS_INLINE Vec scale2(Vec p, Vec n) {
        const int32x4_t i = vshlq_n_s32(vcvtq_s32_f32(n.v), 23);
        return {vreinterpretq_f32_s32(vaddq_s32(vreinterpretq_s32_f32(p.v), i))};
    }
    VS_INLINE float hsum() const { return vaddvq_f32(v); }
    VS_INLINE float hmax() const { return vmaxvq_f32(v); }
    VS_INLINE unsigned ge(Vec limit) const {
        const uint32_t bit[4] = {1u, 2u, 4u, 8u};
        return vaddvq_u32(vandq_u32(vcgeq_f32(v, limit.v), vld1q_u32(bit)));
    }
    VS_INLINE bool any_bad() const {
        return vminvq_u32(vcleq_f32(v, vdupq_n_f32(3.402823466e+38f))) == 0;
    }
};

template <class T>
using Tail = Vec<T>;

}  // namespace VS_NS
