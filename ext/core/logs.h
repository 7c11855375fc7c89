// Sums of exponentials, in logarithms.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

namespace vs {

// The score of what is forbidden.
constexpr double kNever = -std::numeric_limits<double>::infinity();

// log(exp(a) + exp(b))
inline double log_add(double a, double b) noexcept {
    const double top = std::max(a, b), low = std::min(a, b);
    return top == -INFINITY || top == INFINITY ? top : top + std::log1p(std::exp(low - top));
}

// log(1 + exp(a))
inline double softplus(double a) noexcept {
    return a > 0.0 ? a + std::log1p(std::exp(-a)) : std::log1p(std::exp(a));
}

}  // namespace vs
