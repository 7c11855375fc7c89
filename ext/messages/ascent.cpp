#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>
#include <new>

#include "messages/field.h"
#include "pool/blocks.h"

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

void Network::Field::assess_terms() {
    const int64_t tables = blocks_of(joint), vectors = blocks_of(q);
    const auto pairs = static_cast<int64_t>(crossing.size());
    const int64_t blocks = tables + vectors + (pairs + kCrossings - 1) / kCrossings;
    // Tables: E[score] + H. Vectors: E[score] + (1 - degree) H.
    const auto terms = [](const Numbers& p, const Numbers& score, const Numbers& entropies,
                          const Numbers* weight, int64_t i) {
        const int64_t n = std::min(kEntries, static_cast<int64_t>(p.size()) - i);
        return level().terms({n, weight ? weight->data() + i : nullptr, p.data() + i,
                              score.data() + i, entropies.data() + i});
    };
    const auto copy = [](const double* from, Numbers* into, int64_t i) {
        const int64_t n = std::min(kEntries, static_cast<int64_t>(into->size()) - i);
        std::copy(from + i, from + i + n, into->begin() + i);
    };
    run_blocks(*g_pool, "terms", blocks, 1, threads, control, [&](int64_t b, int64_t) {
        if (b < tables) {
            copy(own_table.data(), &next_table, b * kEntries);
            parts[at(b)] = terms(joint, held_table, counts, &counts, b * kEntries);
        } else if (b < tables + vectors) {
            copy(local, &next_node, (b - tables) * kEntries);
            parts[at(b)] = terms(q, held_local, share, nullptr, (b - tables) * kEntries);
        } else {
            const int64_t first = (b - tables - vectors) * kCrossings;
            parts[at(b)] = assess_block(first, std::min(pairs, first + kCrossings));
        }
    });
    for (int64_t b = 0; b < blocks; ++b) {
        value += parts[at(b)].value;
        scale += parts[at(b)].scale;
    }
}

