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

// The same for those entries alone that have this value on an axis.
template <class F>
void each_at(int64_t arity, const int64_t* card, int64_t size, int64_t axis, int64_t value, F&& f) {
    int64_t state[64] = {}, stride = 1;
    for (int64_t j = axis + 1; j < arity; ++j) stride *= card[j];
    state[axis] = value;
    for (int64_t first = value * stride; first < size; first += card[axis] * stride) {
        for (int64_t i = first; i < first + stride; ++i) {
            f(i, state);
            for (int64_t j = arity; j-- > 0;) {
                if (j == axis) continue;
                if (++state[j] < card[j]) break;
                state[j] = 0;
            }
        }
    }
}

}  // namespace vs::messages
