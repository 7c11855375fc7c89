// The best ways of a sequence, from the scores of all that ends in each pair of labels, or in each
// segment.
#pragma once

#include "higher/level.h"

namespace vs::higher {

class BestWays {
  public:
    BestWays(const Job& job, bool caller)
        : job_(job), m_(job.model), ask_(job.ask), caller_(caller) {}

    // Return the first position where nothing is possible, or -1. Of chains of order 2:
    int64_t second(int64_t s, const double* scores);
    int64_t one_label(int64_t s);
    int64_t segments(const Segments& s);

  private:
    template <class Heads, class Write>
    void rank(int64_t s, class Frontier& frontier, int64_t first, Heads heads, Write write);
    double score_second(int64_t s, const int64_t* y) const;
    double score_segments(const Segments& lattice, const int64_t* y) const;

    const Job& job_;
    const LongerModel& m_;
    const LongerRequest& ask_;
    bool caller_;
};

}  // namespace vs::higher
