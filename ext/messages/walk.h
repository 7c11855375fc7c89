// Shared by all parts of message passing: indices into vectors, and a walk over a table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/at.h"

namespace vs::messages {

// Calls f(offset, state) for every entry of a table of this shape, in order.
template <class F>
void each(int64_t arity, const int64_t* card, int64_t size, F&& f) {
    int64_t state[64] = {};
    for (int64_t i = 0; i < size; ++i) {
        f(i, state);
        for (int64_t j = arity; j-- > 0;) {
            if (++state[j] < card[j]) break;
            state[j] = 0;
        }
    }
}

}  // namespace vs::messages
