# cython: freethreading_compatible=True
"""Chains and trees: checks nothing but `parent`, hands arrays to C++ and lets the GIL go."""

from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_New
from libc.math cimport expm1
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t
from libc.string cimport memcpy
from libcpp.memory cimport unique_ptr
from libcpp.vector cimport vector

cimport numpy as cnp

import numpy as np

from valuesparse import _pool

cnp.import_array()


include "call.pxi"
include "workspaces.pxi"
include "forest/cut.pxi"
include "forest/request.pxi"
include "forest/listing.pxi"


cdef extern from "core/problem.h" namespace "vs" nogil:
    double kLargest32, kLargest64, kLargestSum, kCarriedSum


cdef extern from "forest/layout.h" namespace "vs" nogil:
    Layout compile_tree(const int64_t*, int64_t, int64_t) except +


cdef extern from "forest/request.h" namespace "vs" nogil:
    void use_pool(const PoolApi*) noexcept
    void use_level(const char*) noexcept
    const char* c_level_name "vs::level_name"() noexcept
    int c_level_number "vs::level_number"() noexcept
    bint level_supported(const char*) noexcept
    const char* supported_level(int) noexcept
    void c_show "vs::show"(const Request&) except +
    Report c_infer "vs::infer"(const Request&, Control&) except +
    Report c_decode "vs::decode"(const Request&, Control&) except +
    const ForestApi* forest_api() noexcept
    int64_t c_weigh "vs::weigh"(int, const void*, int64_t, double*) noexcept
    double c_peak "vs::peak_flops"(int, int64_t) noexcept
    double c_messages "vs::message_flops"(int, int64_t, int64_t, int64_t) noexcept


cdef extern from "rows/sparse_table.h" namespace "vs" nogil:
    cdef cppclass ListedTable "vs::SparseTable":
        ListedTable() except +
        int64_t n_labels
        vector[int64_t] start
        vector[int32_t] column
        vector[double] score, rows, columns
        double rest, largest
        int64_t n_listed()
        bint pays(int)
    unique_ptr[ListedTable] c_find_default "vs::find_default"(int, const void*, int64_t) except +


use_pool(pool_api)

cdef SimdApi _simd
_simd.level = c_level_number
simd = PyCapsule_New(<void*>&_simd, "valuesparse._forest.simd", NULL)

api = PyCapsule_New(<void*>forest_api(), "valuesparse._forest.api", NULL)


#: The largest magnitude of a finite log-potential, by dtype.
LARGEST = {"float32": kLargest32, "float64": kLargest64}
#: The largest sum of magnitudes of a tree or graph, and of what bounds derive from one.
LARGEST_SUM, CARRIED_SUM = kLargestSum, kCarriedSum


cdef object copied(const vector[int64_t]& v):
    out = np.empty(<Py_ssize_t>v.size(), dtype=np.int64)
    cdef int64_t[::1] view = out
    cdef size_t i
    for i in range(v.size()):
        view[i] = v[i]
    return out


cdef class Structure:
    """A forest's order of work, compiled from `parent` (int64, contiguous)."""

    cdef Layout layout
    cdef object parent

    def __init__(self, parent, int64_t target):
        cdef const int64_t* p = <const int64_t*>data(parent)
        cdef int64_t n = parent.shape[0]
        self.parent = parent
        with nogil:
            self.layout = compile_tree(p, n, target)

    def problem(self):
        """(code, node): what is wrong with `parent`: 0 nothing, 1 range, 2 itself, 3 a cycle."""
        return self.layout.problem, self.layout.where

    def roots(self):
        return copied(self.layout.root)

    def tree_of(self):
        """The tree of each node (n,)."""
        out = np.empty(self.layout.n, dtype=np.int64)
        cdef int64_t[::1] view = out
        cdef int64_t v
        for v in range(self.layout.n):
            view[v] = self.layout.tree[self.layout.slot[v]]
        return out


cdef int copy(void* to, array) except -1:
    """Copy an array, which may be None."""
    if array is not None and array.size:
        memcpy(to, data(array), array.nbytes)
    return 0


