// Many questions to one junction tree, kLanes of them side by side.
//
// The tables of cliques are made once, over the states that the tree's own evidence leaves; what a
// question knows comes in as zeros and ones at the cliques of its variables. Everything is plain
// numbers, scaled message by message by powers of two. A group of questions in which a number was
// too small is left to others, by the flags of the processor: so what is answered has lost nothing.
#pragma once

#include <cstdint>
#include <vector>

#include "junction/cliques.h"
#include "junction/dims.h"
#include "junction/graph.h"
#include "junction/lanes.h"
#include "junction/layout.h"

namespace vs::junction {

const LaneLevel& lane_level();

// The outcome of a question.
enum Answer : uint8_t { kAnswered = 0, kImpossible = 1, kTooSmall = 2 };

// Questions and where their answers go. Answers with a null pointer are not wanted.
struct EvidenceRows {
    const int32_t* codes = nullptr;  // (rows, n) states, -1 where not known
    int64_t rows = 0;
    const int64_t* ptr = nullptr;    // (n + 1,) where the marginals of a variable begin
    double* marginals = nullptr;     // (rows, ptr[n]) of those that are answered
    double* log_z = nullptr;         // (rows,)
    uint8_t* answer = nullptr;       // (rows,)
    const int64_t* table = nullptr;  // (n_factors,) where a factor's expected counts begin, or -1
    double* counts = nullptr;        // sums over all rows; zeros before
    int64_t n_counts = 0;
};

class Many {
  public:
    // g: kept by the caller. d, t, l: of a tree that is laid out; soft: likelihoods, or null.
    Many(const Graph& g, const Domains& d, const CliqueTree& t, const TableLayout& l);

    // How many entries all cliques have, zeros included.
    double entries() const { return entries_; }
    // Makes the tables of all cliques. kWiden: their numbers are too far apart.
    Status load(const double* const* table, const double* const* soft, Control* control);
    Status run(const EvidenceRows& rows, int threads, Control* control) const;

  private:
    struct Meeting {  // what every row, or where it varies every entry, meets of another table
        int32_t which;
        std::vector<int32_t> at;
        bool varies = false;
    };
    struct Family {
        int64_t factor;
        std::vector<int64_t> at;
    };
    struct Clique {
        Set vars;  // those of the separator come first, and last those that rows run over
        int32_t parent = -1;
        int64_t n_separator = 1;
        std::vector<int64_t> factors;
        std::vector<double> psi;
        std::vector<int32_t> entry, row;  // see lanes.h
        int64_t width = 1;                // of a row, zeros included
        std::vector<Meeting> child, home;
        std::vector<Family> family;
        std::vector<Meeting> read;  // of its message: variables whose marginals are read there
        int64_t first_entry = 0, first_message = 0;

        LaneClique view() const { return {psi.data(), entry.data(), row.data(), n_separator}; }
    };
    struct Worker;
    struct Job;

    void choose_rows(Clique* c, const CliqueTree& t) const;
    Set separator_of(const Clique& c) const;
    void place(Clique* c);
    Status load_clique(Clique* c, const double* const* table, const double* const* soft,
                       Control* control);
    bool find_states(const EvidenceRows& q, int64_t row, Worker* w, int lane) const;
    void solve(const EvidenceRows& q, const int64_t* row, int n, const double* weight, Worker* w,
               uint8_t* answer, double* log_z) const;
    void write(const EvidenceRows& q, const Worker& w, int k, double* out) const;
    void meet(const Clique& c, Worker* w) const;
    void up(Worker* w, const LaneLevel& level) const;
    void down(Worker* w, const LaneLevel& level, bool marginals, const double* weight) const;
    void add_counts(const EvidenceRows& q, Worker* w, double* counts) const;

    const Graph& g_;
    Domains d_;
    std::vector<Clique> clique_;
    std::vector<std::vector<int32_t>> place_;  // of each state of a variable among those left
    std::vector<int64_t> first_;               // (n,) of a variable's states, in tables with lanes
    std::vector<uint8_t> read_below_;          // (n,) its marginal is read from a message
    std::vector<int32_t> by_work_;             // (n,) those first whose cliques are the largest
    int64_t n_states_ = 0, n_entries_ = 0, n_messages_ = 0;
    double entries_ = 0.0, shift_ = 0.0;
    bool possible_ = true;
};

}  // namespace vs::junction
