// The rows of a clique: what is multiplied in, what is collected. One body for every algebra.
#pragma once

#include <cmath>
#include <cstdint>

#include "simd/level.h"

namespace vs {

// Tables that the rows [r0, r1) of a clique meet: a vector stands side by side along the row,
// a scalar is the same for all of it. at[r]: offset of row r in its table.
template <class T>
struct RowJob {
    T first;  // what products start from
    int64_t width = 0;
    int n_vec = 0, n_scalar = 0, n_vec_out = 0, n_scalar_out = 0;
    const T* const* vec = nullptr;
    const int32_t* const* vec_at = nullptr;
    const T* const* scalar = nullptr;
    const int32_t* const* scalar_at = nullptr;
    T* const* vec_out = nullptr;
    const int32_t* const* vec_out_at = nullptr;
    T* const* scalar_out = nullptr;
    const int32_t* const* scalar_out_at = nullptr;
};

enum Algebra : int { kSumProduct = 0, kMaxPlus = 1 };

// The functions of a SIMD level for junction trees.
struct GraphLevel {
    // buffer: (width + 64,)
    void (*rows)(int algebra, const RowJob<double>& job, int64_t r0, int64_t r1, double* buffer);
    // wide[i, t] = table[base[i] + inner[t]], rows of `width`
    void (*spread)(const double* table, const int32_t* base, int64_t n, const int32_t* inner,
                   int64_t width, double* wide);
    // table[base[i] + inner[t]] += wide[i, t] in the algebra
    void (*gather)(int algebra, const double* wide, const int32_t* base, int64_t n,
                   const int32_t* inner, int64_t width, double* table);
    // The largest of n numbers >= 0, and the smallest that is not zero (0 when all are).
    void (*bounds)(const double* x, int64_t n, double* top, double* low);
    // x = x / by, 0 where either is 0.
    void (*divide)(double* x, const double* by, int64_t n);
    void (*multiply)(double* x, double by, int64_t n);
    // to = exp(x - top), 0 below the normal numbers; no x is above top.
    void (*exponentials)(const double* x, int64_t n, double top, double* to);
    // The sum of x, which is added to `into` too where that is not null.
    double (*fold)(const double* x, int64_t n, double* into);
};

}  // namespace vs
