// A call on a forest under way: its memory and its tables, and the arithmetics that it tries, from
// fast to wide, on the components that narrower ones have not finished.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "core/session.h"
#include "forest/level.h"
#include "forest/plan.h"
#include "islands/passes.h"

namespace vs {

const PoolApi& pool();

class ForestCall {
  public:
    ForestCall(const Request& request, Control& control);
    ForestCall(const ForestCall&) = delete;
    ForestCall& operator=(const ForestCall&) = delete;
    virtual ~ForestCall() = default;

    // Get components that have no answer yet, `without`: those that gave up their islands; `wide`:
    // those that float32 is not good enough for.
    Report solve(std::vector<int64_t>& without, std::vector<int64_t>& wide);
    Report decode();
    virtual void show() = 0;

  protected:
    // A pass in `arithmetic` over the components of `order`, for `status`, and log Z where that is
    // kOk. False: no memory.
    virtual bool pass() = 0;
    virtual void finish(const std::vector<int64_t>&) {}  // what is done with them afterwards
    virtual bool best() = 0;  // the best configurations, and status; false: no memory

    void fill(Pass& p);
    // Makes the table that only a list has, for what reads all entries; false: no memory.
    bool spell();
    // A table's scores, `turned`: transposed. session_.packing.failed: no memory.
    Scores scores(const Chains& table, int compute, bool turned);
    // Adds up the sums of tasks, `size` numbers each.
    void add_expectations(const std::vector<double>& sums, int64_t size);
    template <class F>
    void run(const Plan& plan, int threads, F f) {  // f(task, worker)
        const auto call = [](void* context, int64_t task, int worker) {
            (*static_cast<F*>(context))(task, worker);
        };
        pool().run_plan(plan, call, &f, threads, &control_);
    }
    template <class Topology>
    IslandCall<Topology> island_call(const Topology& t, const IslandVerbs* verbs, Pass& p,
                                     int64_t n_tallies) const {
        int64_t row, unused;
        level().packing.layout(computes(), c_.n_labels, &row, &unused);
        const int64_t slower = is_log(arithmetic_) ? kLogSlower : 1;
        row *= bytes(computes());
        return {t,         verbs,       &p,  p.state, p.zeta,
                &control_, c_.n_labels, row, slower,  is_single(arithmetic_),
                n_tallies};
    }
    static int64_t bytes(int dtype) { return dtype == kFloat32 ? 4 : 8; }
    int computes() const { return is_single(arithmetic_) ? kFloat32 : kFloat64; }

    Request r_;
    const Chains& c_;
    Control& control_;
    Workspace workspace_;
    Session& session_;
    const bool islands_, edges_;  // what is asked for
    int arithmetic_ = kLog, step_ = 0;
    bool one_way_ = false;
    std::vector<int64_t> order_;   // components to work on, ascending
    std::vector<int32_t> status_;  // of all
    std::vector<Chains> tables_;   // one for each table that is packed: they differ in `transition`
    std::vector<Packing> packing_, depth_;
    std::vector<double> own_log_z_;
    double* log_z_;
    Report report_;

    bool pack();

  private:
    std::unique_ptr<char[]> spelled_;
    bool judge(std::vector<int64_t>* done, std::vector<int64_t>* without);
    Report no_memory();
};

class PathCall : public ForestCall {
  public:
    PathCall(const Request& request, Control& control);
    void show() override;

  private:
    bool pass() override;
    bool best() override;
    // `left`: gets those that are not cut, in place of an answer.
    void exact(const std::vector<int64_t>& some, bool may_cut,
               std::vector<int64_t>* left = nullptr);
    // Longest first (ties: lowest index), by counting where lengths are ordinary.
    std::vector<int64_t> by_length(const std::vector<int64_t>& order) const;
    // Puts those of the order that are cut in front, as probes of them say.
    Cuts cut(std::vector<int64_t>& order, PathPass& p, Verb probe);
    Cuts cut_messages(std::vector<int64_t>& order);
    size_t cut_rows(int compute) const;  // doubles that the rows of a chunk take
    void do_chunks(PathPass& p, Verb verb, bool forward, int64_t first, int64_t last);
    // Compares what neighbours have found in the chunks of a sequence, and passes on what is true
    // where they differ; kApart: in too many places.
    enum class Joined { kRight, kPassedOn, kApart };
    Joined compare(PathPass& p, int64_t first, int64_t last, Verb compare, Verb pass_on);
    // Has done again what was wrong; `sums`: of each task. Returns the sequences that are not cut
    // after all.
    std::vector<int64_t> join(PathPass& p, const Cuts& cuts, const ForestPlan& plan,
                              std::vector<double>& sums, int64_t size);
    void do_again(PathPass& p, const ForestPlan& plan, std::vector<double>& sums, int64_t size);
    // The best states of some sequences, into p.states, and their scores into p.log_z.
    void best_states(PathPass& p, const std::vector<int64_t>& some, bool may_cut);
    std::vector<int64_t> join_best(PathPass& p, const Cuts& cuts);
    // act(sequence, its first chunk, one past its last) on the calling thread, until the call
    // stops.
    template <class F>
    void each_cut(PathPass& p, const Cuts& cuts, const F& act) {
        p.scratch = session_.temporary();
        p.agree = cut_rule().agree;
        for (size_t which = 0; which < cuts.end.size() && !control_.stop.load(); ++which) {
            const int64_t first = cuts.first(which);
            act(cuts.chunk[at(first)].sequence, first, cuts.end[which]);
        }
    }
    bool n_best(PathPass& p);  // false: no memory
    // From messages one way, in chunks: as far as these know their own error; of sequences whose
    // messages a pass both ways has proved right; or from those of whole sequences.
    enum class Draw { kAlone, kProved, kWhole };
    void sample(const std::vector<int64_t>& some, Draw by);
    // `unknown`: gets sequences that are not drawn, since their messages do not know their error.
    void draw(std::vector<int64_t>& order, Draw by, std::vector<int64_t>& unknown);
    // Takes out, and returns, those whose forward messages a pass both ways proves right.
    std::vector<int64_t> take_proved(std::vector<int64_t>& open);
    // Returns the sequences that are not cut after all; `unknown`: see draw().
    std::vector<int64_t> join_samples(PathPass& p, const Cuts& cuts, std::vector<int64_t>& unknown);
    void find_islands();
    // Those of few labels that go side by side, or, if `alone`, in stretches; `order` keeps the
    // others.
    void islands_abreast(std::vector<int64_t>& order, bool alone);
    ForestPlan plan(const std::vector<int64_t>& order, const Cuts& cuts, int arithmetic) const;
};

class BranchingCall : public ForestCall {
  public:
    BranchingCall(const Request& request, Control& control);
    void show() override;

  private:
    bool pass() override;
    void finish(const std::vector<int64_t>& done) override;
    bool best() override;
    void open(int compute);
    void join_tables();
    void keep_rows();
    void run_blocks(const char* label, bool decoding);
    void collect();
    bool sums_edges() const { return r_.expectations || r_.energies || r_.pairwise; }
    void add_edges();
    void sample();
    bool find_islands();

    const Layout& t_;
    BranchingPass p_;
    std::vector<int32_t> which_;
    std::vector<uint8_t> todo_;
    std::vector<Account> account_;
    std::unique_ptr<IslandState> state_;
    TreeRows rows_{};
    std::unique_ptr<std::atomic<int32_t>[]> island_status_;
};

}  // namespace vs
