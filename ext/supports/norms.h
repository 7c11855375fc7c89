// Norms of what is left of a table beside its rank-one part, rounded up.
#pragma once

#include <cmath>

#include "simd/vec.h"
#include "supports/supports.h"

namespace VS_NS {

// over(i, k) >= max(W - r c, 0), under(i, k) >= max(r c - W, 0): floats err by two roundings of W
// or of r c. Sums of K floats err by K roundings.
inline void measure(const float* rows, int64_t k, int64_t kp, const float* r, const float* c,
                    vs::supports::Sums n) {
    using V = Vec<float>;
    const V zero = V::set1(0.0f), rounded = V::set1(0x1p-21f);
    const float up = 1.0f + (static_cast<float>(k) + 16.0f) * 0x1p-22f;
    const auto over = [&](V w, V d)
                          VS_INLINE_LAMBDA { return V::fma(w, rounded, V::max(w - d, zero)); };
    for (int64_t i = 0; i < k; ++i) {
        const float* row = rows + i * kp;
        const V own = V::set1(r[i]);
        V size = zero;
        for (int64_t j = 0; j < kp; j += V::N) {
            const V w = V::load(row + j), d = own * V::load(c + j);
            const V a = over(w, d), b = over(d, w);
            (V::load(n.above_sum + j) + a).store(n.above_sum + j);
            (V::load(n.below_sum + j) + b).store(n.below_sum + j);
            V::fma(a, a, V::load(n.above_two + j)).store(n.above_two + j);
            V::fma(b, b, V::load(n.below_two + j)).store(n.below_two + j);
            size = V::fma(a, a, size);
        }
        n.size[i] = std::sqrt(size.hsum()) * up;
        if (!(n.size[i] > 1e-18f)) n.size[i] = 1e-18f;
        const V weight = V::set1(1.0f / n.size[i]);
        for (int64_t j = 0; j < kp; j += V::N) {
            const V a = over(V::load(row + j), own * V::load(c + j)) * weight;
            V::fma(a, a, V::load(n.above_weighted + j)).store(n.above_weighted + j);
        }
    }
    // Numbers that underflow are far below 1e-18 of the largest entry, which is 1.
    const V factor = V::set1(up), least = V::set1(1e-18f);
    for (int64_t j = 0; j < kp; j += V::N) {
        for (float* x : {n.above_sum, n.below_sum}) {
            (V::fma(V::load(x + j), factor, least)).store(x + j);
        }
    }
    for (int64_t j = 0; j < kp; ++j) {
        for (float* x : {n.above_two, n.above_weighted, n.below_two}) {
            x[j] = std::sqrt(x[j]) * up + 1e-18f;
        }
    }
}

}  // namespace VS_NS
