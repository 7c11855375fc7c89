// Projective trees by spans (Eisner): inside and outside, for sums and for maxima.
//
// complete(h, e): all ways to attach the words from h to e, without h, below h; 1 where h = e.
//   between(i, j)  = sum_{i <= k < j} complete(i, k) complete(j, k + 1)       i < j
//   arc(h, m)      = w(h, m) between(h, m)                                     either direction
//   complete(i, j) = sum_{i < k <= j} arc(i, k) complete(k, j)
//   complete(j, i) = sum_{i <= k < j} arc(j, k) complete(k, i)
// The mass of all trees is complete(0, n). With a single root, between(0, j) is complete(j, 1).
// The outside of each is its derivative, from wide spans to narrow ones.
//
// Spans go in tiles of two first words and two last ones. Their terms of words between these, or
// outside, share factors; those of the words themselves follow, span by span. Tiles with the same
// last words follow each other, since those rows stay in the nearest cache, and their loops end
// with what the tile before has made.
#pragma once

#include <cstdint>

#include "simd/each.h"
#include "simd/level.h"

namespace VS_NS {

// What is known of spans, at [head, end] of squares whose rows are `ld` apart.
template <class T>
struct SpanSums {
    T weight(int64_t, int64_t h, int64_t m) const { return weight_[h * weight_ld_ + m]; }
    T complete(int64_t, int64_t h, int64_t e) const { return complete_[h * ld + e]; }
    T arc(int64_t, int64_t h, int64_t m) const { return arc_t_[m * ld + h]; }
    // After `outside`: of arc(h, m).
    T outside_of(int64_t h, int64_t m) const { return outside_[h * ld + m]; }
    // complete(i, j) and its outside, the next j behind; complete(j, i), likewise.
    const T* complete_row(int64_t i, int64_t j) const { return complete_ + i * ld + j; }
    const T* complete_column(int64_t j, int64_t i) const { return complete_t_ + i * ld + j; }
    const T* outer_row(int64_t i, int64_t j) const { return outer_ + i * ld + j; }

    const T *weight_, *complete_, *complete_t_, *arc_t_, *outer_, *outside_;
    int64_t weight_ld_, ld;
};

template <class A>
class Eisner {
    using T = typename A::T;
    using Tile = T[2][2];
    static constexpr int64_t kSquares = 8;

  public:
    // Words and the root, an even number: what lies beyond a sentence has no weight.
    static int64_t side(int64_t n) { return (n + 2) / 2 * 2; }
    static int64_t scratch(int64_t n) { return kSquares * side(n) * side(n) + 2 * side(n); }

    Eisner(int64_t n, bool single, T* scratch) : ld_(side(n)), single_(single) {
        T** squares[] = {&w_, &c_, &ct_, &a_, &at_, &b_, &ot_, &g_};
        for (T** square : squares) {
            *square = scratch;
            scratch += ld_ * ld_;
        }
        root_ = scratch;
        ends_ = scratch + ld_;
    }

    // (side, side) at [head, modifier], zero where there is no arc; after `outside` what weights
    // are multiplied by.
    T* weights() const { return w_; }
    // (side,): one where the sentence ends, else zero.
    T* ends() const { return ends_; }
    // Both of one sentence of n words; and back. weight, rest (n + 1, ld).
    void write(int64_t n, const T* weight, int64_t ld) {
        for (int64_t h = 0; h < ld_; ++h) {
            T* row = w_ + h * ld_;
            for (int64_t m = 0; m < ld_; ++m) {
                row[m] = h <= n && m <= n ? weight[h * ld + m] : A::zero();
            }
            ends_[h] = h == n ? A::one() : A::zero();
        }
    }
    void read(int64_t n, T* rest, int64_t ld) const {
        for (int64_t h = 0; h <= n; ++h) {
            for (int64_t m = 0; m <= n; ++m) rest[h * ld + m] = w_[h * ld_ + m];
        }
    }

    void inside() {
        for (int64_t i = 0; i < ld_; ++i) c_[i * ld_ + i] = ct_[i * ld_ + i] = A::one();
        for (int64_t j = 0; j < ld_; j += 2) {
            attach(j, j + 1, A::one(), A::zero(), A::zero());
            for (int64_t i = j - 2; i >= 0; i -= 2) inside(i, j);
        }
    }
    T mass(int64_t n) const { return c_[n]; }

