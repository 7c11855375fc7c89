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
// more, and everything else stays as it is. Each word has to reach each other one: root_words.h.
#pragma once

#include <cstdint>

#include "dependency/elimination.h"

namespace VS_NS {

template <class A>
class Laplacian {
    using T = typename A::T;
    using Node = BlockElimination<A>;

  public:
    // Numbers of scratch beside the arguments of `solve`.
    static int64_t scratch(int64_t n) {
        int64_t size = 0;
        for (; n > 2; n = (n + 1) / 2) size += Node::scratch(n);
        return size;
    }

    // pivot (n,): det = their product. hit (n, ld): [h, m] of words. False where some s_k is 0.
    // steps: w_ij at [i, j], rows `from` apart; those of the root apart.
    static bool solve(const T* steps, int64_t from, const T* root, int64_t n, bool single, T* hit,
                      int64_t ld, T* pivot, T* scratch) {
        if (n == 1) {
            hit[0] = A::zero();
            if (pivot) pivot[0] = root[0];
            return !A::is_zero(root[0]);
        }
        if (n == 2) return two(steps, from, root, single, hit, ld, pivot);
        const int64_t half = n / 2;
        for (int side = 0; side < 2; ++side) {
            const int64_t at = side == 0 ? 0 : half, kept = side == 0 ? half : n - half;
            T* pivots = side == 0 ? pivot : nullptr;
            Node node(n, at, kept, scratch);
            if (!node.eliminate(steps, from, root, single, pivots)) return false;
            if (!solve(node.left(), node.rows(), node.roots_left(), kept, single,
                       hit + at * ld + at, ld, pivots ? pivots + n - kept : nullptr,
                       scratch + Node::scratch(n))) {
                return false;
            }
            node.substitute(hit, ld);
        }
        return true;
    }

  private:
    static bool two(const T* steps, int64_t from, const T* root, bool single, T* hit, int64_t ld,
                    T* pivot) {
        const T a = root[0], b = root[1];
        const T s = single ? steps[1] : A::plus(a, steps[1]);
        const T t = single ? steps[from] : A::plus(b, steps[from]);
        if (A::is_zero(s) || A::is_zero(t)) return false;
        hit[0] = hit[ld + 1] = A::zero();
        hit[1] = A::over(a, s);
        hit[ld] = A::over(b, t);
        const T last = A::plus(b, A::times(steps[from], hit[1]));
        if (pivot) {
            pivot[0] = s;
            pivot[1] = last;
        }
        return !A::is_zero(last);
    }
};

}  // namespace VS_NS
