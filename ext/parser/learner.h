// Learning from the sentences of a treebank, in batches on the pool.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/problem.h"
#include "parser/worker.h"
#include "pool/pool.h"

namespace vs::parser {

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
    int64_t cut_short = 0;  // sentences whose program was
};

class Learner {
  public:
    Learner(const Corpus& corpus, const Templates& templates, const Trees& trees);

    // A pass over the sentences `order` in batches: gradients of a batch are taken at the same
    // weights and added in its order, so that the threads do not show. Parts whose residual does
    // not exceed `least` are left alone: nothing is learned from them that is seen, and they are
    // most.
    Pass sweep(const Rule& rule, const Learnt& to, const int64_t* order, int64_t count,
               int64_t batch, double least, int threads, const PoolApi& pool, Control* control);

  private:
    static constexpr int kBuckets = 32;
    static constexpr size_t kAhead = 4;    // lines that are on their way
    static constexpr int64_t kPieces = 4;  // of a long example
    enum class What { kAll, kRead, kScore, kLoss, kPull };
    struct Step {
        What what;
        int64_t place, piece;  // in the batch; of the example
    };
    struct Example {
        int64_t pieces = 1;
        std::unique_ptr<Worker> worker;  // where there are several
        double loss = 0.0;
        bool cut_short = false;
        std::vector<Change> bucket[kPieces][kBuckets];
    };
    // The gradient of some lines: of each its number and kSlots sums.
    struct Bucket {
        double square = 0.0;
        std::vector<Change> changes;
        std::vector<uint64_t> order;
        std::vector<uint32_t> lines;
        std::vector<double> sums;
    };
    void plan(int threads);
    void step(const Step& step, int worker);
    void sum(int64_t bucket);
    static void run(void* context, int64_t task, int worker);
    static void add(void* context, int64_t task, int worker);
    static void apply(void* context, int64_t task, int worker);

    const Corpus corpus_;
    const Templates& templates_;
    const Trees trees_;
    std::vector<std::unique_ptr<Worker>> workers_;
    std::vector<Example> examples_;  // of a batch
    Bucket buckets_[kBuckets];
    // The batch under way:
    const Rule* rule_ = nullptr;
    Control* control_ = nullptr;
    Control* adding_ = nullptr;  // while gradients are added up
    Shortage shortage_;
    Learnt to_;
    const int64_t* batch_ = nullptr;
    int64_t size_ = 0;
    Tasks tasks_;
    std::vector<Step> steps_;  // of each task
    double step_ = 0.0, least_ = 0.0;
};

}  // namespace vs::parser
