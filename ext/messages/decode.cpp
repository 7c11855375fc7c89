#include "messages/network.h"

#include <algorithm>
#include <cmath>

namespace vs::messages {

Status Network::assign(const double* local, const double* messages, int threads, Control* control,
                       int64_t* states, double* score, int64_t* dead_variable) {
    const Status collected = collect(local, messages, &threads, control, dead_variable);
    if (collected != kOk) return collected;
    std::fill(states, states + n_, int64_t{-1});
    std::vector<int64_t> open;
    std::vector<uint8_t> seen(at(n_), 0), walked(at(n_factors_), 0);
    std::vector<double> belief, best;
    for (int64_t root = 0; root < n_; ++root) {
        if (seen[at(root)]) continue;
        seen[at(root)] = 1;
        open.assign(1, root);
        for (size_t i = 0; i < open.size(); ++i) {
            const int64_t v = open[i], k = card_[at(v)];
            if (cancelled(control, i, 256)) return kCancelled;
            // A structured factor decides all of its variables together.
            const bool undecided = states[v] < 0;
            belief.assign(local + var_at_[at(v)], local + var_at_[at(v + 1)]);
            best.resize(at(k));
            for (int64_t j = var_ptr_[at(v)]; j < var_ptr_[at(v + 1)]; ++j) {
                const int64_t e = var_edge_[at(j)], f = edge_factor_[at(e)];
                const int64_t first = factor_ptr_[at(f)];
                if (undecided) {
                    ask(f, [&](const auto& own) {
                        own.best_given(e - first, states, incoming(), best.data(), &scratch_[0]);
                    });
                    for (int64_t x = 0; x < k; ++x) belief[at(x)] += rho_[at(f)] * best[at(x)];
                }
                if (walked[at(f)]) continue;
                walked[at(f)] = 1;
                for (int64_t c = first; c < factor_ptr_[at(f + 1)]; ++c) {
                    const int64_t u = edge_var_[at(c)];
                    if (seen[at(u)]) continue;
                    seen[at(u)] = 1;
                    open.push_back(u);
                }
            }
            if (!undecided) continue;
            auto top = std::max_element(belief.begin(), belief.end());
            if (*top > -INFINITY) {
                states[v] = top - belief.begin();
            } else {  // impossible given those before it: its best by itself
                const double* b = belief_.data() + var_at_[at(v)];
                states[v] = std::max_element(b, b + k) - b;
            }
            for (int64_t j = var_ptr_[at(v)]; j < var_ptr_[at(v + 1)]; ++j) {
                const int64_t f = edge_factor_[at(var_edge_[at(j)])];
                if (const factors::Structured* own = structured_at(f)) {
                    StructuredFactor{own, factor_ptr_[at(f)], edge_var_.data()}.complete(
                        states, incoming(), &scratch_[0]);
                }
            }
        }
    }
    *score = 0.0;
    for (int64_t v = 0; v < n_; ++v) *score += local[var_at_[at(v)] + states[v]];
    for (int64_t f = 0; f < n_factors_; ++f) {
        *score += ask(f, [&](const auto& own) { return own.score(states); });
    }
    return kOk;
}

}  // namespace vs::messages
