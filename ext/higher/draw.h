// Samples of a sequence by messages from its beginning. False: underflow left nothing to draw, or
// the call is stopped.
#pragma once

#include "higher/level.h"

namespace vs::higher {

bool draw_second(const Job& job, int64_t s, const double* forward, bool caller);
bool draw_label(const Job& job, int64_t s, const double* weight);
bool draw_segments(const Job& job, const Segments& lattice, bool caller);

}  // namespace vs::higher
