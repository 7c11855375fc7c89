# cython: freethreading_compatible=True
"""Junction trees: hands arrays to the C++ solver without the GIL."""

from cpython.pycapsule cimport PyCapsule_GetPointer
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libcpp cimport bool
from libcpp.vector cimport vector

cimport numpy as cnp

import numpy as np

from valuesparse import _forest, _pool

cnp.import_array()

include "call.pxi"


cdef extern from "core/sum.h" namespace "vs" nogil:
    cdef cppclass Sum:
        double total()


cdef extern from "junction/graph.h" namespace "vs::junction" nogil:
    cdef cppclass Graph:
        Graph()
        int64_t n
        const int64_t* card
        int64_t n_factors
        const int64_t* scope_ptr
        const int64_t* scope
        const double* const* table
        const uint8_t* forbids
        const int64_t* identity
    cdef cppclass Domains:
        vector[int64_t] ptr
        vector[int32_t] value
    cdef cppclass ExpectedScore:
        Sum score, magnitude


cdef extern from "junction/few.h" namespace "vs::junction" nogil:
    cdef cppclass Set:
        size_t size()
        const int32_t* data()
        void push_back(int32_t) except +


cdef extern from "junction/cliques.h" namespace "vs::junction" nogil:
    cdef cppclass Cliques "vs::junction::CliqueTree":
        vector[Set] clique
        vector[int32_t] parent


cdef extern from "junction/layout.h" namespace "vs::junction" nogil:
    cdef cppclass TableLayout:
        double table_size, largest, flops, bytes
        double nanoseconds
        int32_t largest_clique
        int width


cdef extern from "junction/elimination.h" namespace "vs::junction" nogil:
    cdef cppclass Search:
        double effort
        uint64_t seed
        double fits, most


cdef extern from "junction/solver.h" namespace "vs::junction" nogil:
    const int64_t kReady, kStopped
    const int64_t kTooLarge "vs::junction::Solver::kTooLarge"
    cdef cppclass Solver:
        Solver(const Graph&, const vector[Set]&) except +
        int64_t compile(const int64_t*, vector[int64_t], const Search&, Control*) except +
        bool prepared(const int64_t*, const vector[int64_t]&)
        int64_t prepare(const int64_t*, vector[int64_t], Control*) except +
        const TableLayout& layout()
        const Cliques& tree()
        const Domains& domains()
        int64_t tried()
        void show(int) except +
        int infer(const double* const*, int, Control*, const int64_t*, bool, double*,
                  double*) except +
        int decode(const double* const*, int, Control*, double, int64_t*, double*) except +
        int sample(const double* const*, int, Control*, int64_t, const double*,
                   int64_t*) except +
        void joint(int64_t, double*) except +
        const Set& joint_vars(int64_t)
        bool widened()
        bool faithful()
        int64_t reused()
        bool ask(const Set&) except +
        void ask_factors(bool) except +
        double factor_entries() except +
        ExpectedScore expected() except +
        void forget()
        void release()
    void use_modules(const PoolApi*, const SimdApi*) noexcept


#: The result of :meth:`CliqueTree.prepare` where the search for a tree was given up.
TOO_LARGE = kTooLarge

use_modules(
    pool_api,
    <const SimdApi*>PyCapsule_GetPointer(_forest.simd, "valuesparse._forest.simd"),
)


cdef extern from * nogil:
    """
    #include <cmath>
    static bool vs_any_forbidden(const double* x, int64_t n) {
        for (int64_t i = 0; i < n; ++i) if (x[i] == -INFINITY) return true;
        return false;
    }
    """
    bint vs_any_forbidden(const double*, int64_t) noexcept


include "junction/records.pxi"


