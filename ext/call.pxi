# Shared by the modules that run calls on the pool: each includes a copy of its own.
import threading

from cpython.exc cimport PyErr_CheckSignals


cdef extern from "core/problem.h" namespace "vs" nogil:
    cdef cppclass SparseTable:
        pass
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
        const SparseTable* sparse
    cdef cppclass Counts:
        int64_t islands, segments, full, sparse, released, flipped, rounds, unsettled, widened
        int64_t without
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
        bint (*call_back)(int (*)(void*) noexcept, void*, Control*, int*) noexcept


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


cdef const PoolApi* pool_api = <const PoolApi*>PyCapsule_GetPointer(
    _pool.api, "valuesparse._pool.api")


cdef extern from * nogil:
    """
    #include <chrono>
    static double vs_now() {
        return std::chrono::duration<double>(
            std::chrono::steady_clock::now().time_since_epoch()).count();
    }
    """
    double vs_now() noexcept


cdef class Call:
    """One call under way, with what its polls read. Only the main thread gets signals."""

    cdef Control control
    cdef object error
    cdef object progress
    cdef int64_t total
    cdef bint listens
    cdef bint asks  # polls take the GIL, for signals or progress
    cdef bint over  # the deadline is
    cdef double deadline
    cdef double last
    cdef object late

    def __cinit__(self, int64_t total, deadline, progress, late):
        self.error = None
        self.progress = progress
        self.total = total
        self.late = late
        self.over = False
        # A time of vs_now. The first poll is due, unless it is for signals only.
        self.last = vs_now() if deadline is None and progress is None else -1.0
        self.deadline = float("inf") if deadline is None else vs_now() + <double>deadline
        self.listens = threading.current_thread() is threading.main_thread()
        self.asks = self.listens or progress is not None
        if self.asks or deadline is not None:
            self.control.poll = poll
            self.control.arg = <void*>self

    cdef int end(self, int status) except -1:
        """Raise what ended the call, unless it was done or had no answer."""
        if self.error is not None:
            raise self.error
        if self.over:
            raise self.late
        if status == kNoMemory:
            raise MemoryError("not enough memory for the messages of this model")
        if status == kCancelled:  # by no poll: the interpreter is ending, and this thread with it
            raise SystemExit
        return 0

    cdef int look(self) except -1:
        if self.listens:
            PyErr_CheckSignals()
        if self.progress is not None:
            self.progress(self.control.done.load(), self.total)
        return 0


cdef int poll(void* arg) noexcept nogil:
    # Polls come every millisecond or so; the GIL is asked for every 30 ms at most.
    cdef double now = vs_now()
    cdef int answer = 0
    if now > (<Call>arg).deadline:
        (<Call>arg).over = True
        return 1
    if not (<Call>arg).asks or now < (<Call>arg).last + 0.03:
        return 0
    (<Call>arg).last = now
    pool_api.call_back(ask, arg, &(<Call>arg).control, &answer)
    return answer


cdef int ask(void* arg) noexcept nogil:
    with gil:
        call = <Call>arg
        try:
            call.look()
        except BaseException as error:
            call.error = error
            return 1
    return 0
