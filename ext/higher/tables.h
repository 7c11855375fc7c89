// The tables of a model as a SIMD level reads them.
#pragma once

#include <vector>

#include "higher/level.h"

namespace vs::higher {

class Tables {
  public:
    Tables(const LongerModel& model, const LongerRequest& ask, const Level& level);
    Tables(const Tables&) = delete;
    Tables& operator=(const Tables&) = delete;

    const Packed& packed() const { return packed_; }
    // out [before][from][to], (K, K) of segments, += counts times exponentials.
    void add_expected(const double* counts, double* out) const;

  private:
    void pack_second(bool both_ways);
    void pack_segments();
    void pack_scores();

    const LongerModel& m_;
    const Level& level_;
    int64_t k_, kp_;
    Packed packed_;
    std::vector<double> up_, down_, scored_, first_;
};

}  // namespace vs::higher
