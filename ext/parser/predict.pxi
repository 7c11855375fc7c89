cdef extern from "parser/features.h" namespace "vs::parser" nogil:
    cdef cppclass Sentence:
        Sentence() except +
        void read(const uint32_t*, int64_t) except +


cdef extern from "parser/labels.h" namespace "vs::parser" nogil:
    cdef cppclass Labels:
        Labels(int64_t, int) except +
        int64_t n_weights()
    cdef cppclass Labeller:
        Labeller(const Labels&) except +
        void read(const Sentence&) except +
        int32_t label(const float*, int64_t, int64_t) except +
    cdef cppclass LabelsLearnt "vs::parser::Labeller::Learnt":
        double* weights
        double* late
        int64_t time
    int64_t c_learn_labels "vs::parser::learn_labels"(
        const Labels&, const uint32_t*, const int64_t*, const int32_t*, const int32_t*,
        const int64_t*, int64_t, LabelsLearnt*) except +


cdef extern from "parser/class_weights.h" namespace "vs::parser" nogil:
    cdef enum Kind "vs::parser::Kind":
        kArc "vs::parser::Kind::kArc"
        kSibling "vs::parser::Kind::kSibling"
        kGrandparent "vs::parser::Kind::kGrandparent"
        kPruner "vs::parser::Kind::kPruner"
    cdef cppclass ClassWeights:
        ClassWeights(const Templates&, Kind, const float*) except +


cdef extern from "parser/predict.h" namespace "vs::parser" nogil:
    cdef cppclass Model:
        Model()
        const Templates* parts
        const float* weights
        const Templates* pruner
        const float* pruner_weights
        const Labels* labels
        const float* label_weights
        ClassWeights* arcs
        ClassWeights* kept
        ClassWeights* siblings
        ClassWeights* grandparents
    cdef enum Engine "vs::parser::Engine":
        kMessages "vs::parser::Engine::kMessages"
        kRelaxed "vs::parser::Engine::kRelaxed"
        kProgram "vs::parser::Engine::kProgram"
    cdef cppclass Method:
        Method()
        Engine engine
        double tolerance
        int64_t max_iterations
        RelaxedOptions options
        Effort effort
    cdef cppclass Told:
        pass
    cdef cppclass Answers:
        Answers()
        int32_t* heads
        int32_t* labels
        double* confidence
        Told* told
    int c_predict "vs::parser::predict"(const Model&, const Method&, const Corpus&, const CTrees&,
                                        int, const PoolApi&, Control*, const Answers&) except +


cdef extern from "parser/prune.h" namespace "vs::parser" nogil:
    cdef cppclass CPruner "vs::parser::Pruner":
        CPruner(const Templates&, const CTrees&) except +
        void prune(const float*, const uint32_t*, int64_t, const int32_t*, Kept*) except +


def weights_of_labels(int64_t n_labels, int bits):
    """Return how many weights a labeller has."""
    cdef unique_ptr[Labels] labels
    labels.reset(new Labels(n_labels, bits))
    return labels.get().n_weights()


def weights_of_parts(int order, int bits):
    """Return how many weights a model has.

    order: that of a pruner (0), of arcs (1), of pairs as well (2), of non-projective arcs, too (3).
    """
    cdef unique_ptr[Templates] templates
    templates.reset(new Templates(order, bits))
    return templates.get().n_weights()


def learn_labels(int64_t n_labels, int bits, words, offset, heads, gold, order, weights, late,
                 int64_t time):
    """Take a pass over the sentences `order`; return how many labels were wrong."""
    cdef unique_ptr[Labels] labels
    cdef LabelsLearnt to
    cdef const uint32_t* w = <const uint32_t*>data(words)
    cdef const int64_t* o = <const int64_t*>data(offset)
    cdef const int32_t* h = <const int32_t*>data(heads)
    cdef const int32_t* g = <const int32_t*>data(gold)
    cdef const int64_t* which = <const int64_t*>data(order)
    cdef int64_t count = order.shape[0], wrong
    labels.reset(new Labels(n_labels, bits))
    to.weights = <double*>data(weights)
    to.late = <double*>data(late)
    to.time = time
    with nogil:
        wrong = c_learn_labels(labels.get()[0], w, o, h, g, which, count, &to)
    return wrong


