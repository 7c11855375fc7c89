// Verbs on one row of K numbers. Buffers have space for whole vectors and zeros beyond K;
// rows of the caller's arrays (In, Out) have not, and are touched up to K only.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "simd/each.h"
#include "simd/math.h"

namespace VS_NS {

// The smallest value that a reachable entry of a message may take, and (double only) the
// smallest local mass that proves the entries held there did not matter; see Linear in linear.h.
template <class T>
struct Floor;
template <>
struct Floor<double> {
    static constexpr double kMessage = 1e-150, kTransitionLog = -345.0;
    static constexpr double kTrust = 1e-110;
    static constexpr int kNormaliseEvery = 4;
};
template <>
struct Floor<float> {
    static constexpr float kMessage = 1e-19f, kTransitionLog = -41.0f;
    static constexpr float kTransition = 1.6e-18f;
    static constexpr float kTolerance = 1e-9f;  // of one position
    static constexpr double kMostAdded = 1e-7;  // of a sequence
    static constexpr int kNormaliseEvery = 1;
};

VS_INLINE int exponent_of(double x) {
    uint64_t u;
    std::memcpy(&u, &x, 8);
    return static_cast<int>((u >> 52) & 0x7ff) - 1023;
}
VS_INLINE int exponent_of(float x) {
    uint32_t u;
    std::memcpy(&u, &x, 4);
    return static_cast<int>((u >> 23) & 0xff) - 127;
}
VS_INLINE double power_of_two(int e, double) {
    const uint64_t u = static_cast<uint64_t>(e + 1023) << 52;
    double x;
    std::memcpy(&x, &u, 8);
    return x;
}
VS_INLINE float power_of_two(int e, float) {
    const uint32_t u = static_cast<uint32_t>(e + 127) << 23;
    float x;
    std::memcpy(&x, &u, 4);
    return x;
}

template <class T>
VS_INLINE T row_max(const T* x, int K) {
    using V = Vec<T>;
    const T lowest = -static_cast<T>(INFINITY);
    V m = V::set1(lowest);
    int k = 0;
    for (; k + V::N <= K; k += V::N) m = V::max(m, V::load(x + k));
    if (k < K) m = V::max(m, V::load_part(x + k, K - k, lowest));
    return m.hmax();
}

// row_max of any number of entries, in chains that do not wait for each other.
template <class T>
VS_INLINE T largest_of(const T* x, int64_t n) {
    using V = Vec<T>;
    const T lowest = -static_cast<T>(INFINITY);
    V p[4];
    each<4>([&](auto j) VS_INLINE_LAMBDA { p[j] = V::set1(lowest); });
    int64_t i = 0;
    for (; i + 4 * V::N <= n; i += 4 * V::N) {
        each<4>([&](auto j) VS_INLINE_LAMBDA { p[j] = V::max(p[j], V::load(x + i + j * V::N)); });
    }
    for (; i + V::N <= n; i += V::N) p[0] = V::max(p[0], V::load(x + i));
    if (i < n) p[1] = V::max(p[1], V::load_part(x + i, static_cast<int>(n - i), lowest));
    return V::max(V::max(p[0], p[1]), V::max(p[2], p[3])).hmax();
}

template <class T>
VS_INLINE T row_min(const T* x, int K) {
    using V = Vec<T>;
    V low = V::set1(x[0]);
    int k = 0;
    for (; k + V::N <= K; k += V::N) low = V::min(low, V::load(x + k));
    if (k < K) low = V::min(low, V::load_part(x + k, K - k, x[0]));
    T part[V::N];
    low.store(part);
    for (int i = 1; i < V::N; ++i) part[0] = part[i] < part[0] ? part[i] : part[0];
    return part[0];
}

// row_max; `plain`: no entry is -inf.
template <class T>
VS_INLINE T row_top(const T* x, int K, bool* plain) {
    using V = Vec<T>;
    V high = V::set1(-static_cast<T>(INFINITY)), low = V::set1(static_cast<T>(INFINITY));
    int k = 0;
    for (; k + V::N <= K; k += V::N) {
        const V v = V::load(x + k);
        high = V::max(high, v);
        low = V::min(low, v);
    }
    if (k < K) {
        const V v = V::load_part(x + k, K - k, x[0]);
        high = V::max(high, v);
        low = V::min(low, v);
    }
    *plain = low.ge(V::set1(ExpConst<T>::kMostNegative)) == (1u << V::N) - 1u;
    return high.hmax();
}

// Verbs have a PLAIN variant for rows without forbidden labels, without the masks that keep zeros
// zero; the pads of the last, partial vector are zeroed by its number of lanes. Same bits.
template <bool B>
struct Flag {
    static constexpr bool value = B;
};
// f(k, m, whole): m lanes from k on; `whole` is true, at compile time, where m is all of them.
template <class T, class F>
VS_INLINE void for_row(int K, F f) {
    using V = Vec<T>;
    int k = 0;
    for (; k + V::N <= K; k += V::N) f(k, V::N, Flag<true>());
    if (k < K) f(k, K - k, Flag<false>());
}
// exp(x[k..k+m) - shift), 0 beyond m.
template <class T, bool PLAIN, bool WHOLE>
VS_INLINE Vec<T> exp_scores(const T* x, int m, T shift, Vec<T> s) {
    using V = Vec<T>;
    if (PLAIN) {
        const V e = exp_floor<T>((WHOLE ? V::load(x) : V::load_part(x, m, shift)) - s);
        return WHOLE ? e : e.first(m);
    }
    return exp_shifted<T>(WHOLE ? V::load(x) : V::load_part(x, m, -static_cast<T>(INFINITY)), s);
}

// psi[k] = exp(x[k] - shift); returns the sum.
template <class T, bool PLAIN>
VS_INLINE T row_exp(const T* x, int K, T shift, T* psi) {
    using V = Vec<T>;
    const V s = V::set1(shift);
    V sum = V::set1(T(0));
    for_row<T>(K, [&](int k, int m, auto whole) VS_INLINE_LAMBDA {
        const V e = exp_scores<T, PLAIN, whole.value>(x + k, m, shift, s);
        e.store(psi + k);
        sum = sum + e;
    });
    return sum.hsum();
}

// psi[k] = exp(x[k] - shift), x in float64, finite entries held at exp(low).
template <bool PLAIN>
VS_INLINE void row_exp_narrow(const double* x, int K, double shift, double low, float* psi) {
    using V = Vec<double>;
    const V s = V::set1(shift), least = V::set1(low);
    V part[kParts];
    for_row<float>(K, [&](int k, int m, auto whole) VS_INLINE_LAMBDA {
        for (int i = 0; i < kParts; ++i) {
            const int at = i * V::N;
            part[i] = whole.value || at + V::N <= m ? V::load(x + k + at)
                      : at < m                      ? V::load_part(x + k + at, m - at, shift)
                                                    : s;
        }
        const Vec<float> e = exp_narrow<PLAIN>(part, s, least);
        (whole.value ? e : e.first(m)).store(psi + k);
    });
}

// The largest entry and the sum of a row.
template <class T>
struct Share {
    T max, sum;
};

// psi * y, reachable entries held at the floor, 0 beyond m lanes.
template <class T, bool PLAIN, bool WHOLE>
VS_INLINE Vec<T> floored(Vec<T> psi, Vec<T> y, Vec<T> product, Vec<T> floor, int m) {
    const Vec<T> held = Vec<T>::max(product, floor);
    if (PLAIN) return WHOLE ? held : held.first(m);
    return Vec<T>::where_positive(psi, y, held);
}

template <class T, bool PLAIN>
VS_INLINE void row_absorb(const T* psi, const T* y, int K, T* out) {
    using V = Vec<T>;
    const V floor = V::set1(Floor<T>::kMessage);
    for_row<T>(K, [&](int k, int m, auto whole) VS_INLINE_LAMBDA {
        const V a = V::load(psi + k), b = V::load(y + k);
        floored<T, PLAIN, whole.value>(a, b, a * b, floor, m).store(out + k);
    });
}

// The second half of scaling: out = psi * y * 2^-e with e the exponent of `top`, the largest
// product; returns e.
template <class T, bool PLAIN>
VS_INLINE int row_absorb_by(const T* psi, const T* y, int K, T top, T* out) {
    using V = Vec<T>;
    const V floor = V::set1(Floor<T>::kMessage);
    const int e = top > T(0) ? exponent_of(top) : 0;
    const V scale = V::set1(power_of_two(-e, T(0)));
    for_row<T>(K, [&](int k, int m, auto whole) VS_INLINE_LAMBDA {
        const V a = V::load(psi + k), b = V::load(y + k);
        floored<T, PLAIN, whole.value>(a, b, a * b * scale, floor, m).store(out + k);
    });
    return e;
}

// out = psi * y, scaled by a power of two so that the largest lies in [1, 2); returns the exponent
// taken out. Share (SHARE only): of psi * y before.
template <class T, bool PLAIN, bool SHARE>
VS_INLINE int row_absorb_scaled(const T* psi, const T* y, int K, T* out, Share<T>* share) {
    using V = Vec<T>;
    V top = V::set1(T(0)), sum = top;
    for (int k = 0; k < K; k += V::N) {
        const V z = V::load(psi + k) * V::load(y + k);
        top = V::max(top, z);
        if (SHARE) sum = sum + z;
    }
    const T m = top.hmax();
    if (SHARE) *share = {m, sum.hsum()};
    return row_absorb_by<T, PLAIN>(psi, y, K, m, out);
}

// row_exp and row_absorb (SCALED: row_absorb_scaled) in one sweep: psi and out = psi * y.
template <class T, bool PLAIN, bool SCALED>
VS_INLINE int row_exp_absorb(const T* x, int K, T shift, const T* y, T* psi, T* out) {
    using V = Vec<T>;
    const V s = V::set1(shift), floor = V::set1(Floor<T>::kMessage);
    V top = V::set1(T(0));
    for_row<T>(K, [&](int k, int m, auto whole) VS_INLINE_LAMBDA {
        const V e = exp_scores<T, PLAIN, whole.value>(x + k, m, shift, s);
        const V b = V::load(y + k), z = e * b;
        e.store(psi + k);
        if (SCALED) {
            top = V::max(top, z);
        } else {
            floored<T, PLAIN, whole.value>(e, b, z, floor, m).store(out + k);
        }
    });
    return SCALED ? row_absorb_by<T, PLAIN>(psi, y, K, top.hmax(), out) : 0;
}

// out = exp(x - shift) * out, scaled as by row_absorb_scaled; returns the exponent taken out.
// READY: x is a buffer that has the exponentials already.
template <class T, bool PLAIN, bool READY = false>
VS_INLINE int row_exp_into(const T* x, int K, T shift, T* out) {
    using V = Vec<T>;
    const V s = V::set1(shift), least = V::set1(std::numeric_limits<T>::min());
    const V floor = V::set1(Floor<T>::kMessage);
    V top = V::set1(T(0));
    for_row<T>(K, [&](int k, int m, auto whole) VS_INLINE_LAMBDA {
        const V b = V::load(out + k);
        const V e = READY ? V::load(x + k) : exp_scores<T, PLAIN, whole.value>(x + k, m, shift, s);
        V z = e * b;
        if (!PLAIN) z = V::where_positive(e, b, V::max(z, least));  // what is reachable is no zero
        top = V::max(top, z);
        z.store(out + k);
    });
    const T high = top.hmax();
    const int ex = high > T(0) ? exponent_of(high) : 0;
    const V scale = V::set1(power_of_two(-ex, T(0)));
    for_row<T>(K, [&](int k, int m, auto whole) VS_INLINE_LAMBDA {
        const V z = V::load(out + k);
        floored<T, PLAIN, whole.value>(z, z, z * scale, floor, m).store(out + k);
    });
    return ex;
}

// out = out * y.
template <class T>
VS_INLINE void row_times(T* out, const T* y, int K) {
    using V = Vec<T>;
    for (int k = 0; k < K; k += V::N) (V::load(out + k) * V::load(y + k)).store(out + k);
}

// p = a * b, with sums and maximum; p goes to a caller's row of K.
template <class T>
struct Product {
    T sum, max, sum_a, sum_b;
};

// PART: a and b are rows of K, not padded. p is a buffer.
template <class T, bool PART>
VS_INLINE Product<T> row_product(const T* a, const T* b, int K, T* p) {
    using V = Vec<T>;
    V s = V::set1(T(0)), sa = s, sb = s;
    auto step = [&](V x, V y, int k) {
        const V z = x * y;
        z.store(p + k);
        s = s + z;
        if (sizeof(T) == 4) {
            sa = sa + x;
            sb = sb + y;
        }
    };
    int k = 0;
    for (; k + (PART ? V::N : 1) <= K; k += V::N) step(V::load(a + k), V::load(b + k), k);
    if (k < K) {
        step(V::load_part(a + k, K - k, T(0)), V::load_part(b + k, K - k, T(0)), k);
    }
    return {s.hsum(), T(0), sizeof(T) == 4 ? sa.hsum() : T(0), sizeof(T) == 4 ? sb.hsum() : T(0)};
}

// row_product of padded rows, and the message that goes on: out = psi * b (SCALED: as above).
template <class T, bool PLAIN, bool SCALED>
VS_INLINE Product<T> row_product_absorb(const T* a, const T* b, const T* psi, int K, T* p, T* out,
                                        int* exponent) {
    using V = Vec<T>;
    const V floor = V::set1(Floor<T>::kMessage);
    V s = V::set1(T(0)), sa = s, sb = s, top = s;
    for_row<T>(K, [&](int k, int m, auto whole) VS_INLINE_LAMBDA {
        const V x = V::load(a + k), y = V::load(b + k), u = V::load(psi + k);
        const V z = x * y, g = u * y;
        z.store(p + k);
        s = s + z;
        if (sizeof(T) == 4) {
            sa = sa + x;
            sb = sb + y;
        }
        if (SCALED) {
            top = V::max(top, g);
        } else {
            floored<T, PLAIN, whole.value>(u, y, g, floor, m).store(out + k);
        }
    });
    *exponent = SCALED ? row_absorb_by<T, PLAIN>(psi, b, K, top.hmax(), out) : 0;
    return {s.hsum(), T(0), sizeof(T) == 4 ? sa.hsum() : T(0), sizeof(T) == 4 ? sb.hsum() : T(0)};
}

// out = p * factor; out is a caller's row of K, written once. STREAM: whole vectors, past the
// caches.
template <class T, bool STREAM = false>
VS_INLINE void row_scale_out(const T* p, int K, T factor, T* out) {
    using V = Vec<T>;
    const V f = V::set1(factor);
    int k = 0;
    if (STREAM) {
        for (; k < K; k += V::N) (V::load(p + k) * f).stream(out + k);
        return;
    }
    for (; k + V::N <= K; k += V::N) (V::load(p + k) * f).store(out + k);
    if (k < K) (V::load(p + k) * f).store_part(out + k, K - k);
}

// The same into a row in float64.
template <bool STREAM = false>
VS_INLINE void row_widen_out(const float* p, int K, float factor, double* out) {
    using V = Vec<double>;
    const Vec<float> f = Vec<float>::set1(factor);
    V part[kParts];
    int k = 0;
    for (; k + Vec<float>::N <= K; k += Vec<float>::N) {
        (Vec<float>::load(p + k) * f).widen(part);
        for (int i = 0; i < kParts; ++i) {
            STREAM ? part[i].stream(out + k + i * V::N) : part[i].store(out + k + i * V::N);
        }
    }
    if (k >= K) return;
    (Vec<float>::load(p + k) * f).widen(part);
    for (int i = 0; k < K; ++i, k += V::N) {
        K - k < V::N ? part[i].store_part(out + k, K - k) : part[i].store(out + k);
    }
}

// out = a / u where u > 0, else 0: what is left of a product when one factor is taken back out.
// Returns the largest entries. SCALED: multiplied by 2^-e, e the exponent of `top`.
template <class T, bool PLAIN, bool SCALED>
VS_INLINE Vec<T> row_quotient(const T* a, const T* u, int K, T top, T* out) {
    using V = Vec<T>;
    const V scale = V::set1(SCALED ? power_of_two(-exponent_of(top), T(0)) : T(1));
    V high = V::set1(T(0));
    for_row<T>(K, [&](int k, int m, auto whole) VS_INLINE_LAMBDA {
        const V x = V::load(a + k), y = V::load(u + k);
        V q = x / y;
        if (!PLAIN) {
            q = V::where_positive(x, y, q);
        } else if (!whole.value) {
            q = q.first(m);
        }
        if (SCALED) q = q * scale;
        high = V::max(high, q);
        q.store(out + k);
    });
    return high;
}

// Does an entry of a buffer lie in [low, high)? low > 0.
template <class T>
VS_INLINE bool row_within(const T* x, int K, T low, T high) {
    using V = Vec<T>;
    const V from = V::set1(low), to = V::set1(high);
    V below = V::set1(T(0));  // by how much
    for (int k = 0; k < K; k += V::N) {
        const V v = V::load(x + k);
        below = V::max(below, V::where_ge(v, from, to - v));
    }
    return below.ge(V::set1(std::numeric_limits<T>::min())) != 0;
}

// Is an entry of a scaled product held at the floor (see row_absorb)?
template <class T>
VS_INLINE bool row_held(const T* x, int K) {
    return row_within(x, K, Floor<T>::kMessage, Floor<T>::kMessage * T(1.001));
}

// Asks for the cache lines of a row that will be read (written) soon.
template <class T>
VS_INLINE void row_prefetch(const T* x, int64_t K) {
    for (int64_t k = 0; k < K; k += static_cast<int64_t>(64 / sizeof(T))) VS_PREFETCH_READ(x + k);
}
template <class T>
VS_INLINE void row_prefetch_write(const T* x, int K) {
    for (int k = 0; k < K; k += static_cast<int>(64 / sizeof(T))) VS_PREFETCH_WRITE(x + k);
}

// The same for a row with no neighbour to be read next: all its lines, wherever it begins.
template <class T>
VS_INLINE void row_prefetch_alone(const T* x, int K, bool write) {
    write ? row_prefetch_write(x, K) : row_prefetch(x, K);
    if (write) {
        VS_PREFETCH_WRITE(x + K - 1);
    } else {
        VS_PREFETCH_READ(x + K - 1);
    }
}

// The lowest index of a value >= limit; K when there is none. One branch per 64 values: where
// the value lies is not for a branch to guess.
template <class T>
VS_INLINE int row_find(const T* x, int K, T limit) {
    using V = Vec<T>;
    const V v = V::set1(limit);
    for (int base = 0; base < K; base += 64) {
        uint64_t found = 0;
        int k = base;
        for (; k + V::N <= K && k < base + 64; k += V::N) {
            found |= static_cast<uint64_t>(V::load(x + k).ge(v)) << (k - base);
        }
        if (k < K && k < base + 64) {
            const V last = V::load_part(x + k, K - k, -static_cast<T>(INFINITY));
            const unsigned live = (1u << (K - k)) - 1u;
            found |= static_cast<uint64_t>(last.ge(v) & live) << (k - base);
        }
        if (found) return base + vs_first_bit(found);
    }
    return K;
}

template <class T>
VS_INLINE int row_argmax(const T* x, int K) {  // the lowest index of the largest value
    return row_find(x, K, row_max(x, K));
}

// p = psi * m[0] * ... * m[count - 1], nothing held at a floor; sum_a: without the last.
template <class T>
VS_INLINE Product<T> row_times_all(const T* psi, const T* const* m, int count, int K, T* p) {
    using V = Vec<T>;
    V s = V::set1(T(0)), top = s, sa = s;
    for (int k = 0; k < K; k += V::N) {
        V z = V::load(psi + k);
        for (int i = 0; i + 1 < count; ++i) z = z * V::load(m[i] + k);
        if (sizeof(T) == 4) sa = sa + z;
        if (count > 0) z = z * V::load(m[count - 1] + k);
        z.store(p + k);
        s = s + z;
        top = V::max(top, z);
    }
    return {s.hsum(), top.hmax(), sizeof(T) == 4 ? sa.hsum() : T(0), T(0)};
}

// p = psi * f * b with psi * f held at the floor (see row_absorb); p is a buffer.
template <class T, bool PLAIN, bool MAX>
VS_INLINE Product<T> row_product3(const T* psi, const T* f, const T* b, int K, T* p) {
    using V = Vec<T>;
    const V floor = V::set1(Floor<T>::kMessage);
    V s = V::set1(T(0)), top = s, sa = s, sb = s;
    for_row<T>(K, [&](int k, int m, auto whole) VS_INLINE_LAMBDA {
        const V u = V::load(psi + k), v = V::load(f + k), y = V::load(b + k);
        const V x = floored<T, PLAIN, whole.value>(u, v, u * v, floor, m), z = x * y;
        z.store(p + k);
        s = s + z;
        if (MAX) top = V::max(top, z);
        if (sizeof(T) == 4) {
            sa = sa + x;
            sb = sb + y;
        }
    });
    return {s.hsum(), MAX ? top.hmax() : T(0), sizeof(T) == 4 ? sa.hsum() : T(0),
            sizeof(T) == 4 ? sb.hsum() : T(0)};
}

}  // namespace VS_NS