cdef class Snapshot:
    """Pointers into the tables of a factor graph, which it keeps alive.

    `stacks`: factors that stand in arrays, (index of the first, scopes, tables); they are None in
    the lists until somebody asks for these.
    """

    cdef Graph g
    cdef readonly int64_t entries  # of all marginals
    cdef readonly object cards
    cdef readonly dict conditional  # factor: the variable that it is a distribution of
    cdef list listed, tables, stacks
    cdef vector[int64_t] scope_ptr, scope, card_ptr, identity
    cdef vector[const double*] table
    cdef vector[uint8_t] forbids

    def __init__(self, cards, list scopes, list tables, conditional=(), stacks=()):
        cdef int64_t n = cards.shape[0]
        cdef int64_t m = len(scopes)
        cdef int64_t f, v, stacked = 0
        cdef const double* data
        cdef int64_t size
        cdef tuple scope
        self.cards = cards
        self.listed, self.stacks = scopes, list(stacks)
        self.conditional = dict(conditional)
        self.tables = tables
        self.g.n = n
        self.g.card = <const int64_t*>cnp.PyArray_DATA(<cnp.ndarray>cards)
        self.g.n_factors = m
        self.scope_ptr.push_back(0)
        self.card_ptr.resize(n + 1)
        f = -1
        while f + 1 < m:
            f += 1
            if stacked < len(self.stacks) and f == self.stacks[stacked][0]:
                f += self.take(self.stacks[stacked]) - 1
                stacked += 1
                continue
            scope = scopes[f]
            for v in scope:
                self.scope.push_back(v)
            self.scope_ptr.push_back(<int64_t>self.scope.size())
            data = <const double*>cnp.PyArray_DATA(<cnp.ndarray>tables[f])
            size = cnp.PyArray_SIZE(<cnp.ndarray>tables[f])
            self.table.push_back(data)
            self.forbids.push_back(vs_any_forbidden(data, size))
        for v in range(n):
            self.card_ptr[v + 1] = self.card_ptr[v] + self.g.card[v]
            self.identity.push_back(v)
        self.entries = self.card_ptr[n]
        self.g.scope_ptr = self.scope_ptr.data()
        self.g.scope = self.scope.data()
        self.g.table = self.table.data()
        self.g.forbids = self.forbids.data()
        self.g.identity = self.identity.data()

    cdef int64_t take(self, tuple stack) except -1:
        """Add the factors of a stack; return how many there are."""
        _, scopes, tables = stack
        cdef int64_t m = scopes.shape[0], k = scopes.shape[1]
        cdef int64_t size = tables.size // m, step = tables.strides[0] // sizeof(double)
        cdef const int64_t* rows = <const int64_t*>cnp.PyArray_DATA(<cnp.ndarray>scopes)
        cdef const double* data = <const double*>cnp.PyArray_DATA(<cnp.ndarray>tables)
        cdef bint forbids = False
        cdef int64_t row
        self.scope.insert(self.scope.end(), rows, rows + m * k)
        for row in range(m):
            self.scope_ptr.push_back(self.scope_ptr.back() + k)
            self.table.push_back(data + row * step)
            if row == 0 or step:
                forbids = vs_any_forbidden(data + row * step, size)
            self.forbids.push_back(forbids)
        return m

    @property
    def scopes(self):
        """The scopes of all factors."""
        for first, scopes, _ in self.stacks:
            if self.listed[first] is None:
                self.listed[first:first + len(scopes)] = map(tuple, scopes.tolist())
        return self.listed

    def score(self, states):
        """Return the sum of all factors at these states, int64."""
        cdef const int64_t* y = <const int64_t*>cnp.PyArray_DATA(<cnp.ndarray>states)
        cdef double total = 0.0
        cdef int64_t f, i, v, at
        with nogil:
            for f in range(self.g.n_factors):
                at = 0
                for i in range(self.g.scope_ptr[f], self.g.scope_ptr[f + 1]):
                    v = self.g.scope[i]
                    at = at * self.g.card[v] + y[v]
                total += self.g.table[f][at]
        return total

    def arrays(self):
        """Return the log-tables."""
        for first, _, tables in self.stacks:
            if self.tables[first] is None:
                self.tables[first:first + len(tables)] = [
                    tables[i, ...] for i in range(len(tables))]
        return self.tables


