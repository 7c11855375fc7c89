// Projective trees by spans (Eisner): inside and outside, for sums and for maxima.
//
// complete(h, e): all ways to hang the words from h to e, without h, below h; 1 where h = e.
//   between(i, j)  = sum_{i <= k < j} complete(i, k) complete(j, k + 1)       i < j
//   arc(h, m)      = w(h, m) between(h, m)                                     either direction
//   complete(i, j) = sum_{i < k <= j} arc(i, k) complete(k, j)
//   complete(j, i) = sum_{i <= k < j} arc(j, k) complete(k, i)
// The mass of all trees is complete(0, n). With a single root, between(0, j) is complete(j, 1).
// The outside of each is its derivative, from wide spans to narrow ones. All sums are products of
// rows: tables that are read by columns are kept transposed as well.
#pragma once

#include <cstdint>

#include "simd/level.h"

namespace VS_NS {

template <class A>
class Eisner {
    using T = typename A::T;

  public:
    static int64_t stride(int64_t n) { return (n + 1 + 7) / 8 * 8; }
    static constexpr int64_t kTables = 9;
    static int64_t scratch(int64_t n) { return kTables * (n + 1) * stride(n); }

    // weight (n + 1, stride(n)) at [head, modifier].
    Eisner(const T* weight, int64_t n, bool single, T* scratch)
        : n_(n), ld_(stride(n)), single_(single), w_(weight) {
        T** tables[] = {&complete_, &complete_t_, &arc_, &arc_t_, &between_,
                        &outer_,    &outer_t_,    &gap_, &gap_t_};
        for (T** table : tables) {
            *table = scratch;
            scratch += (n + 1) * ld_;
        }
    }

    T inside() {
        for (int64_t i = 0; i <= n_; ++i) at(complete_, i, i) = at(complete_t_, i, i) = A::one();
        for (int64_t width = 1; width <= n_; ++width) {
            for (int64_t i = 0; i + width <= n_; ++i) {
                const int64_t j = i + width;
                const T b = i == 0 && single_
                                ? at(complete_, j, 1)
                                : A::dot(row(complete_, i, i), row(complete_, j, i + 1), width);
                at(between_, i, j) = b;
                at(arc_, i, j) = at(arc_t_, j, i) = A::times(at(w_, i, j), b);
                const T right = A::dot(row(arc_, i, i + 1), row(complete_t_, j, i + 1), width);
                at(complete_, i, j) = at(complete_t_, j, i) = right;
                if (i == 0) continue;
                at(arc_, j, i) = at(arc_t_, i, j) = A::times(at(w_, j, i), b);
                const T left = A::dot(row(arc_, j, i), row(complete_t_, i, i), width);
                at(complete_, j, i) = at(complete_t_, i, j) = left;
            }
        }
        return at(complete_, 0, n_);
    }

    // After inside. rest (n + 1, stride(n)): what arc weights are multiplied by; zero elsewhere.
    void outside(T* rest) {
        for (int64_t i = 0; i < (n_ + 1) * ld_; ++i) rest[i] = A::zero();
        for (int64_t width = n_; width > 0; --width) {
            for (int64_t i = 0; i + width <= n_; ++i) span(i, i + width, rest);
        }
    }

    // As spans whose score depends on the head of h, too.
    T weight(int64_t, int64_t h, int64_t m) const { return at(w_, h, m); }
    T arc(int64_t, int64_t h, int64_t m) const { return at(arc_, h, m); }
    T complete(int64_t, int64_t h, int64_t e) const { return at(complete_, h, e); }

    // complete(i, j) and outer(i, j), the next j behind; complete(j, i), likewise.
    const T* complete_row(int64_t i, int64_t j) const { return row(complete_, i, j); }
    const T* complete_column(int64_t j, int64_t i) const { return row(complete_t_, i, j); }
    const T* outer_row(int64_t i, int64_t j) const { return row(outer_, i, j); }
    // The outside of arc(h, m), after `outside`.
    T outside_of(int64_t h, int64_t m) const {
        return h < m ? beyond(h, m, m, n_ - m + 1) : beyond(h, m, 1, m);
    }

  private:
    T& at(T* table, int64_t i, int64_t j) const { return table[i * ld_ + j]; }
    T at(const T* table, int64_t i, int64_t j) const { return table[i * ld_ + j]; }
    const T* row(const T* table, int64_t i, int64_t j) const { return table + i * ld_ + j; }

    void span(int64_t i, int64_t j, T* rest) {
        const int64_t right = n_ - j;  // words to the right of the span
        // complete(i, j) in complete(h, j), h < i, and in between(i, k), k > j.
        T r = i == 0 && j == n_ ? A::one() : A::dot(row(outer_t_, j, 0), row(arc_t_, i, 0), i);
        if (right > 0 && !(i == 0 && single_)) {
            r = A::plus(r, A::dot(row(gap_, i, j + 1), row(complete_t_, j + 1, j + 1), right));
        }
        at(outer_, i, j) = at(outer_t_, j, i) = r;
        T whole = A::times(at(w_, i, j), derivative(i, j, j, right + 1, rest));
        if (i > 0) {
            // complete(j, i) in complete(k, i), k > j, and in between(h, j), h < i.
            const int64_t least = single_ && i > 1 ? 1 : 0;
            T l = A::dot(row(gap_t_, j, least), row(complete_t_, i - 1, least), i - least);
            if (right > 0) {
                l = A::plus(l, A::dot(row(outer_t_, i, j + 1), row(arc_t_, j, j + 1), right));
            }
            at(outer_, j, i) = at(outer_t_, i, j) = l;
            whole = A::plus(whole, A::times(at(w_, j, i), derivative(j, i, 1, i, rest)));
        }
        at(gap_, i, j) = at(gap_t_, j, i) = whole;
    }

    T beyond(int64_t h, int64_t m, int64_t first, int64_t count) const {
        return A::dot(row(outer_, h, first), row(complete_, m, first), count);
    }
    // arc(h, m) in complete(h, e), e from `first` on. Returns its outside.
    T derivative(int64_t h, int64_t m, int64_t first, int64_t count, T* rest) const {
        const T d = beyond(h, m, first, count);
        const T b = h < m ? at(between_, h, m) : at(between_, m, h);
        rest[h * ld_ + m] = A::times(d, b);
        return d;
    }

    const int64_t n_, ld_;
    const bool single_;
    const T* w_;
    T *complete_, *complete_t_, *arc_, *arc_t_, *between_, *outer_, *outer_t_, *gap_, *gap_t_;
};

}  // namespace VS_NS
