// Weights of arcs, each word's largest being 1; and what the root's stand for.
#pragma once

#include <cmath>
#include <cstdint>

#include "trees/trees.h"

namespace VS_NS {

// Words whose heads are all forbidden have a shift of -inf: no tree is possible. `range`: by how
// much the smallest finite score of a word lies below its largest, at most.
struct Shifts {
    bool possible = true;
    double range = 0.0, sum = 0.0;
};

// shift (n + 1,): the largest score of each word; 0 of the root.
inline Shifts shifts(const vs::trees::Sentence& s, double* shift) {
    const int64_t n = s.n, ld = n + 1;
    for (int64_t m = 0; m <= n; ++m) shift[m] = -INFINITY;
    for (int64_t h = 0; h <= n; ++h) {
        const double *row = s.scores + h * ld, own = shift[h];
        for (int64_t m = 1; m <= n; ++m) shift[m] = row[m] > shift[m] ? row[m] : shift[m];
        if (h > 0) shift[h] = own;
    }
    shift[0] = 0.0;
    Shifts found;
    for (int64_t m = 1; m <= n; ++m) {
        found.possible = found.possible && shift[m] > -INFINITY;
        found.sum += shift[m];
    }
    if (!found.possible) return found;
    double lowest = 0.0;
    for (int64_t h = 0; h <= n; ++h) {
        const double* row = s.scores + h * ld;
        for (int64_t m = 1; m <= n; ++m) {
            const double below = m == h || row[m] == -INFINITY ? 0.0 : row[m] - shift[m];
            lowest = below < lowest ? below : lowest;
        }
    }
    found.range = -lowest;
    return found;
}

}  // namespace VS_NS
