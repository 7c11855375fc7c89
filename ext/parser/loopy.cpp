#include "parser/loopy.h"

#include <algorithm>
#include <cmath>

namespace vs::parser {
namespace {

constexpr double kModest = 30.0;  // potentials whose exponentials are no large numbers

double softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x))); }

// log (1 + e^(b + theta)) / (1 + e^b): what a pair tells one arc where the other has log-odds b.
double message(double theta, double b) {
    if (std::fabs(theta) < kModest) return std::log1p(logistic(b) * std::expm1(theta));
    return softplus(b + theta) - softplus(b);
}

}  // namespace

double Loopy::sum(const Parts& parts, const double* potentials, const Trees& trees) {
    const int64_t n = parts.n, arcs = parts.arcs();
    total_.assign(potentials, potentials + arcs);
    const double* to = messages.data();
    for (const auto* pairs : {&parts.siblings, &parts.grandparents}) {
        for (const Parts::Pair& p : *pairs) {
            total_[at(p.first)] += *to++;
            total_[at(p.second)] += *to++;
        }
    }
    table_.assign(at((n + 1) * (n + 1)), -INFINITY);
    ratio_.resize(table_.size());
    const auto place = [&](int64_t a) {
        return at(parts.head[at(a)] * (n + 1) + parts.modifier[at(a)]);
    };
    for (int64_t a = 0; a < arcs; ++a) table_[place(a)] = total_[at(a)];
    trees::Arcs out;
    out.ratio = ratio_.data();
    const trees::Sentence s{table_.data(), n, trees.single_root};
    const double log_z = trees.api->marginals(trees.kind, s, out, scratch_.data());
    for (int64_t a = 0; a < arcs; ++a) {
        total_[at(a)] = std::clamp(total_[at(a)] + ratio_[place(a)], -kMostOdds, kMostOdds);
    }
    return log_z;
}

double Loopy::send(const Parts& parts, const double* theta) {
    const double keep = effort.damping;
    double change = 0.0;
    double* to = messages.data();
    for (const auto* pairs : {&parts.siblings, &parts.grandparents}) {
        for (const Parts::Pair& p : *pairs) {
            double x = message(*theta, total_[at(p.second)] - to[1]);
            double y = message(*theta, total_[at(p.first)] - to[0]);
            x += keep * (to[0] - x);
            y += keep * (to[1] - y);
            change = std::max({change, std::fabs(x - to[0]), std::fabs(y - to[1])});
            to[0] = x;
            to[1] = y;
            to += 2;
            ++theta;
        }
    }
    return change;
}

double Loopy::run(const Parts& parts, const double* potentials, const Trees& trees, double* beliefs,
                  bool more) {
    const int64_t arcs = parts.arcs(), pairs = parts.size() - arcs;
    const int64_t wanted = trees.api->scratch_size(trees.kind, parts.n);
    if (static_cast<int64_t>(scratch_.size()) < wanted) scratch_.resize(at(wanted));
    if (static_cast<int64_t>(messages.size()) != 2 * pairs) messages.assign(at(2 * pairs), 0.0);
    const double* theta = potentials + arcs;
    if (!more) log_z_ = sum(parts, potentials, trees);
    iterations_ = 0;
    converged_ = pairs == 0;
    if (log_z_ == -INFINITY) return log_z_;
    while (!converged_ && iterations_ < effort.iterations) {
        converged_ = send(parts, theta) < effort.tolerance;
        log_z_ = sum(parts, potentials, trees);
        ++iterations_;
    }
    double log_z = log_z_;
    for (int64_t a = 0; a < arcs; ++a) beliefs[a] = logistic(total_[at(a)]);
    double* out = beliefs + arcs;
    const double* to = messages.data();
    for (const auto* pairs : {&parts.siblings, &parts.grandparents}) {
        for (const Parts::Pair& p : *pairs) {
            // The four states of a pair: neither, one, the other, both.
            const double first = total_[at(p.first)], second = total_[at(p.second)];
            const double a = first - to[0], b = second - to[1], both = a + b + *theta;
            const double top = std::max({0.0, a, b, both});
            const double on = std::exp(both - top);
            const double z = std::exp(-top) + std::exp(a - top) + std::exp(b - top) + on;
            *out++ = on / z;
            log_z += top + std::log(z) - softplus(first) - softplus(second);
            to += 2;
            ++theta;
        }
    }
    return log_z;
}

}  // namespace vs::parser
