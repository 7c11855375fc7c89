# cython: freethreading_compatible=True
"""Message passing on graphs with cycles: hands arrays to C++ without the GIL."""

from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_New
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcpy
from libcpp cimport bool
from libcpp.vector cimport vector

cimport numpy as cnp

import numpy as np

from valuesparse import _forest, _parsing, _pool

cnp.import_array()

include "call.pxi"


include "factors/structured.pxi"


cdef extern from "messages/network.h" namespace "vs::messages" nogil:
    cdef cppclass RunOptions:
        RunOptions()
        int schedule
        bool best
        double damping, tolerance
        int64_t max_iterations
    cdef cppclass RunProgress:
        bool converged
        int64_t updates
        vector[double] residuals
    cdef cppclass CppNetwork "vs::messages::Network":
        CppNetwork() except +
        int lay_out(int64_t, const int64_t*, int64_t, const int64_t*, const int64_t*,
                    const double* const*, const Own*, const Control*) except +
        int64_t n_entries()
        int64_t n_edges()
        int64_t table_entries()
        const vector[int64_t]& edge_at()
        void weigh(const double*) except +
        void side_by_side(double*)
        int run(const double*, const RunOptions&, int, Control*, double*, int64_t*) except +
        const RunProgress& last()
        int answer(const double*, const double*, int, Control*, double*, double*,
                   int64_t*) except +
        int beliefs(const double*, const double*, int, Control*, double*, double*,
                    int64_t*) except +
        int joints(int, Control*, double*) except +
        const double* to_factors()
        int forests(const double*, const double*, int64_t, const int64_t*, const int64_t*, bool,
                    Control*, double*, double*, int64_t*) except +
        int assign(const double*, const double*, int, Control*, int64_t*, double*,
                   int64_t*) except +
        void spread_starts(int64_t, double*) noexcept
        int mean_field(const double*, int64_t, int64_t, double, int, Control*, double*, int64_t*,
                       double*, double*) except +
        int structured(const double*, int64_t, int64_t, const int64_t*, double*, double*, int64_t,
                       double, int, Control*, double*, double*, uint8_t*, int64_t*, double*,
                       double*) except +
    bool cancelled(const Control*, int64_t)
    int same_scopes(int64_t, const vector[int64_t]&, const vector[int64_t]&,
                    const vector[Own]&, const Control*,
                    vector[int64_t]*) except +
    int greedy_forest(int64_t, const int64_t*, const int64_t*, const int64_t*, int64_t, Control*,
                      vector[int64_t]*) except +
    void use_modules(const PoolApi*, const SimdApi*) noexcept


cdef extern from "messages/resistance.h" namespace "vs::messages" nogil:
    cdef cppclass Resistances:
        void lay_out(int64_t, int64_t, const int64_t*) except +
        int64_t columns()
        const vector[int32_t]& ptr()
        const vector[int32_t]& row()
        const vector[double]& value()
        void read(const int32_t*, const int32_t*, const double*, const double*, const int32_t*,
                  double*) except +


use_modules(
    pool_api,
    <const SimdApi*>PyCapsule_GetPointer(_forest.simd, "valuesparse._forest.simd"),
)


cdef const double* doubles(object array) noexcept:
    return <const double*>data(array)


cdef object longs(const vector[int64_t]& values):
    """Return a copy as an array."""
    cdef cnp.npy_intp size = <cnp.npy_intp>values.size()
    array = cnp.PyArray_SimpleNew(1, &size, cnp.NPY_INT64)
    if size:
        memcpy(data(array), values.data(), size * sizeof(int64_t))
    return array


cdef const int64_t* indices(object array) noexcept:
    return <const int64_t*>data(array)


def forest(int64_t n, ptr, scope, order, deadline, late):
    """Return a maximal forest: factors taken greedily in this order."""
    cdef Call call = Call(1, deadline, None, late)
    cdef const int64_t* p = indices(ptr)
    cdef const int64_t* s = indices(scope)
    cdef const int64_t* o = indices(order)
    cdef int64_t count = order.shape[0]
    cdef vector[int64_t] taken
    cdef int status
    with nogil:
        status = greedy_forest(n, p, s, o, count, &call.control, &taken)
    call.end(status)
    return longs(taken)


include "messages/spanning.pxi"


include "messages/screen.pxi"


