#include "messages/pairs.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/logs.h"
#include "messages/scopes.h"

namespace vs::messages {
namespace {

enum StructuredPhase : int { kMessages, kMasses };

}  // namespace

struct Pairs::Job {
    Pairs* self;
    int what;
};

void Pairs::weigh(const double* rho) {
    weighted_ = false;
    for (int64_t f = 0; rho && f < n_pairs_ + static_cast<int64_t>(groups_.size()); ++f) {
        weighted_ = weighted_ || rho[f] != 1.0;
    }
    if (weighted_) {
        rho_.assign(at(padded_), 1.0);
        for (int64_t i = 0; i < n_pairs_; ++i) rho_[at(i)] = rho[factor_[at(i)]];
        for (StructuredGroup& g : groups_) g.rho = rho[g.number];
    } else {
        rho_.clear();
        for (StructuredGroup& g : groups_) g.rho = 1.0;
    }
}

double Pairs::rho_of(size_t s) const {
    if (s < at(2 * padded_)) return rho_[place(s)];
    const auto after = [](int64_t slot, const StructuredGroup& g) { return slot < g.slot; };
    return std::upper_bound(groups_.begin(), groups_.end(), static_cast<int64_t>(s), after)[-1].rho;
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

double Pairs::incoming(size_t s) const {
    const size_t v = at(var_[s]);
    if (std::fabs(message_[s]) < INFINITY) return total_[v] - message_[s];
    const double* m = weighted_ ? weighed_.data() : message_.data();
    double x = start_[v];
    for (int32_t i = var_ptr_[v]; i < var_ptr_[v + 1]; ++i) {
        if (slot_[at(i)] != static_cast<int32_t>(s)) x += m[slot_[at(i)]];
    }
    return x;
}

double Pairs::evaluate_all(int64_t e, double* out, WorkerScratch* s) const {
    const auto g =
        std::lower_bound(groups_.begin(), groups_.end(), e,
                         [](const StructuredGroup& a, int64_t edge) { return a.edge < edge; });
    const int64_t k = g->factor->size();
    double *in = s->x.data(), most = 0.0;
    for (int64_t i = 0; i < k; ++i) {
        const size_t slot = at(g->slot + i);
        const double b = ratios_ ? std::log(total_[at(var_[slot])]) - sent_[slot - at(2 * padded_)]
                                 : incoming(slot);
        if (b != b) return -1.0;
        in[2 * i] = entry(b, 0);
        in[2 * i + 1] = entry(b, 1);
    }
    if (!(g->factor->send(in, options_.best, out, in + 2 * k) > -INFINITY)) return -1.0;
    for (int64_t i = 0; i < k; ++i) {
        const size_t slot = at(g->slot + i);
        const double old = ratios_ ? sent_[slot - at(2 * padded_)] : message_[slot];
        if (std::fabs(out[i]) < INFINITY) out[i] = std::clamp(out[i], -kFar, kFar);
        if (out[i] == old) continue;
        const bool finite = std::fabs(out[i]) < INFINITY && std::fabs(old) < INFINITY;
        // A new zero counts as the rest of a double's range.
        const double rounding = options_.damping > 0.0 ? kRounding * std::fabs(old) : 0.0;
        most = std::max(most, finite ? std::fabs(out[i] - old) - rounding : 745.0);
        if (finite) out[i] += options_.damping * (old - out[i]);
    }
    return most;
}

void Pairs::send(const StructuredGroup& g, const double* out) {
    for (int64_t i = 0; i < g.factor->size(); ++i) {
        const size_t slot = at(g.slot + i);
        if (!ratios_) {
            put(slot, out[i]);
            continue;
        }
        sent_[slot - at(2 * padded_)] = out[i];
        if (std::fabs(out[i]) <= most_sent_) message_[slot] = std::exp(out[i]);
    }
}

// The messages of a chunk, and the totals of the variables that it finishes.
void Pairs::update(int64_t chunk) {
    const PairBlock b = block(chunk);
    chunk_[at(chunk)] = ratios_         ? level_->ratios(b)
                        : options_.best ? level_->maxima(b)
                                        : level_->sums(b);
    for (int64_t i = inner_ptr_[at(chunk)]; i < inner_ptr_[at(chunk + 1)]; ++i) {
        add_up(inner_[at(i)]);
    }
}

void Pairs::step(void* job, int64_t task, int worker) {
    Pairs* p = static_cast<Job*>(job)->self;
    const StructuredGroup& g = p->groups_[at(task)];
    WorkerScratch* s = &p->scratch_[at(worker)];
    if (static_cast<Job*>(job)->what == kMasses) {
        p->group_mass_[at(task)] = p->mass(g, s);
        return;
    }
    p->group_moved_[at(task)] = p->evaluate_all(g.edge, p->answer_of(g), s);
}

// Of structured factors.
void Pairs::phase(int what, int threads, Control* control) {
    if (groups_.empty()) return;
    Job job{this, what};
    int64_t size = 0;
    for (const StructuredGroup& g : groups_) size = std::max(size, scratch_of(*g.factor));
    scratch_.resize(at(std::max(threads, 1)));
    for (WorkerScratch& s : scratch_) s.x.resize(at(size));
    answer_.resize(message_.size() - at(2 * padded_));
    const Plan plan(what == kMessages ? "factors" : "masses", static_cast<int64_t>(groups_.size()));
    pool_->run_plan(plan, step, &job, threads, control);
}

Status Pairs::flood(const RunOptions& options, int threads, Control* control, RunProgress* out,
                    int64_t* dead) {
    const int64_t chunks = static_cast<int64_t>(inner_ptr_.size()) - 1;
    chunk_.assign(at(chunks), 0.0);
    group_moved_.assign(groups_.size(), 0.0);
    for (int64_t i = 0; i < options.max_iterations && !out->converged; ++i) {
        phase(kMessages, threads, control);
        if (control->stop.load()) return kCancelled;
        for (size_t g = 0; g < groups_.size(); ++g) {
            if (group_moved_[g] >= 0.0) continue;
            *dead = var_[at(groups_[g].slot)];
            return kInfeasible;
        }
        // Not before: where one is infinite, a factor adds up the others of its variable.
        for (const StructuredGroup& g : groups_) send(g, answer_of(g));
        for (size_t i = 0; ratios_ && i < sent_.size(); ++i) {
            if (!(std::fabs(sent_[i]) <= most_sent_)) leave_ratios(threads, control);
        }
        blocks("pairs", chunks, 1, threads, control, [&](int64_t c, int64_t) { update(c); });
        if (control->stop.load()) return kCancelled;
        add_up_outer(threads, control);
        if (control->stop.load()) return kCancelled;
        out->updates += static_cast<int64_t>(slot_.size());
        double most = ratios_ ? 1.0 : 0.0;
        for (double r : chunk_) most = std::max(most, r);
        if (ratios_) most = std::log(most);
        for (double r : group_moved_) most = std::max(most, r);
        out->residuals.push_back(most);
        out->converged = most <= options.tolerance;
        control->done.store(i + 1);
    }
    return kOk;
}

Status Pairs::run(const double* local, const RunOptions& options, int threads, Control* control,
                  double* messages, RunProgress* out, int64_t* dead) {
    *out = RunProgress();
    if (!start(local, messages, threads, control)) return impossible(dead);
    options_ = options;
    start_ratios(options, threads, control);
    const Status begun = scale(threads, control);
    if (begun != kOk) return begun;
    const Status status = flood(options, threads, control, out, dead);
    if (status != kOk) return status;
    if (ratios_) leave_ratios(threads, control);
    read_messages(threads, control, messages);
    return control->stop.load() ? kCancelled : kOk;
}

Status Pairs::impossible(int64_t* dead) const {
    for (*dead = 0; field_[at(*dead)] == field_[at(*dead)];) ++*dead;
    return kInfeasible;
}

Status Pairs::begin(const double* local, const RunOptions& options, int threads, Control* control,
                    const double* messages, int64_t* dead) {
    if (!start(local, messages, threads, control)) return impossible(dead);
    options_ = options;
    ratios_ = false;
    gain_.resize(at(n_pairs_));
    slot_of_.resize(slot_.size());
    const Status status = scale(threads, control);
    for (int64_t i = 0; i < n_pairs_; ++i) {
        for (int64_t side = 0; side < 2; ++side) {
            slot_of_[at(ptr_[factor_[at(i)]] + side)] = static_cast<int32_t>(side * padded_ + i);
        }
        const double j = std::fabs(scaled_[at(i)]);
        gain_[at(i)] = options.best ? (j > 0.0 ? 1.0 : 0.0) : std::tanh(j);
    }
    for (const StructuredGroup& g : groups_) {
        for (int64_t i = 0; i < g.factor->size(); ++i) {
            slot_of_[at(g.edge + i)] = static_cast<int32_t>(g.slot + i);
        }
    }
    return status;
}

void Pairs::add_up_outer(int threads, Control* control) {
    if (outer_.empty()) return;
    const auto n = static_cast<int64_t>(outer_.size());
    blocks("variables", n, threads, control, [&](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; ++i) add_up(outer_[at(i)]);
    });
}

void Pairs::add_up_all(int threads, Control* control) {
    blocks("variables", n_, threads, control, [&](int64_t first, int64_t last) {
        for (int64_t v = first; v < last; ++v) renew(static_cast<int32_t>(v));
    });
}

// As `message` in level.cpp, for one message.
double Pairs::evaluate(int64_t e, double* out) const {
    const size_t from = sender(e);
    const double j = scaled_[place(receiver(e))], t = std::fabs(2.0 * j);
    const double b = total_[at(var_[from])] - message_[from], c = std::fabs(b);
    double m = std::min(c, t);
    if (!options_.best) {
        m += softplus(-(c + t)) - softplus(-std::fabs(c - t));
    }
    if ((b < 0.0) != (j < 0.0)) m = -m;
    const double old = message_[receiver(e)];
    *out = m + options_.damping * (old - m);
    return std::fabs(m - old);
}

void Pairs::commit(int64_t e, double value) {
    const size_t s = receiver(e);
    put(s, value);
    stale_[at(var_[s])] = 1;
}

void Pairs::finish(int threads, Control* control, double* messages) {
    add_up_all(threads, control);
    read_messages(threads, control, messages);
}

// What variable v adds to log Z; local (2,) its scores.
double Pairs::share_of(int64_t v, const double* local) const {
    const bool up = total_[at(v)] >= 0.0;
    // The messages that came in: their sum is not B - field where that is infinite. Those of
    // structured factors have 0 as their largest entry, and are added with their masses.
    double rest = sum_tilt_[at(v)];
    if (std::fabs(field_[at(v)]) < 1e3 && groups_.empty()) {
        rest = total_[at(v)] - field_[at(v)];
    } else {
        const double* m = weighted_ ? weighed_.data() : message_.data();
        for (int64_t i = var_ptr_[at(v)]; i < var_ptr_[at(v + 1)]; ++i) {
            if (slot_[at(i)] < 2 * padded_) rest += m[slot_[at(i)]];
        }
    }
    return local[up ? 1 : 0] + (up ? 0.5 : -0.5) * rest + log_mass_[at(v)];
}

// What the pairs of a chunk add to log Z.
double Pairs::mass_of(int64_t chunk) {
    const int64_t first = chunk * kChunk, last = std::min(n_pairs_, first + kChunk);
    level_->masses(block(chunk), mass_.data() + first);
    double sum = 0.0;
    for (int64_t i = first; i < last; ++i) {
        const double gap =
            mass_[at(i)] - log_mass_[at(var_[at(i)])] - log_mass_[at(var_[at(padded_ + i)])];
        sum += (weighted_ ? rho_[at(i)] : 1.0) * gap;
    }
    return sum;
}

// B is the total of a variable, s its better state: its log mass relative to that state is
// log(1 + exp(-|B|)). `masses` gives a pair's mass without its own messages, relative to the better
// states of both. Nothing infinite enters the sum.
Status Pairs::beliefs(const double* local, int threads, Control* control, double* marginals,
                      double* log_z, int64_t* dead) {
    for (int64_t v = 0; v < n_ && !groups_.empty(); ++v) {
        if (total_[at(v)] == total_[at(v)]) continue;
        *dead = v;
        return kInfeasible;
    }
    log_mass_.resize(at(n_ + kPairLanes));
    mass_.resize(at(padded_));
    group_mass_.resize(groups_.size());
    block_.assign(at((n_ + kBlock - 1) / kBlock), 0.0);
    blocks("variables", n_, threads, control, [&](int64_t first, int64_t last) {
        level_->marginals(total_.data() + first, last - first, marginals + 2 * first,
                          log_mass_.data() + first);
        double sum = 0.0;
        for (int64_t v = first; v < last; ++v) sum += share_of(v, local + 2 * v);
        block_[at(first / kBlock)] = sum;
    });
    chunk_.assign(inner_ptr_.size() - 1, 0.0);
    blocks("masses", static_cast<int64_t>(chunk_.size()), 1, threads, control,
           [&](int64_t c, int64_t) { chunk_[at(c)] = mass_of(c); });
    phase(kMasses, threads, control);
    if (control->stop.load()) return kCancelled;
    double sum = constant_;
    for (double own : block_) sum += own;
    for (double own : chunk_) sum += own;
    for (size_t g = 0; g < groups_.size(); ++g) {
        if (!(group_mass_[g] > -INFINITY)) {
            *dead = var_[at(groups_[g].slot)];
            return kInfeasible;
        }
        sum += groups_[g].rho * group_mass_[g];
    }
    *log_z = sum;
    return kOk;
}

// log of the sum of a structured factor times its variables' beliefs over its own messages, less
// the masses of these beliefs, all relative to the variables' better states; and its messages to
// these states.
double Pairs::mass(const StructuredGroup& g, WorkerScratch* s) const {
    const int64_t k = g.factor->size();
    double *in = s->x.data(), rest = 0.0;
    for (int64_t i = 0; i < k; ++i) {
        const size_t slot = at(g.slot + i), v = at(var_[slot]);
        const double b = total_[v], m = message_[slot];
        const int64_t up = b >= 0.0 ? 1 : 0;
        in[2 * i + up] = -entry(m, up);
        // A state that messages forbid has no mass in the factor either.
        const double worse = entry(m, 1 - up);
        in[2 * i + 1 - up] = std::fabs(b) < INFINITY ? -std::fabs(b) - worse : -INFINITY;
        rest += entry(m, up) - log_mass_[v];
    }
    const double mass = g.factor->mass(in, in + 2 * k);
    return mass > -INFINITY ? mass + rest : -INFINITY;
}

}  // namespace vs::messages
