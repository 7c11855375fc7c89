// Sums of plain doubles in vectors of the level.
#pragma once

#include <cmath>

#include "simd/each.h"
#include "simd/math.h"
#include "simd/vec.h"
#include "dependency/serial.h"
#include "dependency/trees.h"
#include "core/underflow.h"

namespace VS_NS {

// (+, x) of non-negative numbers.
struct Plain {
    using T = double;
    using V = Vec<double>;
    static constexpr int64_t kDoubles = 1;
    // A score that lies further below the largest of its word has no normal number.
    static constexpr double kRange = 700.0;
    static constexpr bool kOrders = false;
    static void begin() { forget_underflow(); }
    static bool doubtful() { return underflow(); }
    static T zero() { return 0.0; }
    static T epsilon(T a) { return a; }
    static T one() { return 1.0; }
    static bool is_zero(T a) { return a == 0.0; }
    static T times(T a, T b) { return a * b; }
    static T over(T a, T b) { return a / b; }
    static T plus(T a, T b) { return a + b; }
    static double log(T a) { return a > 0.0 ? std::log(a) : -INFINITY; }
    static double log_over(T a, T b) {
        const double q = a / b;
        if (q > 1e-300 && q < 1e300) return std::log(q);
        return a > 0.0 && b > 0.0 ? std::log(a) - std::log(b)
               : a > 0.0          ? INFINITY
               : b > 0.0          ? -INFINITY
                                  : 0.0;
    }
    static double as_double(T a) { return a; }
    static double log_product(const T* x, int64_t n, int64_t) { return log_of(x, n, 1); }
    // The log of x[0] x[step] ...: one logarithm for as many as their product can hold.
    static double log_of(const T* x, int64_t n, int64_t step) {
        double s = 0.0, product = 1.0;
        for (int64_t i = 0; i < n; ++i) {
            const double y = x[i * step];
            if (y < 1e-100 || y > 1e100) {
                s += std::log(y);
                continue;
            }
            product *= y;
            if (product < 1e-200 || product > 1e200) {
                s += std::log(product);
                product = 1.0;
            }
        }
        return s + std::log(product);
    }
    // 0 where there is no arc.
    static void weights(const vs::dependency::Sentence& s, const double* shift, T* weight,
                        int64_t ld) {
        for (int64_t h = 0; h <= s.n; ++h) {
            T* w = weight + h * ld;
            row_of_weights(s, h, shift, w);
            w[0] = w[h] = 0.0;
        }
    }
    // Those of words 1 to n with head h; that on the diagonal is none.
    static VS_INLINE void row_of_weights(const vs::dependency::Sentence& s, int64_t h,
                                         const double* shift, T* w) {
        const int64_t n = s.n;
        const double* x = s.scores + h * (n + 1);
        int64_t m = 1;
        for (; m + V::N <= n + 1; m += V::N) {
            exp_or_zero(V::load(x + m) - V::load(shift + m)).store(w + m);
        }
        if (m <= n) {
            const int k = static_cast<int>(n + 1 - m);
            exp_or_zero(V::load_part(x + m, k, 0.0) - V::load_part(shift + m, k, 0.0))
                .store_part(w + m, k);
        }
    }
    // There are up to 6.75^n projective trees.
    static bool out_of_range(T z) { return !(z < 1e250); }
    // Weights are at most 1: terms that have vanished, of 1e-308 each, are felt only here.
    static bool too_small(T z, int64_t n) { return n > 100 || z < 1e-50; }
    static bool vanished(T weight, T mass) { return weight > 0.0 && mass < 1e-160; }
    static void exp_row(const double* x, double shift, T* w, int64_t n) {
        const V s = V::set1(shift);
        int64_t i = 0;
        for (; i + V::N <= n; i += V::N) exp_or_zero(V::load(x + i) - s).store(w + i);
        if (i < n) {
            const int k = static_cast<int>(n - i);
            exp_or_zero(V::load_part(x + i, k, 0.0) - s).store_part(w + i, k);
        }
    }
    static VS_INLINE T sum(const T* x, int64_t n) {
        V s = V::set1(0.0);
        int64_t i = 0;
        for (; i + V::N <= n; i += V::N) s = s + V::load(x + i);
        if (i < n) s = s + V::load_part(x + i, static_cast<int>(n - i), 0.0);
        return s.hsum();
    }
    // y += w r, number by number.
    static void add_products(const T* w, const T* r, T* y, int64_t n) {
        int64_t i = 0;
        for (; i + V::N <= n; i += V::N) {
            (V::load(y + i) + V::load(w + i) * V::load(r + i)).store(y + i);
        }
        for (; i < n; ++i) y[i] += w[i] * r[i];
    }
    // out = w r c
    static void shares(const T* w, const T* r, const T* c, double* out, int64_t n) {
        int64_t i = 0;
        for (; i + V::N <= n; i += V::N) {
            (V::load(w + i) * (V::load(r + i) * V::load(c + i))).store(out + i);
        }
        for (; i < n; ++i) out[i] = w[i] * (r[i] * c[i]);
    }
    static VS_INLINE T dot(const T* x, const T* y, int64_t n) {
        V s = V::set1(0.0);
        int64_t i = 0;
        for (; i + V::N <= n; i += V::N) s = V::fma(V::load(x + i), V::load(y + i), s);
        if (i < n) {
            const int m = static_cast<int>(n - i);
            s = V::fma(V::load_part(x + i, m, 0.0), V::load_part(y + i, m, 0.0), s);
        }
        return s.hsum();
    }
    static VS_INLINE void scale(T c, T* x, int64_t n) {
        const V v = V::set1(c);
        int64_t i = 0;
        for (; i + V::N <= n; i += V::N) (v * V::load(x + i)).store(x + i);
        if (i < n) {
            const int m = static_cast<int>(n - i);
            (v * V::load_part(x + i, m, 0.0)).store_part(x + i, m);
        }
    }
    static VS_INLINE void add(T c, const T* x, T* y, int64_t n) {
        if (c == 0.0) return;
        const V v = V::set1(c);
        int64_t i = 0;
        for (; i + V::N <= n; i += V::N) V::fma(v, V::load(x + i), V::load(y + i)).store(y + i);
        if (i < n) {
            const int m = static_cast<int>(n - i);
            V::fma(v, V::load_part(x + i, m, 0.0), V::load_part(y + i, m, 0.0))
                .store_part(y + i, m);
        }
    }
    static constexpr int64_t kLanes = V::N, kPad = 8;
    static VS_INLINE void copy(const T* x, T* y, int64_t n) {
        int64_t i = 0;
        for (; i + V::N <= n; i += V::N) V::load(x + i).store(y + i);
        for (; i < n; ++i) y[i] = x[i];
    }
    // As V::fma.
    static VS_INLINE T more(T a, T b, T c) {
        if constexpr (VS_LEVEL >= VS_LEVEL_V3) return std::fma(a, b, c);
        return a * b + c;
    }
    // R rows of y, `stride` apart as those of x, of whole vectors: y_r += sum_b c[r][b] x_b.
    // Returns the sum of y_0.
    template <int B, int R>
    static VS_INLINE T add_block(const T (&c)[R][B], const T* x, int64_t stride, T* y, int64_t n) {
        V k[R][B], total = V::set1(0.0);
        each<R>([&](auto r) VS_INLINE_LAMBDA {
            each<B>([&](auto b) VS_INLINE_LAMBDA { k[r][b] = V::set1(c[r][b]); });
        });
        for (int64_t i = 0; i < n; i += V::N) {
            V s[R];
            each<R>([&](auto r) VS_INLINE_LAMBDA { s[r] = V::load(y + r * stride + i); });
            each<B>([&](auto b) VS_INLINE_LAMBDA {
                const V v = V::load(x + b * stride + i);
                each<R>([&](auto r) VS_INLINE_LAMBDA { s[r] = V::fma(k[r][b], v, s[r]); });
            });
            each<R>([&](auto r) VS_INLINE_LAMBDA { s[r].store(y + r * stride + i); });
            total = total + s[0];
        }
        return total.hsum();
    }
    static VS_INLINE void add_rows(const T* c, const T* x, int64_t stride, int64_t rows, T* y,
                                   int64_t n) {
        int64_t i = 0;
        for (; i + 4 * V::N <= n; i += 4 * V::N) add_wide<4>(c, x + i, stride, rows, y + i);
        if (i + 2 * V::N <= n) {
            add_wide<2>(c, x + i, stride, rows, y + i);
            i += 2 * V::N;
        }
        if (i + V::N <= n) {
            add_deep(c, rows, y + i, V::N, [&](int64_t j) { return V::load(x + j * stride + i); });
            i += V::N;
        }
        if (i < n) {
            const int m = static_cast<int>(n - i);
            add_deep(c, rows, y + i, m,
                     [&](int64_t j) { return V::load_part(x + j * stride + i, m, 0.0); });
        }
    }

