// A graph of binary variables as dual decomposition sees it: what is known is taken out, pairs are
// numbers, and every factor has shares of its variables' scores.
//
//   score(y) = base + sum_v odds_v y_v + sum_pairs c y_a y_b + sum_parts score(y)
//
// Edge e is the place of a variable in a factor: those of pair i are i and i + pairs, those of
// parts follow. For any shares s the dual value
//
//   base + sum_v max(0, odds_v - sum_e s_e) + sum_factors max_y [score(y) + sum_e s_e y_e]
//
// is at least the optimum of the linear program, and at least the best score.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/problem.h"
#include "core/sum.h"
#include "dual/dual.h"
#include "dual/part.h"

namespace vs::dual {

class Problem {
  public:
    // kOk, kInfeasible, kCancelled.
    Status lay_out(const Graph& graph, const Control* control);

    // The score of states (graph.n,), with the graph's own tables.
    double score(const int64_t* states) const;
    // The dual value of shares (edges,), rounded up. kOk, or kCancelled, also where a kind written
    // in Python raised.
    Status bound(const double* share, const Control* control, double* value) const;
    // No configuration scores less.
    double lowest() const { return lowest_; }
    double base() const { return base_; }

    int64_t n_edges() const { return static_cast<int64_t>(var.size()); }
    int64_t n_pairs() const { return static_cast<int64_t>(couple.size()); }
    // The pair of an edge, and the edge of its other variable.
    int64_t pair_of(int64_t e) const { return e < n_pairs() ? e : e - n_pairs(); }
    int64_t other(int64_t e) const { return e < n_pairs() ? e + n_pairs() : e - n_pairs(); }
    int64_t n_open() const { return static_cast<int64_t>(open.size()); }

    std::vector<int8_t> known;   // (graph.n,) the state, -1: open
    std::vector<int64_t> open;   // number in the graph of each open variable
    std::vector<double> odds;    // (open,)
    std::vector<double> couple;  // (pairs,) c
    std::vector<std::unique_ptr<Part>> part;
    std::vector<int32_t> var;                // (edges,) open variable
    std::vector<int64_t> var_ptr, var_edge;  // edges of each open variable
    std::vector<int64_t> origin;             // (edges,) place of the edge in graph.scope
    std::vector<double> offset;  // (edges,) what a share has beside that of the graph's own factor
    bool serial = false;

  private:
    Status decide(const Control* control);
    void add_table(int64_t f, std::vector<Sum>* sums, Sum* base);
    void finish();

    Graph g_;
    double base_ = 0.0, lowest_ = 0.0, rounding_ = 0.0;
};

}  // namespace vs::dual
