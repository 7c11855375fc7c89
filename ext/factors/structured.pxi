# Structured factors: those of C++, and kinds written in Python behind the same verbs.
from libc.math cimport INFINITY, NAN, isfinite, log
from libcpp.string cimport string


cdef extern from "factors/kinds.h" namespace "vs::factors" nogil:
    cdef cppclass CppStructured "vs::factors::Structured":
        int64_t size()
        int64_t scratch()
        double log_potential(const int64_t*) except +
        double send(const double*, bool, double*, double*)
        double best(const double*, int64_t*, double*)
        bool project(double*, double*)
        double sum_product(const double*, double*, double*, double*)
        bint grown(const double*)
        double mass(const double*, double*)
        double joint(const double*, int64_t, const int64_t*, double*, double*) except +
    ctypedef CppStructured* Own "const vs::factors::Structured*"
    CppStructured* make(const string&, int64_t, const int64_t*, int64_t) except +
    ctypedef double (*Send)(void*, const double*, bool, double*) noexcept
    ctypedef double (*Best)(void*, const double*, int64_t*) noexcept
    ctypedef double (*Score)(void*, const int64_t*) noexcept
    cdef cppclass Foreign(CppStructured):
        Foreign(int64_t, void*, Send, Best, Score) except +


cdef extern from "factors/tree.h" namespace "vs::factors" nogil:
    cdef cppclass TreesApi "vs::dependency::TreesApi":
        pass
    void use_trees(const TreesApi*) noexcept

use_trees(<const TreesApi*>PyCapsule_GetPointer(_parsing.trees, "valuesparse._parsing.trees"))

# A probability below has lost what a message is made of.
cdef double LEAST = 1e-290


cdef extern from "Python.h" nogil:
    int PyGILState_Check()


cdef extern from * nogil:
    """
    #include <chrono>
    #include <thread>
    static void vs_wait_for_the_end() {
        for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
    }
    """
    void vs_wait_for_the_end() noexcept


# A question to a factor written in Python. A thread without the GIL asks through the gate that the
# end of the interpreter closes, and waits for that end where it is closed.
cdef struct Question:
    void* own
    const double* given
    double* ratio
    int64_t* states
    const int64_t* fixed
    bint best
    double answer


