// The steps in which tables are laid out, in the order of measure(). A file each.
#pragma once

#include "junction/layout.h"
#include "junction/poll.h"

namespace vs::junction {

constexpr double kBeyond = 4e12;     // entries of a clique that is refused: not laid out
constexpr double kBlock = 524288.0;  // entries of a clique that are worth a task of their own
constexpr double kBlocks = 8.0;      // tasks that the rows of one clique are cut into, at most
constexpr double kLeast = 300.0;     // nanoseconds of any task

// group.cpp: which messages are multiplied into others, which factors are multiplied together.
Set scope_of(const Graph& g, const Domains& d, int64_t f);
void absorb_messages(const Domains& d, const std::vector<Set>& separator, CliqueLayout* l);
void group_factors(const Graph& g, const Domains& d, const int64_t* first, const int64_t* last,
                   CliqueLayout* l);

// tile.cpp: the inner variables of clique c, and the order of the others.
void choose_tile(const Domains& d, const CliqueTree& t, size_t c, const Set& vars,
                 const std::vector<Set>& separator, CliqueLayout* l);
// How rows of l meet a table.
View shape(const Domains& d, const Dims& table, const CliqueLayout& l);

// Nanoseconds of one direction through a clique: before its rows, in them, after them.
struct Cost {
    double before = 0.0, absorb = 0.0, rows = 0.0, after = 0.0;
    double merge = 0.0, gather = 0.0, project = 0.0, nested = 0.0, divide = 0.0, decide = 0.0,
           scale = 0.0;
};
// cost.cpp: the cost of one clique, and nanoseconds of a first question on one thread.
Cost cost_of(const Domains& d, const TableLayout& layout, const CliqueLayout& l, bool up,
             bool root);
double predict(const Graph& g, const Domains& d, const CliqueTree& t, const TableLayout& layout);

// schedule.cpp: cuts large cliques, merges small subtrees.
void schedule(const Domains& d, const CliqueTree& t, const Poll& poll, TableLayout* layout);

}  // namespace vs::junction
