# cython: freethreading_compatible=True
"""Loopy inference: hands arrays to the C++ engine without the GIL."""

from cpython.pycapsule cimport PyCapsule_GetPointer
from libc.stdint cimport int64_t, uint8_t
from libcpp cimport bool
from libcpp.vector cimport vector

cimport numpy as cnp

import numpy as np

from valuesparse import _chain, _pool

cnp.import_array()

include "call.pxi"


cdef extern from "loopy/engine.h" namespace "vs" nogil:
    cdef cppclass LoopyOptions:
        LoopyOptions()
        int schedule
        bool best
        double damping, tolerance
        int64_t max_iterations
    cdef cppclass Loopy:
        Loopy(int64_t, const int64_t*, int64_t, const int64_t*, const int64_t*,
              const double* const*) except +
        int64_t n_entries(), n_edges(), table_entries()
        const vector[int64_t]& edge_at()
        void weigh(const double*) except +
        int run(const double*, const LoopyOptions&, int, Control*, double*, int64_t*) except +
        bool converged()
        const vector[double]& residuals()
        int64_t updates()
        int beliefs(const double*, const double*, int, Control*, double*, double*,
                    int64_t*) except +
        void joints(int, double*) except +
        int forests(const double*, const double*, int64_t, const int64_t*, const int64_t*, Control*,
                    double*, double*, int64_t*) except +
        int mean_field(const double*, int64_t, double, Control*, double*, double*,
                       double*) except +
    void use_loopy_modules(const PoolApi*, const SimdApi*) noexcept


use_loopy_modules(
    <const PoolApi*>PyCapsule_GetPointer(_pool.api, "valuesparse._pool.api"),
    <const SimdApi*>PyCapsule_GetPointer(_chain.simd, "valuesparse._chain.simd"),
)


cdef const double* doubles(object array) noexcept:
    return <const double*>data(array)


cdef class Engine:
    """Messages of one graph. Not for two threads at once: the caller holds a lock."""

    cdef Loopy* loopy
    cdef list tables
    cdef readonly int64_t entries  # of all messages
    cdef readonly int64_t table_entries
    cdef readonly object edge_at  # (edges + 1,) where each message begins

    def __cinit__(self, cards, list scopes, list tables):
        cdef vector[int64_t] ptr, scope
        cdef vector[const double*] at
        cdef int64_t n = cards.shape[0]
        cdef int64_t m = len(scopes)
        cdef const int64_t* card = <const int64_t*>data(cards)
        self.tables = tables
        ptr.push_back(0)
        for variables, table in zip(scopes, tables):
            for v in variables:
                scope.push_back(v)
            ptr.push_back(<int64_t>scope.size())
            at.push_back(doubles(table))
        self.loopy = new Loopy(n, card, m, ptr.data(), scope.data(), at.data())
        self.entries = self.loopy.n_entries()
        self.table_entries = self.loopy.table_entries()
        self.edge_at = np.array(self.loopy.edge_at(), dtype=np.int64)

    def __dealloc__(self):
        del self.loopy

    def weigh(self, rho):
        """Set the weight of each factor; None: all one."""
        self.loopy.weigh(doubles(rho))

    def run(self, local, messages, int schedule, bint best, double damping, double tolerance,
            int64_t max_iterations, int threads, deadline, progress, late):
        """Pass messages in place; return (dead variable or -1, converged, residuals, updates)."""
        cdef LoopyOptions options
        cdef Call call = Call(max_iterations, deadline, progress, late)
        cdef const double* loc = doubles(local)
        cdef double* m = <double*>data(messages)
        cdef int64_t dead = -1
        cdef int status
        options.schedule = schedule
        options.best = best
        options.damping = damping
        options.tolerance = tolerance
        options.max_iterations = max_iterations
        with nogil:
            status = self.loopy.run(loc, options, threads, &call.control, m, &dead)
        call.end(status)
        return (dead, self.loopy.converged(), np.array(self.loopy.residuals(), dtype=np.float64),
                self.loopy.updates())

    def beliefs(self, local, messages, int threads, marginals, joints):
        """Fill marginals (flat) and joints (flat, or None); return (dead or -1, log_z)."""
        cdef Call call = Call(1, None, None, None)
        cdef const double* loc = doubles(local)
        cdef const double* m = doubles(messages)
        cdef double* p = <double*>data(marginals)
        cdef double* q = <double*>data(joints)
        cdef int64_t dead = -1
        cdef double log_z = 0.0
        cdef int status
        with nogil:
            status = self.loopy.beliefs(loc, m, threads, &call.control, p, &log_z, &dead)
            if status == kOk and q != NULL:
                self.loopy.joints(threads, q)
        call.end(status)
        return dead, log_z

    def forests(self, local, messages, ptr, factors, deadline, late):
        """Return (dead or -1, log Z of each forest, scale of partial sums)."""
        cdef Call call = Call(1, deadline, None, late)
        cdef int64_t count = ptr.shape[0] - 1
        log_z = np.empty(count)
        cdef const double* loc = doubles(local)
        cdef const double* m = doubles(messages)
        cdef const int64_t* p = <const int64_t*>data(ptr)
        cdef const int64_t* f = <const int64_t*>data(factors)
        cdef double* out = <double*>data(log_z)
        cdef double scale = 0.0
        cdef int64_t dead = -1
        cdef int status
        with nogil:
            status = self.loopy.forests(loc, m, count, p, f, &call.control, out, &scale, &dead)
        call.end(status)
        return dead, log_z, scale

    def mean_field(self, local, q, int64_t max_iterations, double tolerance, deadline, progress,
                   late):
        """Ascend from q in place; return (bound, its scale, converged, residuals, updates)."""
        cdef Call call = Call(max_iterations, deadline, progress, late)
        cdef const double* loc = doubles(local)
        cdef double* x = <double*>data(q)
        cdef double bound = 0.0
        cdef double scale = 0.0
        cdef int status
        with nogil:
            status = self.loopy.mean_field(loc, max_iterations, tolerance, &call.control, x, &bound,
                                           &scale)
        call.end(status)
        return (bound, scale, self.loopy.converged(),
                np.array(self.loopy.residuals(), dtype=np.float64), self.loopy.updates())
