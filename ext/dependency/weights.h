// Weights of arcs, each word's largest being 1; and what the root's stand for.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "simd/vec.h"
#include "dependency/trees.h"

namespace VS_NS {

// Words whose heads are all forbidden have a shift of -inf: no tree is possible. `range`: by how
// much the smallest finite score of a word lies below its largest, at most.
struct Shifts {
    bool possible = true;
    double range = 0.0, sum = 0.0;
};

// shift (n + 1,): the largest score of each word; 0 of the root. below (n + 1,): scratch.
inline Shifts shifts(const vs::dependency::Sentence& s, double* shift, double* below) {
    using V = Vec<double>;
    const int64_t n = s.n, ld = n + 1;
    // to = act(row, to, rest), vector by vector.
    const auto along = [n](const double* row, const double* rest, double* to,
                           auto act) VS_INLINE_LAMBDA {
        int64_t m = 1;
        for (; m + V::N <= n + 1; m += V::N) {
            act(V::load(row + m), V::load(to + m), V::load(rest + m)).store(to + m);
        }
        if (m > n) return;
        const int k = static_cast<int>(n + 1 - m);
        act(V::load_part(row + m, k, 0.0), V::load_part(to + m, k, 0.0),
            V::load_part(rest + m, k, 0.0))
            .store_part(to + m, k);
    };
    for (int64_t m = 0; m <= n; ++m) shift[m] = -INFINITY;
    for (int64_t h = 0; h <= n; ++h) {
        const double *row = s.scores + h * ld, own = shift[h];
        along(row, shift, shift, [](V x, V most, V) VS_INLINE_LAMBDA { return V::max(x, most); });
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
        along(row, shift, below, [least](V x, V lowest, V most) VS_INLINE_LAMBDA {
            return V::min(V::where_ge(x, least, x - most), lowest);
        });
        below[h] = own;
    }
    double lowest = 0.0;
    for (int64_t m = 1; m <= n; ++m) lowest = below[m] < lowest ? below[m] : lowest;
    found.range = -lowest;
    return found;
}

}  // namespace VS_NS
