# cython: freethreading_compatible=True
"""Native part of valuesparse.crf: checks nothing that arrays hold.

crf/items.pxi reads attributes from Python objects into plain memory, with the GIL; all that follows
runs without it: crf/dictionary.pxi numbers them, crf/scorer.pxi answers for the weights of a model,
crf/evaluator.pxi evaluates the weights of a model that is being trained.
"""

from cpython.pycapsule cimport PyCapsule_GetPointer
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcpy
from libcpp.memory cimport unique_ptr
from libcpp.vector cimport vector

cimport cython
cimport numpy as cnp

from collections.abc import Iterable, Mapping, Sized

from valuesparse import _forest, _pool
from valuesparse._validation import no_frame
from valuesparse.errors import InfeasibleError

cnp.import_array()


include "call.pxi"


cdef extern from "core/problem.h" namespace "vs" nogil:
    double kLargest64


include "forest/request.pxi"


cdef ForestApi* forests = <ForestApi*>PyCapsule_GetPointer(
    _forest.api, "valuesparse._forest.api")


include "crf/items.pxi"
include "crf/dictionary.pxi"
include "crf/scorer.pxi"
include "crf/evaluator.pxi"
