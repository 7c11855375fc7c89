#include "messages/network.h"

#include <algorithm>
#include <cmath>

namespace vs::messages {
namespace {

// The largest change of the log-ratio of two entries of a message.
struct Change {
    double high = -INFINITY, low = INFINITY, zeros = 0.0;

    void add(double a, double b) {
        if (a > -INFINITY && b > -INFINITY) {
            high = std::max(high, b - a);
            low = std::min(low, b - a);
        } else if (a != b) {  // a new zero: the rest of a double's range
            zeros = std::max(zeros, std::max(1.0, 745.0 + std::max(a, b)));
        }
    }
    double get() const { return high > low ? std::max(high - low, zeros) : zeros; }
};

}  // namespace

// An iteration (network.h; with rho = 1 this is MSFXM10, Eq. 4), from the messages before it:
//
//   n_e(x) = local(x) + sum_g rho_g m_g(x) - m_e(x), less its largest entry
//   m_e(x) <- (1 - damping) log sum over the others of exp(theta / rho + sum n) + damping m_e(x)
//
// also scaled to 0. It has converged where no log-ratio of two entries would move by more than the
// tolerance without damping.

// The messages of variable v to its factors, by sums of what comes before and after each edge,
// since -inf cannot be taken out again; false when it has no value left.
bool Network::variable(int64_t v, WorkerScratch* s) {
    const int64_t k = card_[at(v)], e0 = var_ptr_[at(v)], e1 = var_ptr_[at(v + 1)];
    double* before = s->x.data();  // (edges + 1, k): local and the messages of earlier edges
    double* after = before + (e1 - e0 + 1) * k;
    std::copy(local_ + var_at_[at(v)], local_ + var_at_[at(v + 1)], before);
    for (int64_t i = e0; i < e1; ++i, before += k) {
        const int64_t e = var_edge_[at(i)];
        const double* m = m_.data() + edge_at_[at(e)];
        const double rho = rho_[at(edge_factor_[at(e)])];
        for (int64_t x = 0; x < k; ++x) before[k + x] = before[x] + rho * m[x];
    }
    double top = -INFINITY;
    double* belief = belief_.data() + var_at_[at(v)];
    for (int64_t x = 0; x < k; ++x) {
        belief[x] = before[x];
        top = std::max(top, before[x]);
    }
    if (!(top > -INFINITY)) return false;
    std::fill(after, after + k, 0.0);
    for (int64_t i = e1; i-- > e0;) {
        before -= k;
        const int64_t e = var_edge_[at(i)];
        const double* m = m_.data() + edge_at_[at(e)];
        double* n = to_.data() + edge_at_[at(e)];
        double* plain = to_plain_.data() + edge_at_[at(e)];
        const double rho = rho_[at(edge_factor_[at(e)])];
        double most = -INFINITY;
        for (int64_t x = 0; x < k; ++x) {
            n[x] = before[x] + after[x];
            // An impossible value is impossible by the other messages, or by the factor itself.
            if (rho != 1.0 && m[x] > -INFINITY) n[x] += (rho - 1.0) * m[x];
            most = std::max(most, n[x]);
            after[x] += rho * m[x];
        }
        shift_[at(e)] = most;
        for (int64_t x = 0; x < k; ++x) {
            n[x] -= most;
            plain[x] = std::exp(n[x]);
        }
    }
    return true;
}

// Scales and damps `out`, the new log-message of edge e. Returns its change before that: a damped
// one is small however far the messages are from a fixed point. -1: it leaves the variable no
// value.
double Network::finish(int64_t e, double* out) {
    const int64_t k = edge_card_[at(e)];
    const double* m = m_.data() + edge_at_[at(e)];
    const double keep = options_.damping;
    double top = *std::max_element(out, out + k);
    if (!(top > -INFINITY)) return -1.0;
    Change change;
    double most = -INFINITY, low = 0.0;
    for (int64_t x = 0; x < k; ++x) {
        out[x] -= top;
        // A finite entry must not overflow to the -inf of an impossible value.
        if (out[x] < -kFar && out[x] > -INFINITY) out[x] = -kFar;
        change.add(m[x], out[x]);
        if (m[x] > -INFINITY) low = std::min(low, m[x]);
        if (out[x] > -INFINITY && m[x] > -INFINITY) out[x] += keep * (m[x] - out[x]);
        most = std::max(most, out[x]);
    }
    if (keep == 0.0) return change.get();
    for (int64_t x = 0; x < k; ++x) out[x] -= most;
    return std::max(change.get() + kRounding * low, 0.0);
}

// The messages of factor f; false when it leaves a variable no value. Their change goes to s.
bool Network::factor(int64_t f, WorkerScratch* s) {
    ask(f, [&](const auto& own) {
        options_.best ? own.maxima(incoming(), s) : own.sums(incoming(), s, -1);
    });
    const int64_t first = factor_ptr_[at(f)], last = factor_ptr_[at(f + 1)];
    for (int64_t e = first; e < last; ++e) {
        double* out = s->out[at(e - first)];
        const double moved = finish(e, out);
        if (moved < 0.0) {
            s->dead = s->dead < 0 ? edge_var_[at(e)] : std::min(s->dead, edge_var_[at(e)]);
            return false;
        }
        std::copy(out, out + edge_card_[at(e)], m_.data() + edge_at_[at(e)]);
        s->residual = std::max(s->residual, moved);
    }
    return true;
}

// The messages of one update, from what its factor has received: that of edge e, or all of a
// structured factor whose first edge it is. How far they move before damping; -1 as in finish().
double Network::evaluate(int64_t e, double* out, WorkerScratch* s) {
    const int64_t f = edge_factor_[at(e)], axis = e - factor_ptr_[at(f)];
    ask(f, [&](const auto& own) {
        options_.best ? own.maxima(incoming(), s) : own.sums(incoming(), s, axis);
    });
    const int64_t last = structured_at(f) ? factor_ptr_[at(f + 1)] : e + 1;
    double most = 0.0;
    for (int64_t d = e; d < last; ++d) {
        const double* m = s->out[at(axis + d - e)];
        std::copy(m, m + edge_card_[at(d)], out);
        const double moved = finish(d, out);
        if (moved < 0.0) return moved;
        most = std::max(most, moved);
        out += edge_card_[at(d)];
    }
    return most;
}

struct Network::Job {
    Network* self;
    Phase what;
    double* out;
};

void Network::step(void* job, int64_t task, int worker) {
    const Job& j = *static_cast<Job*>(job);
    Network* self = j.self;
    WorkerScratch* s = &self->scratch_[at(worker)];
    s->residual = 0.0;
    s->dead = -1;
    const auto& cuts = j.what == kVariables ? self->variable_cut_ : self->factor_cut_;
    for (int64_t i = cuts[at(task)]; i < cuts[at(task + 1)]; ++i) {
        if (j.what == kVariables) {
            if (!self->variable(i, s) && s->dead < 0) s->dead = i;
        } else if (j.what == kFactors) {
            self->factor(i, s);
        } else if (j.what == kMasses) {
            self->factor_mass_[at(i)] =
                self->ask(i, [&](const auto& own) { return own.mass(self->incoming(), s); });
        } else {
            double* out = j.out + self->table_at_[at(i)];
            self->ask(i, [&](const auto& own) { own.marginals(self->incoming(), out, s); });
        }
    }
    self->chunk_residual_[at(task)] = s->residual;
    self->chunk_dead_[at(task)] = s->dead;
}

void Network::phase(Phase what, int threads, Control* control, double* out) {
    Job job{this, what, out};
    const auto& cuts = what == kVariables ? variable_cut_ : factor_cut_;
    const char* label = what == kVariables ? "variables"
                        : what == kFactors ? "factors"
                        : what == kMasses  ? "masses"
                                           : "marginals";
    const Plan plan(label, static_cast<int64_t>(cuts.size()) - 1);
    chunk_residual_.assign(at(plan.n), 0.0);
    chunk_dead_.assign(at(plan.n), -1);
    // A barrier: no factor reads a total before every variable is known to have a state left.
    g_pool->run_plan(plan, step, &job, threads, control);
}

int64_t Network::dead() {
    for (int64_t v : chunk_dead_) {
        if (v >= 0) return v;
    }
    return -1;
}

void Network::start(const double* local, const double* messages) {
    local_ = local;
    if (!scaled_) scale_weights();
    const size_t n = at(n_entries());
    m_.assign(messages, messages + n);
    to_.resize(n);
    to_plain_.resize(n);
    shift_.resize(edge_var_.size());
    belief_.resize(at(var_at_.back()));
}

void Network::make_scratch(int threads) {
    WorkerScratch empty;
    const int64_t sent = 2 * widest_ + (widest_ + 1) * most_values_ + scratch_size_;
    empty.x.resize(at((2 * most_edges_ + 4) * most_values_ + sent));
    empty.states.resize(scratch_size_ ? at(widest_) : 0);
    empty.in.resize(at(widest_));
    empty.out.resize(at(widest_));
    scratch_.assign(at(std::max(threads, 1)), empty);
}

Status Network::run(const double* local, const RunOptions& options, int threads, Control* control,
                    double* messages, int64_t* dead_variable) {
    if (serial_) threads = 1;
    by_pairs_ = pairs_ != nullptr;
    if (by_pairs_) pairs_->use(g_pool, &level());
    options_ = options;
    if (options.schedule != kFlooding) {
        return pass(options, threads, control, messages, local, dead_variable);
    }
    if (by_pairs_) {
        return pairs_->run(local, options, threads, control, messages, &run_, dead_variable);
    }
    start(local, messages);
    threads = workers(threads);
    make_scratch(threads);
    run_ = RunProgress();
    for (int64_t i = 0; i < options.max_iterations && !run_.converged; ++i) {
        phase(kVariables, threads, control);
        if (control->stop.load()) return kCancelled;
        if ((*dead_variable = dead()) >= 0) return kInfeasible;
        phase(kFactors, threads, control);
        if (control->stop.load()) return kCancelled;
        if ((*dead_variable = dead()) >= 0) return kInfeasible;
        run_.updates += n_edges();
        double most = 0.0;
        for (double r : chunk_residual_) most = std::max(most, r);
        run_.residuals.push_back(most);
        run_.converged = most <= options.tolerance;
        control->done.store(i + 1);
    }
    std::copy(m_.begin(), m_.end(), messages);
    return kOk;
}

}  // namespace vs::messages
