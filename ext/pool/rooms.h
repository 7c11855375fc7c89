// Memory of large results. The system clears every page that a process touches for the first time,
// which costs as much as inference itself; so what one result gives back waits for the next.
#pragma once

#include <cstdint>

namespace vs {

struct Room {
    void* raw = nullptr;   // what the allocator gave; null: there was none
    void* data = nullptr;  // begins with a cache line
    int64_t bytes = 0;
};

Room take_room(int64_t bytes);
void give_back(Room room);
// Bytes that wait; at most kRoomsKept.
int64_t rooms_waiting();
constexpr int64_t kRoomsKept = int64_t{256} << 20;

}  // namespace vs
