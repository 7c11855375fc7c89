// Per-thread memory that outlives the call: grown by capacity, never freed in a loop.
#pragma once

#include <cstdint>

#include "simd/level.h"

namespace vs {

// A bump allocator over blocks. reset() forgets what was handed out and keeps the memory.
// Methods are compiled once (scratch.cpp), not in every SIMD level.
class Scratch {
  public:
    struct Mark {
        int block;
        int64_t used;
    };

    Scratch();
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;
    ~Scratch();

    // Not zeroed; null when memory is exhausted (`failed` says so afterwards).
    void* take(int64_t bytes);
    template <class T>
    VS_INLINE T* array(int64_t n) {
        return static_cast<T*>(take(n * static_cast<int64_t>(sizeof(T))));
    }
    void reset();
    Mark mark() const;
    void rewind(Mark m);
    // Frees blocks beyond `keep` bytes in all: a huge call does not pin its memory for ever.
    // Returns what is left.
    int64_t release(int64_t keep);

    bool failed = false;

  private:
    struct Block {
        char* raw;
        char* data;
        int64_t size, used;
    };
    bool grow(int64_t bytes);

    static constexpr int kMaxBlocks = 256;
    Block blocks_[kMaxBlocks];
    int n_blocks_ = 0, current_ = 0;
};

}  // namespace vs
