#include "pool/fork.h"

#include "pool/gate.h"
#include "pool/pool.h"
#include "pool/buffers.h"

#if !defined(_WIN32)
#include <pthread.h>

#include <new>
#endif

namespace vs {

#if defined(_WIN32)
void survive_forks() {}
#else
namespace {

void before() {
    lock_gate();
    lock_buffers();
}

void in_parent() {
    unlock_buffers();
    unlock_gate();
}

void in_child() {
    unlock_buffers();
    reopen_gate();
    unlock_gate();
    forget_pool();
}

}  // namespace

void survive_forks() {
    if (pthread_atfork(before, in_parent, in_child) != 0) throw std::bad_alloc();
}
#endif

}  // namespace vs
