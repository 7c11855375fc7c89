// The call by which other extension modules decode a graph of binary variables.
#pragma once

#include <cstdint>

#include "core/problem.h"
#include "factors/structured.h"

namespace vs::dual {

// The problem; all of it is the caller's and stays. Variables have two states.
struct Graph {
    int64_t n = 0, n_factors = 0;
    const double* local = nullptr;                    // (n, 2)
    const int64_t *ptr = nullptr, *scope = nullptr;   // (factors + 1,), variables
    const double* const* table = nullptr;             // (factors,), null: structured
    const factors::Structured* const* own = nullptr;  // likewise, or null without any
    double constant = 0.0;
};

struct Answer {
    int64_t* states = nullptr;  // (n,), meaningful where `score` > -inf
    double* point = nullptr;    // (n,) of the relaxation
    double score, upper;
    int64_t iterations;
    bool converged, integral;
};

struct DualApi {
    // On the calling thread, which may be a worker of the pool: control->poll is of this call
    // alone. kOk, kInfeasible, kCancelled or kNoMemory.
    Status (*decode)(const Graph& graph, double tolerance, int64_t max_iterations, Control* control,
                     Answer* answer) noexcept;
};

const DualApi* dual_api() noexcept;

}  // namespace vs::dual
