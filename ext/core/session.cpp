#include "core/session.h"

#include <atomic>

namespace vs {
namespace {

// Threads that call at once; more of them allocate anew.
constexpr int kPlaces = 64;
constexpr int64_t kBytes = int64_t{1} << 30;

// Without a lock, so that a fork finds none taken. Never destroyed: threads may outlive the module.
std::atomic<Session*> places[kPlaces];
std::atomic<int64_t> bytes_waiting{0};  // in all places, or nearly while others take and give back

Session* take_from(std::atomic<Session*>& place) {
    if (place.load(std::memory_order_relaxed) == nullptr) return nullptr;
    Session* const found = place.exchange(nullptr, std::memory_order_acquire);
    if (found) bytes_waiting.fetch_sub(found->bytes);
    return found;
}

}  // namespace

std::unique_ptr<Session> Session::take() {
    for (std::atomic<Session*>& place : places) {
        if (Session* const found = take_from(place)) return std::unique_ptr<Session>(found);
    }
    return std::unique_ptr<Session>(new Session);
}

void Session::give_back(std::unique_ptr<Session> session) noexcept {
    session->trim();
    const int64_t before = bytes_waiting.fetch_add(session->bytes);
    // One always waits, so that large calls one after the other have their memory.
    if (before <= 0 || before + session->bytes <= kBytes) {
        for (std::atomic<Session*>& place : places) {
            Session* empty = nullptr;
            if (place.compare_exchange_strong(empty, session.get(), std::memory_order_release,
                                              std::memory_order_relaxed)) {
                static_cast<void>(session.release());
                return;
            }
        }
    }
    bytes_waiting.fetch_sub(session->bytes);
}

void Session::free_waiting() noexcept {
    for (std::atomic<Session*>& place : places) delete take_from(place);
}

}  // namespace vs
