// Chains of segments (semi-Markov): a sequence is cut into segments of 1 to L positions, each with
// a label, and transitions stand between neighbouring segments.
//
//   a_e[k]: of all cuts of the first e positions whose last segment has label k;
//   g_e[k] = log sum_j exp(a_e[j] + T[j, k]), g_0 = start: what comes before a segment of label k;
//   a_e[k] = log sum_d exp(g_e-d[k] + W[e - d, d, k]), W the score of a segment;
//   b_e[j] = log sum_k exp(T[j, k] + h_e[k]), h_e[k] = log sum_d exp(W[e, d, k] + b_e+d[k]).
//
// The entropy of a cut is that of its last segment given its end and label, together with the mean
// of that of what comes before, and so on.
#include <cmath>
#include <numeric>

#include "higher/run.h"

namespace vs::higher {

// Rows are stored less a whole number each, and these numbers beside them (Run::settle).

// The scores W of all segments of the sequence; -inf where they go past its end.
void Run::weigh() {
    const int64_t L = m_.longest;
    weight_.assign(static_cast<size_t>(n_ * L * k_), kNever);
    std::vector<double> sum(static_cast<size_t>(k_));
    for (int64_t i = 0; i < n_; ++i) {
        std::fill(sum.begin(), sum.end(), 0.0);
        for (int64_t d = 1; d <= std::min(L, n_ - i); ++d) {
            const double* u = unary(i + d - 1);
            const double* length = m_.duration ? m_.duration + (d - 1) * k_ : nullptr;
            const double* own = m_.segment ? m_.segment + ((first_ + i) * L + d - 1) * k_ : nullptr;
            double* w = &weight(i, d);
            for (int64_t k = 0; k < k_; ++k) {
                sum[static_cast<size_t>(k)] += u[k];
                w[k] = sum[static_cast<size_t>(k)] +
                       ((length ? length[k] : 0.0) + (own ? own[k] : 0.0));
            }
        }
    }
}

bool Run::segments(int64_t s, int worker, const LogTable& table, double* expected) {
    const int64_t K = k_, L = m_.longest;
    first_ = m_.offset[s];
    n_ = m_.offset[s + 1] - first_;
    weigh();
    forward_.resize(static_cast<size_t>((n_ + 1) * K));
    entry_.resize(static_cast<size_t>((n_ + 1) * K));
    work_.resize(static_cast<size_t>(L + 4 * K));
    double *x = work_.data(), *scratch = x + L;
    for (std::vector<double>* of : {&forward_off_, &entry_off_, &backward_off_})
        of->assign(static_cast<size_t>(n_ + 1), 0.0);
    double *const ended = forward_off_.data(), *const begun = entry_off_.data();
    double* const after = backward_off_.data();
    std::copy(m_.start, m_.start + K, entry_.data());
    begun[0] = settle(entry_.data(), K);
    // Of what comes before an entry (n + 1, K), and before a segment that may be the last.
    std::vector<double> entropy(ask_.entropy ? entry_.size() : 0), choices(static_cast<size_t>(K));
    std::vector<double> more(static_cast<size_t>(L));
    int64_t dead = -1;  // the first boundary that no cut reaches
    for (int64_t e = 1; e <= n_; ++e) {
        if (!go_on(worker)) return false;
        double* a = row(forward_, e, K);
        const int64_t most = std::min(L, e);
        for (int64_t k = 0; k < K; ++k) {
            for (int64_t d = 1; d <= most; ++d) {
                x[d - 1] = row(entry_, e - d, K)[k] + (&weight(e - d, d))[k] +
                           (begun[e - d] - begun[e - 1]);
            }
            a[k] = log_sum(x, most);
            if (e == n_) a[k] += m_.end[k];
            if (!ask_.entropy) continue;
            for (int64_t d = 1; d <= most; ++d) {
                more[static_cast<size_t>(d - 1)] = row(entropy, e - d, K)[k];
            }
            choices[static_cast<size_t>(k)] = entropy_of(x, more.data(), most);
        }
        if (!alive(a, K, e - 1) && dead < 0) dead = e - 1;
        ended[e] = begun[e - 1] + settle(a, K);
        if (e == n_) break;
        table.forward(a, row(entry_, e, K), scratch);
        if (ask_.entropy) table.entropies(a, choices.data(), row(entropy, e, K), scratch);
        begun[e] = ended[e] + settle(row(entry_, e, K), K);
    }
    const double log_end = log_sum(row(forward_, n_, K), K), log_z = ended[n_] + log_end;
    if (log_z == kNever) {
        position = dead;
        return false;
    }
    ask_.log_z[s] = log_z;
    if (ask_.size) segments_draw(s, table);
    if (ask_.entropy) ask_.entropy[s] = entropy_of(row(forward_, n_, K), choices.data(), K);
    if (!back()) return true;
    backward_.resize(static_cast<size_t>((n_ + 1) * K));
    std::copy(m_.end, m_.end + K, row(backward_, n_, K));
    after[n_] = settle(row(backward_, n_, K), K);
    double* h = scratch + K;
    // Where scores are so large that nothing but rounding is left, no sum is made one.
    const auto whole = [&](const double* x) {
        const double sum = std::accumulate(x, x + K, 0.0);
        return sum > 0.0 && sum < INFINITY ? sum : 1.0;
    };
    covered_.assign(static_cast<size_t>(n_ * K), 0.0);
    double* const p = covered_.data();
    for (int64_t i = n_ - 1; i >= 0; --i) {
        if (!go_on(worker)) return false;
        const int64_t most = std::min(L, n_ - i);
        double* joint = ask_.joint ? ask_.joint + (first_ + i) * L * K : nullptr;
        // What is rounded on the way shows where all segments over a position are known.
        const double left = i + L < n_ ? whole(row(covered_, i + L, K)) : 1.0;
        for (int64_t k = 0; k < K; ++k) {
            double largest = kNever, sum = 0.0, covered = 0.0;
            for (int64_t d = 1; d <= most; ++d) {
                x[d - 1] = (&weight(i, d))[k] + row(backward_, i + d, K)[k] +
                           (after[i + d] - after[i + 1]);
                largest = std::max(largest, x[d - 1]);
            }
            // The same exponentials make the message and, times a factor of 1 at most, marginals.
            const double before = row(entry_, i, K)[k];
            const double apart = begun[i] + after[i + 1] - ended[n_];
            // Above 0 by rounding: of scores beyond 1e17 that is all there is.
            const double share = std::min(1.0, before + largest + apart - log_end);
            const double factor = largest == kNever ? 0.0 : std::exp(share);
            for (int64_t d = most; d >= 1; --d) {
                const double y = largest == kNever ? 0.0 : std::exp(x[d - 1] - largest);
                sum += y;
                covered += y * factor;  // by segments from i that reach so far
                if (joint) joint[(d - 1) * K + k] = y * factor / left;
                p[(i + d - 1) * K + k] += covered;
            }
            h[k] = largest == kNever ? kNever : largest + std::log(sum);
        }
        if (i && expected) {
            const double apart = ended[i] + after[i + 1] - ended[n_];
            table.add_joint(row(forward_, i, K), h, log_end + std::log(left) - apart, expected,
                            scratch, scratch + 2 * K);
        }
        for (int64_t d = most; joint && d < L; ++d) std::fill_n(joint + d * K, K, 0.0);
        if (i == 0) break;
        table.backward(h, row(backward_, i, K), scratch);
        after[i] = after[i + 1] + settle(row(backward_, i, K), K);
    }
    for (int64_t i = 0; ask_.marginals && i < n_; ++i) {
        const double all = whole(row(covered_, i, K));
        for (int64_t k = 0; k < K; ++k) ask_.marginals[(first_ + i) * K + k] = p[i * K + k] / all;
    }
    return true;
}

void Run::segments_draw(int64_t s, const LogTable& table) {
    (void)s;
    const int64_t K = k_, total = m_.offset[m_.sequences];
    double* x = work_.data();
    std::vector<double> labels(static_cast<size_t>(K));
    for (int64_t j = 0; j < ask_.size; ++j) {
        // Two numbers for each segment, of which there are no more than positions.
        const double* u = ask_.uniforms + 2 * (j * total + first_);
        int64_t* y = ask_.samples + j * total + first_;
        std::fill(y, y + n_, int64_t{-1});
        int64_t label = drawn(row(forward_, n_, K), K, *u++);
        for (int64_t e = n_; e > 0;) {
            const int64_t most = std::min(m_.longest, e);
            for (int64_t d = 1; d <= most; ++d) {
                x[d - 1] = row(entry_, e - d, K)[label] + (&weight(e - d, d))[label] +
                           (entry_off_[static_cast<size_t>(e - d)] -
                            entry_off_[static_cast<size_t>(e - 1)]);
            }
            e -= drawn(x, most, *u++) + 1;
            y[e] = label;
            if (e == 0) break;
            for (int64_t k = 0; k < K; ++k) {
                labels[static_cast<size_t>(k)] = row(forward_, e, K)[k] + table.at(k, label);
            }
            label = drawn(labels.data(), K, *u++);
        }
    }
}

}  // namespace vs::higher
