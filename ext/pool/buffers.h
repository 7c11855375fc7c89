// Memory of large results. The system clears every page that a process touches for the first time,
// which costs as much as inference itself; so what one result gives back waits for the next.
#pragma once

#include <cstdint>

namespace vs {

struct Buffer {
    void* raw = nullptr;   // what the allocator gave; null: there was none
    void* data = nullptr;  // begins with a cache line
    int64_t bytes = 0;
};

Buffer take_buffer(int64_t bytes) noexcept;
void give_back(Buffer buffer) noexcept;
// Bytes that wait; at most kBuffersKept.
int64_t buffers_waiting() noexcept;
constexpr int64_t kBuffersKept = int64_t{256} << 20;

// These surround a fork, see fork.cpp.
void lock_buffers();
void unlock_buffers();

}  // namespace vs