cdef class Network:
    """Messages of one graph. Not for two threads at once: the caller holds a lock.

    Tables of one set of variables are one here: a group.
    """

    cdef CppNetwork* network
    cdef list keep  # the tables' memory, and structured factors
    cdef list raised  # by factors written in Python
    cdef vector[const double*] tables  # (groups,); null: structured
    cdef vector[Own] own  # likewise; empty without any
    cdef object cards
    cdef readonly int64_t entries  # of all messages
    cdef readonly int64_t table_entries
    cdef readonly object at  # (n + 1,) where the entries of each variable begin
    cdef readonly object edge_at  # (edges + 1,) where each message begins
    cdef readonly object wide  # indices of the factors of two and more variables
    cdef readonly object group  # of each of these
    cdef readonly object ptr, scope  # (groups + 1,) and variables of each group
    cdef readonly object table_at  # (groups + 1,) where the entries of each table begin
    cdef readonly object local  # (n entries,) sum of all tables of one variable
    cdef readonly double constant  # of factors without variables
    cdef readonly list structured_groups

    def __cinit__(self, cards, list factors, list stacks, object plain, make, deadline, late):
        """Lay out factors; `make(factor, index)` is what stands for one that is not `plain`.

        That is its table or, of one that needs none, a `Structured`. stacks: factors that stand in
        arrays instead, (index of the first, scopes, tables).
        """
        cdef Call call = Call(1, deadline, None, late)
        cdef int status
        cdef vector[int64_t] ptr, scope, wide, table_ptr, table_scope, table_at
        cdef vector[const double*] at
        cdef vector[Own] own
        cdef const Own* kinds = NULL
        cdef int64_t n = cards.shape[0]
        cdef int64_t f, i, v, k, size, count, row, step
        cdef const int64_t* rows
        cdef int64_t stacked = 0
        cdef int64_t following = stacks[0][0] if stacks else -1
        cdef tuple variables
        cdef const int64_t* card = <const int64_t*>data(cards)
        cdef const double* entry
        self.keep, self.raised = [], []
        self.cards = cards
        cdef vector[int64_t] first, group
        self.at = np.zeros(n + 1, dtype=np.int64)
        np.cumsum(cards, out=self.at[1:])
        self.local = np.zeros(self.at[n])
        self.constant = 0.0
        cdef const int64_t* starts = indices(self.at)
        cdef double* local = <double*>data(self.local)
        ptr.push_back(0)
        f = -1
        while f + 1 < len(factors):
            f += 1
            if cancelled(&call.control, f):
                call.end(kCancelled)
            if f == following:
                _, scopes, stack = stacks[stacked]
                stacked += 1
                following = stacks[stacked][0] if stacked < len(stacks) else -1
                self.keep.append(stack)
                k = scopes.shape[1]
                count = scopes.shape[0]
                rows, entry = indices(scopes), doubles(stack)
                size, step = stack.size // count, stack.strides[0] // sizeof(double)
                if k > 1:
                    ptr.reserve(ptr.size() + count)
                    wide.reserve(wide.size() + count)
                    at.reserve(at.size() + count)
                    scope.insert(scope.end(), rows, rows + count * k)
                for row in range(count):
                    if cancelled(&call.control, row):
                        call.end(kCancelled)
                    if k == 0:
                        self.constant += entry[row * step]
                    for i in range(size if k == 1 else 0):
                        local[starts[rows[row]] + i] += entry[row * step + i]
                    if k < 2:
                        continue
                    ptr.push_back(ptr.back() + k)
                    wide.push_back(f + row)
                    at.push_back(entry + row * step)
                f += count - 1
                continue
            factor = factors[f]
            variables = factor.scope
            table = factor.log_table if type(factor) is plain else make(factor, f)
            k = len(variables)
            if k == 0:
                self.constant += float(table)
                continue
            if isinstance(table, Structured):
                own.resize(wide.size())
                own.push_back((<Structured>table).native)
                (<Structured>table).raised = self.raised
                entry = NULL
            else:
                entry = doubles(table)
            if k == 1 and entry != NULL:
                v = variables[0]
                for i in range(card[v]):
                    local[starts[v] + i] += entry[i]
                continue
            for i in range(k):
                scope.push_back(<int64_t>variables[i])
            ptr.push_back(<int64_t>scope.size())
            wide.push_back(f)
            at.push_back(entry)
            self.keep.append(table)
        if own.size():
            own.resize(wide.size())
        with nogil:
            status = same_scopes(n, ptr, scope, own, &call.control, &first)
        call.end(status)
        count = wide.size()
        group.resize(count)
        self.tables.reserve(count)
        table_ptr.reserve(count + 1)
        table_at.reserve(count + 1)
        table_scope.reserve(scope.size())
        table_ptr.push_back(0)
        table_at.push_back(0)
        joined = {}  # sums of tables over the same variables, by group
        for f in range(count):
            if cancelled(&call.control, f):
                call.end(kCancelled)
            if first[f] == f:
                group[f] = <int64_t>self.tables.size()
                self.tables.push_back(at[f])
                if own.size():
                    self.own.push_back(own[f])
                size = 1
                for i in range(ptr[f], ptr[f + 1]):
                    table_scope.push_back(scope[i])
                    size = size * card[scope[i]] if at[f] != NULL else i + 1 - ptr[f]
                table_ptr.push_back(<int64_t>table_scope.size())
                table_at.push_back(table_at.back() + size)
                continue
            group[f] = group[first[f]]
            whole = [scope[i] for i in range(ptr[first[f]], ptr[first[f] + 1])]
            mine = [scope[i] for i in range(ptr[f], ptr[f + 1])]
            table = self.read(at[f], mine).transpose([mine.index(v) for v in whole])
            if group[f] in joined:
                joined[group[f]] += table
                continue
            table = np.ascontiguousarray(self.read(self.tables[group[f]], whole) + table)
            joined[group[f]] = table
            self.tables[group[f]] = doubles(table)
        self.keep.append(joined)
        self.network = new CppNetwork()
        count = <int64_t>self.tables.size()
        if own.size():
            kinds = self.own.data()
        with nogil:
            status = self.network.lay_out(n, card, count, table_ptr.data(), table_scope.data(),
                                          self.tables.data(), kinds, &call.control)
        call.end(status)
        self.structured_groups = []
        for f in range(<int64_t>self.own.size()):
            if self.own[f] != NULL:
                self.structured_groups.append(f)
        self.entries = self.network.n_entries()
        self.table_entries = self.network.table_entries()
        self.edge_at = longs(self.network.edge_at())
        self.wide, self.group = longs(wide), longs(group)
        self.ptr, self.scope, self.table_at = longs(table_ptr), longs(table_scope), longs(table_at)

    def is_structured(self, int64_t group):
        """Say whether a group is a structured factor."""
        return self.tables[group] == NULL

    def table(self, int64_t group):
        """Return a copy of the log-table of a group; of a structured factor k zeros."""
        if self.is_structured(group):
            return np.zeros(self.ptr[group + 1] - self.ptr[group])
        return self.read(self.tables[group], self.scope[self.ptr[group]:self.ptr[group + 1]])

    def flat_tables(self):
        """Return a copy of the log-tables of all groups, one after the other."""
        out = np.zeros(self.table_entries)
        cdef double* to = <double*>data(out)
        with nogil:
            self.network.side_by_side(to)
        return out

    cdef object read(self, const double* table, scope):
        out = np.empty(tuple(self.cards[v] for v in scope))
        memcpy(<void*>data(out), <const void*>table, out.nbytes)
        return out

    def split(self, flat):
        """Return what `flat` holds for each variable: views, one per variable."""
        cdef const int64_t* starts = indices(self.at)
        cdef int64_t n = self.at.shape[0] - 1
        cdef int64_t v
        for v in range(n):
            if starts[v + 1] - starts[v] != starts[1]:
                return [flat[starts[v]:starts[v + 1]] for v in range(n)]
        return list(flat.reshape(n, -1)) if n else []

    def __dealloc__(self):
        del self.network

    def weigh(self, rho):
        """Set the weight of each factor; None: all one."""
        self.network.weigh(doubles(rho))

    def run(self, local, messages, int schedule, bint best, double damping, double tolerance,
            int64_t max_iterations, int threads, deadline, progress, late, marginals):
        """Pass messages in place and fill marginals (flat) with what they come to.

        Return (dead variable or -1, converged, residuals, updates, log_z).
        """
        cdef RunOptions options
        cdef Call call = Call(max_iterations, deadline, progress, late)
        cdef const double* loc = doubles(local)
        cdef double* m = <double*>data(messages)
        cdef double* p = <double*>data(marginals)
        cdef int64_t dead = -1
        cdef double log_z = 0.0
        cdef int status
        options.schedule = schedule
        options.best = best
        options.damping = damping
        options.tolerance = tolerance
        options.max_iterations = max_iterations
        with nogil:
            status = self.network.run(loc, options, threads, &call.control, m, &dead)
            if status == kOk and p != NULL:
                status = self.network.answer(loc, m, threads, &call.control, p, &log_z, &dead)
        self.end(call, status)
        return (dead, *self.last(), log_z)

    cdef tuple last(self):
        cdef const RunProgress* run = &self.network.last()
        return run.converged, np.array(run.residuals, dtype=np.float64), run.updates

    def beliefs(self, local, messages, int threads, marginals, joints, deadline, late):
        """Fill marginals (flat) and joints (flat, or None); return (dead or -1, log_z)."""
        cdef Call call = Call(1, deadline, None, late)
        cdef const double* loc = doubles(local)
        cdef const double* m = doubles(messages)
        cdef double* p = <double*>data(marginals)
        cdef double* q = <double*>data(joints)
        cdef int64_t dead = -1
        cdef double log_z = 0.0
        cdef int status
        with nogil:
            status = self.network.beliefs(loc, m, threads, &call.control, p, &log_z, &dead)
            if status == kOk and q != NULL:
                status = self.network.joints(threads, &call.control, q)
        self.end(call, status)
        return dead, log_z

    def incoming(self, int64_t group):
        """Return the messages (k, 2) to a structured factor, after `beliefs`."""
        out = np.empty((self.ptr[group + 1] - self.ptr[group], 2))
        memcpy(data(out), self.network.to_factors() + <int64_t>self.edge_at[self.ptr[group]],
               out.nbytes)
        return out

    cdef int end(self, Call call, int status) except -1:
        self.raise_own()
        return call.end(status)

    cdef int raise_own(self) except -1:
        """Raise what a factor written in Python has raised."""
        if self.raised:
            error = self.raised[0]
            self.raised.clear()
            raise error
        return 0

    def assign(self, local, messages, int threads, deadline, late):
        """Return (dead or -1, states, score) by max-product messages."""
        cdef Call call = Call(1, deadline, None, late)
        states = np.empty(self.at.shape[0] - 1, dtype=np.int64)
        cdef const double* loc = doubles(local)
        cdef const double* m = doubles(messages)
        cdef int64_t* out = <int64_t*>data(states)
        cdef double score = 0.0
        cdef int64_t dead = -1
        cdef int status
        with nogil:
            status = self.network.assign(loc, m, threads, &call.control, out, &score, &dead)
        self.end(call, status)
        return dead, states, score

    def forests(self, local, messages, ptr, factors, bint best, deadline, late):
        """Return (dead or -1, log Z of each forest, scale of partial sums).

        `best`: the largest score of each instead.
        """
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
            status = self.network.forests(loc, m, count, p, f, best, &call.control, out, &scale,
                                          &dead)
        self.end(call, status)
        return dead, log_z, scale

    def spread_starts(self, q):
        """Make starts of mean field, in place, of beliefs (row 0) and weights (from row 2)."""
        cdef double* x = <double*>data(q)
        cdef int64_t starts = q.shape[0]
        with nogil:
            self.network.spread_starts(starts, x)

    def mean_field(self, local, q, int64_t max_iterations, double tolerance, int threads, deadline,
                   progress, late):
        """Ascend from rows in place; return (best, bound, scale, converged, residuals, updates)."""
        cdef Call call = Call(max_iterations, deadline, progress, late)
        cdef const double* loc = doubles(local)
        cdef double* x = <double*>data(q)
        cdef double bound = 0.0, scale = 0.0
        cdef int64_t best = 0, starts = q.shape[0]
        cdef int status
        with nogil:
            status = self.network.mean_field(loc, starts, max_iterations, tolerance, threads,
                                             &call.control, x, &best, &bound, &scale)
        self.end(call, status)
        return (best, bound, scale, *self.last())

    def structured(self, local, forest, node, table, int64_t max_iterations, double tolerance,
                   int threads, deadline, progress, late):
        """Ascend from rows of node and table in place; None where none of them has mass.

        Else (best row, marginals, joints, forest that is left, bound, scale, *last()).
        """
        cdef Call call = Call(max_iterations, deadline, progress, late)
        q, joints = np.empty(self.local.shape[0]), np.empty(self.table_entries)
        held = np.zeros(self.ptr.shape[0] - 1, dtype=np.uint8)
        cdef uint8_t* in_forest = <uint8_t*>data(held)
        cdef int64_t count = forest.shape[0]
        cdef const int64_t* f = indices(forest)
        cdef const double* loc = doubles(local)
        cdef double* a = <double*>data(node)
        cdef double* b = <double*>data(table)
        cdef double* p = <double*>data(q)
        cdef double* j = <double*>data(joints)
        cdef double bound = 0.0, scale = 0.0
        cdef int64_t best = 0, starts = node.shape[0]
        cdef int status
        with nogil:
            status = self.network.structured(
                loc, starts, count, f, a, b, max_iterations, tolerance, threads, &call.control, p,
                j, in_forest, &best, &bound, &scale)
        self.end(call, status)
        if status == kInfeasible:
            return None
        return (best, q, joints, np.flatnonzero(held), bound, scale, *self.last())


include "dual/dual.pxi"