    // out = x m, m (B, B)
    template <int B>
    static VS_INLINE void combine(const T* x, const T (&m)[B * B], T (&out)[B]) {
        if constexpr (B % V::N == 0) {
            for (int i = 0; i < B; i += V::N) {
                V s = V::set1(x[0]) * V::load(m + i);
                each<B>([&](auto a) VS_INLINE_LAMBDA {
                    if constexpr (a > 0) s = V::fma(V::set1(x[a]), V::load(m + a * B + i), s);
                });
                s.store(out + i);
            }
        } else {
            V s = V::set1(x[0]) * V::load_part(m, B, 0.0);
            each<B>([&](auto a) VS_INLINE_LAMBDA {
                if constexpr (a > 0) s = V::fma(V::set1(x[a]), V::load_part(m + a * B, B, 0.0), s);
            });
            s.store_part(out, B);
        }
    }
    // Rows k of y, from the last one: y_k = c_k (y_k + sum_{j > k} w[k, j] y_j).
    template <int B>
    static VS_INLINE void solve_rows(const T* w, int64_t w_ld, const T* c, T* y, int64_t ld,
                                     int64_t n) {
        V v[B][B], d[B];
        each<B>([&](auto k) VS_INLINE_LAMBDA {
            d[k] = V::set1(c[k]);
            each<B>([&](auto j) VS_INLINE_LAMBDA {
                if constexpr (j > k) v[k][j] = V::set1(w[k * w_ld + j]);
            });
        });
        const auto at = [&](auto load, auto store, int64_t i) VS_INLINE_LAMBDA {
            V s[B];
            each<B>([&](auto r) VS_INLINE_LAMBDA {
                constexpr int k = B - 1 - r;
                s[k] = load(y + k * ld + i);
                each<B>([&](auto j) VS_INLINE_LAMBDA {
                    if constexpr (j > k) s[k] = V::fma(v[k][j], s[j], s[k]);
                });
                s[k] = d[k] * s[k];
                store(s[k], y + k * ld + i);
            });
        };
        int64_t i = 0;
        for (; i + V::N <= n; i += V::N) {
            at([](const T* p) VS_INLINE_LAMBDA { return V::load(p); },
               [](V x, T* p) VS_INLINE_LAMBDA { x.store(p); }, i);
        }
        if (i < n) {
            const int m = static_cast<int>(n - i);
            at([m](const T* p) VS_INLINE_LAMBDA { return V::load_part(p, m, 0.0); },
               [m](V x, T* p) VS_INLINE_LAMBDA { x.store_part(p, m); }, i);
        }
    }
    // y (rows, n) += c (rows, inner) x (inner, n); rows lie so far apart.
    static void add_product(const T* c, int64_t c_ld, int64_t rows, const T* x, int64_t x_ld,
                            int64_t inner, T* y, int64_t y_ld, int64_t n) {
        int64_t r = 0;
        for (; r + 4 <= rows; r += 4) {
            product<4>(c + r * c_ld, c_ld, x, x_ld, inner, y + r * y_ld, y_ld, n);
        }
        for (; r < rows; ++r) add_rows(c + r * c_ld, x, x_ld, inner, y + r * y_ld, n);
    }

