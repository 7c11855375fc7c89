#include "core/session.h"

#include <atomic>

namespace vs {
namespace {

// Threads that call at once; more of them allocate anew.
constexpr int kSessions = 64;
constexpr int64_t kBytes = int64_t{1} << 30;

// Without a lock, so that a fork finds none taken. Never destroyed: threads may outlive the module.
std::atomic<Session*> waiting[kSessions];
std::atomic<int64_t> bytes_waiting{0};

}  // namespace

std::unique_ptr<Session> Session::take() {
    for (std::atomic<Session*>& place : waiting) {
        if (place.load(std::memory_order_relaxed) == nullptr) continue;
        if (Session* const found = place.exchange(nullptr, std::memory_order_acquire)) {
            bytes_waiting.fetch_sub(found->bytes_, std::memory_order_relaxed);
            return std::unique_ptr<Session>(found);
        }
    }
    return std::unique_ptr<Session>(new Session);
}

void Session::give_back(std::unique_ptr<Session> session) noexcept {
    const int64_t bytes = session->bytes_ = session->release();
    const int64_t before = bytes_waiting.fetch_add(bytes, std::memory_order_relaxed);
    if (before + bytes <= kBytes) {
        for (std::atomic<Session*>& place : waiting) {
            Session* empty = nullptr;
            if (place.compare_exchange_strong(empty, session.get(), std::memory_order_release,
                                              std::memory_order_relaxed)) {
                session.release();
                return;
            }
        }
    }
    bytes_waiting.fetch_sub(bytes, std::memory_order_relaxed);
}

}  // namespace vs
