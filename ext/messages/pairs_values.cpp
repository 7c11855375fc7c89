// Fields and messages of a run of pairs: from logarithms to log-ratios or plain numbers, and back.
#include <algorithm>
#include <atomic>
#include <cmath>

#include "messages/pairs.h"

namespace vs::messages {

// Fields and messages as log-ratios; false when a variable has no value left (its total is NaN).
bool Pairs::start(const double* local, const double* messages, int threads, Control* control) {
    field_.resize(at(n_));
    start_.resize(at(n_));
    total_.resize(at(n_ + kPairLanes));
    std::fill(total_.end() - kPairLanes, total_.end(), 0.0);
    std::atomic<bool> alive{true};
    blocks("fields", n_, threads, control, [&](int64_t first, int64_t last) {
        bool all = true;
        for (int64_t v = first; v < last; ++v) {
            field_[at(v)] = local[2 * v + 1] - local[2 * v];
            start_[at(v)] = field_[at(v)] + sum_tilt_[at(v)];
            all = all && field_[at(v)] == field_[at(v)];
        }
        if (!all) alive.store(false);
    });
    message_.resize(var_.size());
    for (const StructuredGroup& g : groups_) {
        for (int64_t i = 0; i < g.factor->size(); ++i) {
            const double* m = messages + 2 * (g.edge + i);
            message_[at(g.slot + i)] = m[1] - m[0];
        }
    }
    for (int64_t side = 0; side < 2; ++side) {
        std::fill(message_.begin() + side * padded_ + n_pairs_,
                  message_.begin() + (side + 1) * padded_, 0.0);
    }
    blocks("messages", n_pairs_, threads, control, [&](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; ++i) {
            const double* m = messages + 2 * ptr_[factor_[at(i)]];
            const double j = coupling_[at(i)], rho = weighted_ ? rho_[at(i)] : 1.0;
            for (int64_t side = 0; side < 2; ++side) {
                const size_t s = at(side * padded_ + i);
                const double x = m[2 * side + 1] - m[2 * side] - 2.0 * tilt_[s] / rho;
                const double limit = std::fabs(2.0 * j / rho);
                message_[s] = x >= -1e290 && x <= 1e290 ? x : x > 0.0 ? limit : -limit;
            }
        }
    });
    return alive.load();
}

// Whether no product of plain numbers can leave the range of a double.
bool Pairs::fit_ratios(int threads, Control* control) {
    // Limits of logarithms: a variable's field and pairs; J of a pair; its structured factors
    // together. A total lies within exp(+-500), and times exp(2 J) within exp(+-650): a double,
    // which ends at exp(+-708), holds both.
    constexpr double kField = 300.0, kPair = 75.0, kStructures = 200.0;
    std::atomic<bool> fit{true};
    blocks("fields", n_, threads, control, [&](int64_t first, int64_t last) {
        bool all = true;
        for (int64_t v = first; v < last; ++v) {
            double range = std::fabs(start_[at(v)]);
            for (int32_t i = var_ptr_[at(v)]; i < var_ptr_[at(v + 1)]; ++i) {
                const size_t s = at(slot_[at(i)]);
                if (s >= at(2 * padded_)) continue;
                const double j = std::fabs(coupling_[place(s)]);
                const double most = std::max(2.0 * j, std::fabs(message_[s]));
                all = all && most <= 2.0 * kPair;
                range += most;
            }
            all = all && range <= kField;
        }
        if (!all) fit.store(false);
    });
    if (!fit.load()) return false;
    const size_t first = at(2 * padded_);
    std::vector<int32_t> held(groups_.empty() ? 0 : at(n_), 0);
    int32_t most_held = 1;
    for (size_t s = first; s < message_.size(); ++s) {
        most_held = std::max(most_held, ++held[at(var_[s])]);
    }
    most_sent_ = kStructures / most_held;
    for (size_t s = first; s < message_.size(); ++s) {
        if (!(std::fabs(message_[s]) <= most_sent_)) return false;
    }
    return true;
}

