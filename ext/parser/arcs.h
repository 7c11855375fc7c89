// The scores of all arcs of many sentences at once. One sentence after the other, each feature is a
// line that is not in the cache; template by template, its weights stay there for all sentences.
#pragma once

#include <cstdint>
#include <vector>

#include "parser/class_weights.h"
#include "parser/parts.h"

namespace vs::parser {

// The words of a few sentences, and the scores of their arcs.
class ArcScores {
  public:
    // Sentences that are scored together: the next from `first` on, before `last`.
    static int64_t end(const int64_t* offset, int64_t first, int64_t last);
    // Scores sentences [first, last), laid end to end: all of their arcs, or those listed.
    void score(const ClassWeights& weights, const uint32_t* words, const int64_t* offset,
               int64_t first, int64_t last, const Listed* arcs = nullptr);
    // (arcs,) of a sentence, by modifier, then head: the bits that `Scorer` has.
    void tell(int64_t sentence, double* out) const;

  private:
    static constexpr int kClasses = 2 * kBins;
    struct One {
        Sentence words;
        Listed arcs;
        int64_t root = 0;              // its position
        int64_t begin[kClasses] = {};  // of its arcs, by class
        int64_t end[kClasses] = {};
        uint32_t tags[Sentence::kTags];  // hashes of its tags
    };
    // Positions among those of all sentences.
    struct Arc {
        uint32_t head, modifier;
    };
    // act(head, modifier, class) of each arc of a sentence: by modifier, then head.
    template <class Act>
    static void each(const One& one, const Act& act);
    void lay_out();
    // Hashes of the heads and of the modifiers of templates [t, t + count), in rows_.
    void hash(const Set& set, int64_t t, int64_t count);
    // Adds templates from t on to the sums; `values` are hashes of what they hold as well.
    template <int kCount, bool kValues>
    void add(const ClassWeights& weights, int64_t t, const uint32_t* values);
    void add_between(const ClassWeights& weights, int64_t t);

    const Values values_;
    int64_t first_ = 0, positions_ = 0;
    std::vector<One> all_;
    int64_t begin_[kClasses + 1] = {};
    // By class, then sentence, modifier and head:
    std::vector<Arc> arc_;
    std::vector<uint32_t> distance_, counts_;  // hashes of what a template may hold as well
    std::vector<uint64_t> tags_;               // those between, by their numbers
    std::vector<float> sum_;
    std::vector<uint32_t> rows_;  // (positions, 2, templates)
};

}  // namespace vs::parser
