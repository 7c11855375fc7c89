// Free variables of a graph that no other free one meets, solved exactly by a tree of their own.
#pragma once

#include <memory>
#include <vector>

#include "junction/slices.h"
#include "junction/solver.h"

namespace vs::junction {

// Errors of a marginal, relative to one, may grow by the exponential of this, log 1e3; or, where
// every marginal has its digits, of the other: those that no number is small enough for are far
// below what counts then.
constexpr double kSpan = 6.907755278982137, kFaithfulSpan = 500.0;

struct SegmentTree {
    std::vector<int64_t> variables;  // ascending
    std::vector<int64_t> ptr;        // of each in `local` and `marginals`
    std::vector<double> local, marginals;
    double log_z = 0.0, bytes = 0.0;
    int64_t cliques = 1;
    bool faithful = false;           // each marginal has its digits, however small it is
    bool sound = true;               // the tree's messages are those of `marginals`
    std::unique_ptr<Solver> solver;  // none for a single variable

    // kInfeasible, kCancelled; kTooMuch where the tree needs more than `bytes_left` bytes.
    static constexpr int kTooMuch = 100;
    int solve(const TableSlices& from, std::vector<int64_t> list, const std::vector<int64_t>& held,
              int threads, double bytes_left, Control* control);

    // The same variables between others that are held, or held at other values: what `solve` with
    // them would give, from the tree that there is.
    int solve_again(const TableSlices& from, const std::vector<int64_t>& held, int threads,
                    double bytes_left, Control* control);

    size_t number(int64_t v) const;

    // The log mass with other scores of some variables, less that as it is. `whole`: by an upward
    // pass of the tree; kWiden where only that would do.
    Status change(const std::vector<size_t>& which, const std::vector<double>& scores, bool whole,
                  int threads, Control* control, double* log_mass);

  private:
    int solve_one();
    int compile(int threads, double bytes_left, Control* control);
    int infer(int threads, double bytes_left, Control* control);

    // f(factor, its slice) for factors with several free variables: each once, by the first.
    template <class F>
    void each_factor(const TableSlices& from, const std::vector<int64_t>& held, F each) const;
    void take_factors(const TableSlices& from, const std::vector<int64_t>& held);

    Graph graph_;
    std::vector<int64_t> cards_, identity_, scope_ptr_, scope_;
    std::vector<double> copies_;
    std::vector<const double*> tables_, soft_, other_;
    std::vector<uint8_t> forbids_;
};

}  // namespace vs::junction
