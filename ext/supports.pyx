# cython: freethreading_compatible=True
"""Marginals of chains and trees, from a few rows and columns of a table; checks nothing."""

from cpython.pycapsule cimport PyCapsule_GetPointer
from libc.stdint cimport int32_t, int64_t, uint8_t

cimport numpy as cnp

import numpy as np

from valuesparse import _forest, _pool

cnp.import_array()


include "call.pxi"


cdef extern from "supports/supports.h" namespace "vs::supports" nogil:
    cdef cppclass CTable "vs::supports::Table":
        CTable()
        int64_t k, kp
        double shift, norms, delta
    cdef cppclass COrder "vs::supports::Order":
        COrder()
    cdef cppclass Problem:
        const void* unary
        const void* start
        const void* end
        const uint8_t* allowed
        const COrder* order
        bint single
        const int64_t* components
        int64_t n_components
        double tol
        const double* price
        const int64_t* budget
        const double* entered
    cdef cppclass Answer:
        void* marginals
        double* radius
        double* slack
        double* error
        double* lower
        double* upper
        uint8_t* taken
        int64_t* counts
    cdef cppclass Trial:
        bint backward
        const float* low
        const float* slack
        const float* weight
        double radius, share
        float* yl
        float* ye
        const int32_t* again
        int64_t n_again
    cdef cppclass Pair:
        const float* xl
        const float* xe
        const float* yl
        const float* ye
        double xg, yg
        float* l
        float* e
        double g
    cdef cppclass Step:
        bint ok
        double radius, lost, scale
        int64_t rows, columns
    bint c_make "vs::supports::make"(const void*, bint, int64_t, CTable*) except +
    void c_infer "vs::supports::infer"(
        const Problem&, const CTable&, const Answer&, const PoolApi&, int, Control*) except +
    void c_place "vs::supports::place"(
        const int64_t*, const int64_t*, int64_t, COrder*) except +
    Step c_message "vs::supports::message"(const CTable&, const Trial&) except +
    double c_product "vs::supports::product"(const CTable&, Pair*) except +
    void use_simd(const SimdApi*) noexcept


use_simd(<const SimdApi*>PyCapsule_GetPointer(_forest.simd, "valuesparse._forest.simd"))


cdef class Table:
    """exp(transition) in float32, both ways, and norms of its rows and columns: 8 K^2 bytes.

    `fine` is False where its entries are too far apart for that. `norms` and `delta` are factors by
    which tests make the proof wrong."""

    cdef CTable table
    cdef readonly bint fine

    def __init__(self, transition, double norms=1.0, double delta=1.0):
        cdef void* x = data(transition)
        cdef bint single = dtype_code(transition) == 0
        cdef int64_t k = transition.shape[0]
        with nogil:
            self.fine = c_make(x, single, k, &self.table)
        self.table.norms, self.table.delta = norms, delta

    @property
    def width(self):
        """Numbers of a padded row."""
        return self.table.kp

    @property
    def shift(self):
        """The logarithm that all entries were divided by."""
        return self.table.shift


cdef class Order:
    """In which order variables are worked through; `offset` (B + 1,) of components, in the order of
    their roots. `parent` (N,) is of a forest; chains have none."""

    cdef COrder order
    cdef object offset

    def __init__(self, offset, parent=None):
        cdef const int64_t* up = <const int64_t*>data(parent)
        cdef const int64_t* first = <const int64_t*>data(offset)
        cdef int64_t count = offset.shape[0] - 1
        self.offset = offset
        with nogil:
            c_place(up, first, count, &self.order)


def infer(
    Table table, Order order, unary, start, end, allowed, components, double tol, price,
    int threads, marginals, radius, slack, error, log_z, deadline=None, progress=None, late=None,
    budget=None, entered=None,
):
    """Answer `components` within `tol`, those that this route pays for; `price` (B,) is what a
    message takes by another, in rows of the table, `budget` (B,) how many rows may be read, columns
    counting twice. Windows of chains have `entered` (B, 2), radii of what is known from outside,
    and errors above `tol`.

    Fill what belongs to them of `marginals` (N, K), `radius`, `slack`, `error` (N,) and `log_z`
    (2, B), bounds. Return (taken, counts): (B,) bool, and (B, 3) rows, columns and repairs."""
    cdef Call call = Call(unary.shape[0], deadline, progress, late)
    cdef Problem p
    cdef Answer a
    count = order.offset.shape[0] - 1
    taken, counts = np.zeros(count, dtype=np.uint8), np.zeros((count, 3), dtype=np.int64)
    p.unary = data(unary)
    p.start = data(start)
    p.end = data(end)
    p.allowed = <const uint8_t*>data(allowed)
    p.order = &order.order
    p.single = dtype_code(unary) == 0
    p.components = <const int64_t*>data(components)
    p.n_components = components.shape[0]
    p.tol = tol
    p.price = <const double*>data(price)
    p.budget = <const int64_t*>data(budget)
    p.entered = <const double*>data(entered)
    a.marginals = data(marginals)
    a.radius = <double*>data(radius)
    a.slack = <double*>data(slack)
    a.error = <double*>data(error)
    a.lower = <double*>data(log_z)
    a.upper = a.lower + <int64_t>count
    a.taken = <uint8_t*>data(taken)
    a.counts = <int64_t*>data(counts)
    with nogil:
        c_infer(p, table.table, a, pool_api[0], threads, &call.control)
    call.end(kCancelled if call.error is not None else kOk)
    return taken.view(bool), counts


def message(
    Table table, bint backward, low, slack, double radius, weight, double share, again=None
):
    """Send one message, for tests: x, enclosed by `low`, `slack` (width,) and `radius`, goes to
    y = (x W) weight. Rows and columns above a share are read, then the columns `again` (int32), if
    what they have of y is narrower. Return (low, slack, radius, scale,
    lost) of y, or None where nothing was found out."""
    yl, ye = np.zeros_like(low), np.zeros_like(low)
    cdef Trial t
    cdef Step step
    t.backward = backward
    t.low = <const float*>data(low)
    t.slack = <const float*>data(slack)
    t.weight = <const float*>data(weight)
    t.radius, t.share = radius, share
    t.yl = <float*>data(yl)
    t.ye = <float*>data(ye)
    t.again = <const int32_t*>data(again)
    t.n_again = 0 if again is None else again.shape[0]
    with nogil:
        step = c_message(table.table, t)
    return (yl, ye, step.radius, step.scale, step.lost) if step.ok else None


def product(Table table, x, y):
    """Multiply two enclosures, for tests: (low, slack, radius) each, rows (width,).

    Return the product likewise and what it was multiplied by, or None where floats hold none."""
    cdef Pair p
    cdef double lift
    low, slack = np.zeros_like(x[0]), np.zeros_like(x[0])
    p.xl, p.xe, p.xg = <const float*>data(x[0]), <const float*>data(x[1]), x[2]
    p.yl, p.ye, p.yg = <const float*>data(y[0]), <const float*>data(y[1]), y[2]
    p.l, p.e = <float*>data(low), <float*>data(slack)
    with nogil:
        lift = c_product(table.table, &p)
    return (low, slack, p.g, lift) if lift > 0.0 else None
