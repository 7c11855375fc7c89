// The entries of rows of marginals that are worth to be listed, and the largest of each row.
#pragma once

#include <cstdint>

#include "forest/request.h"
#include "pool/pool.h"

namespace vs {

// Marginals (n, K) of one type, row after row.
struct Rows {
    const void* at;
    int dtype;
    int64_t n, K;
};

// start[i + 1] = start[i] + the entries of row i that are >= `least`; one, where there are none.
void count_listed(const PoolApi& pool, const Rows& rows, double least, int threads, int64_t* start,
                  Control* control);
// Those entries, by label: where none is large enough, the largest, that of the lowest label.
// unlisted[i]: the largest entry of row i that is not listed, 0 where all are.
void list(const PoolApi& pool, const Rows& rows, double least, int threads, const int64_t* start,
          int32_t* labels, void* values, double* unlisted, Control* control);
// The k largest entries of each row, descending, ties by label: (n, k) each.
void top(const PoolApi& pool, const Rows& rows, int64_t k, int threads, int64_t* labels,
         void* values, Control* control);

// Fills in a Comparison from rows that are held: row i is of the component owner[i], null: i.
void compare(const PoolApi& pool, const Rows& rows, const int64_t* owner, const Comparison& c,
             int threads, Control* control);

}  // namespace vs
