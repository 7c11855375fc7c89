#include "loopy/engine.h"

#include <algorithm>
#include <cmath>

namespace vs {
namespace {

const SimdApi* g_simd = nullptr;

const LoopyLevel& level() {
    switch (g_simd->level()) {
#if defined(VS_HAVE_V4)
        case VS_LEVEL_V4:
            return *loopy_level_v4();
#endif
#if defined(VS_HAVE_V3)
        case VS_LEVEL_V3:
            return *loopy_level_v3();
#endif
#if defined(VS_HAVE_V2)
        case VS_LEVEL_V2:
            return *loopy_level_v2();
#endif
#if defined(VS_HAVE_NEON)
        case VS_LEVEL_NEON:
            return *loopy_level_neon();
#endif
        default:
            return *loopy_level_scalar();
    }
}

// A sum of products of numbers <= 1 that is larger has lost nothing that counts to underflow.
constexpr double kTrust = 1e-250;
constexpr double kFar = 1e200;       // beyond any sum of scores; sums of such messages are finite
constexpr int64_t kChunk = 1 << 14;  // entries of tables or messages that one task takes
constexpr int64_t kWorthThreads = 1 << 14;  // entries that are slower on one thread

size_t at(int64_t i) { return static_cast<size_t>(i); }

// Calls f(offset, state) for every entry of a table of this shape, in order.
template <class F>
void each(int64_t arity, const int64_t* card, int64_t size, F&& f) {
    int64_t state[64] = {};
    for (int64_t i = 0; i < size; ++i) {
        f(i, state);
        for (int64_t j = arity; j-- > 0;) {
            if (++state[j] < card[j]) break;
            state[j] = 0;
        }
    }
}

// How far the ratio of two entries of a message moved, in logarithms.
struct Change {
    double high = -INFINITY, low = INFINITY, zeros = 0.0;