    void outside() {
        for (int64_t j = ld_ - 2; j >= 0; j -= 2) {
            for (int64_t i = 0; i < j; i += 2) outside(i, j);
            T out_r[1][1], out_l[1][1], arc_r[1][1], arc_l[1][1];
            sum_outside<1>(j, j + 1, out_r, out_l, arc_r, arc_l);
            detach(j, j + 1, out_r[0][0], out_l[0][0], arc_r[0][0], arc_l[0][0]);
        }
    }

    // weight (n + 1, weight_ld): those that `weights` had.
    SpanSums<T> spans(const T* weight, int64_t weight_ld) const {
        return {weight, c_, ct_, at_, a_, b_, weight_ld, ld_};
    }
    // Its squares of `spans`; those of other elements go into another one's.
    static constexpr int kSpans = 5;
    void squares(T* (&out)[kSpans]) const {
        int i = 0;
        for (T* square : {c_, ct_, at_, a_, b_}) out[i++] = square;
    }

  private:
    // One term of the sums of a tile: x of its first words, y of its last ones.
    template <int N>
    VS_INLINE void add(const T* x, const T* y, T (&sum)[N][N]) const {
        T first[N];
        each<N>([&](auto p) VS_INLINE_LAMBDA { first[p] = x[p * ld_]; });
        each<N>([&](auto q) VS_INLINE_LAMBDA {
            const T last = y[q * ld_];
            each<N>([&](auto p)
                        VS_INLINE_LAMBDA { sum[p][q] = A::more(first[p], last, sum[p][q]); });
        });
    }

    // What is known of two words: their arcs and complete spans, or the outside of these and their
    // gap; to the right and to the left. The next words of a tile wait for it.
    struct Pair {
        T arc_r, arc_l, span_r, span_l;
    };
    struct Outside {
        T span_r, span_l, gap;
    };

    // Of i and j, but for what of their spans is given.
    VS_INLINE Pair attach(int64_t i, int64_t j, T between, T right, T left) {
        const int64_t up = i * ld_ + j, down = j * ld_ + i;
        const T r = A::times(w_[up], between), l = A::times(w_[down], between);
        const Pair pair{r, l, A::plus(right, r), A::plus(left, l)};
        b_[up] = between;
        a_[up] = at_[down] = r;
        a_[down] = at_[up] = l;
        c_[up] = ct_[down] = pair.span_r;
        c_[down] = ct_[up] = pair.span_l;
        return pair;
    }

    void inside(int64_t i, int64_t j) {
        const int64_t ld = ld_, i1 = i + 1, j1 = j + 1;
        const T *c_i = c_ + i * ld, *c_j = c_ + j * ld, *t_i = ct_ + i * ld, *t_j = ct_ + j * ld;
        const T *a_i = a_ + i * ld, *a_j = a_ + j * ld;
        Tile b, r, l;
        each<2>([&](auto p) VS_INLINE_LAMBDA {
            each<2>([&](auto q) VS_INLINE_LAMBDA {
                b[p][q] = A::times(c_i[p * ld + i1], c_j[q * ld + i1 + 1]);
                r[p][q] = l[p][q] = A::zero();
            });
        });
        for (int64_t k = j - 1; k >= i + 2; --k) {
            add<2>(c_i + k, c_j + k + 1, b);
            add<2>(a_i + k, t_j + k, r);
            add<2>(t_i + k, a_j + k, l);
        }
        const T a_up = a_i[i1], c_down = c_i[ld + i];  // i -> i1 and its mirror image
        const T c_up = c_j[j1], a_down = a_j[ld + j];  // of j and j1
        const bool root = single_ && i == 0;
        const Pair near = attach(i1, j, b[1][0], r[1][0], l[1][0]);
        const Pair low =
            attach(i, j, root ? near.span_l : A::plus(b[0][0], near.span_l),
                   A::more(a_up, near.span_r, r[0][0]), A::more(near.arc_l, c_down, l[0][0]));
        const Pair high =
            attach(i1, j1, A::plus(b[1][1], near.span_r), A::more(near.arc_r, c_up, r[1][1]),
                   A::more(a_down, near.span_l, l[1][1]));
        attach(i, j1, root ? high.span_l : A::plus(A::plus(b[0][1], high.span_l), low.span_r),
               A::more(low.arc_r, c_up, A::more(a_up, high.span_r, r[0][1])),
               A::more(a_down, low.span_l, A::more(high.arc_l, c_down, l[0][1])));
    }

