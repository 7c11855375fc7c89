// The nearest point of a cube whose entries have a given sum.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace vs::factors {

inline double sum_in_cube(int64_t k, const double* point) noexcept {
    double sum = 0.0;
    for (int64_t i = 0; i < k; ++i) sum += std::clamp(point[i], 0.0, 1.0);
    return sum;
}

inline void into_cube(int64_t k, double* point) noexcept {
    for (int64_t i = 0; i < k; ++i) point[i] = std::clamp(point[i], 0.0, 1.0);
}

// In place: x_i <- clamp(x_i - shift, 0, 1) with the shift that makes their sum `total`, a whole
// number of 0, ..., k. The sum falls piece by piece between the shifts where an entry leaves 1
// (x_i - 1) or comes to 0 (x_i). Scratch: 2 k.
inline void shift_to_sum(int64_t k, double* x, double total, double* scratch) noexcept {
    const auto most = static_cast<int64_t>(total);
    if (most <= 0 || most >= k) {
        std::fill(x, x + k, most <= 0 ? 0.0 : 1.0);
        return;
    }
    // The shift lies at most 2 below the entry that is `most`-th from above. Differences from that
    // one keep the digits that entries of any size would lose, and beyond 3 they do not matter.
    std::copy(x, x + k, scratch);
    std::nth_element(scratch, scratch + (k - most), scratch + k);
    const double from = scratch[k - most];
    for (int64_t i = 0; i < k; ++i) x[i] = std::clamp(x[i] - from, -3.0, 3.0);
    double *leaves = scratch, *ends = scratch + k;
    for (int64_t i = 0; i < k; ++i) {
        leaves[i] = x[i] - 1.0;
        ends[i] = x[i];
    }
    std::sort(leaves, leaves + k);
    std::sort(ends, ends + k);
    double shift = leaves[0], sum = static_cast<double>(k);
    int64_t a = 0, b = 0;  // entries below one, and entries at zero
    while (b < k) {
        const double next = a < k && leaves[a] <= ends[b] ? leaves[a] : ends[b];
        const double falls = static_cast<double>(a - b) * (next - shift);
        if (sum - falls <= total && a > b) {
            shift += (sum - total) / static_cast<double>(a - b);
            break;
        }
        sum -= falls;
        shift = next;
        if (a < k && leaves[a] <= ends[b]) {
            ++a;
        } else {
            ++b;
        }
    }
    // One step of Newton's method takes off what the sums of the pieces have rounded away.
    double found = 0.0, free = 0.0;
    for (int64_t i = 0; i < k; ++i) {
        const double y = x[i] - shift;
        found += std::clamp(y, 0.0, 1.0);
        free += y > 0.0 && y < 1.0;
    }
    if (free > 0.0) shift += (found - total) / free;
    for (int64_t i = 0; i < k; ++i) x[i] = std::clamp(x[i] - shift, 0.0, 1.0);
}

}  // namespace vs::factors
