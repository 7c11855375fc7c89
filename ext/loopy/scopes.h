// What only the scopes of a graph's factors decide: which are alike, forests, spanning trees.
#pragma once

#include <cstdint>
#include <vector>

namespace vs {

// For each factor the first one of the same set of variables; scope[ptr[f]..ptr[f + 1]).
std::vector<int64_t> same_scopes(int64_t n, const std::vector<int64_t>& ptr,
                                 const std::vector<int64_t>& scope);

// Factors taken greedily in this order: each joins components that were apart.
std::vector<int64_t> greedy_forest(int64_t n, const int64_t* ptr, const int64_t* scope,
                                   const int64_t* order, int64_t n_order);

// Which of `count` pairs of variables are left when variables with one pair go, and their pair with
// them, until there is none: only those can lie on a cycle.
void two_core(int64_t n, int64_t count, const int64_t* pair, uint8_t* left);

// Entries of the inverse of L D L' where L has entries (Takahashi's recursion): L by columns,
// without its diagonal of ones, rows ascending; `diagonal` (n,) and `value` receive the inverse's.
void selected_inverse(int64_t n, const int32_t* ptr, const int32_t* row, const double* factor,
                      const double* pivot, double* value, double* diagonal);

}  // namespace vs
