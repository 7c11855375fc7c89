// The last digits: shares move by the method of multipliers, and between two of its steps the point
// maximises the augmented Lagrangian
//
//   L(p) = sum_f max over f's hull of [score_f(q) + sum_e s_e q_e - rho/2 sum_e w_e (q_e - p_v)^2]
//
// by Newton's method. L is concave and smooth, with gradient rho sum_e w_e (q_e - p_v); q moves
// with p by a projection onto the faces that hold it, so that the second derivative is -rho sum_e
// w_e (I - projection), asked for by conjugate gradients only in products with vectors.
//
// Trees are held from outside here: by a hull in which every word has one head, and by cuts, each a
// factor of its own, whose share is -weight for all of its arcs:
//
//   max over a . q >= 1 of [-weight a . q - r/2 (a . (q - p))^2]
//       = -(pull^2 - weight^2) / 2 r - weight a . p,   pull = max(0, weight + r (1 - a . p)).
//
// Trees get the sum of both as their scores, so that the bound is that of trees.
#include <algorithm>

#include "dual/solver.h"
#include "messages/network.h"

namespace vs::dual {
namespace {

constexpr double kGrow = 2.0, kMost = 100.0;  // rho, by the median score
constexpr int64_t kFew = 6;                   // iterations of a step after which rho grows
constexpr double kInner = 0.1;   // of the disagreement: the gradient at which a step ends
constexpr double kFirst = 1e-3;  // that of the first step
constexpr int kSteps = 20, kDirections = 60;
constexpr double kDirection = 0.1;  // the residual at which conjugate gradients end
constexpr double kScaling = 0.03;   // of the weights: the least scaling
// The ridge, by the weights: it grows after a step that is short, and falls after a whole one.
constexpr double kRidge = 1e-6, kRidgeMost = 1e-2, kWorse = 100.0, kBetter = 10.0;
constexpr int kTrials = 12, kPatient = 4;    // of lengths; those after which any rise will do
constexpr double kFlat = 0.5, kRise = 1e-3;  // of the slope: what is flat enough; the least rise
constexpr double kEdge = 0.2;                // the least share of an interval that a trial cuts
constexpr double kCut = 1.0;                 // step of a cut's weight, by the root of its arcs
constexpr double kViolated = 1e-7;           // what a cut lacks that is added
constexpr double kTied = 1e-12;              // places of a pair that are one but for rounding
constexpr double kTight = 1e-13;             // a point that lies beyond a plane
constexpr int kIdle = 8;                     // steps without progress after which it gives up

}  // namespace

template <class F>
void DualSolver::each_cut(F&& f) {
    for (size_t i = 0; outer_ && i < cuts_.size(); ++i) {
        if (!cuts_[i]) continue;
        for (TreeCuts::Cut& cut : cuts_[i]->cuts) f(cut, p_.var.data() + p_.part[i]->first);
    }
}

// r of a cut.
double DualSolver::cut_step(const TreeCuts::Cut& cut) const {
    return kCut * rho_ * weight_ / std::sqrt(static_cast<double>(cut.arcs.size()));
}

// The pull of cuts at the point, pull_; returns their part of L.
double DualSolver::pull_cuts() {
    if (!outer_) return 0.0;
    std::fill(pull_.begin(), pull_.end(), 0.0);
    double total = 0.0;
    each_cut([&](TreeCuts::Cut& cut, const int32_t* var) {
        double sum = 0.0;
        for (int32_t a : cut.arcs) sum += point[at(var[a])];
        const double r = cut_step(cut);
        cut.pull = cut.weight + r * (1.0 - sum);
        if (!cut.equal) cut.pull = std::max(cut.pull, 0.0);
        total -= (cut.pull * cut.pull - cut.weight * cut.weight) / (2.0 * r) + cut.weight * sum;
        for (int32_t a : cut.arcs) pull_[at(var[a])] += (cut.pull - cut.weight) / rho_;
    });
    return total;
}

// Trees are held by cuts from now on: at first by those that prove what they are told.
void DualSolver::open_cuts() {
    cuts_.resize(p_.part.size());
    for (size_t i = 0; i < p_.part.size(); ++i) {
        factors::Arcs arcs;
        if (!p_.part[i]->all_trees(&arcs)) continue;
        cuts_[i] = std::make_unique<TreeCuts>(arcs);
        cuts_[i]->prove(share_.data() + p_.part[i]->first);
        outer_ = true;
    }
    pull_.assign(at(p_.n_open()), 0.0);
    told_ = share_;
    for (size_t i = 0; i < cuts_.size(); ++i) {
        if (!cuts_[i]) continue;
        for (const TreeCuts::Cut& cut : cuts_[i]->cuts) {
            for (int32_t a : cut.arcs) share_[at(p_.part[i]->first + a)] += cut.weight;
        }
    }
}

// Trees have their corners again.
void DualSolver::close_cuts() {
    if (!outer_) return;
    share_ = told_;
    outer_ = false;
    cuts_.clear();
}

// Weights follow their cuts; and cuts that the point of the trees violates join.
void DualSolver::separate() {
    if (!outer_) return;
    outside_ = 0.0;
    each_cut([](TreeCuts::Cut& cut, const int32_t*) { cut.weight = cut.pull; });
    told_ = share_;
    for (size_t i = 0; i < cuts_.size(); ++i) {
        if (!cuts_[i]) continue;
        const int64_t first = p_.part[i]->first;
        for (const TreeCuts::Cut& cut : cuts_[i]->cuts) {
            for (int32_t a : cut.arcs) told_[at(first + a)] -= cut.weight;
        }
        outside_ = std::max(outside_, cuts_[i]->separate(q_.data() + first, kViolated));
    }
}

// L at the point, and the best points of all factors there.
Status DualSolver::evaluate(int threads, Control* control, double* value) {
    ++iterations;
    const Plan factors("factors", static_cast<int64_t>(factor_cut_.size()));
    if (const Status s = move(factors, threads, control); s != kOk) return s;
    control->done.store(iterations);
    double total = 0.0, near = 0.0;
    for (const PairSums& sum : sums_) total += sum.value, near += sum.far;
    const int32_t* var = p_.var.data();
    const double *p = point.data(), *share = share_.data(), *q = q_.data();
    for (int64_t e = 2 * p_.n_pairs(); e < p_.n_edges(); ++e) {
        const double far = q[e] - p[var[e]];
        total += share[e] * q[e];
        near += weight_ * far * far;
    }
    total -= 0.5 * rho_ * near;
    for (const ActiveSet& active : active_) total += active.score();
    *value = total + pull_cuts();
    return kOk;
}

// The gradient over rho; its weighted norm.
double DualSolver::gradient() {
    std::fill(slope_.begin(), slope_.end(), 0.0);
    const int32_t* var = p_.var.data();
    const double *p = point.data(), *q = q_.data();
    double* slope = slope_.data();
    for (int64_t e = 0; e < 2 * p_.n_pairs(); ++e) slope[var[e]] += q[e] - p[var[e]];
    for (int64_t e = 2 * p_.n_pairs(); e < p_.n_edges(); ++e) {
        slope[var[e]] += weight_ * (q[e] - p[var[e]]);
    }
    for (int64_t v = 0; outer_ && v < p_.n_open(); ++v) slope_[at(v)] += pull_[at(v)];
    double norm = 0.0;
    for (int64_t v = 0; v < p_.n_open(); ++v) {
        norm += slope_[at(v)] * slope_[at(v)] / weights_[at(v)];
    }
    return std::sqrt(norm / static_cast<double>(p_.n_edges()));
}

// The faces of pairs: a place moves with its target, or stays; or both are tied, and each moves
// with half of both.
void DualSolver::face() {
    diagonal_ = weights_;
    tied_.clear();
    planes_.clear();
    normal_.clear();
    for (int64_t i = 0; i < p_.n_pairs(); ++i) {
        const double left = q_[at(i)], right = q_[at(i + p_.n_pairs())];
        const bool moves = left > 0.0 && left < 1.0, other = right > 0.0 && right < 1.0;
        const int32_t l = left_[at(i)], r = right_[at(i)];
        const double turn = std::copysign(0.5, couple_[at(i)]);
        if (moves && other && std::fabs(left - 0.5 - 2.0 * turn * (right - 0.5)) < kTied) {
            diagonal_[at(l)] -= 0.5;
            diagonal_[at(r)] -= 0.5;
            tied_.push_back({l, r, turn});
        } else {
            if (moves) diagonal_[at(l)] -= 1.0;
            if (other) diagonal_[at(r)] -= 1.0;
        }
    }
    for (size_t i = 0; i < p_.part.size(); ++i) {
        const int64_t first = p_.part[i]->first;
        if (outer_ && cuts_[i]) {
            cuts_[i]->each_row([&](const int32_t* arc, int64_t count) {
                add_plane(count, true, [&](int64_t j) { return first + arc[j]; });
            });
        } else if (projects_[i]) {
            add_plane(p_.part[i]->k, false, [&](int64_t j) { return first + j; });
        }
    }
    precondition();
}

// The face of a cube cut by a plane, with a normal of entries 1 and -1, at the places edge(0), ...
// Entries between 0 and 1 move with their targets, but not along the normal: along that the point
// was moved onto the plane. `tight`: all entries are 1, and it lies on the plane.
template <class F>
void DualSolver::add_plane(int64_t count, bool tight, const F& edge) {
    const auto first = static_cast<int64_t>(normal_.size());
    double far = tight ? 1.0 : 0.0;
    for (int64_t j = 0; j < count; ++j) {
        const int64_t e = edge(j);
        if (q_[at(e)] <= 0.0 || q_[at(e)] >= 1.0) continue;
        const double away = target_[at(e)] - q_[at(e)];
        diagonal_[at(p_.var[at(e)])] -= weight_;
        normal_.push_back({p_.var[at(e)], tight || away > 0.0 ? 1.0 : -1.0});
        far = std::max(far, std::fabs(away));
    }
    if (far > kTight && static_cast<int64_t>(normal_.size()) > first) {
        planes_.push_back({first, static_cast<int64_t>(normal_.size())});
    } else {
        normal_.resize(at(first));
    }
}

// scaling_ (open,): the diagonal of the second derivative, near enough.
void DualSolver::precondition() {
    scaling_ = diagonal_;
    for (const CutRange& plane : planes_) {
        const double own = weight_ / static_cast<double>(plane.last - plane.first);
        for (int64_t j = plane.first; j < plane.last; ++j) {
            scaling_[at(normal_[at(j)].variable)] += own;
        }
    }
    each_cut([&](TreeCuts::Cut& cut, const int32_t* var) {
        if (!cut.equal && cut.pull <= 0.0) return;
        for (int32_t a : cut.arcs) scaling_[at(var[a])] += cut_step(cut) / rho_;
    });
    for (int64_t v = 0; v < p_.n_open(); ++v) {
        scaling_[at(v)] = std::max(scaling_[at(v)], kScaling * weights_[at(v)]);
    }
}

// out (open,): sum_e w_e (I - projection) d.
void DualSolver::curve(const double* d, double* out) {
    for (int64_t v = 0; v < p_.n_open(); ++v) {
        out[v] = (diagonal_[at(v)] + ridge_ * weights_[at(v)]) * d[v];
    }
    for (const Tied& t : tied_) {
        out[t.a] -= t.half * d[t.b];
        out[t.b] -= t.half * d[t.a];
    }
    for (const CutRange& plane : planes_) {
        double along = 0.0;
        for (int64_t j = plane.first; j < plane.last; ++j) {
            along += normal_[at(j)].sign * d[normal_[at(j)].variable];
        }
        along *= weight_ / static_cast<double>(plane.last - plane.first);
        for (int64_t j = plane.first; j < plane.last; ++j) {
            out[normal_[at(j)].variable] += normal_[at(j)].sign * along;
        }
    }
    for (size_t i = 0; i < p_.part.size(); ++i) {
        if (projects_[i] || (outer_ && cuts_[i])) continue;
        const Part& part = *p_.part[i];
        double *in = target_.data() + part.first, *to = moved_q_.data() + part.first;
        for (int64_t j = 0; j < part.k; ++j) in[j] = d[p_.var[at(part.first + j)]];
        active_[i].follow(in, part.k, to);
        for (int64_t j = 0; j < part.k; ++j) out[p_.var[at(part.first + j)]] -= weight_ * to[j];
    }
    each_cut([&](TreeCuts::Cut& cut, const int32_t* var) {
        if (!cut.equal && cut.pull <= 0.0) return;
        double along = 0.0;
        for (int32_t a : cut.arcs) along += d[var[a]];
        along *= cut_step(cut) / rho_;
        for (int32_t a : cut.arcs) out[var[a]] += along;
    });
}

// step_ (open,): Newton's, by conjugate gradients.
Status DualSolver::direct(const Control* control) {
    const int64_t n = p_.n_open();
    std::vector<double> left(slope_), scaled(at(n)), along(at(n)), curved(at(n));
    std::fill(step_.begin(), step_.end(), 0.0);
    double size = 0.0;
    for (int64_t v = 0; v < n; ++v) {
        along[at(v)] = left[at(v)] / scaling_[at(v)];
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
            scaled[at(v)] = left[at(v)] / scaling_[at(v)];
            size += left[at(v)] * scaled[at(v)];
        }
        for (int64_t v = 0; v < n; ++v) along[at(v)] = scaled[at(v)] + size / before * along[at(v)];
    }
    return kOk;
}

