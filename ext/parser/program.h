// The linear program of a sentence by dual decomposition (parser #2 of MSFXM10), one at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <vector>

#include "dual/dual.h"
#include "parser/loopy.h"
#include "parser/parts.h"

namespace vs::parser {

// The module's; before any sentence.
void use_dual(const dual::DualApi* api, const dependency::TreesApi* trees) noexcept;

// A call of many sentences as one that takes long sees it: who polls asks, others look whether it
// said stop.
struct Watched {
    Control* control;
    bool polls;

    static int look(void* arg) {
        const Watched& w = *static_cast<Watched*>(arg);
        if (w.polls && w.control->poll && w.control->poll(w.control->arg)) w.control->stop.store(1);
        return w.control->stop.load(std::memory_order_relaxed);
    }
};

class Program {
  public:
    // The arcs of a tree near to the optimum, the program's point, and how it ended, for potentials
    // (parts,). kOk, kInfeasible: no tree, kCancelled or kNoMemory.
    Status solve(const Parts& parts, const double* potentials, const Trees& trees, double tolerance,
                 int64_t max_iterations, Control* control);
    // (arcs,) and more: 1 where the tree has an arc; the optimum's own where that is a tree.
    std::vector<int64_t> states;
    std::vector<double> point;  // (arcs,) and more
    dual::Answer answer;
    // Whether no part of non-projectivity counted for more than it is worth.
    bool exact = true;
    // The point with its pairs, (parts,): the most that their arcs allow where they score above 0,
    // and the least elsewhere.
    void whole(const Parts& parts, const double* potentials, double* out) const;

  private:
    int64_t variable(double score);
    void add(std::unique_ptr<factors::Structured> factor);
    void add(std::initializer_list<int64_t> scope, std::initializer_list<int64_t> negated);  // Or
    void lay_out(const Parts& parts, const double* potentials, const Trees& trees);
    void add_flow(const Parts& parts, int64_t word);
    void add_nonprojective(const Parts& parts, size_t i, double score);
    void reach(const Parts& parts, int32_t h);
    bool refine(const Parts& parts, const double* potentials);
    void take_tree(const Parts& parts);

    std::vector<double> local_, table_;
    std::vector<int64_t> ptr_, scope_;
    std::vector<const double*> tables_;
    std::vector<const factors::Structured*> own_;
    std::vector<std::unique_ptr<factors::Structured>> kept_;
    // For each part of non-projectivity: the words between whose flows are asked for, and the
    // number of the variable, where there are some. For each word that has a flow: the path
    // variables of the others.
    std::vector<std::vector<int32_t>> asked_;
    std::vector<int64_t> number_;
    std::vector<std::vector<int64_t>> path_;
    std::vector<int32_t> heads_;               // of the tree
    std::vector<std::vector<int32_t>> below_;  // modifiers of each head in the point
    std::vector<uint8_t> free_;                // (words + 1,) of `reach`
};

}  // namespace vs::parser
