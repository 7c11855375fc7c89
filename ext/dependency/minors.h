// Probabilities of two arcs at once, by 2x2 minors: with G the inverse of the Laplacian,
//   K(a, b) = w_a (G(m_a, m_b) - G(h_a, m_b)) = w_a (hit(h_a, m_b) - hit(m_a, m_b)) / rate(m_b),
//   P(a and b) = K(a, a) K(b, b) - K(a, b) K(b, a).
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "dependency/run.h"

namespace VS_NS {

constexpr double kFine = 1e-11;  // an error that is still small

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
        // a b (x - y) (u - v), every factor of which has its own error: where both differences
        // vanish the product of errors is felt.
        const double x = hit(head_a, modifier_b), u = hit(head_b, modifier_a);
        double y = hit(modifier_a, modifier_b), v = hit(modifier_b, modifier_a);
        if (single_) {  // of words `hit` is of first order, of the root it is 1
            y = head_a == 0 ? 0.0 : y;
            v = head_b == 0 ? 0.0 : v;
        }
        const double both = a.share * b.share;
        const double p = product - a.share * (x - y) * (b.share * (u - v));
        const double most_a = x > y ? x : y, most_b = u > v ? u : v;
        const double felt =
            most_a * std::fabs(u - v) + std::fabs(x - y) * most_b + digits_ * (most_a * most_b);
        const bool fine = digits_ * (product + both * felt) <= kFine;
        return !fine ? -1.0 : p > 0.0 ? p : 0.0;
    }
    double digits() const { return digits_; }
    double hit(int64_t h, int64_t m) const { return hit_[h * ld_ + m]; }

  private:
    const double *weight_, *hit_, *total_;  // see run.h
    const int64_t ld_;
    const bool single_;
    const double digits_;
};

// As head_joints of trees.h: the arcs of a head side by side, with the numbers of `Minors::of`.
class HeadMinors {
    using V = Vec<double>;

  public:
    // Some arcs from a head.
    HeadMinors(const vs::dependency::Sums& sums, int64_t head, int64_t count,
               const int32_t* modifiers)
        : minor_(sums, sums.sentence),
          hit_(static_cast<const double*>(sums.rest)),
          ld_(row_of(sums.sentence.n)),
          head_(head),
          count_(count),
          single_(sums.sentence.single_root),
          felt_(V::set1(minor_.digits())) {
        double* next = static_cast<double*>(sums.odds) + Odds<Plain>::own(sums.sentence.n, ld_);
        for (double** row : {&share_, &p_, &top_, &from_head_, &to_head_, &word_}) {
            *row = next;
            next += ld_ + 8;
        }
        column_ = reinterpret_cast<int32_t*>(next);
        row_ = column_ + ld_ + 8;
        for (int64_t i = 0; i < count + 8; ++i) {  // whole vectors: the last one again
            const int64_t m = modifiers[i < count ? i : count - 1];
            const typename Minors<Plain>::Arc arc = minor_.arc(head, m);
            share_[i] = arc.share;
            p_[i] = arc.p;
            top_[i] = arc.on_top ? 1.0 : 0.0;
            from_head_[i] = minor_.hit(head, m);
            to_head_[i] = minor_.hit(m, head);
            word_[i] = static_cast<double>(m);
            column_[i] = static_cast<int32_t>(m);
            row_[i] = static_cast<int32_t>(m * ld_);
        }
    }

    void siblings(double* out) const {
        const V x0 = V::set1(0.0);
        const bool flat = single_ && head_ == 0;
        for (int64_t i = 0; i + 1 < count_; ++i) {
            const One a{share_[i], p_[i], top_[i]};
            const double* own = hit_ + int64_t{row_[i]};
            const V u = V::set1(from_head_[i]);
            each_block(i + 1, out + i * count_, [&](int64_t j) VS_INLINE_LAMBDA {
                const V y = flat ? x0 : V::gather(own, column_ + j);
                const V v = flat ? x0 : V::gather(hit_ + column_[i], row_ + j);
                return of(a, j, V::load(from_head_ + j), y, u, v);
            });
        }
    }

    void grandparents(int64_t many, const int32_t* above, double* out) const {
        const V u = V::set1(minor_.hit(head_, head_));
        for (int64_t k = 0; k < many; ++k) {
            const int64_t g = above[k];
            double* row = out + g * count_;
            if (head_ == 0 || g == head_) {
                for (int64_t i = 0; i < count_; ++i) row[i] = 0.0;
                continue;
            }
            const typename Minors<Plain>::Arc up = minor_.arc(g, head_);
            const One a{up.share, up.p, up.on_top ? 1.0 : 0.0};
            const bool flat = single_ && g == 0;
            const V grand = V::set1(static_cast<double>(g));
            each_block(0, row, [&](int64_t i) VS_INLINE_LAMBDA {
                const V y = flat ? V::set1(0.0) : V::load(from_head_ + i);
                const V both =
                    of(a, i, V::gather(hit_ + g * ld_, column_ + i), y, u, V::load(to_head_ + i));
                return both - V::where_equal(V::load(word_ + i), grand, both);
            });
        }
    }

  private:
    struct One {
        double share, p, top;
    };

    template <class Find>
    VS_INLINE void each_block(int64_t first, double* out, Find find) const {
        int64_t i = first;
        for (; i + V::N <= count_; i += V::N) find(i).store(out + i);
        if (i < count_) find(i).store_part(out + i, static_cast<int>(count_ - i));
    }

    // As `Minors::of`, of the arcs from place j on, by the same operations.
    VS_INLINE V of(const One& one, int64_t j, V x, V y, V u, V v) const {
        const V zero = V::set1(0.0), unit = V::set1(1.0), fine = V::set1(kFine);
        const V share = V::load(share_ + j), top = V::load(top_ + j);
        const V a = V::set1(one.share), product = V::set1(one.p) * V::load(p_ + j);
        const V across = x - y, back = u - v;
        const V minor = product - a * across * (share * back);
        const V most_a = V::max(x, y), most_b = V::max(u, v);
        const V felt = most_a * V::max(back, zero - back) + V::max(across, zero - across) * most_b +
                       felt_ * (most_a * most_b);
        const V error = felt_ * (product + a * share * felt);
        V both =
            V::where_ge(fine, error, V::max(minor, zero)) + (V::where_ge(fine, error, unit) - unit);
        both = V::where_ge(product, V::set1(std::numeric_limits<double>::denorm_min()), both);
        const V own = V::set1(one.top);
        return V::where_equal(top, own, both) +
               V::where_equal(top, V::set1(1.0 - one.top), product);
    }

    const Minors<Plain> minor_;
    const double* const hit_;
    const int64_t ld_, head_, count_;
    const bool single_;
    const V felt_;
    // By arc: w / rate, P(arc), whether on top; hits from and to the head; its word, and where that
    // has its column and row.
    double *share_, *p_, *top_, *from_head_, *to_head_, *word_;
    int32_t *column_, *row_;
};

}  // namespace VS_NS
