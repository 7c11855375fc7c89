// The hull of trees from outside: every word has one head, and into every set of words leads an
// arc. Sets that a point violates are added one after the other.
#pragma once

#include <cstdint>
#include <vector>

#include "core/at.h"
#include "factors/structured.h"

namespace vs::dual {

class TreeCuts {
  public:
    explicit TreeCuts(const factors::Arcs& arcs);

    // sum of z over `arcs` >= 1; `equal`: = 1.
    struct Cut {
        std::vector<int32_t> arcs;  // ascending
        double weight = 0.0;        // its multiplier
        double pull = 0.0;          // the multiplier that the point asks for
        bool equal = false;
    };
    std::vector<Cut> cuts;

    // Moves a point to the nearest one with one head a word.
    void project(double* point);
    // Calls f(arcs, how many) for the arcs of each word.
    template <class F>
    void each_row(const F& f) const {
        for (int64_t m = 0; m < arcs_.words; ++m) {
            f(order_.data() + row_[at(m)], row_[at(m + 1)] - row_[at(m)]);
        }
    }
    // Adds the cuts, with weights, that prove which tree has the greatest sum of these scores: the
    // sets that Edmonds' algorithm contracts. With a single root it is a bound that they prove.
    void prove(const double* scores);
    // Adds cuts that q violates by more than `least`; the largest violation of all.
    double separate(const double* q, double least);

  private:
    double flow_to(int32_t word, double enough);
    void add_word(int32_t word);
    void add(double weight);
    void reach(int32_t node);

    factors::Arcs arcs_;
    std::vector<int64_t> row_;    // (words + 1,) places in order_
    std::vector<int32_t> order_;  // (arcs,) by word
    std::vector<double> own_, scratch_;
    // The arcs that carry something: edge 2 i leads along arc i, 2 i + 1 back.
    std::vector<int32_t> leads_to_, first_, edges_, queue_, came_;
    std::vector<double> residual_, capacity_, into_;  // residual_: capacity less flow
    std::vector<uint8_t> inside_, reached_;           // (words + 1,)
};

}  // namespace vs::dual
