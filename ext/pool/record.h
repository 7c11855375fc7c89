// Plans that ran, with the times of their tasks.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "pool/plan.h"

namespace vs {

// A copy of a plan, each array as long as it says, and what became of its tasks.
struct Record {
    Record(const Plan& plan, int most_threads, bool runs);

    std::string label;
    int64_t round;
    int threads;  // the most that ran it
    std::vector<TaskKind> kind;
    std::vector<Item> item;
    std::vector<double> cost;
    std::vector<int32_t> waits;
    std::vector<int64_t> succ_ptr, succ, order;
    // (n,) nanoseconds since the recorder was made, and that the task took; -1: it was not run.
    // Empty where the plan was only shown.
    std::vector<int64_t> start, measured;
    std::vector<int32_t> worker;
};

// The plans that one thread runs while this is its recorder.
class Recorder {
  public:
    explicit Recorder(bool alone);

    const bool serial;  // all tasks run on the calling thread, whatever the call's threads
    void add(std::shared_ptr<const Record> record);
    std::shared_ptr<const Record> get(int64_t i) const;
    int64_t size() const;
    int64_t now() const;

    // Sets the recorder of the calling thread, null for none; returns the last.
    static std::shared_ptr<Recorder> set_current(std::shared_ptr<Recorder> next);

  private:
    mutable std::mutex lock_;
    std::vector<std::shared_ptr<const Record>> records_;
    int64_t origin_;
};

// Adds a plan that is not run to the recorder of the calling thread, if it has one.
void show_plan(const Plan& plan, int threads);

}  // namespace vs
