// Probabilities of two arcs at once, by 2x2 minors: with G the inverse of the Laplacian,
//   K(a, b) = w_a (G(m_a, m_b) - G(h_a, m_b)) = w_a (hit(h_a, m_b) - hit(m_a, m_b)) / rate(m_b),
//   P(a and b) = K(a, a) K(b, b) - K(a, b) K(b, a).
#pragma once

#include <cmath>
#include <cstdint>

#include "dependency/run.h"

namespace VS_NS {

template <class A>
class Minors {
  public:
    Minors(const vs::dependency::Sums& sums, const vs::dependency::Sentence& s)
        : weight_(static_cast<const double*>(sums.weight)),
          hit_(static_cast<const double*>(sums.rest)),
          total_(static_cast<const double*>(sums.total)),
          ld_(row_of(s.n)),
          single_(s.single_root),
          digits_(1e-14 * static_cast<double>(s.n + 4)) {}

    // An arc: w / rate, P(arc), and whether its word may be attached to the root.
    struct Arc {
        double share, p;
        bool on_top;
    };
    Arc arc(int64_t h, int64_t m) const {
        const double share = weight_[h * ld_ + m] / total_[m];
        return {share, share * hit(h, m), hit(0, m) > 0.0};
    }
    // P(both arcs); -1 where rounding may be felt.
    double operator()(const vs::dependency::Pair& q) const {
        const Arc a = arc(q.head_a, q.modifier_a), b = arc(q.head_b, q.modifier_b);
        if (q.modifier_a == q.modifier_b) return q.head_a == q.head_b ? a.p : 0.0;
        return of(a, b, q.head_a, q.modifier_a, q.head_b, q.modifier_b);
    }
    // The same of two words.
    VS_INLINE double of(const Arc& a, const Arc& b, int64_t head_a, int64_t modifier_a,
                        int64_t head_b, int64_t modifier_b) const {
        // Words that may be attached to a single root have a tree of their own: root_words.h.
        const double product = a.p * b.p;
        if (a.on_top != b.on_top || product == 0.0) return product;
        // a b (x - y) (u - v), every factor of which has its own error.
        const double x = hit(head_a, modifier_b), u = hit(head_b, modifier_a);
        double y = hit(modifier_a, modifier_b), v = hit(modifier_b, modifier_a);
        if (single_) {  // of words `hit` is of first order, of the root it is 1
            y = head_a == 0 ? 0.0 : y;
            v = head_b == 0 ? 0.0 : v;
        }
        const double both = a.share * b.share;
        const double p = product - a.share * (x - y) * (b.share * (u - v));
        const double felt = (x > y ? x : y) * std::fabs(u - v) + std::fabs(x - y) * (u > v ? u : v);
        const bool fine = digits_ * (product + both * felt) < 1e-11;
        return !fine ? -1.0 : p > 0.0 ? p : 0.0;
    }
    double hit(int64_t h, int64_t m) const { return hit_[h * ld_ + m]; }

  private:
    const double *weight_, *hit_, *total_;  // see run.h
    const int64_t ld_;
    const bool single_;
    const double digits_;
};

// As head_joints of trees.h.
template <class A>
void head_minors(const vs::dependency::Sums& sums, int64_t head, int64_t count,
                 const int32_t* modifiers, int64_t many, const int32_t* above, double* siblings,
                 double* grandparents) {
    using Arc = typename Minors<A>::Arc;
    static_assert(sizeof(Arc) == 3 * sizeof(double));
    const Minors<A> minor(sums, sums.sentence);
    Arc* down = static_cast<Arc*>(sums.odds);  // what was there before is done
    for (int64_t i = 0; i < count; ++i) down[i] = minor.arc(head, modifiers[i]);
    for (int64_t i = 0; i < count; ++i) {
        double* out = siblings + i * count;
        for (int64_t j = i + 1; j < count; ++j) {
            out[j] = minor.of(down[i], down[j], head, modifiers[i], head, modifiers[j]);
        }
    }
    for (int64_t k = 0; k < many; ++k) {
        const int64_t g = above[k];
        double* out = grandparents + g * count;
        const bool none = head == 0 || g == head;
        const Arc up = none ? Arc{} : minor.arc(g, head);
        for (int64_t i = 0; i < count; ++i) {
            const int64_t m = modifiers[i];
            out[i] = none || g == m ? 0.0 : minor.of(up, down[i], g, head, head, m);
        }
    }
}

}  // namespace VS_NS
