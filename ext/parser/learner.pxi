cdef extern from "parser/parts.h" namespace "vs::parser" nogil:
    cdef cppclass CDictionary "vs::parser::Dictionary":
        CDictionary()
        const int64_t* sizes
        const uint32_t* keys
        const uint16_t* slots
    cdef cppclass Set:
        int64_t size()
    cdef cppclass Templates:
        Templates(int, int) except +
        Templates(int, const CDictionary&) except +
        int64_t weight(int64_t, int)
        int64_t n_weights()
        int order
        vector[Set] sets
    cdef cppclass Pair "vs::parser::Parts::Pair":
        int32_t* nodes
    cdef cppclass Parts:
        int64_t n
        vector[int32_t] head, modifier
        vector[Pair] siblings, grandparents
        vector[int32_t] nonprojective
        int64_t arcs()
        int64_t pairs()
        int64_t size()
        void structure(const int32_t*, double*)
    cdef cppclass Change:
        uint32_t line
        int8_t a, b
        double value
    cdef cppclass Scorer:
        void score(const double*, const Parts&, double*) except +
        void pull(const Parts&, const double*, double, Push) except +


cdef extern from *:
    """
    // Keeps the changes of a gradient.
    struct Push {
        Push() = default;
        explicit Push(std::vector<vs::parser::Change>* where) : to(where) {}
        std::vector<vs::parser::Change>* to = nullptr;
        void operator()(const vs::parser::Change& c) const { to->push_back(c); }
    };
    """
    cdef cppclass Push:
        pass
    Push push "Push"(vector[Change]*) noexcept


cdef extern from "parser/pair_scores.h" namespace "vs::parser" nogil:
    cdef cppclass PairWeights "vs::parser::PairScores::Weights":
        PairWeights()
        const float* all


cdef extern from "parser/relaxed.h" namespace "vs::parser" nogil:
    cdef cppclass Effort:
        Effort()
        int64_t iterations
        double tolerance, damping
    cdef cppclass CLoopy "vs::parser::Loopy":
        Effort effort
    cdef cppclass CBounds "vs::parser::Bounds":
        CBounds(const Templates&, const float*) except +
    cdef cppclass Choice:
        pass
    cdef cppclass RelaxedOptions "vs::parser::Relaxed::Options":
        Choice choice
        double amount
        int64_t rounds
        const CBounds* bounds
    cdef cppclass RelaxedShared "vs::parser::Relaxed::Shared":
        RelaxedShared(const Templates&, const PairWeights&) except +
    cdef cppclass RelaxedCounts "vs::parser::Relaxed::Counts":
        int64_t rounds, scored, iterations
        bint converged


cdef extern from "parser/worker.h" namespace "vs::parser" nogil:
    cdef cppclass Listed:
        pass
    cdef cppclass Corpus:
        int64_t sentences
        const int64_t* offset
        const uint32_t* words
        const int32_t* heads
        const int64_t* arc_at
        const int32_t* arc_head
        const int32_t* arc_modifier
        int64_t size(int64_t)
        const uint32_t* sentence(int64_t)
        const int32_t* gold(int64_t)
        Listed arcs(int64_t)
    cdef cppclass CTrees "vs::parser::Trees":
        const TreesApi* api
        TreeKind kind
        bint single_root
    cdef cppclass CRule "vs::parser::Rule":
        CRule()
        double beta, gamma, longest
    cdef cppclass Worker:
        Worker(const Templates&, const CTrees&) except +
        void read(const uint32_t*, int64_t, const Listed&, bint) except +
        double relax(const RelaxedOptions&, vector[double]*, RelaxedShared*) except +
        const RelaxedCounts& counts()
        CLoopy& loopy()
        const double* score "score<float>"(const float*) except +
        const Parts& parts()
        const Scorer& scorer()
        double marginals(const double*, double*) except +
        double best(const double*, const int32_t**) except +
        int point(const double*, Control*, double*) except +


cdef extern from "parser/learner.h" namespace "vs::parser" nogil:
    cdef cppclass Learnt:
        double* weights
        double* late
        uint8_t* touched
        int64_t time
    cdef cppclass Pass:
        int status
        double loss
        int64_t updates
        int64_t cut_short
    cdef cppclass CLearner "vs::parser::Learner":
        CLearner(const Corpus&, const Templates&, const CTrees&) except +
        Pass sweep(const CRule&, const Learnt&, const int64_t*, int64_t, int64_t, double,
                   int, const PoolApi&, Control*) except +


