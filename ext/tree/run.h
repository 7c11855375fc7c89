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
};

struct TreeReport {
    Status status = kOk;
    int64_t tree = -1, node = -1;  // of the first infeasible tree
    Counts counts;
};

void tree_use_pool(const PoolApi* api);
void tree_use_simd(const SimdApi* api);

TreeReport tree_infer(const TreeRequest& request, Control& control);
TreeReport tree_decode(const TreeModel& model, int threads, int64_t* states, double* scores,
                       Control& control);
// The first tree without a configuration, and its lowest node at which nothing is left although
// something is at each of its children; -1, -1 when there is none. Whatever the size of scores.
void first_dead_node(const TreeModel& model, int64_t* tree, int64_t* node);
// uniforms and states: (size, n).
TreeReport tree_sample(const TreeModel& model, int64_t size, const double* uniforms,
                       int64_t* states, int threads, Control& control);

}  // namespace vs
