#include <algorithm>
#include <atomic>
#include <cmath>
#include <new>

#include "messages/network.h"

namespace vs::messages {

// Variables by colour: those of one share no factor, so that they may be updated in any order, and
// side by side. Greedy, in the order of the variables.
Network::Colours Network::coloured() const {
    constexpr int64_t kWork = 1 << 13;  // entries of tables that one task reads
    std::vector<int64_t> colour(at(n_), -1), taken, count;
    for (int64_t v = 0; v < n_; ++v) {
        for (int64_t j = var_ptr_[at(v)]; j < var_ptr_[at(v + 1)]; ++j) {
            const int64_t f = edge_factor_[at(var_edge_[at(j)])];
            for (int64_t e = factor_ptr_[at(f)]; e < factor_ptr_[at(f + 1)]; ++e) {
                const int64_t c = colour[at(edge_var_[at(e)])];
                if (c >= 0) taken[at(c)] = v;
            }
        }
        int64_t c = 0;
        while (c < static_cast<int64_t>(taken.size()) && taken[at(c)] == v) ++c;
        if (c == static_cast<int64_t>(taken.size())) {
            taken.push_back(-1);
            count.push_back(0);
        }
        colour[at(v)] = c;
        ++count[at(c)];
    }
    Colours out;
    std::vector<int64_t> fill{0};
    for (int64_t n : count) fill.push_back(fill.back() + n);
    out.variable.resize(at(n_));
    for (int64_t v = 0; v < n_; ++v) out.variable[at(fill[at(colour[at(v)])]++)] = v;
    int64_t i = 0;
    for (int64_t n : count) {
        std::vector<int64_t> cut{i};
        int64_t work = 0;
        for (const int64_t end = i + n; i < end; ++i) {
            const int64_t v = out.variable[at(i)];
            for (int64_t j = var_ptr_[at(v)]; j < var_ptr_[at(v + 1)]; ++j) {
                const int64_t f = edge_factor_[at(var_edge_[at(j)])];
                work += table_at_[at(f + 1)] - table_at_[at(f)];
            }
            if (work >= kWork || i + 1 == end) cut.push_back(i + 1), work = 0;
        }
        out.cut.push_back(cut);
    }
    out.bias.assign(at(n_), 0.0);
    for (int64_t v = 0; v < n_; ++v) {
        if (card_[at(v)] != 2) out.bias[at(v)] = NAN;
    }
    out.theta.resize(at(table_at_.back()));
    side_by_side(out.theta.data());
    for (int64_t e : var_edge_) {
        const int64_t f = edge_factor_[at(e)], first = factor_ptr_[at(f)];
        const DenseTable t = table_of(f);
        Meeting m{out.theta.data() + table_at_[at(f)], e, 0, 0, 0, 0, true};
        for (int64_t i = 0; i < t.size; ++i) m.finite = m.finite && t.theta[i] > -INFINITY;
        if (t.arity == 2) {
            const int64_t other = e == first ? first + 1 : first;
            m.edge = -1;
            m.other = var_at_[at(edge_var_[at(other)])];
            m.values = edge_card_[at(other)];
            m.own = e == first ? m.values : 1;
            m.step = e == first ? 1 : edge_card_[at(e)];
        }
        out.meeting.push_back(m);
        const bool simple = t.arity == 2 && m.finite && m.values == 2 && edge_card_[at(e)] == 2;
        const double low = simple ? m.theta[m.own] - m.theta[0] : NAN;
        const double high = simple ? m.theta[m.own + m.step] - m.theta[m.step] : NAN;
        out.slope.push_back({high - low, m.other + 1});
        out.bias[at(edge_var_[at(e)])] += low;
    }
    return out;
}

void Network::side_by_side(double* out) const {
    for (int64_t f = 0; f < n_factors_; ++f) {
        if (structured_at(f)) continue;
        const int64_t size = table_at_[at(f + 1)] - table_at_[at(f)];
        std::copy(theta_[at(f)], theta_[at(f)] + size, out + table_at_[at(f)]);
    }
}

void Network::spread_starts(int64_t starts, double* q) const {
    for (int64_t s = 1; s < starts; ++s) {
        for (int64_t v = 0; v < n_; ++v) {
            const double* p = q + var_at_[at(v)];
            double* x = q + s * var_at_.back() + var_at_[at(v)];
            const int64_t k = var_at_[at(v + 1)] - var_at_[at(v)];
            double total = 0.0;
            for (int64_t i = 0; i < k; ++i) total += x[i] = s == 1 ? p[i] : p[i] * x[i];
            const double* by = total > 0.0 ? x : p;  // products may underflow
            const int64_t mode = std::max_element(by, by + k) - by;
            const bool one = s == 1 || v % 2 == 1 || by == p;
            for (int64_t i = 0; i < k; ++i) x[i] = one ? (i == mode ? 1.0 : 0.0) : x[i] / total;
        }
    }
}

namespace {

struct Sweep {
    const Ascent& b;
    const int64_t *variable, *cut;
    int64_t size;  // scratch of a worker
    std::vector<double>*score, *moved;

