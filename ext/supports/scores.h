// The scores of variables, as weights of floats.
#pragma once

#include "rows/rows.h"
#include "simd/each.h"
#include "supports/supports.h"

namespace VS_NS {

// exp(scores - shift) of padded rows, held at kBottom from below; -inf: 0.
VS_INLINE void exp_row(const double* scores, double shift, int64_t n, float* out) {
    using V = Vec<double>;
    for (int64_t k = 0; k < n; k += Vec<float>::N) {
        V x[kParts];
        each<kParts>([&](auto j) VS_INLINE_LAMBDA { x[j] = V::load(scores + k + j * V::N); });
        exp_narrow<false>(x, V::set1(shift), V::set1(vs::supports::kBottomLog)).store(out + k);
    }
}

class Scores {
  public:
    // `row` (kp,) is for the scores of one variable.
    Scores(const vs::supports::Problem& p, const vs::supports::Table& t, double* row)
        : p_(p), k_(t.k), kp_(t.kp), row_(row) {
        for (int64_t k = 0; k < kp_; ++k) row_[k] = -INFINITY;
    }

    // out = exp(scores - their largest) of a variable, held at kBottom from below; returns the
    // largest. `first`, `last`: those of the ends belong to it.
    double exponentials(int64_t variable, bool first, bool last, float* out) {
        if (p_.single) {
            compose<float>(variable, first, last);
        } else {
            compose<double>(variable, first, last);
        }
        using W = Vec<double>;
        W top = W::load(row_);
        for (int64_t k = W::N; k < kp_; k += W::N) top = W::max(top, W::load(row_ + k));
        const double most = top.hmax();
        if (most > -INFINITY) exp_row(row_, most, kp_, out);
        return most;
    }

    // The largest magnitude of a score of the end.
    double largest_end() const {
        double most = 0.0;
        for (int64_t k = 0; k < k_; ++k) {
            const double x = p_.single ? static_cast<double>(static_cast<const float*>(p_.end)[k])
                                       : static_cast<const double*>(p_.end)[k];
            if (std::fabs(x) < INFINITY) most = std::fmax(most, std::fabs(x));
        }
        return most;
    }

  private:
    const vs::supports::Problem& p_;
    int64_t k_, kp_;
    double* row_;

    template <class In>
    void compose(int64_t variable, bool first, bool last) {
        const int64_t at_row = variable * k_;
        const In* x = static_cast<const In*>(p_.unary) + at_row;
        for (int64_t k = 0; k < k_; ++k) row_[k] = static_cast<double>(x[k]);
        if (first && p_.start) add(static_cast<const In*>(p_.start));
        if (last && p_.end) add(static_cast<const In*>(p_.end));
        if (p_.allowed == nullptr) return;
        for (int64_t k = 0; k < k_; ++k) {
            if (p_.allowed[at_row + k] == 0) row_[k] = -INFINITY;
        }
    }
    template <class In>
    void add(const In* more) {
        for (int64_t k = 0; k < k_; ++k) row_[k] += static_cast<double>(more[k]);
    }
};

}  // namespace VS_NS
