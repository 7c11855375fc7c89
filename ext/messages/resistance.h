// How likely a uniform spanning tree is to hold each of some pairs of variables: the effective
// resistance of each, by the matrix-tree theorem. Pairs on no cycle are in every tree; of the
// others the Laplacian, with the first variable of each component grounded, is factorised
// elsewhere, and entries of its inverse at the pairs are read off that.
#pragma once

#include <cstdint>
#include <vector>

#include "messages/walk.h"

namespace vs::messages {

class Resistances {
  public:
    // pair: (2 count,), each pair once.
    void lay_out(int64_t n, int64_t count, const int64_t* pair);

    int64_t columns() const { return static_cast<int64_t>(ptr_.size()) - 1; }
    // The Laplacian by columns, rows ascending.
    const std::vector<int32_t>& ptr() const { return ptr_; }
    const std::vector<int32_t>& row() const { return row_; }
    const std::vector<double>& value() const { return value_; }

    // Given L (by columns, with its ones) and the pivots D of L D L', and where each column of the
    // Laplacian went; found: (count,).
    void read(const int32_t* ptr, const int32_t* row, const double* factor, const double* pivot,
              const int32_t* order, double* found) const;

  private:
    std::vector<int64_t> pair_;
    std::vector<uint8_t> open_;   // on a cycle, perhaps
    std::vector<int32_t> place_;  // column of each variable, -1 for none
    std::vector<int32_t> ptr_, row_;
    std::vector<double> value_;
};

}  // namespace vs::messages
