// Neumaier's compensated sum: log Z of ten million positions keeps its last digits.
#pragma once

#include <cmath>

#include "simd/level.h"

namespace vs {

struct Sum {
    double value = 0.0, rest = 0.0;
    VS_INLINE void add(double x) {
        const double t = value + x;
        rest += std::fabs(value) >= std::fabs(x) ? (value - t) + x : (x - t) + value;
        value = t;
    }
    VS_INLINE double total() const { return value + rest; }
};

}  // namespace vs
