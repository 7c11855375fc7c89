# cython: freethreading_compatible=True
"""Training of chains: checks nothing; hands arrays to C++ without the GIL."""

from cpython.pycapsule cimport PyCapsule_GetPointer
from libc.stdint cimport int32_t, int64_t, uint8_t
from libcpp.memory cimport unique_ptr
from libcpp.vector cimport vector

cimport numpy as cnp

import numpy as np

from valuesparse import _chain, _pool

cnp.import_array()


include "call.pxi"


cdef extern from "chain/run.h" namespace "vs" nogil:
    cdef cppclass ChainApi:
        pass


cdef extern from "training/online.h" namespace "vs" nogil:
    cdef cppclass Rule:
        Rule()
        int kind
        double beta, gamma, longest
        int slack
        double c
        bint error_sensitive
        double* variance
    cdef cppclass Learnt:
        Learnt()
        double* weights
        double* late
        uint8_t* touched
        int64_t time
    cdef cppclass Descent:
        Descent()
        double* vector
        double factor, decay, t0, eta
        int64_t time
        bint step
    cdef cppclass Pass:
        Pass()
        int status
        double loss
        int64_t updates, overflow


cdef extern from "training/engine.h" namespace "vs" nogil:
    cdef cppclass Corpus:
        int64_t n_labels, n_attributes, n_items, n_sequences, n_states
        const int64_t* item
        const int32_t* id
        const double* value
        const int64_t* offset
        const int64_t* edge
        const int32_t* gold
        const int64_t* first
        const int32_t* label
        const int32_t* move
    cdef cppclass Evaluation:
        int status
        double loss
        int64_t overflow
    cdef cppclass CEngine "vs::Engine":
        CEngine(const Corpus&) except +
        Evaluation evaluate(const double*, int64_t, double*, int, Control&) except +
        Evaluation decode(const double*, int64_t*, int, Control&) except +
        Pass learn(const Rule&, Learnt&, const int64_t*, int64_t, int64_t, Control&) except +
        Pass descend(Descent&, const int64_t*, int64_t, int64_t, Control&) except +
        void score_sequence(int64_t, const double*, double*) noexcept
        void pull(int64_t, const double*, vector[int64_t]&, vector[double]&) except +
        void transitions(const double*, double*) noexcept
    const PoolApi* g_pool "vs::Engine::pool"
    const ChainApi* g_chains "vs::Engine::chains"
    cdef cppclass Vectors:
        int threads
        Control* control
        const PoolApi* pool
        double dot(const double*, const double*, int64_t) except +
        void direction(int64_t, int, const int64_t*, const double*, const double*, const double*,
                       double, const double*, const double*, double*) except +


cdef extern from "training/names.h" namespace "vs" nogil:
    vector[char] c_name_table "vs::name_table"(const char*, const int64_t*, int64_t) except +


def _connect():
    global g_pool, g_chains
    g_pool = pool_api
    g_chains = <const ChainApi*>PyCapsule_GetPointer(_chain.api, "valuesparse._chain.api")


_connect()


