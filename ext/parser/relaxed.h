// Relaxed marginal inference (RS10, Algorithm 1) of one sentence: pairs of arcs are added where
// they would change something. No list of all pairs is made: bounds on their potentials rule most
// out before they are scored, and none is missed.
#pragma once

#include <cstdint>
#include <vector>

#include "parser/loopy.h"
#include "parser/parts.h"

namespace vs::parser {

// Between which numbers the potentials of a kind of pairs lie, whatever the words.
struct Range {
    double least = 0.0, most = 0.0;
    // The largest gain of such a pair is at most this times its probability:
    // log(1 - p + p e^t) - p t <= p (e^t - 1 - t).
    double gain() const;
};

// The ranges of siblings and of grandparents by the weights of each line of their templates.
void find_ranges(const Templates& templates, const float* weights, Range* siblings,
                 Range* grandparents);

// KL divergence by adding a pair of this potential that has probability p (RS10, Proposition 1).
double gain(double p, double theta);

class Relaxed {
  public:
    struct Options {
        double epsilon = 1e-4;
        int64_t rounds = 1;  // at most; negative: until nothing is added
        Range siblings, grandparents;
    };
    struct Counts {
        int64_t rounds = 0, scored = 0;
    };

    // `parts` has arcs, at `potentials`; pairs are added to both. Beliefs (parts,) and Bethe log Z
    // of what there is then; -inf: no tree.
    double run(const Scorer& scorer, const float* weights, const trees::TreesApi& api,
               trees::Kind kind, bool single_root, const Options& options, Parts* parts,
               std::vector<double>* potentials, std::vector<double>* beliefs, Loopy* loopy);
    Counts counts;

  private:
    // Adds the pairs that are worth it; false: none.
    bool add(const Scorer& scorer, const float* weights, const trees::TreesApi& api,
             trees::Kind kind, bool single_root, const Options& options, Parts* parts,
             std::vector<double>* potentials, const std::vector<double>& beliefs, Loopy* loopy);
    int64_t choose(const Scorer& scorer, const float* weights, Kind kind, double largest,
                   double epsilon, const std::vector<Parts::Pair>& candidates, const double* p,
                   const double* old, std::vector<Parts::Pair>* pairs);

    std::vector<uint8_t> siblings_, grandparents_;  // (arcs,) whether an arc can be in a pair
    std::vector<Parts::Pair> candidates_[2], merged_;
    std::vector<trees::Pair> asked_;
    std::vector<double> joint_, scores_;
};

}  // namespace vs::parser
