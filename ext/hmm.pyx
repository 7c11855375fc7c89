# cython: freethreading_compatible=True
"""Passes of hidden Markov models with few states, and densities; checks nothing."""

from cpython.pycapsule cimport PyCapsule_GetPointer
from libc.stdint cimport int64_t, uint8_t

cimport numpy as cnp

from valuesparse import _forest, _pool

cnp.import_array()


include "call.pxi"


cdef extern from "hmm/few.h" namespace "vs::hmm" nogil:
    cdef cppclass FewStates:
        int64_t n, states, padded, sequences, alphabet
        const int64_t* offset
        const double* scores
        const int64_t* symbols
        const double* emissions
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
    cdef cppclass BestStates:
        int64_t n, states, padded, sequences
        const int64_t* offset
        const double* scores
        const double* start
        const double* table
        double* rows
        int64_t* best
        double* log_p
        Control* control
    cdef cppclass Normal:
        int64_t n, states, features
        bint triangle
        const double* rows
        double least
        double* scores
    cdef enum class Scale "vs::hmm::Scale":
        variance
        variances
        factor
    bint c_expect "vs::hmm::expect"(const FewStates&, const PoolApi&, int, Control*) except +
    bint c_best "vs::hmm::best"(const BestStates&, const PoolApi&, int, Control*) except +
    void c_normal "vs::hmm::normal"(
        const Normal&, const double*, const double*, Scale, const PoolApi&, int, Control*
    ) except +
    bint c_proper "vs::hmm::proper"(const double*, int64_t, int64_t, double) noexcept
    void c_dirichlet "vs::hmm::dirichlet"(
        double*, const double*, int64_t, int64_t, double, bint) noexcept
    void c_by_symbol "vs::hmm::by_symbol"(
        const int64_t*, const double*, int64_t, int64_t, int64_t, double*) except +
    cdef cppclass Draw:
        int64_t n, states, alphabet, state
        const double* steps
        const double* emissions
        const double* uniforms
        int64_t* drawn
        int64_t* symbols
    void c_draw "vs::hmm::draw"(const Draw&) noexcept
    int64_t c_padded "vs::hmm::padded"(int64_t) noexcept
    int64_t most_features "vs::hmm::Normal::kFeatures"
    void use_simd(const SimdApi*) noexcept


use_simd(<const SimdApi*>PyCapsule_GetPointer(_forest.simd, "valuesparse._forest.simd"))


def width(int64_t states):
    """Numbers of a padded row, or 0 where there are too many states."""
    return c_padded(states)


#: A triangle of a matrix may have so many features.
features = most_features


def expect(
    offset, scores, symbols, emissions, start, table, work, top, posteriors, log_z, sums,
    int threads,
):
    """Fill `posteriors` (N, K) and `sums` (K, K), which may be None, and `log_z` (B,); `work` is
    (3, N, width), `top` (N,). Either `scores` (N, K), or `symbols` (N,) and the probabilities of
    each, `emissions` (K, V). False: the range of plain doubles is too small for these numbers, and
    nothing that was written counts."""
    cdef Call call = Call(0, None, None, None)
    cdef FewStates f
    cdef bint fine
    f.n, f.padded = work.shape[1:]
    f.states = start.shape[0]
    f.sequences = log_z.shape[0]
    f.offset = <const int64_t*>data(offset)
    f.scores = <const double*>data(scores)
    f.symbols = <const int64_t*>data(symbols)
    f.emissions = <const double*>data(emissions)
    f.alphabet = 0 if emissions is None else emissions.shape[1]
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


def best(offset, scores, start, table, work, states, log_p, int threads):
    """Fill `states` (N,) and `log_p` (B,); all of `scores`, `start` and `table` are logarithms.
    False: a sequence is impossible."""
    cdef Call call = Call(0, None, None, None)
    cdef BestStates b
    cdef bint fine
    b.n, b.padded = work.shape[1:]
    b.states = start.shape[0]
    b.sequences = log_p.shape[0]
    b.offset = <const int64_t*>data(offset)
    b.scores = <const double*>data(scores)
    b.start = <const double*>data(start)
    b.table = <const double*>data(table)
    b.rows = <double*>data(work)
    b.best = <int64_t*>data(states)
    b.log_p = <double*>data(log_p)
    b.control = &call.control
    with nogil:
        fine = c_best(b, pool_api[0], threads, &call.control)
    call.end(kCancelled if call.error is not None else kOk)
    return fine


def normal(rows, means, scale, double least, scores, int threads):
    """Fill `scores` (N, K) with log-densities of `rows` (N, F), at least `least`. `scale` has
    variances (K,) or (K, F), or the inverses of Cholesky factors (K, F, F), F up to `features`."""
    cdef Call call = Call(0, None, None, None)
    cdef Normal d
    cdef const double* centres = <const double*>data(means)
    cdef const double* scales = <const double*>data(scale)
    cdef int kind = scale.ndim
    d.n, d.states = scores.shape
    d.features = rows.shape[1]
    d.triangle = kind == 3
    d.rows = <const double*>data(rows)
    d.least = least
    d.scores = <double*>data(scores)
    with nogil:
        c_normal(d, centres, scales, <Scale>(kind - 1), pool_api[0], threads, &call.control)
    call.end(kCancelled if call.error is not None else kOk)


def proper(p, double about):
    """Whether rows of `p`, (K,) or (K, N), are probabilities that sum to 1, up to `about`."""
    cdef int64_t n = p.shape[p.ndim - 1]
    return c_proper(<const double*>data(p), p.size // n if n else 0, n, about)


def dirichlet(counts, before, double more, bint keep_zeros):
    """Make rows of `counts`, (K,) or (K, N), plus `more` and at least 0, sum to 1. Rows without any
    become those of `before`, and with `keep_zeros`, so do zeros."""
    cdef int64_t n = counts.shape[counts.ndim - 1]
    c_dirichlet(
        <double*>data(counts), <const double*>data(before), counts.size // n, n, more, keep_zeros)


def by_symbol(symbols, posteriors, sums):
    """Fill `sums` (K, V) with the sums of `posteriors` (N, K) by the symbols of the rows."""
    c_by_symbol(
        <const int64_t*>data(symbols), <const double*>data(posteriors), symbols.shape[0],
        sums.shape[0], sums.shape[1], <double*>data(sums))


def draw(int64_t state, steps, emissions, uniforms, states, symbols):
    """Fill `states` (N,) and `symbols` (N,) of rows that follow one in `state`, by `uniforms`
    (N, 2) and cumulated probabilities `steps` (K, K) and `emissions` (K, V)."""
    cdef Draw d
    d.n = states.shape[0]
    d.states, d.alphabet = emissions.shape
    d.state = state
    d.steps = <const double*>data(steps)
    d.emissions = <const double*>data(emissions)
    d.uniforms = <const double*>data(uniforms)
    d.drawn = <int64_t*>data(states)
    d.symbols = <int64_t*>data(symbols)
    with nogil:
        c_draw(d)
