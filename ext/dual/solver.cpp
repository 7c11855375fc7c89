#include "dual/solver.h"

#include <new>

#include "messages/network.h"

namespace vs::dual {
namespace {

constexpr int64_t kPairsInTask = 4096, kEdgesInTask = 8192, kEntriesInTask = 256;
constexpr int64_t kEvery = 10;                    // iterations from one bound to the next
constexpr int64_t kAlone = 20;                    // iterations before Newton's method
constexpr int64_t kAgain = 4;                     // times as many until it is tried again
constexpr int kJoining = 5, kJoiningNewton = 30;  // corners that join an active set at once
constexpr double kOver = 1.5;                     // relaxation
constexpr double kStep = 0.5;    // the first rho, by the median magnitude of scores
constexpr double kTiny = 0.1;    // of that magnitude: added to what gaps are a share of
constexpr double kWeight = 0.3;  // weight of a part's edges, by the mean number of pairs beside one
constexpr double kApart = 10.0;  // ratio of residuals from which rho changes, by kChange; it grows
constexpr double kChange = 2.0, kGrows = 500.0, kReach = 1e7;
constexpr double kLoose = 0.03;  // share of the tolerance where the point has no score of its own
constexpr double kExact = 1e-8;  // a gap, relative to the score, that is rounding

}  // namespace

DualSolver::DualSolver(const Problem& problem) : rounding(problem), p_(problem) {
    const int64_t n = p_.n_open(), edges = p_.n_edges();
    share_.assign(at(edges + kSlack), 0.0);
    q_.assign(at(edges), 0.5);
    left_.assign(p_.var.begin(), p_.var.begin() + p_.n_pairs());
    right_.assign(p_.var.begin() + p_.n_pairs(), p_.var.begin() + 2 * p_.n_pairs());
    couple_ = p_.couple;
    left_.resize(left_.size() + kSlack, 0);
    right_.resize(right_.size() + kSlack, 0);
    couple_.resize(couple_.size() + kSlack, 0.0);
    target_.assign(at(edges), 0.0);
    point.assign(at(n), 0.5);
    x_.assign(at(n), 0.0);
    gain_.assign(at(n), 0.0);
    hard_.assign(at(n), -1);
    active_.resize(p_.part.size());
    projects_.assign(p_.part.size(), 1);
    for (const auto& part : p_.part) {
        for (int64_t e = part->first; e < part->first + part->k; ++e) {
            int64_t& own = hard_[at(p_.var[at(e)])];
            covered_ = covered_ && own < 0;
            own = e;
        }
    }
    cut();
    start();
}

// Tasks of one iteration, whatever the number of threads.
void DualSolver::cut() {
    const int64_t pairs = p_.n_pairs(), parts = static_cast<int64_t>(p_.part.size());
    for (int64_t i = 0; i < pairs; i += kPairsInTask) {
        factor_cut_.push_back({i, std::min(pairs, i + kPairsInTask)});
    }
    int64_t work = 0, first = 0;
    for (int64_t i = 0; i < parts; ++i) {
        work += p_.part[at(i)]->k;
        if (work < kEntriesInTask && i + 1 < parts) continue;
        factor_cut_.push_back({pairs + first, pairs + i + 1});
        first = i + 1, work = 0;
    }
    first = 0;
    for (int64_t v = 0; v < p_.n_open(); ++v) {
        const int64_t edges = p_.var_ptr[at(v + 1)] - p_.var_ptr[at(first)];
        if (edges < kEdgesInTask && v + 1 < p_.n_open()) continue;
        variable_cut_.push_back({first, v + 1});
        first = v + 1;
    }
    cut_apart_.assign(variable_cut_.size(), 0.0);
    cut_moved_.assign(variable_cut_.size(), 0.0);
    failed_.assign(factor_cut_.size(), 0);
    sums_.assign(factor_cut_.size(), {});
}

// Odds go to the parts of a variable, if it has any.
void DualSolver::start() {
    std::vector<double> sizes;
    const auto add = [&](double x) {
        if (x != 0.0) sizes.push_back(std::fabs(x));
    };
    for (int64_t v = 0; v < p_.n_open(); ++v) {
        const int64_t first = p_.var_ptr[at(v)], last = p_.var_ptr[at(v + 1)];
        int64_t parts = 0;
        for (int64_t i = first; i < last; ++i) parts += !is_pair(p_.var_edge[at(i)]);
        const auto among = static_cast<double>(parts ? parts : last - first);
        for (int64_t i = first; i < last; ++i) {
            const int64_t e = p_.var_edge[at(i)];
            share_[at(e)] = parts && is_pair(e) ? 0.0 : p_.odds[at(v)] / among;
        }
        if (first == last) point[at(v)] = p_.odds[at(v)] > 0.0;
        add(p_.odds[at(v)]);
    }
    for (double c : p_.couple) add(c);
    for (const auto& part : p_.part) add(part->size());
    if (!sizes.empty()) {
        const auto middle = sizes.begin() + static_cast<std::ptrdiff_t>(sizes.size() / 2);
        std::nth_element(sizes.begin(), middle, sizes.end());
        spread_ = *middle;
    }
    rho_ = kStep * spread_;
    const auto pairs = static_cast<double>(2 * p_.n_pairs());
    const double rest = std::max(1.0, static_cast<double>(p_.n_edges()) - pairs);
    weight_ = std::max(1.0, kWeight * pairs / rest);
}

// The quadratic step (solver.h), by completing the square, for pairs and parts alike:
//
//   q_f = argmin over f's hull of sum_e rho w_e / 2 (q_e - target_e)^2 - score_f(q)
//   target_e = p_v + s_e / (rho w_e)
void DualSolver::move_pairs(int64_t task) {
    const int64_t first = factor_cut_[at(task)].first, second = first + p_.n_pairs();
    PairPoints of;
    of.n = factor_cut_[at(task)].last - first;
    of.left = left_.data() + first;
    of.right = right_.data() + first;
    of.point = point.data();
    of.share_left = share_.data() + first;
    of.share_right = share_.data() + second;
    of.couple = couple_.data() + first;
    of.inverse = 1.0 / rho_;
    of.left_q = q_.data() + first;
    of.right_q = q_.data() + second;
    sums_[at(task)] = messages::level().points(of);
}

bool DualSolver::move_part(int64_t i, const Control* control) {
    Part& part = *p_.part[at(i)];
    const double inverse = 1.0 / (rho_ * weight_);
    double *target = target_.data() + part.first, *q = q_.data() + part.first;
    for (int64_t j = 0; j < part.k; ++j) {
        target[j] = point[at(p_.var[at(part.first + j)])] + inverse * share_[at(part.first + j)];
    }
    if (outer_ && cuts_[at(i)]) {
        std::copy(target, target + part.k, q);
        cuts_[at(i)]->project(q);
        return true;
    }
    if (projects_[at(i)]) {
        std::copy(target, target + part.k, q);
        if (part.project(q)) return true;
        projects_[at(i)] = 0;
    }
    return active_[at(i)].nearest(&part, target, inverse, joining_, control, q);
}

void DualSolver::factors_task(void* self, int64_t task, int worker) {
    DualSolver& s = *static_cast<DualSolver*>(self);
    const int64_t pairs = s.p_.n_pairs();
    const CutRange cut = s.factor_cut_[at(task)];
    if (cut.first < pairs) return s.move_pairs(task);
    try {
        for (int64_t i = cut.first; i < cut.last; ++i) {
            // The calling thread is worker 0: it alone polls.
            if (!s.move_part(i - pairs, worker == 0 ? s.control_ : nullptr))
                s.failed_[at(task)] = 1;
        }
    } catch (const std::bad_alloc&) {
        s.failed_[at(task)] = 2;
    }
}

// With m_v = (sum_e w_e q_e + pull_v) / sum_e w_e, the pull being that of cuts, 0 without them:
//
//   p_v <- over m_v + (1 - over) p_v,   s_e <- s_e - over rho w_e (q_e - m_v)
//
// Without cuts the second keeps sum_e s_e, the odds of v: the dual value stays a bound.
void DualSolver::mean(int64_t first, int64_t last, double* apart, double* moved) {
    for (int64_t v = first; v < last; ++v) {
        const int64_t from = p_.var_ptr[at(v)], to = p_.var_ptr[at(v + 1)];
        if (from == to) continue;
        const double old = point[at(v)];
        double sum = outer_ ? pull_[at(v)] : 0.0, weights = 0.0;
        for (int64_t i = from; i < to; ++i) {
            const int64_t e = p_.var_edge[at(i)];
            const double w = weight(e);
            sum += w * q_[at(e)];
            weights += w;
        }
        const double own = sum / weights, next = over_ * own + (1.0 - over_) * old;
        for (int64_t i = from; i < to; ++i) {
            const int64_t e = p_.var_edge[at(i)];
            const double w = weight(e), far = q_[at(e)] - own;
            share_[at(e)] -= w * rho_ * over_ * far;
            *apart += far * far;
        }
        *moved += static_cast<double>(to - from) * (next - old) * (next - old);
        point[at(v)] = next;
    }
}

void DualSolver::variables_task(void* self, int64_t task, int) {
    DualSolver& s = *static_cast<DualSolver*>(self);
    const CutRange cut = s.variable_cut_[at(task)];
    double apart = 0.0, moved = 0.0;
    s.mean(cut.first, cut.last, &apart, &moved);
    s.cut_apart_[at(task)] = apart;
    s.cut_moved_[at(task)] = moved;
}

// Every task of a plan.
void DualSolver::each(const Plan& plan, void (*task)(void*, int64_t, int), int threads,
                      Control* control) {
    if (threads != kCaller) {
        messages::g_pool->run_plan(plan, task, this, threads, control);
    } else {
        for (int64_t t = 0; t < plan.n; ++t) task(this, t, 0);
    }
}

// Every factor takes its best point near to the variables'.
Status DualSolver::move(const Plan& factors, int threads, Control* control) {
    each(factors, factors_task, threads, control);
    if (control->stop.load() || messages::cancelled(control)) return kCancelled;
    for (uint8_t f : failed_) {
        if (f) return f == 2 ? kNoMemory : kInfeasible;
    }
    return kOk;
}

// Every variable takes the mean, `over` times as far, and shares follow.
Status DualSolver::agree(const Plan& variables, double over, int threads, Control* control) {
    over_ = over;
    each(variables, variables_task, threads, control);
    if (control->stop.load()) return kCancelled;
    const auto edges = static_cast<double>(p_.n_edges());
    double apart = 0.0, moved = 0.0;
    for (double x : cut_apart_) apart += x;
    for (double x : cut_moved_) moved += x;
    apart_ = std::sqrt(apart / edges);
    moved_ = std::sqrt(moved / edges);
    return kOk;
}

// The score of the point x_: parts where they are, pairs as well as they can be there. The point is
// in the local polytope, if no variable is in two parts.
double DualSolver::value() {
    Sum total;
    total.add(p_.base());
    for (int64_t v = 0; v < p_.n_open(); ++v) {
        const bool own = hard_[at(v)] >= 0 && covered_;
        const double x = own ? q_[at(hard_[at(v)])] : point[at(v)];
        x_[at(v)] = std::min(std::max(x, 0.0), 1.0);
        total.add(x_[at(v)] * p_.odds[at(v)]);
    }
    for (int64_t i = 0; i < p_.n_pairs(); ++i) {
        const double a = x_[at(left_[at(i)])], b = x_[at(right_[at(i)])];
        const double c = p_.couple[at(i)];
        total.add(c * (c > 0.0 ? std::min(a, b) : std::max(0.0, a + b - 1.0)));
    }
    for (const ActiveSet& active : active_) total.add(active.score());
    return total.total();
}

// The bound, the point and its states of this iterate.
Status DualSolver::assess(const Control* control) {
    double bound = 0.0;
    if (const Status s = p_.bound(outer_ ? told_.data() : share_.data(), control, &bound); s != kOk)
        return s;
    upper = std::min(upper, bound);
    scale_ = std::fabs(upper - p_.base()) + kTiny * spread_;
    if (upper < p_.lowest()) return kInfeasible;
    reached_ = value();
    for (int64_t v = 0; v < p_.n_open(); ++v) gain_[at(v)] = x_[at(v)] - 0.5;
    if (const Status s = rounding.round(gain_.data(), control); s != kOk) return s;
    bool other = false;
    for (const auto& part : p_.part) {
        for (int64_t j = 0; part->plain() && j < part->k; ++j) {
            const int64_t e = part->first + j;
            gain_[at(p_.var[at(e)])] = outer_ ? told_[at(e)] : share_[at(e)];
            other = true;
        }
    }
    if (other) {
        if (const Status s = rounding.round(gain_.data(), control); s != kOk) return s;
    }
    gap_ = std::max(std::fabs(upper - reached_) / scale_, outer_ ? outside_ : 0.0);
    if (iterations == 0) gap_ = INFINITY, reached_ = -INFINITY;  // no part has been asked
    return kOk;
}

// Whether there is nothing left to find out.
bool DualSolver::decided(double tolerance) {
    const double best = rounding.best();
    if (upper - best <= kExact * scale_) return integral = converged = true;
    if (!covered_) tolerance *= kLoose;
    const bool rest = apart_ <= tolerance && moved_ <= tolerance;
    const bool inside = !outer_ || outside_ <= tolerance;
    const double gap = covered_ && inside ? std::min(gap_, (upper - best) / scale_) : gap_;
    if (gap > tolerance || !(covered_ || rest)) return false;
    converged = true;
    if (close_ == 0) close_ = std::max<int64_t>(iterations, 1);
    // States that are as good as the point may prove to be the best ones with a closer bound.
    return reached_ > best + kExact * scale_ || iterations >= 2 * close_ + 10 * kEvery;
}

// Residuals that lie far apart say that rho is too small, or too large.
void DualSolver::adapt(double tolerance) {
    const double ratio = kApart * (1.0 + static_cast<double>(iterations) / kGrows);
    if (apart_ > ratio * moved_ && apart_ > tolerance) {
        rho_ = std::min(rho_ * kChange, kReach * spread_);
    } else if (moved_ > ratio * apart_ && moved_ > tolerance) {
        rho_ = std::max(rho_ / kChange, spread_ / kReach);
    }
}

Status DualSolver::run(double tolerance, int64_t max_iterations, int threads, Control* control) {
    control_ = control;
    if (p_.serial || p_.n_edges() < 2 * kEdgesInTask) threads = std::min(threads, 1);
    const Plan factors("factors", static_cast<int64_t>(factor_cut_.size()));
    const Plan variables("variables", static_cast<int64_t>(variable_cut_.size()));
    joining_ = kJoining;
    int64_t next = kAlone;  // iteration
    Status status = assess(control);
    while (status == kOk && !decided(tolerance) && iterations < max_iterations) {
        status = move(factors, threads, control);
        if (status == kOk) status = agree(variables, kOver, threads, control);
        control->done.store(++iterations);
        if (status != kOk) break;
        if (iterations >= next && iterations < max_iterations) {
            // Newton's method wants to know the face of every factor.
            joining_ = kJoiningNewton;
            status = polish(tolerance, max_iterations, threads, control);
            joining_ = kJoining;
            rho_ = kStep * spread_;
            next = kAgain * iterations;
        } else if (iterations % kEvery == 0 || iterations == max_iterations) {
            status = assess(control);
            adapt(tolerance);
        }
    }
    point = x_;
    return status;
}

}  // namespace vs::dual
