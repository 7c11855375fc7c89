// Pairs of arcs that may be added, with their gains, and which of them RSM10 chooses.
#pragma once

#include <cstdint>
#include <vector>

#include "parser/parts.h"

namespace vs::parser {

struct Candidate {
    Parts::Pair pair;
    double theta, p, q;  // its potential; P(both arcs), < 0: not known; 1 - P(both arcs)
    double gain = 0.0;   // once p is known
    void weigh();
};

// In the order of parts.
struct Candidates {
    std::vector<Candidate> siblings, grandparents;

    int64_t size() const { return static_cast<int64_t>(siblings.size() + grandparents.size()); }
    void clear();
    // Gives memory back that is for many more than there are, and than `kept`.
    void fit(size_t kept);
    // Drops those with a gain of at most epsilon.
    void keep_above(double epsilon);
    // Keeps the m with the largest gains; among equals the first. O(size).
    void keep_largest(int64_t m);
    // How many of the smallest gains sum up to at most `total`.
    int64_t smallest_within(double total);

  private:
    template <class Drop>
    void drop(const Drop& dropped);
    void read_gains();

    std::vector<double> gains_;
};

}  // namespace vs::parser
