// Message passing between pairs of binary variables whose tables have no zeros.
//
// In spins s = -1, 1 a table is c + a s + b s' + J s s'. a and b join the fields of the variables,
// so that a pair has one number, and a message too: the log-ratio l of s = 1 to s = -1. With B =
// field + sum rho l a variable sends B - l to a pair, whose answer depends on that and J / rho
// alone. Pairs are sorted by their later variable and cut into chunks. A variable whose pairs are
// all in one chunk gets its new total there, while they are in cache; the others after all chunks.
//
// Structured factors send log-ratios, too, which may be infinite. Their slots follow the pairs',
// and they are updated first, so that all messages of an iteration answer the same totals. Where
// ratios are plain numbers, and one of theirs does not fit, the run goes on with logarithms.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/problem.h"
#include "messages/factor.h"
#include "pool/blocks.h"

namespace vs::messages {

// Options of a run.
struct RunOptions {
    int schedule = 0;   // Schedule
    bool best = false;  // max product
    double damping = 0.0, tolerance = 0.0;
    int64_t max_iterations = 0;
};
enum Schedule : int { kFlooding = 0, kResidual = 1, kRounds = 2, kTree = 3 };

// Progress of a run.
struct RunProgress {
    bool converged = false;
    int64_t updates = 0;  // messages that were computed
    std::vector<double> residuals;
};

class Pairs {
  public:
    // Factors as in Network::lay_out, whose ptr has to outlive this. None unless there are pairs,
    // no table has a zero, and there is not too much to number. Or kCancelled.
    static Status make(int64_t n, int64_t n_factors, const int64_t* ptr, const int64_t* scope,
                       const double* const* table, const factors::Structured* const* structured,
                       const Control* control, std::unique_ptr<Pairs>* made);

    void use(const PoolApi* pool, const MessageLevel* level) {
        pool_ = pool;
        level_ = level;
    }
    void weigh(const double* rho);  // null: all one
    bool is_weighted() const { return weighted_; }

    // local (2 n,); messages (2 edges,) logarithms, in and out: all of flooding.
    Status run(const double* local, const RunOptions& options, int threads, Control* control,
               double* messages, RunProgress* out, int64_t* dead);
    // The same in pieces, for other orders; messages by edge.
    Status begin(const double* local, const RunOptions& options, int threads, Control* control,
                 const double* messages, int64_t* dead);
    // The total of the variable that sends, or receives, edge e's message, if a message to it has
    // changed since it was added up.
    void renew_sender(int64_t e) { renew(var_[sender(e)]); }
    void renew_receiver(int64_t e) { renew(var_[receiver(e)]); }
    void add_up_all(int threads, Control* control);
    // The new message, by the totals as they are, in *out; how far it moved before damping.
    double evaluate(int64_t e, double* out) const;
    // All messages of the structured factor whose first edge is e; -1 where it leaves none
    // possible.
    double evaluate_all(int64_t e, double* out, WorkerScratch* s) const;
    void commit(int64_t e, double value);
    // The largest factor by which a change of the sender's total changes the message.
    double gain(int64_t e) const { return gain_[place(receiver(e))]; }
    void finish(int threads, Control* control, double* messages);

    // For the last run: probabilities (2 n,) and the (reweighted) Bethe log Z.
    Status beliefs(const double* local, int threads, Control* control, double* marginals,
                   double* log_z, int64_t* dead);

