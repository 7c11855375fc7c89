// The functions that islands call in an arithmetic. They take lists of requests, so that rows of
// many free pieces are worked on together.
#pragma once

#include <cstdint>

#include "core/scratch.h"

namespace vs {

// How many times longer than others a message in logarithms takes.
constexpr int64_t kLogSlower = 128;

// A variable, and its neighbour, -1: none.
struct RowRequest {
    static constexpr int kMost = 16;  // in a list
    int64_t slot, other;
    void* row;              // where the variable's product stays, in an arithmetic that keeps them
    const void* x;          // the product that is sent
    double scale;           // what was taken out of that
    float floor_gain;       // see BranchingRows::gained
    double largest, own;    // shares of the mode, and of the value held
    bool alive, forbidden;  // m' has mass; a message forbids the value held
};

// `self`: the buffers of one task. A status that a verb finds goes to that of the tree.
struct IslandVerbs {
    bool keeps_products;  // needs a row for each variable even where local factors are stored
    // Null: no memory.
    void* (*open)(void* pass, int worker, Scratch* scratch);
    // Are messages out of islands copies, with memory of their own?
    bool (*copies_rows)(void* self);
    // Local factors of slots [first, first + m) to `rows`; their sums, the largest entry being one.
    void (*locals)(void* self, int64_t first, int m, void* rows, double* sums);
    // The mode of each of these whose share reaches zeta, else -1.
    void (*local_modes)(void* self, double zeta, int m, const void* rows, const double* sums,
                        int* modes);
    // Answers the trees exactly that choosing has set apart, with all local factors.
    void (*whole)(void* self, const void* rows);
    // Local factors of [first, last) can be read in `rows` from now on; null: they are made again.
    void (*locals_at)(void* self, int64_t first, int64_t last, const void* rows);
    // The product without the message of `other`; the largest share in it.
    void (*gather)(void* self, RowRequest* list, int m);
    // The same out of a variable whose m' is known.
    void (*exclude)(void* self, RowRequest* list, int m);
    // Messages of these products to `other`; false: no memory.
    bool (*send)(void* self, const RowRequest* list, int m);
    // m' of free variables: that of `other` is the message that the product lacks.
    void (*beliefs)(void* self, RowRequest* list, int m);
    // m' of islands.
    void (*actuals)(void* self, RowRequest* list, int m);
    // Messages out of an island: rows of the tables, to all neighbours but `other`, which may be
    // -1, or to that alone. The number of them; -1: no memory.
    int (*tell)(void* self, int64_t slot, int64_t other, bool alone);
    // Does the message of `other` forbid the value that this island holds?
    bool (*forbids)(void* self, int64_t slot, int64_t other);
    // The lowest index of the largest entry of a row; null: of m'.
    int (*mode)(void* self, int64_t slot, const void* row);
    // Adds block b to the sums of its trees.
    void (*tally)(void* self, int64_t block);
};

}  // namespace vs
