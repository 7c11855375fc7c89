// The last digits: shares move by the method of multipliers, and between two of its steps the point
// maximises the augmented Lagrangian
//
//   L(p) = sum_f max over f's hull of [score_f(q) + sum_e s_e q_e - rho/2 sum_e w_e (q_e - p_v)^2]
//
// by Newton's method. L is concave and smooth, with gradient rho sum_e w_e (q_e - p_v); q moves
// with p by a projection onto the faces that hold it, so that the second derivative is -rho sum_e
// w_e (I - projection), asked for by conjugate gradients only in products with vectors.
#include "dual/solver.h"
#include "messages/network.h"

namespace vs::dual {
namespace {

constexpr double kGrow = 2.0, kMost = 100.0;  // rho, by the median score
constexpr double kInner = 0.1;   // of the disagreement: the gradient at which a step ends
constexpr double kFirst = 1e-3;  // that of the first step
constexpr int kSteps = 20, kHalves = 12, kDirections = 60;
constexpr double kDirection = 0.1;  // the residual at which conjugate gradients end
constexpr double kRise = 1e-4;      // of the slope: the least rise of L
constexpr double kRidge = 1e-6;     // of the diagonal
constexpr int kIdle = 8;            // steps without a smaller gap after which it gives up

}  // namespace

// L at the point, and the best points of all factors there.
Status Solver::evaluate(int threads, Control* control, double* value) {
    ++iterations;
    const Plan factors("factors", static_cast<int64_t>(factor_cut_.size()));
    if (const Status s = move(factors, threads, control); s != kOk) return s;
    control->done.store(iterations);
    double total = 0.0;
    for (int64_t e = 0; e < p_.n_edges(); ++e) {
        const double far = q_[at(e)] - point[at(p_.var[at(e)])];
        total += share_[at(e)] * q_[at(e)] - 0.5 * rho_ * weight(e) * far * far;
    }
    for (int64_t i = 0; i < p_.n_pairs(); ++i) {
        const double a = q_[at(2 * i)], b = q_[at(2 * i + 1)], c = p_.couple[at(i)];
        total += c * (c > 0.0 ? std::min(a, b) : std::max(0.0, a + b - 1.0));
    }
    for (const ActiveSet& active : active_) total += active.score();
    *value = total;
    return kOk;
}

// The gradient over rho; its weighted norm.
double Solver::gradient() {
    std::fill(slope_.begin(), slope_.end(), 0.0);
    for (int64_t e = 0; e < p_.n_edges(); ++e) {
        const int32_t v = p_.var[at(e)];
        slope_[at(v)] += weight(e) * (q_[at(e)] - point[at(v)]);
    }
    double norm = 0.0;
    for (int64_t v = 0; v < p_.n_open(); ++v) {
        norm += slope_[at(v)] * slope_[at(v)] / weights_[at(v)];
    }
    return std::sqrt(norm / static_cast<double>(p_.n_edges()));
}

// The faces of pairs: a place moves with its target, or stays; or both are tied, and each moves
// with half of both.
void Solver::face() {
    const double inverse = 1.0 / rho_;
    diagonal_ = weights_;
    tied_.clear();
    for (int64_t i = 0; i < p_.n_pairs(); ++i) {
        const int32_t l = p_.var[at(2 * i)], r = p_.var[at(2 * i + 1)];
        const double a = point[at(l)] + inverse * share_[at(2 * i)];
        const double b = point[at(r)] + inverse * share_[at(2 * i + 1)];
        const double c = inverse * p_.couple[at(i)], w = std::fabs(c);
        const double x = c < 0.0 ? a + c : a, y = c < 0.0 ? 1.0 - b : b, apart = 0.5 * (w - x + y);
        const bool left = q_[at(2 * i)] > 0.0 && q_[at(2 * i)] < 1.0;
        const bool right = q_[at(2 * i + 1)] > 0.0 && q_[at(2 * i + 1)] < 1.0;
        if (apart > 0.0 && apart < w) {
            if (!left) continue;
            diagonal_[at(l)] -= 0.5;
            diagonal_[at(r)] -= 0.5;
            tied_.push_back({l, r, c < 0.0 ? -0.5 : 0.5});
        } else {
            if (left) diagonal_[at(l)] -= 1.0;
            if (right) diagonal_[at(r)] -= 1.0;
        }
    }
}

// out (open,): sum_e w_e (I - projection) d.
void Solver::curve(const double* d, double* out) {
    for (int64_t v = 0; v < p_.n_open(); ++v) {
        out[v] = (diagonal_[at(v)] + kRidge * weights_[at(v)]) * d[v];
    }
    for (const Tied& t : tied_) {
        out[t.a] -= t.half * d[t.b];
        out[t.b] -= t.half * d[t.a];
    }
    for (size_t i = 0; i < p_.part.size(); ++i) {
        const Part& part = *p_.part[i];
        double *in = target_.data() + part.first, *to = moved_q_.data() + part.first;
        for (int64_t j = 0; j < part.k; ++j) in[j] = d[p_.var[at(part.first + j)]];
        active_[i].follow(in, part.k, to);
        for (int64_t j = 0; j < part.k; ++j) out[p_.var[at(part.first + j)]] -= weight_ * to[j];
    }
}

// step_ (open,): Newton's, by conjugate gradients with the diagonal of weights.
Status Solver::direct(const Control* control) {
    const int64_t n = p_.n_open();
    std::vector<double> left(slope_), scaled(at(n)), along(at(n)), curved(at(n));
    std::fill(step_.begin(), step_.end(), 0.0);
    double size = 0.0;
    for (int64_t v = 0; v < n; ++v) {
        along[at(v)] = left[at(v)] / weights_[at(v)];
        size += left[at(v)] * along[at(v)];
    }
    const double enough = kDirection * kDirection * size;
    for (int k = 0; k < kDirections && size > enough; ++k) {
        if (messages::cancelled(control)) return kCancelled;
        curve(along.data(), curved.data());
        double bend = 0.0;
        for (int64_t v = 0; v < n; ++v) bend += along[at(v)] * curved[at(v)];
        if (!(bend > 0.0)) break;
        const double length = size / bend, before = size;
        size = 0.0;
        for (int64_t v = 0; v < n; ++v) {
            step_[at(v)] += length * along[at(v)];
            left[at(v)] -= length * curved[at(v)];
            scaled[at(v)] = left[at(v)] / weights_[at(v)];
            size += left[at(v)] * scaled[at(v)];
        }
        for (int64_t v = 0; v < n; ++v) along[at(v)] = scaled[at(v)] + size / before * along[at(v)];
    }
    return kOk;
}

// Newton's method on L until the gradient is small.
Status Solver::climb(double enough, int64_t max_iterations, int threads, Control* control) {
    const int64_t n = p_.n_open();
    double now = 0.0;
    if (const Status s = evaluate(threads, control, &now); s != kOk) return s;
    double norm = gradient();
    for (int k = 0; k < kSteps && norm > enough && iterations < max_iterations; ++k) {
        face();
        if (const Status s = direct(control); s != kOk) return s;
        double slope = 0.0, far = 1.0;
        for (int64_t v = 0; v < n; ++v) {
            slope += rho_ * slope_[at(v)] * step_[at(v)];
            far = std::max(far, std::fabs(step_[at(v)]));
        }
        before_ = point;
        bool risen = false;
        double length = 1.0 / far;  // points lie between 0 and 1
        for (int half = 0; half < kHalves && !risen; ++half, length *= 0.5) {
            for (int64_t v = 0; v < n; ++v) {
                point[at(v)] = before_[at(v)] + length * step_[at(v)];
            }
            double next = 0.0;
            if (const Status s = evaluate(threads, control, &next); s != kOk) return s;
            risen = next >= now + kRise * length * slope - 1e-12 * std::fabs(now);
            if (risen) now = next;
            if (iterations >= max_iterations) break;
        }
        if (!risen) {
            point = before_;
            return evaluate(threads, control, &now);
        }
        norm = gradient();
    }
    return kOk;
}

// Leaves where everything is decided, or where it gets no further.
Status Solver::polish(double tolerance, int64_t max_iterations, int threads, Control* control) {
    const int64_t n = p_.n_open();
    weights_.assign(at(n), 0.0);
    for (int64_t e = 0; e < p_.n_edges(); ++e) weights_[at(p_.var[at(e)])] += weight(e);
    for (double& w : weights_) w = w > 0.0 ? w : 1.0;
    moved_q_.assign(at(p_.n_edges()), 0.0);
    slope_.assign(at(n), 0.0);
    step_.assign(at(n), 0.0);
    double enough = kFirst, best = gap_;
    for (int idle = 0; idle < kIdle && iterations < max_iterations; ++idle) {
        if (const Status s = climb(enough, max_iterations, threads, control); s != kOk) return s;
        const Plan variables("variables", static_cast<int64_t>(variable_cut_.size()));
        if (const Status s = agree(variables, 1.0, threads, control); s != kOk) return s;
        if (const Status s = assess(control); s != kOk) return s;
        if (decided(tolerance)) return kOk;
        if (gap_ < 0.9 * best) best = gap_, idle = -1;
        rho_ = std::min(rho_ * kGrow, kMost * spread_);
        enough = std::min(enough, kInner * apart_);
    }
    return kOk;
}

}  // namespace vs::dual
