// Tables of which most entries are one default, or a sum of what their row and their column have.
// exp(t) = D + R: D = left right' of rank one, R on the pairs that are listed.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/problem.h"
#include "core/scratch.h"

namespace vs {

// The log-potentials: score[e] of the pairs listed, row by row; `rest` + rows[l] + columns[k] of
// all others.
struct SparseTable {
    int64_t n_labels = 0;
    std::vector<int64_t> start;   // (K + 1,) of each row
    std::vector<int32_t> column;  // ascending in each row
    std::vector<double> score;
    double rest = 0.0;
    std::vector<double> rows, columns;  // (K,), or empty: zeros
    double largest = 0.0;               // no entry is larger; 0 where all are -inf

    int64_t n_listed() const { return start.back(); }
    // Can exp of it be held without floors, and does reading the pairs listed pay?
    bool pays(int dtype) const;
};

// The table of chains as such a one, where their entries mostly share one value and it pays; or
// null. A few entries tell most tables that have no default.
std::unique_ptr<SparseTable> find_default(int dtype, const void* table, int64_t labels);

// One direction of exp(t), of one compute type: messages y(k) = right(k) (left . x) + sum_e
// weight(e) x(label(e)) over the pairs listed for k.
struct SparseSide {
    const int64_t* start = nullptr;  // (K + 1,)
    const int64_t* split = nullptr;  // (K,) from here on weights are subtracted
    const int32_t* label = nullptr;  // of the other end; ascending before the split, and behind it
    const void* weight = nullptr;    // |exp(t) - D|
    const void* own = nullptr;       // exp(t)
    const void *left = nullptr, *right = nullptr;  // (K,)
};

struct Packing;
// exp(table) for `compute`, both directions; false: no memory.
bool pack_sparse(const SparseTable& table, int compute, Scratch& workspace, Packing* out);

}  // namespace vs
