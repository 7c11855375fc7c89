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

from valuesparse import _chain, _pool
from valuesparse.errors import InfeasibleError

cnp.import_array()


include "call.pxi"


cdef extern from "chain/run.h" namespace "vs" nogil:
    double kLargest64
    cdef cppclass Prepared:
        pass
    cdef cppclass Request:
        Request()
        Chains chains
        const Prepared* prepared
        int threads
        double zeta
        void* marginals
        double* log_z
        int32_t* islands
        void* pairwise
        int64_t pairwise_first, pairwise_last
    cdef cppclass Report:
        int status
        int64_t sequence, position
    cdef cppclass ChainApi:
        Report (*infer)(const Request&, Control&) except +
        Report (*decode)(const Chains&, int64_t, int, int64_t*, double*, Control&,
                         const Prepared*) except +
        Prepared* (*prepare)(const Chains&) except +
        void (*release)(Prepared*) noexcept


cdef ChainApi* chains = <ChainApi*>PyCapsule_GetPointer(_chain.api, "valuesparse._chain.api")


include "crf/items.pxi"
include "crf/dictionary.pxi"
include "crf/scorer.pxi"
include "crf/evaluator.pxi"
