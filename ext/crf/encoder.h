// A dictionary that may grow, shared by threads, and the numbers that it gives to items.
// Readers and writers hold its lock, and never wait for the GIL meanwhile.
#pragma once

#include <mutex>
#include <shared_mutex>

#include "core/no_fork.h"
#include "crf/dictionary.h"

namespace vs::crf {

// N items in B sequences with M known attributes.
struct Encoding {
    GrowingArray<int64_t> indptr;  // (N + 1,), or empty before the first items
    GrowingArray<int32_t> ids;     // (M,), item after item, in the order given, repeats kept
    GrowingArray<double> values;   // (M,)
    GrowingArray<int64_t> length;  // (B,)
};

// The names that one call has added: ids [from, to).
struct Growth {
    int32_t from = -1, to = -1;  // -1: nothing yet
    bool alone = true;           // nobody else has added in between
};

class Encoder {
  public:
    // Appends items to `out`: unknown names become known with a `growth`, else they are left out.
    // False when the dictionary is full.
    bool encode(const Items& items, Growth* growth, Encoding& out);
    int32_t size() const noexcept {
        Reading lock(mutex_);
        return names_.size();
    }
    void copy(GrowingArray<char>& text, GrowingArray<int64_t>& begin) const {
        Reading lock(mutex_);
        names_.copy(text, begin);
    }
    // As Dictionary's; kFilled, and nothing is done, where it has names. All or nothing.
    static constexpr int64_t kFilled = -2;
    int64_t fill(const Items& names);
    int32_t find(const char* s, int64_t n) const noexcept {
        Reading lock(mutex_);
        return names_.find(s, n);
    }
    // Forgets what a failed call has added, unless others have added some meanwhile.
    void roll_back(const Growth& growth) noexcept;

  private:
    using Reading = Unforked<std::shared_lock<std::shared_mutex>>;
    using Writing = Unforked<std::unique_lock<std::shared_mutex>>;

    bool ids_of(const Items& items, Growth* growth, int32_t* ids);

    Dictionary names_;
    mutable std::shared_mutex mutex_;
};

}  // namespace vs::crf
