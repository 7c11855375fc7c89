#include "core/session.h"

#include <atomic>

namespace vs {
namespace {

struct SessionSlot {
    std::atomic<Session*> session{nullptr};
    std::atomic<int64_t> bytes{0};  // of the session, if there is one
};

// Threads that call at once; more of them allocate anew.
constexpr int kPlaces = 64;
constexpr int64_t kBytes = int64_t{1} << 30;

// Without a lock, so that a fork finds none taken. Never destroyed: threads may outlive the module.
SessionSlot places[kPlaces];

// Bytes that wait. Nothing depends on its being exact while others take and give back.
int64_t bytes_waiting() {
    int64_t bytes = 0;
    for (const SessionSlot& place : places) {
        if (place.session.load(std::memory_order_relaxed)) bytes += place.bytes.load();
    }
    return bytes;
}

}  // namespace

std::unique_ptr<Session> Session::take() {
    for (SessionSlot& place : places) {
        if (place.session.load(std::memory_order_relaxed) == nullptr) continue;
        if (Session* const found = place.session.exchange(nullptr, std::memory_order_acquire)) {
            return std::unique_ptr<Session>(found);
        }
    }
    return std::unique_ptr<Session>(new Session);
}

void Session::give_back(std::unique_ptr<Session> session) noexcept {
    const int64_t bytes = session->release(), before = bytes_waiting();
    // One always waits, so that large calls one after the other have their memory.
    if (before > 0 && before + bytes > kBytes) return;
    for (SessionSlot& place : places) {
        Session* empty = nullptr;
        if (place.session.compare_exchange_strong(empty, session.get(), std::memory_order_release,
                                                  std::memory_order_relaxed)) {
            place.bytes.store(bytes);
            static_cast<void>(session.release());
            return;
        }
    }
}

void Session::free_waiting() noexcept {
    for (SessionSlot& place : places)
        delete place.session.exchange(nullptr, std::memory_order_acquire);
}

}  // namespace vs
