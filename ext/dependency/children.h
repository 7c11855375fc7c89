// Joints of the arcs of one head in projective trees: of two of its children, and of a child with
// the head's own head. O(k n^2) for k children.
//
// Spans in which a child c of h is marked (eisner.h has the others), for children on the right:
//   arc_c(h, k)      = w(h, k) sum_{c <= j < k} complete_c(h, j) complete(k, j + 1)    k > c
//   arc_c(h, c)      = arc(h, c)
//   complete_c(h, e) = sum_{c <= k <= e} arc_c(h, k) complete(k, e)
// and those on the left mirrored. With D(h, k) the outside of arc(h, k),
//   P(h -> c, h -> k) Z = arc_c(h, k) D(h, k)
// of two children on one side, k beyond c. Another head g meets h by its inner side, which is a
// part of between(g, h), and by its outer side:
//   path_c(g) = sum_k complete(g, k) complete_c(h, k + 1)    c on the inner side
//   path_c(g) = sum_e outer(g, e) complete_c(h, e)           c on the outer side
//   P(g -> h, h -> c) Z = w(g, h) path_c(g) D(g, h) or arc(g, h) path_c(g), and
//   P(h -> l, h -> r) Z = sum_g w(g, h) path_l(g) path_r(g)
// of two children on both sides. A child is a lane. Nothing is subtracted.
#pragma once

#include <algorithm>
#include <cstdint>

#include "dependency/eisner.h"

namespace VS_NS {

template <class A>
class Children {
    using T = typename A::T;

  public:
    static int64_t scratch(int64_t n) { return 6 * (n + 3) * ((n + 8) / 8 * 8 + 8); }

    // After `inside` and `outside`.
    Children(const SpanSums<T>& spans, int64_t n, bool single, T* scratch)
        : spans_(spans), n_(n), single_(single), scratch_(scratch) {}

    // modifiers (count,), ascending. Both arcs i < j at siblings[i count + j]; of the arc g -> head
    // and arc i at grandparents[g count + i], g of above (many,).
    void joints(int64_t head, int64_t count, const int32_t* modifiers, int64_t many,
                const int32_t* above, double* siblings, double* grandparents) {
        h_ = head;
        const int32_t* middle = std::lower_bound(modifiers, modifiers + count, head);
        const int64_t left = middle - modifiers, right = count - left;
        T* next = scratch_;
        Side sides[2] = {Side(middle - 1, -1, left, n_, &next), Side(middle, 1, right, n_, &next)};
        const T unit = A::over(A::one(), spans_.complete(0, 0, n_));
        for (const Side& s : sides) {
            if (s.count == 0) continue;
            s.step > 0 ? mark_right(s) : mark_left(s);
            // Lane i is the nearest but i.
            for (int64_t k = 1; k < s.count; ++k) {
                const T outside = A::times(spans_.outside_of(h_, s.child(k)), unit);
                for (int64_t i = 0; i < k; ++i) {
                    const int64_t x = s.step > 0 ? left + i : left - 1 - k;
                    const int64_t y = s.step > 0 ? left + k : left - 1 - i;
                    siblings[x * count + y] =
                        A::as_double(A::times(s.arc[s.child(k) * s.ld + i], outside));
                }
            }
            if (h_ > 0) s.step > 0 ? paths_right(s) : paths_left(s);
        }
        for (int64_t k = 0; k < many; ++k) {
            const int64_t g = above[k];
            double* out = grandparents + g * count;
            std::fill(out, out + count, 0.0);
            if (h_ == 0 || g == h_ || A::is_zero(spans_.weight(0, g, h_))) continue;
            const T inner =
                A::times(A::times(spans_.weight(0, g, h_), spans_.outside_of(g, h_)), unit);
            const T outer = A::times(spans_.arc(0, g, h_), unit);
            for (const Side& s : sides) {
                const T factor = (g < h_) == (s.step < 0) ? inner : outer;
                for (int64_t i = 0; i < s.count; ++i) {
                    const int64_t x = s.step > 0 ? left + i : left - 1 - i;
                    out[x] = A::as_double(A::times(factor, s.path[g * s.ld + i]));
                }
            }
        }
        if (left > 0 && right > 0) apart(sides[0], sides[1], unit, count, siblings, next);
    }

