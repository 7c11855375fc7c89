cdef extern from "crf/scorer.h" namespace "vs::crf" nogil:
    cdef cppclass WeightRows:
        WeightRows() except +
        int64_t n_labels
        void add(const int32_t*, const double*, int64_t) except +
    int64_t score_all(const PoolApi&, int, const Names&, const WeightRows&, const Items&, double,
                      double*, Control*) except +


cdef object empty(int type_number, int64_t rows, int64_t columns):
    cdef cnp.npy_intp[2] shape = [rows, columns]
    return cnp.PyArray_EMPTY(2, shape, type_number, 0)


cdef class Timing:
    """One pass over sequences that were read: where they begin, and how the pass can be ended.

    A pass below a millisecond needs no polls; one of some 25 microseconds keeps the GIL, because
    threads that hand it to each other lose more time than so short a pass could share.
    """

    cdef GrowingArray[int64_t] offset, edge
    cdef Control control
    cdef Call call
    cdef int64_t before  # sequences of the batch that came before
    cdef bint brief

    def __cinit__(self, Reader reader, int64_t n_labels, bint score):
        cdef int64_t at = 0, edges = 0, i, size, n = reader.items.length.size()
        self.offset.push(0)
        self.edge.push(0)
        for i in range(n):
            size = reader.items.length[i]
            at += size
            edges += size - 1 if size > 0 else 0
            self.offset.push(at)
            self.edge.push(edges)
        self.before = reader.sequence - n if score else 0
        # Nanoseconds, roughly.
        cdef double work = 30.0 * reader.items.n_attributes()
        work += at * (20.0 + 2.0 * n_labels + 0.15 * n_labels * n_labels)
        self.brief = work < 25e3
        self.call = None if work < 1e6 else Call(at, None, None, None)

    cdef Control* watch(self) noexcept:
        return &self.control if self.call is None else &self.call.control

    cdef int finish(self, Report r) except -1:
        """Raise what ended the pass."""
        if self.call is not None:
            self.call.end(r.status)
        elif r.status == kNoMemory:
            raise MemoryError("not enough memory for the messages of this model")
        if r.status == kInfeasible:
            raise InfeasibleError(self.before + r.component, r.position)
        return 0


