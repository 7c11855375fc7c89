// A call on a forest, of chains laid end to end or of any trees: what is asked, and the answer.
#pragma once

#include <vector>

#include "core/problem.h"
#include "forest/layout.h"
#include "pool/pool.h"

namespace vs {

// Which table an edge has: the one there is, that of its type, or its own.
enum class Tables : int { kShared = 0, kTyped = 1, kPerEdge = 2 };

// The components of a forest are its chains or its trees, its variables their positions or nodes.
struct ForestModel {
    Chains arrays{};                 // `transition`: the tables; n_sequences components
    const Layout* layout = nullptr;  // null: chains
    // Trees only:
    Tables tables = Tables::kShared;
    int64_t n_tables = 1;
    const int64_t* type = nullptr;    // (n,) by node, kTyped only
    const int64_t* parent = nullptr;  // (n,)
};

// The table of the edge above a node.
inline int64_t table_of(const ForestModel& m, int64_t node) {
    if (m.tables == Tables::kShared) return 0;
    return m.tables == Tables::kTyped ? m.type[node] : node;
}

// A shared transition of chains as passes want it, made once for many calls. Used where it fits:
// float64, the SIMD level it was made for, no islands, scores that need no wider arithmetic.
struct Prepared;
Prepared* prepare(const Chains& chains);  // null: not for these
void release(Prepared* prepared);
// The table that was found to have a default, for Chains::sparse; null: none, or the caller's.
const SparseTable* listed_by(const Prepared* prepared);

// An answer that exact marginals are held against, row by row while these are in cache.
struct Comparison {
    const void* rows;      // (N, K) its marginals, of the model's type
    const int32_t* label;  // (N,) that it claims for sure, or -1
    // How far exact marginals of each component may be off, and by how much their shares may grow.
    const double *error, *growth, *extra;
    double* far;    // (N,) the most that a row can be off by
    double* wrong;  // (N,) the most that its label can be wrong with, 0 where it claims none
};

struct Request {
    ForestModel model;
    const Prepared* prepared = nullptr;
    int threads = 1;
    double zeta = 1.0;           // >= 1: exact
    int64_t revisit = -1;        // rounds allowed, -1: until nothing changes
    void* marginals = nullptr;   // null, and nothing about edges: log_z alone, by messages one way
    double* log_z = nullptr;     // (B,) of each component; the scores of a best configuration
    int32_t* islands = nullptr;  // (N,)
    // Questions about edges. A chain has the edge from i to i + 1 in row i, a tree the edge from
    // parent[i] to i; rows of variables that have none are not written.
    // (., K, K) of the model's type: of chains, edges [pairwise_first, pairwise_last); of trees,
    // those with a row in pairwise_row, (n,), -1 where it is not wanted.
    void* pairwise = nullptr;
    int64_t pairwise_first = 0, pairwise_last = 0;
    const int64_t* pairwise_row = nullptr;
    // The sum of the pairwise marginals xi, (K, K); of those of each type where tables are kTyped.
    double* expectations = nullptr;
    // Where the table is shared: of these pairs alone, in their order; null: of all.
    const SparseTable* pairs = nullptr;
    int64_t expectation_chunks = 64;  // chains: the most partial sums of them,
    const double* weights = nullptr;  // (B,) and what each chain counts in it; null: 1
    // xi(l, k) is exp(log_left[i, l] + t(l, k) + log_right[i, k] - log_mass[i]): (N, K), (N, K),
    // (n,). Chains have no log_mass: the rest has to be normalised.
    double *log_left = nullptr, *log_right = nullptr, *log_mass = nullptr;
    double* energies = nullptr;  // (N,) expected scores of edges, NaN where it took
                                 // logarithms; the last variable of a chain has none
    // The best n_best configurations, states (n_best, N) and log_z (n_best, B); or samples,
    // uniforms and states (size, N).
    int64_t* states = nullptr;
    const double* uniforms = nullptr;
    int64_t n_best = 1, size = 0;
    const std::vector<int64_t>* components = nullptr;  // to work on, ascending; null: all
    const Comparison* compared = nullptr;  // chains: in place of marginals, which are not kept
    bool narrow = false;  // float32 where scores are float64: marginals alone, no islands
};

struct Report {
    Status status = kOk;
    // The first infeasible component, and where it has nothing left; position: of chains from its
    // start, of trees the node.
    int64_t component = -1, position = -1;
    Counts counts;
};

// Infer answers all that has a pointer which is not null, and draws samples where there is `size`.
Report infer(const Request& request, Control& control);
Report decode(const Request& request, Control& control);
// Shows the pool what an exact call runs first, in the arithmetic that suffices for most.
void show(const Request& request);

// The sum of log-potentials of given states (N,), per component. kCancelled: not all of them.
int score(const ForestModel& model, const int64_t* states, int threads, double* scores,
          Control& control);
// The expected score of each component, and how far rounding may be felt in it, as a sum of
// squares of scores; energies as in Request, `largest`: the largest entry of each table; `centred`:
// what all labels of a position share counts once in that, not squared, which takes longer.
int expected(const ForestModel& model, const void* marginals, const double* energies,
             const double* largest, bool centred, int threads, double* value, double* size,
             Control& control);

// Entropies of the components that are wanted (n_components,), in logarithms, for scores of any
// size; marginals of the model's type.
int entropies(const ForestModel& model, const void* marginals, const uint8_t* wanted, int threads,
              double* value, Control& control);

// The label whose marginal is largest, the first of these, `best` (N,); and each variable's own
// scores less that label's, `scores` (N, K).
int near_likely(const ForestModel& model, const void* marginals, int64_t* best, double* scores,
                Control& control);

// The capsule by which other extension modules call this one. Within a task of the pool a call runs
// on the calling worker.
struct ForestApi {
    Report (*infer)(const Request&, Control&);
    Report (*decode)(const Request&, Control&);
    Prepared* (*prepare)(const Chains&);
    void (*release)(Prepared*);
    const SparseTable* (*listed_by)(const Prepared*);
};
const ForestApi* forest_api();

void use_pool(const PoolApi* api);  // the pool lives in another extension module
void use_level(const char* name);   // null: the best that this CPU has; unknown: no change
const char* level_name();
int level_number();  // VS_LEVEL_* of it
bool level_supported(const char* name);
const char* supported_level(int i);  // best first; null: there are no more

// First NaN, +inf or finite number beyond kLargest of x, or -1.
int64_t weigh(int dtype, const void* x, int64_t n, double* found);
double peak_flops(int dtype, int64_t iterations);
double message_flops(int dtype, int64_t labels, int64_t rows, int64_t positions);

}  // namespace vs
