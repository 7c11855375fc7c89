// Message passing on graphs with cycles: sum or max product, each factor with a weight rho.
//
//   to a factor:     n(x) = local(x) + sum_g rho_g m_g(x) - m_f(x)
//   to a variable:   m(x) = log sum over the others of exp(theta / rho + sum of their n)
//
// rho = 1 is belief propagation, spanning-tree probabilities make it tree-reweighted. Messages are
// logarithms, scaled to have 0 as their largest entry. Sums are made of plain numbers; an entry
// that comes out so small that underflow may have touched it is computed again from logarithms.
//
// A message that is -inf proves that no configuration gives the variable that value: messages start
// without zeros, and every update keeps that true. The unit of an update is the factor: a
// structured one computes all of its messages at once, in every schedule.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/problem.h"
#include "messages/factor.h"
#include "messages/pairs.h"
#include "messages/scopes.h"
#include "pool/pool.h"

namespace vs::messages {

extern const PoolApi* g_pool;  // of this module
const MessageLevel& level();

void use_modules(const PoolApi* pool, const SimdApi* simd);

// Factors in a forest, from the roots on: factor[i] is a child of the variable of edge above[i].
struct Forest {
    std::vector<int64_t> factor, above, roots;
};

class Network {
  public:
    // To be called first. Factors of two and more variables, and structured ones (the others null,
    // or all); tables and factors stay the caller's. kCancelled.
    Status lay_out(int64_t n, const int64_t* card, int64_t n_factors, const int64_t* scope_ptr,
                   const int64_t* scope, const double* const* table,
                   const factors::Structured* const* structured, const Control* control);

    int64_t n_entries() const { return edge_at_.back(); }  // of all messages
    int64_t n_edges() const { return static_cast<int64_t>(edge_var_.size()); }
    // The size of the marginals of all factors: a table's entries, P(y = 1) of each variable of a
    // structured factor.
    int64_t table_entries() const { return table_at_.back(); }
    const std::vector<int64_t>& edge_at() const { return edge_at_; }

    // Copies all tables, which may lie anywhere, to out (table_entries,).
    void side_by_side(double* out) const;

    // One weight in (0, 1] for each factor; null: all one.
    void weigh(const double* rho);

    // local (sum of card,), messages (n_entries,) in and out. kOk, kInfeasible with `dead` the
    // variable that has no value left, kCancelled.
    Status run(const double* local, const RunOptions& options, int threads, Control* control,
               double* messages, int64_t* dead);
    const RunProgress& last() const { return run_; }
    // As `beliefs`, for the messages of the last run.
    Status answer(const double* local, const double* messages, int threads, Control* control,
                  double* marginals, double* log_z, int64_t* dead);

    // For these messages: probabilities of each variable, and the (reweighted) Bethe log Z.
    Status beliefs(const double* local, const double* messages, int threads, Control* control,
                   double* marginals, double* log_z, int64_t* dead);
    // After beliefs: the marginals of every factor, one after the other. Or kCancelled.
    Status joints(int threads, Control* control, double* out);
    // After beliefs: all messages to factors, from edge_at on.
    const double* to_factors() const { return to_.data(); }

    // Log Z of each forest of factors, forest t being factor[ptr[t]..ptr[t + 1]): with tables
    // theta / rho - sum m, and beliefs for local factors. Weighted so that each factor is in
    // forests of total weight rho, the forests' tables sum up to the model's, whatever the messages
    // are. `scale`: a bound on partial sums. `best`: the largest score of each instead.
    Status forests(const double* local, const double* messages, int64_t n_forests,
                   const int64_t* ptr, const int64_t* factor, bool best, Control* control,
                   double* log_z, double* scale, int64_t* dead);

    // A configuration by max-product messages, one variable after the other, each given those
    // before it, so that ties are broken consistently. Its score; -inf where it is not possible.
    Status assign(const double* local, const double* messages, int threads, Control* control,
                  int64_t* states, double* score, int64_t* dead);

    // Where naive mean field begins: row 0 of q (starts, sum of card) has beliefs, row 1 gets their
    // mode. Each other row has weights: every second variable gets the mode of beliefs times
    // weights, those between them get these products, normalised.
    void spread_starts(int64_t starts, double* q) const;
    // Naive mean field by coordinate ascent from each row of q (starts, sum of card), in and out,
    // colour by colour; the row with the best bound on log Z, the bound, and the sum of its terms'
    // magnitudes. Tables only.
    Status mean_field(const double* local, int64_t starts, int64_t max_iterations, double tolerance,
                      int threads, Control* control, double* q, int64_t* best, double* bound,
                      double* scale);

