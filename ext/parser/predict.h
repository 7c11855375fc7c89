// Many sentences parsed on the pool: one answer for each, whoever computes it.
#pragma once

#include <cstdint>

#include "core/problem.h"
#include "parser/labels.h"
#include "parser/program.h"
#include "parser/prune.h"
#include "pool/pool.h"

namespace vs::parser {

// A parser's weights: arrays of the caller.
struct Model {
    const Templates* parts = nullptr;
    const float* weights = nullptr;
    const Templates* pruner = nullptr;  // null: no arc is left out
    const float* pruner_weights = nullptr;
    const Labels* labels = nullptr;
    const float* label_weights = nullptr;
    // Weights by class of arcs, or of the pruner where there is one; of arcs that it keeps; and of
    // pairs. Null: a dictionary has them.
    ClassWeights *arcs = nullptr, *kept = nullptr;
    ClassWeights *siblings = nullptr, *grandparents = nullptr;
};

enum class Engine : int { kMessages, kRelaxed, kProgram };

struct Method {
    Engine engine = Engine::kMessages;  // with all pairs that the model has; so does kProgram
    double tolerance = 0.0;             // of a program
    int64_t max_iterations = 0;         // likewise
    Relaxed::Options options;
    Effort effort;
};

// How a sentence was parsed.
struct Told {
    int64_t pairs, used;  // pairs of the arcs that were looked at, and those that took part
    int64_t scored;       // pairs whose potentials were wanted
    int64_t rounds, iterations, converged;
    int64_t integral;  // the optimum of the program is a tree
};

struct Answers {
    int32_t* heads = nullptr;      // (words,)
    int32_t* labels = nullptr;     // (words,)
    double* confidence = nullptr;  // (words,) the marginal of each word's arc, or the program's
    Told* told = nullptr;          // (sentences,)
};

// The tree with the greatest sum of marginals (Smith and Eisner 2008): exact ones of arcs alone,
// else beliefs. A program answers with the tree that is its optimum, or one near to it.
Status predict(const Model& model, const Method& method, const Corpus& corpus, const Trees& trees,
               int threads, const PoolApi& pool, Control* control, const Answers& answers);

}  // namespace vs::parser
