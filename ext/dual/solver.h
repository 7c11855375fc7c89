// Alternating directions dual decomposition: every factor moves to its best point near to what the
// others think (quadratic steps), every variable takes the mean. Edges have weights w.
//
//   q_f = argmax over f's hull of score_f(q) + sum_e s_e q_e - rho/2 sum_e w_e (q_e - p_v)^2
//   p_v = weighted mean of its q_e,   s_e <- s_e - rho w_e (q_e - p_v)
//
// both over-relaxed. The shares s of a variable sum up to its odds, so that each iterate has a dual
// value, a bound; the best one is kept.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "dual/active_set.h"
#include "dual/cuts.h"
#include "dual/pairs.h"
#include "dual/problem.h"
#include "dual/rounding.h"
#include "pool/plan.h"

namespace vs::dual {

// As a number of threads: the calling thread alone, without the pool.
constexpr int kCaller = 0;

class DualSolver {
  public:
    explicit DualSolver(const Problem& problem);

    // kOk, kInfeasible where no point is possible, kCancelled, kNoMemory. tolerance: of the gap
    // between bound and point, relative to the best score, and of what factors disagree about.
    // threads: kCaller, or those of the pool.
    Status run(double tolerance, int64_t max_iterations, int threads, Control* control);

    bool converged = false;
    bool integral = false;  // the states of `rounding` are the best ones
    double upper = INFINITY;
    int64_t iterations = 0;
    std::vector<double> point;  // (open,)
    Rounding rounding;

  private:
    struct CutRange {
        int64_t first, last;
    };
    void cut();
    void start();
    static void factors_task(void* self, int64_t task, int worker);
    static void variables_task(void* self, int64_t task, int worker);
    void move_pairs(int64_t task);
    bool move_part(int64_t i, const Control* control);
    void mean(int64_t first, int64_t last, double* apart, double* moved);
    void each(const Plan& plan, void (*task)(void*, int64_t, int), int threads, Control* control);
    Status move(const Plan& factors, int threads, Control* control);
    Status agree(const Plan& variables, double over, int threads, Control* control);
    double value();
    Status assess(const Control* control);
    bool decided(double tolerance);
    void adapt(double tolerance);
    bool is_pair(int64_t e) const { return e < 2 * p_.n_pairs(); }
    double weight(int64_t e) const { return is_pair(e) ? 1.0 : weight_; }

    // Newton's method: newton.cpp.
    struct Tied {
        int32_t a, b;
        double half;
    };
    Status polish(double tolerance, int64_t max_iterations, int threads, Control* control);
    Status climb(double enough, int64_t max_iterations, int threads, Control* control);
    Status evaluate(int threads, Control* control, double* value);
    double gradient();
    void face();
    void precondition();
    template <class F>
    void add_plane(int64_t count, bool tight, const F& edge);
    void curve(const double* d, double* out);
    Status direct(const Control* control);
    void open_cuts();
    void close_cuts();
    double pull_cuts();
    void separate();
    template <class F>
    void each_cut(F&& f);
    double cut_step(const TreeCuts::Cut& cut) const;

    const Problem& p_;
    std::vector<double> share_;          // (edges + kSlack,) s
    std::vector<int32_t> left_, right_;  // (pairs + kSlack,) variables
    std::vector<double> couple_;         // likewise
    std::vector<double> q_, target_;     // likewise
    std::vector<ActiveSet> active_;      // (parts,)
    std::vector<uint8_t> projects_;      // likewise: it has an algorithm of its own
    std::vector<int64_t> hard_;          // (open,) edge of a part that holds it, or -1
    bool covered_ = true;                // no variable is in two parts
    std::vector<double> x_, gain_;       // (open,)
    std::vector<CutRange> factor_cut_, variable_cut_;
    std::vector<double> cut_apart_, cut_moved_;
    std::vector<PairSums> sums_;                                      // likewise, of pairs
    std::vector<uint8_t> failed_;                                     // of each cut
    std::vector<double> weights_, diagonal_, slope_, step_, before_;  // (open,)
    std::vector<double> moved_q_;                                     // (edges,)
    std::vector<double> scaling_;                                     // (open,)
    double ridge_ = 0.0;
    std::vector<Tied> tied_;
    struct Entry {
        int32_t variable;
        double sign;
    };
    std::vector<Entry> normal_;                    // of planes
    std::vector<CutRange> planes_;                 // entries of each
    std::vector<std::unique_ptr<TreeCuts>> cuts_;  // (parts,) null: by corners, or projects
    std::vector<double> pull_, told_;  // (open,) what cuts add; (edges,) shares with cuts
    bool outer_ = false;               // trees are held by cuts
    double outside_ = 0.0;             // what the point violates of the cuts
    const Control* control_ = nullptr;
    int joining_ = 0;  // corners that may join an active set at once
    double over_ = 1.0;
    double rho_ = 1.0, spread_ = 1.0, weight_ = 1.0;
    double apart_ = INFINITY, moved_ = INFINITY;  // root mean squares of the last iteration
    double reached_ = -INFINITY, gap_ = INFINITY, scale_ = 1.0;
    int64_t close_ = 0;  // iteration at which the gap closed
};

}  // namespace vs::dual
