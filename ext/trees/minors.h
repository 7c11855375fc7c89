// Probabilities of two arcs at once, by 2x2 minors: with G the inverse of the Laplacian,
//   K(a, b) = w_a (G(m_a, m_b) - G(h_a, m_b)) = w_a (hit(h_a, m_b) - hit(m_a, m_b)) / rate(m_b),
//   P(a and b) = K(a, a) K(b, b) - K(a, b) K(b, a).
#pragma once

#include <cmath>
#include <cstdint>

#include "trees/run.h"

namespace VS_NS {

template <class A>
class Minors {
  public:
    Minors(const Walks<A>& walks, const vs::trees::Sentence& s)
        : walks_(walks),
          ld_(row_of(s.n)),
          single_(s.single_root),
          digits_(1e-14 * static_cast<double>(s.n + 4)) {}

    // P(both arcs); -1 where rounding may be felt.
    double operator()(const vs::trees::Pair& q) const {
        const double a = share(q.head_a, q.modifier_a), b = share(q.head_b, q.modifier_b);
        const double own_a = a * hit(q.head_a, q.modifier_a);
        const double own_b = b * hit(q.head_b, q.modifier_b);
        if (q.modifier_a == q.modifier_b) return q.head_a == q.head_b ? own_a : 0.0;
        // Words that may be attached to a single root have a tree of their own: root_words.h.
        const bool on_top = hit(0, q.modifier_a) > 0.0;
        if (on_top != (hit(0, q.modifier_b) > 0.0)) return own_a * own_b;
        if (own_a == 0.0 || own_b == 0.0) return 0.0;
        // a b (x - y) (u - v), every factor of which has its own error.
        const double x = hit(q.head_a, q.modifier_b), u = hit(q.head_b, q.modifier_a);
        double y = hit(q.modifier_a, q.modifier_b), v = hit(q.modifier_b, q.modifier_a);
        if (single_) {  // of words `hit` is of first order, of the root it is 1
            y = q.head_a == 0 ? 0.0 : y;
            v = q.head_b == 0 ? 0.0 : v;
        }
        const double p = own_a * own_b - a * (x - y) * (b * (u - v));
        const double felt = (x > y ? x : y) * std::fabs(u - v) + std::fabs(x - y) * (u > v ? u : v);
        const bool fine = digits_ * (own_a * own_b + a * b * felt) < 1e-11;
        return !fine ? -1.0 : p > 0.0 ? p : 0.0;
    }

  private:
    double hit(int64_t h, int64_t m) const { return walks_.hit[h * ld_ + m]; }
    double share(int64_t h, int64_t m) const {
        return walks_.weight[h * ld_ + m] / walks_.total[m];
    }

    const Walks<A> walks_;
    const int64_t ld_;
    const bool single_;
    const double digits_;
};

// As head_joints of trees.h.
template <class A>
void head_minors(const Walks<A>& walks, const vs::trees::Sentence& s, int64_t head, int64_t count,
                 const int32_t* modifiers, double* siblings, double* grandparents) {
    const Minors<A> minor(walks, s);
    const auto h = static_cast<int32_t>(head);
    for (int64_t i = 0; i < count; ++i) {
        for (int64_t j = i + 1; j < count; ++j) {
            siblings[i * count + j] = minor({h, modifiers[i], h, modifiers[j]});
        }
    }
    for (int32_t g = 0; g <= s.n; ++g) {
        for (int64_t i = 0; i < count; ++i) {
            const bool none = h == 0 || g == h || g == modifiers[i];
            grandparents[g * count + i] = none ? 0.0 : minor({g, h, h, modifiers[i]});
        }
    }
}

}  // namespace VS_NS
