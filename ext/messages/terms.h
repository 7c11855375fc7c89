// Sums of probabilities' scores and entropies, logarithms and exponentials of arrays. Included by
// level.cpp.
#pragma once

#include <cmath>
#include <cstring>

#include "messages/model.h"
#include "simd/math.h"
#include "simd/vec.h"

namespace VS_NS {
namespace {

constexpr int64_t kBlock = 64;
constexpr double kNormal = 2.2250738585072014e-308;

// Logarithms of kBlock positive normal numbers, in place.
VS_INLINE void log_block(double* x) {
    using V = Vec<double>;
    double power[kBlock];
    for (int64_t i = 0; i < kBlock; ++i) split_normal(x + i, power + i);
    for (int64_t i = 0; i < kBlock; i += V::N) {
        log_of_parts(V::load(x + i), V::load(power + i)).store(x + i);
    }
}

// Logarithms of n numbers of (0, 1] in place; of what is no normal number, -inf.
void logs_of(double* x, int64_t n) {
    double block[kBlock];
    for (int64_t first = 0; first < n; first += kBlock) {
        const int64_t size = n - first < kBlock ? n - first : kBlock;
        for (int64_t i = 0; i < kBlock; ++i) block[i] = i < size ? x[first + i] : 1.0;
        log_block(block);
        for (int64_t i = 0; i < size; ++i) {
            x[first + i] = x[first + i] >= kNormal ? block[i] : -INFINITY;
        }
    }
}

// Exponentials of n numbers <= 0 in place; 0 where they are no normal number.
void exps_of(double* x, int64_t n) {
    using V = Vec<double>;
    int64_t i = 0;
    for (; i + V::N <= n; i += V::N) exp_or_zero(V::load(x + i)).store(x + i);
    double rest[V::N] = {};
    const int64_t left = n - i;
    if (left > 0) {
        for (int64_t k = 0; k < left; ++k) rest[k] = x[i + k];
        exp_or_zero(V::load(rest)).store(rest);
        for (int64_t k = 0; k < left; ++k) x[i + k] = rest[k];
    }
}

// value: the sum of w p score + c h(w p), h(p) = -p log p; scale: that of magnitudes, (2 - c) of
// each h.
vs::messages::Sums sum_terms(const vs::messages::Terms& t) {
    using V = Vec<double>;
    const V zero = V::set1(0.0), two = V::set1(2.0);
    const V least = V::set1(kNormal);
    V value = zero, scale = zero;
    double p[kBlock], log_p[kBlock], score[kBlock], c[kBlock];
    for (int64_t first = 0; first < t.n; first += kBlock) {
        const int64_t size = t.n - first < kBlock ? t.n - first : kBlock;
        for (int64_t i = 0; i < kBlock; ++i) {
            const bool here = i < size;
            p[i] = here ? t.p[first + i] : 0.0;
            score[i] = here ? t.score[first + i] : 0.0;
            c[i] = here ? t.share[first + i] : 0.0;
        }
        if (t.weight) {
            for (int64_t i = 0; i < size; ++i) p[i] *= t.weight[first + i];
        }
        for (int64_t i = 0; i < kBlock; i += V::N) {
            const V x = V::load(p + i);
            V::max(x, least).store(log_p + i);
        }
        log_block(log_p);
        for (int64_t i = 0; i < kBlock; i += V::N) {
            const V x = V::load(p + i), s = V::load(score + i), own = V::load(c + i);
            const V h = zero - V::where_ge(x, least, x * V::load(log_p + i));
            value = V::fma(x, s, value);
            value = V::fma(own, h, value);
            scale = V::fma(x, V::max(s, zero - s), scale);
            scale = V::fma(two - own, h, scale);
        }
    }
    return {value.hsum(), scale.hsum()};
}

}  // namespace
}  // namespace VS_NS
