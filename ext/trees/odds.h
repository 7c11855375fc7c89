// From what each arc is multiplied by to what is wanted of it.
#pragma once

#include <cmath>
#include <cstdint>

#include "trees/trees.h"

namespace VS_NS {

// weight, rest (n + 1, ld) at [head, modifier]: the trees of an arc h -> m sum up to
// weight(h, m) rest(h, m), in a unit of its word; zero where there is no arc. What an arc leaves is
// the sum over the other heads of its word, from above and from below: never a difference.
template <class A>
class Odds {
    using T = typename A::T;

  public:
    // Numbers of scratch.
    static int64_t scratch(int64_t n, int64_t ld) { return (n + 4) * ld; }

    Odds(const T* weight, const T* rest, int64_t n, int64_t ld, T* scratch)
        : n_(n), ld_(ld), weight_(weight), rest_(rest), others_(scratch) {
        total_ = scratch + (n + 1) * ld;
        below_ = total_ + ld;
        inverse_ = below_ + ld;
        for (int64_t m = 0; m <= n; ++m) total_[m] = below_[m] = A::zero();
        for (int64_t h = 0; h <= n; ++h) {
            const T *w = weight + h * ld, *r = rest + h * ld;
            for (int64_t m = 0; m <= n; ++m) {
                others_[h * ld + m] = total_[m];
                total_[m] = A::plus(total_[m], A::times(w[m], r[m]));
            }
        }
    }
    const T* total() const { return total_; }  // (n + 1,) of each word

    // Once. log weight = score - shift(m).
    void tell(const double* shift, const vs::trees::Arcs& arcs) {
        for (int64_t m = 1; m <= n_; ++m) inverse_[m] = A::over(A::one(), total_[m]);
        for (int64_t h = n_ + 1; h-- > 0;) {
            const T *w = weight_ + h * ld_, *r = rest_ + h * ld_;
            T* others = others_ + h * ld_;
            const int64_t row = h * (n_ + 1);
            for (int64_t m = 1; (arcs.complement || arcs.ratio) && m <= n_; ++m) {
                others[m] = A::plus(others[m], below_[m]);
                below_[m] = A::plus(below_[m], A::times(w[m], r[m]));
            }
            for (int64_t m = 1; arcs.marginal && m <= n_; ++m) {
                const T p = A::times(w[m], A::times(r[m], inverse_[m]));
                arcs.marginal[row + m] = A::as_double(p);
            }
            for (int64_t m = 1; arcs.complement && m <= n_; ++m) {
                arcs.complement[row + m] = A::as_double(A::times(others[m], inverse_[m]));
            }
            for (int64_t m = 1; arcs.ratio && m <= n_; ++m) {
                arcs.ratio[row + m] = A::log_over(r[m], others[m]) - shift[m];
            }
            for (double* out : {arcs.marginal, arcs.complement, arcs.ratio}) {
                if (out) out[row] = out[row + h] = 0.0;
            }
        }
    }

  private:
    const int64_t n_, ld_;
    const T *weight_, *rest_;
    T *others_, *total_, *below_, *inverse_;
};

}  // namespace VS_NS
