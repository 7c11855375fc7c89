// Mean field with the structure of a forest: q is any distribution of the forest's factors.
//
// q has tables f for the forest's factors and a vector for each variable. Its value is
// E_q[score] + H(q) <= log Z. At the best q, its tables are the model's own plus the derivative of
// the expectation of the other factors: that of such a factor given the states of a table on the
// path between its two variables, less those given each variable in between. A step goes towards
// that as far as it gains, so no step loses anything.
//
// A structured factor stays in q as it is, its variables' vectors being all that q may choose. A
// path through it goes by the joint of two variables, and the derivative is taken to the nearest
// sum of a function of each.
#include <algorithm>
#include <cmath>

#include "messages/network.h"

namespace vs::messages {
namespace {

using Numbers = std::vector<double>;

// What a zero of a factor outside the forest counts as on the way; the bound takes it as it is.
constexpr double kForbidden = 1e4;

}  // namespace

struct Network::Field {
    const Network& l;
    const double* local;
    std::vector<int64_t> order, parent_edge;  // forest factors from the roots on, and where reached
    std::vector<int64_t> up;                  // of a variable: the edge that it hangs on, or -1
    std::vector<int64_t> depth, root, outside;  // of a variable; factors that are not in the forest
    std::vector<char> inside;
    Numbers q, joint, node, table;  // marginals and tables' joints; the parameters they come from
    Numbers next_node, next_table;  // the parameters that a whole step leads to
    double value = 0.0, bound = 0.0, scale = 0.0;

    Numbers in, work;          // messages to structured factors, by entry; scratch
    bool possible = true;      // no table outside reaches into one of them twice

    Field(const Network& network, const double* loc, int64_t count, const int64_t* forest)
        : l(network),
          local(loc),
          up(at(l.n_), -1),
          depth(at(l.n_), 0),
          root(at(l.n_), -1),
          inside(at(l.n_factors_), 0),
          in(l.structured_.empty() ? 0 : at(l.n_entries())),
          work(at(l.room_ + 2 * l.widest_)) {
        for (int64_t i = 0; i < count; ++i) inside[at(forest[i])] = 1;
        separate();
        hang();
        for (int64_t f = 0; f < l.n_factors_; ++f) {
            if (!inside[at(f)]) outside.push_back(f);
        }
        q.resize(at(l.var_at_.back()));
        joint.resize(at(l.table_at_.back()));
    }

    int64_t arity(int64_t f) const { return l.factor_ptr_[at(f + 1)] - l.factor_ptr_[at(f)]; }
    int64_t parent_of(int64_t v) const {  // the variable above, or -1 at a root
        return up[at(v)] < 0 ? -1 : l.edge_var_[at(above[at(l.edge_factor_[at(up[at(v)])])])];
    }
    std::vector<int64_t> above;  // of a factor: the edge to the variable above it

    void hang() {
        std::vector<char> left(inside);
        const Forest forest = l.hang(&left);
        order = forest.factor;
        above.assign(at(l.n_factors_), -1);
        std::fill(up.begin(), up.end(), -1);
        for (int64_t r : forest.roots) {
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
                root[at(u)] = root[at(v)];
                depth[at(u)] = depth[at(v)] + 1;
            }
        }
    }

