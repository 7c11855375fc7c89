# cython: freethreading_compatible=True
"""Factor graphs and junction trees: hands arrays to the C++ engine without the GIL."""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libcpp.vector cimport vector

cimport numpy as cnp

import numpy as np

cnp.import_array()


cdef extern from "graph/graph.h" namespace "vs" nogil:
    cdef cppclass Graph:
        Graph()
        int64_t n
        const int64_t* card
        int64_t n_factors
        const int64_t* scope_ptr
        const int64_t* scope
        const double* const* table
        const uint8_t* forbids
        const int64_t* at_ptr
        const int64_t* at


cdef extern from * nogil:
    """
    #include <cmath>
    static bool vs_any_forbidden(const double* x, int64_t n) {
        for (int64_t i = 0; i < n; ++i) if (x[i] == -INFINITY) return true;
        return false;
    }
    """
    bint vs_any_forbidden(const double*, int64_t) noexcept


cdef class Snapshot:
    """Pointers into the tables of a factor graph, which it keeps alive."""

    cdef Graph g
    cdef object cards
    cdef list tables
    cdef vector[int64_t] scope_ptr, scope, at_ptr, at
    cdef vector[const double*] table
    cdef vector[uint8_t] forbids

    def __init__(self, cards, list scopes, list tables):
        cdef int64_t n = cards.shape[0]
        cdef int64_t m = len(scopes)
        cdef int64_t f, v, i
        cdef const double* data
        cdef int64_t size
        cdef tuple scope
        self.cards = cards
        self.tables = tables
        self.g.n = n
        self.g.card = <const int64_t*>cnp.PyArray_DATA(<cnp.ndarray>cards)
        self.g.n_factors = m
        self.scope_ptr.push_back(0)
        self.at_ptr.assign(n + 1, 0)
        for f in range(m):
            scope = scopes[f]
            for v in scope:
                self.scope.push_back(v)
                self.at_ptr[v + 1] += 1
            self.scope_ptr.push_back(<int64_t>self.scope.size())
            data = <const double*>cnp.PyArray_DATA(<cnp.ndarray>tables[f])
            size = cnp.PyArray_SIZE(<cnp.ndarray>tables[f])
            self.table.push_back(data)
            self.forbids.push_back(vs_any_forbidden(data, size))
        for v in range(n):
            self.at_ptr[v + 1] += self.at_ptr[v]
        self.at.assign(self.scope.size(), 0)
        cdef vector[int64_t] fill = self.at_ptr
        for f in range(m):
            for i in range(self.scope_ptr[f], self.scope_ptr[f + 1]):
                v = self.scope[i]
                self.at[fill[v]] = f
                fill[v] += 1
        self.g.scope_ptr = self.scope_ptr.data()
        self.g.scope = self.scope.data()
        self.g.table = self.table.data()
        self.g.forbids = self.forbids.data()
        self.g.at_ptr = self.at_ptr.data()
        self.g.at = self.at.data()