    // The outside of the complete spans of i and j, and of their arcs but for these spans.
    VS_INLINE Outside detach(int64_t i, int64_t j, T out_r, T out_l, T arc_r, T arc_l) {
        const int64_t up = i * ld_ + j, down = j * ld_ + i;
        if (i == 0) out_r = A::plus(out_r, ends_[j]);
        if (i == 1 && single_) out_l = A::plus(out_l, root_[j]);
        a_[up] = ot_[down] = out_r;
        a_[down] = ot_[up] = out_l;
        const T r = A::plus(arc_r, out_r), l = A::plus(arc_l, out_l), between = b_[up];
        T gap = A::plus(A::times(w_[up], r), A::times(w_[down], l));
        w_[up] = A::times(r, between);
        w_[down] = A::times(l, between);
        b_[up] = r;
        b_[down] = l;
        if (i == 0 && single_) {
            root_[j] = gap;
            gap = A::zero();
        }
        g_[up] = g_[down] = gap;
        return {out_r, out_l, gap};
    }

    // Terms of the words outside of N first and N last ones.
    template <int N>
    VS_INLINE void sum_outside(int64_t i, int64_t j, T (&out_r)[N][N], T (&out_l)[N][N],
                               T (&arc_r)[N][N], T (&arc_l)[N][N]) const {
        const int64_t ld = ld_;
        each<N>([&](auto p) VS_INLINE_LAMBDA {
            each<N>([&](auto q) VS_INLINE_LAMBDA {
                out_r[p][q] = out_l[p][q] = arc_r[p][q] = arc_l[p][q] = A::zero();
            });
        });
        const T *o_i = a_ + i * ld, *o_j = a_ + j * ld, *t_i = ot_ + i * ld, *t_j = ot_ + j * ld;
        const T *a_i = at_ + i * ld, *a_j = at_ + j * ld, *c_i = c_ + i * ld, *c_j = c_ + j * ld;
        const T *g_i = g_ + i * ld, *g_j = g_ + j * ld;
        const T *e_i = ct_ + (i - 1) * ld, *e_j = ct_ + (j + 1) * ld;
        for (int64_t k = j + N; k < ld; ++k) {
            add<N>(g_i + k, e_j + k, out_r);
            add<N>(t_i + k, a_j + k, out_l);
            add<N>(o_i + k, c_j + k, arc_r);
        }
        for (int64_t h = 0; h < i; ++h) {
            add<N>(a_i + h, t_j + h, out_r);
            add<N>(e_i + h, g_j + h, out_l);
            add<N>(c_i + h, o_j + h, arc_l);
        }
    }

    void outside(int64_t i, int64_t j) {
        const int64_t ld = ld_, i1 = i + 1, j1 = j + 1;
        Tile out_r, out_l, arc_r, arc_l;
        sum_outside<2>(i, j, out_r, out_l, arc_r, arc_l);
        const T a_up = at_[i1 * ld + i], c_down = c_[i1 * ld + i];
        const T a_down = at_[j * ld + j1], c_up = c_[j * ld + j1];
        const Outside far = detach(i, j1, out_r[0][1], out_l[0][1], arc_r[0][1], arc_l[0][1]);
        const Outside low =
            detach(i, j, A::plus(out_r[0][0], far.gap), A::more(far.span_l, a_down, out_l[0][0]),
                   A::more(far.span_r, c_up, arc_r[0][0]), arc_l[0][0]);
        const Outside high =
            detach(i1, j1, A::more(far.span_r, a_up, out_r[1][1]), A::plus(out_l[1][1], far.gap),
                   arc_r[1][1], A::more(far.span_l, c_down, arc_l[1][1]));
        detach(i1, j, A::plus(A::more(low.span_r, a_up, out_r[1][0]), high.gap),
               A::plus(A::more(high.span_l, a_down, out_l[1][0]), low.gap),
               A::more(high.span_r, c_up, arc_r[1][0]), A::more(low.span_l, c_down, arc_l[1][0]));
    }

    const int64_t ld_;
    const bool single_;
    // (side, side) at [head, end] but for those with a t, at [end, head]: weights of arcs; complete
    // spans; arcs, then the outside of complete spans; between, then the outside of arcs; the
    // outside of between, both ways.
    T *w_, *c_, *ct_, *a_, *at_, *b_, *ot_, *g_;
    T *root_, *ends_;  // (side,): outside of between(0, j), with a single root
};

}  // namespace VS_NS
