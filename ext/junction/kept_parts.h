// Parts of a graph whose trees are kept for when their variables are a segment again.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "junction/part.h"

namespace vs::junction {

class KeptParts {
  public:
    // n: variables of the graph.
    explicit KeptParts(int64_t n) : most_(kMost * n) {}

    double bytes() const { return bytes_; }

    // Keeps a part, unless it or all of them are too large; `bytes_left`: of the limit.
    void keep(std::unique_ptr<SegmentTree> part, double bytes_left);

    // The part of some variables, solved; made where none is kept. As SegmentTree::solve; what is
    // kept is given up where there is no memory beside it.
    int solve(const TableSlices& from, const std::vector<int64_t>& list,
              const std::vector<int64_t>& held, int threads, double bytes_left, Control* control,
              std::unique_ptr<SegmentTree>* to);

  private:
    // Variables of all of them, in graphs; bytes.
    static constexpr int64_t kMost = 32;
    static constexpr double kMostBytes = 64 << 20;

    std::map<std::vector<int64_t>, std::unique_ptr<SegmentTree>> kept_;
    int64_t most_, variables_ = 0;
    double bytes_ = 0.0;
};

}  // namespace vs::junction
