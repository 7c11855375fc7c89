#include "parser/loopy.h"

#include <algorithm>
#include <cmath>

namespace vs::parser {
namespace {
double odds(double x) {
    return x > 0 ? 1.0 / (1.0 + std::exp(-x)) : std::exp(x) / (1.0 + std::exp(x));
}
double softplus(double x) { return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)); }
}  // namespace

double Loopy::run(const Parts& parts, const double* potentials, const trees::TreesApi& api,
                  trees::Kind kind, bool single_root, int iterations, double* beliefs) {
    const int64_t n = parts.n, arcs = parts.arcs(), size = (n + 1) * (n + 1);
    const int64_t pairs = parts.size() - arcs;
    const int64_t sib = static_cast<int64_t>(parts.siblings.size());
    const int64_t wanted = api.scratch_size(kind, n);
    if (static_cast<int64_t>(scratch_.size()) < wanted) scratch_.resize(at(wanted));
    table_.assign(at(size), -INFINITY);
    ratio_.resize(at(size));
    total_.assign(at(arcs), 0.0);
    tree_.assign(at(arcs), 0.0);
    to_.assign(at(2 * pairs), 0.0);
    strength_.resize(at(pairs));
    const double* theta = potentials + arcs;
    for (int64_t k = 0; k < pairs; ++k) strength_[at(k)] = std::expm1(theta[k]);
    const auto pair = [&](int64_t k) -> const Parts::Pair& {
        return k < sib ? parts.siblings[at(k)] : parts.grandparents[at(k - sib)];
    };
    const auto place = [&](int64_t a) {
        return at(parts.head[at(a)] * (n + 1) + parts.modifier[at(a)]);
    };
    double log_z = 0.0;
    const trees::Sentence s{table_.data(), n, single_root};
    trees::Arcs out;
    out.ratio = ratio_.data();
    for (int it = 0; it <= iterations; ++it) {
        // Into the tree factor: scores and messages of pairs.
        for (int64_t a = 0; a < arcs; ++a) total_[at(a)] = potentials[a];
        for (int64_t k = 0; k < pairs; ++k) {
            total_[at(pair(k).first)] += to_[at(2 * k)];
            total_[at(pair(k).second)] += to_[at(2 * k + 1)];
        }
        for (int64_t a = 0; a < arcs; ++a) table_[place(a)] = total_[at(a)];
        log_z = api.marginals(kind, s, out, scratch_.data());
        if (log_z == -INFINITY) return log_z;
        for (int64_t a = 0; a < arcs; ++a) {
            total_[at(a)] = std::clamp(total_[at(a)] + ratio_[place(a)], -500.0, 500.0);
        }
        if (it == iterations) break;
        double worst = 0.0;
        for (int64_t k = 0; k < pairs; ++k) {
            const Parts::Pair& p = pair(k);
            const double a = total_[at(p.first)] - to_[at(2 * k)];
            const double b = total_[at(p.second)] - to_[at(2 * k + 1)];
            const double x = std::log1p(odds(b) * strength_[at(k)]);
            const double y = std::log1p(odds(a) * strength_[at(k)]);
            worst =
                std::max({worst, std::fabs(x - to_[at(2 * k)]), std::fabs(y - to_[at(2 * k + 1)])});
            to_[at(2 * k)] = x;
            to_[at(2 * k + 1)] = y;
        }
        if (worst < 1e-4) it = iterations - 1;
    }
    for (int64_t a = 0; a < arcs; ++a) beliefs[a] = odds(total_[at(a)]);
    for (int64_t k = 0; k < pairs; ++k) {
        const Parts::Pair& p = pair(k);
        const double ta = total_[at(p.first)], tb = total_[at(p.second)];
        const double a = ta - to_[at(2 * k)], b = tb - to_[at(2 * k + 1)];
        const double both = a + b + theta[k];
        const double top = std::max({0.0, a, b, both});
        const double z =
            std::exp(-top) + std::exp(a - top) + std::exp(b - top) + std::exp(both - top);
        beliefs[arcs + k] = std::exp(both - top) / z;
        log_z += top + std::log(z) - softplus(ta) - softplus(tb);
    }
    return log_z;
}

}  // namespace vs::parser
