// Plain C++: one lane, for machines without a level of their own.
#pragma once

#include <cmath>

namespace VS_NS {

constexpr int kTileUnits = 8;
constexpr int kTileUnitsOne = 8;
constexpr int kMaxRows = 2;

// After the last stream() of a task: what it wrote is seen by whoever waits for the task.
VS_INLINE void stream_fence() {}

template <class T>
struct Vec {
    static constexpr int N = 1;
    T v;
    // From doubles, and back.
    static VS_INLINE Vec narrow(const Vec<double>* x) { return {static_cast<T>(x->v)}; }
    VS_INLINE void widen(Vec<double>* x) const { x->v = static_cast<double>(v); }
    static VS_INLINE Vec set1(T x) { return {x}; }
    static VS_INLINE Vec low(Vec x) { return x; }
    static VS_INLINE Vec load(const T* p) { return {*p}; }
    static VS_INLINE Vec load_part(const T* p, int, T) { return {*p}; }
    // p where a byte is wanted, else fill.
    static VS_INLINE Vec load_where(const T* p, const uint8_t* wanted, T fill) {
        return {*wanted ? *p : fill};
    }
    static VS_INLINE Vec gather(const T* p, const int32_t* at) { return {p[*at]}; }
    VS_INLINE void store(T* p) const { *p = v; }
    VS_INLINE void stream(T* p) const { store(p); }
    VS_INLINE void store_part(T* p, int) const { *p = v; }
    VS_INLINE Vec first(int) const { return *this; }
    friend VS_INLINE Vec operator+(Vec a, Vec b) { return {a.v + b.v}; }
    friend VS_INLINE Vec operator-(Vec a, Vec b) { return {a.v - b.v}; }
    friend VS_INLINE Vec operator*(Vec a, Vec b) { return {a.v * b.v}; }
    friend VS_INLINE Vec operator/(Vec a, Vec b) { return {a.v / b.v}; }
    static VS_INLINE Vec fma(Vec a, Vec b, Vec c) { return {a.v * b.v + c.v}; }
    static VS_INLINE Vec max(Vec a, Vec b) { return {a.v > b.v ? a.v : b.v}; }
    static VS_INLINE Vec min(Vec a, Vec b) { return {a.v < b.v ? a.v : b.v}; }
    static VS_INLINE Vec where_positive(Vec a, Vec b, Vec x) {
        return {a.v > T(0) && b.v > T(0) ? x.v : T(0)};
    }
    static VS_INLINE Vec where_ge(Vec a, Vec limit, Vec x) { return {a.v >= limit.v ? x.v : T(0)}; }
    // x where a == b, else 0.
    static VS_INLINE Vec where_equal(Vec a, Vec b, Vec x) { return {a.v == b.v ? x.v : T(0)}; }
    // x where a lane has a bit, else 0.
    static VS_INLINE Vec where_bit(unsigned bits, Vec x) { return {bits & 1u ? x.v : T(0)}; }
    static VS_INLINE Vec round(Vec a) { return {std::nearbyint(a.v)}; }
    static VS_INLINE Vec scale2(Vec p, Vec n) { return {std::ldexp(p.v, static_cast<int>(n.v))}; }
    VS_INLINE T hsum() const { return v; }
    VS_INLINE T hmax() const { return v; }
    // One bit a lane: is it >= limit?
    VS_INLINE unsigned ge(Vec limit) const { return v >= limit.v ? 1u : 0u; }
    VS_INLINE bool any_bad() const {
        return !(v <= (sizeof(T) == 8 ? T(1.7976931348623157e308) : T(3.402823466e+38f)));
    }
};

template <class T>
using Tail = Vec<T>;

}  // namespace VS_NS
