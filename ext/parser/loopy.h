// Belief propagation with a tree factor and pairs of arcs, one sentence at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "parser/parts.h"
#include "trees/trees.h"

namespace vs::parser {

class Loopy {
  public:
    // Bethe log Z and beliefs (parts,) of `parts` at `potentials`; -inf: no tree.
    double run(const Parts& parts, const double* potentials, const trees::TreesApi& api,
               trees::Kind kind, bool single_root, int iterations, double* beliefs);

  private:
    std::vector<double> table_, ratio_, scratch_, total_, tree_, to_, strength_;
};

}  // namespace vs::parser
