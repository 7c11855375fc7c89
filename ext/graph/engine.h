// Propagation in a junction tree: messages up, messages down, marginals on the way.
//
//   up:    m_c(S) = sum over C \ S of  statics(C) * product of the children's messages
//   down:  d_c(S) = belief(S) / m_c(S), belief(S) the sum over the parent's other variables of
//          everything multiplied into the parent, its own message from above included
//
// A message is scaled to have its largest entry in [1/2, 1): by a power of two, so exactly.
#pragma once

#include <type_traits>
#include <utility>
#include <vector>

#include "graph/algebra.h"
#include "graph/kernels.h"
#include "graph/layout.h"
#include "kernels/problem.h"
#include "pool/pool.h"

namespace vs {

const GraphLevel& graph_level();
void use_graph_modules(const PoolApi* pool, const SimdApi* simd);

struct Compiled {
    const Graph& g;
    const Domains& d;
    const CliqueTree& t;
    const Layout& l;
    const std::vector<Query>& queries;
};

template <class A>
class Engine {
  public:
    using T = typename A::T;

    explicit Engine(const Compiled& c);

    // After the layout has changed: which cliques' statics, and which messages, are as before.
    void keep(const std::vector<uint8_t>& tables, const std::vector<uint8_t>& messages);
    int64_t n_sent() const;

    // kOk, kWiden (numbers too small for this algebra), kInfeasible, kCancelled. `soft`: a
    // log-vector for each variable, or null.
    Status up(const double* const* soft, int threads, Control* control);
    Status down(int threads, Control* control);

    double log_z() const { return log_z_; }
    // Every variable's values at ptr[v]..: zero for values that are not alive.
    void marginals(const int64_t* ptr, double* out) const;
    void query(size_t q, double* out) const;  // over alive values, in the order of its dims
    // After up: the best configuration (Best) or one drawn with `uniform`, one number a clique.
    void pick(const double* uniform, int64_t* states) const;
    int64_t n_cliques() const { return static_cast<int64_t>(c_.t.clique.size()); }

  private:
    struct Part {                            // a clique under way
        std::vector<std::vector<T>> tables;  // statics
        std::vector<double> low;             // log2 of the smallest non-zero entry of each
        // To the parent; with those multiplied in that it hosts; spread over the parent's tile.
        std::vector<T> message, product, spread;
        std::vector<T> belief;  // from the parent: of the separator, then the message down
        std::vector<T> sum;     // the belief, kept for those it hosts
        double message_low = 0.0, belief_low = 0.0;
        double scale = 0.0;                 // log2 of what scaling took out, in this subtree
        bool loaded = false, sent = false;  // statics, message are good
    };
    struct Temporary {
        std::vector<T> row, spread;
    };

    void load(size_t c, const double* const* soft);
    Status collect(size_t c, Temporary& tmp);
    Status distribute(size_t c, Temporary& tmp);
    void run(const RowJob<T>& job, int64_t rows, Temporary& tmp) const;
    void spread(const View& v, int64_t width, const std::vector<T>& table,
                std::vector<T>* wide) const;
    void gather(const View& v, int64_t width, const std::vector<T>& wide,
                std::vector<T>* table) const;
    double smallest(const std::vector<T>& x) const;
    const std::vector<T>& seen(const Child& k) const;  // as the parent's rows meet it
    void read_marginal(int32_t v, const Dims& d, const T* table);
    Status walk(bool upward, int threads, Control* control);

    Compiled c_;
    std::vector<Part> part_;
    std::vector<std::vector<T>> marginal_;  // (n,) of variables with more than one value
    std::vector<std::vector<T>> query_;
    std::vector<double> shift_;  // log of what was taken out of each clique's statics
    const double* const* soft_ = nullptr;
    double constant_ = 0.0, log_z_ = 0.0;
};

}  // namespace vs
