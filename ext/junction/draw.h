// The best configuration, and samples: from the roots down, each clique's open variables given
// those that its parents have drawn.
//
//   p(open | others) = statics(C) * product of the children's messages, over its sum
#pragma once

#include "junction/state.h"

namespace vs::junction {

// After a way up in logarithms.
Status best_states(const State<MaxLogs>& s, Control* control, int64_t* states);

// After a way up. `uniforms` (size, cliques), `states` (size, n): every row of states depends on
// its row of uniforms alone.
template <class A>
Status sample(const State<A>& s, int threads, Control* control, int64_t size,
              const double* uniforms, int64_t* states);

}  // namespace vs::junction
