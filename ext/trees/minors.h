// Probabilities of two arcs at once, by 2x2 minors: with G the inverse of the Laplacian,
//   K(a, b) = w_a (G(m_a, m_b) - G(h_a, m_b)) = w_a (hit(h_a, m_b) - hit(m_a, m_b)) / rate(m_b),
//   P(a and b) = K(a, a) K(b, b) - K(a, b) K(b, a).
#pragma once

#include <cmath>
#include <cstdint>

#include "trees/run.h"

namespace VS_NS {

// -1 where rounding may be felt.
template <class A>
void minors(const Walks<A>& walks, const vs::trees::Sentence& s, int64_t count,
            const vs::trees::Pair* pairs, double* out) {
    const int64_t n = s.n, ld = row_of(n);
    const auto hit = [&](int64_t h, int64_t m) { return walks.hit[h * ld + m]; };
    const double digits = 1e-14 * static_cast<double>(n + 4);
    for (int64_t i = 0; i < count; ++i) {
        const vs::trees::Pair& q = pairs[i];
        const double a = walks.weight[q.head_a * ld + q.modifier_a] / walks.total[q.modifier_a];
        const double b = walks.weight[q.head_b * ld + q.modifier_b] / walks.total[q.modifier_b];
        const double own_a = a * hit(q.head_a, q.modifier_a);
        const double own_b = b * hit(q.head_b, q.modifier_b);
        if (q.modifier_a == q.modifier_b) {
            out[i] = q.head_a == q.head_b ? own_a : 0.0;
            continue;
        }
        // a b (x - y) (u - v), every factor of which has its own error.
        const double x = hit(q.head_a, q.modifier_b), u = hit(q.head_b, q.modifier_a);
        double y = hit(q.modifier_a, q.modifier_b), v = hit(q.modifier_b, q.modifier_a);
        if (s.single_root) {  // of words `hit` is of first order, of the root it is 1
            y = q.head_a == 0 ? 0.0 : y;
            v = q.head_b == 0 ? 0.0 : v;
        }
        const double p = own_a * own_b - a * (x - y) * (b * (u - v));
        const double felt = (x > y ? x : y) * std::fabs(u - v) + std::fabs(x - y) * (u > v ? u : v);
        const bool fine = digits * (own_a * own_b + a * b * felt) < 1e-11;
        out[i] = !fine ? -1.0 : p > 0.0 ? p : 0.0;
    }
}

}  // namespace VS_NS
