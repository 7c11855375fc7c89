// Relaxed marginal inference (RS10, Algorithm 1) of one sentence: pairs of arcs are added where
// they would change something. No list of all pairs is made: bounds on their potentials rule most
// out before they are scored, and none is missed.
#pragma once

#include <cstdint>
#include <vector>

#include "parser/bounds.h"
#include "parser/loopy.h"
#include "parser/parts.h"

namespace vs::parser {

class Relaxed {
  public:
    struct Options {
        double epsilon = 1e-4;           // the least gain
        int64_t rounds = 1;              // at most; negative: until nothing is added
        const Bounds* bounds = nullptr;  // of the weights
    };
    struct Counts {
        int64_t rounds = 0;
        int64_t scored = 0;      // pairs whose potential was wanted, of all rounds
        int64_t iterations = 0;  // of belief propagation
        bool converged = true;   // whether the messages of the last round have
    };

    // `parts` has arcs, at `potentials`; pairs are added to both. Beliefs (parts,) and Bethe log Z
    // of what there is then; -inf: no tree.
    double run(const Scorer& scorer, const float* weights, const Trees& trees,
               const Options& options, Parts* parts, std::vector<double>* potentials,
               std::vector<double>* beliefs, Loopy* loopy);
    Counts counts;

  private:
    struct Candidate {
        Parts::Pair pair;
        double theta, p, q;  // its potential; P(both arcs), < 0: not known; 1 - P(both arcs)
        bool worth(double epsilon) const;
    };
    struct Screen;
    static double rest(double p, double q_a, double q_b);
    void list(const Parts& parts, const Loopy& loopy, const Range& potentials);
    void tell(const Parts& parts, const Loopy& loopy);
    void screen(const Scorer& scorer, const float* weights, const Parts& parts, const Trees& trees,
                const Options& options, double* scratch);
    void ask(const Parts& parts, const Trees& trees, double* scratch);
    bool add(Parts* parts, std::vector<double>* potentials, Loopy* loopy);
    void merge(const std::vector<Candidate>& from, const double* theta, const double* messages,
               std::vector<Parts::Pair>* pairs);

    Harmless harmless_{0.0};
    std::vector<double> p_, q_;    // (arcs,) P(arc) and P(no arc)
    std::vector<int32_t> wanted_;  // arcs that may be in a pair, by modifier; where each begins
    std::vector<int32_t> into_;
    std::vector<int32_t> start_, child_, modifier_, next_;  // the same by head, with modifiers
    std::vector<Candidate> siblings_, grandparents_;
    std::vector<Candidate*> open_;
    std::vector<double> table_;     // (n + 1, n + 1) scores of arcs
    std::vector<double> two_, up_;  // joints of the arcs of one head
    std::vector<trees::Pair> asked_;
    std::vector<double> joint_, potentials_, messages_;
    std::vector<Parts::Pair> pairs_;
};

}  // namespace vs::parser
