// Whether numbers may be scores of arcs.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "simd/level.h"

namespace VS_NS {

// Whether each of n numbers is -inf or has a magnitude of at most `largest`.
inline bool valid(const double* x, int64_t n, double largest) {
    const auto bits = [](double v) VS_INLINE_LAMBDA {
        uint64_t found;
        std::memcpy(&found, &v, sizeof found);
        return found;
    };
    // In whole numbers, which compilers put into vectors: a magnitude beyond the largest one makes
    // the first difference negative, and so does all that is not -inf the second number.
    const uint64_t sign = uint64_t{1} << 63, most = bits(largest), forbids = bits(-INFINITY);
    uint64_t wrong = 0;
    for (int64_t i = 0; i < n; ++i) {
        const uint64_t b = bits(x[i]), other = b ^ forbids;
        wrong |= (most - (b & ~sign)) & (other | (0 - other));
    }
    return (wrong & sign) == 0;
}

}  // namespace VS_NS
