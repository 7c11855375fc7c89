// Projective trees whose arcs are scored with the head of their head, O(n^4): for sums and maxima.
//
// The spans are those of eisner.h, with the head g of h beside them; g lies outside of a span.
//   between(g, h, m)  = sum_k complete(g, h, k) complete(h, m, k + 1)       h <= k < m
//   arc(g, h, m)      = w(g, h, m) between(g, h, m)
//   complete(g, h, e) = sum_m arc(g, h, m) complete(h, m, e)                h < m <= e
// and alike to the left. Rows run over g; the other factor of each product is one number, since its
// grandparent is h. The root has no head: only g = 0 counts there.
#pragma once

#include <cstdint>

#include "simd/level.h"

namespace VS_NS {

template <class A>
class GrandparentSpans {
    using T = typename A::T;

  public:
    static int64_t stride(int64_t n) { return (n + 1 + 7) / 8 * 8; }
    static int64_t table(int64_t n) { return (n + 1) * (n + 1) * stride(n); }
    static int64_t scratch(int64_t n) { return 7 * table(n); }

    // weight (n + 1, n + 1, stride(n)) at [head, modifier, grandparent]; zero where g is in the
    // span of its arc.
    GrandparentSpans(const T* weight, int64_t n, bool single, T* scratch)
        : n_(n), ld_(stride(n)), single_(single), w_(weight) {
        T** tables[] = {&complete_, &by_end_, &by_head_, &between_, &arc_, &outer_, &whole_};
        for (T** one : tables) {
            *one = scratch;
            scratch += table(n);
        }
    }

    T inside() {
        const T zero = A::zero();
        for (int64_t i = 0; i < table(n_); ++i) complete_[i] = by_end_[i] = by_head_[i] = zero;
        for (int64_t h = 0; h <= n_; ++h) {
            T* own = row(complete_, h, h);
            for (int64_t g = 0; g <= n_; ++g)
                own[g] = h == 0 ? (g == 0 ? A::one() : zero) : A::one();
            keep(h, h);
        }
        for (int64_t width = 1; width <= n_; ++width) {
            for (int64_t i = 0; i + width <= n_; ++i) {
                const int64_t j = i + width;
                attach(i, j, row(complete_, i, i), row(by_end_, j, i) + i + 1,
                       single_ && i == 0 ? 1 : width);
                if (i > 0) attach(j, i, row(complete_, j, i + 1), row(by_end_, i, j) + i, width);
                close(i, j, row(arc_, i, i + 1), row(by_head_, i, j) + i + 1, width);
                if (i > 0) close(j, i, row(arc_, j, i), row(by_head_, j, i) + i, width);
            }
        }
        return row(complete_, 0, n_)[0];
    }

    // After inside: mass of each part, as the weights.
    void outside() {
        for (int64_t i = 0; i < table(n_); ++i) outer_[i] = A::zero();
        row(outer_, 0, n_)[0] = A::one();
        for (int64_t width = n_; width > 0; --width) {
            for (int64_t i = 0; i + width <= n_; ++i) {
                right(i, i + width);
                if (i > 0) left(i + width, i);
            }
        }
    }
    T mass(int64_t g, int64_t h, int64_t m) const {
        return A::times(row(whole_, h, m)[g], row(between_, h, m)[g]);
    }

    T weight(int64_t g, int64_t h, int64_t m) const { return row(w_, h, m)[g]; }
    T arc(int64_t g, int64_t h, int64_t m) const { return row(arc_, h, m)[g]; }
    T complete(int64_t g, int64_t h, int64_t e) const { return row(complete_, h, e)[g]; }

  private:
    T* row(T* table, int64_t i, int64_t j) const { return table + (i * (n_ + 1) + j) * ld_; }
    const T* row(const T* table, int64_t i, int64_t j) const {
        return table + (i * (n_ + 1) + j) * ld_;
    }

    // A span's row again, as others read it: e, or h, in a row.
    void keep(int64_t h, int64_t e) {
        const T* x = row(complete_, h, e);
        for (int64_t g = 0; g <= n_; ++g) row(by_end_, h, g)[e] = row(by_head_, g, e)[h] = x[g];
    }
    void attach(int64_t h, int64_t m, const T* rows, const T* numbers, int64_t count) {
        T *b = row(between_, h, m), *a = row(arc_, h, m);
        const T* w = row(w_, h, m);
        for (int64_t g = 0; g <= n_; ++g) b[g] = A::zero();
        A::add_rows(numbers, rows, ld_, count, b, n_ + 1);
        for (int64_t g = 0; g <= n_; ++g) a[g] = A::times(w[g], b[g]);
    }
    void close(int64_t h, int64_t e, const T* rows, const T* numbers, int64_t count) {
        A::add_rows(numbers, rows, ld_, count, row(complete_, h, e), n_ + 1);
        keep(h, e);
    }

    // The outside of complete(., h, e) is ready but for what follows from wider arcs of h; then it
    // goes on to narrower spans, and so does that of arc(., h, e).
    void right(int64_t h, int64_t e) {
        T* out = row(outer_, h, e);
        if (e < n_ && !(single_ && h == 0)) {
            A::add_rows(row(by_head_, h, e + 1) + e + 1, row(whole_, h, e + 1), ld_, n_ - e, out,
                        n_ + 1);
        }
        for (int64_t m = h + 1; m < e; ++m) tell(h, m, e, out, row(arc_, h, m));
        const T* g = derive(h, e, row(outer_, h, e), row(by_end_, e, h) + e, n_ + 1 - e);
        const int64_t last = single_ && h == 0 ? h + 1 : e - 1;
        for (int64_t k = h + 1; k <= last; ++k) tell(h, e, k, g, row(complete_, h, k - 1));
    }
    void left(int64_t h, int64_t e) {
        T* out = row(outer_, h, e);
        A::add_rows(row(by_head_, h, e - 1) + 1, row(whole_, h, 1), ld_, e - 1, out, n_ + 1);
        for (int64_t m = e + 1; m < h; ++m) tell(h, m, e, out, row(arc_, h, m));
        const T* g = derive(h, e, row(outer_, h, 1), row(by_end_, e, h) + 1, e);
        for (int64_t k = e + 1; k < h; ++k) tell(h, e, k, g, row(complete_, h, k + 1));
    }
    // complete(h, m, e) stood beside a row over g.
    void tell(int64_t h, int64_t m, int64_t e, const T* x, const T* y) {
        T& own = row(outer_, m, e)[h];
        own = A::plus(own, A::dot(x, y, n_ + 1));
    }
    const T* derive(int64_t h, int64_t m, const T* rows, const T* numbers, int64_t count) {
        T* whole = row(whole_, h, m);
        const T* w = row(w_, h, m);
        for (int64_t g = 0; g <= n_; ++g) whole[g] = A::zero();
        A::add_rows(numbers, rows, ld_, count, whole, n_ + 1);
        for (int64_t g = 0; g <= n_; ++g) whole[g] = A::times(w[g], whole[g]);
        return whole;
    }

    const int64_t n_, ld_;
    const bool single_;
    const T* w_;
    // complete [h, e, g], [h, g, e] and [g, e, h]; the others as the weights.
    T *complete_, *by_end_, *by_head_, *between_, *arc_, *outer_, *whole_;
};

}  // namespace VS_NS