// Newton's method on L until the gradient is small.
Status DualSolver::climb(double enough, int64_t max_iterations, int threads, Control* control) {
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
        if (!(slope > 0.0)) return kOk;
        before_ = point;
        // L is concave along the step: its slope falls from `slope` through 0.
        double low = 0.0, high = INFINITY, at_low = slope, at_high = 0.0, here = 1.0 / far;
        bool risen = false;
        for (int tried = 0; tried < kTrials && !risen; ++tried) {
            for (int64_t v = 0; v < n; ++v) point[at(v)] = before_[at(v)] + here * step_[at(v)];
            double next = 0.0, ahead = 0.0;
            if (const Status s = evaluate(threads, control, &next); s != kOk) return s;
            norm = gradient();
            for (int64_t v = 0; v < n; ++v) ahead += rho_ * slope_[at(v)] * step_[at(v)];
            risen = std::fabs(ahead) <= kFlat * slope || (ahead > 0.0 && here == 1.0 / far) ||
                    (tried >= kPatient && next >= now + kRise * here * slope);
            if (risen) {
                now = next;
            } else {
                if (ahead > 0.0) {
                    low = here, at_low = ahead;
                } else {
                    high = here, at_high = ahead;
                }
                const double share = std::clamp(at_low / (at_low - at_high), kEdge, 1.0 - kEdge);
                here = low + share * (high - low);
            }
            if (iterations >= max_iterations) break;
        }
        if (here < 0.5) ridge_ = std::min(ridge_ * kWorse, kRidgeMost);
        if (here >= 1.0) ridge_ = std::max(ridge_ / kBetter, kRidge);
        if (!risen) return kOk;
    }
    return kOk;
}

