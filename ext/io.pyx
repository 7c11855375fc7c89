# cython: freethreading_compatible=True
"""Native part of valuesparse.io: checks nothing."""

from libc.stdint cimport int64_t
from libcpp.vector cimport vector


cdef extern from "io/crfsuite_names.h" namespace "vs" nogil:
    vector[char] c_name_table "vs::name_table"(const char*, const int64_t*, int64_t) except +


def name_table(bytes text, bytes begin):
    """Return the bytes of a CQDB chunk of n names that end with NULs.

    `begin` holds n + 1 numbers of 64 bits: where each name begins in `text`, and the end.
    """
    cdef vector[char] out
    cdef const char* t = text
    cdef const int64_t* b = <const int64_t*><const char*>begin
    cdef int64_t n = len(begin) // sizeof(int64_t) - 1
    with nogil:
        out = c_name_table(t, b, n)
    return (<const char*>out.data())[:out.size()]
