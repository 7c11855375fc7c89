// Weights of arcs, each word's largest being 1; and what the root's stand for.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "simd/vec.h"
#include "trees/trees.h"

namespace VS_NS {

// Words whose heads are all forbidden have a shift of -inf: no tree is possible. `range`: by how
// much the smallest finite score of a word lies below its largest, at most.
struct Shifts {
    bool possible = true;
    double range = 0.0, sum = 0.0;
};

// shift (n + 1,): the largest score of each word; 0 of the root. below (n + 1,): scratch.
inline Shifts shifts(const vs::trees::Sentence& s, double* shift, double* below) {
    using V = Vec<double>;
    const int64_t n = s.n, ld = n + 1;
    // act(m, how many) on a row, vector by vector.
    const auto along = [n](auto act) VS_INLINE_LAMBDA {
        int64_t m = 0;
        for (; m + V::N <= n + 1; m += V::N) act(m, V::N);
        if (m <= n) act(m, static_cast<int>(n + 1 - m));
    };
    for (int64_t m = 0; m <= n; ++m) shift[m] = -INFINITY;
    for (int64_t h = 0; h <= n; ++h) {
        const double *row = s.scores + h * ld, own = shift[h];
        along([&](int64_t m, int k) VS_INLINE_LAMBDA {
            // The second one where the first is NaN: of the diagonal, which is put back.
            V::max(V::load_part(row + m, k, 0.0), V::load_part(shift + m, k, 0.0))
                .store_part(shift + m, k);
        });
        shift[h] = own;
    }
    shift[0] = 0.0;
    Shifts found;
    for (int64_t m = 1; m <= n; ++m) {
        found.possible = found.possible && shift[m] > -INFINITY;
        found.sum += shift[m];
    }
    if (!found.possible) return found;
    // By how much finite scores lie below: word by word, without column 0 and the diagonal.
    const V least = V::set1(-std::numeric_limits<double>::max());
    for (int64_t m = 0; m <= n; ++m) below[m] = 0.0;
    for (int64_t h = 0; h <= n; ++h) {
        const double *row = s.scores + h * ld, own = below[h];
        along([&](int64_t m, int k) VS_INLINE_LAMBDA {
            const V x = V::load_part(row + m, k, 0.0), y = x - V::load_part(shift + m, k, 0.0);
            V::min(V::where_ge(x, least, y), V::load_part(below + m, k, 0.0))
                .store_part(below + m, k);
        });
        below[h] = own;
    }
    double lowest = 0.0;
    for (int64_t m = 1; m <= n; ++m) lowest = below[m] < lowest ? below[m] : lowest;
    found.range = -lowest;
    return found;
}

}  // namespace VS_NS
