// Order 2: states are pairs of neighbouring labels, and messages go from pairs to pairs label by
// label of the one between, (K, K) to (K, K). No table of pairs by pairs is made.
//
//   a_i[f, k]: of all beginnings with labels f, k at i - 1, i, those included;
//   a_i+1[f, t] = u_i+1[t] + log sum_b exp(a_i[b, f] + T[b, f, t]);
//   b_i[f, k] = log sum_t exp(T[f, k, t] + u_i+1[t] + b_i+1[k, t]);
//   h_i+1[f, t] = H(b | f, t) + sum_b p(b | f, t) h_i[b, f], the entropy of all labels before f.
#include <cmath>

#include "higher/run.h"

namespace vs::higher {

// A sequence of one position.
void Run::one_label(int64_t s) {
    const double log_z = log_sum(work_.data(), k_);
    for (int64_t k = 0; k < k_; ++k) {
        const double x = work_[static_cast<size_t>(k)], p = std::exp(x - log_z);
        if (ask_.marginals) ask_.marginals[first_ * k_ + k] = p;
    }
    const int64_t total = m_.offset[m_.sequences];
    for (int64_t j = 0; j < ask_.size; ++j) {
        const int64_t at = j * total + first_;
        ask_.samples[at] = drawn(work_.data(), k_, ask_.uniforms[at]);
    }
    ask_.log_z[s] = log_z;
    const std::vector<double> none(static_cast<size_t>(k_), 0.0);
    if (ask_.entropy) ask_.entropy[s] = entropy_of(work_.data(), none.data(), k_);
}

bool Run::second(int64_t s, int worker, const std::vector<LogTable>& tables, double* expected) {
    const int64_t K = k_, kk = K * K;
    first_ = m_.offset[s];
    n_ = m_.offset[s + 1] - first_;
    work_.resize(static_cast<size_t>(3 * kk + 4 * K));
    double* last = work_.data();
    for (int64_t k = 0; k < K; ++k) {
        last[k] = m_.start[k] + unary(0)[k] + (n_ == 1 ? m_.end[k] : 0.0);
    }
    if (!alive(last, K, 0)) return false;
    if (n_ == 1) {
        one_label(s);
        return true;
    }
    const std::vector<double> begin(last, last + K);
    // h_i[f, k], as a; empty where no entropy is wanted.
    std::vector<double> entropy(ask_.entropy ? static_cast<size_t>(kk) : 0), entropy_after(entropy);
    // Column by column: forward_ holds a_i[f, k] at (i - 1) * kk + k * K + f.
    // Where nothing goes back, two of them take turns.
    const bool kept = back() || ask_.size;
    const auto place = [&](int64_t i) { return kept ? i - 1 : (i - 1) % 2; };
    forward_.resize(static_cast<size_t>((kept ? n_ - 1 : std::min(n_ - 1, int64_t{2})) * kk));
    double taken = 0.0;  // out of the rows of forward_
    double *x = work_.data(), *out = x + kk, *scratch = out + kk;
    for (int64_t f = 0; f < K; ++f) {
        for (int64_t k = 0; k < K; ++k) {
            forward_[static_cast<size_t>(k * K + f)] =
                begin[static_cast<size_t>(f)] + m_.first[f * K + k] + unary(1)[k];
        }
    }
    for (int64_t i = 1; i < n_; ++i) {
        double* a = row(forward_, place(i), kk);
        if (i > 1) {
            if (!go_on(worker)) return false;
            const double* before = row(forward_, place(i - 1), kk);
            for (int64_t c = 0; c < K; ++c) {
                tables[static_cast<size_t>(c)].forward(before + c * K, out, scratch);
                for (int64_t t = 0; t < K; ++t) a[t * K + c] = out[t] + unary(i)[t];
                if (!ask_.entropy) continue;
                tables[static_cast<size_t>(c)].entropies(before + c * K, entropy.data() + c * K,
                                                         out, scratch);
                for (int64_t t = 0; t < K; ++t) row(entropy_after, t, K)[c] = out[t];
            }
            std::swap(entropy, entropy_after);
        }
        if (i == n_ - 1) {
            for (int64_t k = 0; k < K; ++k) {
                for (int64_t f = 0; f < K; ++f) a[k * K + f] += m_.end[k];
            }
        }
        if (!alive(a, kk, i)) return false;
        taken += settle(a, kk);
    }
    const double* const end = row(forward_, place(n_ - 1), kk);
    const double log_z = taken + log_sum(end, kk);
    ask_.log_z[s] = log_z;
    if (ask_.size) second_draw(s, tables);
    if (ask_.entropy) {
        ask_.entropy[s] = entropy_of(end, entropy.data(), kk);
    }
    if (!back()) return true;
    // b_i[f, k] at k * K + f, as a.
    double *b = x, *next = out;
    std::fill(b, b + kk, 0.0);
    pairs_from(s, n_ - 1, row(forward_, n_ - 2, kk), b);
    for (int64_t i = n_ - 2; i >= 1; --i) {
        if (!go_on(worker)) return false;
        double* v = scratch + K;
        const auto sent = [&](int64_t k) {  // what goes through the table of label k
            for (int64_t t = 0; t < K; ++t) {
                v[t] = unary(i + 1)[t] + b[t * K + k] + (i == n_ - 2 ? m_.end[t] : 0.0);
            }
        };
        for (int64_t k = 0; k < K; ++k) {
            sent(k);
            tables[static_cast<size_t>(k)].backward(v, next + k * K, scratch);
        }
        const double more = settle(next, kk);
        const double* const before = row(forward_, i - 1, kk);
        const double mass = pairs_from(s, i, before, next);
        for (int64_t k = 0; expected && k < K; ++k) {
            sent(k);
            tables[static_cast<size_t>(k)].add_joint(before + k * K, v, mass + more,
                                                     expected + k * K, scratch, v + K);
        }
        std::swap(b, next);
    }
    return true;
}

// The marginals of the pair that ends at i, which sum to those of its labels, by the sum of their
// own: what the rows before and after have lost on the way does not show. Its logarithm is
// returned.
double Run::pairs_from(int64_t s, int64_t i, const double* before, const double* after) {
    const int64_t K = k_;
    double* joint = ask_.joint ? ask_.joint + (ask_.edge[s] + i - 1) * K * K : nullptr;
    double* right = ask_.marginals ? ask_.marginals + (first_ + i) * K : nullptr;
    std::vector<double> first(i == 1 ? static_cast<size_t>(K) : 0);
    share_.resize(static_cast<size_t>(K * K));
    double most = kNever, all = 0.0;
    for (size_t j = 0; j < share_.size(); ++j) {
        share_[j] = before[j] + after[j];
        most = std::max(most, share_[j]);
    }
    for (double& x : share_) all += x = std::exp(x - most);
    for (int64_t k = 0; k < K; ++k) {
        double sum = 0.0;
        for (int64_t f = 0; f < K; ++f) {
            const double p = share_[static_cast<size_t>(k * K + f)] / all;
            if (joint) joint[f * K + k] = p;
            if (i == 1) first[static_cast<size_t>(f)] += p;
            sum += p;
        }
        if (right) right[k] = sum;
    }
    if (right && i == 1) std::copy(first.begin(), first.end(), right - K);
    return most + std::log(all);
}

// Samples backwards: the last pair, then each label given the two after it.
void Run::second_draw(int64_t s, const std::vector<LogTable>& tables) {
    (void)s;
    const int64_t K = k_, kk = K * K, total = m_.offset[m_.sequences];
    double* x = work_.data();
    for (int64_t j = 0; j < ask_.size; ++j) {
        const double* u = ask_.uniforms + j * total + first_;
        int64_t* y = ask_.samples + j * total + first_;
        const int64_t last = drawn(row(forward_, n_ - 2, kk), kk, u[n_ - 1]);
        y[n_ - 1] = last / K;
        y[n_ - 2] = last % K;
        for (int64_t i = n_ - 1; i >= 2; --i) {
            const double* a = row(forward_, i - 2, kk) + y[i - 1] * K;
            const LogTable& table = tables[static_cast<size_t>(y[i - 1])];
            for (int64_t b = 0; b < K; ++b) x[b] = a[b] + table.at(b, y[i]);
            y[i - 2] = drawn(x, K, u[i - 2]);
        }
    }
}

}  // namespace vs::higher
