// Products of messages of pairs of labels with a table, for several sequences at a time:
//
//   y[c][t] = sum_b x[b][c] table[c][b][t], or the largest x[b][c] + table[c][b][t]
//
// in the order of b, so that the company of a sequence does not change its bits.
#pragma once

#include <cmath>

#include "higher/level.h"
#include "simd/each.h"
#include "simd/transpose.h"
#include "simd/vec.h"

namespace VS_NS {

struct PairSums {
    using V = Vec<double>;
    static VS_INLINE V none() { return V::set1(0.0); }
    static VS_INLINE V add(V x, V w, V sum) { return V::fma(x, w, sum); }
    static VS_INLINE V join(V a, V b) { return a + b; }
};
struct PairMaxima {
    using V = Vec<double>;
    static VS_INLINE V none() { return V::set1(-INFINITY); }
    static VS_INLINE V add(V x, V w, V most) { return V::max(most, x + w); }
    static VS_INLINE V join(V a, V b) { return V::max(a, b); }
};

// Vectors of a row that are held in registers at once.
constexpr int kPairTile = Vec<double>::N >= 8 ? 4 : 2;

// x is woven, so that what a label c is multiplied by lies side by side: x[b][c] stands at
// (b - b % N) kp + c N + b % N.
inline void weave_pairs(const double* rows, int64_t k, int64_t kp, double* out) {
    using V = Vec<double>;
    for (int64_t b = 0; b < k; b += V::N) {
        const double* from[V::N];
        for (int64_t j = 0; j < V::N; ++j) from[j] = rows + (b + j < k ? b + j : k - 1) * kp;
        weave<double, V::N>(from, kp, out + b * kp);
    }
}

template <class Algebra, int S, int T>
VS_INLINE void pair_tile(const double* const* x, int64_t c, const double* table, int64_t k,
                         int64_t kp, double* const* y, int64_t at) {
    using V = Vec<double>;
    V sum[S][T];
    each<S>([&](auto s) VS_INLINE_LAMBDA {
        each<T>([&](auto t) VS_INLINE_LAMBDA { sum[s][t] = Algebra::none(); });
    });
    for (int64_t first = 0; first < k; first += V::N) {
        const int64_t from = first * kp + c * V::N, count = k - first < V::N ? k - first : V::N;
        for (int64_t b = from; b < from + count; ++b, table += kp) {
            V w[T];
            each<T>([&](auto t) VS_INLINE_LAMBDA { w[t] = V::load(table + t * V::N); });
            each<S>([&](auto s) VS_INLINE_LAMBDA {
                const V own = V::set1(x[s][b]);
                each<T>([&](auto t)
                            VS_INLINE_LAMBDA { sum[s][t] = Algebra::add(own, w[t], sum[s][t]); });
            });
        }
    }
    each<S>([&](auto s) VS_INLINE_LAMBDA {
        each<T>([&](auto t) VS_INLINE_LAMBDA { sum[s][t].store(y[s] + at + t * V::N); });
    });
}

// Row c of y, of S sequences.
template <class Algebra, int S>
void pair_row(const double* const* x, int64_t c, const double* table, int64_t k, int64_t kp,
              double* const* y) {
    constexpr int64_t n = Vec<double>::N;
    const auto tile = [&](int64_t t, auto width) VS_INLINE_LAMBDA {
        pair_tile<Algebra, S, width>(x, c, table + t, k, kp, y, c * kp + t);
    };
    int64_t t = 0;
    for (; t + kPairTile * n <= kp; t += kPairTile * n) tile(t, Index<kPairTile>());
    const int64_t left = (kp - t) / n;
    if (left == 3) tile(t, Index<3>());
    if (left == 2) tile(t, Index<2>());
    if (left == 1) tile(t, Index<1>());
}

// f(first, S) of four sequences at a time, and of those that are left.
template <class F>
VS_INLINE void by_four(int count, F f) {
    int s = 0;
    for (; s + 4 <= count; s += 4) f(s, Index<4>());
    if (count - s == 3) f(s, Index<3>());
    if (count - s == 2) f(s, Index<2>());
    if (count - s == 1) f(s, Index<1>());
}

template <class Algebra>
VS_INLINE void pair_product(int count, const double* const* x, const double* table, int64_t k,
                            int64_t kp, double* const* y) {
    for (int64_t c = 0; c < k; ++c) {
        by_four(count, [&](int s, auto n) VS_INLINE_LAMBDA {
            pair_row<Algebra, n>(x + s, c, table + c * k * kp, k, kp, y + s);
        });
    }
}

// out[c][b][t] += sum over sequences of x[b][c] lift right[c][t], x woven.
template <int S>
void pair_counts(const double* const* x, const double* lift, const double* const* right, int64_t c,
                 int64_t k, int64_t kp, double* out) {
    using V = Vec<double>;
    for (int64_t t = 0; t < kp; t += V::N) {
        V r[S];
        each<S>([&](auto s)
                    VS_INLINE_LAMBDA { r[s] = V::load(right[s] + c * kp + t) * V::set1(lift[s]); });
        double* to = out + t;
        for (int64_t first = 0; first < k; first += V::N) {
            const int64_t from = first * kp + c * V::N, count = k - first < V::N ? k - first : V::N;
            for (int64_t b = from; b < from + count; ++b, to += kp) {
                V sum = V::load(to);
                each<S>([&](auto s)
                            VS_INLINE_LAMBDA { sum = V::fma(V::set1(x[s][b]), r[s], sum); });
                sum.store(to);
            }
        }
    }
}

}  // namespace VS_NS
