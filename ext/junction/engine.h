// Propagation in a junction tree: messages up, messages down, marginals on the way.
//
//   up:    m_c(S) = sum over C \ S of  statics(C) * product of the children's messages
//   down:  d_c(S) = belief(S) / m_c(S), belief(S) the sum over the parent's other variables of
//          everything multiplied into the parent, its own message from above included
//
// A message is scaled to have its largest entry in [1/2, 1): by a power of two, so exactly.
//
// Plain numbers lose what is below 2^-1022. All operands are at most 1, so each underflow takes at
// most that much from one entry, and what a message has lost is bounded on its way:
//   up:    `loss` of a message, in the units of its largest entry, grows by the entries added up
//          and by what scaling takes out;
//   down:  everything stands in the clique, so what is lost is a share of the mass of the whole.
// The bound at every clique on the way down suffices: mass that an impossible-looking entry of a
// message from below would have had is missing from the parent's sum, which is held against it.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <type_traits>
#include <utility>
#include <vector>

#include "junction/algebra.h"
#include "junction/kernels.h"
#include "junction/layout.h"
#include "kernels/problem.h"
#include "pool/pool.h"

namespace vs::junction {

const GraphLevel& graph_level();
const PoolApi& graph_pool();
void use_modules(const PoolApi* pool, const SimdApi* simd);

// A sum of many numbers, without what each addition rounds away (Neumaier).
struct Compensated {
    double sum = 0.0, lost = 0.0;
    void add(double x) {
        const double t = sum + x;
        lost += std::fabs(sum) >= std::fabs(x) ? (sum - t) + x : (x - t) + sum;
        sum = t;
    }
    double value() const { return sum + lost; }
};

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
    // Every variable's values at ptr[v]..: zero for values that are not alive. Or their logarithms,
    // which reach further down than numbers do.
    void marginals(const int64_t* ptr, bool logs, double* out) const;
    // Over alive values, in the order of its dims.
    void query(size_t q, bool logs, double* out) const;
    struct Picks;  // what pick() works with, and knows from one configuration to the next
    // After up: the best configuration (Best) or one drawn with `uniform`, one number a clique.
    Status pick(const double* uniform, Control* control, Picks* picks, int64_t* states) const;
    bool lossless() const;  // after up: no message has lost anything
    bool faithful() const;  // after down: neither has anything else, however small it is
    int64_t n_cliques() const { return static_cast<int64_t>(c_.t.clique.size()); }

  private:
    struct Part {                            // a clique under way
        std::vector<std::vector<T>> tables;  // statics
        std::vector<double> low;             // log2 of the smallest non-zero entry of each
        // To the parent; with those multiplied in that it hosts; spread over the parent's tile.
        std::vector<T> message, product, spread;
        std::vector<T> belief;  // from the parent: of the separator, then the message down
        double message_low = 0.0, belief_low = 0.0;
        double loss = -INFINITY;            // log2 of what an entry of the message may have lost
        double scale = 0.0, tail = 0.0;     // log2 of what scaling took out of the message
        bool loaded = false, sent = false;  // statics, message are good
    };
    struct Spare {  // vectors to use again
        std::mutex lock;
        std::vector<std::vector<T>> list;
        static constexpr size_t kWorthKeeping = 4096, kMostKept = size_t{512} << 20;

        std::vector<T> take(int64_t size);
        void need(int64_t size, std::vector<T>* x);  // room for so many
        void put(std::vector<T>&& x);
        void trim();
    };
    struct Sum {  // what rows are added up in
        bool scalar;
        const int32_t* at;
        std::vector<T>* into;
        std::vector<std::vector<T>> own;  // of the blocks after the first
    };
    struct Ear {  // of a task
        Control* control;
        bool listens;  // the worker that polls has it, and it takes long

        // Asked between the parts of whatever takes long; false: leave everything as it is.
        bool go_on() const {
            if (listens && control->poll && control->poll(control->arg)) control->stop.store(1);
            return !control->stop.load(std::memory_order_relaxed);
        }
        // f(a, b) for parts of [first, last).
        template <class F>
        void parts(int64_t first, int64_t last, int64_t part, F&& f) const;
    };
    struct Share {  // piece p of n
        int p, n;
        int64_t first(int64_t all) const { return all * p / n; }
        int64_t last(int64_t all) const { return all * (p + 1) / n; }
    };
    struct Range {  // of entries: the largest, and the smallest that is not zero
        T top = A::zero();
        double least = 0.0;
    };
    // Of a message that is made ready to be sent, where in the clique's arrays it has:
    struct Closing {
        int64_t folded = 0;  // its table with the first variable summed out
        int64_t sums = 0;    // the sum for each value of that variable, of each piece
        T top = A::zero();
    };
    struct Flight {  // the rows of a clique under way
        std::vector<const T*> vec, scalar;
        std::vector<const int32_t*> vec_at, scalar_at;
        std::vector<Sum> sums;
        std::vector<std::vector<T>*> zero, late_zero;  // set to zero before rows, after them
        std::vector<T> wide_up, tile;
        std::vector<std::vector<T>> wide, asked;
        std::vector<Closing> closing;  // for each child, or the clique's own
        std::vector<Range> found;      // for each of them, by each piece
        std::vector<T> folded, sum;
        int64_t unit = 1;         // blocks are cut between runs of so many rows
        double boost = 0.0;       // log2 of what products start from
        double loss = -INFINITY;  // log2 of what a sum of them may lose, without the boost
        int blocks = 1;

