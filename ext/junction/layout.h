// How the tables of a junction tree lie in memory, for given domains: known before anything is
// computed, so that cost can be reported and refused.
//
// The entries of a clique are walked in rows: a row is one setting of its outer variables, and runs
// over all settings of a few inner ones, the tile, that lie side by side. The clique's own table is
// never made. Tables that are multiplied in (factors merged into static tables, messages) are
// either constant along a row (a scalar view), or stored so that a row of theirs lies side by side
// too (a vector view): where a message misses some variables of the tile, a copy is spread over
// them. Sums out of a clique are collected in the same two ways.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "junction/cliques.h"
#include "junction/dims.h"
#include "junction/graph.h"
#include "junction/poll.h"
#include "pool/pool.h"

namespace vs::junction {

// How the rows of a clique meet a table.
struct View {
    bool scalar = false;    // constant along a row
    bool direct = true;     // the table itself serves; no spread copy
    bool disjoint = false;  // no two blocks of rows meet the same entry
    int64_t size = 0;       // entries of what the rows meet
    Set at;                 // (rows,) its offset for each row
    Set base;               // (size / tile,) of a spread row in the table
    Set inner;              // (tile,) within it
};

// Rows meet a copy, spread over the tile.
inline bool copied(const View& v) { return !v.scalar && !v.direct; }

// Factors multiplied together in the form that rows meet.
struct Static {
    Dims dims;  // of the table: spread over the tile, or scalar
    View view;
    Few<int64_t, 4> factors;
};

struct Child {
    int32_t clique;
    // A message is absorbed by that of another child (an index) whose separator contains its own:
    // it is multiplied into that one, and rows do not meet it.
    int32_t into = -1;
    bool absorbs = false;
    Set absorbed;    // children, in the order they are multiplied in
    int n_read = 0;  // leading variables whose marginals are read from this separator
    View view;       // into < 0
    // into >= 0: the entry of this message that meets a run of entries of the one that absorbs it;
    // where contiguous, a run of it meets a run.
    Set map;
    int64_t run = 1;
    bool contiguous = false;
};

// An outer variable that is in no separator.
struct Local {
    int32_t var;
    Set at;  // (rows,) its value
};

// Pieces of one direction that may run side by side.
struct PieceCounts {
    int before = 1, blocks = 1, after = 1;  // of what comes before the rows, of rows, after them
};

struct CliqueLayout {
    Set outer, tile;              // variables with more than one value left
    int64_t rows = 1, width = 1;  // their settings
    double size = 1.0;
    std::vector<Static> statics;
    std::vector<Child> children;
    Set order;     // of the children: absorbed ones before those that absorb them
    Dims message;  // to the parent
    View up;       // how rows meet it
    Set local;     // variables in no separator: their marginals are summed up here
    std::vector<Local> local_outer;
    bool local_in_tile = false;
    // The rows of a large clique are cut into blocks, between runs of `unit` rows: all settings of
    // its first outer variables, `cut`, are met by one block each.
    PieceCounts pieces[2];  // on the way down, on the way up
    int64_t unit = 1;
    Set cut;
};

// The stages of a clique, in this order; tasks of the same name run a piece of one. All pieces of
// a stage come before the next.
enum Stage : int {
    // buffers are taken; the tables that rows multiply and add to are listed
    kReserve = static_cast<int>(TaskKind::kReserve),
    kAbsorb,   // up: messages are multiplied into those that absorb them
    kSpread,   // messages are copied over the tile; sums are set to zero
    kRows,     // the product of all tables that a row meets is added to every sum
    kMerge,    // sums of blocks that met the same entries are added up
    kGather,   // sums over the tile are added to the entries of their tables
    kProject,  // down: beliefs of absorbed separators, summed out of those that contain them
    kNested,   // down: beliefs of separators absorbed by absorbed ones, likewise
    kDivide,   // down: marginals are read, beliefs divided by messages; both: ranges of entries
    kDecide,   // powers of two to scale by; whether too much may have been lost
    kScale,    // messages are divided by their powers of two
    kRelease   // buffers are given back
};
static_assert(kRelease == static_cast<int>(TaskKind::kRelease), "one list of stages");

// A propagation as tasks: the way up, then the way down of each tree from its root. Items: cliques
// order[first, last) of kUpward and kDownward; else a clique, and a piece of it. Costs are
// estimated nanoseconds.
struct PropagationPlan {
    Tasks tasks;
    int64_t n_up = 0;  // tasks of the way up
    std::vector<int32_t> order;
    double nanoseconds = 0.0;  // of all tasks

    Plan plan(bool upward_only) const {
        Plan p = tasks.view(upward_only ? "up" : "up and down");
        if (upward_only) p.n = n_up;
        p.order32 = order.data();
        p.n_order = static_cast<int64_t>(order.size());
        return p;
    }
};

// A set of variables whose joint is asked for.
struct Query {
    Set vars;
    int32_t clique = -1;
    Dims dims;
    View view;
};

struct TableLayout {
    std::vector<CliqueLayout> clique;
    PropagationPlan schedule;
    // (n,) the clique whose message to its parent is the smallest with v: where v's marginal is
    // read
    std::vector<int32_t> read_in;
    double table_size = 0.0;  // entries of all clique tables
    double largest = 0.0;
    int32_t largest_clique = -1;
    int width = 0;             // variables of the largest clique (by number), minus one
    double flops = 0.0;        // multiplications and additions of one propagation
    double bytes = 0.0;        // everything that a propagation keeps
    bool addressable = true;   // offsets in all tables have 32 bits
    double nanoseconds = 0.0;  // of a first question on one thread, estimated
};

// Cost only: nothing is allocated that grows with the tables. soft: variables with soft evidence.
// kOk or kCancelled.
Status measure(const Graph& g, const Domains& d, const CliqueTree& t,
               const std::vector<int64_t>& soft, Control* control, TableLayout* out);
// Finds the cliques of sets of variables, once the index arrays are made, as long as it goes on.
void locate(const Domains& d, const CliqueTree& t, const TableLayout& layout,
            std::vector<Query>* queries, const Poll& poll);
// Those of `s`, a static table of clique l, that its factors have: in the clique's order.
Set factor_vars(const Graph& g, const Domains& d, const CliqueLayout& l, const Static& s);
// A query for the variables of every static table, in turn.
void locate_factors(const Graph& g, const Domains& d, const TableLayout& layout,
                    std::vector<Query>* queries);

// Makes all index arrays. `queries` are sets of variables that lie in one clique each. kOk,
// kCancelled or kNoMemory.
Status complete(const Domains& d, const CliqueTree& t, TableLayout* layout,
                std::vector<Query>* queries, const PoolApi& pool, int threads, Control* control);

}  // namespace vs::junction
