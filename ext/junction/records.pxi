# Records, evidence and arrays of graphs: what takes too long in Python, once for each variable.

cdef extern from "Python.h":
    int PyObject_GenericSetAttr(object, object, object) except -1


def fill(record, dict fields):
    """Set attributes of a record, which refuses that to all others."""
    for name, value in fields.items():
        PyObject_GenericSetAttr(record, name, value)


def take_apart(cnp.npy_intp n, given):
    """Return the state of each of n variables, -1 where it is not known, and the likelihoods.

    `given`: variables with the number of a state, or a vector.
    """
    held = cnp.PyArray_EMPTY(1, &n, cnp.NPY_INT64, 0)
    cdef int64_t* state = <int64_t*>cnp.PyArray_DATA(<cnp.ndarray>held)
    cdef cnp.npy_intp i
    cdef list soft = []
    for i in range(n):
        state[i] = -1
    for v, value in given.items():
        if isinstance(value, int):
            state[<cnp.npy_intp>v] = value
        else:
            soft.append((v, value))
    return held, soft


def freeze(arrays):
    """Make arrays read-only, of what there is: there may be one for each variable, or factor."""
    for array in arrays:
        if isinstance(array, cnp.ndarray):
            cnp.PyArray_CLEARFLAGS(<cnp.ndarray>array, cnp.NPY_ARRAY_WRITEABLE)


def split(flat, cards):
    """Return what `flat`, float64, holds for each variable: read-only views, one per variable."""
    cdef const int64_t* card = <const int64_t*>cnp.PyArray_DATA(<cnp.ndarray>cards)
    cdef const char* at = <const char*>cnp.PyArray_DATA(<cnp.ndarray>flat)
    cdef cnp.npy_intp size
    cdef int64_t v
    cdef list views = []
    cdef cnp.ndarray view
    for v in range(cards.shape[0]):
        size = card[v]
        view = cnp.PyArray_SimpleNewFromData(1, &size, cnp.NPY_FLOAT64, <void*>at)
        cnp.set_array_base(view, flat)
        cnp.PyArray_CLEARFLAGS(view, cnp.NPY_ARRAY_WRITEABLE)
        views.append(view)
        at += size * sizeof(double)
    return views