    static void task(void* context, int64_t i, int worker) {
        const Sweep& s = *static_cast<const Sweep*>(context);
        level().ascend(s.b, s.variable + s.cut[i], s.cut[i + 1] - s.cut[i],
                       s.score->data() + worker * s.size, s.moved->data() + i * kStarts);
    }
};

}  // namespace

// Each start on its own again, and its bound.
struct Network::Bounds {
    const Network* l;
    const double *local, *lanes;
    double* q;
    int64_t entries;
    double value[kStarts] = {}, scale[kStarts] = {};
    std::atomic<bool> failed{false};  // no memory

    static void task(void* context, int64_t s, int) {
        Bounds& b = *static_cast<Bounds*>(context);
        double* out = b.q + s * b.entries;
        for (int64_t i = 0; i < b.entries; ++i) out[i] = b.lanes[i * kStarts + s];
        try {
            b.l->product_bound(b.local, out, &b.value[s], &b.scale[s]);
        } catch (const std::bad_alloc&) {  // must not leave a worker of the pool
            b.failed.store(true);
        }
    }
};

// Coordinate ascent of sum_v sum_x q_v(x) (local_v(x) - log q_v(x)) + sum_f E_q[theta_f] <= log Z:
//
//   log q_v(x) = local_v(x) + sum_{f with v} E_q[theta_f | x_v = x] - log of the sum over x,
//
// the expectation taken over the other variables of f, with their newest beliefs (field_lanes.h).
Status Network::mean_field(const double* local, int64_t starts, int64_t max_iterations,
                           double tolerance, int threads, Control* control, double* q,
                           int64_t* best, double* bound, double* scale) {
    const int64_t entries = var_at_.back();
    if (colours_.cut.empty()) colours_ = coloured();
    threads = workers(threads);
    *best = -1;
    *bound = *scale = 0.0;
    RunProgress chosen;
    constexpr double kIdle = 1e-2;  // of the tolerance
    std::vector<double> lanes(at(entries * kStarts)), moved, travelled, seen;
    std::vector<double> score(at(most_values_ * kStarts * threads));
    for (int64_t group = 0; group < starts; group += kStarts) {
        const int64_t here = std::min(kStarts, starts - group);
        double open[kStarts];
        for (int64_t s = 0; s < kStarts; ++s) {
            open[s] = s < here ? 1.0 : 0.0;
            const double* from = q + (group + std::min(s, here - 1)) * entries;
            for (int64_t i = 0; i < entries; ++i) lanes[at(i * kStarts + s)] = from[i];
        }
        travelled.assign(at(entries), 0.0);
        seen.assign(at(n_), -1.0);
        Ascent b{local,
                 var_at_.data(),
                 var_ptr_.data(),
                 colours_.meeting.data(),
                 colours_.slope.data(),
                 colours_.bias.data(),
                 edge_factor_.data(),
                 edge_var_.data(),
                 edge_card_.data(),
                 factor_ptr_.data(),
                 table_at_.data(),
                 lanes.data(),
                 open,
                 travelled.data(),
                 seen.data(),
                 -1.0};
        RunProgress run[kStarts];
        int64_t left = here;
        bool whole = true;  // no variable is left out: that alone proves convergence
        for (int64_t i = 0; i < max_iterations && left > 0; ++i) {
            double most[kStarts] = {};
            b.idle = whole ? -1.0 : kIdle * tolerance;
            bool closing = false;
            // Colours wait for each other: a variable's update reads all its neighbours' newest
            // beliefs, which is what makes each sweep an ascent (coordinate ascent of the bound).
            for (const std::vector<int64_t>& cut : colours_.cut) {
                Plan plan("colour", static_cast<int64_t>(cut.size()) - 1);
                plan.stays = true;
                moved.assign(at(plan.n * kStarts), 0.0);
                Sweep sweep{b,          colours_.variable.data(),
                            cut.data(), most_values_ * kStarts,
                            &score,     &moved};
                g_pool->run_plan(plan, Sweep::task, &sweep, threads, control);
                if (control->stop.load() || cancelled(control)) return kCancelled;
                for (size_t x = 0; x < moved.size(); ++x) {
                    most[x % kStarts] = std::max(most[x % kStarts], moved[x]);
                }
            }
            for (int64_t s = 0; s < here; ++s) {
                if (!(open[s] > 0.0)) continue;
                run[s].updates += n_;
                run[s].residuals.push_back(most[s]);
                run[s].converged = whole && most[s] <= tolerance;
                closing = closing || most[s] <= tolerance;
                if (run[s].converged) open[s] = 0.0, --left;
            }
            whole = closing && !whole;
            control->done.store(i + 1);
        }
        // The bounds of the starts are compared: all have to be there.
        Bounds bounds{this, local, lanes.data(), q + group * entries, entries};
        g_pool->run_plan(Plan("bounds", here), Bounds::task, &bounds, threads, control);
        if (bounds.failed.load()) throw std::bad_alloc();
        if (control->stop.load() || cancelled(control)) return kCancelled;
        for (int64_t s = 0; s < here; ++s) {
            if (*best >= 0 && !(bounds.value[s] > *bound)) continue;
            *best = group + s;
            *bound = bounds.value[s];
            *scale = bounds.scale[s];
            chosen = run[s];
        }
    }
    run_ = chosen;
    return kOk;
}

void Network::product_bound(const double* local, const double* q, double* bound,
                            double* scale) const {
    const int64_t entries = var_at_.back();
    // Scores where there is mass: elsewhere they may be -inf. Every entropy counts once.
    std::vector<double> score(at(entries)), share(at(entries), 1.0);
    for (int64_t i = 0; i < entries; ++i) score[at(i)] = q[i] > 0.0 ? local[i] : 0.0;
    const Sums own = level().terms({entries, nullptr, q, score.data(), share.data()});
    double value = own.value, size = own.scale;
    const auto add = [&](double weight, double x) {
        if (weight > 0.0) {
            value += weight * x;
            size += weight * std::fabs(x);
        }
    };
    for (int64_t f = 0; f < n_factors_; ++f) {
        const int64_t first = factor_ptr_[at(f)];
        const DenseTable t = table_of(f);
        const double* p = q + var_at_[at(edge_var_[at(first)])];
        if (t.arity == 2) {
            const double* r = q + var_at_[at(edge_var_[at(first + 1)])];
            for (int64_t x = 0; x < t.card[0]; ++x) {
                const double* theta = t.theta + x * t.card[1];
                double s = 0.0;
                for (int64_t y = 0; y < t.card[1]; ++y) s += r[y] > 0.0 ? r[y] * theta[y] : 0.0;
                add(p[x], s);
            }
            continue;
        }
        score.assign(at(t.card[0]), 0.0);
        each(t.arity, t.card, t.size, [&](int64_t i, const int64_t* state) {
            double w = 1.0;
            for (int64_t j = 1; j < t.arity; ++j) {
                w *= q[var_at_[at(edge_var_[at(first + j)])] + state[j]];
            }
            if (w > 0.0) score[at(state[0])] += w * t.theta[i];
        });
        for (int64_t x = 0; x < t.card[0]; ++x) add(p[x], score[at(x)]);
    }
    *bound = value;
    *scale = size;
}

}  // namespace vs::messages
