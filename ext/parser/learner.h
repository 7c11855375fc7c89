// Learning from the sentences of a treebank, in batches on the pool.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/problem.h"
#include "parser/parts.h"
#include "pool/pool.h"
#include "trees/trees.h"

namespace vs::parser {

// Sentences laid end to end, encoded, with their trees.
struct Corpus {
    int64_t sentences = 0;
    const int64_t* offset = nullptr;  // (sentences + 1,) first word of each
    const uint32_t* words = nullptr;  // (words, kFields)
    const int32_t* heads = nullptr;   // (words,) 0 is the root
    // The arcs that are looked at, by modifier and head; null: all.
    const int64_t* arc_at = nullptr;  // (sentences + 1,)
    const int32_t *arc_head = nullptr, *arc_modifier = nullptr;

    int64_t size(int64_t i) const { return offset[i + 1] - offset[i]; }
    const uint32_t* sentence(int64_t i) const { return words + offset[i] * kFields; }
    const int32_t* gold(int64_t i) const { return heads + offset[i]; }
};

struct Trees {
    const trees::TreesApi* api = nullptr;
    trees::Kind kind = trees::Kind::kTree;
    bool single_root = false;
};

// The loss L_{beta,gamma} of MSFXM10, and how weights follow from it.
struct Rule {
    enum Kind : int { kAggressive, kAdaGrad };
    int kind = kAggressive;
    double beta = 1.0, gamma = 0.0;
    double longest = 0.0;       // step of kAggressive
    double rate = 0.0;          // of kAdaGrad
    double* squares = nullptr;  // (n_weights,) of kAdaGrad: sums of squares of gradients
};

struct Learnt {
    double* weights = nullptr;   // (n_weights,)
    double* late = nullptr;      // (n_weights,) sum of time times change
    uint8_t* touched = nullptr;  // (n_weights,)
    int64_t time = 0;            // updates so far
};

struct Pass {
    Status status = kOk;
    double loss = 0.0;
    int64_t updates = 0;
};

// What one worker needs for one sentence after the other.
class Worker {
  public:
    Worker(const Templates& templates, const Trees& trees);

    void read(const Corpus& corpus, int64_t i);
    const Parts& parts() const { return parts_; }
    const Scorer& scorer() const { return scorer_; }
    // log Z and the marginals of parts under these potentials; -inf: no tree.
    double marginals(const double* potentials, double* out);
    // The best tree's score, and which parts it has.
    double best(const double* potentials, double* out);
    // L_{beta,gamma} at these weights, and the residual (parts,) of its gradient.
    double loss(const Corpus& corpus, int64_t i, const Rule& rule, const double* weights);
    const std::vector<double>& residual() const { return residual_; }

  private:
    trees::Sentence dense(const double* potentials);

    const Templates& templates_;
    const Trees trees_;
    Parts parts_;
    Scorer scorer_;
    std::vector<double> table_, p_, scratch_, scores_, residual_, gold_;
    std::vector<int64_t> heads_;
    std::vector<int32_t> heads32_;
};

class Learner {
  public:
    Learner(const Corpus& corpus, const Templates& templates, const Trees& trees);

    // A pass over the sentences `order` in batches: gradients of a batch are taken at the same
    // weights and added in its order, so that the threads do not show.
    Pass sweep(const Rule& rule, const Learnt& to, const int64_t* order, int64_t count,
               int64_t batch, int threads, const PoolApi& pool, Control* control);

  private:
    static constexpr int kBuckets = 32;
    // Parts whose marginal is nearer to the truth say nothing that would be seen.
    static constexpr double kLeast = 1e-6;
    struct Example {
        double loss = 0.0;
        std::vector<Change> bucket[kBuckets];
    };
    struct Bucket {
        double square = 0.0;
        std::vector<uint32_t> lines;
    };
    static void differentiate(void* context, int64_t task, int worker);
    static void add(void* context, int64_t task, int worker);
    static void apply(void* context, int64_t task, int worker);

    const Corpus corpus_;
    const Templates& templates_;
    const Trees trees_;
    std::vector<std::unique_ptr<Worker>> workers_;
    std::vector<Example> examples_;  // of a batch
    Bucket buckets_[kBuckets];
    std::vector<double> gradient_;  // (n_weights,) of a batch
    std::vector<uint8_t> seen_;     // (lines,)
    // Of the batch under way:
    const Rule* rule_ = nullptr;
    Learnt to_;
    const int64_t* batch_ = nullptr;
    int64_t size_ = 0;
    double step_ = 0.0;
};

}  // namespace vs::parser
