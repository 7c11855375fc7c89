// Islands on a graph: who is held, and the free variables between them, solved part by part.
//
// A round reads all of its events off the marginals of the one before (docs/islands.md); only what
// they touch is solved again. The marginal of an island, given the others, is made of what is
// around: each part has a mass for each value that the island could take. Where a single variable
// of a part is near, its marginal tells; where several are, the messages between them are made
// again. Islands in factors with two free variables more are freed, and solved with what is around.
#pragma once

#include <algorithm>

#include "islands/rules.h"
#include "junction/kept_parts.h"

namespace vs::junction {

class Segments {
  public:
    // held[v]: evidence or -1. limit: bytes of the trees of all parts together.
    Segments(const Graph& g, const double* const* soft, const int64_t* held, double limit);

    // Holds variables by their unary factors and soft evidence. -1, or one without a state. Trees
    // of an earlier call are kept for the segments that are the same.
    int64_t start(double zeta);

    // Solves again what the last changes touch. kOk; kInfeasible: a part has no mass;
    // SegmentTree::kTooMuch: the tree of `refused()`; kCancelled.
    int refresh(int threads, Control* control);

    // Applies the events of the marginals at hand in components of fewer than `limit` rounds (in
    // all where it is negative); returns how many there are.
    int64_t decide(int64_t limit);
    // Whether there are no events at all.
    bool converged() const;
    // Releases islands whose value is impossible given the others; returns how many.
    int64_t release_dead();
    // Releases the islands of factors and parts that have no mass given their islands. kInfeasible
    // where there is a part, or a factor, without any; others as refresh().
    int release_contradictions(int threads, Control* control);

    // The log mass of what agrees with the islands; -inf where factors of evidence forbid it.
    double log_mass() const;

    // The most rounds of a component: those in which something happened in it.
    int64_t rounds() const { return *std::max_element(rounds_.begin(), rounds_.end()); }
    const std::vector<double>& marginals() const { return marginals_; }
    // The value that an island holds, or -1.
    int64_t island_of(int64_t v) const { return island(v) ? held_[v] : -1; }
    int64_t released() const { return counts_.released; }
    int64_t flipped() const { return counts_.flipped; }
    int64_t n_parts() const;
    int64_t solved() const { return solved_; }
    // The part whose tree does not fit, and what those beside it take.
    const SegmentTree& refused() const { return *refused_; }
    double used() const { return bytes_; }

  private:
    static constexpr int64_t kPasses = 8;  // states for each of which a pass is worth it

    bool island(int64_t v) const { return flag_[v] & kIsland; }
    // The event that these marginals of a variable call for, by the rules of ext/islands/rules.h.
    IslandEvent event_of(int64_t v, const double* p) const;
    IslandEvent event_of(int64_t v) const { return event_of(v, marginals_.data() + from_.at(v)); }
    // Flags and value of a variable after its event, given the marginals that called for it.
    void take(int64_t v, IslandEvent e, const double* p);
    double bytes_left() const { return limit_ - bytes_; }
    void mark() { ++now_; }
    // Numbers the components that evidence leaves: what happens in one is not told to another.
    void find_components();
    // One round more for the components of the variables that have changed.
    void count_round();
    // Adds a variable and those that share a factor with it, where they have no mark yet.
    void near(int64_t v, std::vector<int64_t>* list);
    // The free variables that are connected to one by free ones, ascending.
    std::vector<int64_t> reach(int64_t v);
    void drop(int64_t q);
    void forget_all();
    void keep_all();
    int failed(size_t q, int status);

    // A variable near an island, and its number in its part.
    struct Near {
        int64_t part, variable;
        bool operator<(const Near& o) const {
            return part != o.part ? part < o.part : variable < o.variable;
        }
        bool operator==(const Near& o) const { return part == o.part && variable == o.variable; }
    };

    // m' of an island. kWiden: only an upward pass would do, and `whole` does not allow it.
    int reconsider(int64_t v, bool whole, int threads, Control* control);

    // Z(x) / Z = E[exp(score(x, u) - score(now, u))]. False where that has too few digits.
    bool near_mean(int64_t v, const Near& one, std::vector<double>* mass);

    int masses(int64_t v, const Near* list, size_t n, bool whole, int threads, Control* control,
               std::vector<double>* mass);

    // Frees an island, and solves it together with all parts around it.
    int solve_freed(int64_t v, const std::vector<Near>& around, int threads, Control* control);

    TableSlices from_;
    double zeta_ = 0.0;
    const double limit_;
    const std::vector<int64_t> given_;
    std::vector<int64_t> held_, part_, stamp_;  // part_: -1 where a variable has none
    std::vector<uint8_t> flag_, reached_;       // flag_: IslandFlag
    Counts counts_;                             // of releases and flips
    std::vector<int64_t> all_, changed_;
    std::vector<int64_t> component_;         // of each variable, -1 with evidence
    std::vector<int64_t> rounds_, counted_;  // of each component; the mark of its last round
    std::vector<double> marginals_, scores_;
    std::vector<std::unique_ptr<SegmentTree>> parts_;  // null where one was dropped
    KeptParts kept_;
    std::unique_ptr<SegmentTree> refused_;
    int64_t now_ = 0, solved_ = 0;
    double bytes_ = 0.0;
};

}  // namespace vs::junction