    // The variables of a factor outside the forest of three and more lie in trees of their own:
    // where two do not, the table nearest to the second on their path leaves the forest.
    void separate() {
        for (bool again = true; again;) {
            again = false;
            hang();
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

    template <class F>
    void each(int64_t f, F&& g) const {
        messages::each(arity(f), l.edge_card_.data() + l.factor_ptr_[at(f)],
                       l.table_at_[at(f + 1)] - l.table_at_[at(f)], g);
    }

    double* in_of(int64_t f) { return in.data() + l.edge_at_[at(l.factor_ptr_[at(f)])]; }

    // Adds what the variables below a structured factor come to for each state of the one above.
    void send_up(int64_t f, Numbers* sum) {
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

    // The marginals of a structured factor's variables, given that of the one above. Its messages
    // are left such that its own distribution has them, and mass one.
    void send_down(int64_t f) {
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

    // q and the joints of the forest's tables from `node` and `table`; false without any mass.
    bool marginals() {
        Numbers sum(node), scores, top, total;
        for (size_t i = order.size(); i-- > 0;) {
            const int64_t f = order[i], first = l.factor_ptr_[at(f)];
            if (l.structured_at(f)) {
                send_up(f, &sum);
                continue;
            }
            const int64_t p = above[at(f)] - first, k = l.edge_card_[at(first + p)];
            double* score = joint.data() + l.table_at_[at(f)];
            const double* own = table.data() + l.table_at_[at(f)];
            top.assign(at(k), -INFINITY);
            total.assign(at(k), 0.0);
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
        for (int64_t v = 0; v < l.n_; ++v) {
            if (root[at(v)] != v) continue;
            const double* b = sum.data() + l.var_at_[at(v)];
            double* p = q.data() + l.var_at_[at(v)];
            const int64_t k = l.card_[at(v)];
            const double most = *std::max_element(b, b + k);
            if (!(most > -INFINITY)) return false;
            double mass = 0.0;
            for (int64_t x = 0; x < k; ++x) mass += p[x] = std::exp(b[x] - most);
            for (int64_t x = 0; x < k; ++x) p[x] /= mass;
        }
        // Downwards: each table holds what the others are given the variable above.
        for (int64_t f : order) {
            if (l.structured_at(f)) {
                send_down(f);
                continue;
            }
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
        return true;
    }

    double held(double x) const { return x > -INFINITY ? x : -kForbidden; }

    // p(x | y) of variable u of edge a given w of edge b, both of one factor; (card u, card w).
    void given(int64_t a, int64_t b, Numbers& out, Numbers& mass) {
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

    // Adds to the next vectors of two binary variables the sum of a function of each that is nearest
    // to row (2, 2), in mean square; back: p(x | y), mass: p(y).
    void add_nearest_sum(int64_t a, int64_t b, const Numbers& row, const Numbers& back,
                         const Numbers& mass) {
        const double together = back[3] * mass[1], pb = mass[1];
        const double pa = back[2] * mass[0] + together, cov = together - pa * pb;
        const double va = pa * (1.0 - pa), vb = pb * (1.0 - pb), det = va * vb - cov * cov;
        // What is left of x y beside its two factors, when it is fitted by them.
        double ca = 0.0, cb = 0.0;
        if (det > 1e-12 * va * vb) {
            ca = together * ((1.0 - pa) * vb - (1.0 - pb) * cov) / det;
            cb = together * ((1.0 - pb) * va - (1.0 - pa) * cov) / det;
        }
        const double both = row[3] - row[2] - row[1] + row[0];
        next_node[at(l.var_at_[at(l.edge_var_[at(a)])] + 1)] += row[2] - row[0] + ca * both;
        next_node[at(l.var_at_[at(l.edge_var_[at(b)])] + 1)] += row[1] - row[0] + cb * both;
    }

    // Pairs of edges of one factor by which the path leads from variable u to v of one tree.
    void path(int64_t u, int64_t v, std::vector<std::pair<int64_t, int64_t>>& steps) const {
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

    // The value of q, and where a whole step leads. `joints`: those of other pairs, too.
    void assess(bool joints) {
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
            if (size == 0) {  // its entropy: its log mass, 0, less the expected messages
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
            // ahead[i](x_i, y): the chance of y at v given x_i at the i-th variable.
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
            // towards[i](x_i, y): what the table is expected to be given x_i, with y at v.
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
                } else each(g, [&](int64_t x, const int64_t* state) {
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
};

Status Network::structured(const double* local, int64_t count, const int64_t* forest, double* node,
                         double* table, int64_t max_iterations, double tolerance, Control* control,
                         double* q, double* joints, uint8_t* held, double* bound, double* scale) {
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