cdef class Engine:
    """A corpus, its features and the memory to evaluate them in; see ext/training/engine.h."""

    cdef unique_ptr[CEngine] engine
    cdef Corpus c
    cdef tuple arrays
    cdef int64_t n_weights
    cdef object lock

    def __init__(self, int64_t n_labels, item, ids, values, offset, edge, gold, first, label, move,
                 int64_t n_weights):
        self.arrays = (item, ids, values, offset, edge, gold, first, label, move)
        self.lock = threading.Lock()
        self.n_weights = n_weights
        self.c.n_labels = n_labels
        self.c.n_attributes = first.shape[0] - 1
        self.c.n_items = gold.shape[0]
        self.c.n_sequences = offset.shape[0] - 1
        self.c.n_states = label.shape[0]
        self.c.item = <const int64_t*>data(item)
        self.c.id = <const int32_t*>data(ids)
        self.c.value = <const double*>data(values)
        self.c.offset = <const int64_t*>data(offset)
        self.c.edge = <const int64_t*>data(edge)
        self.c.gold = <const int32_t*>data(gold)
        self.c.first = <const int64_t*>data(first)
        self.c.label = <const int32_t*>data(label)
        self.c.move = <const int32_t*>data(move)
        with nogil:
            self.engine.reset(new CEngine(self.c))

    def evaluate(self, weights, gradient, int threads):
        """Return (loss, overflow): overflow is the item whose scores are too large, or -1."""
        cdef Evaluation e
        cdef Call call = Call(self.c.n_items, None, None, None)
        cdef const double* w = <const double*>data(weights)
        cdef double* g = <double*>data(gradient)
        with self.lock:
            with nogil:
                e = self.engine.get().evaluate(w, self.n_weights, g, threads, call.control)
        call.end(e.status)
        return e.loss, e.overflow

    def decode(self, weights, states, int threads):
        """Fill the best labels; return the item whose scores are too large, or -1."""
        cdef Evaluation e
        cdef Call call = Call(self.c.n_items, None, None, None)
        cdef const double* w = <const double*>data(weights)
        cdef int64_t* x = <int64_t*>data(states)
        with self.lock:
            with nogil:
                e = self.engine.get().decode(w, x, threads, call.control)
        call.end(e.status)
        return e.overflow

    def scores(self, int64_t sequence, weights, unary):
        cdef const double* w = <const double*>data(weights)
        self.engine.get().score_sequence(sequence, w, <double*>data(unary))

    def transitions(self, weights, table):
        self.engine.get().transitions(<const double*>data(weights), <double*>data(table))

    def learn(self, order, weights, late, touched, int64_t time, int kind, double beta,
              double gamma, double longest, int slack, double c, bint error_sensitive, variance):
        """Take the sequences `order` one by one; return (loss, updates, overflow).

        `time` sequences came before. Weights, late, touched and variance change in place.
        """
        cdef Call call = Call(self.c.n_items, None, None, None)
        cdef Rule rule
        cdef Learnt to
        cdef Pass p
        cdef const int64_t* o = <const int64_t*>data(order)
        cdef int64_t n = order.shape[0]
        rule.kind = kind
        rule.beta = beta
        rule.gamma = gamma
        rule.longest = longest
        rule.slack = slack
        rule.c = c
        rule.error_sensitive = error_sensitive
        rule.variance = <double*>data(variance)
        to.weights = <double*>data(weights)
        to.late = <double*>data(late)
        to.touched = <uint8_t*>data(touched)
        to.time = time
        with self.lock:
            with nogil:
                p = self.engine.get().learn(rule, to, o, n, self.n_weights, call.control)
        call.end(p.status)
        return p.loss, p.updates, p.overflow

    def descend(self, order, scaled, double factor, int64_t time, double decay, double t0,
                double eta, bint step):
        """Take gradient steps, one for each of `order`; return (loss, factor, time, overflow)."""
        cdef Call call = Call(self.c.n_items, None, None, None)
        cdef Descent to
        cdef Pass p
        cdef const int64_t* o = <const int64_t*>data(order)
        cdef int64_t n = order.shape[0]
        to.vector = <double*>data(scaled)
        to.factor = factor
        to.time = time
        to.decay = decay
        to.t0 = t0
        to.eta = eta
        to.step = step
        with self.lock:
            with nogil:
                p = self.engine.get().descend(to, o, n, self.n_weights, call.control)
        call.end(p.status)
        return p.loss, to.factor, to.time, p.overflow

    def pull(self, int64_t sequence, residual):
        """Return (features, values): the sum of residual times attribute values, by feature."""
        cdef vector[int64_t] features
        cdef vector[double] values
        with self.lock:
            self.engine.get().pull(sequence, <const double*>data(residual), features, values)
        n = <Py_ssize_t>features.size()
        if n == 0:
            return np.empty(0, np.int64), np.empty(0)
        return (np.array(<int64_t[:n]>features.data()), np.array(<double[:n]>values.data()))


def dot(x, y, int threads):
    """Sum of products, in an order that does not depend on the number of threads."""
    cdef Call call = Call(0, None, None, None)
    cdef Vectors v
    cdef const double* a = <const double*>data(x)
    cdef const double* b = <const double*>data(y)
    cdef int64_t n = x.shape[0]
    cdef double answer
    v.threads = threads
    v.control = &call.control
    v.pool = g_pool
    with nogil:
        answer = v.dot(a, b, n)
    call.end(kOk)
    return answer


def direction(order, s, y, sy, double scale, diagonal, gradient, out, int threads):
    """Fill `out` with the direction of L-BFGS; `order` names the pairs in use, oldest first."""
    cdef Call call = Call(0, None, None, None)
    cdef Vectors v
    cdef const int64_t* o = <const int64_t*>data(order)
    cdef const double* a = <const double*>data(s)
    cdef const double* b = <const double*>data(y)
    cdef const double* c = <const double*>data(sy)
    cdef const double* h = <const double*>data(diagonal)
    cdef const double* g = <const double*>data(gradient)
    cdef double* d = <double*>data(out)
    cdef int64_t n = gradient.shape[0]
    cdef int m = order.shape[0]
    v.threads = threads
    v.control = &call.control
    v.pool = g_pool
    with nogil:
        v.direction(n, m, o, a, b, c, scale, h, g, d)
    call.end(kOk)


def name_table(bytes text, begin):
    """Return the bytes of a CQDB chunk of names that end with NULs; begin has their places."""
    cdef vector[char] out
    cdef const char* t = text
    cdef const int64_t* b = <const int64_t*>data(begin)
    cdef int64_t n = begin.shape[0] - 1
    with nogil:
        out = c_name_table(t, b, n)
    return (<const char*>out.data())[:out.size()]
