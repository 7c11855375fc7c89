// Belief propagation with a tree factor and pairs of arcs (parser #1 of MSFXM10), one sentence at a
// time. A message is log-odds: what it says of an arc that is on, less of one that is off.
#pragma once

#include <cstdint>
#include <vector>

#include "parser/parts.h"
#include "trees/trees.h"

namespace vs::parser {

class Loopy {
  public:
    static constexpr double kMostOdds = 500.0;  // log-odds of an arc are held within these
    int64_t iterations = 10;                    // at most, as in RS10
    double tolerance = 1e-4;                    // of messages that have converged

    // Bethe log Z, and beliefs (parts,) at these potentials; -inf: no tree, and no beliefs.
    double run(const Parts& parts, const double* potentials, const trees::TreesApi& api,
               trees::Kind kind, bool single_root, double* beliefs);

    // What the tree factor was told last, as the scores of a sentence; and memory for its sums.
    trees::Sentence sentence(const Parts& parts, bool single_root) const {
        return {table_.data(), parts.n, single_root};
    }
    double* scratch() { return scratch_.data(); }

  private:
    // Log-odds of each arc: its potential, what pairs say of it and what the tree factor says.
    double sum(const Parts& parts, const double* potentials, const trees::TreesApi& api,
               trees::Kind kind, bool single_root);
    // New messages of pairs; the largest change.
    double send(const Parts& parts, const double* theta);

    std::vector<double> table_, ratio_, scratch_;
    std::vector<double> total_;  // (arcs,)
    std::vector<double> to_;     // (pairs, 2) to the first and to the second arc
};

}  // namespace vs::parser
