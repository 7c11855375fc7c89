// Maxima and sums over all inputs but one, for each of them. No sum is ever subtracted from.
#pragma once

#include <cmath>
#include <cstdint>

namespace vs::factors {

// The two largest odds; `first` is where the largest stands, -1: none is above `least`.
struct Top {
    double top, second = -INFINITY;
    int64_t first = -1;

    Top(int64_t k, const double* odds, double least = -INFINITY) : top(least) {
        for (int64_t i = 0; i < k; ++i) {
            if (odds[i] > top) {
                second = top;
                top = odds[i];
                first = i;
            } else {
                second = odds[i] > second ? odds[i] : second;
            }
        }
    }
    double but(int64_t i) const { return i == first ? second : top; }
};

// put(i, sum, from) with sum = weight(least, from) + sum_{j != i} weight(odds[j], from), where
// `from` is so near to the largest of these odds that no sum is too small for a double. Returns the
// sum over all, from t.top. w (2 k,): weight(odds[i], t.top), and scratch.
template <class Weight, class Put>
double but_one(int64_t k, const double* odds, double least, const Top& t, double* w, Weight weight,
               Put put) {
    const bool far = t.top - t.second > 500.0;
    double *before = w + k, left = weight(least, t.top), apart = 0.0, right = 0.0;
    if (far && t.first >= 0) apart = weight(least, t.second);
    for (int64_t i = 0; i < k; ++i) {
        w[i] = weight(odds[i], t.top);
        before[i] = left;
        left += w[i];
        if (far && i != t.first && t.first >= 0) apart += weight(odds[i], t.second);
    }
    for (int64_t i = k; i-- > 0;) {
        if (far && i == t.first) {
            put(i, apart, t.second);
        } else {
            put(i, before[i] + right, t.top);
        }
        right += w[i];
    }
    return left;
}

}  // namespace vs::factors
