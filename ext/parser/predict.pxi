cdef extern from "parser/labels.h" namespace "vs::parser" nogil:
    cdef cppclass Labels:
        Labels(int64_t, int) except +
        int64_t n_weights()
    cdef cppclass LabelsLearnt "vs::parser::Labeller::Learnt":
        double* weights
        double* late
        int64_t time
    int64_t c_learn_labels "vs::parser::learn_labels"(
        const Labels&, const uint32_t*, const int64_t*, const int32_t*, const int32_t*,
        const int64_t*, int64_t, LabelsLearnt*) except +


cdef extern from "parser/predict.h" namespace "vs::parser" nogil:
    cdef cppclass Model:
        Model()
        const Templates* parts
        const float* weights
        const Templates* pruner
        const float* pruner_weights
        const Labels* labels
        const float* label_weights
    cdef cppclass Method:
        Method()
        bint relaxed
        Options options
    cdef cppclass Answers:
        Answers()
        int64_t* pairs
        int32_t* heads
        int32_t* labels
        double* confidence
    int c_predict "vs::parser::predict"(const Model&, const Method&, const Corpus&, const CTrees&,
                                        int, const PoolApi&, Control*, const Answers&) except +


cdef extern from "parser/templates.h" namespace "vs::parser" nogil:
    int kLeastBits, kMostBits

#: Bounds of the size of tables.
LEAST_BITS, MOST_BITS = kLeastBits, kMostBits


def weights_of_labels(int64_t n_labels, int bits):
    """Return how many weights a labeller has."""
    cdef unique_ptr[Labels] labels
    labels.reset(new Labels(n_labels, bits))
    return labels.get().n_weights()


def weights_of_parts(int order, int bits):
    """Return how many weights a model of arcs (1), of pairs as well (2), or a pruner (0) has."""
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
    """A parser's weights, float32; shared by any number of calls."""

    cdef unique_ptr[Templates] parts
    cdef unique_ptr[Templates] pruner
    cdef unique_ptr[Labels] labels
    cdef Model model
    cdef Options options
    cdef object arrays

    def __cinit__(self, int order, int bits, weights, int pruner_bits, pruner_weights,
                  int64_t n_labels, int label_bits, label_weights):
        self.arrays = (weights, pruner_weights, label_weights)
        self.parts.reset(new Templates(order, bits))
        self.labels.reset(new Labels(n_labels, label_bits))
        self.model.parts = self.parts.get()
        self.model.weights = <const float*>data(weights)
        self.model.labels = self.labels.get()
        self.model.label_weights = <const float*>data(label_weights)
        if order > 1:
            find_ranges(self.parts.get()[0], self.model.weights, &self.options.siblings,
                        &self.options.grandparents)
        if pruner_weights is not None:
            self.pruner.reset(new Templates(0, pruner_bits))
            self.model.pruner_weights = <const float*>data(pruner_weights)

    def predict(self, words, offset, bint relaxed, double epsilon, int64_t rounds, bint prune,
                bint projective, bint single_root, int threads):
        """Return heads, labels (N,) int32 and confidence (N,) of all words, and pairs (B,).

        Relaxed: pairs are added where their gain exceeds epsilon, in so many rounds (-1: until none
        is); else all that the model has take part.
        """
        cdef Call call = Call(offset.shape[0] - 1, None, None, None)
        cdef Corpus corpus = corpus_of(words, offset, None, None)
        cdef CTrees trees = trees_of(projective, single_root)
        cdef Model model = self.model
        cdef Method method
        cdef Answers answers
        cdef int status
        heads, labels = np.zeros((2, words.shape[0]), np.int32)
        confidence, pairs = np.zeros(words.shape[0]), np.zeros(offset.shape[0] - 1, np.int64)
        answers.heads = <int32_t*>data(heads)
        answers.labels = <int32_t*>data(labels)
        answers.confidence = <double*>data(confidence)
        answers.pairs = <int64_t*>data(pairs)
        method.relaxed = relaxed
        method.options = self.options
        method.options.epsilon = epsilon
        method.options.rounds = rounds
        if prune:
            model.pruner = self.pruner.get()
        with nogil:
            status = c_predict(model, method, corpus, trees, threads, pool_api[0], &call.control,
                               answers)
        call.end(status)
        return heads, labels, confidence, pairs
