// Alternating directions dual decomposition: every factor moves to its best point near to what the
// others think (quadratic steps), every variable takes the mean.
//
//   q_f = argmax over f's hull of score_f(q) + sum_e s_e q_e - rho/2 sum_e (q_e - p_v)^2
//   p_v = mean of its q_e,   s_e <- s_e - rho (q_e - p_v)
//
// The shares s of a variable sum up to its odds, so that each iterate has a dual value, a bound.
#pragma once

#include <cstdint>
#include <vector>

#include "dual/active_set.h"
#include "dual/problem.h"
#include "dual/rounding.h"

namespace vs::dual {

struct Options {
    double tolerance = 1e-6;
    int64_t max_iterations = 1;
    double step = 1.0, over = 1.5, ratio = 10.0, grow = 2.0;
    int64_t every = 10; int limit = 10;
};

class Solver {
  public:
    explicit Solver(const Problem& problem);

    // kOk, kInfeasible where no point is possible, kCancelled, kNoMemory.
    Status run(const Options& options, int threads, Control* control);

    bool converged = false;
    bool integral = false;  // the states of `rounding` are the best ones
    double upper = INFINITY;
    int64_t iterations = 0;
    std::vector<double> point;  // (open,)
    std::vector<double> trace;
    Rounding rounding;

  private:
    struct Cut {
        int64_t first, last;
    };
    void start(const Options& options);
    static void factors_task(void* self, int64_t task, int worker);
    static void variables_task(void* self, int64_t task, int worker);
    void move_pairs(int64_t first, int64_t last);
    bool move_part(int64_t i);
    void mean(int64_t first, int64_t last, double* primal, double* dual);
    double value();
    bool assess(const Options& options);

    const Problem& p_;
    std::vector<double> share_, best_share_;  // (edges,) s
    std::vector<double> q_, target_;          // likewise
    std::vector<double> next_;                // (open,)
    std::vector<uint8_t> corner_;             // (edges,)
    std::vector<ActiveSet> active_;           // (parts,)
    std::vector<uint8_t> projects_;
    std::vector<int64_t> hard_;               // (open,) edge of the part that holds it, or -1
    bool covered_ = true;                     // no variable is in two parts
    std::vector<double> x_, gain_;            // (open,)
    std::vector<Cut> factor_cut_, variable_cut_;
    std::vector<double> primal_, dual_;       // of each cut
    std::vector<uint8_t> failed_;
    double rho_ = 1.0, over_ = 1.5, spread_ = 1.0;
    double gap_ = INFINITY;
    int limit_ = 10;
};

}  // namespace vs::dual
