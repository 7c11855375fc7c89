// Messages through a table of log-potentials, in logarithms.
//
// out(t) = log sum_b exp(x(b) + score(b, t)): exponentials of x less its largest entry times those
// of the table, packed once. A sum below kTiny may have lost what exp() could not hold, and is
// taken again term by term; what is lost of others is no more than K e^-745 / kTiny.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "core/logs.h"

namespace vs::higher {

constexpr double kTiny = 1e-250;
// Beside the largest term of a sum what is below exp(kFelt) of it changes no bit. Where terms are
// taken one by one most are.
constexpr double kFelt = -60.0;

// log of the sum of exp of x (n,), entries `step` apart.
inline double log_sum(const double* x, int64_t n, int64_t step = 1) {
    double most = kNever;
    for (int64_t i = 0; i < n; ++i) most = std::max(most, x[i * step]);
    if (most == kNever) return most;
    double sum = 0.0;
    for (int64_t i = 0; i < n; ++i) {
        const double z = x[i * step] - most;
        if (z > kFelt) sum += std::exp(z);
    }
    return most + std::log(sum);
}

// The entropy of a choice among n of which x (n,) are the logarithms of weights, together with that
// of what each of them leads to, `more` (n,).
inline double entropy_of(const double* x, const double* more, int64_t n) {
    const double most = *std::max_element(x, x + n);
    if (most == kNever) return 0.0;
    double sum = 0.0, less = 0.0;
    for (int64_t i = 0; i < n; ++i) {
        if (x[i] == kNever) continue;
        const double z = x[i] - most;
        if (!(z > kFelt)) continue;
        const double w = std::exp(z);
        sum += w;
        less += w * (z - more[i]);
    }
    return std::log(sum) - less / sum;
}

class LogTable {
  public:
    // Entry (b, t) is score[b * stride + t]; the scores outlive this.
    LogTable(const double* score, int64_t stride, int64_t size)
        : score_(score), stride_(stride), k_(size), packed_(static_cast<size_t>(size * size)) {
        for (int64_t b = 0; b < k_; ++b) {
            for (int64_t t = 0; t < k_; ++t) shift_ = std::max(shift_, at(b, t));
        }
        for (int64_t b = 0; b < k_; ++b) {
            for (int64_t t = 0; t < k_; ++t) {
                const double x = shift_ == kNever ? 0.0 : std::exp(at(b, t) - shift_);
                packed_[at_pair(b, t)] = x;
            }
        }
    }

    double at(int64_t b, int64_t t) const { return score_[b * stride_ + t]; }

    // `work` (K,) is overwritten, here and below.
    void forward(const double* x, double* out, double* work) const {
        const double most = spread(x, work);
        std::fill(out, out + k_, 0.0);
        if (most == kNever) return std::fill(out, out + k_, kNever);
        for (int64_t b = 0; b < k_; ++b) {
            const double w = work[b];
            if (w == 0.0) continue;
            const double* row = packed_.data() + b * k_;
            for (int64_t t = 0; t < k_; ++t) out[t] += w * row[t];
        }
        for (int64_t t = 0; t < k_; t += kBlock) {
            const int64_t n = std::min(kBlock, k_ - t);
            const bool far = std::any_of(out + t, out + t + n, [](double y) { return y < kTiny; });
            double own[kBlock];
            if (far) term_by_term(x, t, n, own);
            for (int64_t j = 0; j < n; ++j) {
                double& y = out[t + j];
                y = y >= kTiny ? std::log(y) + most + shift_ : own[j];
            }
        }
    }

    // out(t): the entropy of b given t, together with more(b). `work` has room for 2 K.
    void entropies(const double* x, const double* more, double* out, double* work) const {
        const double most = spread(x, work);
        for (int64_t t = 0; t < k_; ++t) {
            double sum = 0.0, less = 0.0;
            for (int64_t b = 0; b < k_; ++b) {
                const double w = most == kNever ? 0.0 : work[b] * packed_[at_pair(b, t)];
                if (w == 0.0) continue;
                sum += w;
                less += w * ((x[b] - most) + (at(b, t) - shift_) - more[b]);
            }
            if (sum >= kTiny) {
                out[t] = std::log(sum) - less / sum;
                continue;
            }
            double* const terms = work + k_;
            for (int64_t b = 0; b < k_; ++b) terms[b] = x[b] + at(b, t);
            out[t] = entropy_of(terms, more, k_);
        }
    }

