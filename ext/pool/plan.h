// The one record of what runs: tasks, what they work on and cost, and what each waits for. Engines
// fill it, the pool or one thread runs it, Python sees and simulates it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "core/at.h"

namespace vs {

// X(constant, NAME in Python), and what a task does with its item.
#define VS_EACH_TASK_KIND(X)                                                                   \
    X(kPiece, PIECE)         /* items [first, last) of a loop whose parts do not wait */       \
    X(kSequences, SEQUENCES) /* chains: all of order[first, last) */                           \
    X(kForward, FORWARD)     /* a half pass through order[first] that stores its messages */   \
    X(kBackward, BACKWARD)                                                                     \
    X(kForwardMeet, FORWARD_MEET) /* the other half: meets stored ones, marginals */           \
    X(kBackwardMeet, BACKWARD_MEET)                                                            \
    X(kUpward, UPWARD)          /* order[first, last): messages of nodes, cliques, to roots */ \
    X(kDownward, DOWNWARD)      /* and from them, marginals on the way */                      \
    X(kBeforeRows, BEFORE_ROWS) /* large cliques, (clique, piece): kReserve to kSpread */      \
    X(kReserve, RESERVE)        /* the stages, in this order: see junction/layout.h */         \
    X(kAbsorb, ABSORB)                                                                         \
    X(kSpread, SPREAD)                                                                         \
    X(kRows, ROWS)                                                                             \
    X(kMerge, MERGE)                                                                           \
    X(kGather, GATHER)                                                                         \
    X(kProject, PROJECT)                                                                       \
    X(kNested, NESTED)                                                                         \
    X(kDivide, DIVIDE)                                                                         \
    X(kDecide, DECIDE)                                                                         \
    X(kScale, SCALE)                                                                           \
    X(kRelease, RELEASE)                                                                       \
    X(kAfterRows, AFTER_ROWS) /* kMerge to kRelease */                                         \
    X(kChunks, CHUNKS)        /* chunks [first, last) of the chains that are cut, in order */

enum class TaskKind : int8_t {
#define VS_TASK_KIND(constant, name) constant,
    VS_EACH_TASK_KIND(VS_TASK_KIND)
#undef VS_TASK_KIND
};

struct Item {
    int64_t first, last;
};

// A view of a plan. Tasks stand in an order in which every task comes after those it waits for.
struct Plan {
    explicit Plan(const char* what, int64_t tasks) : label(what), n(tasks) {}

    const char* label;   // which plan of a call this is
    int64_t round = -1;  // and of which round, where there are any
    int64_t n;           // tasks; those that follow in the arrays, and edges to them, do not count
    const TaskKind* kind = nullptr;     // (n,) null: kPiece
    const Item* item = nullptr;         // (n,) null: task t has [t, t + 1)
    const double* cost = nullptr;       // (n,) messages, or estimated nanoseconds; null: 0
    const int32_t* waits = nullptr;     // (n,) number of predecessors; null: all zero
    const int64_t* succ_ptr = nullptr;  // (n + 1,) CSR successors; null with waits
    const int64_t* succ = nullptr;
    // (n,) the lowest of the tasks that wait for nothing goes first; null: the first. A worker
    // goes on with the last of those that its task makes ready.
    const int32_t* rank = nullptr;
    // Of tasks that wait for nothing: each worker begins with a part of its own, the same in each
    // plan of that size, so that memory stays where it was used before.
    bool stays = false;
    // (n_order,) what items count through, or both null.
    const int32_t* order32 = nullptr;
    const int64_t* order64 = nullptr;
    int64_t n_order = 0;
};

// A plan that is being written, and owns its arrays.
class Tasks {
  public:
    int64_t size() const { return static_cast<int64_t>(kind_.size()); }
    double cost() const { return std::accumulate(cost_.begin(), cost_.end(), 0.0); }
    TaskKind kind(int64_t task) const { return kind_[at(task)]; }
    Item item(int64_t task) const { return item_[at(task)]; }

    void reserve(int64_t tasks) {
        kind_.reserve(at(tasks));
        item_.reserve(at(tasks));
        cost_.reserve(at(tasks));
    }
    int64_t add(TaskKind kind, int64_t first, int64_t last, double cost) {
        kind_.push_back(kind);
        item_.push_back({first, last});
        cost_.push_back(cost);
        return size() - 1;
    }
    // Task `after` waits for task `before`.
    void edge(int64_t before, int64_t after) { edges_.push_back({before, after}); }

    // Sorts the edges by task; of one task they keep their order. Nothing is added afterwards.
    // `urgent`: tasks with the longest path to the end go first.
    void finish(bool urgent = false) {
        if (edges_.empty() && !urgent) return;
        waits_.assign(kind_.size(), 0);
        succ_ptr_.assign(kind_.size() + 1, 0);
        succ_.resize(edges_.size());
        for (const Item& e : edges_) {
            ++succ_ptr_[at(e.first) + 1];
            ++waits_[at(e.last)];
        }
        std::partial_sum(succ_ptr_.begin(), succ_ptr_.end(), succ_ptr_.begin());
        std::vector<int64_t> next(succ_ptr_);
        for (const Item& e : edges_) succ_[at(next[at(e.first)]++)] = e.last;
        edges_ = {};
        if (urgent) rank_by_path();
    }

    Plan view(const char* label) const {
        Plan p(label, size());
        p.kind = kind_.data();
        p.item = item_.data();
        p.cost = cost_.data();
        if (!waits_.empty()) {
            p.waits = waits_.data();
            p.succ_ptr = succ_ptr_.data();
            p.succ = succ_.data();
        }
        if (!rank_.empty()) p.rank = rank_.data();
        return p;
    }

  private:
    int64_t* begin(int64_t task) { return succ_.data() + succ_ptr_[at(task)]; }
    void rank_by_path() {
        std::vector<double> path(cost_);
        for (int64_t t = size(); t-- > 0;) {
            double longest = 0.0;
            for (int64_t* s = begin(t); s < begin(t + 1); ++s) {
                longest = std::max(longest, path[at(*s)]);
            }
            path[at(t)] += longest;
        }
        std::vector<int32_t> order(kind_.size());
        std::iota(order.begin(), order.end(), 0);
        std::stable_sort(order.begin(), order.end(),
                         [&](int32_t a, int32_t b) { return path[at(a)] > path[at(b)]; });
        rank_.resize(kind_.size());
        for (std::size_t i = 0; i < order.size(); ++i) {
            rank_[at(order[i])] = static_cast<int32_t>(i);
        }
        for (int64_t t = 0; t < size(); ++t) {
            std::sort(begin(t), begin(t + 1),
                      [&](int64_t a, int64_t b) { return rank_[at(a)] > rank_[at(b)]; });
        }
    }

    std::vector<TaskKind> kind_;
    std::vector<Item> item_;
    std::vector<double> cost_;
    std::vector<Item> edges_;  // (before, after), until they are sorted
    std::vector<int32_t> waits_, rank_;
    std::vector<int64_t> succ_ptr_, succ_;
};

}  // namespace vs
