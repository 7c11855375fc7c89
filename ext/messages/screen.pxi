# Included by messages.pyx.
cdef extern from "messages/screen.h" namespace "vs::messages" nogil:
    cdef cppclass FeatureRows:
        int64_t size
        int n_variables
        const int64_t* scope
        const int64_t* state
        bint same_state
        const double* weight
    cdef cppclass Chances:
        const double* chance
        const int64_t* offset
        int64_t n_variables
        const int64_t* pair
        int64_t n_pairs
        const uint8_t* maybe
        int64_t maybe_size
    vector[int64_t] rows_worth(const FeatureRows&, const Chances&, double) except +


def worth(scopes, states, weights, chance, offset, pairs, maybe, double above):
    """Return the rows of features (m, k) whose gain may be larger than `above`.

    `states`: (m, k), or (k,) where all fire in the same; `pairs`, `maybe`: those that a table
    holds, as `relaxed/_links.py` has them.
    """
    cdef FeatureRows rows
    cdef Chances known
    cdef vector[int64_t] found
    rows.size = scopes.shape[0]
    rows.n_variables = scopes.shape[1]
    rows.scope = indices(scopes)
    rows.state = indices(states)
    rows.same_state = states.ndim == 1
    rows.weight = doubles(weights)
    known.chance = doubles(chance)
    known.offset = indices(offset)
    known.n_variables = offset.shape[0]
    known.pair = indices(pairs)
    known.n_pairs = pairs.shape[0]
    known.maybe = <const uint8_t*>data(maybe)
    known.maybe_size = maybe.shape[0]
    with nogil:
        found = rows_worth(rows, known, above)
    return longs(found)
