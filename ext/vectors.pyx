# cython: freethreading_compatible=True
"""Sums of long vectors on the pool, and the direction of L-BFGS; checks nothing."""

from cpython.pycapsule cimport PyCapsule_GetPointer
from libc.stdint cimport int64_t, uint8_t

cimport numpy as cnp

from valuesparse import _pool

cnp.import_array()


include "call.pxi"


cdef extern from "vectors/vectors.h" namespace "vs" nogil:
    cdef cppclass Vectors:
        int threads
        Control* control
        const PoolApi* pool
        double dot(const double*, const double*, int64_t) except +
        void direction(int64_t, int, const int64_t*, const double*, const double*, const double*,
                       double, const double*, const double*, double*) except +
        void mean(int64_t, const double*, const double*, double, double*) except +
        void halves(int64_t, const double*, float*) except +


cdef Vectors vectors_of(Call call, int threads):
    """Return what a call runs on so many threads; `call` outlives it."""
    cdef Vectors v
    v.threads = threads
    v.control = &call.control
    v.pool = pool_api
    return v


def dot(x, y, int threads):
    """Sum of products, in an order that does not depend on the number of threads."""
    cdef Call call = Call(0, None, None, None)
    cdef Vectors v = vectors_of(call, threads)
    cdef const double* a = <const double*>data(x)
    cdef const double* b = <const double*>data(y)
    cdef int64_t n = x.shape[0]
    cdef double answer
    with nogil:
        answer = v.dot(a, b, n)
    call.end(kOk)
    return answer


def direction(order, s, y, sy, double scale, diagonal, gradient, out, int threads):
    """Fill `out` with the direction of L-BFGS; `order` names the pairs in use, oldest first."""
    cdef Call call = Call(0, None, None, None)
    cdef Vectors v = vectors_of(call, threads)
    cdef const int64_t* o = <const int64_t*>data(order)
    cdef const double* a = <const double*>data(s)
    cdef const double* b = <const double*>data(y)
    cdef const double* c = <const double*>data(sy)
    cdef const double* h = <const double*>data(diagonal)
    cdef const double* g = <const double*>data(gradient)
    cdef double* d = <double*>data(out)
    cdef int64_t n = gradient.shape[0]
    cdef int m = order.shape[0]
    with nogil:
        v.direction(n, m, o, a, b, c, scale, h, g, d)
    call.end(kOk)


def mean(x, late, double count, out, int threads):
    """Fill `out` with x - late / count, the mean of weights that `learning/online.py` keeps so."""
    cdef Call call = Call(0, None, None, None)
    cdef Vectors v = vectors_of(call, threads)
    cdef const double* a = <const double*>data(x)
    cdef const double* b = <const double*>data(late)
    cdef double* c = <double*>data(out)
    cdef int64_t n = x.shape[0]
    with nogil:
        v.mean(n, a, b, count, c)
    call.end(kOk)


def halves(x, out, int threads):
    """Fill `out`, float32, with the nearest numbers of half precision, the largest at most."""
    cdef Call call = Call(0, None, None, None)
    cdef Vectors v = vectors_of(call, threads)
    cdef const double* a = <const double*>data(x)
    cdef float* b = <float*>data(out)
    cdef int64_t n = x.shape[0]
    with nogil:
        v.halves(n, a, b)
    call.end(kOk)
