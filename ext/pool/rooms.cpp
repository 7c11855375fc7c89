#include "pool/rooms.h"

#include <cstdlib>
#include <mutex>
#include <new>
#include <vector>

#include "core/large_pages.h"

namespace vs {
namespace {

struct Waiting {
    std::mutex mutex;
    std::vector<Room> rooms;  // oldest first
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
    if (w.bytes <= kRoomsKept) return nullptr;
    void* const raw = w.rooms.front().raw;
    w.bytes -= w.rooms.front().bytes;
    w.rooms.erase(w.rooms.begin());
    return raw;
}

}  // namespace

Room take_room(int64_t bytes) noexcept {
    {
        Waiting& w = waiting();
        const std::lock_guard<std::mutex> lock(w.mutex);
        auto best = w.rooms.end();
        for (auto r = w.rooms.begin(); r != w.rooms.end(); ++r) {
            const bool fits = r->bytes >= bytes && r->bytes - bytes <= bytes / 4;
            if (fits && (best == w.rooms.end() || r->bytes < best->bytes)) best = r;
        }
        if (best != w.rooms.end()) {
            const Room room = *best;
            w.rooms.erase(best);
            w.bytes -= room.bytes;
            return room;
        }
    }
    Room room;
    room.raw = std::malloc(static_cast<std::size_t>(bytes) + 64);
    if (!room.raw) return room;
    room.data = reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(room.raw) + 63) &
                                        ~static_cast<uintptr_t>(63));
    room.bytes = bytes;
    prefer_large_pages(room.data, bytes);
    return room;
}

void give_back(Room room) noexcept {
    bool kept = false;
    if (room.bytes <= kRoomsKept) {
        Waiting& w = waiting();
        const std::lock_guard<std::mutex> lock(w.mutex);
        try {
            w.rooms.push_back(room);
            w.bytes += room.bytes;
            kept = true;
        } catch (const std::bad_alloc&) {  // it goes at once instead
        }
    }
    if (!kept) std::free(room.raw);
    while (void* raw = take_oldest()) std::free(raw);
}

int64_t rooms_waiting() noexcept {
    Waiting& w = waiting();
    const std::lock_guard<std::mutex> lock(w.mutex);
    return w.bytes;
}

void lock_rooms() { waiting().mutex.lock(); }
void unlock_rooms() { waiting().mutex.unlock(); }

}  // namespace vs
