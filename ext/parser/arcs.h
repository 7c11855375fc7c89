// The scores of all arcs of many sentences at once. One sentence after the other, each feature is a
// line that is not in the cache; template by template, its weights stay there for all sentences.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "parser/parts.h"

namespace vs::parser {

// The score of an arc from one line of memory, by template and by the direction and distance of the
// arc: the sum of the three weights of the line that count, in the order in which `score` adds
// them.
class ArcWeights {
  public:
    static constexpr int kClasses = 2 * kBins;

    // Takes the first set of templates, which have no names. Both stay where they are.
    ArcWeights(const Templates& templates, const float* weights)
        : set_(templates.sets[0]), weights_(weights) {}

    // Adds the weights up, the first time.
    void make();
    const Set& set() const { return set_; }
    // (mask + 1,) of a template and a class.
    const float* of(int64_t t, int c) const {
        const auto i = at(t);
        return sums_.get() + int64_t{set_.base[i]} * kClasses + (int64_t{set_.mask[i]} + 1) * c;
    }

  private:
    const Set& set_;
    const float* weights_;
    std::once_flag made_;
    std::unique_ptr<float[]> sums_;
};

// The words of a few sentences, and the scores of their arcs.
class ArcScores {
  public:
    // Sentences that are scored together: the next from `first` on, before `last`.
    static int64_t end(const int64_t* offset, int64_t first, int64_t last);
    // Scores sentences [first, last), laid end to end.
    void score(const ArcWeights& weights, const uint32_t* words, const int64_t* offset,
               int64_t first, int64_t last);
    // (n n,) of a sentence, by modifier, then head: the bits that `Scorer` has.
    void tell(int64_t sentence, double* out) const;

  private:
    struct One {
        Sentence words;
        int64_t root = 0;                          // its position
        int64_t begin[ArcWeights::kClasses] = {};  // of its arcs, by class
        int64_t end[ArcWeights::kClasses] = {};
        uint32_t tags[Sentence::kTags];  // hashes of its tags
    };
    // Positions among those of all sentences.
    struct Arc {
        uint32_t head, modifier;
    };
    void lay_out();
    // Hashes of the heads and of the modifiers of templates [t, t + count), in rows_.
    void hash(const Set& set, int64_t t, int64_t count);
    // Adds templates from t on to the sums; `values` are hashes of what they hold as well.
    template <int kCount, bool kValues>
    void add(const ArcWeights& weights, int64_t t, const uint32_t* values);
    void add_between(const ArcWeights& weights, int64_t t);

    const Values values_;
    int64_t first_ = 0, positions_ = 0;
    std::vector<One> all_;
    int64_t begin_[ArcWeights::kClasses + 1] = {};
    // By class, then sentence, modifier and head:
    std::vector<Arc> arc_;
    std::vector<uint32_t> distance_, counts_;  // hashes of what a template may hold as well
    std::vector<uint64_t> tags_;               // those between, by their numbers
    std::vector<float> sum_;
    std::vector<uint32_t> rows_;  // (templates, 2, positions)
};

}  // namespace vs::parser
