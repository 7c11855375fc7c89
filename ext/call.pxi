# A call under way, shared by the wrappers of all engines: signals, deadline, progress.

import threading
import time

from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int64_t


cdef extern from "kernels/problem.h" namespace "vs" nogil:
    cdef cppclass AtomicInt64 "std::atomic<int64_t>":
        int64_t load()
    cdef cppclass Control:
        Control()
        int (*poll)(void*) noexcept
        void* arg
        AtomicInt64 done


cdef extern from * nogil:
    """
    #include <chrono>
    // Polls come every millisecond or so; the GIL is asked for every 30 ms at most.
    static bool vs_due(double* last) {
        const double now = std::chrono::duration<double>(
            std::chrono::steady_clock::now().time_since_epoch()).count();
        if (*last > 0 && now - *last < 0.03) return false;
        *last = now;
        return true;
    }
    """
    bint vs_due(double*) noexcept


cdef class Call:
    """One call under way: what its polls look at. Only the main thread hears signals."""

    cdef Control control
    cdef object error
    cdef object progress
    cdef int64_t total
    cdef bint listens
    cdef double deadline
    cdef double last
    cdef object late

    def __cinit__(self, int64_t total, deadline, progress, late):
        self.error = None
        self.progress = progress
        self.total = total
        self.late = late
        self.last = -1.0  # of vs_due's clock: the first poll is due, unless it is for signals only
        if deadline is None and progress is None:
            vs_due(&self.last)
        self.deadline = -1.0 if deadline is None else time.monotonic() + deadline
        self.listens = threading.current_thread() is threading.main_thread()
        if self.listens or deadline is not None or progress is not None:
            self.control.poll = poll
            self.control.arg = <void*>self

    cdef int look(self) except -1:
        now = time.monotonic()
        if self.listens:
            PyErr_CheckSignals()
        if 0.0 <= self.deadline < now:
            raise self.late
        if self.progress is not None:
            self.progress(self.control.done.load(), self.total)
        return 0


cdef int poll(void* arg) noexcept nogil:
    if not vs_due(&(<Call>arg).last):
        return 0
    with gil:
        call = <Call>arg
        try:
            call.look()
        except BaseException as error:
            call.error = error
            return 1
    return 0
