# cython: freethreading_compatible=True
"""Passes of hidden Markov models with few states, and densities; checks nothing."""

from cpython.pycapsule cimport PyCapsule_GetPointer
from libc.stdint cimport int64_t, uint8_t

cimport numpy as cnp

from valuesparse import _forest, _pool

cnp.import_array()


include "call.pxi"


cdef extern from "hmm/few.h" namespace "vs::hmm" nogil:
    cdef cppclass Few:
        int64_t n, states, padded, sequences
        const int64_t* offset
        const double* scores
        const double* start
        const double* table
        double* local
        double* forward
        double* backward
        double* top
        double* posteriors
        double* log_z
        double* sums
        Control* control
    cdef cppclass Diagonal:
        int64_t n, states, features
        const double* rows
        const double* means
        const double* scale
        const double* constant
        double least
        double* scores
    bint c_expect "vs::hmm::expect"(const Few&, const PoolApi&, int, Control*) except +
    void c_diagonal "vs::hmm::diagonal"(const Diagonal&, const PoolApi&, int, Control*) except +
    int64_t c_padded "vs::hmm::padded"(int64_t) noexcept
    void use_simd(const SimdApi*) noexcept


use_simd(<const SimdApi*>PyCapsule_GetPointer(_forest.simd, "valuesparse._forest.simd"))


def width(int64_t states):
    """Numbers of a padded row, or 0 where there are too many states."""
    return c_padded(states)


def expect(offset, scores, start, table, work, top, posteriors, log_z, sums, int threads):
    """Fill `posteriors` (N, K), `log_z` (B,) and `sums` (K, K), which may be None; `work` is
    (3, N, width), `top` (N,). False: the range of plain doubles is too small for these numbers,
    and nothing that was written counts."""
    cdef Call call = Call(0, None, None, None)
    cdef Few f
    cdef bint fine
    f.n, f.states = scores.shape
    f.padded = work.shape[2]
    f.sequences = log_z.shape[0]
    f.offset = <const int64_t*>data(offset)
    f.scores = <const double*>data(scores)
    f.start = <const double*>data(start)
    f.table = <const double*>data(table)
    f.local = <double*>data(work)
    f.forward = f.local + f.n * f.padded
    f.backward = f.forward + f.n * f.padded
    f.top = <double*>data(top)
    f.posteriors = <double*>data(posteriors)
    f.log_z = <double*>data(log_z)
    f.sums = <double*>data(sums)
    f.control = &call.control
    with nogil:
        fine = c_expect(f, pool_api[0], threads, &call.control)
    call.end(kCancelled if call.error is not None else kOk)
    return fine


def diagonal(rows, means, scale, constant, double least, scores, int threads):
    """Fill `scores` (N, K): constant - sum over features of (row - mean)^2 scale, with means and
    scale (F, K)."""
    cdef Call call = Call(0, None, None, None)
    cdef Diagonal d
    d.n, d.states = scores.shape
    d.features = rows.shape[1]
    d.rows = <const double*>data(rows)
    d.means = <const double*>data(means)
    d.scale = <const double*>data(scale)
    d.constant = <const double*>data(constant)
    d.least = least
    d.scores = <double*>data(scores)
    with nogil:
        c_diagonal(d, pool_api[0], threads, &call.control)
    call.end(kCancelled if call.error is not None else kOk)
