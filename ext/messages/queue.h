// A heap of messages by priority that knows where each of them is.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace vs::messages {

// The highest priority is on top; of equal ones the lowest number.
class MessageQueue {
  public:
    explicit MessageQueue(int64_t n)
        : priority_(static_cast<size_t>(n), INFINITY),
          heap_(priority_.size()),
          where_(priority_.size()) {
        for (size_t i = 0; i < heap_.size(); ++i) heap_[i] = where_[i] = i;
    }
    int64_t top() const { return static_cast<int64_t>(heap_[0]); }
    double priority(int64_t e) const { return priority_[static_cast<size_t>(e)]; }
    void set(int64_t e, double p) {
        const size_t m = static_cast<size_t>(e);
        const bool more = p > priority_[m];
        priority_[m] = p;
        if (more) {
            rise(where_[m]);
        } else {
            sink(where_[m]);
        }
    }
    void add(int64_t e, double by) {
        const size_t m = static_cast<size_t>(e);
        priority_[m] += by;
        rise(where_[m]);
    }

  private:
    bool before(size_t a, size_t b) const {
        return priority_[a] > priority_[b] || (priority_[a] == priority_[b] && a < b);
    }
    void put(size_t i, size_t m) {
        heap_[i] = m;
        where_[m] = i;
    }
    void rise(size_t i) {
        const size_t m = heap_[i];
        while (i > 0 && before(m, heap_[(i - 1) / 2])) {
            put(i, heap_[(i - 1) / 2]);
            i = (i - 1) / 2;
        }
        put(i, m);
    }
    void sink(size_t i) {
        const size_t m = heap_[i], n = heap_.size();
        for (size_t c; (c = 2 * i + 1) < n; i = c) {
            if (c + 1 < n && before(heap_[c + 1], heap_[c])) ++c;
            if (!before(heap_[c], m)) break;
            put(i, heap_[c]);
        }
        put(i, m);
    }

    std::vector<double> priority_;
    std::vector<size_t> heap_, where_;
};

}  // namespace vs::messages