        void take(const View& v, const std::vector<T>& table);
        void give(Spare* spare, const Ear& ear, bool is_scalar, bool apart, const int32_t* at,
                  int64_t size, std::vector<T>* into);
        void clear(const std::vector<std::vector<T>*>& list, Share share, const Ear& ear) const;
        void merge(Share share, const Ear& ear) const;
        void end(Spare* spare);
        void reset();  // as new, small memory kept
    };
    struct Temporary {  // of a worker
        std::vector<T> row;
        Flight flight;
    };
    struct Walk {
        Engine* engine;
        const Schedule* schedule;
        bool upward;
        Control* control;
        std::vector<Temporary> tmp;
        std::vector<std::unique_ptr<Flight>> flight;
        std::atomic<int> status{kOk};
    };

    void load(size_t c, const double* const* soft);
    // Stages of a clique, one after the other.
    Status run(size_t c, Flight* f, bool upward, Stage from, Stage to, int piece, Temporary& tmp,
               const Ear& ear, int worker);
    Status stage_up(size_t c, Flight* f, Stage stage, Share share, const Ear& ear);
    Status stage_down(size_t c, Flight* f, Stage stage, Share share, const Ear& ear);
    void open_up(size_t c, Flight* f, const Ear& ear);
    Status open_down(size_t c, Flight* f, const Ear& ear);
    void host(const CliqueLayout& l, const Child& k, Share share, const Ear& ear);
    void hear_host(const CliqueLayout& l, const Child& k, Share share, const Ear& ear);
    void share_out(const Child& k, size_t i, Flight* f, Share share, const Ear& ear);
    Status close_up(size_t c, Flight* f);
    Status close_down(size_t c, Flight* f, const Ear& ear);
    void scale(std::vector<T>* x, T top, Share share, const Ear& ear) const;
    void block(size_t c, const Flight& f, int k, Temporary& tmp, Control* control,
               int worker) const;
    void take_inputs(size_t c, Flight* f) const;
    void weigh(size_t c, double low, Flight* f) const;
    static void step(void* walk, int64_t task, int worker);
    void grow(std::vector<T>* x, int64_t size, const Ear& ear) const;
    void spread(const View& v, int64_t width, const std::vector<T>& table, Share share,
                const Ear& ear, std::vector<T>* wide) const;
    void gather(const View& v, int64_t width, const std::vector<T>& wide, Share share,
                const Ear& ear, std::vector<T>* table) const;
    Range range(const T* x, int64_t n) const;
    static void join(const Range& a, Range* b);
    bool weigh_scale(const Range& all, double* bits, double* low) const;
    void divide(T* x, const T* by, int64_t n) const;
    T fold(const T* x, int64_t n, T* into) const;
    void read_marginals(const Child& k, const Closing& g, Flight* f, int pieces);
    // As the parent's rows meet it.
    const std::vector<T>& seen(const Child& k) const;
    void read_marginal(int32_t v, const Dims& d, const T* table);
    Status walk(bool upward, int threads, Control* control);

    static double share_of(T x, T total, bool logs);

    Compiled c_;
    std::vector<Part> part_;
    std::atomic<bool> lost_{false};  // on the way down something may have been
    Spare spare_;
    std::vector<std::vector<T>> marginal_;  // (n,) of variables with more than one value
    std::vector<std::vector<T>> query_;
    std::vector<Compensated> shift_;  // log of what was taken out of each clique's statics
    const double* const* soft_ = nullptr;
    double log_z_ = 0.0;
};

template <class A>
struct Engine<A>::Picks {
    static constexpr int64_t kWhole = 4096, kTail = 256;  // entries in one block, of several

    struct Met {  // a table, along a block
        const T* table;
        int64_t fixed, base;        // offset of the known variables; of the block
        bool scalar, along;         // one entry, or entries side by side
        std::vector<int64_t> at;    // else: of each entry
        std::vector<int64_t> step;  // of the variables that blocks differ in
        std::vector<T> row;         // the entries along a block, where not side by side
        const T* last;              // whose they are

        const T* along_row(int64_t width);
    };
    struct Mass {  // of a block and all before
        int64_t first;
        T sum;
    };
    std::vector<int32_t> value, open, inner;  // inner: open variables within a block
    std::vector<int64_t> stride, state;
    std::vector<Met> met;
    std::vector<const T*> vec;
    std::vector<const int32_t*> at_here;
    std::vector<T> weight;                  // of a block; with room for the kernels
    std::vector<std::vector<Mass>> masses;  // for each clique
    size_t head = 0, used = 0;              // open variables outside of blocks; tables
    int64_t size = 1, width = 1;            // entries of all blocks, of one

    void start(const Domains& d, const CliqueLayout& l);
    void meet(const Domains& d, const Dims& dims, const std::vector<T>& table,
              const std::vector<int32_t>& value);
    template <class F>
    Status blocks(const Domains& d, int64_t first, Control* control, F&& f);
};

}  // namespace vs::junction
