// Belief propagation with a tree factor and pairs of arcs (parser #1 of MSFXM10), one sentence at a
// time. A message is log-odds: what it says of an arc that is on, less of one that is off. They are
// passed as odds, plain numbers, so that nothing but arcs has a logarithm:
//   to a = (B + R t) / (B + R)    R the odds of b, B the message to b, t = e^theta
// until some number leaves its range, or where messages are damped.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "parser/parts.h"
#include "dependency/trees.h"

namespace vs::parser {

// The probability p of log-odds x; and 1 - p, with its digits.
inline double logistic(double x, double* rest = nullptr) {
    const double e = std::exp(-std::fabs(x)), large = 1.0 / (1.0 + e), small = e * large;
    if (rest) *rest = x > 0.0 ? small : large;
    return x > 0.0 ? large : small;
}

struct Trees {
    const dependency::TreesApi* api = nullptr;
    dependency::Kind kind = dependency::Kind::kTree;
    bool single_root = false;
};

// How long messages are passed.
struct Effort {
    int64_t iterations = 10;  // at most, as in RS10
    double tolerance = 1e-4;  // of messages that have converged
    double damping = 0.0;     // the share of the old message that a new one keeps
};

// Memory of one sentence after the other: sums over trees, and what messages and heads want in a
// run.
struct Memory {
    std::vector<double> scratch, ratio, marginal;
    // Arcs that are in pairs, each once; (n + 1, n + 1) where they are; (pairs,) e^theta - 1.
    std::vector<int32_t> few;
    std::vector<uint8_t> asked;
    std::vector<double> growth;
    // (arcs,) odds, and products of the messages to an arc; (pairs,) e^theta; messages as odds.
    std::vector<double> odds, product, factor, sent, next;
    std::vector<int32_t> best;         // (n + 1,) arcs, -1 for none
    std::vector<double> most, second;  // (n + 1,) log-odds or probabilities
    std::vector<uint8_t> chosen;       // (n + 1, n + 1)
    std::vector<int32_t> seen;         // (n + 1,)
    // Scratch of the sums over the trees of n words; and room for what they tell of arcs.
    double* of(const Trees& trees, int64_t n) {
        const auto wanted = static_cast<size_t>(trees.api->scratch_size(trees.kind, n));
        const auto arcs = static_cast<size_t>((n + 1) * (n + 1));
        if (scratch.size() < wanted) scratch.resize(wanted);
        if (ratio.size() < arcs) ratio.resize(arcs);
        return scratch.data();
    }
};

class Loopy {
  public:
    static constexpr double kMostOdds = 500.0;  // log-odds of an arc are held within these
    Effort effort;

    explicit Loopy(Memory* memory) : memory_(memory) {}
    // Other memory, while nothing in it is wanted any more.
    void use(Memory* memory) { memory_ = memory; }

    // Bethe log Z, and beliefs (parts,) at these potentials; -inf: no tree, and no beliefs. Begins
    // from `messages` where there are as many as pairs want, and leaves them there; else it may
    // leave none. `added`: since the last run there are more pairs, with messages of 0, and nothing
    // else is new. No beliefs: `tell` may be asked for them, or `heads` alone. least: log-odds of
    // arcs with a smaller probability are not wanted, if there are no pairs (`complete`).
    double run(const Parts& parts, const double* potentials, const Trees& trees, double* beliefs,
               bool added = false, double least = 0.0);
    // The same in steps, without beliefs, so that trees of several sentences can be summed up side
    // by side. True: `sums` of `tree` and `answers` are wanted, and log Z, before `resume`.
    bool begin(const Parts& parts, const double* potentials, const Trees& trees, bool added,
               double least);
    bool resume(const Parts& parts, const double* potentials, double log_z);
    dependency::Sentence tree(const Parts& parts, const Trees& trees) const {
        return {table_.data(), parts.n, trees.single_root};
    }
    dependency::Arcs answers() const;
    // Sums up what is wanted; log Z.
    double ask(const Parts& parts, const Trees& trees);
    // Bethe's log Z but for what pairs add: -inf, no tree.
    double log_z() const { return log_z_; }

