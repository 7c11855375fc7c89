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
// A table has a row for each width and in it a place for the first word of each span, so that spans
// of one width are done side by side: term k of all of their sums lies in two rows. Beyond its last
// span a row is zero as far as blocks reach, and so are the terms of spans that have fewer.
#pragma once

#include <cstdint>

#include "simd/level.h"

namespace VS_NS {

template <class A>
class Eisner {
    using T = typename A::T;
    static constexpr int64_t kBlock = 8;  // spans that `A::diagonal` takes at most
    static constexpr int64_t kTables = 12, kSquares = 3;

  public:
    static int64_t stride(int64_t n) { return (n + 1 + 7) / 8 * 8; }  // of squares
    static int64_t scratch(int64_t n) {
        return (n + 1) * (kTables * row(n) + kSquares * stride(n)) + row(n);
    }

    // weight (n + 1, stride(n)) at [head, modifier].
    Eisner(const T* weight, int64_t n, bool single, T* scratch)
        : n_(n), ld_(stride(n)), row_(row(n)), single_(single), w_(weight) {
        T** tables[] = {&outer_r_,    &outer_l_, &gap_,   &outside_r_, &outside_l_, &complete_r_,
                        &complete_l_, &arc_r_,   &arc_l_, &between_,   &weight_r_,  &weight_l_};
        for (T** table : tables) {
            *table = scratch;
            scratch += (n + 1) * row_;
        }
        for (T** square : {&complete_, &complete_t_, &outer_}) {
            *square = scratch;
            scratch += (n + 1) * ld_;
        }
        root_ = scratch;
    }

    T inside() {
        for (T* table : {complete_r_, complete_l_, arc_r_, arc_l_}) clear(table, 0);
        for (int64_t i = 0; i <= n_; ++i) {
            complete_r_[i] = complete_l_[i] = A::one();
            arc_r_[i] = arc_l_[i] = A::zero();
        }
        // Row 0 has another table's end before it.
        for (int64_t i = 1; i <= kBlock; ++i) complete_r_[-i] = A::zero();
        for (int64_t w = 1; w <= n_; ++w) {
            const int64_t at = w * row_, back = 1 - row_;
            for (T* table : {complete_r_, complete_l_, arc_r_, arc_l_}) clear(table, w);
            each_block(w, [&](int64_t i, int64_t lanes) VS_INLINE_LAMBDA {
                // complete(i, i + k) complete(j, i + k + 1), k = 0..w - 1
                A::template diagonal<true>(complete_r_ + i, row_, complete_l_ + at - row_ + 1 + i,
                                           back, w, between_ + at + i, lanes);
            });
            if (single_) between_[at] = complete_l_[at - row_ + 1];
            for (int64_t i = 0; i <= n_ - w; ++i) {
                weight_r_[at + i] = w_[i * ld_ + i + w];
                weight_l_[at + i] = w_[(i + w) * ld_ + i];
                arc_r_[at + i] = A::times(weight_r_[at + i], between_[at + i]);
                arc_l_[at + i] = A::times(weight_l_[at + i], between_[at + i]);
            }
            each_block(w, [&](int64_t i, int64_t lanes) VS_INLINE_LAMBDA {
                // arc(i, i + k) complete(i + k, j), k = 1..w
                A::template diagonal<true>(arc_r_ + row_ + i, row_, complete_r_ + at - row_ + 1 + i,
                                           back, w, complete_r_ + at + i, lanes);
                // arc(j, i + k) complete(i + k, i), k = 0..w - 1
                A::template diagonal<true>(arc_l_ + at + i, back, complete_l_ + i, row_, w,
                                           complete_l_ + at + i, lanes);
            });
        }
        return complete_r_[n_ * row_];
    }