cdef extern from "parser/prune.h" namespace "vs::parser" nogil:
    cdef cppclass Kept:
        vector[int32_t] head, modifier
        Listed listed()
    int c_prune "vs::parser::prune"(const Corpus&, const Templates&, const CTrees&, const float*,
                                    int, const PoolApi&, Control*, vector[Kept]*) except +


cdef listed(const Parts* parts):
    """Return kinds (P,) int8 and nodes (P, 3) int32 of parts."""
    cdef int64_t size = parts.size(), k, j
    kinds, nodes = np.zeros(size, np.int8), np.full((size, 3), -1, np.int32)
    cdef int8_t* kind = <int8_t*>data(kinds)
    cdef int32_t* node = <int32_t*>data(nodes)
    cdef int64_t arcs = parts.arcs(), siblings = <int64_t>parts.siblings.size()
    for k in range(arcs):
        node[3 * k] = parts.head[k]
        node[3 * k + 1] = parts.modifier[k]
    cdef int64_t ends = arcs + parts.pairs()
    for k in range(ends, size):
        kind[k] = 3
        node[3 * k] = parts.head[parts.nonprojective[k - ends]]
        node[3 * k + 1] = parts.modifier[parts.nonprojective[k - ends]]
    for k in range(arcs, ends):
        kind[k] = 1 if k < arcs + siblings else 2
        for j in range(3):
            node[3 * k + j] = (parts.siblings[k - arcs].nodes[j] if k < arcs + siblings else
                               parts.grandparents[k - arcs - siblings].nodes[j])
    return kinds, nodes


cdef CTrees trees_of(bint projective, bint single_root):
    cdef CTrees trees
    trees.api = trees_api
    trees.kind = kProjective if projective else kTree
    trees.single_root = single_root
    return trees


cdef Corpus corpus_of(words, offset, heads, arcs):
    cdef Corpus corpus
    corpus.sentences = offset.shape[0] - 1
    corpus.offset = <const int64_t*>data(offset)
    corpus.words = <const uint32_t*>data(words)
    corpus.heads = <const int32_t*>data(heads)
    if arcs is not None:
        corpus.arc_at = <const int64_t*>data(arcs[0])
        corpus.arc_head = <const int32_t*>data(arcs[1])
        corpus.arc_modifier = <const int32_t*>data(arcs[2])
    return corpus


