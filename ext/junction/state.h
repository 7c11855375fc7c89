// The messages of every clique, and the buffers that are used again.
#pragma once

#include <atomic>
#include <mutex>
#include <vector>

#include "junction/verbs.h"
#include "core/no_fork.h"
#include "core/sum.h"

namespace vs::junction {

constexpr double kWorthThreads = 1e6;  // nanoseconds of work that is faster on several threads

// A way up or down is worth them, hence both: they cost about the same.
inline int threads_for(const PropagationPlan& s, int threads) {
    return s.nanoseconds < 2.0 * kWorthThreads ? 1 : threads;
}

const PoolApi& pool();

struct Compiled {
    const Graph& g;
    const Domains& d;
    const CliqueTree& t;
    const TableLayout& l;
    const std::vector<Query>& queries;
};

// Vectors that are used again: memory that has been used before costs no page faults.
template <class T>
struct BufferPool {
    static constexpr size_t kWorthKeeping = 4096, kMostKept = size_t{512} << 20;

    std::mutex lock;
    std::vector<std::vector<T>> list;

    // Gives x `size` entries, in the smallest vector that has the capacity.
    void grow(int64_t size, std::vector<T>* x, const Poll& poll) {
        const size_t n = static_cast<size_t>(size);
        if (x->capacity() < n && n >= kWorthKeeping) *x = take(n);
        junction::grow(x, size, poll);
    }
    void give_back(std::vector<T>&& x) {
        if (x.capacity() < kWorthKeeping) return;
        const Unforked<std::lock_guard<std::mutex>> guard(lock);
        list.push_back(std::move(x));
    }
    void trim() {
        size_t kept = 0;
        const auto beyond = [&](const std::vector<T>& x) {
            kept += x.capacity() * sizeof(T);
            return kept > kMostKept;
        };
        list.erase(std::remove_if(list.begin(), list.end(), beyond), list.end());
    }

  private:
    std::vector<T> take(size_t size) {
        const Unforked<std::lock_guard<std::mutex>> guard(lock);
        size_t best = list.size();
        for (size_t i = 0; i < list.size(); ++i) {
            if (list[i].capacity() < size) continue;
            if (best == list.size() || list[i].capacity() < list[best].capacity()) best = i;
        }
        std::vector<T> x;
        if (best == list.size()) return x;
        x.swap(list[best]);
        list[best].swap(list.back());
        list.pop_back();
        return x;
    }
};

// A table over some variables of a clique, in the clique's order.
template <class A>
struct Factored {
    Set var;
    std::vector<typename A::T> x;
};

// Where the factors of a clique are multiplied: memory that the next clique uses again.
template <class A>
struct Loading {
    std::vector<Factored<A>> table;  // those that are left, then spare ones
    std::vector<double> logs;        // of the factor that is read
    Set at[2];                       // offsets of a row's entries in the tables that are multiplied
};

template <class A>
struct State {
    using T = typename A::T;

    struct Clique {
        std::vector<std::vector<T>> tables;  // statics
        std::vector<double> low;             // log2 of the smallest non-zero entry of each
        // To the parent; with those that it absorbs multiplied in; spread over the parent's tile.
        std::vector<T> message, product, spread;
        std::vector<T> belief;  // of the separator, from the parent; then the message down
        Set asked;              // the queries that are answered here
        double message_low = 0.0, belief_low = 0.0;
        double loss = -INFINITY;            // log2 of what an entry of the message may have lost
        double scale = 0.0, tail = 0.0;     // log2 of what scaling took out of the message
        bool loaded = false, sent = false;  // statics, message are good
    };

    explicit State(const Compiled& compiled)
        : c(compiled),
          clique(c.t.clique.size()),
          marginal(static_cast<size_t>(c.g.n)),
          query(c.queries.size()),
          shift(clique.size()) {}

    // The message of a child as the parent's rows meet it.
    const std::vector<T>& incoming(const Child& k) const {
        const Clique& child = clique[k.clique];
        if (copied(k.view)) return child.spread;
        return k.absorbs ? child.product : child.message;
    }

    Compiled c;
    std::vector<Clique> clique;
    std::vector<std::vector<T>> marginal;  // (n,) of variables with more than one value
    std::vector<std::vector<T>> query;
    std::vector<Sum> shift;  // log of what was taken out of each clique's statics
    BufferPool<T> buffers;
    std::atomic<bool> lost{false};        // on the way down something may have been
    const double* const* soft = nullptr;  // a log-vector for each variable, or null
};

// Adds those of factor f; p: a distribution of living values of `vars`, which has f's. factors.cpp.
void add_expected(const Graph& g, const Domains& d, const Factor& f, const Set& vars,
                  const std::vector<double>& p, ExpectedScore* to);

// Multiplies the factors of clique c into its statics: factors.cpp.
template <class A>
void load(State<A>* s, size_t c, Loading<A>* by);

}  // namespace vs::junction
