// Which arcs are looked at: those that an arc-factored model thinks possible.
#pragma once

#include <cstdint>
#include <vector>

#include "core/problem.h"
#include "parser/worker.h"
#include "pool/pool.h"

namespace vs::parser {

constexpr int64_t kMostHeads = 10;    // of a word
constexpr double kLeastShare = 1e-4;  // of the marginal of its best head

struct Kept {
    std::vector<int32_t> head, modifier;
    Listed listed() const {
        return {static_cast<int64_t>(head.size()), head.data(), modifier.data()};
    }
};

// Prunes one sentence after the other. The arcs of the best tree stay, so that there is one.
class Pruner {
  public:
    Pruner(const Templates& templates, const Trees& trees) : worker_(templates, trees) {}

    // `gold` (n,), or null: its arcs stay as well.
    template <class T>
    void prune(const T* weights, const uint32_t* words, int64_t n, const int32_t* gold,
               Kept* kept) {
        worker_.read(words, n, {});
        choose(worker_.score(weights), n, gold, kept);
    }
    // The same of a sentence of these.
    void prune(const uint32_t* words, int64_t n, const ArcScores& scores, int64_t sentence,
               Kept* kept) {
        worker_.list(words, n, {}, false);
        worker_.tell(scores, sentence);
        choose(worker_.known(), n, nullptr, kept);
    }

  private:
    void choose(const double* potentials, int64_t n, const int32_t* gold, Kept* kept);

    Worker worker_;
    std::vector<double> p_, row_;
};

// The arcs of every sentence of a treebank, those of its trees among them.
Status prune(const Corpus& corpus, const Templates& templates, const Trees& trees,
             const float* weights, int threads, const PoolApi& pool, Control* control,
             std::vector<Kept>* kept);

}  // namespace vs::parser
