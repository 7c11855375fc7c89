// How the tables of a junction tree lie in memory, for given domains: known before anything is
// computed, so that cost can be told and refused.
//
// The entries of a clique are walked in rows: a row is one setting of its outer variables, and runs
// over all settings of a few inner ones, the tile, that lie side by side. The clique's own table is
// never made. What is multiplied in (factors merged into static tables, messages) is either
// constant along a row (a scalar view), or stored so that its row lies side by side too (a vector
// view): where a message misses some variables of the tile, a copy is spread over them. What is
// summed out of a clique is collected in the same two ways.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "junction/cliques.h"
#include "junction/graph.h"
#include "pool/pool.h"

namespace vs::junction {

// Where an entry stands: sum of stride * value over the variables, outermost first.
struct Dims {
    std::vector<int32_t> var;
    std::vector<int64_t> stride;
    int64_t size = 1;

    int64_t stride_of(int32_t v) const {
        for (size_t i = 0; i < var.size(); ++i) {
            if (var[i] == v) return stride[i];
        }
        return 0;
    }
};

struct View {
    bool scalar = false;
    bool direct = true;          // the table itself serves; no spread copy
    bool apart = false;          // blocks meet entries of their own
    int64_t size = 0;            // entries of what the rows meet
    std::vector<int32_t> at;     // (rows,) its offset for each row
    std::vector<int32_t> base;   // (size / tile,) of a spread row in the table
    std::vector<int32_t> inner;  // (tile,) within it
};

// Factors multiplied together in the form their clique wants.
struct Static {
    Dims dims;  // of the table: spread over the tile, or scalar
    View view;
    std::vector<int64_t> factors;
};

struct Child {
    int32_t clique;
    int32_t host = -1;  // another child (index) whose separator contains this one's
    bool hosts = false;
    std::vector<int32_t> guests;  // children that it hosts, in the order they are multiplied in
    int shown = 0;                // so many of its first variables, the last one's marginal is here
    View view;                    // host < 0
    // host >= 0: into this one's message, for runs of entries of the host's message that meet one
    // entry, or (along) as many side by side.
    std::vector<int32_t> map;
    int64_t run = 1;
    bool along = false;
};

// A variable of no separator that is not in the tile.
struct Alone {
    int32_t var;
    std::vector<int32_t> at;  // (rows,) its value
};

struct CliqueLayout {
    std::vector<int32_t> outer, tile;  // variables with more than one value left
    int64_t rows = 1, width = 1;       // their settings
    double size = 1.0;
    std::vector<Static> statics;
    std::vector<Child> children;
    std::vector<int32_t> order;  // of the children: hosted ones before their hosts
    Dims message;                // to the parent
    View up;                     // the same as rows meet it
    std::vector<int32_t> alone;  // variables in no separator: their marginals are made here
    std::vector<Alone> alone_outer;
    // The rows of a large clique are cut into blocks, between runs of `unit` rows: all settings of
    // its first outer variables, `cut`, are met by one block each.
    int blocks_up = 1, blocks_down = 1;
    // What comes before the rows, and what comes after them, in so many pieces.
    int open_up = 1, open_down = 1, shut_up = 1, shut_down = 1;
    bool deep = false;  // some child that is hosted hosts another
    int64_t unit = 1;
    std::vector<int32_t> cut;
    bool alone_tile = false;  // some of them are in the tile
};

// What is done with a clique, in this order. What its rows meet is made ready:
//   kOpen: room; kHosts: messages multiplied into others; kSpread: copies, and what sums go to
// then kSweep, the rows, and what has been collected is passed on:
//   kMerge, kGather: copies of blocks and over the tile; kHosted, kDeep: what is summed out of
//   other separators; kShare: marginals, division, bounds; kClose: what pieces have found; kScale;
//   kLeave
enum Stage : int {
    kOpen,
    kHosts,
    kSpread,
    kSweep,
    kMerge,
    kGather,
    kHosted,
    kDeep,
    kShare,
    kClose,
    kScale,
    kLeave
};

// One direction of a propagation as tasks, each after those it waits for.
struct Schedule {
    enum Kind : int8_t { kWhole, kBegin, kBlock, kEnd, kPiece };
    std::vector<int8_t> kind;
    // kWhole: cliques order[first..last); kBlock: clique, block; else clique, stages and piece.
    std::vector<int64_t> first, last;
    static int64_t pack(Stage from, Stage to, int piece) { return (from * 64 + to) * 64 + piece; }
    static Stage from(int64_t last) { return static_cast<Stage>(last / 4096); }
    static Stage to(int64_t last) { return static_cast<Stage>(last / 64 % 64); }
    static int piece(int64_t last) { return static_cast<int>(last % 64); }
    std::vector<int32_t> order;
    std::vector<double> cost;  // nanoseconds, estimated
    double nanoseconds = 0.0;  // of all
    std::vector<int32_t> waits;
    std::vector<int64_t> succ_ptr, succ;
    std::vector<int32_t> rank;  // by what has to follow: the longest path first

    Plan plan() const {
        Plan p;
        p.n = static_cast<int64_t>(kind.size());
        p.waits = waits.data();
        p.succ_ptr = succ_ptr.data();
        p.succ = succ.data();
        p.rank = rank.data();
        return p;
    }
};

struct Query {
    std::vector<int32_t> vars;
    int32_t clique = -1;
    Dims dims;
    View view;
};

struct Layout {
    std::vector<CliqueLayout> clique;
    Schedule upward, downward;
    std::vector<int32_t> seen_in;  // (n,) clique whose message to its parent is the smallest with v
    double table_size = 0.0;       // entries of all clique tables
    double largest = 0.0;
    int32_t largest_clique = -1;
    int width = 0;             // variables of the largest clique (by number), minus one
    double flops = 0.0;        // multiplications and additions of one propagation
    double bytes = 0.0;        // everything that a propagation keeps
    double nanoseconds = 0.0;  // of a first question on one thread, estimated
};

// Cost only: nothing is allocated that grows with the tables. soft: variables with soft evidence.
Layout measure(const Graph& g, const Domains& d, const CliqueTree& t,
               const std::vector<int64_t>& soft);
// Makes all index arrays. `queries` are sets of variables that lie in one clique each. kOk,
// kCancelled or kNoMemory.
Status complete(const Graph& g, const Domains& d, const CliqueTree& t, Layout* layout,
                std::vector<Query>* queries, const PoolApi& pool, int threads, Control* control);

}  // namespace vs::junction