  private:
    // The children on one side, the nearest one first.
    struct Side {
        Side(const int32_t* nearest, int direction, int64_t size, int64_t n, T** next)
            : first(nearest), step(direction), count(size), ld((size + 7) / 8 * 8) {
            for (T** table : {&complete, &arc, &path}) {
                *table = *next;
                *next += (n + 1) * ld;
            }
            if (size > 0) std::fill(complete, *next, A::zero());
        }
        int64_t child(int64_t i) const { return first[i * step]; }

        const int32_t* first;
        int step;
        int64_t count, ld;
        T *complete, *arc,
            *path;  // (n + 1, ld) by the other end, or by g; zero where there is none
    };

    // Lanes of whole vectors that hold the first `count` ones.
    static int64_t lanes(int64_t count) { return (count + A::kLanes - 1) / A::kLanes * A::kLanes; }

    void mark_right(const Side& s) {
        const int64_t c = s.child(0);
        int64_t there = 0;
        for (int64_t e = c; e <= n_; ++e) {
            T* arc = s.arc + e * s.ld;
            const T w = spans_.weight(0, h_, e);
            if (there > 0 && !(h_ == 0 && single_) && !A::is_zero(w)) {
                A::add_rows(spans_.complete_row(e, c + 1), s.complete + c * s.ld, s.ld, e - c, arc,
                            lanes(there));
                A::scale(w, arc, lanes(there));
            }
            if (there < s.count && s.child(there) == e) arc[there++] = spans_.arc(0, h_, e);
            A::add_rows(spans_.complete_column(c, e), s.arc + c * s.ld, s.ld, e - c + 1,
                        s.complete + e * s.ld, lanes(there));
        }
    }
    void mark_left(const Side& s) {
        const int64_t c = s.child(0);
        int64_t there = 0;
        for (int64_t b = c; b >= 1; --b) {
            T* arc = s.arc + b * s.ld;
            const T w = spans_.weight(0, h_, b);
            if (there > 0 && !A::is_zero(w)) {
                A::add_rows(spans_.complete_row(b, b), s.complete + (b + 1) * s.ld, s.ld, c - b,
                            arc, lanes(there));
                A::scale(w, arc, lanes(there));
            }
            if (there < s.count && s.child(there) == b) arc[there++] = spans_.arc(0, h_, b);
            A::add_rows(spans_.complete_column(b, b), s.arc + b * s.ld, s.ld, c - b + 1,
                        s.complete + b * s.ld, lanes(there));
        }
    }

    void paths_right(const Side& s) {
        const int64_t c = s.child(0), width = lanes(s.count);
        A::add_product(spans_.outer_row(0, c), spans_.ld, h_, s.complete + c * s.ld, s.ld,
                       n_ - c + 1, s.path, s.ld, width);
        for (int64_t g = c + 1; g <= n_; ++g) {
            A::add_rows(spans_.complete_row(g, c + 1), s.complete + c * s.ld, s.ld, g - c,
                        s.path + g * s.ld, width);
        }
    }
    void paths_left(const Side& s) {
        const int64_t c = s.child(0), width = lanes(s.count);
        for (int64_t g = 0; g < c; ++g) {
            if (g == 0 && single_) {
                A::copy(s.complete + s.ld, s.path, width);
                continue;
            }
            A::add_rows(spans_.complete_row(g, g), s.complete + (g + 1) * s.ld, s.ld, c - g,
                        s.path + g * s.ld, width);
        }
        A::add_product(spans_.outer_row(h_ + 1, 1), spans_.ld, n_ - h_, s.complete + s.ld, s.ld, c,
                       s.path + (h_ + 1) * s.ld, s.ld, width);
    }

    // Joints of a child on the left and one on the right.
    void apart(const Side& l, const Side& r, T unit, int64_t count, double* siblings,
               T* scratch) const {
        T *column = scratch, *sum = column + n_ + 1;
        const int64_t width = lanes(r.count);
        for (int64_t i = 0; i < l.count; ++i) {
            for (int64_t g = 0; g <= n_; ++g) {
                const T w = g == h_ ? A::zero() : A::times(spans_.weight(0, g, h_), unit);
                column[g] = A::times(w, l.path[g * l.ld + i]);
            }
            for (int64_t j = 0; j < width; ++j) sum[j] = A::zero();
            A::add_rows(column, r.path, r.ld, n_ + 1, sum, width);
            double* out = siblings + (l.count - 1 - i) * count + l.count;
            for (int64_t j = 0; j < r.count; ++j) out[j] = A::as_double(sum[j]);
        }
    }

    const SpanSums<T> spans_;
    const int64_t n_;
    const bool single_;
    T* scratch_;
    int64_t h_ = 0;
};

}  // namespace VS_NS
