# cython: freethreading_compatible=True
"""Chains: allocates nothing, checks nothing; hands arrays to the C++ planner without the GIL."""

from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_New
from libc.stdint cimport int32_t, int64_t, uint8_t

cimport numpy as cnp

from valuesparse import _pool

cnp.import_array()


include "call.pxi"


cdef extern from "core/session.h" namespace "vs":
    void c_free_waiting "vs::Session::free_waiting"() noexcept

cdef extern from "core/problem.h" namespace "vs" nogil:
    double kLargest32, kLargest64, kLargestSum, kCarriedSum


cdef extern from "chain/run.h" namespace "vs" nogil:
    cdef cppclass Request:
        Request()
        Chains chains
        int threads
        double zeta
        int64_t revisit
        void* marginals
        double* log_z
        int32_t* islands
        void* pairwise
        int64_t pairwise_first, pairwise_last
        double* expectations
        const double* weights
        double* log_forward
        double* log_outgoing
        double* energies
    cdef cppclass Report:
        int status
        int64_t sequence, position
        Counts counts
    void use_pool(const PoolApi*) noexcept
    void use_level(const char*) noexcept
    const char* c_level_name "vs::level_name"() noexcept
    int c_level_number "vs::level_number"() noexcept
    bint level_supported(const char*) noexcept
    void c_show "vs::show"(const Request&) except +
    Report c_infer "vs::infer"(const Request&, Control&) except +
    Report c_decode "vs::decode"(const Chains&, int64_t, int, int64_t*, double*, Control&) except +
    Report c_sample "vs::sample"(const Chains&, int64_t, const double*, int64_t*, int,
                                 Control&) except +
    void c_score "vs::score"(const Chains&, const int64_t*, double*) noexcept
    void c_expected "vs::expected"(const Chains&, const void*, const double*, const double*,
                                   double*, double*) noexcept
    cdef cppclass ChainApi:
        pass
    const ChainApi* chain_api() noexcept
    int64_t c_weigh "vs::weigh"(int, const void*, int64_t, double*) noexcept
    double c_peak "vs::peak_flops"(int, int64_t) noexcept
    double c_messages "vs::message_flops"(int, int64_t, int64_t, int64_t) noexcept


use_pool(pool_api)

cdef SimdApi _simd
_simd.level = c_level_number
simd = PyCapsule_New(<void*>&_simd, "valuesparse._chain.simd", NULL)

api = PyCapsule_New(<void*>chain_api(), "valuesparse._chain.api", NULL)


#: The largest magnitude of a finite log-potential, by dtype.
LARGEST = {"float32": kLargest32, "float64": kLargest64}
#: The largest sum of magnitudes of a tree or graph, and of what bounds derive from one.
LARGEST_SUM, CARRIED_SUM = kLargestSum, kCarriedSum


cdef class Batch:
    """Pointers into the arrays of a chain model, which it keeps alive."""

    cdef Chains c
    cdef tuple arrays

    def __init__(self, unary, transition, start, end, allowed, offset, edge):
        self.arrays = (unary, transition, start, end, allowed, offset, edge)
        self.c.unary = data(unary)
        self.c.transition = data(transition)
        self.c.start = data(start)
        self.c.end = data(end)
        self.c.allowed = <const uint8_t*>data(allowed)
        self.c.offset = <const int64_t*>data(offset)
        self.c.edge = <const int64_t*>data(edge)
        self.c.n_positions = unary.shape[0]
        self.c.n_labels = unary.shape[1]
        self.c.n_sequences = offset.shape[0] - 1
        self.c.dtype = dtype_code(unary)
        self.c.per_edge = transition.ndim == 3


cdef tuple outcome(Report r, Call call):
    call.end(r.status)
    if r.status == kInfeasible and r.position < 0:
        raise ArithmeticError(
            f"sequence {r.sequence} has configurations, but their weights were lost on the way: "
            "this is a defect of valuesparse, please report it"
        )
    return (r.sequence, r.position) if r.status == kInfeasible else None


def infer(Batch batch, int threads, double zeta, int64_t revisit, marginals, log_z, islands,
          pairwise, int64_t first, int64_t last, expectations, deadline, progress, late,
          weights=None, energies=None):
    """Return (infeasible, counts): infeasible is None or (sequence, position)."""
    cdef Request q
    cdef Report r
    cdef Call call = Call(batch.c.n_positions, deadline, progress, late)
    q.chains = batch.c
    q.threads = threads
    q.zeta = zeta
    q.revisit = revisit
    q.marginals = data(marginals)
    q.log_z = <double*>data(log_z)
    q.islands = <int32_t*>data(islands)
    q.pairwise = data(pairwise)
    q.pairwise_first = first
    q.pairwise_last = last
    q.expectations = <double*>data(expectations)
    q.weights = <const double*>data(weights)
    q.energies = <double*>data(energies)
    with nogil:
        r = c_infer(q, call.control)
    bad = outcome(r, call)
    c = r.counts
    return bad, (c.islands, c.segments, c.full, c.sparse, c.released, c.flipped, c.rounds,
                 c.unsettled, c.widened)


