# Many questions at once: included by junction.pyx.

cdef extern from "junction/many.h" namespace "vs::junction" nogil:
    cdef cppclass EvidenceRows:
        EvidenceRows()
        const int32_t* codes
        int64_t rows
        const int64_t* ptr
        double* marginals
        double* log_z
        uint8_t* answer
        const int64_t* table
        double* counts
        int64_t n_counts
    cdef cppclass ManyQuestions "vs::junction::Many":
        ManyQuestions(const Graph&, const Domains&, const Cliques&, const TableLayout&) except +
        double entries()
        int load(const double* const*, const double* const*, Control*) except +
        int run(const EvidenceRows&, int, Control*) except +


cdef class Many:
    """The tables of a tree that is prepared, for many questions; later ones change nothing here."""

    cdef ManyQuestions* many
    cdef Snapshot snapshot
    cdef Soft soft

    def __cinit__(self, CliqueTree tree, Soft soft):
        tree.need()
        self.snapshot, self.soft = tree.snapshot, soft
        self.many = new ManyQuestions(self.snapshot.g, tree.solver.domains(), tree.solver.tree(),
                                      tree.solver.layout())

    def __dealloc__(self):
        del self.many

    def entries(self):
        """Return how many entries the tables of all cliques have."""
        return self.many.entries()

    def load(self, list tables=None):
        """Make the tables, of other log-tables if given; False where numbers are too far apart."""
        cdef Call call = Call(0, None, None, None)
        cdef vector[const double*] other
        cdef const double* const* at = self.snapshot.g.table
        cdef const double* const* s = soft_data(self.soft)
        cdef int status
        if tables is not None:
            for table in tables:
                other.push_back(<const double*>cnp.PyArray_DATA(<cnp.ndarray>table))
            at = other.data()
        with nogil:
            status = self.many.load(at, s, &call.control)
        call.end(kCancelled if status == kCancelled else kOk)
        return status == kOk

    def run(self, codes, log_z, answers, marginals, table, counts, int threads, deadline, progress,
            late):
        """Answer each row of `codes`, int32 (rows, n); the last of what is None is not wanted.

        `answers`, uint8: 0 answered, 1 impossible, 2 a number was too small. `counts` are those
        that `table` gives a place to, for each factor, or -1.
        """
        cdef Call call = Call(codes.shape[0], deadline, progress, late)
        cdef EvidenceRows q
        cdef int status
        q.codes = <const int32_t*>cnp.PyArray_DATA(<cnp.ndarray>codes)
        q.rows = codes.shape[0]
        q.ptr = self.snapshot.card_ptr.data()
        q.log_z = <double*>cnp.PyArray_DATA(<cnp.ndarray>log_z)
        q.answer = <uint8_t*>cnp.PyArray_DATA(<cnp.ndarray>answers)
        if marginals is not None:
            q.marginals = <double*>cnp.PyArray_DATA(<cnp.ndarray>marginals)
        if counts is not None:
            q.table = <const int64_t*>cnp.PyArray_DATA(<cnp.ndarray>table)
            q.counts = <double*>cnp.PyArray_DATA(<cnp.ndarray>counts)
            q.n_counts = counts.shape[0]
        with nogil:
            status = self.many.run(q, threads, &call.control)
        call.end(status)
