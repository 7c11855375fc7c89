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
    // The log-potential of a pair.
    double at_pair(int dtype, int64_t l, int64_t k) const;
    double unlisted(int dtype, int64_t l, int64_t k) const;  // of one that is not listed
    double least() const;                                    // none is smaller
    // Writes all entries (K, K) of a type.
    void spell(int dtype, void* table) const;
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

// The log-potentials themselves, of one compute type: pairs by their row and by their column, in
// one direction. t(l, k) of a pair that is not listed is the default with what both ends have,
// rounded as in the table's own type.
struct ListedScores {
    struct Side {
        const int64_t* start = nullptr;  // (K + 1,)
        const int32_t* label = nullptr;  // of the other end, ascending
        const void* score = nullptr;
    };
    Side by_row, by_column;
    const void* column_tops = nullptr;  // (K,) the largest score that is listed, or -inf
    const void* gains = nullptr;  // (K,) of a row: the largest, less the share of its other end
    const void *row_ends = nullptr, *column_ends = nullptr;  // (K,) `rows` and `columns`, or null
    int n_labels = 0;
    double rest = 0.0, size = 0.0;  // no finite entry, or sum of its parts, is larger
    const double *rows = nullptr, *columns = nullptr;  // (K,) of the table as it was given, or null
    bool turned = false, single = false;               // rows are columns; sums are float32

    double unlisted(int l, int k) const {
        const int before = turned ? k : l, after = turned ? l : k;
        if (single) {
            float x = static_cast<float>(rest);
            if (rows) x += static_cast<float>(rows[before]);
            return static_cast<double>(columns ? x + static_cast<float>(columns[after]) : x);
        }
        const double x = rest + (rows ? rows[before] : 0.0);
        return x + (columns ? columns[after] : 0.0);
    }
};
// Null: no memory.
const ListedScores* list_scores(const SparseTable& table, int dtype, int compute, bool turned,
                                Scratch& workspace);

struct Packing;
// exp(table) for `compute`, both directions; `depth`: times shift - table, of a table whose default
// is one number. False: no memory.
bool pack_sparse(const SparseTable& table, int compute, Scratch& workspace, Packing* out,
                 bool depth = false);

}  // namespace vs
