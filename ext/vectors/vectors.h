// Sums of long vectors on the pool, in an order that does not depend on the number of threads.
#pragma once

#include <cstdint>

#include "pool/pool.h"

namespace vs {

// Sums with a fixed order over long vectors, and the direction of L-BFGS.
struct Vectors {
    int threads;
    Control* control;
    const PoolApi* pool;
    double dot(const double* x, const double* y, int64_t n);
    // d = -H g by the two-loop recursion: `s` and `y` hold m pairs, oldest first in `order`;
    // H0 = scale * diagonal (diagonal null: ones).
    void direction(int64_t n, int m, const int64_t* order, const double* s, const double* y,
                   const double* sy, double scale, const double* diagonal, const double* g,
                   double* d);
    // out = x - late / count, each rounded.
    void mean(int64_t n, const double* x, const double* late, double count, double* out);
    // The nearest numbers of half precision, of two as near the even one; the largest at most.
    void halves(int64_t n, const double* x, float* out);
};

}  // namespace vs