    // Mean field with the structure of a forest of factors, from several starts, side by side. node
    // (starts, sum of card) and table (starts, all tables; those of the forest count) are the
    // logarithms of what q is proportional to, in and out; of the best start q, the joints of all
    // factors (tables one after the other), and which of them the forest still holds, out.
    Status structured(const double* local, int64_t starts, int64_t count, const int64_t* forest,
                      double* node, double* table, int64_t max_iterations, double tolerance,
                      int threads, Control* control, double* q, double* joints, uint8_t* held,
                      int64_t* best, double* bound, double* scale);

  private:
    struct Bounds;
    struct Climb;
    struct Field;
    struct Job;
    enum Phase : int { kVariables, kFactors, kMasses, kJoints };

    // Variables by colour, and how those of each are cut into tasks.
    struct Colours {
        std::vector<int64_t> variable;
        std::vector<std::vector<int64_t>> cut;
        std::vector<Meeting> meeting;  // as var_edge_
        std::vector<Slope> slope;
        std::vector<double> bias;   // of each variable
        std::vector<double> theta;  // what they read
    };
    Colours coloured() const;
    void product_bound(const double* local, const double* q, double* bound, double* scale) const;

    struct Order;
    Status pass(const RunOptions& options, int threads, Control* control, double* messages,
                const double* local, int64_t* dead);
    Status by_queue(const Order& order, Control* control, int64_t* dead);
    Status by_rounds(const Order& order, int threads, Control* control, int64_t* dead);
    Status by_trees(const Order& order, Control* control, int64_t* dead);
    bool to_factor(int64_t e);
    bool gather(int64_t e);
    double evaluate(int64_t e, double* out, WorkerScratch* s);
    static void step(void* job, int64_t task, int worker);
    // Every variable adds up its messages; `threads` becomes what pays.
    Status collect(const double* local, const double* messages, int* threads, Control* control,
                   int64_t* dead_variable);
    void phase(Phase what, int threads, Control* control, double* out = nullptr);
    bool variable(int64_t v, WorkerScratch* s);
    bool factor(int64_t f, WorkerScratch* s);
    double finish(int64_t e, double* out);
    void start(const double* local, const double* messages);
    int64_t dead();
    void make_scratch(int threads);
    void scale_weights();
    // The factors of a forest below the roots, breadth first; `inside` is cleared.
    Forest rooted(std::vector<char>* inside) const;

    const factors::Structured* structured_at(int64_t f) const {
        return structured_.empty() ? nullptr : structured_[static_cast<size_t>(f)];
    }
    // Calls f(factor), a TableFactor or a StructuredFactor.
    template <class F>
    decltype(auto) ask(int64_t f, F&& call) const {
        const int64_t first = factor_ptr_[at(f)];
        if (const factors::Structured* s = structured_at(f)) {
            return call(StructuredFactor{s, first, edge_var_.data()});
        }
        return call(TableFactor{table_of(f), &level(), first, edge_var_.data()});
    }
    DenseTable table_of(int64_t f) const {
        const int64_t first = factor_ptr_[at(f)];
        return {static_cast<int>(factor_ptr_[at(f + 1)] - first),
                edge_card_.data() + first,
                theta_[at(f)],
                weight_.data() + table_at_[at(f)],
                1.0 / rho_[at(f)],
                top_[at(f)],
                table_at_[at(f + 1)] - table_at_[at(f)]};
    }
    int workers(int threads) const {  // so few entries are slower on several threads
        return serial_ || n_entries() + table_entries() < (1 << 14) ? 1 : threads;
    }
    Incoming incoming() const { return {to_.data(), to_plain_.data(), edge_at_.data()}; }

    int64_t n_ = 0, n_factors_ = 0;
    int64_t widest_ = 0, most_edges_ = 0, most_values_ = 0;
    int64_t most_sent_ = 0;     // entries of the messages that one update computes
    int64_t scratch_size_ = 0;  // scratch of structured factors
    bool serial_ = false;       // one of them allows no threads
    std::vector<int64_t> card_, var_at_, factor_ptr_, edge_var_, edge_at_, table_at_, edge_card_;
    std::vector<int64_t> var_ptr_, var_edge_, edge_factor_;
    std::vector<const double*> theta_;
    std::vector<const factors::Structured*> structured_;  // empty without any
    std::vector<double> weight_, top_, rho_;
    std::vector<int64_t> variable_cut_, factor_cut_;  // chunks of work

    // Messages: m to variables, n to factors, those also as plain numbers.
    std::vector<double> m_, to_, to_plain_, shift_;
    std::vector<double> belief_, log_mass_, factor_mass_;
    const double* local_ = nullptr;
    RunOptions options_;
    std::vector<WorkerScratch> scratch_;
    std::vector<double> chunk_residual_;
    std::vector<int64_t> chunk_dead_;
    RunProgress run_;
    Colours colours_;  // once mean field was asked for
    std::unique_ptr<Pairs> pairs_;
    bool by_pairs_ = false;  // the last run
    bool scaled_ = false;    // weight_ is that of rho_
};

}  // namespace vs::messages
