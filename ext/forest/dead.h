// Where a forest has no configuration left: exact, whatever the size of the scores.
#pragma once

#include <vector>

#include "forest/request.h"

namespace vs {

// The first of these components without a configuration. The position is the first of a chain at
// which no label is left, counted from its start; of a tree the lowest node at which nothing is
// left although something is at each of its children. Unchanged where there is none.
void first_dead(const ForestModel& m, const std::vector<int64_t>& components, int64_t* component,
                int64_t* position);

}  // namespace vs
