# cython: freethreading_compatible=True
"""Native part of the parser: hands arrays to C++ and lets the GIL go; checks nothing they hold."""

from cpython.pycapsule cimport PyCapsule_GetPointer
from cpython.unicode cimport PyUnicode_AsUTF8AndSize
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t
from libcpp.memory cimport unique_ptr
from libcpp.vector cimport vector

cimport numpy as cnp

import numpy as np

from valuesparse import _messages, _parsing, _pool

cnp.import_array()


include "call.pxi"


cdef extern from "dependency/trees.h" namespace "vs::dependency" nogil:
    cdef enum TreeKind "vs::dependency::Kind":
        kTree "vs::dependency::Kind::kTree"
        kProjective "vs::dependency::Kind::kProjective"
    cdef cppclass TreesApi:
        pass


cdef const TreesApi* trees_api = <const TreesApi*>PyCapsule_GetPointer(
    _parsing.trees, "valuesparse._parsing.trees")


cdef extern from "parser/program.h" namespace "vs::parser" nogil:
    cdef cppclass DualApi "vs::dual::DualApi":
        pass
    void use_dual(const DualApi*, const TreesApi*) noexcept

use_dual(<const DualApi*>PyCapsule_GetPointer(_messages.dual, "valuesparse._messages.dual"),
         trees_api)


include "parser/words.pxi"
include "parser/learner.pxi"
include "parser/dictionary.pxi"
include "parser/predict.pxi"
