#include "messages/network.h"

#include <algorithm>
#include <cmath>

#include "pool/blocks.h"

namespace vs::messages {
namespace {

constexpr int64_t kBlock = 1 << 10;  // variables of a task

}  // namespace

Status Network::answer(const double* local, const double* messages, int threads, Control* control,
                       double* marginals, double* log_z, int64_t* dead_variable) {
    if (!by_pairs_) {
        return beliefs(local, messages, threads, control, marginals, log_z, dead_variable);
    }
    return pairs_->beliefs(local, serial_ ? 1 : threads, control, marginals, log_z, dead_variable);
}

Status Network::collect(const double* local, const double* messages, int* threads, Control* control,
                        int64_t* dead_variable) {
    *threads = workers(*threads);
    options_ = RunOptions();
    start(local, messages);
    make_scratch(*threads);
    phase(kVariables, *threads, control);
    if (control->stop.load()) return kCancelled;
    return (*dead_variable = dead()) >= 0 ? kInfeasible : kOk;
}

Status Network::beliefs(const double* local, const double* messages, int threads, Control* control,
                        double* marginals, double* log_z, int64_t* dead_variable) {
    const Status collected = collect(local, messages, &threads, control, dead_variable);
    if (collected != kOk) return collected;
    factor_mass_.resize(at(n_factors_));
    phase(kMasses, threads, control);
    if (control->stop.load()) return kCancelled;
    log_mass_.resize(at(n_));
    run_blocks(*g_pool, "marginals", n_, kBlock, threads, control, [&](int64_t v, int64_t last) {
        for (; v < last; ++v) {
            const double* b = belief_.data() + var_at_[at(v)];
            double* p = marginals + var_at_[at(v)];
            const int64_t k = card_[at(v)];
            const double top = *std::max_element(b, b + k);
            double sum = 0.0;
            for (int64_t x = 0; x < k; ++x) sum += p[x] = std::exp(b[x] - top);
            for (int64_t x = 0; x < k; ++x) p[x] /= sum;
            log_mass_[at(v)] = top + std::log(sum);
        }
    });
    if (control->stop.load()) return kCancelled;
    double total = 0.0;
    for (double mass : log_mass_) total += mass;
    for (int64_t f = 0; f < n_factors_; ++f) {
        double gap = factor_mass_[at(f)];
        for (int64_t e = factor_ptr_[at(f)]; e < factor_ptr_[at(f + 1)]; ++e) {
            gap += shift_[at(e)] - log_mass_[at(edge_var_[at(e)])];
        }
        total += rho_[at(f)] * gap;
        if (gap == -INFINITY) {
            *dead_variable = edge_var_[at(factor_ptr_[at(f)])];
            return kInfeasible;
        }
    }
    *log_z = total;
    return kOk;
}

Status Network::joints(int threads, Control* control, double* out) {
    phase(kJoints, workers(threads), control, out);
    return control->stop.load() ? kCancelled : kOk;
}

}  // namespace vs::messages
