// Verbs on rows, one number after the other, for an arithmetic A that has plus, times and more:
// c + a b.
#pragma once

#include <cstdint>

#include "simd/each.h"

namespace VS_NS {

template <class A, class T>
struct Serial {
    static constexpr int64_t kLanes = 1, kPad = 1;
    static VS_INLINE void copy(const T* x, T* y, int64_t n) {
        for (int64_t i = 0; i < n; ++i) y[i] = x[i];
    }
    static VS_INLINE T sum(const T* x, int64_t n) {
        T s = A::zero();
        for (int64_t i = 0; i < n; ++i) s = A::plus(s, x[i]);
        return s;
    }
    static VS_INLINE T dot(const T* x, const T* y, int64_t n) {
        T s = A::zero();
        for (int64_t i = 0; i < n; ++i) s = A::more(x[i], y[i], s);
        return s;
    }
    // y += w r, number by number.
    static void add_products(const T* w, const T* r, T* y, int64_t n) {
        for (int64_t i = 0; i < n; ++i) y[i] = A::plus(y[i], A::times(w[i], r[i]));
    }
    // out = w r c, as doubles.
    static void shares(const T* w, const T* r, const T* c, double* out, int64_t n) {
        for (int64_t i = 0; i < n; ++i) {
            out[i] = A::as_double(A::times(w[i], A::times(r[i], c[i])));
        }
    }
    // x *= c
    static VS_INLINE void scale(T c, T* x, int64_t n) {
        for (int64_t i = 0; i < n; ++i) x[i] = A::times(c, x[i]);
    }
    // y += sum_j c[j] x[j], row j of x being `stride` after the one before it.
    static VS_INLINE void add_rows(const T* c, const T* x, int64_t stride, int64_t rows, T* y,
                                   int64_t n) {
        for (int64_t i = 0; i < n; ++i) {
            T s = y[i];
            for (int64_t j = 0; j < rows; ++j) s = A::more(c[j], x[j * stride + i], s);
            y[i] = s;
        }
    }
    // R rows of y, `stride` apart as those of x: y_r += sum_b c[r][b] x_b. Returns the sum of y_0.
    template <int B, int R>
    static VS_INLINE T add_block(const T (&c)[R][B], const T* x, int64_t stride, T* y, int64_t n) {
        T total = A::zero();
        for (int64_t i = 0; i < n; ++i) {
            T s[R];
            each<R>([&](auto r) VS_INLINE_LAMBDA {
                s[r] = y[r * stride + i];
                each<B>([&](auto b)
                            VS_INLINE_LAMBDA { s[r] = A::more(c[r][b], x[b * stride + i], s[r]); });
                y[r * stride + i] = s[r];
            });
            total = A::plus(total, s[0]);
        }
        return total;
    }
    // out = x m, m (B, B)
    template <int B>
    static VS_INLINE void combine(const T* x, const T (&m)[B * B], T (&out)[B]) {
        each<B>([&](auto b) VS_INLINE_LAMBDA {
            out[b] = A::times(x[0], m[b]);
            each<B>([&](auto a) VS_INLINE_LAMBDA {
                if constexpr (a > 0 && a <= b) out[b] = A::more(x[a], m[a * B + b], out[b]);
            });
        });
    }
    // Rows k of y, from the last one: y_k = c_k (y_k + sum_{j > k} w[k, j] y_j).
    template <int B>
    static VS_INLINE void solve_rows(const T* w, int64_t w_ld, const T* c, T* y, int64_t ld,
                                     int64_t n) {
        for (int64_t i = 0; i < n; ++i) {
            for (int64_t k = B; k-- > 0;) {
                T s = y[k * ld + i];
                for (int64_t j = k + 1; j < B; ++j) s = A::more(w[k * w_ld + j], y[j * ld + i], s);
                y[k * ld + i] = A::times(c[k], s);
            }
        }
    }
    // y (rows, n) += c (rows, inner) x (inner, n); rows lie so far apart.
    static VS_INLINE void add_product(const T* c, int64_t c_ld, int64_t rows, const T* x,
                                      int64_t x_ld, int64_t inner, T* y, int64_t y_ld, int64_t n) {
        int64_t r = 0;
        for (; r + 4 <= rows; r += 4) {
            const T* a = c + r * c_ld;
            T* to = y + r * y_ld;
            int64_t i = 0;
            for (; i + 2 <= n; i += 2) product<4, 2>(a, c_ld, x + i, x_ld, inner, to + i, y_ld);
            if (i < n) product<4, 1>(a, c_ld, x + i, x_ld, inner, to + i, y_ld);
        }
        for (; r < rows; ++r) add_rows(c + r * c_ld, x, x_ld, inner, y + r * y_ld, n);
    }

  private:
    template <int R, int K>
    static VS_INLINE void product(const T* c, int64_t c_ld, const T* x, int64_t x_ld, int64_t inner,
                                  T* y, int64_t y_ld) {
        T s[R][K];
        each<R>([&](auto r) VS_INLINE_LAMBDA {
            each<K>([&](auto k) VS_INLINE_LAMBDA { s[r][k] = y[r * y_ld + k]; });
        });
        for (int64_t j = 0; j < inner; ++j, x += x_ld) {
            each<R>([&](auto r) VS_INLINE_LAMBDA {
                const T a = c[r * c_ld + j];
                each<K>([&](auto k) VS_INLINE_LAMBDA { s[r][k] = A::more(a, x[k], s[r][k]); });
            });
        }
        each<R>([&](auto r) VS_INLINE_LAMBDA {
            each<K>([&](auto k) VS_INLINE_LAMBDA { y[r * y_ld + k] = s[r][k]; });
        });
    }
};

}  // namespace VS_NS
