// The potentials of pairs of arcs of a few sentences at once, as those of arcs: template by
// template and class by class. Pair by pair each template is a line that is not in the cache.
#pragma once

#include <cstdint>
#include <vector>

#include "parser/class_weights.h"
#include "parser/parts.h"

namespace vs::parser {

class PairScores {
  public:
    static constexpr int kClasses = kSiblingClasses + kGrandparentClasses;
    static int class_of(Kind kind, const Slots& slots) {
        return (kind == Kind::kSibling ? 0 : kSiblingClasses) + pair_class(kind, slots);
    }
    // How many pairs of each class there are.
    struct Mark {
        int64_t count[kClasses];
    };
    // Weights by class, which have been made, or none: each pair by itself then.
    struct Weights {
        const float* all = nullptr;
        const ClassWeights *siblings = nullptr, *grandparents = nullptr;
    };

    explicit PairScores(const Templates& templates) : templates_(templates) {}

    void clear();
    // The sentence of the pairs that are added next. It stays where it is until they are scored.
    Mark begin(const Sentence& sentence);
    // As if there were none of the pairs that the sentence which began so has had.
    void take_back(const Mark& mark);
    // Pairs that have not been scored.
    int64_t waiting() const { return waiting_; }
    // A pair of siblings or of grandparents: nodes in the order of the roles.
    void add(Kind kind, const int32_t* nodes, const Slots& slots);
    // The bits that `Scorer` has.
    void score(const Weights& weights);
    // That of the i-th pair of a class.
    double of(int which, int64_t i) const { return double{lists_[which].sums[at(i)]}; }

  private:
    static constexpr int kAtOnce = 4;  // templates
    static constexpr int kRow = 16;    // hashes of a position: those of each role, one by template
    struct Pair {
        uint32_t position[kRoles];  // among those of all sentences
        uint32_t distance, counts;  // hashes of what a template may hold as well
    };
    struct List {
        std::vector<Pair> pairs;
        std::vector<float> sums;
    };
    void score(Kind kind, const float* weights, const ClassWeights* by_class);
    // In rows_, of templates [t, t + count).
    void hash(const Set& set, int64_t t, int64_t count);
    // act(sum, keys (kCount,)) of all pairs of a class.
    // Meanwhile the lines of `ahead` are asked for.
    template <int kCount, With kWith, class Act>
    void each(List* list, Ahead* ahead, const Act& act);
    template <int kCount, class Act>
    void each(With with, List* list, Ahead* ahead, const Act& act);

    const Templates& templates_;
    const Values values_;
    std::vector<const Sentence*> sentences_;
    int64_t positions_ = 0, root_ = 0;  // of all sentences; of the last one's root
    int64_t waiting_ = 0;
    List lists_[kClasses];
    std::vector<uint32_t> rows_;  // (positions, kRow)
};

}  // namespace vs::parser
