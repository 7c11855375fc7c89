// A dictionary that may grow, shared by threads, and what it makes of items.
#pragma once

#include <shared_mutex>

#include "crf/dictionary.h"

namespace vs {

// N items in B sequences with M known attributes.
struct Encoding {
    Encoding() { indptr.push(0); }
    Buffer<int64_t> indptr;  // (N + 1,)
    Buffer<int32_t> ids;     // (M,), item after item, in the order given, repeats kept
    Buffer<double> values;   // (M,)
    Buffer<int64_t> length;  // (B,)
};

class Encoder {
  public:
    Dictionary names;

    // Appends items to `out`: unknown names become known when `grow`, else they are left out.
    // False when the dictionary is full.
    bool encode(const Items& items, bool grow, Encoding& out);
    int32_t find(const char* s, int64_t n) const noexcept {
        std::shared_lock<std::shared_mutex> lock(mutex);
        return names.find(s, n);
    }
    // Forgets what a failed call has added, unless others have added more since.
    void roll_back(int32_t from, int32_t to);

    mutable std::shared_mutex mutex;

  private:
    bool ids_of(const Items& items, bool grow, int32_t* ids);
};

}  // namespace vs
