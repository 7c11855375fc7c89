# Included by messages.pyx: dual decomposition of a graph of binary variables.
cdef extern from "dual/dual.h" namespace "vs::dual" nogil:
    cdef cppclass DualApi:
        pass
    const DualApi* dual_api() noexcept


dual = PyCapsule_New(<void*>dual_api(), "valuesparse._messages.dual", NULL)


cdef extern from "dual/solver.h" namespace "vs::dual" nogil:
    cdef cppclass DualGraph "vs::dual::Graph":
        int64_t n, n_factors
        const double* local
        const int64_t* ptr
        const int64_t* scope
        const double* const* table
        const Own* own
        double constant
    cdef cppclass DualProblem "vs::dual::Problem":
        DualProblem() except +
        int lay_out(const DualGraph&, const Control*) except +
        double score(const int64_t*) except +
        int bound(const double*, const Control*, double*) except +
        int64_t n_edges()
        int64_t n_open()
        vector[int64_t] open, origin
        vector[double] offset
        vector[signed char] known
    cdef cppclass Rounding "vs::dual::Rounding":
        Rounding(const DualProblem&) except +
        int round(const double*, const Control*) except +
        double best()
        void states(int64_t*)
    cdef cppclass DualSolver "vs::dual::DualSolver":
        DualSolver(const DualProblem&) except +
        int run(double, int64_t, int, Control*) except +
        bool converged, integral
        double upper
        vector[double] point
        Rounding rounding


cdef class Dual:
    """A network of binary variables with its evidence; what is known is taken out."""

    cdef DualProblem* problem
    cdef Network network
    cdef object local  # its memory is the problem's
    cdef readonly bint possible  # as far as tables and evidence tell

    def __cinit__(self, Network network, local, deadline, late):
        """local (2 n,): log-vectors of the variables, evidence included."""
        cdef Call call = Call(1, deadline, None, late)
        cdef DualGraph graph
        cdef int status
        self.network, self.local = network, local
        self.problem = new DualProblem()
        graph.n = network.at.shape[0] - 1
        graph.n_factors = <int64_t>network.tables.size()
        graph.local = doubles(local)
        graph.ptr, graph.scope = indices(network.ptr), indices(network.scope)
        graph.table = network.tables.data()
        if network.own.size():
            graph.own = network.own.data()
        graph.constant = network.constant
        with nogil:
            status = self.problem.lay_out(graph, &call.control)
        network.end(call, status)
        self.possible = status != kInfeasible

    def __dealloc__(self):
        del self.problem

    def score(self, states):
        """Return the score of states (n,), -inf where they are not possible."""
        found = self.problem.score(<const int64_t*>data(states))
        self.network.raise_own()
        return found

    def bound(self, share, deadline, late):
        """Return the dual value, rounded up, of shares: one for each entry of the scopes."""
        cdef Call call = Call(1, deadline, None, late)
        cdef vector[double] own
        cdef const double* given = doubles(share)
        cdef double value = INFINITY
        cdef int64_t e
        cdef int status
        own.resize(self.problem.n_edges())
        for e in range(self.problem.n_edges()):
            own[e] = given[self.problem.origin[e]] + self.problem.offset[e]
        with nogil:
            status = self.problem.bound(own.data(), &call.control, &value)
        self.network.end(call, status)
        return value

    def round(self, point, deadline, late):
        """Return states near to a point (n,), and their score: -inf where none were found."""
        cdef Call call = Call(1, deadline, None, late)
        cdef Rounding* rounding = new Rounding(self.problem[0])
        cdef vector[double] gain
        cdef const double* p = doubles(point)
        cdef int64_t v
        cdef int status
        for v in self.problem.open:
            gain.push_back(p[v] - 0.5)
        try:
            with nogil:
                status = rounding.round(gain.data(), &call.control)
            self.network.end(call, status)
            return self.rounded(rounding)
        finally:
            del rounding

    cdef tuple rounded(self, Rounding* rounding):
        states = np.empty(self.network.at.shape[0] - 1, dtype=np.int64)
        rounding.states(<int64_t*>data(states))
        return states, self.score(states) if rounding.best() > -INFINITY else -INFINITY

    def solve(self, double tolerance, int64_t max_iterations, int threads, deadline, progress,
              late):
        """Return (states, score, upper, point, converged, integral); None: nothing is possible.

        The score is -inf where no states were found, and these then mean nothing.
        """
        cdef Call call = Call(max_iterations, deadline, progress, late)
        cdef DualSolver* solver = new DualSolver(self.problem[0])
        cdef int64_t v
        cdef int status
        point = np.zeros(self.network.at.shape[0] - 1)
        cdef double* p = <double*>data(point)
        try:
            with nogil:
                status = solver.run(tolerance, max_iterations, threads, &call.control)
            self.network.end(call, status)
            if status == kInfeasible:
                return None
            for v in range(point.shape[0]):
                p[v] = self.problem.known[v] == 1
            for v in range(self.problem.n_open()):
                p[self.problem.open[v]] = solver.point[v]
            states, score = self.rounded(&solver.rounding)
            return states, score, solver.upper, point, solver.converged, solver.integral
        finally:
            del solver
