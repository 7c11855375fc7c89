#include "messages/network.h"

#include <algorithm>
#include <cmath>

namespace vs::messages {

Forest Network::rooted(std::vector<char>* inside) const {
    Forest forest;
    std::vector<char> seen(at(n_), 0);
    std::vector<int64_t> open;
    for (int64_t root = 0; root < n_; ++root) {
        if (seen[at(root)]) continue;
        seen[at(root)] = 1;
        forest.roots.push_back(root);
        open.assign(1, root);
        for (size_t i = 0; i < open.size(); ++i) {
            const int64_t v = open[i];
            for (int64_t j = var_ptr_[at(v)]; j < var_ptr_[at(v + 1)]; ++j) {
                const int64_t e = var_edge_[at(j)], f = edge_factor_[at(e)];
                if (!(*inside)[at(f)]) continue;
                (*inside)[at(f)] = 0;
                forest.factor.push_back(f);
                forest.above.push_back(e);
                for (int64_t c = factor_ptr_[at(f)]; c < factor_ptr_[at(f + 1)]; ++c) {
                    const int64_t u = edge_var_[at(c)];
                    if (seen[at(u)]) continue;
                    seen[at(u)] = 1;
                    open.push_back(u);
                }
            }
        }
    }
    return forest;
}

// log Z of forests T of the factors, reparametrised by messages m, b_v = local_v + sum_f rho_f m_f:
//
//   score_T = sum_v b_v + sum_{f in T} (theta_f / rho_f - sum_v m_f(x_v))
//   b_v(x) += log sum over the others of exp(theta_f / rho_f - sum m_f + sum_j b_j), for f below v
//   log Z_T = sum over roots of log sum_x exp(b(x)); maxima in place of sums if `best`
//
// With weights rho_T that add up to rho_f over the forests with f, scores average to the model's,
// so that sum_T rho_T log Z_T >= log Z for any m (ERRATA, "Bounds in general").
Status Network::forests(const double* local, const double* messages, int64_t n_forests,
                        const int64_t* ptr, const int64_t* factor, bool best, Control* control,
                        double* log_z, double* scale, int64_t* dead_variable) {
    start(local, messages);
    make_scratch(1);
    phase(kVariables, 1, control);
    if (control->stop.load()) return kCancelled;
    if ((*dead_variable = dead()) >= 0) return kInfeasible;
    *scale = 0.0;
    for (int64_t v = 0; v < n_; ++v) {
        double most = 0.0;
        for (int64_t i = var_at_[at(v)]; i < var_at_[at(v + 1)]; ++i) {
            if (belief_[at(i)] > -INFINITY) most = std::max(most, std::fabs(belief_[at(i)]));
        }
        *scale += most;
    }
    std::vector<char> inside(at(n_factors_), 0);
    std::vector<double> sum, work;
    double most_of_all = 0.0;
    for (int64_t t = 0; t < n_forests; ++t) {
        if (cancelled(control)) return kCancelled;
        for (int64_t i = ptr[t]; i < ptr[t + 1]; ++i) inside[at(factor[i])] = 1;
        const Forest forest = rooted(&inside);
        sum.assign(belief_.begin(), belief_.end());
        double largest = 0.0;
        for (size_t i = forest.factor.size(); i-- > 0;) {
            const int64_t f = forest.factor[i], above = forest.above[i];
            double most = 0.0, *up = sum.data() + var_at_[at(edge_var_[at(above)])];
            ask(f, [&](const auto& own) {
                own.send_up(above - factor_ptr_[at(f)], sum.data(), var_at_.data(), m_.data(),
                            edge_at_.data(), best, up, &most, &work);
            });
            largest += most;
        }
        double value = 0.0;
        for (int64_t root : forest.roots) {
            const double* b = sum.data() + var_at_[at(root)];
            const double most = *std::max_element(b, b + card_[at(root)]);
            double mass = 0.0;
            for (int64_t x = 0; x < card_[at(root)] && most > -INFINITY; ++x) {
                mass = best ? 1.0 : mass + std::exp(b[x] - most);
            }
            value += mass > 0.0 ? most + std::log(mass) : -INFINITY;
        }
        log_z[t] = value;
        most_of_all = std::max(most_of_all, largest);
    }
    *scale += most_of_all;
    return kOk;
}

}  // namespace vs::messages
