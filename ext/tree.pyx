# cython: freethreading_compatible=True
"""Trees: checks nothing but `parent`; hands arrays to the C++ planner without the GIL."""

from cpython.pycapsule cimport PyCapsule_GetPointer
from libc.stdint cimport int32_t, int64_t, uint8_t
from libcpp.vector cimport vector

cimport numpy as cnp

import numpy as np

from valuesparse import _chain, _pool

cnp.import_array()


include "call.pxi"


cdef extern from "core/session.h" namespace "vs":
    void c_free_waiting "vs::Session::free_waiting"() noexcept

cdef extern from "tree/layout.h" namespace "vs" nogil:
    cdef cppclass Layout:
        int64_t n, n_trees, n_blocks
        vector[int64_t] root, begin
        vector[int32_t] tree, slot, node, below_ptr, below
        int problem
        int64_t where
    Layout compile_tree(const int64_t*, int64_t, int64_t) except +


cdef extern from "tree/run.h" namespace "vs" nogil:
    cdef cppclass TreeModel:
        TreeModel()
        const Layout* layout
        Chains arrays
        int64_t n_tables
        const int64_t* type
        const int64_t* parent
    cdef cppclass TreeRequest:
        TreeRequest()
        TreeModel model
        int threads
        double zeta
        int64_t revisit
        void* marginals
        double* log_z
        int32_t* islands
        double* log_left
        double* log_right
        double* log_mass
        double* expectations
        double* energies
        void* pairwise
        const int64_t* pairwise_row
    cdef cppclass TreeReport:
        int status
        int64_t tree, node
        Counts counts
    void tree_use_pool(const PoolApi*) noexcept
    void tree_use_simd(const SimdApi*) noexcept
    void c_show "vs::tree_show"(const TreeModel&, int) except +
    TreeReport c_infer "vs::tree_infer"(const TreeRequest&, Control&) except +
    TreeReport c_decode "vs::tree_decode"(const TreeModel&, int, int64_t*, double*,
                                          Control&) except +
    TreeReport c_sample "vs::tree_sample"(const TreeModel&, int64_t, const double*, int64_t*, int,
                                          Control&) except +
    void c_score "vs::tree_score"(const TreeModel&, const int64_t*, double*) except +
    void c_expected "vs::tree_expected"(const TreeModel&, const void*, const double*,
                                        const double*, double*, double*) except +


cdef extern from * nogil:
    """
    static void set_tables(vs::TreeModel& m, int kind) { m.tables = static_cast<vs::Tables>(kind); }
    """
    void set_tables(TreeModel&, int) noexcept


tree_use_pool(pool_api)
tree_use_simd(<const SimdApi*>PyCapsule_GetPointer(_chain.simd, "valuesparse._chain.simd"))


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


cdef class Forest:
    """Pointers into the arrays of a tree model, which it keeps alive."""

    cdef TreeModel m
    cdef tuple arrays

    def __init__(self, Structure structure, unary, pairwise, edge_type, allowed, int kind):
        self.arrays = (structure, structure.parent, unary, pairwise, edge_type, allowed)
        self.m.layout = &structure.layout
        self.m.parent = <const int64_t*>data(structure.parent)
        self.m.type = <const int64_t*>data(edge_type)
        self.m.n_tables = 1 if pairwise.ndim == 2 else pairwise.shape[0]
        set_tables(self.m, kind)
        self.m.arrays.unary = data(unary)
        self.m.arrays.transition = data(pairwise)
        self.m.arrays.allowed = <const uint8_t*>data(allowed)
        self.m.arrays.n_positions = unary.shape[0]
        self.m.arrays.n_labels = unary.shape[1]
        self.m.arrays.n_sequences = structure.layout.n_trees
        self.m.arrays.dtype = dtype_code(unary)


cdef tuple outcome(TreeReport r, Call call):
    call.end(r.status)
    return (r.tree, r.node) if r.status == kInfeasible else None


def infer(Forest forest, int threads, double zeta, int64_t revisit, marginals, log_z, islands,
          log_left, log_right, log_mass, deadline, progress, late, expectations=None,
          energies=None, pairwise=None, pairwise_row=None):
    """Return (infeasible, counts): infeasible is None or (tree, node)."""
    cdef TreeRequest q
    cdef TreeReport r
    cdef Call call = Call(forest.m.arrays.n_positions, deadline, progress, late)
    q.model = forest.m
    q.threads = threads
    q.zeta = zeta
    q.revisit = revisit
    q.marginals = data(marginals)
    q.log_z = <double*>data(log_z)
    q.islands = <int32_t*>data(islands)
    q.log_left = <double*>data(log_left)
    q.log_right = <double*>data(log_right)
    q.log_mass = <double*>data(log_mass)
    q.expectations = <double*>data(expectations)
    q.energies = <double*>data(energies)
    q.pairwise = data(pairwise)
    q.pairwise_row = <const int64_t*>data(pairwise_row)
    with nogil:
        r = c_infer(q, call.control)
    bad = outcome(r, call)
    c = r.counts
    return bad, (c.islands, c.segments, c.full, c.sparse, c.released, c.flipped, c.rounds,
                 c.unsettled, c.widened)


def show(Forest forest, int threads):
    """Show the thread's recorder what an exact call runs."""
    c_show(forest.m, threads)


def decode(Forest forest, int threads, states, scores, deadline=None, progress=None, late=None):
    cdef TreeReport r
    cdef Call call = Call(forest.m.arrays.n_positions, deadline, progress, late)
    cdef int64_t* x = <int64_t*>data(states)
    cdef double* s = <double*>data(scores)
    with nogil:
        r = c_decode(forest.m, threads, x, s, call.control)
    return outcome(r, call)


def sample(Forest forest, int64_t size, uniforms, states, int threads, deadline=None,
           progress=None, late=None):
    cdef TreeReport r
    cdef Call call = Call(forest.m.arrays.n_positions, deadline, progress, late)
    cdef double* u = <double*>data(uniforms)
    cdef int64_t* x = <int64_t*>data(states)
    with nogil:
        r = c_sample(forest.m, size, u, x, threads, call.control)
    return outcome(r, call)


def score(Forest forest, states, scores):
    """Fill the scores of states (n,) int64, per tree."""
    cdef const int64_t* x = <const int64_t*>data(states)
    cdef double* s = <double*>data(scores)
    with nogil:
        c_score(forest.m, x, s)


def expected(Forest forest, marginals, energies, largest, value, size):
    """Fill the expected score of each tree, and how far rounding may be felt in it."""
    cdef void* p = data(marginals)
    cdef double* e = <double*>data(energies)
    cdef double* top = <double*>data(largest)
    cdef double* v = <double*>data(value)
    cdef double* s = <double*>data(size)
    with nogil:
        c_expected(forest.m, p, e, top, v, s)


def free_workspaces():
    """Free the memory that calls have left for the next ones."""
    c_free_waiting()
