# Scores of given states, expected scores, and entropies.

cdef extern from "forest/request.h" namespace "vs" nogil:
    int c_score "vs::score"(const ForestModel&, const int64_t*, int, double*, Control&) except +
    int c_expected "vs::expected"(const ForestModel&, const void*, const double*, const double*,
                                  bint, int, double*, double*, Control&) except +
    int c_entropies "vs::entropies"(const ForestModel&, const void*, const uint8_t*, int, double*,
                                    Control&) except +
    int c_near_likely "vs::near_likely"(const ForestModel&, const void*, int64_t*, double*,
                                        Control&) except +


def score(Forest forest, states, scores, int threads):
    """Fill the scores of states (N,) int64, per component."""
    cdef Call call = Call(0, None, None, None)
    cdef int status
    cdef const int64_t* x = <const int64_t*>data(states)
    cdef double* s = <double*>data(scores)
    with nogil:
        status = c_score(forest.m, x, threads, s, call.control)
    call.end(status)


def expected(Forest forest, marginals, energies, largest, bint centred, value, size, int threads):
    """Fill the expected score of each component, and how far rounding may be felt in it.

    `centred`: what all labels of a position share is felt less, and it takes longer.
    """
    cdef Call call = Call(0, None, None, None)
    cdef int status
    cdef void* p = data(marginals)
    cdef double* e = <double*>data(energies)
    cdef double* top = <double*>data(largest)
    cdef double* v = <double*>data(value)
    cdef double* s = <double*>data(size)
    with nogil:
        status = c_expected(forest.m, p, e, top, centred, threads, v, s, call.control)
    call.end(status)


def entropies(Forest forest, marginals, wanted, value, int threads):
    """Fill the entropies (n,) of components that are wanted (n,) uint8, for scores of any size."""
    cdef Call call = Call(0, None, None, None)
    cdef int status
    cdef void* p = data(marginals)
    cdef const uint8_t* w = <const uint8_t*>data(wanted)
    cdef double* v = <double*>data(value)
    with nogil:
        status = c_entropies(forest.m, p, w, threads, v, call.control)
    call.end(status)


def near_likely(Forest forest, marginals, best, scores):
    """Fill likely labels (N,) int64, and scores (N, K) float64 of variables less these labels'."""
    cdef Call call = Call(0, None, None, None)
    cdef int status
    cdef void* p = data(marginals)
    cdef int64_t* b = <int64_t*>data(best)
    cdef double* s = <double*>data(scores)
    with nogil:
        status = c_near_likely(forest.m, p, b, s, call.control)
    call.end(status)
