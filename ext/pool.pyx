# cython: freethreading_compatible=True
"""The thread pool: its size, recorders, and the capsule through which other modules reach it."""

import atexit

from cpython.buffer cimport PyBuffer_FillInfo
from cpython.pycapsule cimport PyCapsule_New
from libc.stdint cimport int64_t
from libcpp.memory cimport make_shared, shared_ptr
from libcpp.string cimport string
from libcpp.vector cimport vector

cimport numpy as cnp

cnp.import_array()


cdef extern from "core/problem.h" namespace "vs" nogil:
    cdef cppclass Control:
        Control()


cdef extern from "pool/buffers.h" namespace "vs" nogil:
    cdef cppclass Buffer:
        void* data
        int64_t bytes
    Buffer take_buffer(int64_t) noexcept
    void c_give_back "vs::give_back"(Buffer) noexcept
    int64_t buffers_waiting() noexcept


cdef extern from "pool/gate.h" namespace "vs" nogil:
    ctypedef int (*Ask)(void*) noexcept
    bint call_back(Ask, void*, Control*, int*) noexcept
    void close_gate(double) noexcept


cdef extern from "pool/fork.h" namespace "vs" nogil:
    void survive_forks() except +


cdef extern from "pool/plan.h" namespace "vs" nogil:
    cdef cppclass Plan:
        pass
    cdef cppclass TaskKind:
        pass
    cdef cppclass Item:
        pass


cdef extern from "pool/record.h" namespace "vs" nogil:
    cdef cppclass CRecord "const vs::Record":
        string label
        int64_t round
        int threads
        vector[TaskKind] kind
        vector[Item] item
        vector[double] cost
        vector[int] waits, worker
        vector[int64_t] succ_ptr, succ, order, start, measured
    cdef cppclass CRecorder "vs::Recorder":
        CRecorder(bint) except +
        int64_t size()
        shared_ptr[CRecord] get(int64_t)
    shared_ptr[CRecorder] set_current "vs::Recorder::set_current"(shared_ptr[CRecorder])
    void c_show "vs::show_plan"(const Plan&, int) noexcept


cdef extern from "pool/pool.h" namespace "vs" nogil:
    ctypedef void (*Task)(void*, int64_t, int) noexcept
    cdef cppclass PoolApi:
        void (*run_plan)(const Plan&, Task, void*, int, Control*) noexcept
        bint (*call_back)(Ask, void*, Control*, int*) noexcept
        void (*show_plan)(const Plan&, int) noexcept
    void c_run_plan "vs::run_plan"(const Plan&, Task, void*, int, Control*) noexcept
    int c_get "vs::get_num_threads"() except +
    void c_set "vs::set_num_threads"(int) noexcept
    int c_hardware "vs::hardware_threads"() except +


cdef PoolApi _api
_api.run_plan = c_run_plan  # for C++: exceptions are its caller's
_api.call_back = call_back
_api.show_plan = c_show
api = PyCapsule_New(<void*>&_api, "valuesparse._pool.api", NULL)


def get_num_threads():
    return c_get()


def set_num_threads(int n):
    c_set(n)


def hardware_threads():
    return c_hardware()


survive_forks()


def _close():
    """Let no thread but this one, which ends the interpreter, take the GIL from native code."""
    with nogil:
        close_gate(1.0)


# Late, because handlers run in reverse: those of others may still want progress.
atexit.register(_close)


cdef extern from * nogil:
    """
    static const char* const kKindNames[] = {
    #define VS_TASK_KIND(constant, name) #name,
        VS_EACH_TASK_KIND(VS_TASK_KIND)
    #undef VS_TASK_KIND
        nullptr};
    """
    const char* const* kKindNames


def task_kinds():
    """Return the names of the kinds of tasks, in the order of their numbers."""
    names = []
    while kKindNames[len(names)] != NULL:
        names.append(kKindNames[len(names)].decode())
    return names


cdef class Record:
    """One plan, as the pool was given it, and what became of its tasks."""

    cdef shared_ptr[CRecord] native

    def about(self):
        """Return label, round and threads."""
        cdef CRecord* r = self.native.get()
        return r.label.decode(), r.round, r.threads

    cdef view(self, int type_number, const void* at, size_t size, int columns=1):
        """Numbers of the record, which lives as long as they are seen."""
        cdef cnp.npy_intp[2] shape = [<cnp.npy_intp>size, columns]
        cdef int dimensions = 1 if columns == 1 else 2
        if size == 0:
            array = cnp.PyArray_EMPTY(dimensions, shape, type_number, 0)
        else:
            array = cnp.PyArray_SimpleNewFromData(dimensions, shape, type_number, <void*>at)
            cnp.set_array_base(array, self)
        cnp.PyArray_CLEARFLAGS(array, cnp.NPY_ARRAY_WRITEABLE)
        return array

    def arrays(self):
        """Return kind, item, cost, waits, succ_ptr, succ, order, start, measured, worker."""
        cdef CRecord* r = self.native.get()
        return (
            self.view(cnp.NPY_INT8, r.kind.data(), r.kind.size()),
            self.view(cnp.NPY_INT64, r.item.data(), r.item.size(), 2),
            self.view(cnp.NPY_FLOAT64, r.cost.data(), r.cost.size()),
            self.view(cnp.NPY_INT32, r.waits.data(), r.waits.size()),
            self.view(cnp.NPY_INT64, r.succ_ptr.data(), r.succ_ptr.size()),
            self.view(cnp.NPY_INT64, r.succ.data(), r.succ.size()),
            self.view(cnp.NPY_INT64, r.order.data(), r.order.size()),
            self.view(cnp.NPY_INT64, r.start.data(), r.start.size()),
            self.view(cnp.NPY_INT64, r.measured.data(), r.measured.size()),
            self.view(cnp.NPY_INT32, r.worker.data(), r.worker.size()),
        )


cdef class Recorder:
    """The plans that a thread runs between `start` and `stop`, which it calls itself."""

    cdef shared_ptr[CRecorder] native, before
    cdef bint under_way

    def __cinit__(self, bint serial=False):
        self.under_way = False
        self.native = make_shared[CRecorder](serial)

    def start(self):
        if self.under_way:
            raise RuntimeError("this recording has begun already: make another for each block")
        self.under_way = True
        self.before = set_current(self.native)

    def stop(self):
        """Go on with the recorder that the thread had before."""
        cdef shared_ptr[CRecorder] ended = set_current(self.before)
        if ended.get() != self.native.get():
            set_current(ended)
            raise RuntimeError("this recording is not the last that began on this thread")
        self.before.reset()
        self.under_way = False

    def __len__(self):
        return self.native.get().size()

    def get(self, int64_t i):
        cdef Record record = Record()
        record.native = self.native.get().get(i)
        return record


cdef class Memory:
    """Memory of a large array, not cleared; it waits for the next when nobody holds it any more."""

    cdef Buffer buffer
    cdef Py_ssize_t size

    def __cinit__(self, Py_ssize_t size):
        self.buffer = take_buffer(size)
        self.size = size
        if self.buffer.data == NULL:
            raise MemoryError(f"no memory for {size} bytes")

    def __dealloc__(self):
        if self.buffer.data != NULL:
            c_give_back(self.buffer)

    def __getbuffer__(self, Py_buffer* view, int flags):
        PyBuffer_FillInfo(view, self, self.buffer.data, self.size, 0, flags)


def memory_waiting():
    """Bytes of results that nobody holds, kept for the next."""
    return buffers_waiting()
