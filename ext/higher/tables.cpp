#include "higher/tables.h"

#include <algorithm>
#include <cmath>

#include "core/at.h"
#include "higher/log_table.h"

namespace vs::higher {
namespace {

// The largest score, or 0 where all are -inf.
double shift_of(const double* x, int64_t n) {
    const double most = n > 0 ? *std::max_element(x, x + n) : kNever;
    return most == kNever ? 0.0 : most;
}
// At least `lost`, and the largest that counts as -inf, less `shift`.
void lose(const double* x, int64_t n, double shift, double* lost) {
    for (int64_t i = 0; i < n; ++i) {
        if (x[i] - shift < kLeastTableLog) *lost = std::max(*lost, x[i] - shift);
    }
}

}  // namespace

Tables::Tables(const LongerModel& model, const LongerRequest& ask, const Level& level)
    : m_(model), level_(level), k_(model.labels), kp_(level.padded(model.labels)) {
    packed_.kp = kp_;
    if (ask.best) {
        pack_scores();
    } else if (model.longest) {
        pack_segments();
    } else {
        // What is asked of one direction may have to be made sure of by the other.
        pack_second(ask.entropy != nullptr);
    }
    packed_.up = up_.data();
    packed_.down = down_.data();
    packed_.scored = scored_.data();
    packed_.first = first_.data();
}

void Tables::pack_second(bool scored) {
    const int64_t K = k_, kp = kp_, size = K * kp;
    packed_.shift = shift_of(m_.transition, K * K * K);
    packed_.first_shift = shift_of(m_.first, K * K);
    lose(m_.transition, K * K * K, packed_.shift, &packed_.lost);
    lose(m_.first, K * K, packed_.first_shift, &packed_.lost);
    first_.resize(at(size));
    for (int64_t f = 0; f < K; ++f) {
        level_.exponentials(m_.first + f * K, packed_.first_shift, K, kp, first_.data() + f * kp);
    }
    up_.resize(at(K * size));
    down_.assign(at(K * size), 0.0);
    for (int64_t c = 0; c < K; ++c) {
        for (int64_t b = 0; b < K; ++b) {
            double* const row = up_.data() + c * size + b * kp;
            level_.exponentials(m_.transition + (b * K + c) * K, packed_.shift, K, kp, row);
            for (int64_t t = 0; t < K; ++t) down_[at(c * size + t * kp + b)] = row[t];
        }
    }
    if (!scored) return;
    scored_.assign(at(K * size), 0.0);
    for (int64_t c = 0; c < K; ++c) {
        for (int64_t b = 0; b < K; ++b) {
            for (int64_t t = 0; t < K; ++t) {
                const double w = up_[at(c * size + b * kp + t)];
                if (w > 0.0) {
                    scored_[at(c * size + b * kp + t)] =
                        w * (m_.transition[(b * K + c) * K + t] - packed_.shift);
                }
            }
        }
    }
}

void Tables::pack_segments() {
    const int64_t K = k_, kp = kp_;
    packed_.shift = shift_of(m_.transition, K * K);
    lose(m_.transition, K * K, packed_.shift, &packed_.lost);
    up_.resize(at(K * kp));
    down_.assign(at(K * kp), 0.0);
    for (int64_t j = 0; j < K; ++j) {
        double* const row = up_.data() + j * kp;
        level_.exponentials(m_.transition + j * K, packed_.shift, K, kp, row);
        for (int64_t k = 0; k < K; ++k) down_[at(k * kp + j)] = row[k];
    }
}

void Tables::pack_scores() {
    const int64_t K = k_, kp = kp_, rows = m_.longest ? 1 : K;
    up_.assign(at(rows * K * kp), kNever);
    for (int64_t c = 0; c < rows; ++c) {
        for (int64_t b = 0; b < K; ++b) {
            const double* const row = m_.transition + (b * rows + c) * K;
            std::copy(row, row + K, up_.begin() + (c * K + b) * kp);
        }
    }
    if (m_.longest) return;
    first_.assign(at(K * kp), kNever);
    for (int64_t f = 0; f < K; ++f)
        std::copy(m_.first + f * K, m_.first + (f + 1) * K, first_.begin() + f * kp);
}

void Tables::add_expected(const double* counts, double* out) const {
    const int64_t K = k_, rows = m_.longest ? 1 : K;
    for (int64_t c = 0; c < rows; ++c) {
        for (int64_t b = 0; b < K; ++b) {
            const int64_t from = (c * K + b) * kp_;
            double* const to = out + (b * rows + c) * K;
            for (int64_t t = 0; t < K; ++t) to[t] += counts[from + t] * up_[at(from + t)];
        }
    }
}

}  // namespace vs::higher
