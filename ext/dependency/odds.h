// From what each arc is multiplied by to what is wanted of it.
#pragma once

#include <cmath>
#include <cstdint>

#include "dependency/trees.h"

namespace VS_NS {

// weight, rest (n + 1, ld) at [head, modifier]: the trees of an arc h -> m sum up to
// weight(h, m) rest(h, m), in a unit of its word; zero where there is no arc. The mass without an
// arc is the sum over the other heads of its word, from above and from below: never a difference.
template <class A>
class Odds {
    using T = typename A::T;

  public:
    // Numbers of scratch; those of its own, behind which minors.h has some.
    static int64_t scratch(int64_t n, int64_t ld) { return own(n, ld) + 7 * (ld + 8); }
    static int64_t own(int64_t n, int64_t ld) { return (n + 4) * ld; }

    Odds(const T* weight, const T* rest, int64_t n, int64_t ld, T* scratch)
        : n_(n), ld_(ld), weight_(weight), rest_(rest), others_(scratch) {
        total_ = scratch + (n + 1) * ld;
        below_ = total_ + ld;
        inverse_ = below_ + ld;
        for (int64_t m = 0; m <= n; ++m) total_[m] = A::zero();
        for (int64_t h = 0; h <= n; ++h) {
            A::add_products(row(weight_, h) + 1, row(rest_, h) + 1, total_ + 1, n);
        }
    }
    const T* total() const { return total_; }  // (n + 1,) of each word

    // Once. log weight = score - shift(m).
    void tell(const double* shift, const vs::dependency::Arcs& arcs) {
        for (int64_t m = 1; m <= n_; ++m) inverse_[m] = A::over(A::one(), total_[m]);
        const bool leaves = arcs.complement || arcs.ratio;
        for (int64_t m = 0; m <= n_; ++m) below_[m] = A::zero();
        for (int64_t h = 0; leaves && h <= n_; ++h) {
            A::copy(below_, others_ + h * ld_, n_ + 1);
            A::add_products(row(weight_, h) + 1, row(rest_, h) + 1, below_ + 1, n_);
        }
        for (int64_t m = 0; m <= n_; ++m) below_[m] = A::zero();
        for (int64_t h = n_ + 1; h-- > 0;) {
            const T *w = row(weight_, h), *r = row(rest_, h);
            T* others = others_ + h * ld_;
            const int64_t at = h * (n_ + 1);
            if (leaves) {
                for (int64_t m = 1; m <= n_; ++m) others[m] = A::plus(others[m], below_[m]);
                A::add_products(w + 1, r + 1, below_ + 1, n_);
            }
            if (arcs.marginal) A::shares(w + 1, r + 1, inverse_ + 1, arcs.marginal + at + 1, n_);
            for (int64_t m = 1; arcs.complement && m <= n_; ++m) {
                arcs.complement[at + m] = A::as_double(A::times(others[m], inverse_[m]));
            }
            for (int64_t m = 1; arcs.ratio && m <= n_; ++m) {
                if (arcs.asked && !arcs.asked[at + m]) continue;
                if (arcs.least > 0.0 &&
                    A::as_double(A::times(w[m], A::times(r[m], inverse_[m]))) < arcs.least) {
                    arcs.ratio[at + m] = -INFINITY;
                    continue;
                }
                arcs.ratio[at + m] = A::log_over(r[m], others[m]) - shift[m];
            }
            for (double* out : {arcs.marginal, arcs.complement, arcs.ratio}) {
                if (out) out[at] = out[at + h] = 0.0;
            }
        }
    }

  private:
    const T* row(const T* table, int64_t h) const { return table + h * ld_; }

    const int64_t n_, ld_;
    const T *weight_, *rest_;
    T *others_, *total_, *below_, *inverse_;
};

}  // namespace VS_NS