cdef class Table:
    """A shared table of which most entries are a default, or a sum of what their row and their
    column have: what `SparseTransition` holds, or what is found in an array."""

    cdef unique_ptr[ListedTable] table

    @staticmethod
    cdef Table found(array):
        """The table that `array` (K, K) is, or None where it has no default, or none that pays."""
        cdef Table self = Table.__new__(Table)
        cdef int code = dtype_code(array)
        cdef void* x = data(array)
        cdef int64_t k = array.shape[0]
        with nogil:
            self.table = c_find_default(code, x, k)
        return self if self.table else None

    @staticmethod
    def of(start, columns, scores, double rest, by_row, by_column, double largest, array):
        """The same of pairs that are listed, row by row; None where they do not pay in the dtype of
        `array`, which has all."""
        cdef Table self = Table.__new__(Table)
        self.table.reset(new ListedTable())
        cdef ListedTable* t = self.table.get()
        t.n_labels = start.shape[0] - 1
        t.start.resize(start.size)
        t.column.resize(columns.size)
        t.score.resize(scores.size)
        t.rows.resize(0 if by_row is None else by_row.size)
        t.columns.resize(0 if by_column is None else by_column.size)
        copy(t.start.data(), start)
        copy(t.column.data(), columns)
        copy(t.score.data(), scores)
        copy(t.rows.data(), by_row)
        copy(t.columns.data(), by_column)
        t.rest, t.largest = rest, largest
        return self if t.pays(dtype_code(array)) else None

    def pays(self, array):
        """Whether reading the pairs pays in the dtype of `array`."""
        return self.table.get().pays(dtype_code(array))

    def pairs(self):
        """The pairs that are listed: (start, columns)."""
        cdef ListedTable* t = self.table.get()
        start = np.empty(t.start.size(), dtype=np.int64)
        columns = np.empty(t.column.size(), dtype=np.int32)
        memcpy(data(start), t.start.data(), start.nbytes)
        if columns.size:
            memcpy(data(columns), t.column.data(), columns.nbytes)
        return start, columns


cdef class Forest:
    """Pointers into the arrays of a model, which it keeps alive.

    Chains have an `offset` and `edge`, and may have `start` and `end`; trees a `structure`, and
    may have an `edge_type`. `sparse` is the shared table where reading its listed pairs pays, None
    where it does not; it is looked for unless it is given. `tables` may be None beside it.
    """

    cdef ForestModel m
    cdef tuple arrays
    cdef readonly object sparse

    def __init__(self, unary, tables, allowed, start=None, end=None, offset=None, edge=None,
                 Structure structure=None, edge_type=None, sparse=True):
        cdef Chains* c = &self.m.arrays
        if tables is None:
            assert sparse is not None and sparse is not True
        elif tables.ndim != 2:
            sparse = None
        elif sparse is True:
            sparse = Table.found(tables)
        self.sparse = sparse
        self.arrays = (unary, tables, allowed, start, end, offset, edge, structure, edge_type)
        if sparse is not None:
            c.sparse = <const SparseTable*>(<Table>sparse).table.get()
        c.unary = data(unary)
        c.transition = data(tables)
        c.allowed = <const uint8_t*>data(allowed)
        c.n_positions = unary.shape[0]
        c.n_labels = unary.shape[1]
        c.dtype = dtype_code(unary)
        if structure is None:
            c.start = data(start)
            c.end = data(end)
            c.offset = <const int64_t*>data(offset)
            c.edge = <const int64_t*>data(edge)
            c.n_sequences = offset.shape[0] - 1
            c.per_edge = tables is not None and tables.ndim == 3
            return
        c.n_sequences = structure.layout.n_trees
        self.m.layout = &structure.layout
        self.m.parent = <const int64_t*>data(structure.parent)
        self.m.type = <const int64_t*>data(edge_type)
        if tables is not None and tables.ndim == 3:
            self.m.n_tables = tables.shape[0]
            self.m.tables = Tables.kPerEdge if edge_type is None else Tables.kTyped

    @property
    def entries(self):
        """The size of the table, or tables."""
        k = self.m.arrays.n_labels
        return k * k if self.arrays[1] is None else self.arrays[1].size

    @property
    def listed(self):
        """How many pairs are listed where most are a default, else None."""
        return None if self.sparse is None else (<Table>self.sparse).table.get().n_listed()

    @property
    def longest(self):
        """The most variables of a component."""
        cdef Chains* c = &self.m.arrays
        cdef int64_t most = 0, i
        cdef vector[int64_t] size
        if self.m.layout == NULL:
            for i in range(c.n_sequences):
                most = max(most, c.offset[i + 1] - c.offset[i])
            return most
        if c.n_sequences == 1:
            return c.n_positions
        size.resize(c.n_sequences)
        for i in range(c.n_positions):
            size[self.m.layout.tree[i]] += 1
        for i in range(c.n_sequences):
            most = max(most, size[i])
        return most

    @property
    def shape(self):
        """(N, K, B): variables, states and components."""
        return self.m.arrays.n_positions, self.m.arrays.n_labels, self.m.arrays.n_sequences


