# What every module that runs calls on the pool shares: included, each has a copy of its own.
import threading
import time

from cpython.exc cimport PyErr_CheckSignals


cdef extern from "kernels/problem.h" namespace "vs" nogil:
    cdef cppclass Chains:
        const void* unary
        const void* transition
        const void* start
        const void* end
        const uint8_t* allowed
        const int64_t* offset
        const int64_t* edge
        int64_t n_positions, n_labels, n_sequences
        int dtype
        bint per_edge
    cdef cppclass Counts:
        int64_t islands, segments, full, sparse, released, flipped, rounds, unsettled, widened
    cdef cppclass AtomicInt64 "std::atomic<int64_t>":
        int64_t load()
    cdef cppclass Control:
        Control()
        int (*poll)(void*) noexcept
        void* arg
        AtomicInt64 done
    int kOk, kInfeasible, kCancelled, kNoMemory


cdef extern from "pool/pool.h" namespace "vs" nogil:
    cdef cppclass PoolApi:
        pass


cdef extern from "simd/level.h" namespace "vs" nogil:
    cdef cppclass SimdApi:
        int (*level)() noexcept


cdef extern from *:
    """
    // C++: what Cython makes of functions of its own is reported where a module calls only one.
    inline void* vs_data(PyObject* array) {
        return array == Py_None ? nullptr : PyArray_DATA(reinterpret_cast<PyArrayObject*>(array));
    }
    inline int vs_dtype_code(PyObject* array) {
        return PyArray_TYPE(reinterpret_cast<PyArrayObject*>(array)) == NPY_FLOAT32 ? 0 : 1;
    }
    """
    void* data "vs_data"(object array) noexcept
    int dtype_code "vs_dtype_code"(object array) noexcept


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

    cdef int end(self, int status) except -1:
        """Raise what ended the call, unless it was done or had no answer."""
        if self.error is not None:
            raise self.error
        if status == kNoMemory:
            raise MemoryError("not enough memory for the messages of this model")
        if status == kCancelled:
            raise KeyboardInterrupt
        return 0

    cdef int look(self) except -1:
        now = time.monotonic()
        if self.listens:
            PyErr_CheckSignals()
        if 0.0 <= self.deadline < now:
            raise self.late
        if self.progress is not None:
            self.progress(self.control.done.load(), self.total)
        return 0


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
