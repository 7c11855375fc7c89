#include "pool/buffers.h"

#include <cstdlib>
#include <mutex>
#include <new>
#include <vector>

#include "core/large_pages.h"

namespace vs {
namespace {

struct Waiting {
    std::mutex mutex;
    std::vector<Buffer> buffers;  // oldest first
    int64_t bytes = 0;
};

Waiting& waiting() noexcept {
    // Never destroyed: results may outlive the module.
    alignas(Waiting) static unsigned char place[sizeof(Waiting)];
    static Waiting* w = new (place) Waiting;
    return *w;
}

// The oldest of those that are too many, or null.
void* take_oldest() noexcept {
    Waiting& w = waiting();
    const std::lock_guard<std::mutex> lock(w.mutex);
    if (w.bytes <= kBuffersKept) return nullptr;
    void* const raw = w.buffers.front().raw;
    w.bytes -= w.buffers.front().bytes;
    w.buffers.erase(w.buffers.begin());
    return raw;
}

}  // namespace

Buffer take_buffer(int64_t bytes) noexcept {
    {
        Waiting& w = waiting();
        const std::lock_guard<std::mutex> lock(w.mutex);
        auto best = w.buffers.end();
        for (auto r = w.buffers.begin(); r != w.buffers.end(); ++r) {
            const bool fits = r->bytes >= bytes && r->bytes - bytes <= bytes / 4;
            if (fits && (best == w.buffers.end() || r->bytes < best->bytes)) best = r;
        }
        if (best != w.buffers.end()) {
            const Buffer buffer = *best;
            w.buffers.erase(best);
            w.bytes -= buffer.bytes;
            return buffer;
        }
    }
    Buffer buffer;
    buffer.raw = std::malloc(static_cast<std::size_t>(bytes) + 64);
    if (!buffer.raw) return buffer;
    buffer.data = reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(buffer.raw) + 63) &
                                          ~static_cast<uintptr_t>(63));
    buffer.bytes = bytes;
    prefer_large_pages(buffer.data, bytes);
    return buffer;
}

void give_back(Buffer buffer) noexcept {
    bool kept = false;
    if (buffer.bytes <= kBuffersKept) {
        Waiting& w = waiting();
        const std::lock_guard<std::mutex> lock(w.mutex);
        try {
            w.buffers.push_back(buffer);
            w.bytes += buffer.bytes;
            kept = true;
        } catch (const std::bad_alloc&) {  // it goes at once instead
        }
    }
    if (!kept) std::free(buffer.raw);
    while (void* raw = take_oldest()) std::free(raw);
}

int64_t buffers_waiting() noexcept {
    Waiting& w = waiting();
    const std::lock_guard<std::mutex> lock(w.mutex);
    return w.bytes;
}

void lock_buffers() { waiting().mutex.lock(); }
void unlock_buffers() { waiting().mutex.unlock(); }

}  // namespace vs
