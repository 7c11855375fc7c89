// Elimination orders: which cliques triangulating a graph gives, and how large their tables are.
#pragma once

#include <cstdint>
#include <vector>

#include "core/problem.h"
#include "junction/few.h"

namespace vs::junction {

// An undirected graph over 0..n-1 with a number of values each.
struct Moral {
    std::vector<Set> near;  // neighbours, ascending
    std::vector<double> values;
};

struct Elimination {
    std::vector<int32_t> order;
    std::vector<Set> later;  // neighbours of each variable once it is first
    double size = 0.0;       // entries of all clique tables
    int64_t operations = 0;
};

// How long to search for an order. Entries beyond `fits` cannot be stored: larger tables are not
// worth a longer search, and those far beyond it a short one only. It ends when the first orders
// all have more than `most` entries.
struct Search {
    double effort = 1.0;
    uint64_t seed = 0;
    double fits = 0.0, most = 0.0;
};

enum class Found { kOrder, kTooLarge, kCancelled };

// The best order of the rules, then of restarts with random ties until `effort` operations per
// table entry are spent. `tried`: how many orders were compared.
Found best_elimination(const Moral& m, const Search& search, Control* control, Elimination* best,
                       int64_t* tried);

}  // namespace vs::junction
