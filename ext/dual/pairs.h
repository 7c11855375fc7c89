// Pairs of a dual decomposition, many at once.
#pragma once

#include <cstdint>

namespace vs::dual {

// Numbers that may be read behind the last one of every array.
constexpr int64_t kSlack = 8;

struct PairPoints {
    int64_t n;
    const int32_t *left, *right;  // the variables
    const double* point;          // of variables
    const double *share_left, *share_right, *couple;
    double inverse;  // 1 / rho
    double *left_q, *right_q;
};

// Over pairs: scores and shares of their points; squared distances from the variables' points.
struct PairSums {
    double value, far;
};

}  // namespace vs::dual