// Leaves where everything is decided, or where it gets no further.
Status DualSolver::polish(double tolerance, int64_t max_iterations, int threads, Control* control) {
    const int64_t n = p_.n_open();
    weights_.assign(at(n), 0.0);
    for (int64_t e = 0; e < p_.n_edges(); ++e) weights_[at(p_.var[at(e)])] += weight(e);
    for (double& w : weights_) w = w > 0.0 ? w : 1.0;
    moved_q_.assign(at(p_.n_edges()), 0.0);
    slope_.assign(at(n), 0.0);
    step_.assign(at(n), 0.0);
    open_cuts();
    ridge_ = kRidge;
    double enough = kFirst, best = gap_, rest = INFINITY;
    for (int idle = 0; idle < kIdle && iterations < max_iterations; ++idle) {
        const int64_t before = iterations;
        if (const Status s = climb(enough, max_iterations, threads, control); s != kOk) return s;
        const Plan variables("variables", static_cast<int64_t>(variable_cut_.size()));
        if (const Status s = agree(variables, 1.0, threads, control); s != kOk) return s;
        separate();
        if (const Status s = assess(control); s != kOk) return s;
        if (decided(tolerance)) return kOk;
        if (gap_ < 0.9 * best) best = gap_, idle = -1;
        if (apart_ + outside_ < 0.9 * rest) rest = apart_ + outside_, idle = -1;
        if (iterations - before <= kFew) rho_ = std::min(rho_ * kGrow, kMost * spread_);
        enough = iterations == before + 1 ? kInner * enough : std::min(enough, kInner * apart_);
    }
    close_cuts();
    return kOk;
}

}  // namespace vs::dual
