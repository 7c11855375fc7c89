// The way from native code back into the interpreter, which may end before its threads do.
#pragma once

#include "core/problem.h"

namespace vs {

// Something that takes the GIL.
using Ask = int (*)(void* arg);

// Sets `answer` to ask(arg). False, and nothing was asked, once the gate is closed, except to the
// thread that closed it: it ends the interpreter, and may still use it.
bool call_back(Ask ask, void* arg, Control* control, int* answer);

// No other thread takes the GIL from now on. Waits, at most `seconds`, for those that have it
// or have asked for it; calls whose callback does not end by then are stopped. The GIL must be
// free meanwhile.
void close_gate(double seconds);
bool gate_closed() noexcept;

// These surround a fork, see fork.cpp.
void lock_gate();
void unlock_gate();
void reopen_gate() noexcept;  // in the child, locked: it has the thread that forked, and no other

}  // namespace vs