    // out(b) = log sum_t exp(score(b, t) + x(t)).
    void backward(const double* x, double* out, double* work) const {
        const double most = spread(x, work);
        if (most == kNever) return std::fill(out, out + k_, kNever);
        for (int64_t b = 0; b < k_; ++b) {
            const double* row = packed_.data() + b * k_;
            double sums[4] = {0.0, 0.0, 0.0, 0.0};  // one order, which vectors can keep
            int64_t t = 0;
            for (; t + 4 <= k_; t += 4) {
                for (int64_t j = 0; j < 4; ++j) sums[j] += work[t + j] * row[t + j];
            }
            for (; t < k_; ++t) sums[0] += work[t] * row[t];
            out[b] = (sums[0] + sums[1]) + (sums[2] + sums[3]);
        }
        for (int64_t b = 0; b < k_; ++b) {
            if (out[b] >= kTiny) {
                out[b] = std::log(out[b]) + most + shift_;
                continue;
            }
            for (int64_t t = 0; t < k_; ++t) work[t] = at(b, t) + x[t];
            out[b] = log_sum(work, k_);
        }
    }

    // Adds exp(x(b) + score(b, t) + y(t) - total) to out[b * stride + t]: probabilities. `left` and
    // `right` (K,) are overwritten.
    void add_joint(const double* x, const double* y, double total, double* out, double* left,
                   double* right) const {
        const double most = spread(x, left), highest = spread(y, right);
        if (most == kNever || highest == kNever || shift_ == kNever) return;
        const double scale = most + highest + shift_ - total;
        const bool narrow = scale < 600.0;  // else no factor holds it
        const double factor = narrow ? std::exp(scale) : 0.0;
        for (int64_t b = 0; b < k_; ++b) {
            const double* row = packed_.data() + b * k_;
            double* to = out + b * stride_;
            const double w = left[b] * factor;
            for (int64_t t = 0; t < k_; ++t) {
                to[t] += narrow ? w * row[t] * right[t] : std::exp(x[b] + at(b, t) + y[t] - total);
            }
        }
    }

  private:
    static constexpr int64_t kBlock = 16;  // neighbours in a row, two lines of a cache

    // out(j) = log sum_b exp(x(b) + score(b, first + j)), j < n.
    void term_by_term(const double* x, int64_t first, int64_t n, double* out) const {
        double most[kBlock], sum[kBlock];
        std::fill(most, most + kBlock, kNever);
        std::fill(sum, sum + kBlock, 0.0);
        for (int64_t b = 0; b < k_; ++b) {
            const double* row = score_ + b * stride_ + first;
            for (int64_t j = 0; j < n; ++j) most[j] = std::max(most[j], x[b] + row[j]);
        }
        for (int64_t b = 0; b < k_; ++b) {
            const double* row = score_ + b * stride_ + first;
            for (int64_t j = 0; j < n; ++j) {
                const double z = x[b] + row[j] - most[j];  // NaN: nothing is left of this sum
                if (z > kFelt) sum[j] += std::exp(z);
            }
        }
        for (int64_t j = 0; j < n; ++j) {
            out[j] = most[j] == kNever ? kNever : most[j] + std::log(sum[j]);
        }
    }
    size_t at_pair(int64_t b, int64_t t) const { return static_cast<size_t>(b * k_ + t); }
    // exp(x - its largest entry), which is returned.
    double spread(const double* x, double* work) const {
        const double most = *std::max_element(x, x + k_);
        if (most == kNever) return most;
        for (int64_t b = 0; b < k_; ++b) work[b] = std::exp(x[b] - most);
        return most;
    }

    const double* score_;
    int64_t stride_, k_;
    double shift_ = kNever;
    std::vector<double> packed_;
};

// The index of x (n,), logarithms of weights, that a uniform number falls on; entries of -inf
// never.
inline int64_t drawn(const double* x, int64_t n, double uniform) {
    const double most = *std::max_element(x, x + n);
    double total = 0.0;
    for (int64_t i = 0; i < n; ++i) total += std::exp(x[i] - most);
    double left = uniform * total;
    int64_t last = 0;
    for (int64_t i = 0; i < n; ++i) {
        const double w = std::exp(x[i] - most);
        if (w == 0.0) continue;
        last = i;
        left -= w;
        if (left < 0.0) break;
    }
    return last;
}

}  // namespace vs::higher
