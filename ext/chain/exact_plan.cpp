#include "chain/exact_plan.h"

#include <algorithm>

#include "chain/table.h"

namespace vs {

double position_cost(int64_t labels) {
    const double k = static_cast<double>(labels);
    return 0.1 * k * k + 1.5 * k + 20.0;
}

ExactPlan plan_exact(const Chains& c, const std::vector<int64_t>& order, int threads, bool split,
                     int64_t expectations, double slower) {
    ExactPlan plan;
    plan.succ_ptr.push_back(0);
    const double cost = position_cost(c.n_labels) * slower;
    const double labels = static_cast<double>(c.n_labels);
    for (int64_t s : order) plan.nanoseconds += cost * static_cast<double>(length(c, s));
    if (threads > 1 && split) {
        const double worth = std::max(20e3, plan.nanoseconds / (2.0 * threads));
        while (plan.n_split < order.size() &&
               cost * static_cast<double>(length(c, order[plan.n_split])) > worth) {
            ++plan.n_split;
        }
    }
    auto add = [&](int8_t kind, size_t first, size_t last, int32_t waits, double messages) {
        plan.kind.push_back(kind);
        plan.first.push_back(static_cast<int64_t>(first));
        plan.last.push_back(static_cast<int64_t>(last));
        plan.waits.push_back(waits);
        plan.messages.push_back(messages);
        plan.succ_ptr.push_back(static_cast<int64_t>(plan.succ.size()));
    };
    for (size_t i = 0; i < plan.n_split; ++i) {
        const int64_t at = static_cast<int64_t>(plan.kind.size());
        const int64_t n = length(c, order[i]), half = n / 2;
        for (int8_t kind : {kForward, kBackward, kForwardMeet, kBackwardMeet}) {
            const bool meet = kind >= kForwardMeet;
            if (!meet) {
                plan.succ.push_back(at + 2);
                plan.succ.push_back(at + 3);
            }
            const bool left = kind == kForward || kind == kBackwardMeet;
            add(kind, i, i + 1, meet ? 2 : 0, static_cast<double>(left ? half : n - half));
        }
    }
    // Sizes of groups depend on the data alone: sums over tasks must not show the threads.
    double rest = 0.0;
    for (size_t i = plan.n_split; i < order.size(); ++i) {
        rest += cost * static_cast<double>(length(c, order[i]));
    }
    double target = std::min(std::max(rest / 64.0, 10e3), 2e6);
    if (expectations) {
        const double most = static_cast<double>(expectations);
        const double chunks = std::max(1.0, std::min(most, 8e6 / (labels * labels)));
        target = std::max(target, rest / chunks);
    }
    for (size_t i = plan.n_split; i < order.size();) {
        double sum = 0.0, messages = 0.0;
        size_t j = i;
        while (j < order.size() && (sum < target || (j - i) % 4 != 0)) {
            const double n = static_cast<double>(length(c, order[j++]));
            sum += cost * n;
            messages += 2.0 * (n - 1.0);
        }
        add(kGroup, i, j, 0, messages);
        i = j;
    }
    return plan;
}

}  // namespace vs
