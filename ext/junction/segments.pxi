# Islands on graphs: included by junction.pyx.

cdef extern from "junction/segments.h" namespace "vs::junction" nogil:
    const int kTooMuch "vs::junction::SegmentTree::kTooMuch"
    cdef cppclass SegmentTree:
        vector[int64_t] variables
        Solver* tree "solver.get"()
    cdef cppclass Parts "vs::junction::Segments":
        Parts(const Graph&, const double* const*, const int64_t*, double) except +
        int64_t start(double) except +
        int refresh(int, Control*) except +
        int64_t decide(int64_t) except +
        bool converged() except +
        int64_t release_dead() except +
        int release_contradictions(int, Control*) except +
        double log_mass()
        int64_t rounds()
        const vector[double]& marginals()
        int64_t island_of(int64_t)
        int64_t released()
        int64_t flipped()
        int64_t n_parts()
        int64_t solved()
        const SegmentTree& refused()
        double used()


cdef class Segments:
    """Islands on a graph, and the free variables between them. Not for two threads at once.

    `held`: evidence or -1; `limit`: bytes of the trees of all segments together.
    """

    cdef Parts* parts
    cdef Snapshot snapshot
    cdef Soft soft

    def __cinit__(self, Snapshot snapshot, Soft soft, held, double limit):
        self.snapshot, self.soft = snapshot, soft
        self.parts = new Parts(snapshot.g, soft_data(soft),
                               <const int64_t*>cnp.PyArray_DATA(<cnp.ndarray>held), limit)

    def __dealloc__(self):
        del self.parts

    def start(self, double zeta):
        """Hold variables by their unary factors; return one without a state, or -1.

        Another call may begin so, too: it finds the trees of the one before.
        """
        return self.parts.start(zeta)

    def refresh(self, int threads, deadline, late):
        """Solve what the last changes touch; return whether it has a mass, and whether it fits."""
        cdef Call call = Call(0, deadline, None, late)
        cdef int status
        call.last = vs_now()  # most calls are over before signals are due
        with nogil:
            status = self.parts.refresh(threads, &call.control)
        call.end(kOk if status == kTooMuch else status)
        return status != kInfeasible, status != kTooMuch

    def release_contradictions(self, int threads, deadline, late):
        """Release islands that leave no mass; return whether some did, and whether trees fit."""
        cdef Call call = Call(0, deadline, None, late)
        cdef int status
        with nogil:
            status = self.parts.release_contradictions(threads, &call.control)
        call.end(kOk if status == kTooMuch else status)
        return status != kInfeasible, status != kTooMuch

    def release_dead(self):
        """Release islands whose value is impossible given the others; return how many."""
        return self.parts.release_dead()

    def decide(self, int64_t limit):
        """Apply events of the marginals at hand; return how many there are.

        All of them where `limit` < 0, else those of components that had fewer rounds.
        """
        return self.parts.decide(limit)

    def converged(self):
        """Return whether there is none."""
        return self.parts.converged()

    def rounds(self):
        """Return the most rounds of a component: those in which something happened in it."""
        return self.parts.rounds()

    def log_mass(self):
        """Return the log mass of what agrees with the islands."""
        return self.parts.log_mass()

    def answer(self, which, marginals, islands):
        """Fill the marginals (flat) and islands of some variables, int64."""
        cdef const int64_t* list_ = <const int64_t*>cnp.PyArray_DATA(<cnp.ndarray>which)
        cdef double* to = <double*>cnp.PyArray_DATA(<cnp.ndarray>marginals)
        cdef int32_t* held = <int32_t*>cnp.PyArray_DATA(<cnp.ndarray>islands)
        cdef int64_t i, v, x
        for i in range(which.shape[0]):
            v = list_[i]
            held[v] = <int32_t>self.parts.island_of(v)
            for x in range(self.snapshot.card_ptr[v], self.snapshot.card_ptr[v + 1]):
                to[x] = self.parts.marginals()[x]

    def counts(self):
        """Return how many segments, releases, flips and cliques there were."""
        return (self.parts.n_parts(), self.parts.released(), self.parts.flipped(),
                self.parts.solved())

    def cost(self):
        """Return what the tree costs that did not fit, as :meth:`CliqueTree.cost` does."""
        cdef const SegmentTree* part = &self.parts.refused()
        width, table, size, flops, largest, entries, tried = cost_of(part.tree())
        return width, table, size, flops, [part.variables[v] for v in largest], entries, tried

    def used(self):
        """Return the bytes of the trees beside that."""
        return self.parts.used()
