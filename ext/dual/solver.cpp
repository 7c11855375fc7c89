#include "dual/solver.h"

#include <new>

#include "messages/network.h"

namespace vs::dual {
namespace {

constexpr int64_t kPairsInTask = 4096, kEdgesInTask = 8192;

// The best point of a pair: the nearest to (a, b) with c y_a y_b, for c < 0 with b turned round.
//   z_a = clamp(a + clamp((c - a + b) / 2, 0, c), 0, 1), z_b likewise.
inline void pair_point(double a, double b, double c, double* qa, double* qb) {
    const bool turned = c < 0.0;
    const double w = std::fabs(c), x = turned ? a + c : a, y = turned ? 1.0 - b : b;
    const double da = 0.5 * (w - x + y), db = 0.5 * (w + x - y);
    const double za = x + std::min(std::max(da, 0.0), w), zb = y + std::min(std::max(db, 0.0), w);
    const double ua = std::min(std::max(za, 0.0), 1.0), ub = std::min(std::max(zb, 0.0), 1.0);
    *qa = ua;
    *qb = turned ? 1.0 - ub : ub;
}

}  // namespace

Solver::Solver(const Problem& problem) : rounding(problem), p_(problem) {
    const int64_t n = p_.n_open(), edges = p_.n_edges(), pairs = p_.n_pairs();
    share_.assign(at(edges), 0.0);
    q_.assign(at(edges), 0.0);
    target_.assign(at(edges), 0.0);
    corner_.assign(at(edges), 0);
    point.assign(at(n), 0.5);
    next_.assign(at(n), 0.5);
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
    for (int64_t i = 0; i < pairs; i += kPairsInTask) {
        factor_cut_.push_back({i, std::min(pairs, i + kPairsInTask)});
    }
    int64_t work = 0, first = 0;
    const auto parts = static_cast<int64_t>(p_.part.size());
    for (int64_t i = 0; i < parts; ++i) {
        work += p_.part[at(i)]->k;
        if (work < kEdgesInTask / 32 && i + 1 < parts) continue;
        factor_cut_.push_back({pairs + first, pairs + i + 1});
        first = i + 1, work = 0;
    }
    first = 0;
    for (int64_t v = 0; v < n; ++v) {
        if (p_.var_ptr[at(v + 1)] - p_.var_ptr[at(first)] < kEdgesInTask && v + 1 < n) continue;
        variable_cut_.push_back({first, v + 1});
        first = v + 1;
    }
    primal_.assign(variable_cut_.size(), 0.0);
    dual_.assign(variable_cut_.size(), 0.0);
    failed_.assign(factor_cut_.size(), 0);
}

// Odds go to the parts of a variable, if it has any: pairs move their variables by little.
void Solver::start(const Options& options) {
    const int64_t pairs = 2 * p_.n_pairs();
    double size = 0.0, count = 0.0;
    for (int64_t v = 0; v < p_.n_open(); ++v) {
        const int64_t first = p_.var_ptr[at(v)], last = p_.var_ptr[at(v + 1)];
        int64_t parts = 0;
        for (int64_t i = first; i < last; ++i) parts += p_.var_edge[at(i)] >= pairs;
        const auto among = static_cast<double>(parts ? parts : last - first);
        for (int64_t i = first; i < last; ++i) {
            const int64_t e = p_.var_edge[at(i)];
            share_[at(e)] = parts && e < pairs ? 0.0 : p_.odds[at(v)] / among;
        }
        if (first == last) point[at(v)] = p_.odds[at(v)] > 0.0;
        size += std::fabs(p_.odds[at(v)]), count += 1.0;
    }
    for (double c : p_.couple) size += std::fabs(c), count += 1.0;
    for (const auto& part : p_.part) size += part->size(), count += !part->plain();
    spread_ = count > 0.0 && size > 0.0 ? size / count : 1.0;
    rho_ = options.step * spread_;
    over_ = options.over;
    limit_ = options.limit;
}

void Solver::move_pairs(int64_t first, int64_t last) {
    const double inverse = 1.0 / rho_;
    for (int64_t i = first; i < last; ++i) {
        const double a = point[at(p_.var[at(2 * i)])] + inverse * share_[at(2 * i)];
        const double b = point[at(p_.var[at(2 * i + 1)])] + inverse * share_[at(2 * i + 1)];
        pair_point(a, b, inverse * p_.couple[at(i)], &q_[at(2 * i)], &q_[at(2 * i + 1)]);
    }
}

bool Solver::move_part(int64_t i) {
    Part& part = *p_.part[at(i)];
    const double inverse = 1.0 / rho_;
    double *target = target_.data() + part.first, *q = q_.data() + part.first;
    for (int64_t j = 0; j < part.k; ++j) {
        target[j] = point[at(p_.var[at(part.first + j)])] + inverse * share_[at(part.first + j)];
    }
    if (projects_[at(i)]) {
        std::copy(target, target + part.k, q);
        if (part.project(q)) return true;
        projects_[at(i)] = 0;
    }
    return active_[at(i)].nearest(&part, target, inverse, limit_, q);
}

void Solver::factors_task(void* self, int64_t task, int) {
    Solver& s = *static_cast<Solver*>(self);
    const int64_t pairs = s.p_.n_pairs();
    const Cut cut = s.factor_cut_[at(task)];
    if (cut.first < pairs) return s.move_pairs(cut.first, cut.last);
    try {
        for (int64_t i = cut.first; i < cut.last; ++i) {
            if (!s.move_part(i - pairs)) s.failed_[at(task)] = 1;
        }
    } catch (const std::bad_alloc&) {
        s.failed_[at(task)] = 2;
    }
}

void Solver::mean(int64_t first, int64_t last, double* primal, double* dual) {
    double far = 0.0, moved = 0.0;
    for (int64_t v = first; v < last; ++v) {
        const int64_t from = p_.var_ptr[at(v)], to = p_.var_ptr[at(v + 1)];
        if (from == to) continue;
        const double old = point[at(v)];
        double sum = 0.0;
        for (int64_t i = from; i < to; ++i) sum += q_[at(p_.var_edge[at(i)])];
        const auto degree = static_cast<double>(to - from);
        const double own = sum / degree, next = over_ * own + (1.0 - over_) * old;
        for (int64_t i = from; i < to; ++i) {
            const int64_t e = p_.var_edge[at(i)];
            const double apart = q_[at(e)] - own;
            share_[at(e)] -= rho_ * over_ * apart;
            far += apart * apart;
        }
        moved += degree * (next - old) * (next - old);
        point[at(v)] = next;
    }
    *primal = far;
    *dual = moved;
}

void Solver::variables_task(void* self, int64_t task, int) {
    Solver& s = *static_cast<Solver*>(self);
    const Cut cut = s.variable_cut_[at(task)];
    s.mean(cut.first, cut.last, &s.primal_[at(task)], &s.dual_[at(task)]);
}

// The score of the point x_: parts where they are, pairs as well as they can be there. Of a point
// of the local polytope, if no variable is in two parts.
double Solver::value() {
    Sum total;
    total.add(p_.base());
    for (int64_t v = 0; v < p_.n_open(); ++v) {
        const double x = hard_[at(v)] >= 0 && covered_ ? q_[at(hard_[at(v)])] : point[at(v)];
        x_[at(v)] = std::min(std::max(x, 0.0), 1.0);
        total.add(x_[at(v)] * p_.odds[at(v)]);
    }
    for (int64_t i = 0; i < p_.n_pairs(); ++i) {
        const double a = x_[at(p_.var[at(2 * i)])], b = x_[at(p_.var[at(2 * i + 1)])];
        const double c = p_.couple[at(i)];
        total.add(c * (c > 0.0 ? std::min(a, b) : std::max(0.0, a + b - 1.0)));
    }
    for (size_t i = 0; i < p_.part.size(); ++i) {
        if (!p_.part[i]->plain()) total.add(active_[i].score());
    }
    return total.total();
}

// Bound, states and value of this iterate; true: they meet.
bool Solver::assess(const Options& options) {
    const double now = p_.bound(share_.data(), corner_.data());
    if (now < upper) upper = now;
    const double reached = value();
    for (int64_t v = 0; v < p_.n_open(); ++v) gain_[at(v)] = x_[at(v)] - 0.5;
    rounding.round(gain_.data());
    for (const auto& part : p_.part) {
        if (!part->plain()) continue;
        for (int64_t j = 0; j < part->k; ++j) {
            const int64_t e = part->first + j;
            gain_[at(p_.var[at(e)])] = share_[at(e)];
        }
    }
    rounding.round(gain_.data());
    const double scale = std::fabs(upper - p_.base()) + spread_;
    trace.push_back(static_cast<double>(iterations));
    trace.push_back(upper);
    trace.push_back(reached);
    trace.push_back(rounding.best());
    trace.push_back(rho_ / spread_);
    int64_t c=0,so=0,j=0; for(auto&a:active_){c+=a.corners();so+=a.solves;j+=a.joins;}
 trace.push_back(c);trace.push_back(so);trace.push_back(j);

    gap_ = std::fabs(upper - reached) / scale;
    integral = upper - rounding.best() <= 0.1 * options.tolerance * scale;
    return integral || (covered_ && gap_ <= options.tolerance);
}

Status Solver::run(const Options& options, int threads, Control* control) {
    start(options);
    if (p_.serial || p_.n_edges() < 2 * kEdgesInTask) threads = 1;
    const double edges = static_cast<double>(std::max<int64_t>(p_.n_edges(), 1));
    const Plan factors("factors", static_cast<int64_t>(factor_cut_.size()));
    const Plan variables("variables", static_cast<int64_t>(variable_cut_.size()));
    if (p_.n_edges() == 0) {
        assess(options);
        converged = true;
        point = x_;
        return kOk;
    }
    for (iterations = 1; iterations <= options.max_iterations; ++iterations) {
        messages::g_pool->run_plan(factors, factors_task, this, threads, control);
        if (control->stop.load() || messages::cancelled(control)) return kCancelled;
        for (uint8_t f : failed_) {
            if (f) return f == 2 ? kNoMemory : kInfeasible;
        }
        messages::g_pool->run_plan(variables, variables_task, this, threads, control);
        if (control->stop.load()) return kCancelled;
        double primal = 0.0, dual = 0.0;
        for (double x : primal_) primal += x;
        for (double x : dual_) dual += x;
        primal = std::sqrt(primal / edges);
        dual = std::sqrt(dual / edges);
        control->done.store(iterations);
        const bool rest = primal <= options.tolerance && dual <= options.tolerance;
        if (iterations % options.every == 0 || rest || iterations == options.max_iterations) {
            if (assess(options) || (rest && gap_ <= options.tolerance)) {
                converged = true;
                break;
            }
            if (upper < p_.lowest()) return kInfeasible;
            trace.push_back(primal);
            trace.push_back(dual);
            if (primal > options.ratio * dual) rho_ *= options.grow;
            if (dual > options.ratio * primal) rho_ /= options.grow;
        }
    }
    iterations = std::min(iterations, options.max_iterations);
    point = x_;
    return kOk;
}

}  // namespace vs::dual
