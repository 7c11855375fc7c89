// Plans a call on a forest and runs the plan on the pool.
#pragma once

#include "core/problem.h"
#include "pool/pool.h"
#include "simd/level.h"
#include "tree/layout.h"

namespace vs {

// Which table an edge has: the one there is, that of its type, or its own.
enum class Tables : int { kShared = 0, kTyped = 1, kPerEdge = 2 };

struct TreeModel {
    const Layout* layout = nullptr;
    Chains arrays{};  // unary, transition (the tables), allowed; n_positions nodes
    Tables tables = Tables::kShared;
    int64_t n_tables = 1;
    const int64_t* type = nullptr;    // (n,) by node, kTyped only
    const int64_t* parent = nullptr;  // (n,)
};

struct TreeRequest {
    TreeModel model;
    int threads = 1;
    double zeta = 1.0;          // >= 1: exact
    int64_t revisit = -1;       // rounds allowed, -1: until nothing changes
    void* marginals = nullptr;  // null: log_z alone, by upward messages
    double* log_z = nullptr;
    int32_t* islands = nullptr;
    // xi(l, k) = exp(log_left[i, l] + t(l, k) + log_right[i, k] - log_mass[i]) on the edge from
    // parent[i] to i; (n, K), (n, K), (n,), rows of roots unset.
    double *log_left = nullptr, *log_right = nullptr, *log_mass = nullptr;
    // xi summed over all edges, (K, K), over those of each type where tables are kTyped: (types, K,
    // K); and the expected score of the edge from parent[i] to i, (n,), NaN where it took
    // logarithms, rows of roots unset.
    double *expectations = nullptr, *energies = nullptr;
    // xi of edges, (., K, K) of the model's type, and the row of the edge from parent[i] to i,
    // (n,), -1 where it is not wanted.
    void* pairwise = nullptr;
    const int64_t* pairwise_row = nullptr;
};

struct TreeReport {
    Status status = kOk;
    int64_t tree = -1, node = -1;  // of the first infeasible tree
    Counts counts;
};

void tree_use_pool(const PoolApi* api);
void tree_use_simd(const SimdApi* api);

// Shows the pool what an exact call runs, in the arithmetic that suffices for most.
void tree_show(const TreeModel& model, int threads);
TreeReport tree_infer(const TreeRequest& request, Control& control);
TreeReport tree_decode(const TreeModel& model, int threads, int64_t* states, double* scores,
                       Control& control);
// The sum of log-potentials of given states (n,), per tree.
void tree_score(const TreeModel& model, const int64_t* states, double* scores);
// The expected score of each tree, and how far rounding may be felt in it, as a sum of squares of
// scores; energies as in TreeRequest, `largest`: the largest entry of each table.
void tree_expected(const TreeModel& model, const void* marginals, const double* energies,
                   const double* largest, double* value, double* size);
// The first tree without a configuration, and its lowest node at which nothing is left although
// something is at each of its children; -1, -1 when there is none. For scores of any size.
void first_dead_node(const TreeModel& model, int64_t* tree, int64_t* node);
// uniforms and states: (size, n).
TreeReport tree_sample(const TreeModel& model, int64_t size, const double* uniforms,
                       int64_t* states, int threads, Control& control);

}  // namespace vs
