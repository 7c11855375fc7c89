// Elimination orders: which cliques triangulating a graph gives, and how large their tables are.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/problem.h"

namespace vs::junction {

// An undirected graph over 0..n-1 with a number of values each.
struct Moral {
    std::vector<std::vector<int32_t>> near;  // neighbours, ascending
    std::vector<double> values;
};

enum class Rule : int { kMinFill, kWeightedMinFill, kMinWeight };

struct Elimination {
    std::vector<int32_t> order;
    std::vector<std::vector<int32_t>> later;  // neighbours of each variable when it goes
    double size = 0.0;                        // entries of all tables met
    int64_t operations = 0;
};

// How long to search for an order. Entries beyond `fits` cannot be stored: larger tables are not
// worth a longer search. It ends when the first orders all have more than `most` entries.
struct Search {
    double effort = 1.0;
    uint64_t seed = 0;
    double fits = 0.0, most = 0.0;
};

enum class Found { kOrder, kTooLarge, kCancelled };

// Greedy: each time the variable for which the rule's score is smallest. Ties go to the smaller
// table, then to `seed`'s dice (0: the lowest number). kTooLarge as soon as size exceeds `limit`.
Found eliminate(const Moral& m, Rule rule, uint64_t seed, double limit, Control* control,
                Elimination* out);

// The best of the rules, then of restarts with dice until `effort` operations per table entry are
// spent, restarts counted. `tried`: how many orders were compared.
Found best_elimination(const Moral& m, const Search& search, Control* control, Elimination* best,
                       int64_t* tried);

}  // namespace vs::junction
