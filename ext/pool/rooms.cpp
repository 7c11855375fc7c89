#include "pool/rooms.h"

#include <cstdlib>
#include <mutex>
#include <vector>

#include "kernels/large_pages.h"

namespace vs {
namespace {

struct Waiting {
    std::mutex mutex;
    std::vector<Room> rooms;  // oldest first
    int64_t bytes = 0;
};

Waiting& waiting() {
    static Waiting* w = new Waiting;  // never destroyed: results may outlive the module
    return *w;
}

}  // namespace

Room take_room(int64_t bytes) {
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

void give_back(Room room) {
    std::vector<void*> free;
    {
        Waiting& w = waiting();
        const std::lock_guard<std::mutex> lock(w.mutex);
        if (room.bytes <= kRoomsKept) {
            w.rooms.push_back(room);
            w.bytes += room.bytes;
        } else {
            free.push_back(room.raw);
        }
        std::size_t gone = 0;
        while (w.bytes > kRoomsKept) {  // the oldest go first
            w.bytes -= w.rooms[gone].bytes;
            free.push_back(w.rooms[gone++].raw);
        }
        w.rooms.erase(w.rooms.begin(), w.rooms.begin() + static_cast<std::ptrdiff_t>(gone));
    }
    for (void* p : free) std::free(p);
}

int64_t rooms_waiting() {
    Waiting& w = waiting();
    const std::lock_guard<std::mutex> lock(w.mutex);
    return w.bytes;
}

}  // namespace vs