cdef class Prepared:
    """The table of chains as passes want it, made once for several calls; None where that is not
    possible."""

    cdef const ForestApi* forests
    cdef CPrepared* table
    cdef Forest forest

    def __cinit__(self, Forest forest):
        self.forest = forest  # whose arrays the table points into
        self.forests = forest_api()
        self.table = NULL
        if forest.m.layout == NULL:
            self.table = self.forests.prepare(forest.m.arrays)

    def __dealloc__(self):
        if self.table != NULL:
            self.forests.release(self.table)


cdef Request request(Forest forest, int threads):
    cdef Request q
    q.model = forest.m
    q.threads = threads
    return q


cdef tuple outcome(Report r, Call call):
    call.end(r.status)
    if r.status == kInfeasible and r.position < 0:
        raise ArithmeticError(
            f"component {r.component} has configurations, but their weights were lost on the way: "
            "this is a defect of valuesparse, please report it"
        )
    return (r.component, r.position) if r.status == kInfeasible else None


def infer(Forest forest, int threads, log_z, marginals=None, *, double zeta=1.0,
          int64_t revisit=0, islands=None, deadline=None, progress=None, late=None,
          pairwise=None, edges=None, expectations=None, weights=None, energies=None,
          log_left=None, log_right=None, log_mass=None, Prepared prepared=None,
          Table pairs=None, components=None, bint narrow=False, compared=None):
    """Fill the arrays that are given; see Request in forest/request.h.

    `edges`: which `pairwise` is for, (first, last) of chains, their row by node of trees.
    `prepared`: that of chains with this table. `pairs`: what expectations are for.
    `components`: those to work on (int64, ascending), None: all. `compared`: what marginals of
    chains are compared with, which are not kept; see `comparison`. Return
    (infeasible, counts): infeasible is None or (component, position).
    """
    cdef Report r
    cdef Call call = Call(forest.m.arrays.n_positions, deadline, progress, late)
    cdef Request q = request(forest, threads)
    if prepared is not None:
        q.prepared = prepared.table
    q.zeta = zeta
    q.revisit = revisit
    q.marginals = data(marginals)
    q.log_z = <double*>data(log_z)
    q.islands = <int32_t*>data(islands)
    q.pairwise = data(pairwise)
    if isinstance(edges, tuple):
        q.pairwise_first, q.pairwise_last = edges
    else:
        q.pairwise_row = <const int64_t*>data(edges)
    q.expectations = <double*>data(expectations)
    if pairs is not None:
        q.pairs = <const SparseTable*>pairs.table.get()
    q.weights = <const double*>data(weights)
    q.energies = <double*>data(energies)
    q.log_left = <double*>data(log_left)
    q.log_right = <double*>data(log_right)
    q.log_mass = <double*>data(log_mass)
    cdef vector[int64_t] chosen
    if components is not None:
        chosen.resize(components.size)
        copy(chosen.data(), components)
        q.components = &chosen
    q.narrow = narrow
    cdef Comparison others
    if compared is not None:
        others = comparison(compared)
        q.compared = &others
    with nogil:
        r = c_infer(q, call.control)
    bad = outcome(r, call)
    c = r.counts
    return bad, (c.islands, c.segments, c.full, c.sparse, c.released, c.flipped, c.rounds,
                 c.unsettled, c.widened, c.without)


def show(Forest forest, int threads):
    """Show the thread's recorder what an exact call for marginals runs."""
    cdef Request q = request(forest, threads)
    q.marginals = <void*>forest.m.arrays.unary  # wanted; nothing is written
    c_show(q)


def decode(Forest forest, int64_t n_best, int threads, states, scores, deadline=None,
           progress=None, late=None):
    cdef Report r
    cdef Call call = Call(forest.m.arrays.n_positions, deadline, progress, late)
    cdef Request q = request(forest, threads)
    q.n_best = n_best
    q.states = <int64_t*>data(states)
    q.log_z = <double*>data(scores)
    with nogil:
        r = c_decode(q, call.control)
    return outcome(r, call)


def sample(Forest forest, uniforms, states, int threads, deadline=None, progress=None, late=None):
    cdef Report r
    cdef Call call = Call(forest.m.arrays.n_positions, deadline, progress, late)
    cdef Request q = request(forest, threads)
    q.size = states.shape[0]
    q.uniforms = <const double*>data(uniforms)
    q.states = <int64_t*>data(states)
    with nogil:
        r = c_infer(q, call.control)
    return outcome(r, call)


include "forest/score.pxi"


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


def simd_levels():
    """Return the names of the levels of this CPU and build, best first."""
    names = []
    while supported_level(<int>len(names)) != NULL:
        names.append(supported_level(<int>len(names)).decode())
    return names


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
