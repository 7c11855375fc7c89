// A compensated sum: log Z of ten million positions keeps its last digits. The loss of an addition
// is found by Knuth's six operations, since a branch on the larger number, as Neumaier has it, is
// one that no processor guesses where terms have both signs.
#pragma once

#include "simd/level.h"

namespace vs {

VS_INLINE void add_to(double& value, double& rest, double x) {
    const double t = value + x, more = t - value;
    rest += (value - (t - more)) + (x - more);
    value = t;
}

struct Sum {
    double value = 0.0, rest = 0.0;
    VS_INLINE void add(double x) { add_to(value, rest, x); }
    VS_INLINE double total() const { return value + rest; }
};

}  // namespace vs
