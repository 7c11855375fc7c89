// Many sentences parsed on the pool: one answer for each, whoever computes it.
#pragma once

#include <cstdint>

#include "core/problem.h"
#include "parser/labels.h"
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
};

struct Method {
    bool relaxed = false;  // else with all pairs that the model has
    Relaxed::Options options;
};

struct Answers {
    int32_t* heads = nullptr;      // (words,)
    int32_t* labels = nullptr;     // (words,)
    double* confidence = nullptr;  // (words,) the marginal of each word's arc
    int64_t* pairs = nullptr;      // (sentences,) how many took part
};

// The tree with the greatest sum of marginals (Smith and Eisner 2008): exact ones of arcs alone,
// else beliefs.
Status predict(const Model& model, const Method& method, const Corpus& corpus, const Trees& trees,
               int threads, const PoolApi& pool, Control* control, const Answers& answers);

}  // namespace vs::parser
