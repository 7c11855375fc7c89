// What only the scopes of a graph's factors decide: which are alike, forests, spanning trees.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/problem.h"

namespace vs {

// Whether the call is to end now: asked after step i, and answered now and then.
inline bool cancelled(const Control* control, int64_t i) {
    return i % 4096 == 0 && control->poll && control->poll(control->arg);
}

// For each factor the first one of the same set of variables; scope[ptr[f]..ptr[f + 1]).
Status same_scopes(int64_t n, const std::vector<int64_t>& ptr, const std::vector<int64_t>& scope,
                   const Control* control, std::vector<int64_t>* first);

// Factors taken greedily in this order: each joins components that were apart. Or kCancelled.
Status greedy_forest(int64_t n, const int64_t* ptr, const int64_t* scope, const int64_t* order,
                     int64_t n_order, const Control* control, std::vector<int64_t>* taken);

// Which of `count` pairs of variables are left when variables with one pair go, and their pair with
// them, until there is none: only those can lie on a cycle.
void two_core(int64_t n, int64_t count, const int64_t* pair, uint8_t* left);

// Entries of the inverse of L D L' where L has entries (Takahashi's recursion): L by columns, its
// diagonal of ones included; `diagonal` (n,) and `value` receive the inverse's.
void selected_inverse(int64_t n, const int32_t* ptr, const int32_t* row, const double* factor,
                      const double* pivot, double* value, double* diagonal);

}  // namespace vs