    void add(double a, double b) {
        if (a > -INFINITY && b > -INFINITY) {
            high = std::max(high, b - a);
            low = std::min(low, b - a);
        } else if (a != b) {  // a zero that appears counts as what is left of a double's range
            zeros = std::max(zeros, std::max(1.0, 745.0 + std::max(a, b)));
        }
    }
    double get() const { return high > low ? std::max(high - low, zeros) : zeros; }
};

std::vector<int64_t> cut(int64_t n, const std::vector<int64_t>& upto) {
    std::vector<int64_t> out{0};
    for (int64_t i = 0; i < n; ++i) {
        if (upto[at(i + 1)] - upto[at(out.back())] + i - out.back() >= kChunk) out.push_back(i + 1);
    }
    if (out.back() < n) out.push_back(n);
    return out;
}

}  // namespace

const PoolApi* g_pool = nullptr;

void use_loopy_modules(const PoolApi* pool, const SimdApi* simd) {
    g_pool = pool;
    g_simd = simd;
}

struct Loopy::Job {
    Loopy* self;
    Phase what;
    double* out;
};

Status Loopy::lay_out(int64_t n, const int64_t* card, int64_t n_factors, const int64_t* scope_ptr,
                      const int64_t* scope, const double* const* table, const Control* control) {
    const size_t edges = at(n_factors ? scope_ptr[n_factors] : 0);
    n_ = n;
    n_factors_ = n_factors;
    card_.assign(card, card + n);
    var_at_.assign(at(n + 1), 0);
    for (int64_t v = 0; v < n; ++v) {
        var_at_[at(v + 1)] = var_at_[at(v)] + card[v];
        most_values_ = std::max(most_values_, card[v]);
    }
    factor_ptr_.assign(scope_ptr, scope_ptr + n_factors + 1);
    theta_.assign(table, table + n_factors);
    var_ptr_.assign(at(n + 1), 0);
    top_.resize(at(n_factors));
    edge_var_.assign(scope, scope + edges);
    edge_card_.resize(edges);
    edge_factor_.resize(edges);
    edge_at_.resize(edges + 1);
    table_at_.resize(at(n_factors + 1));
    for (int64_t f = 0; f < n_factors; ++f) {
        if (cancelled(control, f)) return kCancelled;
        int64_t size = 1;
        for (int64_t e = scope_ptr[f]; e < scope_ptr[f + 1]; ++e) {
            const int64_t v = scope[e], k = card[v];
            size *= k;
            edge_card_[at(e)] = k;
            edge_factor_[at(e)] = f;
            edge_at_[at(e + 1)] = edge_at_[at(e)] + k;
            ++var_ptr_[at(v + 1)];
        }
        widest_ = std::max(widest_, scope_ptr[f + 1] - scope_ptr[f]);
        table_at_[at(f + 1)] = table_at_[at(f)] + size;
        double top = -INFINITY;
        for (int64_t i = 0; i < size; ++i) top = std::max(top, table[f][i]);
        top_[at(f)] = top > -INFINITY ? top : 0.0;
    }
    for (int64_t v = 0; v < n; ++v) {
        most_edges_ = std::max(most_edges_, var_ptr_[at(v + 1)]);
        var_ptr_[at(v + 1)] += var_ptr_[at(v)];
    }
    var_edge_.resize(edge_var_.size());
    std::vector<int64_t> fill(var_ptr_.begin(), var_ptr_.end());
    for (int64_t e = 0; e < n_edges(); ++e) {
        if (cancelled(control, e)) return kCancelled;
        var_edge_[at(fill[at(edge_var_[at(e)])]++)] = e;
    }
    std::vector<int64_t> work(1, 0);
    work.reserve(at(n + 1));
    for (int64_t v = 0; v < n; ++v) {
        work.push_back(work.back() + 4 * (1 + var_ptr_[at(v + 1)] - var_ptr_[at(v)]) * card[v]);
    }
    variable_cut_ = cut(n, work);
    factor_cut_ = cut(n_factors, table_at_);
    const bool binary = n_factors > 0 && widest_ == 2 && most_values_ == 2 &&
                        var_at_.back() == 2 * n && n_edges() == 2 * n_factors;
    if (binary) {
        const Status status = Pairs::make(n, n_factors, scope, table, control, &pairs_);
        if (status != kOk) return status;
    }
    weigh(nullptr);
    return kOk;
}

void Loopy::weigh(const double* rho) {
    if (rho) {
        rho_.assign(rho, rho + n_factors_);
    } else {
        rho_.assign(at(n_factors_), 1.0);
    }
    if (pairs_) pairs_->weigh(rho);
    scaled_ = false;
}

void Loopy::scale_weights() {
    scaled_ = true;
    weight_.resize(at(table_at_.back()));
    for (int64_t f = 0; f < n_factors_; ++f) {
        const double inverse = 1.0 / rho_[at(f)], top = top_[at(f)];
        double* w = weight_.data() + table_at_[at(f)];
        const int64_t size = table_at_[at(f + 1)] - table_at_[at(f)];
        for (int64_t i = 0; i < size; ++i) w[i] = std::exp((theta_[at(f)][i] - top) * inverse);
    }
}

LoopyTable Loopy::table_of(int64_t f) const {
    const int64_t first = factor_ptr_[at(f)];
    return {static_cast<int>(factor_ptr_[at(f + 1)] - first),
            edge_card_.data() + first,
            theta_[at(f)],
            weight_.data() + table_at_[at(f)],
            1.0 / rho_[at(f)],
            top_[at(f)],
            table_at_[at(f + 1)] - table_at_[at(f)]};
}

// What variable v says to its factors; false when it has no value left.
bool Loopy::variable(int64_t v, Scratch* s) {
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
            // A value that is impossible stays so through the other messages, or the factor itself.
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

// A message's entry from logarithms: what sums() takes where plain numbers are too small.
double Loopy::entry(int64_t f, int64_t axis, int64_t value) const {
    const LoopyTable t = table_of(f);
    const int64_t first = factor_ptr_[at(f)];
    double top = -INFINITY, sum = 0.0;
    each(t.arity, t.card, t.size, [&](int64_t i, const int64_t* state) {
        if (state[axis] != value || t.theta[i] == -INFINITY) return;
        double score = (t.theta[i] - t.top) * t.inverse_rho;
        for (int64_t j = 0; j < t.arity; ++j) {
            if (j != axis) score += to_[at(edge_at_[at(first + j)] + state[j])];
        }
        if (score == -INFINITY) return;
        if (score > top) {
            sum = sum * std::exp(top - score) + 1.0;
            top = score;
        } else {
            sum += std::exp(score - top);
        }
    });
    return sum > 0.0 ? top + std::log(sum) : -INFINITY;
}

// Fills s->out with the log-messages of f, not scaled; `only` one of them where that is >= 0.
void Loopy::sums(int64_t f, Scratch* s, int64_t only) {
    const LoopyTable t = table_of(f);
    const int64_t first = factor_ptr_[at(f)];
    double* out = s->x.data() + 2 * widest_;
    for (int64_t j = 0; j < t.arity; ++j) {
        s->in[at(j)] = to_plain_.data() + edge_at_[at(first + j)];
        s->out[at(j)] = out;
        std::fill(out, out + t.card[j], 0.0);
        out += t.card[j];
    }
    level().products(t, s->in.data(), s->out.data(), s->x.data());
    for (int64_t j = 0; j < t.arity; ++j) {
        double* m = s->out[at(j)];
        for (int64_t x = 0; x < t.card[j] && (only < 0 || only == j); ++x) {
            m[x] = m[x] >= kTrust ? std::log(m[x]) : entry(f, j, x);
        }
    }
}

void Loopy::maxima(int64_t f, Scratch* s) {
    const LoopyTable t = table_of(f);
    const int64_t first = factor_ptr_[at(f)];
    double* out = s->x.data() + 2 * widest_;
    double* before = s->x.data();
    for (int64_t j = 0; j < t.arity; ++j) {
        s->in[at(j)] = to_.data() + edge_at_[at(first + j)];
        s->out[at(j)] = out;
        std::fill(out, out + t.card[j], -INFINITY);
        out += t.card[j];
    }
    each(t.arity, t.card, t.size, [&](int64_t i, const int64_t* state) {
        double score = (t.theta[i] - t.top) * t.inverse_rho;
        double sum = 0.0;
        for (int64_t j = 0; j < t.arity; ++j) {
            before[j] = sum;
            sum += s->in[at(j)][state[j]];
        }
        for (int64_t j = t.arity; j-- > 0;) {
            double& m = s->out[at(j)][state[j]];
            m = std::max(m, score + before[j]);
            score += s->in[at(j)][state[j]];
        }
    });
}

// Turns the log-message `out` of edge e, not scaled, into the next one; how far it moved, -1 when
// it leaves the variable no value. `whole`: the move is counted before damping, not after.
double Loopy::settle(int64_t e, double* out, bool whole) {
    const int64_t k = edge_card_[at(e)];
    const double* m = m_.data() + edge_at_[at(e)];
    const double keep = options_.damping;
    double top = *std::max_element(out, out + k);
    if (!(top > -INFINITY)) return -1.0;
    Change change;
    if (keep > 0.0) {
        double most = -INFINITY;
        for (int64_t x = 0; x < k; ++x) {
            out[x] -= top;
            if (whole) change.add(m[x], out[x]);
            if (out[x] > -INFINITY && m[x] > -INFINITY) out[x] += keep * (m[x] - out[x]);
            most = std::max(most, out[x]);
        }
        top = most;
    }
    for (int64_t x = 0; x < k; ++x) {
        out[x] -= top;
        // Messages that outgrow all scores must not end as the zero of an impossible value.
        if (out[x] < -kFar && out[x] > -INFINITY) out[x] = -kFar;
        if (!whole || keep == 0.0) change.add(m[x], out[x]);
    }
    return change.get();
}

// The messages of factor f; false when it leaves a variable no value. Their change goes to s.
bool Loopy::factor(int64_t f, Scratch* s) {
    if (options_.best) {
        maxima(f, s);
    } else {
        sums(f, s);
    }
    const int64_t first = factor_ptr_[at(f)], last = factor_ptr_[at(f + 1)];
    for (int64_t e = first; e < last; ++e) {
        double* out = s->out[at(e - first)];
        const double moved = settle(e, out, false);
        if (moved < 0.0) {
            s->dead = s->dead < 0 ? edge_var_[at(e)] : std::min(s->dead, edge_var_[at(e)]);
            return false;
        }
        std::copy(out, out + edge_card_[at(e)], m_.data() + edge_at_[at(e)]);
        s->residual = std::max(s->residual, moved);
    }
    return true;
}

// One message, from what its factor has heard.
double Loopy::evaluate(int64_t e, double* out, Scratch* s) {
    const int64_t f = edge_factor_[at(e)], axis = e - factor_ptr_[at(f)];
    if (options_.best) {
        maxima(f, s);
    } else {
        sums(f, s, axis);
    }
    std::copy(s->out[at(axis)], s->out[at(axis)] + edge_card_[at(e)], out);
    return settle(e, out, true);
}

// log of the sum of the factor times the messages to it.
double Loopy::mass(int64_t f, Scratch* s) {
    const LoopyTable t = table_of(f);
    sums(f, s);
    const double* n = to_.data() + edge_at_[at(factor_ptr_[at(f)])];
    double top = -INFINITY, sum = 0.0;
    for (int64_t x = 0; x < t.card[0]; ++x) top = std::max(top, n[x] + s->out[0][x]);
    if (!(top > -INFINITY)) return top;
    for (int64_t x = 0; x < t.card[0]; ++x) sum += std::exp(n[x] + s->out[0][x] - top);
    return top + std::log(sum) + t.top * t.inverse_rho;
}

void Loopy::joint(int64_t f, double* out) const {
    const LoopyTable t = table_of(f);
    const int64_t first = factor_ptr_[at(f)];
    double top = -INFINITY, sum = 0.0;
    each(t.arity, t.card, t.size, [&](int64_t i, const int64_t* state) {
        double score = t.theta[i] * t.inverse_rho;
        for (int64_t j = 0; j < t.arity; ++j) {
            score += to_[at(edge_at_[at(first + j)] + state[j])];
        }
        out[i] = score;
        top = std::max(top, score);
    });
    for (int64_t i = 0; i < t.size; ++i) {
        out[i] = top > -INFINITY ? std::exp(out[i] - top) : 0.0;
        sum += out[i];
    }
    for (int64_t i = 0; i < t.size; ++i) out[i] = sum > 0.0 ? out[i] / sum : 0.0;
}

void Loopy::step(void* job, int64_t task, int worker) {
    const Job& j = *static_cast<Job*>(job);
    Loopy* self = j.self;
    Scratch* s = &self->scratch_[at(worker)];
    s->residual = 0.0;
    s->dead = -1;
    const auto& cuts = j.what == kVariables ? self->variable_cut_ : self->factor_cut_;
    for (int64_t i = cuts[at(task)]; i < cuts[at(task + 1)]; ++i) {
        if (j.what == kVariables) {
            if (!self->variable(i, s) && s->dead < 0) s->dead = i;
        } else if (j.what == kFactors) {
            self->factor(i, s);
        } else if (j.what == kMasses) {
            self->factor_mass_[at(i)] = self->mass(i, s);
        } else {
            self->joint(i, j.out + self->table_at_[at(i)]);
        }
    }
    self->chunk_residual_[at(task)] = s->residual;
    self->chunk_dead_[at(task)] = s->dead;
}

void Loopy::phase(Phase what, int threads, Control* control) {
    Job job{this, what, nullptr};
    Plan plan;
    const auto& cuts = what == kVariables ? variable_cut_ : factor_cut_;
    plan.n = static_cast<int64_t>(cuts.size()) - 1;
    chunk_residual_.assign(at(plan.n), 0.0);
    chunk_dead_.assign(at(plan.n), -1);
    g_pool->run_plan(plan, step, &job, threads, control);
}

int64_t Loopy::dead() {
    for (int64_t v : chunk_dead_) {
        if (v >= 0) return v;
    }
    return -1;
}

void Loopy::start(const double* local, const double* messages) {
    local_ = local;
    if (!scaled_) scale_weights();
    const size_t n = at(n_entries());
    m_.assign(messages, messages + n);
    to_.resize(n);
    to_plain_.resize(n);
    shift_.resize(edge_var_.size());
    belief_.resize(at(var_at_.back()));
}

void Loopy::make_scratch(int threads) {
    Scratch empty;
    empty.x.resize(
        at((2 * most_edges_ + 4) * most_values_ + 2 * widest_ + (widest_ + 1) * most_values_));
    empty.in.resize(at(widest_));
    empty.out.resize(at(widest_));
    scratch_.assign(at(std::max(threads, 1)), empty);
}

Status Loopy::run(const double* local, const LoopyOptions& options, int threads, Control* control,
                  double* messages, int64_t* dead_variable) {
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
    if (n_entries() + table_entries() < kWorthThreads) threads = 1;
    make_scratch(threads);
    run_ = LoopyRun();
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

Status Loopy::answer(const double* local, const double* messages, int threads, Control* control,
                     double* marginals, double* log_z, int64_t* dead_variable) {
    if (!by_pairs_) {
        return beliefs(local, messages, threads, control, marginals, log_z, dead_variable);
    }
    pairs_->beliefs(local, threads, marginals, log_z);
    return kOk;
}

Status Loopy::hear(const double* local, const double* messages, int* threads, Control* control,
                   int64_t* dead_variable) {
    if (n_entries() + table_entries() < kWorthThreads) *threads = 1;
    options_ = LoopyOptions();
    start(local, messages);
    make_scratch(*threads);
    phase(kVariables, *threads, control);
    if (control->stop.load()) return kCancelled;
    return (*dead_variable = dead()) >= 0 ? kInfeasible : kOk;
}

Status Loopy::beliefs(const double* local, const double* messages, int threads, Control* control,
                      double* marginals, double* log_z, int64_t* dead_variable) {
    const Status heard = hear(local, messages, &threads, control, dead_variable);
    if (heard != kOk) return heard;
    factor_mass_.resize(at(n_factors_));
    phase(kMasses, threads, control);
    if (control->stop.load()) return kCancelled;
    log_mass_.resize(at(n_));
    double total = 0.0;
    for (int64_t v = 0; v < n_; ++v) {
        const double* b = belief_.data() + var_at_[at(v)];
        double* p = marginals + var_at_[at(v)];
        const int64_t k = card_[at(v)];
        const double top = *std::max_element(b, b + k);
        double sum = 0.0;
        for (int64_t x = 0; x < k; ++x) sum += p[x] = std::exp(b[x] - top);
        for (int64_t x = 0; x < k; ++x) p[x] /= sum;
        log_mass_[at(v)] = top + std::log(sum);
        total += log_mass_[at(v)];
    }
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

void Loopy::joints(int threads, double* out) {
    Control control;
    Job job{this, kJoints, out};
    Plan plan;
    plan.n = static_cast<int64_t>(factor_cut_.size()) - 1;
    chunk_residual_.assign(at(plan.n), 0.0);
    chunk_dead_.assign(at(plan.n), -1);
    g_pool->run_plan(plan, step, &job, threads, &control);
}

// Which factors hang below which variable.
struct Loopy::Forest {
    std::vector<int64_t> order, parent_edge;  // factors from the roots on
    std::vector<int64_t> roots;
};

Status Loopy::forests(const double* local, const double* messages, int64_t n_forests,
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
    std::vector<uint8_t> inside(at(n_factors_)), seen(at(n_));
    std::vector<double> sum, scores, top, total;
    double most_of_all = 0.0;
    for (int64_t t = 0; t < n_forests; ++t) {
        if (cancelled(control)) return kCancelled;
        std::fill(inside.begin(), inside.end(), uint8_t{0});
        std::fill(seen.begin(), seen.end(), uint8_t{0});
        for (int64_t i = ptr[t]; i < ptr[t + 1]; ++i) inside[at(factor[i])] = 1;
        Forest forest;
        std::vector<int64_t> queue;
        for (int64_t root = 0; root < n_; ++root) {
            if (seen[at(root)]) continue;
            seen[at(root)] = 1;
            forest.roots.push_back(root);
            queue.assign(1, root);
            while (!queue.empty()) {
                const int64_t v = queue.back();
                queue.pop_back();
                for (int64_t i = var_ptr_[at(v)]; i < var_ptr_[at(v + 1)]; ++i) {
                    const int64_t e = var_edge_[at(i)], f = edge_factor_[at(e)];
                    if (inside[at(f)] != 1) continue;
                    inside[at(f)] = 2;
                    forest.order.push_back(f);
                    forest.parent_edge.push_back(e);
                    for (int64_t d = factor_ptr_[at(f)]; d < factor_ptr_[at(f + 1)]; ++d) {
                        const int64_t u = edge_var_[at(d)];
                        if (!seen[at(u)]) {
                            seen[at(u)] = 1;
                            queue.push_back(u);
                        }
                    }
                }
            }
        }
        sum.assign(belief_.begin(), belief_.end());
        double largest = 0.0;
        for (size_t i = forest.order.size(); i-- > 0;) {
            const int64_t f = forest.order[i], first = factor_ptr_[at(f)];
            const int64_t p = forest.parent_edge[i] - first;
            const LoopyTable table = table_of(f);
            const int64_t k = table.card[p];
            scores.resize(at(table.size));
            top.assign(at(k), -INFINITY);
            total.assign(at(k), 0.0);
            double most = 0.0;
            each(table.arity, table.card, table.size, [&](int64_t x, const int64_t* state) {
                double own = table.theta[x] * table.inverse_rho, below = 0.0;
                for (int64_t j = 0; j < table.arity; ++j) {
                    const double m = m_[at(edge_at_[at(first + j)] + state[j])];
                    // The variable's belief forbids the value already.
                    if (m > -INFINITY) own -= m;
                    if (j != p) {
                        below += sum[at(var_at_[at(edge_var_[at(first + j)])] + state[j])];
                    }
                }
                if (own > -INFINITY) most = std::max(most, std::fabs(own));
                scores[at(x)] = own + below;
                top[at(state[p])] = std::max(top[at(state[p])], scores[at(x)]);
            });
            largest += most;
            each(table.arity, table.card, table.size, [&](int64_t x, const int64_t* state) {
                const double m = top[at(state[p])];
                double& sum_of = total[at(state[p])];
                if (m > -INFINITY) sum_of = best ? 1.0 : sum_of + std::exp(scores[at(x)] - m);
            });
            double* up = sum.data() + var_at_[at(edge_var_[at(first + p)])];
            for (int64_t x = 0; x < k; ++x) {
                up[x] += total[at(x)] > 0.0 ? top[at(x)] + std::log(total[at(x)]) : -INFINITY;
            }
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

Status Loopy::assign(const double* local, const double* messages, int threads, Control* control,
                     int64_t* states, double* score, int64_t* dead_variable) {
    const Status heard = hear(local, messages, &threads, control, dead_variable);
    if (heard != kOk) return heard;
    std::fill(states, states + n_, int64_t{-1});
    std::vector<int64_t> open;
    std::vector<uint8_t> seen(at(n_), 0);
    std::vector<double> belief, best;
    for (int64_t root = 0; root < n_; ++root) {
        if (seen[at(root)]) continue;
        seen[at(root)] = 1;
        open.assign(1, root);
        for (size_t i = 0; i < open.size(); ++i) {
            const int64_t v = open[i], k = card_[at(v)];
            if (cancelled(control, i, 256)) return kCancelled;
            belief.assign(local + var_at_[at(v)], local + var_at_[at(v + 1)]);
            for (int64_t j = var_ptr_[at(v)]; j < var_ptr_[at(v + 1)]; ++j) {
                const int64_t e = var_edge_[at(j)], f = edge_factor_[at(e)];
                const int64_t first = factor_ptr_[at(f)];
                const LoopyTable t = table_of(f);
                best.assign(at(k), -INFINITY);
                // Relative to the largest entry: a tie must not be decided by rounding it away.
                each(t.arity, t.card, t.size, [&](int64_t x, const int64_t* state) {
                    double own = (t.theta[x] - t.top) * t.inverse_rho;
                    for (int64_t a = 0; a < t.arity; ++a) {
                        const int64_t u = edge_var_[at(first + a)];
                        if (u == v) continue;
                        if (states[u] >= 0) {
                            if (states[u] != state[a]) return;
                        } else {
                            own += to_[at(edge_at_[at(first + a)] + state[a])];
                        }
                    }
                    double& most = best[at(state[e - first])];
                    most = std::max(most, own);
                });
                for (int64_t x = 0; x < k; ++x) belief[at(x)] += rho_[at(f)] * best[at(x)];
                for (int64_t c = first; c < factor_ptr_[at(f + 1)]; ++c) {
                    const int64_t u = edge_var_[at(c)];
                    if (seen[at(u)]) continue;
                    seen[at(u)] = 1;
                    open.push_back(u);
                }
            }
            auto top = std::max_element(belief.begin(), belief.end());
            if (*top > -INFINITY) {
                states[v] = top - belief.begin();
            } else {  // those before it leave it nothing: what it would take on its own
                const double* b = belief_.data() + var_at_[at(v)];
                states[v] = std::max_element(b, b + k) - b;
            }
        }
    }
    *score = 0.0;
    for (int64_t v = 0; v < n_; ++v) *score += local[var_at_[at(v)] + states[v]];
    for (int64_t f = 0; f < n_factors_; ++f) {
        int64_t x = 0;
        for (int64_t e = factor_ptr_[at(f)]; e < factor_ptr_[at(f + 1)]; ++e) {
            x = x * edge_card_[at(e)] + states[edge_var_[at(e)]];
        }
        *score += theta_[at(f)][x];
    }
    return kOk;
}

Status Loopy::mean_field(const double* local, int64_t max_iterations, double tolerance,
                         Control* control, double* q, double* bound, double* scale) {
    run_ = LoopyRun();
    std::vector<double> score;
    // score[x] += expectation of the table of edge e's factor given its value x.
    const auto expect = [&](int64_t e, double* out) {
        const int64_t f = edge_factor_[at(e)], first = factor_ptr_[at(f)];
        const LoopyTable t = table_of(f);
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
            if (!(top > -INFINITY)) continue;  // the others leave it nothing: stay
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

}  // namespace vs
