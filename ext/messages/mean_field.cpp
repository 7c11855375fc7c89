#include "messages/network.h"

#include <algorithm>
#include <cmath>

namespace vs::messages {

Status Network::mean_field(const double* local, int64_t max_iterations, double tolerance,
                           Control* control, double* q, double* bound, double* scale) {
    run_ = Progress();
    std::vector<double> score;
    // score[x] += expectation of the table of edge e's factor given its value x.
    const auto expect = [&](int64_t e, double* out) {
        const int64_t f = edge_factor_[at(e)], first = factor_ptr_[at(f)];
        const DenseTable t = table_of(f);
        each(t.arity, t.card, t.size, [&](int64_t i, const int64_t* state) {
            double w = 1.0;
            for (int64_t j = 0; j < t.arity; ++j) {
                if (first + j != e) w *= q[var_at_[at(edge_var_[at(first + j)])] + state[j]];
            }
            if (w > 0.0) out[state[e - first]] += w * t.theta[i];
        });
    };
    for (int64_t i = 0; i < max_iterations && !run_.converged; ++i) {
        double most = 0.0;
        for (int64_t v = 0; v < n_; ++v) {
            if (cancelled(control, v, 256)) return kCancelled;
            const int64_t k = card_[at(v)];
            score.assign(local + var_at_[at(v)], local + var_at_[at(v + 1)]);
            for (int64_t j = var_ptr_[at(v)]; j < var_ptr_[at(v + 1)]; ++j) {
                expect(var_edge_[at(j)], score.data());
            }
            const double top = *std::max_element(score.begin(), score.end());
            if (!(top > -INFINITY)) continue;  // impossible given the others: it stays
            double sum = 0.0;
            for (double& x : score) sum += x = std::exp(x - top);
            double* p = q + var_at_[at(v)];
            for (int64_t x = 0; x < k; ++x) {
                const double now = score[at(x)] / sum;
                most = std::max(most, std::fabs(now - p[x]));
                p[x] = now;
            }
        }
        run_.updates += n_;
        run_.residuals.push_back(most);
        run_.converged = most <= tolerance;
        control->done.store(i + 1);
    }
    double value = 0.0, size = 0.0;
    const auto add = [&](double weight, double x) {
        if (weight > 0.0) {
            value += weight * x;
            size += weight * std::fabs(x);
        }
    };
    for (int64_t i = 0; i < var_at_.back(); ++i) {
        add(q[i], local[i]);
        add(q[i], q[i] > 0.0 ? -std::log(q[i]) : 0.0);
    }
    for (int64_t f = 0; f < n_factors_; ++f) {
        const int64_t first = factor_ptr_[at(f)];
        score.assign(at(edge_card_[at(first)]), 0.0);
        expect(first, score.data());
        for (int64_t x = 0; x < edge_card_[at(first)]; ++x) {
            add(q[var_at_[at(edge_var_[at(first)])] + x], score[at(x)]);
        }
    }
    *bound = value;
    *scale = size;
    return kOk;
}

}  // namespace vs::messages
