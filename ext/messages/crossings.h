// Crossings in the value of a field; see Field::assess_crossings.
//
// Let a pair outside the forest have the table c + alpha x + beta y + J x y, and u = z_0, z_1, ...,
// z_n = v be the path between its variables, all binary. p(u = 1 | z_i) is s_i + l_i z_i, l_i being
// a product of Cov(z_j, z_j+1) / Var(z_j+1); p(v = 1 | z_i) is t_i + m_i z_i. The derivative by the
// table of (z_i, z_i+1), less those by the variables in between, is then, up to functions of single
// variables that cancel,
//
//   J l_i m_i+1 z_i z_i+1 = J Cov(u, v) / Cov(z_i, z_i+1) z_i z_i+1,
//
// and for single variables: less that times p(z_i+1 = 1 | z_i = 0), and likewise of z_i; less
// J Cov(u, v) / Var(z_i) for each in between; alpha + J t_0 and beta + J s_n at the ends.
#pragma once

#include <algorithm>
#include <cmath>

#include "messages/field.h"

namespace vs::messages {

inline void Network::Field::assess_crossings() {
    if (crossing.empty()) return;
    read_links();
    crossed.assign(at(l.n_), 0.0);
    ends.assign(at(l.n_), 0.0);
    product.resize(crossing.size());
    for (size_t i = 0; i < crossing.size(); ++i) {
        const Crossing& c = crossing[i];
        const Way &a = way_to[at(c.u)], &b = way_to[at(c.v)], &m = way_to[at(c.meet)];
        const bool some = a.zeros + b.zeros == 2 * m.zeros;
        product[i] = some ? std::min(0.0, a.log_size + b.log_size - 2.0 * m.log_size) : -INFINITY;
    }
    level().exps(product.data(), static_cast<int64_t>(product.size()));
    for (size_t i = 0; i < crossing.size(); ++i) {
        const Crossing& c = crossing[i];
        const Way &a = way_to[at(c.u)], &b = way_to[at(c.v)];
        const double *p = q.data() + c.at_u, *r = q.data() + c.at_v;
        const double vp = p[0] * p[1], vr = r[0] * r[1];
        double cov = product[i] * std::sqrt(vp * vr);
        cov = (a.negative + b.negative) % 2 == 0 ? cov : -cov;
        // No probability is negative.
        cov = std::min(cov, std::min(p[1] * r[0], p[0] * r[1]));
        cov = std::max(cov, -std::min(p[1] * r[1], p[0] * r[0]));
        const double* t = theta.data() + c.table;
        const double own[4] = {p[0] * r[0] + cov, p[0] * r[1] - cov, p[1] * r[0] - cov,
                               p[1] * r[1] + cov};
        // Without zeros of its own.
        value += (own[0] * t[0] + own[1] * t[1]) + (own[2] * t[2] + own[3] * t[3]);
        scale += (own[0] * std::fabs(t[0]) + own[1] * std::fabs(t[1])) +
                 (own[2] * std::fabs(t[2]) + own[3] * std::fabs(t[3]));
        const double given_u = vp > 0.0 ? r[1] - cov / p[0] : r[1];  // p(v = 1 | u = 0)
        const double given_v = vr > 0.0 ? p[1] - cov / r[0] : p[1];
        next_node[at(c.at_u + 1)] += c.alpha + c.both * given_u;
        next_node[at(c.at_v + 1)] += c.beta + c.both * given_v;
        const double w = c.both * cov;
        ends[at(c.u)] += w;
        ends[at(c.v)] += w;
        crossed[at(c.u)] += w;
        crossed[at(c.v)] += w;
        crossed[at(c.meet)] -= 2.0 * w;
    }
    // Sums over subtrees; `ends` becomes twice what has a variable in between.
    for (double& x : ends) x = -x;
    for (size_t i = downwards.size(); i-- > 0;) {
        const int64_t v = downwards[i].v, above_v = downwards[i].above;
        crossed[at(above_v)] += crossed[at(v)];
        ends[at(v)] += crossed[at(v)];
        ends[at(above_v)] += crossed[at(v)];
        if (link[at(v)].is_weak) {
            crossed[at(v)] = 0.0;  // walk() has it
        } else {
            crossed[at(v)] /= link[at(v)].covariance;
        }
    }
    for (int64_t v = 0; v < l.n_; ++v) {
        const double* p = q.data() + l.var_at_[at(v)];
        if (l.card_[at(v)] != 2 || !(p[0] * p[1] > kWeak)) continue;
        next_node[at(l.var_at_[at(v)] + 1)] -= 0.5 * ends[at(v)] / (p[0] * p[1]);
    }
    for (size_t i = 0; i < crossing.size() && !ended(i); ++i) {
        const Crossing& c = crossing[i];
        if (way_to[at(c.u)].weak + way_to[at(c.v)].weak != 2 * way_to[at(c.meet)].weak) walk(c);
    }
    for (const Below& d : downwards) {
        const double both = crossed[at(d.v)];
        if (both == 0.0) continue;
        next_table[at(d.table + 3)] += both;
        const double *p = link[at(d.v)].joint, *own = q.data() + d.at_v;
        const double* top = q.data() + d.at_above;
        if (top[0] > 0.0) next_node[at(d.at_above + 1)] -= both * p[1] / top[0];
        if (own[0] > 0.0) next_node[at(d.at_v + 1)] -= both * p[2] / own[0];
    }
}

}  // namespace vs::messages
