cdef extern from "crf/online.h" namespace "vs::crf" nogil:
    cdef cppclass OnlineRule:
        OnlineRule()
        int kind
        double beta, gamma, longest
        int slack
        double c
        bint error_sensitive
        double* variance
    cdef cppclass OnlineState:
        OnlineState()
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
    cdef cppclass OnlinePass:
        OnlinePass()
        int status
        double loss
        int64_t updates, overflow


cdef extern from "crf/evaluator.h" namespace "vs::crf" nogil:
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
        const int64_t* source
        const int32_t* target
        const int64_t* set
        const int32_t* member
        const uint8_t* banned
        const double* start
        const double* end
    cdef cppclass Narrow:
        Narrow()
        const double* most
        double* scores
        uint8_t* went
    cdef cppclass Evaluation:
        int status
        double loss
        int64_t overflow
    cdef cppclass CEvaluator "vs::crf::Evaluator":
        CEvaluator(const Corpus&) except +
        Evaluation evaluate(const double*, int64_t, double*, int, const Narrow*,
                            Control&) except +
        Evaluation decode(const double*, int64_t*, int, Control&) except +
        OnlinePass learn(const OnlineRule&, OnlineState&, const int64_t*, int64_t, int64_t,
                         Control&) except +
        OnlinePass descend(Descent&, const int64_t*, int64_t, int64_t, Control&) except +
        void score_sequence(int64_t, const double*, double*) noexcept
        void pull(int64_t, const double*, vector[int64_t]&, vector[double]&) except +
        void transitions(const double*, double*) noexcept
    const PoolApi* g_pool "vs::crf::Evaluator::pool"
    const ForestApi* g_forests "vs::crf::Evaluator::forests"


g_pool = pool_api
g_forests = forests


cdef class Evaluator:
    """A corpus, its features and the memory to evaluate them in; see ext/crf/evaluator.h."""

    cdef unique_ptr[CEvaluator] evaluator
    cdef Corpus c
    cdef tuple arrays
    cdef int64_t n_weights
    cdef object lock

    def __init__(self, int64_t n_labels, item, ids, values, offset, edge, gold, first, label,
                 source, target, int64_t n_weights, sets, members, banned, start, end):
        self.arrays = (item, ids, values, offset, edge, gold, first, label, source, target, sets,
                       members, banned, start, end)
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
        self.c.source = <const int64_t*>data(source)
        self.c.target = <const int32_t*>data(target)
        self.c.set = <const int64_t*>data(sets)
        self.c.member = <const int32_t*>data(members)
        self.c.banned = <const uint8_t*>data(banned)
        self.c.start = <const double*>data(start)
        self.c.end = <const double*>data(end)
        with nogil:
            self.evaluator.reset(new CEvaluator(self.c))

    def evaluate(self, weights, gradient, int threads, most=None, scores=None, went=None):
        """Return (loss, overflow): overflow is the item whose scores are too large, or -1.

        Sequences whose scores are at most `most` (B,) go in float32; their scores, and whether they
        went, are filled in (B,).
        """
        cdef Evaluation e
        cdef Narrow narrow
        cdef const Narrow* some = NULL
        if most is not None:
            narrow.most = <const double*>data(most)
            narrow.scores = <double*>data(scores)
            narrow.went = <uint8_t*>data(went)
            some = &narrow
        cdef Call call = Call(self.c.n_items, None, None, None)
        cdef const double* w = <const double*>data(weights)
        cdef double* g = <double*>data(gradient)
        with self.lock:
            with nogil:
                e = self.evaluator.get().evaluate(
                    w, self.n_weights, g, threads, some, call.control)
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
                e = self.evaluator.get().decode(w, x, threads, call.control)
        call.end(e.status)
        return e.overflow

    def scores(self, int64_t sequence, weights, unary):
        cdef const double* w = <const double*>data(weights)
        self.evaluator.get().score_sequence(sequence, w, <double*>data(unary))

    def transitions(self, weights, table):
        self.evaluator.get().transitions(<const double*>data(weights), <double*>data(table))

    def learn(self, order, weights, late, touched, int64_t time, int kind, double beta,
              double gamma, double longest, int slack, double c, bint error_sensitive, variance):
        """Take the sequences `order` one by one; return (loss, updates, overflow).

        `time` sequences came before. Weights, late, touched and variance change in place.
        """
        cdef Call call = Call(self.c.n_items, None, None, None)
        cdef OnlineRule rule
        cdef OnlineState to
        cdef OnlinePass p
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
                p = self.evaluator.get().learn(rule, to, o, n, self.n_weights, call.control)
        call.end(p.status)
        return p.loss, p.updates, p.overflow

    def descend(self, order, scaled, double factor, int64_t time, double decay, double t0,
                double eta, bint step):
        """Take gradient steps, one for each of `order`; return (loss, factor, time, overflow)."""
        cdef Call call = Call(self.c.n_items, None, None, None)
        cdef Descent to
        cdef OnlinePass p
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
                p = self.evaluator.get().descend(to, o, n, self.n_weights, call.control)
        call.end(p.status)
        return p.loss, to.factor, to.time, p.overflow

    def pull(self, int64_t sequence, residual):
        """Return (features, values): the sum of residual times attribute values, by feature."""
        cdef vector[int64_t] features
        cdef vector[double] values
        with self.lock:
            self.evaluator.get().pull(sequence, <const double*>data(residual), features, values)
        return (array_of(features.data(), features.size(), cnp.NPY_INT64),
                array_of(values.data(), values.size(), cnp.NPY_FLOAT64))