cdef class Scorer:
    """A model's attributes and their weights, its transitions, and their scores of items.

    Immutable: threads may share it. Arguments are taken as they come, except items.

    Parameters
    ----------
    names : iterable of A str
        All different.
    indptr : (A + 1,) int64
    labels : (M,) int32
    weights : (M,) float64
        Row a of the (A, K) weights: ``labels[indptr[a]:indptr[a + 1]]`` and their weights.
    transition : (K, K) float64
        C-contiguous.
    """

    cdef Names* names
    cdef WeightRows* rows
    cdef Scorer source  # whose names and rows these are, or None: its own
    cdef bint owns  # that too: the garbage collector sets `source` to None before the end
    cdef object transition, start, end
    cdef CPrepared* prepared

    def __cinit__(self, names, const int64_t[::1] indptr, const int32_t[::1] labels,
                  const double[::1] weights, cnp.ndarray transition):
        cdef int64_t a
        self.transition = transition
        if isinstance(names, Scorer):
            self.source = names
            self.names = self.source.names
            self.rows = self.source.rows
            return
        self.owns = True
        self.names = new Names()
        self.rows = new WeightRows()
        self.names.fill(read_names(list(names)).items)
        self.rows.n_labels = transition.shape[0]
        for a in range(indptr.shape[0] - 1):
            self.rows.add(&labels[0] + indptr[a] if labels.shape[0] else NULL,
                          &weights[0] + indptr[a] if labels.shape[0] else NULL,
                          indptr[a + 1] - indptr[a])

    def __dealloc__(self):
        if self.owns:
            del self.names
            del self.rows
        forests.release(self.prepared)

    def under(self, cnp.ndarray transition, cnp.ndarray start, cnp.ndarray end):
        """Return a scorer of the same attributes with another table, and scores of the ends.

        `transition` (K, K), `start` and `end` (K,): float64, C-contiguous, -inf forbids.
        """
        cdef Scorer other = Scorer(self, None, None, None, transition)
        other.start = start
        other.end = end
        return other

    cdef int prepare(self) except -1:
        """Prepare the transition for passes, when the first one comes."""
        cdef Chains c
        with cython.critical_section(self):
            if self.prepared == NULL:
                c = self.chains_of(None, None, NULL, NULL, 0, 0)
                self.prepared = forests.prepare(c)
        return 0

    cdef Chains chains_of(self, unary, allowed, const int64_t* offset, const int64_t* edge,
                          int64_t n_positions, int64_t n_sequences):
        cdef Chains c
        c.unary = data(unary)
        c.transition = data(self.transition)
        c.start = data(self.start)
        c.end = data(self.end)
        c.allowed = <const uint8_t*>data(allowed)
        c.offset = offset
        c.edge = edge
        c.n_positions = n_positions
        c.n_labels = self.rows.n_labels
        c.n_sequences = n_sequences
        c.dtype = dtype_code(self.transition)
        c.per_edge = False
        if self.prepared != NULL:
            c.sparse = forests.listed_by(self.prepared)
        return c

    cdef int idle(self, Reader reader) except -1:
        """Whether there are no labels, and so nothing to compute: kernels need at least one."""
        if self.rows.n_labels:
            return 0
        if reader.items.n_items():
            raise refusal(reader, 0, "the model has no labels: it was trained on empty sequences; "
                          "train it on items with labels")
        return 1

    def unary(self, xseqs, bint single, bint characters, double limit):
        """Return scores (N, K) and lengths (B,); scores beyond ±`limit` are a ValueError.

        See `Dictionary.encode` for `xseqs`, `single` and `characters`.
        """
        cdef Reader reader = Reader(single, characters)
        if single:
            reader.read(xseqs)
        else:
            for xseq in xseqs:
                reader.read(xseq)
        unary = self.scores_of(reader)
        if self.idle(reader):
            return unary, int64s(reader.items.length)
        cdef double* u = <double*>data(unary)
        cdef Control control
        cdef int64_t bad
        with nogil:
            bad = score_all(pool_api[0], 1, self.names[0], self.rows[0], reader.items, limit, u,
                            &control)
        if bad >= 0:
            raise refusal(reader, bad, kTooLarge)
        return unary, int64s(reader.items.length)

    def tag(self, xseq, list labels):
        """Return the scores of one sequence and the labels of its best configuration."""
        cdef Reader reader = Reader(True, True)
        reader.read(xseq)
        unary = self.scores_of(reader)
        states, _ = self.answer(reader, unary, None, 1, 1.0, 1, True)
        return unary, names_of(states, 0, reader.items.n_items(), labels)

    def marginals(self, xseq):
        """Return scores, marginals and log_z of one sequence."""
        cdef Reader reader = Reader(True, True)
        reader.read(xseq)
        unary = self.scores_of(reader)
        marginals, log_z = self.answer(reader, unary, None, 0, 1.0, 1, True)
        return unary, marginals, log_z[0, 0]

    def decode_scores(self, unary, allowed, int64_t n_best):
        """Return states (n_best, n) and scores (n_best, 1) of one sequence."""
        return self.answer(one_sequence(unary), unary, allowed, n_best, 1.0, 1, False)

    def infer_scores(self, unary, allowed, double zeta):
        """Return marginals and log_z of one sequence."""
        marginals, log_z = self.answer(one_sequence(unary), unary, allowed, 0, zeta, 1, False)
        return marginals, log_z[0, 0]

    def pairwise(self, unary, allowed):
        """Return the edge marginals (n - 1, K, K) of one sequence."""
        cdef Reader reader = one_sequence(unary)
        cdef int64_t n = (<cnp.ndarray>unary).shape[0]
        cdef cnp.npy_intp[3] shape = [n - 1 if n else 0, self.rows.n_labels, self.rows.n_labels]
        answer = cnp.PyArray_EMPTY(3, shape, cnp.NPY_FLOAT64, 0)
        if self.idle(reader):
            return answer
        cdef double log_z
        cdef Timing timing = Timing(reader, self.rows.n_labels * 4, False)
        cdef Control* control = timing.watch()
        self.prepare()
        cdef Request q
        cdef Report r
        q.model.arrays = self.chains_of(unary, allowed, timing.offset.data(),
                                        timing.edge.data(), n, 1)
        q.prepared = self.prepared
        q.threads = 1
        q.zeta = 1.0
        q.log_z = &log_z
        q.pairwise = data(answer)
        q.pairwise_first = 0
        q.pairwise_last = shape[0]
        with nogil:
            r = forests.infer(q, control[0])
        timing.finish(r)
        return answer

    def tag_batch(self, xseqs, masks, list labels, int threads):
        """Return a list of labels of each sequence; `masks` as in `Masks`, or None."""
        return self.batch(xseqs, masks, labels, 1.0, threads)

    def marginals_batch(self, xseqs, masks, double zeta, int threads):
        """Return the marginals (n, K) of each sequence; `masks` as in `Masks`, or None."""
        return self.batch(xseqs, masks, None, zeta, threads)

    cdef list batch(self, xseqs, masks, list labels, double zeta, int threads):
        """Answer block by block: with labels, or with marginals where `labels` is None."""
        cdef Reader reader = Reader(False, True)
        answers, given = [], []
        for xseq in xseqs:
            reader.read(xseq)
            if masks is not None:
                given.append(masks(reader.sequence - 1, reader.item))
            # Enough to be worked on, in memory that a cache may hold.
            if (reader.items.n_attributes() >= BLOCK
                    or reader.items.n_items() * self.rows.n_labels >= 8 * BLOCK):
                self.answer_block(reader, given, labels, zeta, threads, answers)
        self.answer_block(reader, given, labels, zeta, threads, answers)
        return answers

    cdef int answer_block(self, Reader reader, list given, list labels, double zeta, int threads,
                          list answers) except -1:
        cdef int64_t at = 0, i, size
        found, _ = self.answer(reader, self.scores_of(reader), self.joined(reader, given),
                               0 if labels is None else 1, zeta, threads, True)
        for i in range(reader.items.length.size()):
            size = reader.items.length[i]
            answers.append(found[at:at + size] if labels is None
                           else names_of(found, at, size, labels))
            at += size
        reader.items.clear()
        given.clear()
        return 0

    cdef object joined(self, Reader reader, list given):
        """One mask (N, K) of the masks of the sequences, of which some are None."""
        cdef int64_t at = 0, i
        if all([mask is None for mask in given]):
            return None
        allowed = empty(cnp.NPY_BOOL, reader.items.n_items(), self.rows.n_labels)
        for i, mask in enumerate(given):
            size = reader.items.length[i]
            allowed[at:at + size] = True if mask is None else mask
            at += size
        return allowed

    cdef object scores_of(self, Reader reader):
        """Memory for the scores (N, K) of the items that were read."""
        return empty(cnp.NPY_FLOAT64, reader.items.n_items(), self.rows.n_labels)

    cdef tuple answer(self, Reader reader, unary, allowed, int64_t n_best, double zeta,
                      int threads, bint score):
        """Answer for the items that were read, which are scored first when `score`.

        The answer is the states (n_best, N) of the best configurations and their scores
        (n_best, B) or, where `n_best` is 0, marginals (N, K) and log_z (1, B).
        """
        cdef int64_t n = (<cnp.ndarray>unary).shape[0], bad = -1, k = self.rows.n_labels
        cdef int64_t n_sequences = reader.items.length.size()
        cdef cnp.npy_intp m = n
        cdef Timing timing = Timing(reader, k * max(n_best, 1), score)
        found = (empty(cnp.NPY_INT64, n_best, n) if n_best else empty(cnp.NPY_FLOAT64, n, k))
        values = empty(cnp.NPY_FLOAT64, max(n_best, 1), n_sequences)
        if self.idle(reader):
            values[:] = 0.0
            return found, values
        islands = cnp.PyArray_EMPTY(1, &m, cnp.NPY_INT32, 0) if zeta < 1.0 else None
        cdef Request q
        cdef Report r
        cdef double* u = <double*>data(unary)
        cdef Control* control = timing.watch()
        self.prepare()
        q.model.arrays = self.chains_of(unary, allowed, timing.offset.data(),
                                        timing.edge.data(), n, n_sequences)
        q.prepared = self.prepared
        q.threads = threads
        q.zeta = zeta
        q.marginals = data(found)
        q.log_z = <double*>data(values)
        q.islands = <int32_t*>data(islands)
        q.n_best = n_best
        q.states = <int64_t*>data(found)  # read where there are any best ones
        if timing.brief:
            bad = self.run(reader, q, u, n_best, score, control, &r)
        else:
            with nogil:
                bad = self.run(reader, q, u, n_best, score, control, &r)
        if bad >= 0:
            raise refusal(reader, bad, kTooLarge)
        timing.finish(r)
        return found, values

    cdef int64_t run(self, Reader reader, const Request& q, double* unary, int64_t n_best,
                     bint score, Control* control, Report* r) except -2 nogil:
        cdef int64_t bad = -1
        if score:
            bad = score_all(pool_api[0], q.threads, self.names[0], self.rows[0], reader.items,
                            kLargest64, unary, control)
        if bad >= 0:
            return bad
        if n_best:
            r[0] = forests.decode(q, control[0])
        else:
            r[0] = forests.infer(q, control[0])
        return bad


cdef Reader one_sequence(unary):
    """A reader that has read one sequence, whose scores are known."""
    cdef Reader reader = Reader(True, True)
    reader.items.end_sequence((<cnp.ndarray>unary).shape[0])
    return reader


cdef list names_of(states, int64_t first, int64_t n, list labels):
    cdef const int64_t* x = <const int64_t*>data(states) + first
    cdef int64_t i
    return [labels[x[i]] for i in range(n)]


cdef str kTooLarge = "a score is too large for float64; scale the values down"


cdef refusal(Reader reader, int64_t item, str problem):
    """The error for an item, by its number among those read."""
    cdef int64_t s = 0
    while item >= reader.items.length[s]:
        item -= reader.items.length[s]
        s += 1
    reader.sequence += s - reader.items.length.size()
    reader.item = item
    return ValueError(f"{reader.place()}: {problem}")
