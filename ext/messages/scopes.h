// Which factors have the same variables, and which form a forest: scopes alone decide.
#pragma once

#include <cstdint>
#include <vector>

#include "factors/structured.h"
#include "core/problem.h"
#include "messages/walk.h"

namespace vs::messages {

// Whether the call is to end now: polled at every `every`-th step i.
inline bool cancelled(const Control* control, int64_t i = 0, int64_t every = 4096) {
    return i % every == 0 && control->poll && control->poll(control->arg);
}

// For each factor the first one of the same set of variables; scope[ptr[f]..ptr[f + 1]). Those that
// are `apart` (not null; empty: none) are each on their own.
Status same_scopes(int64_t n, const std::vector<int64_t>& ptr, const std::vector<int64_t>& scope,
                   const std::vector<const factors::Structured*>& apart, const Control* control,
                   std::vector<int64_t>* first);

// Factors taken greedily in this order: each joins components that were apart. Or kCancelled.
Status greedy_forest(int64_t n, const int64_t* ptr, const int64_t* scope, const int64_t* order,
                     int64_t n_order, const Control* control, std::vector<int64_t>* taken);

}  // namespace vs::messages