  private:
    static constexpr int64_t kChunk = 4096;     // pairs that one task takes
    static constexpr int64_t kBlock = 1 << 13;  // variables, pairs or slots of one task
    Pairs() = default;
    struct Job;
    static constexpr int64_t kWorthThreads = 1 << 12;  // pairs that are slower on one thread
    static void step(void* job, int64_t task, int worker);
    // The entries of a message of log-ratio l, the larger 0.
    static double entry(double l, int64_t x) { return std::min(0.0, x ? l : -l); }
    // f(first, last) for blocks of variables, of pairs, of slots, or of so many chunks.
    template <class F>
    void blocks(const char* label, int64_t n, int64_t size, int threads, Control* control,
                const F& f) const {
        if (n_pairs_ < kWorthThreads) threads = 1;
        run_blocks(*pool_, label, n, size, threads, control, f);
    }
    template <class F>
    void blocks(const char* label, int64_t n, int threads, Control* control, const F& f) const {
        blocks(label, n, kBlock, threads, control, f);
    }
    void update(int64_t chunk);
    void phase(int what, int threads, Control* control);
    Status lay_out(const int64_t* scope, const double* const* table, const Control* control);
    // The log-ratio that slot s's variable sends back; NaN where it has no value left.
    double incoming(size_t s) const;
    void add_up(int32_t v);
    void renew(int32_t v) {
        if (!stale_[at(v)]) return;
        add_up(v);
        stale_[at(v)] = 0;
    }
    void add_up_outer(int threads, Control* control);
    bool start(const double* local, const double* messages, int threads, Control* control);
    void read_messages(int threads, Control* control, double* messages);
    size_t receiver(int64_t e) const { return static_cast<size_t>(slot_of_[at(e)]); }
    size_t place(size_t s) const { return s < at(padded_) ? s : s - at(padded_); }
    size_t sender(int64_t e) const {
        const size_t s = receiver(e);
        return s < at(padded_) ? s + at(padded_) : s - at(padded_);
    }
    bool fit_ratios(int threads, Control* control);
    void start_ratios(const RunOptions& options, int threads, Control* control);
    void leave_ratios(int threads, Control* control);
    Status scale(int threads, Control* control);
    Status impossible(int64_t* dead) const;
    PairBlock block(int64_t chunk);
    Status flood(const RunOptions& options, int threads, Control* control, RunProgress* out,
                 int64_t* dead);

    const PoolApi* pool_ = nullptr;
    const MessageLevel* level_ = nullptr;
    struct StructuredGroup {  // a structured factor: its number, and its first edge and slot
        const factors::Structured* factor;
        int64_t number, edge, slot;
        double rho;
    };
    double mass(const StructuredGroup& g, WorkerScratch* s) const;
    double share_of(int64_t v, const double* local) const;
    double mass_of(int64_t chunk);
    // Sends structured factors' messages, logarithms; as plain numbers where all fit.
    void send(const StructuredGroup& g, const double* out);
    double* answer_of(const StructuredGroup& g) { return answer_.data() + (g.slot - 2 * padded_); }
    void put(size_t s, double value) {
        message_[s] = value;
        if (weighted_) weighed_[s] = value * rho_of(s);
    }
    double rho_of(size_t s) const;
    int64_t n_ = 0, n_pairs_ = 0, padded_ = 0;
    const int64_t* ptr_ = nullptr;  // of factors: where their edges begin
    std::vector<StructuredGroup> groups_;
    std::vector<int32_t> slot_of_;  // of each edge; filled by `begin`
    double constant_ = 0.0;         // of all tables
    std::vector<int64_t> factor_;   // at each place
    std::vector<double> gain_;      // by place
    // (2, padded), then structured factors': left, right; slots by variable.
    std::vector<int32_t> var_, var_ptr_, slot_;
    std::vector<double> coupling_, tilt_;  // J by place; a and b by slot
    std::vector<double> sum_tilt_;         // of a variable
    // Variables that a chunk finishes, and the others in chunks of their own.
    std::vector<int32_t> inner_, outer_;
    std::vector<int64_t> inner_ptr_;
    bool weighted_ = false;
    std::vector<double> rho_, scaled_;  // by place; scaled: J / rho, or exp(2 J)
    // Messages and weighed ones by slot; totals, which are plain numbers if `ratios_`.
    std::vector<double> message_, weighed_, field_, start_, total_;
    std::vector<uint8_t> stale_;  // by variable; see renew_sender()
    bool ratios_ = false;
    std::vector<double> sent_;    // logarithms of structured factors' messages, while ratios_
    double most_sent_ = 0.0;      // the largest magnitude that each of them may have then
    std::vector<double> answer_;  // new messages of structured factors, until all have theirs
    RunOptions options_;
    std::vector<double> chunk_, block_, group_moved_, group_mass_, mass_, log_mass_;
    std::vector<WorkerScratch> scratch_;
};

}  // namespace vs::messages
