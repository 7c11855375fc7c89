// Message passing between pairs of binary variables whose tables have no zeros.
//
// In spins s = -1, 1 a table is c + a s + b s' + J s s'. a and b join the fields of the variables,
// so that a pair is left with one number, and a message with one: the log-ratio l of s = 1 to
// s = -1. With B = field + sum rho l, what a variable says to a pair is B - l, and what the pair
// makes of that depends on J / rho alone. Pairs are sorted by their later variable and cut into
// chunks. A variable whose pairs are all in one chunk gets its new total there, while they are in
// cache; the others after all chunks are done.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/problem.h"
#include "loopy/model.h"
#include "pool/pool.h"

namespace vs {

// How long, and how carefully.
struct LoopyOptions {
    int schedule = 0;   // LoopySchedule
    bool best = false;  // max product
    double damping = 0.0, tolerance = 0.0;
    int64_t max_iterations = 0;
};
enum LoopySchedule : int { kFlooding = 0, kResidual = 1, kRounds = 2, kTree = 3 };

// What a run came to.
struct LoopyRun {
    bool converged = false;
    int64_t updates = 0;  // messages that were computed
    std::vector<double> residuals;
};

class Pairs {
  public:
    // scope: (2 n_factors,); none when a table has a zero, or there is too much to number. Or
    // kCancelled.
    static Status make(int64_t n, int64_t n_factors, const int64_t* scope,
                       const double* const* table, const Control* control,
                       std::unique_ptr<Pairs>* made);

    void use(const PoolApi* pool, const LoopyLevel* level) {
        pool_ = pool;
        level_ = level;
    }
    void weigh(const double* rho);  // null: all one

    // local (2 n,); messages (4 n_factors,) logarithms, in and out: all of flooding.
    Status run(const double* local, const LoopyOptions& options, int threads, Control* control,
               double* messages, LoopyRun* out, int64_t* dead);
    // The same in pieces, for other orders. Message 2 f + i goes from factor f to its variable i.
    Status begin(const double* local, const LoopyOptions& options, int threads, Control* control,
                 const double* messages, int64_t* dead);
    void add_up_sender(int64_t e) { add_up(var_[sender(e)]); }
    void add_up_all(int threads, Control* control);
    // The new message, by the totals as they are, in *out; how far it moved before damping.
    double evaluate(int64_t e, double* out) const;
    void commit(int64_t e, double value);
    // What a change of what its sender believes is multiplied by, at most.
    double gain(int64_t e) const { return gain_[static_cast<size_t>(place_[e / 2])]; }
    void finish(int threads, Control* control, double* messages);

    // Of the last run: probabilities (2 n,) and the (reweighted) Bethe log Z.
    void beliefs(const double* local, int threads, double* marginals, double* log_z);

  private:
    Pairs() = default;
    struct Job;
    static void step(void* job, int64_t task, int worker);
    void phase(int what, int threads, Control* control);
    Status lay_out(const int64_t* scope, const double* const* table, const Control* control);
    void add_up(int32_t v);
    bool start(const double* local, const double* messages);
    void read_messages(double* messages);
    size_t receiver(int64_t e) const {
        return static_cast<size_t>((e & 1) * padded_ + place_[static_cast<size_t>(e / 2)]);
    }
    size_t sender(int64_t e) const { return receiver(e ^ 1); }
    void start_ratios(const LoopyOptions& options);
    Status scale(int threads, Control* control);
    Status impossible(int64_t* dead) const;
    PairBlock block(int64_t chunk);
    Status flood(const LoopyOptions& options, int threads, Control* control, LoopyRun* out);

    const PoolApi* pool_ = nullptr;
    const LoopyLevel* level_ = nullptr;
    int64_t n_ = 0, n_factors_ = 0, padded_ = 0;
    double constant_ = 0.0;                      // of all tables
    std::vector<int64_t> factor_;                // at each place
    std::vector<int64_t> place_;                 // of each factor; its slots: receiver()
    std::vector<double> gain_;                   // by place
    std::vector<int32_t> var_, var_ptr_, slot_;  // (2, padded): left, right; slots by variable
    std::vector<double> coupling_, tilt_;        // J by place; a and b by slot
    std::vector<double> sum_tilt_;               // of a variable
    // Variables that a chunk finishes, and the others in chunks of their own.
    std::vector<int32_t> inner_, outer_;
    std::vector<int64_t> inner_ptr_, outer_cut_;
    bool weighted_ = false;
    std::vector<double> rho_, scaled_;  // by place; scaled: J / rho, or exp(2 J)
    // Under way: messages and weighed ones by slot; totals, which `ratios_` says are plain numbers.
    std::vector<double> message_, weighed_, field_, start_, total_;
    bool ratios_ = false;
    LoopyOptions options_;
    std::vector<double> chunk_, mass_, log_mass_;
};

}  // namespace vs