// The bound E_q[score] + H(q), with H(q) = sum_f H(q_f) + sum_v (1 - degree_v) H(q_v), and where a
// whole step leads. A pair f outside the forest, theta(u, y), whose path is u = x_0, .., x_n = v:
//
//   ahead_i(x, y) = p(v = y | x_i = x) = sum_z p(x_{i+1} = z | x) ahead_{i+1}(z, y)
//   towards_i(x, y) = E[theta(u, y) | x_i = x]
//   towards_{i+1}(z, y) = sum_x p(x_i = x | z) towards_i(x, y)
//   table of (x_i, x_{i+1}) += E[theta | x, z] = sum_y towards_i(x, y) ahead_{i+1}(z, y)
//   node of x_i, 0 < i < n, -= E[theta | x] = sum_y towards_i(x, y) ahead_i(x, y)
void Network::Field::assess(bool joints) {
    value = scale = 0.0;
    assess_terms();
    bool zero = false;
    const auto add = [&](double weight, double x) {
        if (!(weight > 0.0)) return;
        zero = zero || x == -INFINITY;
        value += weight * held(x);
        scale += weight * std::fabs(held(x));
    };
    for (int64_t f : structured) {  // its log mass, 0, less the expected messages
        const double *m = in_of(f), *on = joint.data() + l.table_at_[at(f)];
        for (int64_t j = 0; j < arity(f); ++j) {
            const int64_t v = l.var_at_[at(l.edge_var_[at(l.factor_ptr_[at(f)] + j)])];
            add(q[at(v)], -m[2 * j]);
            add(on[j], -m[2 * j + 1]);
        }
    }
    for (int64_t i : never_table) zero = zero || joint[at(i)] > 0.0;
    for (int64_t i : never_local) zero = zero || q[at(i)] > 0.0;
    std::vector<std::pair<int64_t, int64_t>> steps;
    std::vector<Numbers> ahead, towards;
    Numbers back, mass, row, more;
    assess_crossings();
    int64_t products = 0;  // since the last look
    const auto stops = [&](int64_t more) {
        products += more;
        if (products < kLookEvery) return false;
        products = 0;
        return ended(0);
    };
    for (int64_t f : outside) {
        if (crosses[at(f)]) continue;
        if (stops(arity(f) * (l.table_at_[at(f + 1)] - l.table_at_[at(f)]))) return;
        const int64_t first = l.factor_ptr_[at(f)];
        const int64_t u = l.edge_var_[at(first)], v = l.edge_var_[at(first + 1)];
        double* out = joint.data() + l.table_at_[at(f)];
        if (arity(f) > 2 || root[at(u)] != root[at(v)]) {
            each(f, [&](int64_t x, const int64_t* state) {
                double w = 1.0;
                const double theta = table_of(f)[x];
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
            if (stops(here * there * m)) return;
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
        const double* theta = table_of(f);
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
            if (stops(2 * here * there * m)) return;
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

// One ascent; several run side by side.
struct Network::Climb {
    Field now;
    RunProgress run;
    double bound = 0.0, scale = 0.0;
    Status status = kOk;

    explicit Climb(Field field) : now(std::move(field)) {}
    // From these parameters on; those of factors outside the forest do not count. `caller`: this is
    // the thread that polls.
    void go(const double* node, const double* table, int64_t max_iterations, double tolerance,
            bool caller);

  private:
    // A field before a step, and where a whole step leads.
    struct Before {
        Numbers q, joint, node, table, next_node, next_table;
        double value;
    } before;
    // f(i, -1, block) for blocks of vectors that begin at i, f(-1, i, block) for those of tables.
    template <class F>
    void each_block(const F& f) {
        const int64_t vectors = Field::blocks_of(now.q), tables = Field::blocks_of(now.joint);
        run_blocks(*g_pool, "steps", vectors + tables, 1, now.threads, now.control,
                   [&](int64_t b, int64_t) {
                       const bool first = b < vectors;
                       f(first ? b * kEntries : -1, first ? -1 : (b - vectors) * kEntries, b);
                   });
    }
    // A share of that way.
    void step_to(double step);
    // The largest change of a probability since before the step.
    double moved();
};

void Network::Climb::step_to(double step) {
    const auto mix = [step](const Numbers& a, const Numbers& b, Numbers* out, int64_t i) {
        // No factor is 0: -inf stays.
        const size_t last = std::min(a.size(), at(i + kEntries));
        for (size_t x = at(i); x < last; ++x) {
            (*out)[x] = step == 1.0 ? b[x] : (1.0 - step) * a[x] + step * b[x];
        }
    };
    each_block([&](int64_t vectors, int64_t tables, int64_t) {
        if (vectors >= 0) mix(before.node, before.next_node, &now.node, vectors);
        if (tables >= 0) mix(before.table, before.next_table, &now.table, tables);
    });
}

double Network::Climb::moved() {
    const auto most = [](const Numbers& a, const Numbers& b, int64_t i) {
        double largest = 0.0;
        const size_t last = std::min(a.size(), at(i + kEntries));
        for (size_t x = at(i); x < last; ++x) largest = std::max(largest, std::fabs(a[x] - b[x]));
        return largest;
    };
    // Without fields single variables stay at 1/2 while their joints move.
    each_block([&](int64_t vectors, int64_t tables, int64_t block) {
        now.parts[at(block)].value =
            vectors >= 0 ? most(now.q, before.q, vectors) : most(now.joint, before.joint, tables);
    });
    double largest = 0.0;
    const int64_t blocks = Field::blocks_of(now.q) + Field::blocks_of(now.joint);
    for (int64_t b = 0; b < blocks; ++b) largest = std::max(largest, now.parts[at(b)].value);
    return largest;
}

// (node, table) <- (1 - step) (node, table) + step (next): half as far until neither the value
// nor the bound falls, and the next time twice as far as that, at most the whole way.
void Network::Climb::go(const double* node, const double* table, int64_t max_iterations,
                        double tolerance, bool caller) {
    now.caller = caller;
    now.node.assign(node, node + now.q.size());
    now.table.assign(table, table + now.joint.size());
    for (int64_t f : now.outside) {
        std::fill(now.table.begin() + now.l.table_at_[at(f)],
                  now.table.begin() + now.l.table_at_[at(f + 1)], 0.0);
    }
    run = RunProgress();
    status = kOk;
    constexpr double kFiner = 1e-4;  // of the last step: a finer one gains nothing but rounding
    if (!now.marginals()) {
        status = kInfeasible;
        return;
    }
    now.assess(false);
    bound = now.bound;
    scale = now.scale;
    before.q = now.q;
    before.joint = now.joint;
    before.node = now.node;
    before.table = now.table;
    before.next_node = now.next_node;
    before.next_table = now.next_table;
    double step = 1.0, finest = 1e-12;
    int64_t pause = 0, since = 0;  // whole steps before a longer one, and since the last try
    bool longer = false;
    for (int64_t i = 0; i < max_iterations && !run.converged; ++i) {
        before.q.swap(now.q);  // what is now there is written anew
        before.joint.swap(now.joint);
        before.node.swap(now.node);
        before.table.swap(now.table);
        before.next_node.swap(now.next_node);
        before.next_table.swap(now.next_table);
        before.value = now.value;
        bool gained = false, whole = true;
        while (!gained && step >= finest) {
            if (now.ended(0)) {
                status = kCancelled;
                return;
            }
            step_to(step);
            gained = now.marginals();
            if (gained) now.assess(false);
            gained = gained && now.value >= before.value && now.bound >= bound;
            if (!gained) step *= 0.5;
            whole = whole && gained;
        }
        // A longer step that fails costs as much as one that gains: after each more steps pass
        // before the next try.
        since = whole ? since + 1 : 0;
        pause = whole ? (longer ? 0 : pause) : std::min<int64_t>(2 * pause + 1, 7);
        run.updates += now.l.n_;
        if (!gained) {
            now.node = before.node;
            now.table = before.table;
            now.marginals();
            now.assess(false);
        }
        const double residual = moved();
        bound = now.bound;
        scale = now.scale;
        run.residuals.push_back(residual);
        run.converged = residual <= tolerance * step || !gained;
        finest = kFiner * step;
        longer = step < 1.0 && since >= pause;
        if (longer) step = std::min(1.0, 2.0 * step);
        if (caller) now.control->done.store(std::max(now.control->done.load(), i + 1));
    }
}

Status Network::structured(const double* local, int64_t starts, int64_t count,
                           const int64_t* forest, double* node, double* table,
                           int64_t max_iterations, double tolerance, int threads, Control* control,
                           double* q, double* joints, uint8_t* held, int64_t* best, double* bound,
                           double* scale) {
    struct Job {
        std::vector<std::unique_ptr<Climb>> climb;
        const Field& first;
        const double *node, *table;
        int64_t max_iterations;
        double tolerance;
        std::atomic<bool> failed{false};
        static void task(void* context, int64_t i, int worker) {
            Job& w = *static_cast<Job*>(context);
            const Network& l = w.first.l;
            try {
                w.climb[at(i)] = std::make_unique<Climb>(w.first);
                w.climb[at(i)]->go(w.node + i * l.var_at_.back(), w.table + i * l.table_at_.back(),
                                   w.max_iterations, w.tolerance, worker == 0);
            } catch (const std::bad_alloc&) {  // must not leave a worker of the pool
                w.failed.store(true);
            }
        }
    };
    const int64_t n = var_at_.back(), m = table_at_.back();
    Field first(*this, local, count, forest, control);
    if (control->stop.load()) return kCancelled;
    run_ = RunProgress();
    *best = 0;
    *bound = NAN;
    if (!first.possible) return kOk;
    threads = workers(threads);
    *best = -1;
    const auto keep = [&](const Climb& c, int64_t s) {
        if (c.status != kOk || (*best >= 0 && !(c.bound > *bound))) return;
        *best = s;
        *bound = c.bound;
        *scale = c.scale;
        run_ = c.run;
        std::copy(c.now.node.begin(), c.now.node.end(), node + s * n);
        std::copy(c.now.table.begin(), c.now.table.end(), table + s * m);
        std::copy(c.now.q.begin(), c.now.q.end(), q);
        std::copy(c.now.inside.begin(), c.now.inside.end(), held);
    };
    std::unique_ptr<Climb> last;
    if (first.is_shared()) {  // all threads share each ascent in turn
        last = std::make_unique<Climb>(std::move(first));
        last->now.threads = threads;
        for (int64_t s = 0; s < starts && !control->stop.load(); ++s) {
            last->go(node + s * n, table + s * m, max_iterations, tolerance, true);
            keep(*last, s);
        }
    } else {
        Job work{{}, first, node, table, max_iterations, tolerance};
        work.climb.resize(at(starts));
        g_pool->run_plan(Plan("starts", starts), Job::task, &work, threads, control);
        if (work.failed.load()) throw std::bad_alloc();
        if (control->stop.load()) return kCancelled;
        for (int64_t s = 0; s < starts; ++s) keep(*work.climb[at(s)], s);
        last = std::move(work.climb.back());
    }
    if (control->stop.load()) return kCancelled;
    if (*best < 0) return kInfeasible;
    Field& now = last->now;
    now.caller = true;
    now.threads = threads;
    now.node.assign(node + *best * n, node + (*best + 1) * n);
    now.table.assign(table + *best * m, table + (*best + 1) * m);
    now.marginals();
    now.assess(true);
    now.crossing_joints();
    if (control->stop.load()) return kCancelled;
    std::copy(now.joint.begin(), now.joint.end(), joints);
    return kOk;
}

}  // namespace vs::messages