  private:
    template <int R>
    static VS_INLINE void product(const T* c, int64_t c_ld, const T* x, int64_t x_ld, int64_t inner,
                                  T* y, int64_t y_ld, int64_t n) {
        int64_t i = 0;
        for (; i + 3 * V::N <= n; i += 3 * V::N) {
            product_of<R, 3, false>(c, c_ld, x + i, x_ld, inner, y + i, y_ld, V::N);
        }
        if (i + 2 * V::N <= n) {
            product_of<R, 2, false>(c, c_ld, x + i, x_ld, inner, y + i, y_ld, V::N);
            i += 2 * V::N;
        }
        if (i + V::N <= n) {
            product_of<R, 1, false>(c, c_ld, x + i, x_ld, inner, y + i, y_ld, V::N);
            i += V::N;
        }
        if (i < n) {
            product_of<R, 1, true>(c, c_ld, x + i, x_ld, inner, y + i, y_ld,
                                   static_cast<int>(n - i));
        }
    }
    // R rows and K vectors; the last vector has `m` numbers where it is a part of one.
    template <int R, int K, bool Part>
    static VS_INLINE void product_of(const T* c, int64_t c_ld, const T* x, int64_t x_ld,
                                     int64_t inner, T* y, int64_t y_ld, int m) {
        V s[R][K];
        each<R>([&](auto r) VS_INLINE_LAMBDA {
            each<K>([&](auto k) VS_INLINE_LAMBDA {
                const T* at = y + r * y_ld + k * V::N;
                s[r][k] = Part ? V::load_part(at, m, 0.0) : V::load(at);
            });
        });
        for (int64_t j = 0; j < inner; ++j, x += x_ld) {
            V v[K];
            each<K>([&](auto k) VS_INLINE_LAMBDA {
                v[k] = Part ? V::load_part(x + k * V::N, m, 0.0) : V::load(x + k * V::N);
            });
            each<R>([&](auto r) VS_INLINE_LAMBDA {
                const V a = V::set1(c[r * c_ld + j]);
                each<K>([&](auto k) VS_INLINE_LAMBDA { s[r][k] = V::fma(a, v[k], s[r][k]); });
            });
        }
        each<R>([&](auto r) VS_INLINE_LAMBDA {
            each<K>([&](auto k) VS_INLINE_LAMBDA {
                T* at = y + r * y_ld + k * V::N;
                if constexpr (Part) {
                    s[r][k].store_part(at, m);
                } else {
                    s[r][k].store(at);
                }
            });
        });
    }
    template <int K>
    static VS_INLINE void add_wide(const T* c, const T* x, int64_t stride, int64_t rows, T* y) {
        V s[K];
        each<K>([&](auto k) VS_INLINE_LAMBDA { s[k] = V::load(y + k * V::N); });
        for (int64_t j = 0; j < rows; ++j, x += stride) {
            const V v = V::set1(c[j]);
            each<K>([&](auto k)
                        VS_INLINE_LAMBDA { s[k] = V::fma(v, V::load(x + k * V::N), s[k]); });
        }
        each<K>([&](auto k) VS_INLINE_LAMBDA { s[k].store(y + k * V::N); });
    }
    // One vector of y: four sums side by side, since each step of one waits for the last.
    template <class Load>
    static VS_INLINE void add_deep(const T* c, int64_t rows, T* y, int m, Load load) {
        const V zero = V::set1(0.0);
        V s = V::load_part(y, m, 0.0), t = zero, u = zero, v = zero;
        int64_t j = 0;
        for (; j + 4 <= rows; j += 4) {
            s = V::fma(V::set1(c[j]), load(j), s);
            t = V::fma(V::set1(c[j + 1]), load(j + 1), t);
            u = V::fma(V::set1(c[j + 2]), load(j + 2), u);
            v = V::fma(V::set1(c[j + 3]), load(j + 3), v);
        }
        for (; j < rows; ++j) s = V::fma(V::set1(c[j]), load(j), s);
        ((s + t) + (u + v)).store_part(y, m);
    }
};

}  // namespace VS_NS
