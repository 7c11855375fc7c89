// Which labels any configuration can reach: exact, whatever the size of the scores.
#pragma once

#include <vector>

#include "core/problem.h"

namespace vs {

// First position of the sequence at which no label is left (counted from its start), or -1.
int64_t first_dead(const Chains& c, int64_t sequence);

}  // namespace vs