cdef class Soft:
    """Log-likelihoods of some variables, which it keeps alive."""

    cdef vector[const double*] at
    cdef vector[int64_t] which
    cdef list keep

    def __init__(self, int64_t n, list pairs):
        self.keep = pairs
        self.at.resize(n)
        for v, vector_ in pairs:
            self.which.push_back(v)
            self.at[v] = <const double*>cnp.PyArray_DATA(<cnp.ndarray>vector_)

    def variables(self):
        """Return the variables, ascending."""
        return list(self.which)


cdef const double* const* soft_data(Soft soft) noexcept:
    if soft is None:
        return NULL
    return soft.at.data()


cdef list listed(const Set& some):
    return [some.data()[i] for i in range(some.size())]


cdef tuple cost_of(Solver* solver):
    cdef const TableLayout* at = &solver.layout()
    largest = []
    if at.largest_clique >= 0:
        largest = listed(solver.tree().clique[at.largest_clique])
    return (at.width, at.table_size, at.bytes, at.flops, largest, at.largest, solver.tried())


cdef class CliqueTree:
    """A junction tree of a snapshot. Not for two threads at once: the caller holds a lock."""

    cdef Solver* solver
    cdef Snapshot snapshot
    cdef bool compiled, ready

    def __cinit__(self, Snapshot snapshot, list joints):
        cdef vector[Set] sets  # filled here: a conversion could not raise MemoryError
        sets.resize(len(joints))
        for i, joint in enumerate(joints):
            for v in joint:
                sets[i].push_back(<int32_t>v)
        self.snapshot = snapshot
        self.compiled = False
        self.ready = False
        self.solver = new Solver(snapshot.g, sets)

    def __dealloc__(self):
        del self.solver

    def prepare(self, held, Soft soft, search, deadline=None, progress=None, late=None):
        """Compile once, lay out for the evidence; return a variable without states, or -1.

        `search`: effort, seed, and how many entries fit and are the most that is searched for:
        TOO_LARGE is returned where every order has more. `deadline` (with `late`, its error),
        signals and what `progress` raises end it; the tree then has to be prepared again.
        """
        cdef const int64_t* h = <const int64_t*>cnp.PyArray_DATA(<cnp.ndarray>held)
        cdef vector[int64_t] which
        cdef int64_t empty
        cdef Search wanted
        cdef Call call
        if soft is not None:
            which.insert(which.end(), soft.which.begin(), soft.which.end())
        self.ready = self.compiled and self.solver.prepared(h, which)
        if self.ready:
            return kReady
        call = Call(0, deadline, progress, late)
        call.last = vs_now()  # most trees are laid out before progress is due
        wanted.effort, wanted.seed, wanted.fits, wanted.most = search
        with nogil:
            if self.compiled:
                empty = self.solver.prepare(h, which, &call.control)
            else:
                empty = self.solver.compile(h, which, wanted, &call.control)
        call.end(kCancelled if empty == kStopped else kOk)
        self.ready = empty == kReady
        self.compiled = self.compiled or self.ready
        return empty

    cdef int need(self) except -1:
        if not self.ready:
            raise RuntimeError("prepare() has not succeeded")
        return 0

    def cost(self):
        """Return width, table entries, bytes, flops, largest clique, its entries, orders tried."""
        return cost_of(self.solver)

    def bytes(self):
        """Return those of `cost`."""
        return self.solver.layout().bytes

    def show(self, int threads):
        """Show the thread's recorder what a question runs."""
        self.need()
        self.solver.show(threads)

    def seconds(self):
        """Return an estimate of how long a first question takes on one thread."""
        return 1e-9 * self.solver.layout().nanoseconds

    def cliques(self):
        """Return the cliques and the parent of each."""
        cdef const Cliques* t = &self.solver.tree()
        return [listed(t.clique[c]) for c in range(t.clique.size())], list(t.parent)

    def n_cliques(self):
        return self.solver.tree().clique.size()

    def alive(self, int64_t v):
        """Return the values that variable v may still take."""
        cdef const Domains* d = &self.solver.domains()
        return [d.value[i] for i in range(d.ptr[v], d.ptr[v + 1])]

    def infer(self, Soft soft, int threads, marginals, deadline, progress, late, bool logs=False):
        """Fill marginals (flat, or None); return (status, log_z).

        With `logs` the marginals, and then all joints, are logarithms: none is too small.
        """
        self.need()
        cdef int64_t steps = 2 * <int64_t>self.solver.tree().clique.size()
        cdef Call call = Call(steps, deadline, progress, late)
        cdef double log_z = 0.0
        cdef const double* const* s = soft_data(soft)
        cdef double* m = NULL
        cdef int status
        if marginals is not None:
            m = <double*>cnp.PyArray_DATA(<cnp.ndarray>marginals)
        with nogil:
            status = self.solver.infer(s, threads, &call.control, self.snapshot.card_ptr.data(),
                                       logs, m, &log_z)
        call.end(status)
        return status == kInfeasible, log_z

    def ask(self, variables):
        """Have the next question make the joint of these variables, set 0, if a clique holds them.

        False where none does; an empty set ends it. Only of a tree compiled without sets.
        """
        cdef Set wanted  # filled here: a conversion could not raise MemoryError
        self.need()
        for v in variables:
            wanted.push_back(<int32_t>v)
        return self.solver.ask(wanted)

    def ask_factors(self, bool wanted):
        """Have the next questions make what `expected` needs, or no more; likewise."""
        self.need()
        self.solver.ask_factors(wanted)

    def factor_entries(self):
        """Return how many numbers that takes."""
        return self.solver.factor_entries()

    def expected(self):
        """Return the expectation of the score, and of its factors' magnitudes, after `infer`."""
        cdef ExpectedScore found = self.solver.expected()
        return found.score.total(), found.magnitude.total()

    def joint(self, int64_t q):
        """Return the joint of set q over living values, and its variables."""
        variables = listed(self.solver.joint_vars(q))
        out = np.empty([len(self.alive(v)) for v in variables])
        cdef double* x = <double*>cnp.PyArray_DATA(<cnp.ndarray>out)
        self.solver.joint(q, x)
        return out, variables

    def decode(self, Soft soft, int threads, states, double above, deadline, progress, late):
        """Fill `states` with a best configuration above that score; return (status, score)."""
        self.need()
        cdef int64_t steps = <int64_t>self.solver.tree().clique.size()
        cdef Call call = Call(steps, deadline, progress, late)
        cdef double score = 0.0
        cdef const double* const* s = soft_data(soft)
        cdef int64_t* x = <int64_t*>cnp.PyArray_DATA(<cnp.ndarray>states)
        cdef int status
        with nogil:
            status = self.solver.decode(s, threads, &call.control, above, x, &score)
        call.end(status)
        return status == kInfeasible, score

    def sample(self, Soft soft, int threads, uniforms, states, deadline, progress, late):
        """Fill each row of `states` from its row of uniforms; return the status."""
        self.need()
        cdef int64_t steps = (1 + states.shape[0]) * <int64_t>self.solver.tree().clique.size()
        cdef Call call = Call(steps, deadline, progress, late)
        cdef const double* const* s = soft_data(soft)
        cdef const double* u = <const double*>cnp.PyArray_DATA(<cnp.ndarray>uniforms)
        cdef int64_t* x = <int64_t*>cnp.PyArray_DATA(<cnp.ndarray>states)
        cdef int64_t size = states.shape[0]
        cdef int status
        with nogil:
            status = self.solver.sample(s, threads, &call.control, size, u, x)
        call.end(status)
        return status == kInfeasible

    def forget(self):
        """Forget all messages: the next question computes every one again."""
        self.solver.forget()

    def release(self):
        """Forget all messages and give their memory back."""
        self.solver.release()

    def widened(self):
        return self.solver.widened()

    def faithful(self):
        """Return whether every marginal of the last question has its digits, however small."""
        return self.solver.faithful()

    def reused(self):
        return self.solver.reused()


include "junction/many.pxi"
include "junction/segments.pxi"
