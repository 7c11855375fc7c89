// The k best configurations of a chain.
#pragma once

#include "core/problem.h"
#include "core/scratch.h"

namespace vs {

struct ListedScores;

// Functions of a SIMD level; both return the first of the largest heads, -1: all are -inf.
struct HeadVerbs {
    // heads[l] = x[l] + column[l] + u; without a column x[l] + 0, which makes -0 a 0. All are (K,),
    // and -inf beyond, up to whole vectors, as the heads of `largest` are; 4 or fewer stand alone.
    int (*extend)(const double* x, const double* column, double u, int64_t labels, double* heads);
    int (*largest)(const double* heads, int64_t labels);
    // The scores of steps to y from each label, -inf beyond, up to whole vectors.
    void (*column)(const ListedScores& table, int64_t y, int64_t stride, double* to);
};

// What lists of one call share.
struct NBest {
    const Chains& c;
    int64_t k;
    HeadVerbs heads;
    const double* columns;       // (K, stride) of a table that all edges share, or null
    const ListedScores* listed;  // ... of which pairs are listed, or null
    int64_t stride;              // of rows, too
    const int64_t* best;         // (N,) what is returned for one alone; rounding may leave a choice
    const double* best_score;    // (B,)
    int64_t* states;             // (k, N)
    double* scores;              // (k, B)
    Control& control;
};

// Fills states[r * N + begin ...] and scores[r * B + sequence], r < k, best first, of m sequences;
// what does not exist keeps the score -inf and gets states -1. Ties: the lowest labels.
// `rows[r]`, (n, stride): the best score of a prefix that ends in each label
// (Level::prefix_scores). Throws bad_alloc.
void n_best(const NBest& call, const int64_t* sequences, int m, const double* const* rows,
            Scratch& scratch, bool caller);

}  // namespace vs