def log_messages(Batch batch, int threads, log_z, log_forward, log_outgoing):
    """Fill the logarithms of what edge marginals are made of; see Request in chain/run.h."""
    cdef Request q
    cdef Report r
    cdef Call call = Call(batch.c.n_positions, None, None, None)
    q.chains = batch.c
    q.threads = threads
    q.log_z = <double*>data(log_z)
    q.log_forward = <double*>data(log_forward)
    q.log_outgoing = <double*>data(log_outgoing)
    with nogil:
        r = c_infer(q, call.control)
    return outcome(r, call)


def show(Batch batch, int threads):
    """Show the thread's recorder what an exact call for marginals runs."""
    cdef Request q
    q.chains = batch.c
    q.threads = threads
    q.marginals = <void*>batch.c.unary  # wanted; nothing is written
    c_show(q)


def decode(Batch batch, int64_t n_best, int threads, states, scores, deadline=None,
           progress=None, late=None):
    cdef Report r
    cdef Call call = Call(batch.c.n_positions, deadline, progress, late)
    cdef int64_t* x = <int64_t*>data(states)
    cdef double* s = <double*>data(scores)
    with nogil:
        r = c_decode(batch.c, n_best, threads, x, s, call.control)
    return outcome(r, call)


def sample(Batch batch, int64_t size, uniforms, states, int threads, deadline=None,
           progress=None, late=None):
    cdef Report r
    cdef Call call = Call(batch.c.n_positions, deadline, progress, late)
    cdef double* u = <double*>data(uniforms)
    cdef int64_t* x = <int64_t*>data(states)
    with nogil:
        r = c_sample(batch.c, size, u, x, threads, call.control)
    return outcome(r, call)


def score(Batch batch, states, scores):
    """Fill the scores of labels (N,) int64, per sequence."""
    cdef const int64_t* x = <const int64_t*>data(states)
    cdef double* s = <double*>data(scores)
    with nogil:
        c_score(batch.c, x, s)


def expected(Batch batch, marginals, energies, largest, value, size):
    """Fill the expected score of each sequence, and how far rounding may be felt in it."""
    cdef void* p = data(marginals)
    cdef double* e = <double*>data(energies)
    cdef double* top = <double*>data(largest)
    cdef double* v = <double*>data(value)
    cdef double* s = <double*>data(size)
    with nogil:
        c_expected(batch.c, p, e, top, v, s)


def freeze(cnp.ndarray first, cnp.ndarray second, cnp.ndarray third):
    """Make arrays read-only; several times as fast as their flags, which is felt in small calls."""
    cnp.PyArray_CLEARFLAGS(first, cnp.NPY_ARRAY_WRITEABLE)
    cnp.PyArray_CLEARFLAGS(second, cnp.NPY_ARRAY_WRITEABLE)
    cnp.PyArray_CLEARFLAGS(third, cnp.NPY_ARRAY_WRITEABLE)


def weigh(array):
    """Flat index of the first entry of a C-contiguous float array that is no log-potential, or -1,
    and, with that, the largest finite magnitude.

    No log-potentials are NaN, +inf and finite numbers beyond LARGEST.
    """
    cdef void* x = data(array)
    cdef int64_t n = array.size
    cdef int code = dtype_code(array)
    cdef int64_t at
    cdef double largest = 0.0
    with nogil:
        at = c_weigh(code, x, n, &largest)
    return at, largest


def simd_level():
    return c_level_name().decode()


def set_simd_level(name):
    """Choose a level by name (None: the best); False when this CPU lacks it."""
    if name is None:
        use_level(NULL)
        return True
    encoded = name.encode()
    if not level_supported(encoded):
        return False
    use_level(encoded)
    return True


def peak_flops(array, int64_t iterations):
    """Run independent fused multiply-adds in the dtype of `array`; return the flops done."""
    cdef int code = dtype_code(array)
    cdef double done
    with nogil:
        done = c_peak(code, iterations)
    return done


def message_flops(array, int64_t labels, int64_t rows, int64_t positions):
    """Compute the messages of `rows` sequences in the dtype of `array`; return the flops done."""
    cdef int code = dtype_code(array)
    cdef double done
    with nogil:
        done = c_messages(code, labels, rows, positions)
    return done


def free_workspaces():
    """Free the memory that calls have left for the next ones."""
    c_free_waiting()