    // After inside. rest (n + 1, stride(n)): what arc weights are multiplied by; zero elsewhere.
    void outside(T* rest) {
        for (int64_t h = 0; h <= n_; ++h) {
            T* row = rest + h * ld_;
            row[0] = row[h] = A::zero();
            for (int64_t m = n_ + 1; m < ld_; ++m) row[m] = A::zero();
        }
        for (int64_t i = 0; i <= n_; ++i) outer_r_[i] = outer_l_[i] = A::zero();
        for (int64_t w = n_; w > 0; --w) {
            const int64_t at = w * row_, up = at + row_, most = n_ - w;
            for (T* table : {outer_r_, outer_l_, gap_}) clear(table, w);
            each_block(w, [&](int64_t i, int64_t lanes) VS_INLINE_LAMBDA {
                // How many words there are to the right of a span, and to the left, at most.
                const int64_t right = most - i, left = i + lanes <= most ? i + lanes - 1 : most;
                // complete(i, j) in complete(h, j), h = i - 1, ..., and in between(i, k), k = j +
                // 1, ...
                A::template diagonal<true>(outer_r_ + up + i - 1, row_ - 1, arc_r_ + row_ + i - 1,
                                           row_ - 1, left, outer_r_ + at + i, lanes);
                A::template diagonal<false>(gap_ + up + i, row_, complete_l_ + w + 1 + i, row_,
                                            right, outer_r_ + at + i, lanes);
                // complete(j, i) in complete(k, i), k = j + 1, ..., and in between(h, j), h = i -
                // 1, ...
                A::template diagonal<true>(outer_l_ + up + i, row_, arc_l_ + row_ + w + i, row_,
                                           right, outer_l_ + at + i, lanes);
                A::template diagonal<false>(gap_ + up + i - 1, row_ - 1, complete_r_ + i - 1,
                                            row_ - 1, left, outer_l_ + at + i, lanes);
            });
            if (w == n_) outer_r_[at] = A::one();
            // complete(j, 1) is between(0, j) there.
            if (single_ && most > 0) outer_l_[at + 1] = A::plus(outer_l_[at + 1], root_[w + 1]);
            each_block(w, [&](int64_t i, int64_t lanes) VS_INLINE_LAMBDA {
                const int64_t right = most - i + 1, left = i + lanes <= most ? i + lanes : most + 1;
                // arc(i, j) in complete(i, e), e = j, ..., and arc(j, i) in complete(j, b), b = i,
                // ...
                A::template diagonal<true>(outer_r_ + at + i, row_, complete_r_ + w + i, row_,
                                           right, outside_r_ + at + i, lanes);
                A::template diagonal<true>(outer_l_ + at + i, row_ - 1, complete_l_ + i, row_ - 1,
                                           left, outside_l_ + at + i, lanes);
            });
            for (int64_t i = 0; i <= most; ++i) {
                const T r = outside_r_[at + i], l = outside_l_[at + i], b = between_[at + i];
                gap_[at + i] =
                    A::plus(A::times(weight_r_[at + i], r), A::times(weight_l_[at + i], l));
                rest[i * ld_ + i + w] = A::times(r, b);
                if (i > 0) rest[(i + w) * ld_ + i] = A::times(l, b);
            }
            if (single_) {
                root_[w] = gap_[at];
                gap_[at] = A::zero();
            }
        }
    }

    // After `outside`, for rows of complete and outer.
    void keep() {
        for (int64_t i = 0; i <= n_; ++i) {
            for (int64_t k = i * ld_ + n_ + 1; k < (i + 1) * ld_; ++k) {
                complete_[k] = complete_t_[k] = outer_[k] = A::zero();
            }
            for (int64_t j = i; j <= n_; ++j) {
                const int64_t at = (j - i) * row_ + i, up = i * ld_ + j, down = j * ld_ + i;
                complete_[up] = complete_t_[down] = complete_r_[at];
                complete_[down] = complete_t_[up] = complete_l_[at];
                outer_[up] = outer_r_[at];
                outer_[down] = outer_l_[at];
            }
        }
    }

    // As spans whose score depends on the head of h, too.
    T weight(int64_t, int64_t h, int64_t m) const { return w_[h * ld_ + m]; }
    T arc(int64_t, int64_t h, int64_t m) const { return of(arc_r_, arc_l_, h, m); }
    T complete(int64_t, int64_t h, int64_t e) const { return of(complete_r_, complete_l_, h, e); }
    // The outside of arc(h, m), after `outside`.
    T outside_of(int64_t h, int64_t m) const { return of(outside_r_, outside_l_, h, m); }

    // complete(i, j) and outer(i, j), the next j behind; complete(j, i), likewise. After `keep`.
    const T* complete_row(int64_t i, int64_t j) const { return complete_ + i * ld_ + j; }
    const T* complete_column(int64_t j, int64_t i) const { return complete_t_ + i * ld_ + j; }
    const T* outer_row(int64_t i, int64_t j) const { return outer_ + i * ld_ + j; }

  private:
    // Places of a row: a block that begins at the last span, and k words further, is still in it.
    static int64_t row(int64_t n) { return (n + 2 * kBlock) / kBlock * kBlock; }

    // What a row has beyond its last span, as far as blocks reach; and at its end, where those of
    // the next row that begin further left do.
    void clear(T* table, int64_t w) const {
        T *row = table + w * row_, *beyond = row + n_ - w + 1, *end = row + row_;
        for (int64_t i = 0; i < kBlock; ++i) beyond[i] = end[i - kBlock] = A::zero();
    }
    T of(const T* right, const T* left, int64_t h, int64_t m) const {
        return h <= m ? right[(m - h) * row_ + h] : left[(h - m) * row_ + m];
    }
    template <class Do>
    VS_INLINE void each_block(int64_t w, Do act) const {
        for (int64_t i = 0; i <= n_ - w; i += kBlock) {
            act(i, n_ - w - i < kBlock ? n_ - w - i + 1 : kBlock);
        }
    }

    const int64_t n_, ld_, row_;
    const bool single_;
    const T* w_;
    // (n + 1, row) by width and first word: between, weight, arc and complete to the right and to
    // the left; outer of complete, outside of arc, gap of between.
    T *outer_r_, *outer_l_, *gap_, *outside_r_, *outside_l_, *complete_r_, *complete_l_;
    T *arc_r_, *arc_l_, *between_, *weight_r_, *weight_l_;
    T *complete_, *complete_t_, *outer_;  // (n + 1, stride)
    T* root_;                             // (n + 1,) gap of between(0, j), with a single root
};

}  // namespace VS_NS
