#include "messages/field.h"

#include <algorithm>
#include <cmath>

#include "pool/blocks.h"

namespace vs::messages {

void Network::Field::root_forest() {
    std::vector<char> left(inside);
    const Forest forest = l.rooted(&left);
    order = forest.factor;
    above.assign(at(l.n_factors_), -1);
    std::fill(up.begin(), up.end(), -1);
    std::fill(parent.begin(), parent.end(), -1);
    roots = forest.roots;
    for (int64_t r : roots) {
        root[at(r)] = r;
        depth[at(r)] = 0;
    }
    for (size_t i = 0; i < order.size(); ++i) {
        const int64_t f = order[i], e = forest.above[i], v = l.edge_var_[at(e)];
        above[at(f)] = e;
        for (int64_t c = l.factor_ptr_[at(f)]; c < l.factor_ptr_[at(f + 1)]; ++c) {
            const int64_t u = l.edge_var_[at(c)];
            if (c == e) continue;
            up[at(u)] = c;
            parent[at(u)] = v;
            root[at(u)] = root[at(v)];
            depth[at(u)] = depth[at(v)] + 1;
        }
    }
}

void Network::Field::find_pairs() {
    pair.assign(at(l.n_factors_), 0);
    for (int64_t f : order) {
        const int64_t first = l.factor_ptr_[at(f)];
        pair[at(f)] = arity(f) == 2 && !l.structured_at(f) && l.edge_card_[at(first)] == 2 &&
                      l.edge_card_[at(first + 1)] == 2;
    }
    top.resize(at(l.most_values_));
    total.resize(top.size());
}

void Network::Field::find_terms() {
    std::vector<int64_t> degree(at(l.n_), 0);
    counts.assign(theta.size(), 0.0);
    own_table.assign(theta.size(), 0.0);
    for (int64_t f : order) {
        for (int64_t e = l.factor_ptr_[at(f)]; e < l.factor_ptr_[at(f + 1)]; ++e) {
            ++degree[at(l.edge_var_[at(e)])];
        }
        if (l.structured_at(f)) {
            structured.push_back(f);
            continue;
        }
        for (int64_t i = l.table_at_[at(f)]; i < l.table_at_[at(f + 1)]; ++i) {
            counts[at(i)] = 1.0;
            own_table[at(i)] = theta[at(i)];
            if (theta[at(i)] == -INFINITY) never_table.push_back(i);
        }
    }
    held_table = all_held(theta);
    held_local = all_held(Numbers(local, local + q.size()));
    share.resize(q.size());
    for (int64_t v = 0; v < l.n_; ++v) {
        for (int64_t i = l.var_at_[at(v)]; i < l.var_at_[at(v + 1)]; ++i) {
            share[at(i)] = static_cast<double>(1 - degree[at(v)]);
            if (local[i] == -INFINITY) never_local.push_back(i);
        }
    }
}

void Network::Field::separate() {
    for (bool again = true; again;) {
        again = false;
        root_forest();
        for (int64_t f = 0; f < l.n_factors_ && !again; ++f) {
            if (inside[at(f)] || arity(f) == 2) continue;
            for (int64_t a = l.factor_ptr_[at(f)]; a < l.factor_ptr_[at(f + 1)]; ++a) {
                for (int64_t b = l.factor_ptr_[at(f)]; b < a && !again; ++b) {
                    int64_t u = l.edge_var_[at(a)], v = l.edge_var_[at(b)];
                    if (root[at(u)] != root[at(v)]) continue;
                    int64_t g = -1;
                    while (u != v && (g < 0 || l.structured_at(g))) {
                        if (depth[at(u)] < depth[at(v)]) std::swap(u, v);
                        g = l.edge_factor_[at(up[at(u)])];
                        // Both below one factor: the path ends in it.
                        const bool last = up[at(v)] >= 0 && l.edge_factor_[at(up[at(v)])] == g;
                        u = last ? v : parent_of(u);
                    }
                    if (l.structured_at(g)) {
                        possible = false;
                        return;
                    }
                    inside[at(g)] = 0;
                    again = true;
                }
            }
        }
    }
}

void Network::Field::send_up(int64_t f, Numbers* sum) {
    const factors::Structured& own = *l.structured_at(f);
    const int64_t first = l.factor_ptr_[at(f)], p = above[at(f)] - first, k = own.size();
    double *m = in_of(f), *ratio = work.data();
    for (int64_t j = 0; j < k; ++j) {
        const double* from = sum->data() + l.var_at_[at(l.edge_var_[at(first + j)])];
        for (int64_t x = 0; x < 2; ++x) m[2 * j + x] = j == p ? 0.0 : from[x];
    }
    const double mass = own.send(m, false, ratio, ratio + k);
    double* into = sum->data() + l.var_at_[at(l.edge_var_[at(first + p)])];
    for (int64_t x = 0; x < 2; ++x) {
        m[2 * p + x] = side_of(mass, ratio[p], x, false);
        into[x] += m[2 * p + x];
    }
}

void Network::Field::send_down(int64_t f) {
    const factors::Structured& own = *l.structured_at(f);
    const int64_t first = l.factor_ptr_[at(f)], p = above[at(f)] - first, k = own.size();
    const double* given = q.data() + l.var_at_[at(l.edge_var_[at(first + p)])];
    double *m = in_of(f), *on = joint.data() + l.table_at_[at(f)], *off = work.data();
    for (int64_t x = 0; x < 2; ++x) {
        m[2 * p + x] = given[x] > 0.0 ? std::log(given[x]) - m[2 * p + x] : -INFINITY;
    }
    own.sum_product(m, on, off, off + k);
    for (int64_t j = 0; j < k; ++j) {
        double* into = q.data() + l.var_at_[at(l.edge_var_[at(first + j)])];
        if (j == p) continue;
        into[0] = off[j];
        into[1] = on[j];
    }
}

// The same for a table of two binary variables: of the two entries for each value of the variable
// above, the smaller takes one exponential.
void Network::Field::pair_up(int64_t f, Numbers* sum) {
    const int64_t first = l.factor_ptr_[at(f)], p = above[at(f)] - first;
    const double* own = table.data() + l.table_at_[at(f)];
    const double* below = sum->data() + l.var_at_[at(l.edge_var_[at(first + 1 - p)])];
    double* into = sum->data() + l.var_at_[at(l.edge_var_[at(first + p)])];
    double* score = joint.data() + l.table_at_[at(f)];
    double top[2], total[2];
    for (int64_t x = 0; x < 2; ++x) {
        const int64_t a = p == 0 ? 2 * x : x, b = p == 0 ? 2 * x + 1 : x + 2;
        const double s = own[a] + below[0], t = own[b] + below[1];
        top[x] = std::max(s, t);
        const bool some = top[x] > -INFINITY;
        const double e = some ? std::exp(std::min(s, t) - top[x]) : 0.0;
        total[x] = 1.0 + e;
        score[a] = some ? (s < t ? e : 1.0) / total[x] : 0.0;
        score[b] = some ? (s < t ? 1.0 : e) / total[x] : 0.0;
    }
    // Only how the two differ matters.
    if (top[0] > -INFINITY && top[1] > -INFINITY) {
        into[1] += top[1] - top[0] + std::log(total[1] / total[0]);
    } else {
        for (int64_t x = 0; x < 2; ++x) into[x] = top[x] > -INFINITY ? into[x] : -INFINITY;
    }
}

void Network::Field::pair_down(int64_t f) {
    const int64_t first = l.factor_ptr_[at(f)], p = above[at(f)] - first;
    const double* given = q.data() + l.var_at_[at(l.edge_var_[at(first + p)])];
    double* own = q.data() + l.var_at_[at(l.edge_var_[at(first + 1 - p)])];
    double* out = joint.data() + l.table_at_[at(f)];
    for (int64_t x = 0; x < 4; ++x) out[x] *= given[p == 0 ? x / 2 : x % 2];
    own[0] = out[0] + (p == 0 ? out[2] : out[1]);
    own[1] = (p == 0 ? out[1] : out[2]) + out[3];
}

void Network::Field::table_up(int64_t f) {
    const int64_t first = l.factor_ptr_[at(f)], p = above[at(f)] - first;
    const int64_t k = l.edge_card_[at(first + p)];
    double* score = joint.data() + l.table_at_[at(f)];
    const double* own = table.data() + l.table_at_[at(f)];
    std::fill(top.begin(), top.begin() + k, -INFINITY);
    std::fill(total.begin(), total.begin() + k, 0.0);
    each(f, [&](int64_t x, const int64_t* state) {
        score[x] = own[x];
        for (int64_t j = 0; j < arity(f); ++j) {
            if (j == p) continue;
            score[x] += sum[at(l.var_at_[at(l.edge_var_[at(first + j)])] + state[j])];
        }
        top[at(state[p])] = std::max(top[at(state[p])], score[x]);
    });
    each(f, [&](int64_t x, const int64_t* state) {
        const double most = top[at(state[p])];
        score[x] = most > -INFINITY ? std::exp(score[x] - most) : 0.0;
        total[at(state[p])] += score[x];
    });
    each(f, [&](int64_t x, const int64_t* state) {
        if (total[at(state[p])] > 0.0) score[x] /= total[at(state[p])];
    });
    double* into = sum.data() + l.var_at_[at(l.edge_var_[at(first + p)])];
    for (int64_t x = 0; x < k; ++x) {
        into[x] += total[at(x)] > 0.0 ? top[at(x)] + std::log(total[at(x)]) : -INFINITY;
    }
}

void Network::Field::table_down(int64_t f) {
    const int64_t first = l.factor_ptr_[at(f)], p = above[at(f)] - first;
    double* out = joint.data() + l.table_at_[at(f)];
    const double* given = q.data() + l.var_at_[at(l.edge_var_[at(first + p)])];
    for (int64_t j = 0; j < arity(f); ++j) {
        if (j == p) continue;
        const int64_t u = l.edge_var_[at(first + j)];
        std::fill(q.begin() + l.var_at_[at(u)], q.begin() + l.var_at_[at(u + 1)], 0.0);
    }
    each(f, [&](int64_t x, const int64_t* state) {
        out[x] *= given[state[p]];
        for (int64_t j = 0; j < arity(f); ++j) {
            if (j == p) continue;
            q[at(l.var_at_[at(l.edge_var_[at(first + j)])] + state[j])] += out[x];
        }
    });
}

// Sums to the roots, each table's conditional, and marginals from the roots on; a table f of the
// forest lies above the variables j and below p:
//
//   s_v(x) = node_v(x) + sum over f below v of log sum_{x_j} exp(table_f + sum_j s_j(x_j))
//   c_f(x_j | x_p) = exp(table_f + sum_j s_j) / its sum over x_j,   q_root = exp(s_root) / its sum
//   q_f(x_j, x_p) = c_f(x_j | x_p) q_p(x_p),   q_j = its sum over all but x_j
bool Network::Field::marginals() {
    sum = node;
    run_items(*g_pool, to_roots.view("to roots"), threads, control, [&](Item item) {
        for (int64_t i = item.last; i-- > item.first;) {
            const int64_t f = order[at(i)];
            if (l.structured_at(f)) {
                send_up(f, &sum);
            } else if (pair[at(f)]) {
                pair_up(f, &sum);
            } else {
                table_up(f);
            }
        }
    });
    for (int64_t v : roots) {
        const double* b = sum.data() + l.var_at_[at(v)];
        double* p = q.data() + l.var_at_[at(v)];
        const int64_t k = l.card_[at(v)];
        const double most = *std::max_element(b, b + k);
        if (!(most > -INFINITY)) return false;
        double mass = 0.0;
        for (int64_t x = 0; x < k; ++x) mass += p[x] = std::exp(b[x] - most);
        for (int64_t x = 0; x < k; ++x) p[x] /= mass;
    }
    // Downwards: each table holds p(others | variable above).
    run_items(*g_pool, from_roots.view("from roots"), threads, control, [&](Item item) {
        for (int64_t i = item.first; i < item.last; ++i) {
            const int64_t f = order[at(i)];
            if (l.structured_at(f)) {
                send_down(f);
            } else if (pair[at(f)]) {
                pair_down(f);
            } else {
                table_down(f);
            }
        }
        if (!crossing.empty()) {
            read_links(first_below[at(item.first)], first_below[at(item.last)]);
        }
    });
    return true;
}

void Network::Field::given(int64_t a, int64_t b, Numbers& out, Numbers& mass) {
    const int64_t f = l.edge_factor_[at(a)], first = l.factor_ptr_[at(f)];
    if (const factors::Structured* own = l.structured_at(f)) {
        const int64_t size = own->size();
        Numbers held(in_of(f), in_of(f) + 2 * size), on(at(size)), off(at(size));
        const double* p = q.data() + l.var_at_[at(l.edge_var_[at(b)])];
        mass.assign(p, p + 2);
        out.assign(4, 0.0);
        for (int64_t y = 0; y < 2; ++y) {
            held[at(2 * (b - first) + 1 - y)] = -INFINITY;
            held[at(2 * (b - first) + y)] = 0.0;
            own->sum_product(held.data(), on.data(), off.data(), work.data());
            out[at(y)] = off[at(a - first)];
            out[at(2 + y)] = on[at(a - first)];
        }
        return;
    }
    const int64_t k = l.edge_card_[at(a)], m = l.edge_card_[at(b)];
    const double* p = joint.data() + l.table_at_[at(f)];
    out.assign(at(k * m), 0.0);
    mass.assign(at(m), 0.0);
    each(f, [&](int64_t x, const int64_t* state) {
        out[at(state[a - first] * m + state[b - first])] += p[x];
        mass[at(state[b - first])] += p[x];
    });
    for (int64_t x = 0; x < k; ++x) {
        for (int64_t y = 0; y < m; ++y) {
            double& o = out[at(x * m + y)];
            o = mass[at(y)] > 0.0 ? o / mass[at(y)] : 0.0;
        }
    }
}

}  // namespace vs::messages
