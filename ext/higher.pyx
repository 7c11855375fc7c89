# cython: freethreading_compatible=True
"""Chains of order 2 and chains of segments: hands arrays to C++ on the pool; checks nothing."""

from cpython.pycapsule cimport PyCapsule_GetPointer
from libc.stdint cimport int64_t, uint8_t

cimport numpy as cnp

from valuesparse import _forest, _pool

cnp.import_array()


include "call.pxi"


cdef extern from "higher/higher.h" namespace "vs::higher" nogil:
    cdef cppclass LongerModel:
        LongerModel()
        int64_t labels, sequences, longest
        const int64_t* offset
        const double* unary
        const double* transition
        const double* start
        const double* end
        const double* first
        const double* duration
        const double* segment
    cdef cppclass LongerRequest:
        LongerRequest()
        double* log_z
        double* marginals
        double* joint
        const int64_t* edge
        double* expected
        int64_t chunks
        double* entropy
        int64_t* best
        int64_t n_best
        int64_t* samples
        const double* uniforms
        int64_t size
    cdef cppclass LongerReport:
        int status
        int64_t sequence, position, logarithms
    LongerReport c_answer "vs::higher::answer"(
        const LongerModel&, const LongerRequest&, const PoolApi&, int, Control*) except +
    void use_simd(const SimdApi*) noexcept


use_simd(<const SimdApi*>PyCapsule_GetPointer(_forest.simd, "valuesparse._forest.simd"))


def answer(offset, unary, transition, start, end, first, duration, segment, int64_t longest, edge,
           int threads, log_z, marginals=None, joint=None, expected=None, entropy=None, best=None,
           samples=None, uniforms=None, deadline=None, progress=None, late=None):
    """Fill `log_z` (B,), with `best` (n_best, B), and the arrays that are given; see
    ext/higher/higher.h.

    Return how many sequences were answered in logarithms, and None or the first (sequence,
    position) where nothing is possible.
    """
    cdef LongerModel m
    cdef LongerRequest q
    cdef LongerReport a
    cdef Call call = Call(unary.shape[0], deadline, progress, late)
    m.labels = unary.shape[1]
    m.sequences = offset.shape[0] - 1
    m.longest = longest
    m.offset = <const int64_t*>data(offset)
    m.unary = <const double*>data(unary)
    m.transition = <const double*>data(transition)
    m.start = <const double*>data(start)
    m.end = <const double*>data(end)
    m.first = <const double*>data(first)
    m.duration = <const double*>data(duration)
    m.segment = <const double*>data(segment)
    q.log_z = <double*>data(log_z)
    q.marginals = <double*>data(marginals)
    q.joint = <double*>data(joint)
    q.edge = <const int64_t*>data(edge)
    q.expected = <double*>data(expected)
    q.chunks = 0 if expected is None else expected.shape[0]
    q.entropy = <double*>data(entropy)
    q.best = <int64_t*>data(best)
    q.n_best = 1 if best is None else best.shape[0]
    q.samples = <int64_t*>data(samples)
    q.uniforms = <const double*>data(uniforms)
    q.size = 0 if samples is None else samples.shape[0]
    with nogil:
        a = c_answer(m, q, pool_api[0], threads, &call.control)
    call.end(a.status)
    return a.logarithms, None if a.sequence < 0 else (a.sequence, a.position)