cdef class Structured:
    """The native side of a structured factor; arrays are checked by the caller."""

    cdef CppStructured* native
    cdef object factor  # written in Python, or None
    cdef list raised  # by it, or by another of its network: all are silent from then on

    def __cinit__(self, kind, int64_t k, numbers=()):
        """kind: the name of one of ours, or a factor written in Python."""
        cdef object given
        self.raised = []
        if isinstance(kind, str):
            given = np.ascontiguousarray(numbers, dtype=np.int64)
            self.native = make(kind.encode(), k, <const int64_t*>data(given), given.size)
            if self.native == NULL:
                raise ValueError(f"no structured factor is named {kind!r}")
        else:
            self.factor = kind
            self.native = new Foreign(k, <void*>self, foreign_send, foreign_best, foreign_score)

    def __dealloc__(self):
        del self.native

    def log_potential(self, states):
        """Return 0 or -inf for each row of states (m, k)."""
        rows = np.ascontiguousarray(states, dtype=np.int64)
        out = np.empty(len(rows))
        cdef const int64_t* s = <const int64_t*>data(rows)
        cdef double* found = <double*>data(out)
        cdef int64_t i, k = self.native.size()
        for i in range(out.shape[0]):
            found[i] = self.native.log_potential(s + i * k)
        return out

    def sum_product(self, messages):
        """Return (log mass, P(y = 1), P(y = 0))."""
        cdef int64_t k = self.native.size()
        p, c, work = np.empty(k), np.empty(k), np.empty(self.native.scratch() + 4 * k)
        cdef const double* own = <const double*>data(messages)
        mass = self.native.sum_product(
            own, <double*>data(p), <double*>data(c), <double*>data(work)
        )
        if self.native.grown(own):
            mass = self.native.mass(own, <double*>data(work))
        return mass, p, c

    def best(self, messages):
        """Return (score, states)."""
        states, work = np.empty(self.native.size(), dtype=np.int64), np.empty(self.native.scratch())
        score = self.native.best(
            <const double*>data(messages), <int64_t*>data(states), <double*>data(work)
        )
        return score, states

    def max_marginals(self, messages):
        """Return the best score with each state of each variable, (k, 2)."""
        cdef int64_t k = self.native.size()
        ratio, work = np.empty(k), np.empty(self.native.scratch())
        score = self.native.send(
            <const double*>data(messages), True, <double*>data(ratio), <double*>data(work)
        )
        if score == -np.inf:
            return np.full((k, 2), -np.inf)
        odds = messages[:, 1] - messages[:, 0] + ratio
        return score + np.minimum(0.0, np.stack([-odds, odds], axis=1))

    def project(self, point):
        """Return the nearest point of the hull, or None: no algorithm of the kind finds it."""
        found, work = point.copy(), np.empty(self.native.scratch())
        if not self.native.project(<double*>data(found), <double*>data(work)):
            return None
        return found

    def joint(self, messages, pairs):
        """Return P(y_a = y_b = 1) of pairs (m, 2)."""
        cdef int64_t count = len(pairs)
        out = np.empty(count)
        work = np.empty(self.native.scratch() + 5 * self.native.size())
        self.native.joint(
            <const double*>data(messages), count, <const int64_t*>data(pairs), <double*>data(out),
            <double*>data(work),
        )
        return out

    cdef double reply(self, Question* q) except *:
        """Answer what native code asks: messages, the best states, or the score of states."""
        if q.ratio != NULL:
            return self.send(q.given, q.best, q.ratio)
        if q.states != NULL:
            score, found = self.factor._best(self.messages(q.given))
            memcpy(<void*>q.states, <const void*>data(found), found.nbytes)
            return score
        given = np.empty((1, self.native.size()), dtype=np.int64)
        memcpy(<void*>data(given), <const void*>q.fixed, given.nbytes)
        return self.factor.log_potential(given)[0]

    cdef object messages(self, const double* given):
        """Return a copy of messages (k, 2)."""
        copy = np.empty((self.native.size(), 2))
        memcpy(<void*>data(copy), <const void*>given, copy.nbytes)
        return copy

    cdef double mass(self, object messages, bint best) except *:
        if best:
            return self.factor._best(messages)[0]
        return self.factor.checked_sum_product(messages)[0]

    cdef double send(self, const double* given, bint best, double* ratio) except *:
        """See ext/factors/structured.h. Messages that probabilities do not hold take two runs."""
        messages = self.messages(given)
        cdef int64_t i
        cdef double own, total
        found = self.factor._max_marginals(messages) if best else None
        if not best:
            total, p, c = self.factor.checked_sum_product(messages)
            found = np.stack([c, p], axis=1)
        elif found is not None:
            total = found[0].max()
        else:
            total = self.mass(messages, best)
        for i in range(self.native.size()):
            own = given[2 * i + 1] - given[2 * i]
            ratio[i] = 0.0  # what no state is left for needs no message
            if not isfinite(own) or total == -INFINITY:
                continue
            if best and found is not None:
                ratio[i] = found[i, 1] - found[i, 0] - own
            elif not best and p[i] > LEAST and c[i] > LEAST:
                ratio[i] = log(p[i]) - log(c[i]) - own
            else:
                sides = []
                for state in range(2):
                    held = messages.copy()
                    held[i, state], held[i, 1 - state] = 0.0, -np.inf
                    sides.append(self.mass(held, best))
                ratio[i] = sides[1] - sides[0]
        return total


cdef int answered(void* arg) noexcept nogil:
    cdef Question* q = <Question*>arg
    with gil:
        self = <Structured>q.own
        if not self.raised:
            try:
                q.answer = self.reply(q)
            except BaseException as error:
                self.raised.append(error)
    return 0


cdef double asked(Question* q) noexcept nogil:
    cdef int unused = 0
    q.answer = NAN
    if PyGILState_Check():
        answered(q)
    elif not pool_api.call_back(answered, q, NULL, &unused):
        vs_wait_for_the_end()
    return q.answer


cdef double foreign_send(void* own, const double* given, bool best, double* ratio) noexcept nogil:
    cdef Question q
    q.own, q.given, q.ratio, q.best = own, given, ratio, best
    q.states = NULL
    q.fixed = NULL
    return asked(&q)


cdef double foreign_best(void* own, const double* given, int64_t* states) noexcept nogil:
    cdef Question q
    q.own, q.given, q.states, q.best = own, given, states, True
    q.ratio = NULL
    q.fixed = NULL
    return asked(&q)


cdef double foreign_score(void* own, const int64_t* states) noexcept nogil:
    cdef Question q
    q.own, q.fixed, q.best = own, states, False
    q.given = NULL
    q.ratio = NULL
    q.states = NULL
    return asked(&q)