cdef class Learner:
    """The parts of a treebank and their weights; one call at a time. Order 0: those of a pruner;
    3: whether arcs are non-projective, too.

    words (N, FIELDS) uint32, offset (B + 1,) int64, heads (N,) int32; arcs: None, or where those of
    each sentence begin (B + 1,) int64, and their heads and modifiers, int32. dictionary: None, or
    sizes, keys, slots. cut_short: sentences of the last pass whose programs were.
    """

    cdef unique_ptr[Templates] templates
    cdef unique_ptr[Worker] worker
    cdef unique_ptr[CLearner] learner
    cdef Corpus corpus
    cdef CTrees trees
    cdef object arrays
    cdef int64_t at
    cdef readonly int64_t n_weights
    cdef readonly int64_t cut_short

    def __cinit__(self, words, offset, heads, arcs, int order, int bits, bint projective,
                  bint single_root, dictionary):
        self.trees = trees_of(projective, single_root)
        self.arrays = (words, offset, heads, arcs, dictionary)
        self.corpus = corpus_of(words, offset, heads, arcs)
        self.templates.reset(templates_of(order, bits, dictionary))
        self.worker.reset(new Worker(self.templates.get()[0], self.trees))
        self.learner.reset(new CLearner(self.corpus, self.templates.get()[0], self.trees))
        self.n_weights = self.templates.get().n_weights()
        self.at = -1

    cdef int64_t read(self, int64_t i) except -1:
        if self.at != i:
            self.at = -1
            self.worker.get().read(self.corpus.sentence(i), self.corpus.size(i),
                                   self.corpus.arcs(i), True)
            self.at = i
        return self.worker.get().parts().size()

    def parts(self, int64_t i):
        """Return kinds (P,) int8 and nodes (P, 3) int32 of the parts of sentence i."""
        self.read(i)
        return listed(&self.worker.get().parts())

    def scores(self, int64_t i, weights):
        """Return the potentials of the parts (P,)."""
        out = np.empty(self.read(i))
        self.worker.get().scorer().score(<const double*>data(weights), self.worker.get().parts(),
                                         <double*>data(out))
        return out

    def gold(self, int64_t i):
        """Return which parts the tree has (P,)."""
        out = np.empty(self.read(i))
        self.worker.get().parts().structure(self.corpus.heads + self.corpus.offset[i],
                                            <double*>data(out))
        return out

    def marginals(self, int64_t i, potentials):
        """Return log Z and the marginals (P,)."""
        out = np.zeros(self.read(i))
        log_z = self.worker.get().marginals(<const double*>data(potentials), <double*>data(out))
        return log_z, out

    def best(self, int64_t i, potentials):
        """Return the score of the best tree and which parts it has (P,)."""
        cdef const int32_t* heads
        out = np.zeros(self.read(i))
        score = self.worker.get().best(<const double*>data(potentials), &heads)
        self.worker.get().parts().structure(heads, <double*>data(out))
        return score, out

    def point(self, int64_t i, potentials):
        """Return the parts (P,) of the best point of the linear program; None: there is no tree."""
        cdef Call call = Call(1, None, None, None)
        cdef const double* given = <const double*>data(potentials)
        cdef double* found
        cdef int status
        out = np.zeros(self.read(i))
        found = <double*>data(out)
        with nogil:
            status = self.worker.get().point(given, &call.control, found)
        if status == kInfeasible:
            return None
        call.end(status)
        return out

    def gradient(self, int64_t i, residual):
        """Return weights, repeated, and what each is told."""
        cdef vector[Change] changes
        cdef int64_t k, j
        cdef int slots[3]
        self.read(i)
        self.worker.get().scorer().pull(self.worker.get().parts(), <const double*>data(residual),
                                        0.0, push(&changes))
        indices = np.empty((changes.size(), 3), np.int64)
        values = np.empty((changes.size(), 3))
        cdef int64_t* index = <int64_t*>data(indices)
        cdef double* value = <double*>data(values)
        for k in range(<int64_t>changes.size()):
            slots[0], slots[1], slots[2] = 0, changes[k].a, changes[k].b
            for j in range(3):
                index[3 * k + j] = self.templates.get().weight(changes[k].line, slots[j])
                value[3 * k + j] = changes[k].value
        there = indices.ravel() >= 0
        return indices.ravel()[there], values.ravel()[there]

    def sweep(self, double beta, double gamma, double longest, order, int64_t batch,
              double least, weights, late, touched, int64_t time, int threads):
        """Take a pass over the sentences `order`; return the loss and the number of updates."""
        cdef Call call = Call(order.shape[0], None, None, None)
        cdef CRule r
        cdef Learnt to
        cdef Pass done
        cdef const int64_t* which = <const int64_t*>data(order)
        cdef int64_t count = order.shape[0]
        r.beta, r.gamma, r.longest = beta, gamma, longest
        to.weights = <double*>data(weights)
        to.late = <double*>data(late)
        to.touched = <uint8_t*>data(touched)
        to.time = time
        with nogil:
            done = self.learner.get().sweep(r, to, which, count, batch, least, threads, pool_api[0],
                                            &call.control)
        call.end(done.status)
        self.cut_short = done.cut_short
        return done.loss, done.updates

    def prune(self, weights, int threads):
        """Return the arcs that the weights (n_weights,) float32 of a pruner leave, as `arcs`."""
        cdef Call call = Call(self.corpus.sentences, None, None, None)
        cdef vector[Kept] kept
        cdef const float* w = <const float*>data(weights)
        cdef int status
        cdef int64_t i, k, at = 0
        with nogil:
            status = c_prune(self.corpus, self.templates.get()[0], self.trees, w, threads,
                             pool_api[0], &call.control, &kept)
        call.end(status)
        begin = np.zeros(self.corpus.sentences + 1, np.int64)
        cdef int64_t* b = <int64_t*>data(begin)
        for i in range(self.corpus.sentences):
            b[i + 1] = b[i] + <int64_t>kept[i].head.size()
        heads, modifiers = np.empty((2, b[self.corpus.sentences]), np.int32)
        cdef int32_t* h = <int32_t*>data(heads)
        cdef int32_t* m = <int32_t*>data(modifiers)
        for i in range(self.corpus.sentences):
            for k in range(<int64_t>kept[i].head.size()):
                h[at] = kept[i].head[k]
                m[at] = kept[i].modifier[k]
                at += 1
        return begin, heads, modifiers