// Messages as plain numbers, where these will do.
void Pairs::start_ratios(const RunOptions& options, int threads, Control* control) {
    ratios_ = false;
    if (options.best || options.damping > 0.0 || weighted_) return;
    if (!fit_ratios(threads, control)) return;
    sent_.assign(message_.begin() + 2 * padded_, message_.end());
    ratios_ = true;
    blocks("fields", n_, threads, control, [&](int64_t first, int64_t last) {
        for (int64_t v = first; v < last; ++v) start_[at(v)] = std::exp(start_[at(v)]);
    });
    const auto slots = static_cast<int64_t>(message_.size());
    blocks("messages", slots, threads, control, [&](int64_t first, int64_t last) {
        for (int64_t s = first; s < last; ++s) {
            const double x = message_[at(s)];
            message_[at(s)] = x != 0.0 ? std::exp(x) : 1.0;
        }
    });
}

// Everything as logarithms again.
void Pairs::leave_ratios(int threads, Control* control) {
    blocks("messages", 2 * padded_, threads, control, [&](int64_t first, int64_t last) {
        for (int64_t s = first; s < last; ++s) message_[at(s)] = std::log(message_[at(s)]);
    });
    std::copy(sent_.begin(), sent_.end(), message_.begin() + 2 * padded_);
    blocks("fields", n_, threads, control, [&](int64_t first, int64_t last) {
        for (int64_t v = first; v < last; ++v) {
            start_[at(v)] = field_[at(v)] + sum_tilt_[at(v)];
            total_[at(v)] = std::log(total_[at(v)]);
        }
    });
    std::copy(coupling_.begin(), coupling_.end(), scaled_.begin());
    ratios_ = false;
}

Status Pairs::scale(int threads, Control* control) {
    const double nothing = ratios_ ? 1.0 : 0.0;
    scaled_.resize(at(padded_));
    std::fill(scaled_.begin() + n_pairs_, scaled_.end(), nothing);
    blocks("pairs", n_pairs_, threads, control, [&](int64_t first, int64_t end) {
        double last = 0.0, last_value = nothing;
        for (int64_t i = first; i < end; ++i) {
            const double j = coupling_[at(i)] / (weighted_ ? rho_[at(i)] : 1.0);
            if (j != last) {
                last = j;
                last_value = ratios_ ? std::exp(2.0 * j) : j;
            }
            scaled_[at(i)] = last_value;
        }
    });
    weighed_.resize(weighted_ ? message_.size() : 0);
    if (weighted_) {
        blocks("messages", 2 * padded_, threads, control, [&](int64_t first, int64_t last) {
            for (int64_t s = first; s < last; ++s) {
                weighed_[at(s)] = message_[at(s)] * rho_[place(at(s))];
            }
        });
        for (size_t s = at(2 * padded_); s < message_.size(); ++s) put(s, message_[s]);
    }
    stale_.assign(at(n_), 1);
    add_up_all(threads, control);
    return control->stop.load() ? kCancelled : kOk;
}

void Pairs::read_messages(int threads, Control* control, double* messages) {
    blocks("messages", n_pairs_, threads, control, [&](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; ++i) {
            double* m = messages + 2 * ptr_[factor_[at(i)]];
            const double rho = weighted_ ? rho_[at(i)] : 1.0;
            for (int64_t side = 0; side < 2; ++side) {
                const size_t s = at(side * padded_ + i);
                const double x = message_[s] + 2.0 * tilt_[s] / rho;
                m[2 * side] = entry(x, 0);
                m[2 * side + 1] = entry(x, 1);
            }
        }
    });
    for (const StructuredGroup& g : groups_) {
        for (int64_t i = 0; i < 2 * g.factor->size(); ++i) {
            messages[2 * g.edge + i] = entry(message_[at(g.slot + i / 2)], i % 2);
        }
    }
}

}  // namespace vs::messages
