// States near a point of the relaxation: possible for every structured factor where that is found.
#pragma once

#include <cstdint>
#include <vector>

#include "dual/problem.h"

namespace vs::dual {

// The parts that are structured decide one after the other, each by `best` with what was decided
// before; the other variables take the state that is better given theirs. Then, as long as the
// score grows, everything is decided again by what each variable is worth given the states of the
// others.
class Rounding {
  public:
    explicit Rounding(const Problem& problem);
    // By the gains (open,) of the variables' states 1; keeps the best states of all calls. kOk,
    // whether or not states were found, or kCancelled.
    Status round(const double* gain, const Control* control);
    double best() const { return best_; }
    // (graph.n,), meaningful where best() > -inf.
    void states(int64_t* out) const;

  private:
    Status decide(const double* gain, const Control* control);
    double alone(int64_t v);
    void all_alone();
    void improve();
    double score();
    double entry(const Part& part, int64_t axis, uint8_t state);

    const Problem& p_;
    std::vector<int64_t> part_of_;   // of each edge behind those of pairs
    std::vector<uint8_t> apart_;     // variables in no structured part
    std::vector<uint8_t> y_, kept_;  // (open,)
    std::vector<int8_t> held_;       // likewise
    std::vector<double> gain_;       // likewise
    std::vector<double> own_gain_;   // of one part
    std::vector<int8_t> own_held_;
    std::vector<uint8_t> own_y_;
    int64_t most_ = 0;
    bool possible_ = false;  // y_, by all tables
    double best_ = -INFINITY;
    double forbidden_ = 0.0;  // more than all scores together
};

}  // namespace vs::dual
