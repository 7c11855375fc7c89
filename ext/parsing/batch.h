// Many sentences at once, on the pool: one answer for each, whoever computes it.
#pragma once

#include <cstdint>

#include "core/problem.h"
#include "pool/pool.h"
#include "dependency/trees.h"

namespace vs::parsing {

struct Batch {
    int64_t sentences = 0;
    const int64_t* words = nullptr;       // (sentences,)
    const void* const* scores = nullptr;  // (sentences,) each (n + 1, n + 1)
    int dtype = kFloat64;                 // of the scores
    dependency::Kind kind = dependency::Kind::kTree;
    bool single_root = false;
    int threads = 1;
    // Projective trees with grandparents: those of all sentences, one after the other.
    const int64_t* part_at = nullptr;     // (sentences + 1,), null: there are none
    const int64_t* part_words = nullptr;  // (parts, 3)
    const double* part_score = nullptr;   // (parts,)
};

// A sentence whose scores are none, or that has no tree.
struct Fault {
    int64_t sentence = -1, head = -1, modifier = -1;  // head -1: no tree
};

// The largest magnitude of a finite score: exponents of wide numbers hold all sums.
constexpr double kLargestScore = 1e14;

// log Z of each (sentences,), and P(arc) of all one after the other, as the scores; P(part) of
// grandparents (parts,). The first fault, if any; what was written does not count then.
Fault marginals(const Batch& batch, const PoolApi& pool, Control* control, double* log_z,
                double* out, double* of_parts);
// The best score of each, and the heads of all words one after the other.
Fault best(const Batch& batch, const PoolApi& pool, Control* control, double* score,
           int64_t* heads);

}  // namespace vs::parsing
