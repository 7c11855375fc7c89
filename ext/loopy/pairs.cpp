#include "loopy/pairs.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "loopy/scopes.h"
namespace vs {
namespace {

constexpr int64_t kChunk = 4096;            // pairs that one task takes
constexpr int64_t kVariables = 1 << 13;     // variables likewise
constexpr int64_t kWorthThreads = 1 << 12;  // pairs that are slower on one thread

size_t at(int64_t i) { return static_cast<size_t>(i); }

enum Phase : int { kUpdate, kTotals, kAllTotals, kMasses };

}  // namespace

struct Pairs::Job {
    Pairs* self;
    int what;
};

Status Pairs::make(int64_t n, int64_t n_factors, const int64_t* scope, const double* const* table,
                   const Control* control, std::unique_ptr<Pairs>* made) {
    if (n >= (int64_t{1} << 30) || n_factors >= (int64_t{1} << 29) || n_factors == 0) return kOk;
    for (int64_t f = 0; f < n_factors; ++f) {
        for (int64_t i = 0; i < 4; ++i) {
            if (!(table[f][i] > -INFINITY)) return kOk;
        }
    }
    std::unique_ptr<Pairs> p(new Pairs);
    p->n_ = n;
    p->n_factors_ = n_factors;
    const Status status = p->lay_out(scope, table, control);
    if (status == kOk) *made = std::move(p);
    return status;
}

Status Pairs::lay_out(const int64_t* scope, const double* const* table, const Control* control) {
    const int64_t chunks = (n_factors_ + kChunk - 1) / kChunk;
    padded_ = (n_factors_ + kPairLanes - 1) / kPairLanes * kPairLanes;
    std::vector<int64_t> fill(at(n_ + 1), 0);
    for (int64_t f = 0; f < n_factors_; ++f) {
        ++fill[at(std::max(scope[2 * f], scope[2 * f + 1]) + 1)];
    }
    for (int64_t v = 0; v < n_; ++v) fill[at(v + 1)] += fill[at(v)];
    factor_.resize(at(n_factors_));
    for (int64_t f = 0; f < n_factors_; ++f) {
        factor_[at(fill[at(std::max(scope[2 * f], scope[2 * f + 1]))]++)] = f;
    }
    var_.assign(at(2 * padded_), 0);
    coupling_.assign(at(padded_), 0.0);
    tilt_.assign(at(2 * padded_), 0.0);
    sum_tilt_.assign(at(n_), 0.0);
    var_ptr_.assign(at(n_ + 1), 0);
    std::vector<int32_t> first(at(n_), -1), last(at(n_), -1);
    constant_ = 0.0;
    for (int64_t i = 0; i < n_factors_; ++i) {
        if (cancelled(control, i)) return kCancelled;
        const int64_t f = factor_[at(i)];
        const double* t = table[f];
        const double a = 0.25 * (t[3] - t[0]), b = 0.25 * (t[2] - t[1]);
        coupling_[at(i)] = 0.25 * ((t[0] - t[1]) + (t[3] - t[2]));
        constant_ += 0.25 * ((t[0] + t[1]) + (t[2] + t[3]));
        for (int64_t side = 0; side < 2; ++side) {
            const int64_t v = scope[2 * f + side];
            const double tilt = side ? a - b : a + b;
            tilt_[at(side * padded_ + i)] = tilt;
            sum_tilt_[at(v)] += 2.0 * tilt;
            var_[at(side * padded_ + i)] = static_cast<int32_t>(v);
            ++var_ptr_[at(v + 1)];
            if (first[at(v)] < 0) first[at(v)] = static_cast<int32_t>(i / kChunk);
            last[at(v)] = static_cast<int32_t>(i / kChunk);
        }
    }
    for (int64_t v = 0; v < n_; ++v) var_ptr_[at(v + 1)] += var_ptr_[at(v)];
    std::vector<int32_t> at_slot(var_ptr_.begin(), var_ptr_.end() - 1);
    slot_.resize(at(2 * n_factors_));
    for (int64_t i = 0; i < n_factors_; ++i) {
        if (cancelled(control, i)) return kCancelled;
        for (int64_t side = 0; side < 2; ++side) {
            const size_t v = at(var_[at(side * padded_ + i)]);
            slot_[at(at_slot[v]++)] = static_cast<int32_t>(side * padded_ + i);
        }
    }
    inner_ptr_.assign(at(chunks + 1), 0);
    for (int64_t v = 0; v < n_; ++v) {
        if (first[at(v)] < 0) continue;
        if (first[at(v)] == last[at(v)]) {
            ++inner_ptr_[at(first[at(v)] + 1)];
        } else {
            outer_.push_back(static_cast<int32_t>(v));
        }
    }
    for (int64_t c = 0; c < chunks; ++c) inner_ptr_[at(c + 1)] += inner_ptr_[at(c)];
    inner_.resize(at(inner_ptr_.back()));
    std::vector<int64_t> place(inner_ptr_.begin(), inner_ptr_.end());
    for (int64_t v = 0; v < n_; ++v) {
        if (first[at(v)] >= 0 && first[at(v)] == last[at(v)]) {
            inner_[at(place[at(first[at(v)])]++)] = static_cast<int32_t>(v);
        }
    }
    const int64_t outer = static_cast<int64_t>(outer_.size());
    for (int64_t i = 0; i < outer; i += kVariables) outer_cut_.push_back(i);
    outer_cut_.push_back(outer);
    weigh(nullptr);
    return kOk;
}

void Pairs::weigh(const double* rho) {
    weighted_ = false;
    for (int64_t f = 0; rho && f < n_factors_; ++f) weighted_ = weighted_ || rho[f] != 1.0;
    if (weighted_) {
        rho_.assign(at(padded_), 1.0);
        for (int64_t i = 0; i < n_factors_; ++i) rho_[at(i)] = rho[factor_[at(i)]];
    } else {
        rho_.clear();
    }
}

PairBlock Pairs::block(int64_t chunk) {
    const int64_t i = chunk * kChunk;
    PairBlock b;
    b.n = std::min(kChunk, padded_ - i);
    b.left = var_.data() + i;
    b.right = b.left + padded_;
    b.coupling = scaled_.data() + i;
    b.rho = weighted_ ? rho_.data() + i : nullptr;
    b.total = total_.data();
    b.to_left = message_.data() + i;
    b.to_right = b.to_left + padded_;
    b.weighed_left = weighted_ ? weighed_.data() + i : nullptr;
    b.weighed_right = weighted_ ? b.weighed_left + padded_ : nullptr;
    b.keep = options_.damping;
    return b;
}

// The total of a variable: the order of its messages is always the same, and so are the bits.
void Pairs::add_up(int32_t v) {
    const double* m = weighted_ ? weighed_.data() : message_.data();
    const int32_t* s = slot_.data() + var_ptr_[at(v)];
    const int32_t* end = slot_.data() + var_ptr_[at(v + 1)];
    double x = start_[at(v)];
    if (ratios_) {
        for (; s < end; ++s) x *= m[*s];
    } else {
        for (; s < end; ++s) x += m[*s];
    }
    total_[at(v)] = x;
}

void Pairs::step(void* job, int64_t task, int) {
    Pairs* p = static_cast<Job*>(job)->self;
    const int what = static_cast<Job*>(job)->what;
    if (what == kUpdate) {
        const PairBlock b = p->block(task);
        p->chunk_[at(task)] = p->ratios_         ? p->level_->ratios(b)
                              : p->options_.best ? p->level_->maxima(b)
                                                 : p->level_->sums(b);
        for (int64_t i = p->inner_ptr_[at(task)]; i < p->inner_ptr_[at(task + 1)]; ++i) {
            p->add_up(p->inner_[at(i)]);
        }
    } else if (what == kTotals) {
        for (int64_t i = p->outer_cut_[at(task)]; i < p->outer_cut_[at(task + 1)]; ++i) {
            p->add_up(p->outer_[at(i)]);
        }
    } else if (what == kAllTotals) {
        const int64_t end = std::min(p->n_, (task + 1) * kVariables);
        for (int64_t v = task * kVariables; v < end; ++v) p->add_up(static_cast<int32_t>(v));
    } else {
        p->level_->masses(p->block(task), p->mass_.data() + task * kChunk);
    }
}

void Pairs::phase(int what, int threads, Control* control) {
    Job job{this, what};
    Plan plan;
    plan.n = what == kTotals      ? static_cast<int64_t>(outer_cut_.size()) - 1
             : what == kAllTotals ? (n_ + kVariables - 1) / kVariables
                                  : static_cast<int64_t>(inner_ptr_.size()) - 1;
    pool_->run_plan(plan, step, &job, n_factors_ < kWorthThreads ? 1 : threads, control);
}

// Fields and messages as log-ratios; false when a variable has no value left (its total is NaN).
bool Pairs::start(const double* local, const double* messages) {
    field_.resize(at(n_));
    start_.resize(at(n_));
    total_.assign(at(n_ + kPairLanes), 0.0);
    bool alive = true;
    for (int64_t v = 0; v < n_; ++v) {
        field_[at(v)] = local[2 * v + 1] - local[2 * v];
        start_[at(v)] = field_[at(v)] + sum_tilt_[at(v)];
        alive = alive && field_[at(v)] == field_[at(v)];
    }
    message_.assign(at(2 * padded_), 0.0);
    for (int64_t i = 0; i < n_factors_; ++i) {
        const double* m = messages + 4 * factor_[at(i)];
        const double j = coupling_[at(i)], rho = weighted_ ? rho_[at(i)] : 1.0;
        for (int64_t side = 0; side < 2; ++side) {
            const size_t s = at(side * padded_ + i);
            const double x = m[2 * side + 1] - m[2 * side] - 2.0 * tilt_[s] / rho;
            const double limit = std::fabs(2.0 * j / rho);
            message_[s] = x >= -1e290 && x <= 1e290 ? x : x > 0.0 ? limit : -limit;
        }
    }
    return alive;
}

// Messages as plain numbers where none of their products can leave the range of a double.
void Pairs::start_ratios(const LoopyOptions& options) {
    constexpr double kField = 300.0, kPair = 75.0;  // of logarithms
    ratios_ = false;
    if (options.best || options.damping > 0.0 || weighted_) return;
    std::vector<double> range(at(n_));
    for (int64_t v = 0; v < n_; ++v) range[at(v)] = std::fabs(start_[at(v)]);
    for (int64_t i = 0; i < n_factors_; ++i) {
        const double j = std::fabs(coupling_[at(i)]);
        if (!(j <= kPair)) return;
        for (int64_t side = 0; side < 2; ++side) {
            const size_t s = at(side * padded_ + i);
            const double most = std::max(2.0 * j, std::fabs(message_[s]));
            if (!(most <= 2.0 * kPair)) return;
            range[at(var_[s])] += most;
        }
    }
    for (double r : range) {
        if (!(r <= kField)) return;
    }
    ratios_ = true;
    for (double& x : start_) x = std::exp(x);
    for (double& x : message_) {
        if (x != 0.0)
            x = std::exp(x);
        else
            x = 1.0;
    }
}

Status Pairs::flood(const LoopyOptions& options, int threads, Control* control, LoopyRun* out) {
    const int64_t chunks = static_cast<int64_t>(inner_ptr_.size()) - 1;
    chunk_.assign(at(chunks), 0.0);
    for (int64_t i = 0; i < options.max_iterations && !out->converged; ++i) {
        phase(kUpdate, threads, control);
        if (control->stop.load()) return kCancelled;
        if (!outer_.empty()) phase(kTotals, threads, control);
        if (control->stop.load()) return kCancelled;
        out->updates += 2 * n_factors_;
        double most = ratios_ ? 1.0 : 0.0;
        for (double r : chunk_) most = std::max(most, r);
        if (ratios_) most = std::log(most);
        out->residuals.push_back(most);
        out->converged = most <= options.tolerance;
        control->done.store(i + 1);
    }
    return kOk;
}

Status Pairs::run(const double* local, const LoopyOptions& options, int threads, Control* control,
                  double* messages, LoopyRun* out, int64_t* dead) {
    *out = LoopyRun();
    if (!start(local, messages)) return impossible(dead);
    options_ = options;
    start_ratios(options);
    const Status begun = scale(threads, control);
    if (begun != kOk) return begun;
    const Status status = flood(options, threads, control, out);
    if (status != kOk) return status;
    if (ratios_) {
        for (double& x : message_) x = std::log(x);
        for (int64_t v = 0; v < n_; ++v) {
            start_[at(v)] = field_[at(v)] + sum_tilt_[at(v)];
            total_[at(v)] = std::log(total_[at(v)]);
        }
        for (int64_t i = 0; i < n_factors_; ++i) scaled_[at(i)] = coupling_[at(i)];
        ratios_ = false;
    }
    read_messages(messages);
    return kOk;
}

Status Pairs::impossible(int64_t* dead) const {
    for (*dead = 0; field_[at(*dead)] == field_[at(*dead)];) ++*dead;
    return kInfeasible;
}

Status Pairs::scale(int threads, Control* control) {
    scaled_.assign(at(padded_), ratios_ ? 1.0 : 0.0);
    double last = 0.0, last_value = ratios_ ? 1.0 : 0.0;
    for (int64_t i = 0; i < n_factors_; ++i) {
        const double j = coupling_[at(i)] / (weighted_ ? rho_[at(i)] : 1.0);
        if (j != last) {
            last = j;
            last_value = ratios_ ? std::exp(2.0 * j) : j;
        }
        scaled_[at(i)] = last_value;
    }
    weighed_.resize(weighted_ ? at(2 * padded_) : 0);
    for (int64_t s = 0; weighted_ && s < 2 * padded_; ++s) {
        weighed_[at(s)] = message_[at(s)] * rho_[at(s < padded_ ? s : s - padded_)];
    }
    phase(kAllTotals, threads, control);
    return control->stop.load() ? kCancelled : kOk;
}

void Pairs::read_messages(double* messages) {
    for (int64_t i = 0; i < n_factors_; ++i) {
        double* m = messages + 4 * factor_[at(i)];
        const double rho = weighted_ ? rho_[at(i)] : 1.0;
        for (int64_t side = 0; side < 2; ++side) {
            const size_t s = at(side * padded_ + i);
            const double x = message_[s] + 2.0 * tilt_[s] / rho;
            m[2 * side] = std::min(0.0, -x);
            m[2 * side + 1] = std::min(0.0, x);
        }
    }
}

Status Pairs::begin(const double* local, const LoopyOptions& options, int threads, Control* control,
                    const double* messages, int64_t* dead) {
    if (!start(local, messages)) return impossible(dead);
    options_ = options;
    ratios_ = false;
    gain_.resize(at(n_factors_));
    place_.resize(at(n_factors_));
    const Status status = scale(threads, control);
    for (int64_t i = 0; i < n_factors_; ++i) {
        place_[at(factor_[at(i)])] = i;
        const double j = std::fabs(scaled_[at(i)]);
        gain_[at(i)] = options.best ? (j > 0.0 ? 1.0 : 0.0) : std::tanh(j);
    }
    return status;
}

void Pairs::add_up_all(int threads, Control* control) { phase(kAllTotals, threads, control); }

// What the kernels' `message` computes, for one.
double Pairs::evaluate(int64_t e, double* out) const {
    const size_t from = sender(e);
    const double j = scaled_[at(place_[at(e / 2)])], t = std::fabs(2.0 * j);
    const double b = total_[at(var_[from])] - message_[from], c = std::fabs(b);
    double m = std::min(c, t);
    if (!options_.best) {
        m += std::log1p(std::exp(-(c + t))) - std::log1p(std::exp(-std::fabs(c - t)));
    }
    if ((b < 0.0) != (j < 0.0)) m = -m;
    const double old = message_[receiver(e)];
    *out = m + options_.damping * (old - m);
    return std::fabs(m - old);
}

void Pairs::commit(int64_t e, double value) {
    const size_t s = receiver(e);
    message_[s] = value;
    if (weighted_) weighed_[s] = value * rho_[at(place_[at(e / 2)])];
}

void Pairs::finish(int threads, Control* control, double* messages) {
    add_up_all(threads, control);
    read_messages(messages);
}

// With B the total of a variable, s its better state, what is left of its mass relative to that
// state's is log(1 + exp(-|B|)). `masses` gives a pair's mass without what its own messages bring,
// relative to the better states of both. Nothing infinite enters the sum.
void Pairs::beliefs(const double* local, int threads, double* marginals, double* log_z) {
    Control control;
    log_mass_.resize(at(n_ + kPairLanes));
    mass_.resize(at(padded_));
    level_->marginals(total_.data(), n_, marginals, log_mass_.data());
    phase(kMasses, threads, &control);
    double sum = constant_;
    for (int64_t v = 0; v < n_; ++v) {
        const bool up = total_[at(v)] >= 0.0;
        // The messages that came in: their sum is not B - field where that is infinite.
        double rest = sum_tilt_[at(v)];
        if (std::fabs(field_[at(v)]) < 1e3) {
            rest = total_[at(v)] - field_[at(v)];
        } else {
            const double* m = weighted_ ? weighed_.data() : message_.data();
            for (int64_t i = var_ptr_[at(v)]; i < var_ptr_[at(v + 1)]; ++i) rest += m[slot_[at(i)]];
        }
        sum += local[2 * v + (up ? 1 : 0)] + (up ? 0.5 : -0.5) * rest + log_mass_[at(v)];
    }
    for (int64_t i = 0; i < n_factors_; ++i) {
        const double gap =
            mass_[at(i)] - log_mass_[at(var_[at(i)])] - log_mass_[at(var_[at(padded_ + i)])];
        sum += (weighted_ ? rho_[at(i)] : 1.0) * gap;
    }
    *log_z = sum;
}

}  // namespace vs
