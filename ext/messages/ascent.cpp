#include "messages/field.h"

#include <algorithm>
#include <cmath>

namespace vs::messages {

void Network::Field::add_nearest_sum(int64_t a, int64_t b, const Numbers& row, const Numbers& back,
                                     const Numbers& mass) {
    const double together = back[3] * mass[1], pb = mass[1];
    const double pa = back[2] * mass[0] + together, cov = together - pa * pb;
    const double va = pa * (1.0 - pa), vb = pb * (1.0 - pb), det = va * vb - cov * cov;
    // The least-squares fit of x y by x and y: ca x + cb y.
    double ca = 0.0, cb = 0.0;
    if (det > 1e-12 * va * vb) {
        ca = together * ((1.0 - pa) * vb - (1.0 - pb) * cov) / det;
        cb = together * ((1.0 - pb) * va - (1.0 - pa) * cov) / det;
    }
    const double both = row[3] - row[2] - row[1] + row[0];
    next_node[at(l.var_at_[at(l.edge_var_[at(a)])] + 1)] += row[2] - row[0] + ca * both;
    next_node[at(l.var_at_[at(l.edge_var_[at(b)])] + 1)] += row[1] - row[0] + cb * both;
}

void Network::Field::path(int64_t u, int64_t v,
                          std::vector<std::pair<int64_t, int64_t>>& steps) const {
    steps.clear();
    std::vector<std::pair<int64_t, int64_t>> down;
    while (u != v) {
        const int64_t a = up[at(u)], b = up[at(v)];
        const bool both = depth[at(u)] == depth[at(v)];
        if (both && l.edge_factor_[at(a)] == l.edge_factor_[at(b)]) {
            steps.push_back({a, b});
            u = v;
        } else if (depth[at(u)] >= depth[at(v)]) {
            steps.push_back({a, above[at(l.edge_factor_[at(a)])]});
            u = parent_of(u);
        } else {
            down.push_back({above[at(l.edge_factor_[at(b)])], b});
            v = parent_of(v);
        }
    }
    steps.insert(steps.end(), down.rbegin(), down.rend());
}

void Network::Field::assess(bool joints) {
    next_node.assign(local, local + l.var_at_.back());
    next_table.assign(at(l.table_at_.back()), 0.0);
    value = scale = 0.0;
    bool zero = false;
    const auto add = [&](double weight, double x) {
        if (!(weight > 0.0)) return;
        zero = zero || x == -INFINITY;
        value += weight * held(x);
        scale += weight * std::fabs(held(x));
    };
    std::vector<int64_t> degree(at(l.n_), 0);
    for (int64_t f : order) {
        const int64_t first = l.table_at_[at(f)];
        const int64_t size = l.structured_at(f) ? 0 : l.table_at_[at(f + 1)] - first;
        if (size == 0) {  // structured: its log mass, 0, less the expected messages
            const double *m = in_of(f), *on = joint.data() + first;
            for (int64_t j = 0; j < arity(f); ++j) {
                const int64_t v = l.var_at_[at(l.edge_var_[at(l.factor_ptr_[at(f)] + j)])];
                add(q[at(v)], -m[2 * j]);
                add(on[j], -m[2 * j + 1]);
            }
        }
        for (int64_t i = first; i < first + size; ++i) {
            const double theta = l.theta_[at(f)][i - first], p = joint[at(i)];
            next_table[at(i)] = theta;
            add(p, theta);
            add(p, p > 0.0 ? -std::log(p) : 0.0);
        }
        for (int64_t e = l.factor_ptr_[at(f)]; e < l.factor_ptr_[at(f + 1)]; ++e) {
            ++degree[at(l.edge_var_[at(e)])];
        }
    }
    for (int64_t v = 0; v < l.n_; ++v) {
        for (int64_t i = l.var_at_[at(v)]; i < l.var_at_[at(v + 1)]; ++i) {
            const double p = q[at(i)];
            add(p, local[i]);
            const double h = p > 0.0 ? -p * std::log(p) : 0.0;
            value += static_cast<double>(1 - degree[at(v)]) * h;
            scale += static_cast<double>(1 + degree[at(v)]) * h;
        }
    }
    std::vector<std::pair<int64_t, int64_t>> steps;
    std::vector<Numbers> ahead, towards;
    Numbers back, mass, row, more;
    for (int64_t f : outside) {
        const int64_t first = l.factor_ptr_[at(f)];
        const int64_t u = l.edge_var_[at(first)], v = l.edge_var_[at(first + 1)];
        double* out = joint.data() + l.table_at_[at(f)];
        if (arity(f) > 2 || root[at(u)] != root[at(v)]) {
            each(f, [&](int64_t x, const int64_t* state) {
                double w = 1.0;
                const double theta = l.theta_[at(f)][x];
                for (int64_t j = 0; j < arity(f); ++j) {
                    double others = 1.0;
                    for (int64_t i = 0; i < arity(f); ++i) {
                        const int64_t o = l.var_at_[at(l.edge_var_[at(first + i)])] + state[i];
                        if (i != j) others *= q[at(o)];
                        if (i == j) w *= q[at(o)];
                    }
                    const int64_t own = l.var_at_[at(l.edge_var_[at(first + j)])] + state[j];
                    if (others > 0.0) next_node[at(own)] += others * held(theta);
                }
                add(w, theta);
                out[x] = w;
            });
            continue;
        }
        path(u, v, steps);
        const size_t n = steps.size();
        const int64_t k = l.edge_card_[at(first)], m = l.edge_card_[at(first + 1)];
        // ahead[i](x_i, y) = p(y at v | x_i at the i-th variable).
        ahead.resize(n + 1);
        towards.resize(n + 1);
        ahead[n].assign(at(m * m), 0.0);
        for (int64_t y = 0; y < m; ++y) ahead[n][at(y * m + y)] = 1.0;
        for (size_t i = n; i-- > 0;) {
            given(steps[i].second, steps[i].first, back, mass);
            const int64_t here = l.edge_card_[at(steps[i].first)];
            const int64_t there = l.edge_card_[at(steps[i].second)];
            ahead[i].assign(at(here * m), 0.0);
            for (int64_t x = 0; x < here; ++x) {
                for (int64_t z = 0; z < there; ++z) {
                    const double p = back[at(z * here + x)];
                    for (int64_t y = 0; y < m; ++y) {
                        ahead[i][at(x * m + y)] += p * ahead[i + 1][at(z * m + y)];
                    }
                }
            }
        }
        const double* theta = l.theta_[at(f)];
        for (int64_t x = 0; x < k; ++x) {
            const double own = q[at(l.var_at_[at(u)] + x)];
            for (int64_t y = 0; y < m; ++y) {
                const double p = own * ahead[0][at(x * m + y)];
                add(p, theta[x * m + y]);
                if (joints) out[x * m + y] = p;
            }
        }
        // towards[i](x_i, y) = E(table | x_i, y at v).
        towards[0].resize(at(k * m));
        for (int64_t x = 0; x < k * m; ++x) towards[0][at(x)] = held(theta[x]);
        for (size_t i = 0; i < n; ++i) {
            const int64_t a = steps[i].first, b = steps[i].second;
            const int64_t here = l.edge_card_[at(a)], there = l.edge_card_[at(b)];
            if (i > 0) {
                double* own = next_node.data() + l.var_at_[at(l.edge_var_[at(a)])];
                for (int64_t x = 0; x < here; ++x) {
                    double sum = 0.0;
                    for (int64_t y = 0; y < m; ++y) {
                        sum += towards[i][at(x * m + y)] * ahead[i][at(x * m + y)];
                    }
                    own[x] -= sum;
                }
            }
            row.assign(at(here * there), 0.0);
            for (int64_t x = 0; x < here; ++x) {
                for (int64_t z = 0; z < there; ++z) {
                    double sum = 0.0;
                    for (int64_t y = 0; y < m; ++y) {
                        sum += towards[i][at(x * m + y)] * ahead[i + 1][at(z * m + y)];
                    }
                    row[at(x * there + z)] = sum;
                }
            }
            const int64_t g = l.edge_factor_[at(a)], start = l.factor_ptr_[at(g)];
            double* into = next_table.data() + l.table_at_[at(g)];
            given(a, b, back, mass);
            if (l.structured_at(g)) {
                add_nearest_sum(a, b, row, back, mass);
            } else
                each(g, [&](int64_t x, const int64_t* state) {
                    into[x] += row[at(state[a - start] * there + state[b - start])];
                });
            towards[i + 1].assign(at(there * m), 0.0);
            for (int64_t x = 0; x < here; ++x) {
                for (int64_t z = 0; z < there; ++z) {
                    const double p = back[at(x * there + z)];
                    for (int64_t y = 0; y < m; ++y) {
                        towards[i + 1][at(z * m + y)] += p * towards[i][at(x * m + y)];
                    }
                }
            }
        }
    }
    bound = zero ? -INFINITY : value;
}

Status Network::structured(const double* local, int64_t count, const int64_t* forest, double* node,
                           double* table, int64_t max_iterations, double tolerance,
                           Control* control, double* q, double* joints, uint8_t* held,
                           double* bound, double* scale) {
    run_ = Progress();
    Field now(*this, local, count, forest);
    now.node.assign(node, node + var_at_.back());
    now.table.assign(table, table + table_at_.back());
    for (int64_t f : now.outside) {
        std::fill(now.table.begin() + table_at_[at(f)], now.table.begin() + table_at_[at(f + 1)],
                  0.0);
    }
    *bound = NAN;
    if (!now.possible) return kOk;
    if (!now.marginals()) return kInfeasible;
    now.assess(false);
    double best_bound = now.bound, best_scale = now.scale;
    double step = 1.0;
    const auto mix = [](double a, double b, double s) {
        return s == 1.0 ? b : (1.0 - s) * a + s * b;  // no factor is 0: -inf stays
    };
    for (int64_t i = 0; i < max_iterations && !run_.converged; ++i) {
        const Numbers before(now.q), joint_before(now.joint), node_before(now.node),
            table_before(now.table);
        const Numbers node_next(now.next_node), table_next(now.next_table);
        const double value = now.value;
        bool gained = false;
        for (int64_t tries = 0; tries < 40 && !gained; ++tries) {
            if (cancelled(control)) return kCancelled;
            for (size_t x = 0; x < before.size(); ++x) {
                now.node[x] = mix(node_before[x], node_next[x], step);
            }
            for (size_t x = 0; x < table_before.size(); ++x) {
                now.table[x] = mix(table_before[x], table_next[x], step);
            }
            gained = now.marginals();
            if (gained) now.assess(false);
            gained = gained && now.value >= value && now.bound >= best_bound;
            if (!gained) step *= 0.5;
        }
        run_.updates += n_;
        if (!gained) {
            now.node = node_before;
            now.table = table_before;
            now.marginals();
            now.assess(false);
        }
        double moved = 0.0;
        for (size_t x = 0; x < before.size(); ++x) {
            moved = std::max(moved, std::fabs(now.q[x] - before[x]));
        }
        // Without fields single variables stay at 1/2 while their joints move.
        for (size_t x = 0; x < joint_before.size(); ++x) {
            moved = std::max(moved, std::fabs(now.joint[x] - joint_before[x]));
        }
        best_bound = now.bound;
        best_scale = now.scale;
        run_.residuals.push_back(moved);
        run_.converged = moved <= tolerance * step || !gained;
        step = std::min(1.0, 2.0 * step);
        control->done.store(i + 1);
    }
    now.assess(true);
    std::copy(now.node.begin(), now.node.end(), node);
    std::copy(now.table.begin(), now.table.end(), table);
    std::copy(now.q.begin(), now.q.end(), q);
    std::copy(now.joint.begin(), now.joint.end(), joints);
    std::copy(now.inside.begin(), now.inside.end(), held);
    *bound = best_bound;
    *scale = best_scale;
    return kOk;
}

}  // namespace vs::messages
