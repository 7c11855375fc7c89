// A compiled junction tree, asked again and again with changing evidence.
#pragma once

#include <memory>
#include <vector>

#include "junction/elimination.h"
#include "junction/propagation.h"
#include "simd/level.h"

namespace vs::junction {

// Once, before anything else: where the pool and the SIMD level are.
void use_modules(const PoolApi* pool, const SimdApi* simd);

class Solver {
  public:
    // `joints`: sets of variables that must share a clique.
    Solver(const Graph& g, const std::vector<Set>& joints) : g_(g) {
        for (const Set& vars : joints) queries_.emplace_back().vars = vars;
    }

    // Triangulates what `held` leaves; `soft`: variables with soft evidence. Returns kReady,
    // kStopped, kTooLarge, or a variable without any possible value.
    static constexpr int64_t kTooLarge = -3;
    int64_t compile(const int64_t* held, std::vector<int64_t> soft, const Search& search,
                    Control* control);
    // Whether the tables are laid out for this already.
    bool prepared(const int64_t* held, const std::vector<int64_t>& soft) const {
        return std::equal(held_.begin(), held_.end(), held) && soft == soft_;
    }
    // Lays the tables out for `held`, a refinement of what was compiled; likewise. Where it is
    // stopped, the tables lie as before.
    int64_t prepare(const int64_t* held, std::vector<int64_t> soft, Control* control);

    const TableLayout& layout() const { return layout_; }
    const CliqueTree& tree() const { return tree_; }
    const Domains& domains() const { return domains_; }
    int64_t tried() const { return tried_; }

    // Shows the pool what a question runs.
    void show(int threads) const;
    // soft[v]: a log-vector or null; soft itself may be null. marginals: values of v at ptr[v];
    // null when only log_z is wanted. With `logs` these and all joints are logarithms.
    Status infer(const double* const* soft, int threads, Control* control, const int64_t* ptr,
                 bool logs, double* marginals, double* log_z);
    // See Propagation::log_ratio: after infer with marginals, not after what came between.
    Status log_ratio(const double* const* soft, const std::vector<int32_t>& changed,
                     Control* control, double* ratio);
    // Whether each of the last marginals has its digits, however small it is.
    bool faithful() const { return widened_ || linear_->faithful(); }
    // The next answers hold the joint of these variables, as query 0, where a clique has them all;
    // an empty set ends that. For a tree without queries.
    bool ask(Set vars);
    // The next answers hold the factor_entries() that expected() needs; or no more. Likewise.
    void ask_factors(bool wanted);
    double factor_entries() const;
    // After infer with marginals: the expectation of the score.
    ExpectedScore expected() const;
    // After infer with marginals: the joint of set q, over the living values of its variables in
    // the order of joint_vars(q).
    const Set& joint_vars(int64_t q) const { return queries_[q].dims.var; }
    void joint(int64_t q, double* out) const;
    // The score of the best configuration; its states where that is above `above`.
    Status decode(const double* const* soft, int threads, Control* control, double above,
                  int64_t* states, double* score);
    // (size, cliques) uniforms, (size, n) states.
    Status sample(const double* const* soft, int threads, Control* control, int64_t size,
                  const double* uniforms, int64_t* states);
    bool widened() const { return widened_; }
    void forget();                              // all messages
    void release();                             // and their memory
    int64_t reused() const { return reused_; }  // cliques whose message was still good

  private:
    enum Want { kMass, kMarginals, kSamples, kLogs };
    Status complete_once(int threads, Control* control);
    void keep_what_holds(const Domains& before, const TableLayout& old);
    void forget_changed(const double* const* soft);
    // Keeps the tables of these cliques, and messages from below which everything is kept.
    void keep(const std::vector<uint8_t>& tables, const std::vector<uint8_t>& messages);
    Status solve(const double* const* soft, int threads, Control* control, Want want);
    Status solve_wide(const double* const* soft, int threads, Control* control, bool marginals);
    bool both_fit() const { return layout_.bytes <= 4e6; }
    Compiled compiled() const { return {g_, domains_, tree_, layout_, queries_}; }
    // Runs f. Where memory runs out, messages are forgotten, and tables laid out again for the next
    // question.
    template <class F>
    Status guarded(Control* control, F&& f);
    // f of the propagation that has the last answer.
    template <class F>
    auto solved(F&& f) const {
        return widened_ ? f(*wide_) : f(*linear_);
    }

    const Graph& g_;
    std::vector<int64_t> soft_, held_;
    CliqueTree tree_;
    Domains domains_;
    TableLayout layout_;
    std::vector<double> last_soft_;  // of all of soft_, one after the other; empty: not known
    bool complete_ = false, logs_ = false, sound_ = true, asks_factors_ = false;
    bool probed_ = false;  // what rows meet of messages, as the way down does, is of other evidence
    std::vector<Query> queries_;
    // Both only where they are small: messages of either are kept for the next question then.
    std::unique_ptr<Propagation<Linear64>> linear_;
    std::unique_ptr<Propagation<LinearWide>> wide_;
    std::unique_ptr<Propagation<MaxLogs>> best_;  // likewise
    bool widened_ = false;                        // the last answer is in wide_
    int64_t tried_ = 0, reused_ = 0;
};

}  // namespace vs::junction
