// A clique under way: the tables that its rows multiply, and those that they add to.
#pragma once

#include "junction/state.h"

namespace vs::junction {

// A table that rows add to.
template <class T>
struct SumTable {
    bool scalar;
    const int32_t* at;
    std::vector<T>* into;
    std::vector<std::vector<T>> copies;  // of the blocks after the first
};

// A message before it is sent: where the workspace has
template <class A>
struct Outgoing {
    int64_t folded = 0;  // its table with the first variable summed out
    int64_t sums = 0;    // the sum for each value of that variable, of each piece
    typename A::T top = A::zero();
};

template <class A>
struct CliqueWorkspace {
    using T = typename A::T;
    using Tables = std::vector<std::vector<T>*>;

    std::vector<const T*> vec, scalar;  // what rows multiply
    std::vector<const int32_t*> vec_at, scalar_at;
    std::vector<SumTable<T>> sums;
    Tables zero, zero_later;                  // set to zero before rows, after them
    std::vector<T> wide_up, tile;             // message up over the tile; sum of all rows
    std::vector<std::vector<T>> wide, asked;  // beliefs of children, queries: over the tile
    std::vector<Outgoing<A>> outgoing;        // for each child, or the clique's own
    std::vector<Range<A>> ranges;             // for each of them, by each piece
    std::vector<T> folded, sum;
    Loading<A> loading;
    int64_t unit = 1;         // rows of a run; blocks are cut between runs
    double boost = 0.0;       // log2 of what products start from
    double loss = -INFINITY;  // log2 of what a sum of them may lose, without the boost
    int blocks = 1;

    void add_input(const View& v, const std::vector<T>& table);
    // Statics and messages from below.
    void add_inputs(const State<A>& s, size_t c);
    void add_sum(BufferPool<T>* buffers, const Poll& poll, bool is_scalar, bool disjoint,
                 const int32_t* at, int64_t size, std::vector<T>* into);
    // A sum into a table of `size` entries: by way of `wide` where its view is spread.
    void add_table(BufferPool<T>* buffers, const Poll& poll, const View& v, int64_t size,
                   std::vector<T>* table, std::vector<T>* wide);
    // Sets what products of clique c start from, and what their sums may lose; `low`: log2 of the
    // smallest entry of the message from above.
    void bound_loss(const State<A>& s, size_t c, double low);

    // Rows of block k, with a buffer for a row.
    void run_block(const CliqueLayout& l, int k, std::vector<T>* row, const Poll& poll) const;
    // Sets a share of each table to zero.
    void clear(const Tables& list, LoopPiece share, const Poll& poll) const;
    // Adds up what blocks have collected, in their order.
    void merge(LoopPiece share, const Poll& poll) const;

    void release(BufferPool<T>* buffers);
    void reset();  // as new, small memory kept
};

constexpr double kTrust = -900.0;  // log2 of a product above which none underflows
constexpr double kTiny = -1022.0;  // log2 of what an underflow takes, at most
constexpr double kLost = -100.0;   // log2 of the share of a sum that may be lost

// One stage of a clique, or one share of it: up.cpp, down.cpp.
template <class A>
Status stage_up(State<A>* s, size_t c, CliqueWorkspace<A>* w, Stage stage, LoopPiece share,
                const Poll& poll);
template <class A>
Status stage_down(State<A>* s, size_t c, CliqueWorkspace<A>* w, Stage stage, LoopPiece share,
                  const Poll& poll);
// Every clique, up and down: walk.cpp.
template <class A>
Status walk(State<A>* s, bool upward_only, int threads, Control* control);
// Messages of some cliques, children before parents, on the calling thread.
template <class A>
Status walk_up(State<A>* s, const std::vector<int32_t>& cliques, Control* control);

}  // namespace vs::junction
