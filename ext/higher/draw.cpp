// Samples from the end, by messages from the beginning.
#include "higher/draw.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/at.h"

namespace vs::higher {
namespace {

int64_t samples_between_polls(int64_t n) { return std::max<int64_t>(1, (1 << 14) / n); }

// The index of weights x (n,) that a uniform number falls on, never one without weight; -1: there
// is none.
int64_t pick(const double* x, int64_t n, double uniform) {
    double total = 0.0;
    for (int64_t i = 0; i < n; ++i) total += x[i];
    double left = uniform * total;
    int64_t last = -1;
    for (int64_t i = 0; i < n; ++i) {
        if (!(x[i] > 0.0)) continue;
        last = i;
        left -= x[i];
        if (left < 0.0) break;
    }
    return last;
}

}  // namespace

// The last pair, then each label given the two after it.
bool draw_second(const Job& job, int64_t s, const double* forward, bool caller) {
    const LongerModel& m = job.model;
    const int64_t K = m.labels, kp = job.packed.kp, size = K * kp, total = m.offset[m.sequences];
    const int64_t n = m.offset[s + 1] - m.offset[s];
    std::vector<double> last(at(K * K)), x(at(K));
    for (int64_t k = 0; k < K; ++k) {
        for (int64_t f = 0; f < K; ++f) last[at(k * K + f)] = forward[(n - 2) * size + f * kp + k];
    }
    const int64_t every = samples_between_polls(n);
    for (int64_t j = 0; j < job.ask.size; ++j) {
        if (j % every == every - 1 && !go_on(job.control, caller)) return false;
        const double* u = job.ask.uniforms + j * total + m.offset[s];
        int64_t* y = job.ask.samples + j * total + m.offset[s];
        const int64_t pair = pick(last.data(), K * K, u[n - 1]);
        if (pair < 0) return false;
        y[n - 1] = pair / K;
        y[n - 2] = pair % K;
        for (int64_t i = n - 1; i >= 2; --i) {
            const double* const a = forward + (i - 2) * size + y[i - 1];
            const double* const w = job.packed.up + y[i - 1] * size + y[i];
            for (int64_t b = 0; b < K; ++b) x[at(b)] = a[b * kp] * w[b * kp];
            y[i - 2] = pick(x.data(), K, u[i - 2]);
            if (y[i - 2] < 0) return false;
        }
    }
    return true;
}

// Two numbers for each segment, of which there are no more than positions: its label, its length.
bool draw_segments(const Job& job, const Segments& lattice, bool caller) {
    const LongerModel& m = job.model;
    const int64_t K = m.labels, L = lattice.most, kp = job.packed.kp, s = lattice.sequence;
    const int64_t total = m.offset[m.sequences], n = m.offset[s + 1] - m.offset[s];
    std::vector<double> x(at(L)), labels(at(K));
    const int64_t every = samples_between_polls(n);
    for (int64_t j = 0; j < job.ask.size; ++j) {
        if (j % every == every - 1 && !go_on(job.control, caller)) return false;
        const double* u = job.ask.uniforms + 2 * (j * total + m.offset[s]);
        int64_t* y = job.ask.samples + j * total + m.offset[s];
        std::fill(y, y + n, int64_t{-1});
        int64_t label = pick(lattice.ended + n * kp, K, *u++);
        for (int64_t e = n; e > 0;) {
            if (label < 0) return false;
            const int64_t most = std::min(L, e);
            const FactorLog& base = lattice.entry_log[0];
            double top = -INFINITY;
            for (int64_t d = 1; d <= most; ++d) {
                x[at(d - 1)] =
                    (lattice.entry_log[e - d] - base) + lattice.weight_top[(e - d) * L + d - 1];
                top = std::max(top, x[at(d - 1)]);
            }
            for (int64_t d = 1; d <= most; ++d) {
                double& w = x[at(d - 1)];
                w = std::exp(w - top) * lattice.entry[(e - d) * kp + label] *
                    lattice.weight[((e - d) * L + d - 1) * kp + label];
            }
            const int64_t d = pick(x.data(), most, *u++);
            if (d < 0) return false;
            e -= d + 1;
            y[e] = label;
            if (e == 0) break;
            for (int64_t k = 0; k < K; ++k)
                labels[at(k)] = lattice.ended[e * kp + k] * job.packed.up[k * kp + label];
            label = pick(labels.data(), K, *u++);
        }
    }
    return true;
}

// A sequence of one position.
bool draw_label(const Job& job, int64_t s, const double* weight) {
    const LongerModel& m = job.model;
    const int64_t total = m.offset[m.sequences];
    for (int64_t j = 0; j < job.ask.size; ++j) {
        const int64_t i = j * total + m.offset[s];
        job.ask.samples[i] = pick(weight, m.labels, job.ask.uniforms[i]);
        if (job.ask.samples[i] < 0) return false;
    }
    return true;
}

}  // namespace vs::higher
