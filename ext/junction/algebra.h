// The algebras that a junction tree is solved in, on plain numbers; LinearWide is in core/wide.h.
#pragma once

#include <cmath>
#include <cstdint>

#include "core/wide.h"

namespace vs::junction {

// The numbers of a propagation: their type T, zero and one, times, plus, and
//   from_log: exp(x); log_of: its inverse; share: x / total; ratio: a / b, 0 / 0 = 0
//   scale: divides n numbers by a power of two, and returns its log2; tail: what a double rounds
//   away from that log2.
struct Linear64 {
    using T = double;
    static constexpr bool kChecked = true;  // small numbers may be lost: see bound_loss()
    static T zero() { return 0.0; }
    static T one() { return 1.0; }
    static bool is_zero(T x) { return x == 0.0; }
    static T mul(T a, T b) { return a * b; }
    static T add(T a, T b) { return a + b; }
    static bool less(T a, T b) { return a < b; }
    static T ratio(T a, T b) { return b > 0.0 ? a / b : 0.0; }
    static T from_log(double x) { return std::exp(x); }
    static double log_of(T x) { return std::log(x); }
    static double share(T x, T total) { return x / total; }
    static double tail(T) { return 0.0; }
};

// Logarithms; plus is max.
struct MaxLogs {
    using T = double;
    static constexpr bool kChecked = false;
    static T zero() { return -INFINITY; }
    static T one() { return 0.0; }
    static bool is_zero(T x) { return x == -INFINITY; }
    static T mul(T a, T b) { return a + b; }
    static T add(T a, T b) { return a > b ? a : b; }
    static bool less(T a, T b) { return a < b; }
    static T from_log(double x) { return x; }
    static double log_of(T x) { return x; }
    static double scale(T*, int64_t, T) { return 0.0; }
    static double tail(T) { return 0.0; }
};

}  // namespace vs::junction