    // After a run without beliefs, before its memory is used by others: those, and Bethe log Z.
    double tell(const Parts& parts, const double* potentials, const Trees& trees, double* beliefs);
    // The same of a run without pairs, whenever.
    void tell_arcs(double* beliefs) const;
    // Heads (n,) with the largest beliefs, and these: false where they are no tree, or others have
    // nearly as large ones. Then `tell` may be asked.
    bool heads(const Parts& parts, const double* potentials, const Trees& trees, int32_t* heads,
               double* beliefs);
    // All log-odds of the last run, where `least` left some out, and its sums; and as a step.
    void complete(const Parts& parts, const double* potentials, const Trees& trees);
    bool begin_complete(const Parts& parts, const double* potentials, const Trees& trees);

    // The last run:
    bool converged() const { return converged_; }
    int64_t iterations() const { return iterations_; }
    // (arcs,) log-odds.
    const std::vector<double>& odds() const { return total_; }
    // The scores of arcs that the tree factor was told, (n + 1, n + 1); its sums, and their memory.
    const std::vector<double>& table() const { return table_; }
    dependency::Sums* sums() { return &sums_; }
    double* scratch() { return memory_->scratch.data(); }
    // Others use that memory from here on.
    void leave() { sums_.narrow = false; }
    std::vector<double> messages;  // (pairs, 2) to the first and to the second arc

  private:
    // What is wanted of the tree factor: a first answer; log-odds of arcs for messages that are
    // odds, or logarithms; what `least` left out.
    enum class Wanted : int { kFirst, kOdds, kLogs, kRest };
    // Scores of arcs for the tree factor: potentials and what pairs say, by messages.
    void want(const Parts& parts, const double* potentials, double least);
    // The same where what pairs say is in total_.
    void want_tree(const Parts& parts, const double* potentials, double least);
    // The same where pairs are few: of their arcs alone, the others have the scores that they had.
    void begin_few(const Parts& parts);
    void want_few(const Parts& parts, const double* potentials);
    void add_messages(const Parts& parts);
    // Log-odds of each arc, or of those in pairs, by what the tree factor says.
    void read(const Parts& parts);
    // Messages until a tree is wanted (true) or they end.
    bool pass(const Parts& parts, const double* potentials);
    // Answers of other arcs from the last sums.
    void more(const Trees& trees, const uint8_t* asked, double* ratio, double* marginal = nullptr);
    // Of each word the arc with the largest belief. False: another one has nearly as large a one.
    bool largest(const Parts& parts, const Trees& trees);
    bool is_tree(const int32_t* heads, const Trees& trees);
    // Log-odds of the arcs that `want_few` did not ask of.
    void ask_others(const Parts& parts, const double* potentials, const Trees& trees);
    void read_growth(int64_t pairs, const double* theta);
    // New messages of pairs; the largest change.
    double send(const Parts& parts, const double* theta);
    // Beliefs of pairs, and their part of Bethe log Z.
    double tell_pairs(const Parts& parts, const double* theta, double* beliefs) const;

    // The same with odds. False: some number is out of range, messages are logarithms from here on.
    bool begin_odds(const Parts& parts, const double* theta);
    bool read_odds();
    // All: of all arcs, else of those in pairs alone.
    void want_odds(const Parts& parts, const double* potentials, bool all);
    void read_messages();
    // Whether they have converged: then they stay as they were.
    bool send_odds(const Parts& parts);
    double tell_odds(const Parts& parts, double* beliefs) const;

    Memory* memory_;
    std::vector<double> table_;
    dependency::Sums sums_;
    std::vector<double> total_;  // (arcs,)
    double log_z_ = 0.0;         // of the tree factor
    Wanted wanted_ = Wanted::kFirst;
    bool few_asked_ = false;  // of arcs in pairs alone
    double least_ = 0.0;
    // Of this run: messages are odds; pairs are few; pairs were added.
    bool pass_odds_ = false, few_pairs_ = false, added_ = false;
    // Of the last run: messages are odds, there was none to begin with, and whether the last sum
    // was asked of all arcs, or of those in pairs, or of those that are probable enough.
    bool passed_odds_ = false, fresh_ = false, all_ = true, partial_ = false;
    bool converged_ = true;
    int64_t iterations_ = 0;
};

}  // namespace vs::parser
