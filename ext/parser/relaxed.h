// Relaxed marginal inference (RS10, Algorithm 1) of one sentence: pairs of arcs are added where
// they would change something. No list of all pairs is made: bounds on their potentials rule most
// out before they are scored, and none is missed.
#pragma once

#include <cstdint>
#include <vector>

#include "parser/bounds.h"
#include "parser/candidates.h"
#include "parser/loopy.h"
#include "parser/pair_scores.h"
#include "parser/parts.h"

namespace vs::parser {

// Which pairs are added: those with a gain above `amount` (RS10; MinJoint of RSM10); as few as
// possible, such that the gains of those left out sum up to at most `amount` (MinSize); or the
// `amount` of them that have the largest gains (MinDivergence).
enum class Choice : int { kAbove = 0, kSize = 1, kDivergence = 2 };

class Relaxed {
  public:
    struct Options {
        Choice choice = Choice::kAbove;
        double amount = 1e-4;
        int64_t rounds = 1;              // at most; negative: until nothing is added
        const Bounds* bounds = nullptr;  // of the weights
    };
    struct Counts {
        int64_t rounds = 0;
        int64_t scored = 0;      // pairs whose potential was wanted, of all rounds
        int64_t iterations = 0;  // of belief propagation
        bool converged = true;   // whether the messages of the last round have
    };

    // What one thread needs for all sentences.
    struct Shared {
        Shared(const Templates& templates, const PairScores::Weights& w)
            : weights(w), scores(templates), own(templates) {}
        const PairScores::Weights weights;
        PairScores scores;
        PairScores own;  // of one sentence that has too many to wait
        Thresholds thresholds;
        Floors floors;
        Memory memory;
        std::vector<double> two, up;  // joints of the arcs of one head
        std::vector<int32_t> left;    // those of a row that may have a gain
    };

    // The sentence and what is known of it: `parts` has arcs, at `potentials`; pairs are added to
    // both.
    struct Place {
        const Sentence& sentence;
        const Trees& trees;
        const Options& options;
        Parts* parts;
        std::vector<double>* potentials;
        Loopy* loopy;
        Shared* shared;
    };
    // Sums over trees are wanted in steps, as of Loopy: `begin` and `resume` are true where
    // loopy->tree() is to be summed up first. Pairs that may be added are to be scored: those of
    // many sentences at once, before `read` and `begin_end`.
    bool begin(const Place& here);
    bool resume(const Place& here, double log_z);
    void read(const Options& options, Shared* shared);
    // Whether beliefs of all arcs need not be known.
    static bool quick(const Options& options) {
        return options.choice == Choice::kAbove && options.rounds == 1;
    }
    // Adds pairs. Beliefs (parts,) and Bethe's `log_z` of what there is then; -inf: no tree.
    // Without beliefs, where it is `quick`: `loopy` may be asked for them, or for heads alone.
    bool begin_end(const Place& here, std::vector<double>* beliefs);
    bool resume_end(const Place& here, std::vector<double>* beliefs, double log_z);
    double log_z() const { return log_z_; }
    Counts counts;

  private:
    struct Screen;
    static double rest(double p, double q_a, double q_b);
    // The candidates of a choice; those with a gain above epsilon.
    template <class Find>
    void choose(const Options& options, const Parts& parts, const Find& find);
    // After a round: true, another one wants sums.
    bool go_on(const Place& here, std::vector<double>* beliefs);
    bool end_round(const Place& here, std::vector<double>* beliefs);
    bool finish(const Place& here, std::vector<double>* beliefs);
    void find(const Place& here, double epsilon);
    void list(const Parts& parts, const Loopy& loopy, const Range& potentials,
              const Harmless& harmless, const Floors& floors);
    void tell(const Parts& parts, const double* potentials, const Trees& trees, Loopy* loopy);
    void offer(const Place& here, double epsilon);
    void screen(const Place& here, const Harmless& harmless);
    void weigh(const Harmless& harmless, const PairScores& scores, PairScores::Mark next);
    void weigh_last(const Harmless& harmless, const PairScores& scores);
    void weigh_now(const Sentence& sentence, const Harmless& harmless, Shared* shared);
    int64_t waiting() const;
    void ask(const Place& here, double epsilon);
    bool add(const Place& here);
    void merge(const std::vector<Candidate>& from, const double* theta, const double* messages,
               std::vector<Parts::Pair>* pairs);

    double log_z_ = 0.0;
    bool offered_ = false;         // the pairs of the first round
    bool done_ = false;            // nothing is added any more
    PairScores::Mark first_ = {};  // of them
    // Candidates that are weighed already.
    size_t weighed_siblings_ = 0, weighed_grandparents_ = 0;
    std::vector<double> p_, q_;  // (arcs,) P(arc) and P(no arc) of those that are wanted
    // Arcs that may be the first one of grandparents, by modifier; heads; where each begins.
    std::vector<int32_t> wanted_, above_, into_;
    // Arcs that may be another one of a pair, by head, with modifiers; and in order.
    std::vector<int32_t> start_, child_, modifier_, next_, children_;
    Candidates found_;
    std::vector<Candidate*> open_;
    std::vector<double> table_;  // (n + 1, n + 1) scores of arcs
    std::vector<dependency::Pair> asked_;
    std::vector<double> joint_, potentials_, messages_;
    std::vector<Parts::Pair> pairs_;
};

}  // namespace vs::parser
