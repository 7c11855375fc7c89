// Numbers of names: an open-addressing hash table from UTF-8 bytes to ids in order of arrival.
#pragma once

#include "crf/items.h"

namespace vs::crf {

class Dictionary {
  public:
    static constexpr int64_t kLargest = INT32_MAX;  // names: ids are int32
    static constexpr int64_t kBlock = 64;           // names looked up side by side

    Dictionary();

    int32_t size() const { return static_cast<int32_t>(begin_.size() - 1); }
    const char* name(int32_t id) const { return text_.data() + begin_[id]; }
    int64_t length(int32_t id) const { return begin_[id + 1] - begin_[id]; }

    int32_t find(const char* s, int64_t n) const noexcept;
    // The id, new or old; -1 when the dictionary is full. Throws bad_alloc and is then unchanged.
    int32_t add(const char* s, int64_t n);
    // Fills an empty dictionary with names that differ; the place of the first repeat, or -1.
    int64_t fill(const Items& names);
    // Forgets all ids from n_names on.
    void truncate(int32_t n_names) noexcept;
    // All names, end to end, and where each one begins: (size + 1,).
    void copy(GrowingArray<char>& text, GrowingArray<int64_t>& begin) const;

    // ids of attributes [first, last), at most kBlock, -1 for unknown ones. As in C, a name ends at
    // its first NUL.
    void look_up(const Items& items, int64_t first, int64_t last, int32_t* ids) const noexcept;

  private:
    struct Slot {
        uint32_t tag;  // upper half of the hash
        int32_t id;    // -1: empty
    };

    uint64_t hash(const char* s, int64_t n) const noexcept;
    int32_t find(const char* s, int64_t n, uint64_t h) const noexcept;
    bool is(int32_t id, const char* s, int64_t n) const noexcept {
        return length(id) == n && (n == 0 || std::memcmp(name(id), s, static_cast<size_t>(n)) == 0);
    }
    void place(uint64_t h, int32_t id) noexcept;
    void rebuild(int64_t n_slots);
    void place_all() noexcept;

    GrowingArray<char> text_;
    GrowingArray<int64_t> begin_;  // (size + 1,)
    GrowingArray<Slot> slots_;     // a power of two, at most half full
    uint64_t mask_ = 0, seed_;
};

// Whether an attribute's name has a NUL; `end` becomes where the first one is.
bool cut_at_nul(const char* s, int64_t* n) noexcept;

}  // namespace vs::crf
