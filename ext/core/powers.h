// exp() of scores of any size, as a number and a power of two.
#pragma once

#include <cmath>
#include <cstdint>

#include "core/ln2.h"
#include "simd/level.h"

namespace VS_NS {

// `bits` ln 2, and what that rounds away.
VS_INLINE double log_of_power(double bits, double* rest) {
    const double x = bits * vs::kLn2;
    *rest = std::fma(bits, vs::kLn2, -x) + bits * vs::kLn2Rest;
    return x;
}

// exp(x) = the returned number times 2^e, to the last digits whatever the size of x: where sums of
// scores are large, the exponents are added exactly. x lies within +-2 kCarriedSum (problem.h).
VS_INLINE double power_of(double x, int64_t* e) {
    using vs::kLn2, vs::kLn2Rest, vs::kLog2e;
    constexpr double kSmall = 1048576.0, kMost = 4e18;  // a cast of kMost is in range
    double n = std::floor(x * kLog2e);
    if (n > -kSmall && n < kSmall) {
        *e = static_cast<int64_t>(n);
        return std::exp((x - n * vs::kLn2High) - n * vs::kLn2Low);
    }
    // n has been rounded, so that the rest may lie far from [0, ln 2): what it has too much of goes
    // to the exponent as well.
    n = n < -kMost ? -kMost : n > kMost ? kMost : n;
    const double r = std::fma(-n, kLn2Rest, std::fma(-n, kLn2, x));
    const double more = std::fmin(std::fmax(std::floor(r * kLog2e), -kMost), kMost);
    *e = static_cast<int64_t>(n) + static_cast<int64_t>(more);
    return std::exp(std::fma(-more, kLn2Rest, std::fma(-more, kLn2, r)));
}

}  // namespace VS_NS
