// Plans a call on a batch of chains and runs the plan on the pool.
#pragma once

#include <cstddef>

#include "core/problem.h"
#include "pool/pool.h"

namespace vs {

// A shared transition as passes want it, made once for many calls. Used where it fits: float64,
// the SIMD level it was made for, no islands, scores that need no wider domain.
struct Prepared;
Prepared* prepare(const Chains& chains);  // null: not for these
void release(Prepared* prepared);

struct Request {
    Chains chains;
    const Prepared* prepared = nullptr;
    int threads = 1;
    double zeta = 1.0;          // >= 1: exact
    int64_t revisit = -1;       // rounds allowed, -1: until nothing changes
    void* marginals = nullptr;  // null, and no edges: log_z alone, by forward messages
    double* log_z = nullptr;
    int32_t* islands = nullptr;
    void* pairwise = nullptr;
    int64_t pairwise_first = 0, pairwise_last = 0;
    double* expectations = nullptr;   // (K, K)
    int64_t expectation_chunks = 64;  // at most so many partial sums of them
    const double* weights = nullptr;  // (B,) of each sequence in expectations; null: 1
    // xi_i(l, k) is proportional to exp(log_forward[i, l] + t(l, k) + log_outgoing[i, k]) on the
    // edge from i to i + 1; (N, K) each, rows of last positions unset.
    double *log_forward = nullptr, *log_outgoing = nullptr;
    // (N,) the expected transition score of the edge from i to i + 1, NaN where it took
    // logarithms; last positions unset.
    double* energies = nullptr;
};

struct Report {
    Status status = kOk;
    int64_t sequence = -1, position = -1;  // of the first infeasible sequence
    Counts counts;
};

void use_pool(const PoolApi* api);  // the pool lives in another extension module

void use_level(const char* name);  // null: the best that this CPU has; unknown: no change
const char* level_name();
int level_number();  // VS_LEVEL_* of it
bool level_supported(const char* name);

struct Level;
const Level& level();  // the functions of the level in use

Report infer(const Request& request, Control& control);

// Shows the pool what an exact call runs first, in the arithmetic that suffices for most.
void show(const Request& request);
// MAP states (N,) and scores (B,); with n_best > 1 states (n_best, N), scores (n_best, B).
Report decode(const Chains& chains, int64_t n_best, int threads, int64_t* states, double* scores,
              Control& control, const Prepared* prepared = nullptr);
Report sample(const Chains& chains, int64_t size, const double* uniforms, int64_t* states,
              int threads, Control& control);
// The sum of log-potentials of given labels (N,), per sequence (B,).
void score(const Chains& chains, const int64_t* states, double* scores);
// The expected score of each sequence, and how far rounding may be felt in it, as a sum of squares
// of scores; energies as in Request, `largest`: the largest entry of each table.
void expected(const Chains& chains, const void* marginals, const double* energies,
              const double* largest, double* value, double* size);
// The capsule by which other extension modules call this one. Within a task of the pool a call runs
// on the calling worker.
struct ChainApi {
    Report (*infer)(const Request&, Control&);
    Report (*decode)(const Chains&, int64_t, int, int64_t*, double*, Control&, const Prepared*);
    Prepared* (*prepare)(const Chains&);
    void (*release)(Prepared*);
};
const ChainApi* chain_api();

// First NaN, +inf or finite number beyond kLargest of x, or -1.
int64_t weigh(int dtype, const void* x, int64_t n, double* found);
double peak_flops(int dtype, int64_t iterations);
double message_flops(int dtype, int64_t labels, int64_t rows, int64_t positions);

}  // namespace vs
