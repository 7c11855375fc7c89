// The matrix-tree theorem without subtraction.
//
// Let a walk step from a word i to a head j in proportion to w_ij, the weight of the arc. With
//   hit(h, m) = P(from h, the root is reached before m),   hit(0, m) = 1,
// P(arc h -> m) = w_mh hit(h, m) / rate(m), rate(m) = sum_h w_mh hit(h, m). Eliminating a word k
// lets walks jump over it (GTH): with s_k = sum_j w_kj, over what is left and the root,
//   w_ij += w_ik w_kj / s_k,
// and log Z is the sum of log s_k. Probabilities of the first word of a set that a walk meets
// follow by substitution. To have hit(., m) for every m, half of the words are eliminated, the rest
// is solved alike, and then the other half: O(n^3) in all.
//
// A single root: let its weights vanish together. To first order s_k does not hold the root any
// more, and everything else stays as it is; a word that has no other head needs wide numbers.
#pragma once

#include <cstdint>

#include "simd/level.h"

namespace VS_NS {

template <class A>
class Laplacian {
    using T = typename A::T;

  public:
    // Rows of `steps`, and what it has to have: rounded up to whole lines of the cache.
    static int64_t stride(int64_t n) { return (n + 1 + 7) / 8 * 8; }
    // Numbers of scratch beside the arguments of `solve`.
    static int64_t scratch(int64_t n) {
        int64_t size = 0;
        for (; n > 1; n = (n + 1) / 2) size += n * stride(n);
        return size;
    }

    // pivot (n,): det = their product. hit (n, ld): [h, m] of words. False where some s_k is 0.
    // steps (n, stride(n)): w_ij at [i - 1, j].
    static bool solve(const T* steps, int64_t n, bool single, T* hit, int64_t ld, T* pivot,
                      T* scratch) {
        return part(steps, stride(n), n, single ? 1 : 0, hit, ld, pivot, scratch);
    }

  private:
    static bool part(const T* steps, int64_t from, int64_t n, int64_t first, T* hit, int64_t ld,
                     T* pivot, T* scratch) {
        if (n == 1) {
            hit[0] = A::zero();
            if (pivot) pivot[0] = steps[0];
            return !A::is_zero(steps[0]);
        }
        const int64_t half = n / 2, rows = stride(n);
        T* own = scratch;
        T* rest = scratch + n * rows;
        for (int side = 0; side < 2; ++side) {
            const int64_t kept = side == 0 ? half : n - half, gone = n - kept;
            const int64_t at_kept = side == 0 ? 0 : half, at_gone = side == 0 ? half : 0;
            for (int64_t i = 0; i < n; ++i) {  // what is kept comes first
                const T* x = steps + (i < kept ? at_kept + i : at_gone + i - kept) * from;
                T* y = own + i * rows;
                y[0] = x[0];
                for (int64_t j = 0; j < kept; ++j) y[1 + j] = x[1 + at_kept + j];
                for (int64_t j = 0; j < gone; ++j) y[1 + kept + j] = x[1 + at_gone + j];
            }
            T* pivots = side == 0 && pivot ? pivot : nullptr;
            if (!eliminate(own, rows, n, kept, first, pivots)) return false;
            T* inner = hit + at_kept * ld + at_kept;
            if (!part(own, rows, kept, first, inner, ld, pivots, rest)) return false;
            // From a word that is gone: to the root, or to a kept word and on from there.
            for (int64_t k = 0; k < gone; ++k) {
                T* row = own + (kept + k) * rows;
                A::add_rows(row + 1 + kept, own + kept * rows, rows, k, row, kept + 1);
                T* out = hit + (at_gone + k) * ld + at_kept;
                for (int64_t m = 0; m < kept; ++m) out[m] = row[0];
                A::add_rows(row + 1, inner, ld, kept, out, kept);
            }
        }
        return true;
    }

    // Words n - 1 down to `kept`; their rows become probabilities of the next step.
    static bool eliminate(T* w, int64_t rows, int64_t n, int64_t kept, int64_t first, T* pivot) {
        for (int64_t k = n; k-- > kept;) {
            T* row = w + k * rows;
            const T s = A::sum(row + first, k + 1 - first);
            if (A::is_zero(s)) return false;
            if (pivot) pivot[k] = s;
            A::scale(A::over(A::one(), s), row, k + 1);
            for (int64_t i = 0; i < k; ++i) A::add(w[i * rows + k + 1], row, w + i * rows, k + 1);
        }
        return true;
    }
};

}  // namespace VS_NS