cdef class Predictor:
    """A parser's weights, float32; shared by any number of calls.

    trees: projective, single_root. how: which pairs take part (0: all; else 1 + `Choice`, and how
    much of it), how many rounds (-1: until no pair is added); iterations of belief propagation,
    tolerance and damping of its messages.
    """

    cdef unique_ptr[Templates] templates
    cdef unique_ptr[Templates] pruner
    cdef unique_ptr[Labels] labels
    cdef unique_ptr[CBounds] bounds
    cdef unique_ptr[ClassWeights] arcs
    cdef unique_ptr[ClassWeights] siblings
    cdef unique_ptr[ClassWeights] grandparents
    cdef unique_ptr[ClassWeights] pruner_arcs
    cdef Model model
    cdef object arrays

    def __cinit__(self, int order, int bits, weights, int pruner_bits, pruner_weights,
                  int64_t n_labels, int label_bits, label_weights, dictionary=None):
        self.arrays = (weights, pruner_weights, label_weights)
        self.templates.reset(templates_of(order, bits, dictionary))
        self.labels.reset(new Labels(n_labels, label_bits))
        self.model.parts = self.templates.get()
        self.model.weights = <const float*>data(weights)
        self.model.labels = self.labels.get()
        self.model.label_weights = <const float*>data(label_weights)
        if dictionary is None:
            self.arcs.reset(new ClassWeights(self.templates.get()[0], kArc, self.model.weights))
            if order > 1:
                self.siblings.reset(
                    new ClassWeights(self.templates.get()[0], kSibling, self.model.weights))
                self.grandparents.reset(
                    new ClassWeights(self.templates.get()[0], kGrandparent, self.model.weights))
                self.model.siblings = self.siblings.get()
                self.model.grandparents = self.grandparents.get()
        if order > 1:
            self.bounds.reset(new CBounds(self.templates.get()[0], self.model.weights))
        if pruner_weights is not None:
            self.pruner.reset(new Templates(0, pruner_bits))
            self.model.pruner_weights = <const float*>data(pruner_weights)
            self.pruner_arcs.reset(
                new ClassWeights(self.pruner.get()[0], kPruner, self.model.pruner_weights))

    cdef Method method(self, tuple how):
        cdef Method method
        cdef int choice = int(how[0]) - 1
        # Without pairs there is nothing to relax: the marginals of arcs are the answer.
        method.engine = kRelaxed if choice >= 0 and self.bounds.get() != NULL else kMessages
        method.options.choice = <Choice>max(choice, 0)
        method.options.amount, method.options.rounds = how[1], how[2]
        method.options.bounds = self.bounds.get()
        method.effort.iterations = how[3]
        method.effort.tolerance, method.effort.damping = how[4], how[5]
        return method

    cdef read(self, Worker* worker, const CTrees& trees, words, bint prune, bint pairs):
        cdef Kept kept
        cdef unique_ptr[CPruner] pruner
        cdef const uint32_t* w = <const uint32_t*>data(words)
        cdef Listed arcs
        if prune:
            pruner.reset(new CPruner(self.pruner.get()[0], trees))
            pruner.get().prune(self.model.pruner_weights, w, words.shape[0], NULL, &kept)
            arcs = kept.listed()
        worker.read(w, words.shape[0], arcs, pairs)

    def parts(self, words, bint prune, trees):
        """Return kinds (P,) int8, nodes (P, 3) int32 and scores (P,) of the parts of a sentence."""
        cdef CTrees of = trees_of(trees[0], trees[1])
        cdef unique_ptr[Worker] worker
        cdef const double* score
        cdef int64_t k
        worker.reset(new Worker(self.templates.get()[0], of))
        self.read(worker.get(), of, words, prune, True)
        score = worker.get().score(self.model.weights)
        scores = np.empty(worker.get().parts().size())
        cdef double* out = <double*>data(scores)
        for k in range(scores.shape[0]):
            out[k] = score[k]
        return *listed(&worker.get().parts()), scores

    def beliefs(self, words, tuple how, bint prune, trees):
        """Return log Z; kinds, nodes, beliefs of the parts used; rounds; pairs scored."""
        cdef CTrees of = trees_of(trees[0], trees[1])
        cdef unique_ptr[Worker] worker
        cdef Method method = self.method(how)
        cdef unique_ptr[RelaxedShared] shared
        cdef PairWeights pairs
        cdef vector[double] found
        cdef int64_t k
        worker.reset(new Worker(self.templates.get()[0], of))
        self.read(worker.get(), of, words, prune, method.engine != kRelaxed)
        worker.get().loopy().effort = method.effort
        if method.engine == kRelaxed:
            pairs.all = self.model.weights
            shared.reset(new RelaxedShared(self.templates.get()[0], pairs))
            log_z = worker.get().relax(method.options, &found, shared.get())
        else:
            found.resize(worker.get().parts().size())
            log_z = worker.get().marginals(worker.get().score(self.model.weights), found.data())
        beliefs = np.empty(found.size())
        cdef double* out = <double*>data(beliefs)
        for k in range(beliefs.shape[0]):
            out[k] = found[k]
        counts = worker.get().counts()
        return (log_z, *listed(&worker.get().parts()), beliefs, counts.rounds, counts.scored)

    def label(self, words, heads):
        """Return the labels (n,) int32 of the arcs of a sentence with these heads (n,) int32."""
        cdef Sentence sentence
        cdef unique_ptr[Labeller] labeller
        cdef const int32_t* head = <const int32_t*>data(heads)
        cdef int64_t m, n = words.shape[0]
        labels = np.zeros(n, np.int32)
        cdef int32_t* out = <int32_t*>data(labels)
        labeller.reset(new Labeller(self.labels.get()[0]))
        sentence.read(<const uint32_t*>data(words), n)
        labeller.get().read(sentence)
        for m in range(n):
            out[m] = labeller.get().label(self.model.label_weights, head[m], m + 1)
        return labels

    def predict(self, words, offset, tuple how, bint prune, trees, int threads):
        """Return heads, labels (N,) int32, confidence (N,) and `Told` (B, 7) int64."""
        return self.each(words, offset, self.method(how), prune, trees, threads)

    def solve(self, words, offset, double tolerance, int64_t max_iterations, bint prune, trees,
              int threads):
        """Do as `predict`, by the linear program of each sentence."""
        cdef Method method
        method.engine = kProgram
        method.tolerance, method.max_iterations = tolerance, max_iterations
        return self.each(words, offset, method, prune, trees, threads)

    cdef tuple each(self, words, offset, const Method& method, bint prune, trees, int threads):
        cdef Call call = Call(offset.shape[0] - 1, None, None, None)
        cdef Corpus corpus = corpus_of(words, offset, None, None)
        cdef CTrees of = trees_of(trees[0], trees[1])
        cdef Model model = self.model
        cdef Answers answers
        cdef int status
        heads, labels = np.zeros((2, words.shape[0]), np.int32)
        confidence, told = np.zeros(words.shape[0]), np.zeros((offset.shape[0] - 1, 7), np.int64)
        answers.heads = <int32_t*>data(heads)
        answers.labels = <int32_t*>data(labels)
        answers.confidence = <double*>data(confidence)
        answers.told = <Told*>data(told)
        model.arcs = self.arcs.get()
        if prune:
            model.pruner = self.pruner.get()
            model.arcs, model.kept = self.pruner_arcs.get(), self.arcs.get()
        with nogil:
            status = c_predict(model, method, corpus, of, threads, pool_api[0], &call.control,
                               answers)
        call.end(status)
        return heads, labels, confidence, told
