// A call with islands on a forest.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "islands/rules.h"
#include "tree/call.h"

namespace vs {

class TreeIslands {
  public:
    explicit TreeIslands(const Layout& t) : t_(t) {}
    // All rounds of the trees `todo` in one arithmetic; false: no memory.
    bool run(TreePass& pass, int arithmetic, const std::vector<uint8_t>& todo, int64_t revisit,
             int threads, Session& session);
    const std::atomic<int32_t>* status() const { return status_.get(); }
    // Islands and counts of the trees that are `good`.
    void finish(const std::vector<uint8_t>& good, int32_t* islands, Counts& counts);

  private:
    const Layout& t_;
    IslandState state_;
    TreeRows rows_{};
    std::unique_ptr<std::atomic<int32_t>[]> status_;
};

}  // namespace vs
