// A compensated sum: log Z of ten million positions keeps its last digits. The loss of an addition
// is found by Knuth's six operations, since a branch on the larger number, as Neumaier has it, is
// one that no processor guesses where terms have both signs.
#pragma once

#include "simd/level.h"

namespace vs {

// T: a double, or a few side by side.
template <class T>
VS_INLINE void add_to(T& value, T& rest, T x) {
    const T t = value + x, more = t - value;
    rest = rest + ((value - (t - more)) + (x - more));
    value = t;
}

struct Sum {
    double value = 0.0, rest = 0.0;
    VS_INLINE void add(double x) { add_to(value, rest, x); }
    VS_INLINE double total() const { return value + rest; }
};

// Sums of whole numbers are exact without the rest: they are doubles.
VS_INLINE void add(double* sum, double x) { *sum += x; }
VS_INLINE void add(Sum* sum, double x) { sum->add(x); }
VS_INLINE void merge(Sum* sum, double whole) { sum->value += whole; }
VS_INLINE void merge(Sum* sum, const Sum& more) {
    sum->add(more.value);
    sum->rest += more.rest;
}
VS_INLINE double total(double sum) { return sum; }
VS_INLINE double total(const Sum& sum) { return sum.total(); }

}  // namespace vs
