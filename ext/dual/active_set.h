// The nearest point of a hull by its corners: an active set that is kept from call to call.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "core/problem.h"
#include "dual/part.h"

namespace vs::dual {

// minimise |q - a|^2 / 2 - sum_i w_i c_i over q = sum_i w_i y_i, weights w of corners y_i with
// score c_i. With the corners that are active the weights solve
//
//   sum_j (y_i . y_j + 1) w_j + t = a . y_i + c_i,   sum_j w_j = 1,
//
// by Cholesky factors of that matrix, which does not depend on a and c. A corner that `best` finds
// beyond them joins; one whose weight would turn negative leaves.
class ActiveSet {
  public:
    // Moves q (k,) to the best point; scores count `share` times. At most `limit` corners join:
    // q is a point of the hull after any number. control, or null: of the thread that polls. False:
    // nothing is possible, a kind raised, or the call is to end.
    bool nearest(Part* part, const double* a, double share, int limit, const Control* control,
                 double* q);
    // out (k,): how the point moves with a, in direction d: the nearest direction of the active
    // hull.
    void follow(const double* d, int64_t k, double* out);
    // sum_i w_i c_i.
    double score() const;
    int64_t corners() const { return static_cast<int64_t>(score_.size()); }

  private:
    void solve(std::vector<double>& x, double sum);
    void append(const std::vector<int32_t>& on, double score);
    void drop(int64_t i);
    void factor(int64_t i);
    void through(std::vector<double>& x) const;
    bool step();
    void point(int64_t k, double* q) const;
    double dot(int64_t i, const double* a) const;

    std::vector<std::vector<int32_t>> on_;  // of each corner, its places that are on
    std::vector<double> score_, weight_, wanted_, right_, unit_;
    std::vector<std::vector<double>> gram_, lower_;  // rows of a lower triangle
    std::vector<std::pair<double, double>> turn_;
    int64_t drops_ = 0;
    std::vector<double> gain_;
    std::vector<uint8_t> y_;
    std::vector<int32_t> fresh_;
};

}  // namespace vs::dual
