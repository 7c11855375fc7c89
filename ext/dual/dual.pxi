# Included by messages.pyx: dual decomposition of a graph of binary variables.
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
        int lay_out(const DualGraph&, const Control*) except +
        double score(const int64_t*)
        double bound(const double*) except +
        int64_t n_edges()
        int64_t n_pairs()
        int64_t n_open()
        vector[int64_t] open, factor, place
        vector[int32_t] var
        vector[signed char] known
    cdef cppclass DualOptions "vs::dual::Options":
        DualOptions()
        double tolerance
        int64_t max_iterations
        double step, over, ratio, grow
        int64_t every
        int limit
    cdef cppclass Rounding "vs::dual::Rounding":
        Rounding(const DualProblem&) except +
        double round(const double*) except +
        double best()
        void states(int64_t*)
    cdef cppclass DualSolver "vs::dual::Solver":
        DualSolver(const DualProblem&) except +
        int run(const DualOptions&, int, Control*) except +
        bool converged, integral
        double upper
        int64_t iterations
        vector[double] point, trace
        Rounding rounding


cdef class Dual:
    """A network of binary variables with its evidence, what is known taken out."""

    cdef DualProblem* problem
    cdef Network network
    cdef object local
    cdef readonly bint possible

    def __cinit__(self, Network network, local, deadline, late):
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

    def solve(self, double tolerance, int64_t max_iterations, int threads, deadline, progress,
              late, step=1.0, over=1.5, ratio=10.0, grow=2.0, every=10, limit=10):
        """Return (possible, converged, integral, upper, point, score, states, iterations)."""
        cdef Call call = Call(max_iterations, deadline, progress, late)
        cdef DualSolver* solver = new DualSolver(self.problem[0])
        cdef DualOptions options
        cdef int status
        cdef int64_t v
        options.limit = limit
        options.tolerance, options.max_iterations = tolerance, max_iterations
        options.step, options.over, options.ratio, options.grow, options.every = step, over, ratio, grow, every
        states = np.empty(self.network.at.shape[0] - 1, dtype=np.int64)
        point = np.zeros(states.shape[0])
        cdef int64_t* s = <int64_t*>data(states)
        cdef double* p = <double*>data(point)
        try:
            with nogil:
                status = solver.run(options, threads, &call.control)
            self.network.end(call, status)
            solver.rounding.states(s)
            for v in range(states.shape[0]):
                p[v] = self.problem.known[v] == 1
            for v in range(self.problem.n_open()):
                p[self.problem.open[v]] = solver.point[v]
            score = solver.rounding.best()
            if score > -INFINITY:
                score = self.problem.score(s)
            return (status != kInfeasible, solver.converged, solver.integral, solver.upper, point,
                    score, states, solver.iterations, np.array(solver.trace))
        finally:
            del solver
