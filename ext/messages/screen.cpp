#include "messages/screen.h"

#include <algorithm>
#include <cmath>

namespace vs::messages {
namespace {

// Rounding of e^t - 1 - t, of a sum of magnitudes like theirs.
constexpr double kRounding = 0x1p-50;

// No less than e^t - 1 - t <= (e - 2) t^2 up to |t| = 1; most weights are small.
double quick_bound(double t) { return std::fabs(t) <= 1.0 ? 0.71829 * t * t : INFINITY; }
// No less for any t.
double bound(double t) {
    const double e = std::exp(t);
    return (e - 1.0 - t) + kRounding * (e + 1.0 + std::fabs(t));
}

bool in_table(const Chances& known, int64_t a, int64_t b) {
    const int64_t n = known.n_variables;
    if (!known.maybe[(a * n + b) & (known.maybe_size - 1)]) return false;
    const int64_t key = std::min(a, b) * n + std::max(a, b);
    return std::binary_search(known.pair, known.pair + known.n_pairs, key);
}

}  // namespace

std::vector<int64_t> rows_worth(const FeatureRows& rows, const Chances& known, double above) {
    std::vector<int64_t> worth;
    const int k = rows.n_variables;
    const double least = (1.0 - 1e-9) * above;
    for (int64_t i = 0; i < rows.size; ++i) {
        const int64_t* scope = rows.scope + i * k;
        const int64_t* state = rows.same_state ? rows.state : rows.state + i * k;
        double most = 1.0;
        for (int a = 0; a < k; ++a) {
            most = std::min(most, known.chance[known.offset[scope[a]] + state[a]]);
        }
        const double t = rows.weight[i];
        const bool small = most * quick_bound(t) <= least || most * bound(t) <= least;
        if (!small || (k == 2 && known.n_pairs > 0 && in_table(known, scope[0], scope[1]))) {
            worth.push_back(i);
        }
    }
    return worth;
}

}  // namespace vs::messages
