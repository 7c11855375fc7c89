# cython: freethreading_compatible=True
"""The thread pool: its size, and the capsule through which other modules reach it."""

import atexit

from cpython.buffer cimport PyBuffer_FillInfo
from cpython.pycapsule cimport PyCapsule_New
from libc.stdint cimport int32_t, int64_t

import numpy as np


cdef extern from "core/problem.h" namespace "vs" nogil:
    cdef cppclass Control:
        Control()


cdef extern from "pool/rooms.h" namespace "vs" nogil:
    cdef cppclass Room:
        void* data
        int64_t bytes
    Room take_room(int64_t) noexcept
    void c_give_back "vs::give_back"(Room) noexcept
    int64_t rooms_waiting() noexcept


cdef extern from "pool/gate.h" namespace "vs" nogil:
    ctypedef int (*Ask)(void*) noexcept
    bint call_back(Ask, void*, Control*, int*) noexcept
    void close_gate(double) noexcept
    bint gate_closed() noexcept


cdef extern from "pool/fork.h" namespace "vs" nogil:
    void survive_forks() except +


cdef extern from "pool/pool.h" namespace "vs" nogil:
    cdef cppclass Plan:
        int64_t n
        const int32_t* waits
        const int64_t* succ_ptr
        const int64_t* succ
    ctypedef void (*Task)(void*, int64_t, int) noexcept
    cdef cppclass PoolApi:
        void (*run_plan)(const Plan&, Task, void*, int, Control*) noexcept
        bint (*call_back)(Ask, void*, Control*, int*) noexcept
    void c_run_plan "vs::run_plan"(const Plan&, Task, void*, int, Control*) except +
    void c_run_plan_of_api "vs::run_plan"(const Plan&, Task, void*, int, Control*) noexcept
    int c_get "vs::get_num_threads"() noexcept
    void c_set "vs::set_num_threads"(int) noexcept
    int c_hardware "vs::hardware_threads"() noexcept


cdef PoolApi _api
_api.run_plan = c_run_plan_of_api  # for C++: exceptions are its caller's
_api.call_back = call_back
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


cdef class _Tasks:
    cdef object run
    cdef object error
    cdef bint cut


cdef struct _Turn:
    void* tasks
    int64_t task
    int worker


cdef int _take(void* arg) noexcept nogil:
    turn = <_Turn*>arg
    with gil:
        tasks = <_Tasks>turn.tasks
        if tasks.error is None:
            try:
                tasks.run(turn.task, turn.worker)
            except BaseException as error:
                tasks.error = error
    return 0


cdef void _call(void* context, int64_t task, int worker) noexcept nogil:
    cdef _Turn turn
    cdef int answer
    turn.tasks = context
    turn.task = task
    turn.worker = worker
    if not call_back(_take, &turn, NULL, &answer):
        (<_Tasks>context).cut = True


def run_schedule(const int32_t[::1] waits, const int64_t[::1] succ_ptr, const int64_t[::1] succ,
                 run, int threads):
    """Call ``run(task, worker)`` for every task of a schedule; the first error is raised."""
    cdef Plan plan
    cdef Control control
    cdef _Tasks tasks = _Tasks()
    cdef const int64_t[::1] some = succ if succ.shape[0] else np.zeros(1, dtype=np.int64)
    tasks.run = run
    plan.n = waits.shape[0]
    if plan.n == 0:
        return
    plan.waits = &waits[0]
    plan.succ_ptr = &succ_ptr[0]
    plan.succ = &some[0]
    if gate_closed():
        threads = 1
    with nogil:
        c_run_plan(plan, _call, <void*>tasks, threads, &control)
    if tasks.error is not None:
        raise tasks.error
    if tasks.cut:
        raise RuntimeError("the interpreter is ending: its threads run no schedule any more")


cdef class Memory:
    """Room for a large array, not cleared; it waits for the next when nobody holds it any more."""

    cdef Room room
    cdef Py_ssize_t size

    def __cinit__(self, Py_ssize_t size):
        self.room = take_room(size)
        self.size = size
        if self.room.data == NULL:
            raise MemoryError(f"no room for {size} bytes")

    def __dealloc__(self):
        if self.room.data != NULL:
            c_give_back(self.room)

    def __getbuffer__(self, Py_buffer* view, int flags):
        PyBuffer_FillInfo(view, self, self.room.data, self.size, 0, flags)


def memory_waiting():
    """Bytes of results that nobody holds, kept for the next."""
    return rooms_waiting()
