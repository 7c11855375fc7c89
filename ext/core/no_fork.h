// Locks of a module that no fork finds held: a child has copies of all locks, and none of the
// threads that would open them.
#pragma once

#if !defined(_WIN32)
#include <pthread.h>

#include <new>
#include <shared_mutex>
#endif

namespace vs {

// A fork waits while there is one of these. Whoever has one must not wait for the GIL, which the
// thread that forks may have.
class NoFork {
  public:
#if defined(_WIN32)
    NoFork() noexcept {}
    ~NoFork() {}
#else
    NoFork() noexcept { gate().lock_shared(); }
    ~NoFork() { gate().unlock_shared(); }
#endif
    NoFork(const NoFork&) = delete;
    NoFork& operator=(const NoFork&) = delete;

  private:
#if !defined(_WIN32)
    static std::shared_mutex& gate() noexcept {
        static std::shared_mutex* const one = open();
        return *one;
    }
    static std::shared_mutex* open() noexcept {
        // Never destroyed: threads outlive the interpreter.
        alignas(std::shared_mutex) static unsigned char place[sizeof(std::shared_mutex)];
        static std::shared_mutex* const one = new (place) std::shared_mutex;
        // Without memory for this, forks are as they would be without this file.
        (void)pthread_atfork([] { one->lock(); }, [] { one->unlock(); },
                             // The child is not the thread that locked it.
                             [] { new (place) std::shared_mutex; });
        return one;
    }
#endif
};

// A lock, of a kind of the standard library, that no fork finds held.
template <class Lock>
class Unforked {
  public:
    template <class Mutex>
    explicit Unforked(Mutex& mutex) : lock_(mutex) {}

  private:
    NoFork no_fork_;  // is there first, and goes last
    Lock lock_;
};

}  // namespace vs
