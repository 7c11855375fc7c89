# cython: freethreading_compatible=True
"""Dependency trees of many sentences: hands arrays to C++ and lets the GIL go; checks scores."""

from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_New
from libc.stdint cimport int32_t, int64_t, uint8_t
from libcpp.vector cimport vector

cimport numpy as cnp

import numpy as np

from valuesparse import _forest, _pool

cnp.import_array()


include "call.pxi"
include "workspaces.pxi"


cdef extern from "dependency/trees.h" namespace "vs::dependency" nogil:
    cdef enum Kind "vs::dependency::Kind":
        kTree "vs::dependency::Kind::kTree"
        kProjective "vs::dependency::Kind::kProjective"
    cdef cppclass Sentence:
        const double* scores
        int64_t n
        bint single_root
    cdef cppclass Arcs:
        double* marginal
        double* complement
        double* ratio
        bint all_ratios
        double least
    cdef cppclass Pair:
        pass
    cdef cppclass TreesApi:
        pass
    const TreesApi* trees_api() noexcept
    void use_simd(const SimdApi*) noexcept
    int64_t scratch_size(Kind, int64_t) noexcept
    double c_marginals "vs::dependency::marginals"(Kind, const Sentence&, const Arcs&,
                                                   double*) noexcept
    double c_joints "vs::dependency::joints"(const Sentence&, int64_t, const Pair*, double*,
                                             double*) noexcept
    cdef cppclass Sums:
        Sums()
        double log_z
    double c_sum "vs::dependency::sum"(Kind, const Sentence&, const Arcs&, double*, Sums*) noexcept
    void c_more "vs::dependency::more"(Sums*, const Arcs&) noexcept
    void c_head_joints "vs::dependency::head_joints"(Sums*, int64_t, int64_t, const int32_t*,
                                                     int64_t, const int32_t*, double*,
                                                     double*) noexcept
    double c_projective_max "vs::dependency::projective_max"(const Sentence&, double*,
                                                             double*) noexcept


cdef extern from "parsing/batch.h" namespace "vs::parsing" nogil:
    double kLargestScore
    cdef cppclass Batch:
        Batch()
        int64_t sentences
        const int64_t* words
        const void* const* scores
        int dtype
        Kind kind
        bint single_root
        int threads
        const int64_t* part_at
        const int64_t* part_words
        const double* part_score
    cdef cppclass Fault:
        int64_t sentence, head, modifier
    Fault batch_marginals "vs::parsing::marginals"(const Batch&, const PoolApi&, Control*,
                                                   double*, double*, double*) except +
    Fault batch_best "vs::parsing::best"(const Batch&, const PoolApi&, Control*, double*,
                                         int64_t*) except +


use_simd(<const SimdApi*>PyCapsule_GetPointer(_forest.simd, "valuesparse._forest.simd"))

trees = PyCapsule_New(<void*>trees_api(), "valuesparse._parsing.trees", NULL)

#: The largest magnitude of a finite score.
LARGEST = kLargestScore


def ready(list scores, int64_t[::1] words):
    """Fill `words` and return whether all scores can be used as they stand.

    Those are square float64 arrays (n + 1, n + 1), C-contiguous, aligned and in native order.
    """
    cdef Py_ssize_t i
    cdef cnp.ndarray array
    for i in range(len(scores)):
        one = scores[i]
        if type(one) is not np.ndarray:
            return False
        array = one
        if (cnp.PyArray_TYPE(array) != cnp.NPY_FLOAT64 or cnp.PyArray_NDIM(array) != 2
                or array.shape[0] != array.shape[1] or array.shape[0] == 0
                or not cnp.PyArray_ISCARRAY_RO(array)):
            return False
        words[i] = array.shape[0] - 1
    return True


def tables(cnp.ndarray flat, const int64_t[::1] words):
    """Return a view (n + 1, n + 1) of each sentence's part of a contiguous array."""
    cdef list found = []
    cdef cnp.ndarray table
    cdef cnp.npy_intp shape[2]
    cdef char* at = <char*>cnp.PyArray_DATA(flat)
    cdef Py_ssize_t i, size = cnp.PyArray_ITEMSIZE(flat)
    for i in range(words.shape[0]):
        shape[0] = shape[1] = words[i] + 1
        table = cnp.PyArray_SimpleNewFromData(2, shape, cnp.PyArray_TYPE(flat), at)
        cnp.set_array_base(table, flat)
        at += shape[0] * shape[1] * size
        found.append(table)
    return found


def run(list scores, words, bint projective, bint single_root, int threads, values,
        marginals=None, heads=None, parts=None, of_parts=None):
    """Fill `values` (B,), and `marginals` of all arcs or `heads` of all words.

    scores: B contiguous arrays (n + 1, n + 1) of one float dtype. parts: grandparents (m, 3) int64
    of all sentences, their scores (m,), and where each sentence's begin (B + 1,); `of_parts` (m,)
    are their marginals. Return None, or what is wrong with the first sentence that has no tree:
    (sentence, head, modifier), head -1 where its scores are fine.
    """
    cdef Call call = Call(0, None, None, None)
    cdef Batch b
    cdef Fault fault
    cdef vector[const void*] pointers
    cdef double* v = <double*>data(values)
    cdef double* p = <double*>data(marginals)
    cdef double* q = <double*>data(of_parts)
    cdef int64_t* h = <int64_t*>data(heads)
    if parts is not None:
        b.part_words = <const int64_t*>data(parts[0])
        b.part_score = <const double*>data(parts[1])
        b.part_at = <const int64_t*>data(parts[2])
    for array in scores:
        pointers.push_back(data(array))
    b.sentences = <int64_t>pointers.size()
    b.words = <const int64_t*>data(words)
    b.scores = pointers.data()
    b.dtype = dtype_code(scores[0]) if scores else 1
    b.kind = kProjective if projective else kTree
    b.single_root = single_root
    b.threads = threads
    with nogil:
        if h != NULL:
            fault = batch_best(b, pool_api[0], &call.control, v, h)
        else:
            fault = batch_marginals(b, pool_api[0], &call.control, v, p, q)
    call.end(kCancelled if call.error is not None else kOk)
    return (fault.sentence, fault.head, fault.modifier) if fault.sentence >= 0 else None


cdef Sentence sentence(scores, bint single_root):
    cdef Sentence s
    s.scores = <const double*>data(scores)
    s.n = scores.shape[0] - 1
    s.single_root = single_root
    return s


def arcs(scores, bint projective, bint single_root, bint all_ratios=True, bint later=False,
         double least=0.0):
    """Return log Z, marginals, complements and log-ratios of one sentence (float64).

    `all_ratios`: those of forbidden arcs, too. `later`: from sums that were made before. `least`:
    -inf are ratios of arcs with smaller marginals. Scratch holds no numbers before it is used.
    """
    cdef Sentence s = sentence(scores, single_root)
    cdef Kind kind = kProjective if projective else kTree
    cdef Arcs out, nothing
    cdef Sums sums
    p, c, r = np.empty(scores.shape), np.empty(scores.shape), np.empty(scores.shape)
    work = np.full(scratch_size(kind, s.n), np.nan)
    cdef double* scratch = <double*>data(work)
    cdef double log_z
    out.marginal = <double*>data(p)
    out.complement = <double*>data(c)
    out.ratio = <double*>data(r)
    out.all_ratios = all_ratios
    out.least = least
    with nogil:
        if later:
            log_z = c_sum(kind, s, nothing, scratch, &sums)
            c_more(&sums, out)
        else:
            log_z = c_marginals(kind, s, out, scratch)
    return log_z, p, c, r


def joints(scores, bint single_root, pairs):
    """Return log Z and P(both arcs) of pairs (m, 4) int32: head, modifier, head, modifier."""
    cdef Sentence s = sentence(scores, single_root)
    cdef int64_t count = pairs.shape[0]
    out, work = np.empty(pairs.shape[0]), np.full(scratch_size(kTree, s.n), np.nan)
    cdef const Pair* which = <const Pair*>data(pairs)
    cdef double* found = <double*>data(out)
    cdef double* scratch = <double*>data(work)
    cdef double log_z
    with nogil:
        log_z = c_joints(s, count, which, found, scratch)
    return log_z, out


def head_joints(scores, bint projective, bint single_root, lists):
    """Return log Z and, for (head, modifiers int32) of each, P(both arcs) of its arcs and of those
    with the arcs into the head: (k, k) at i < j, and (n + 1, k); -1 where `joints` has to be asked.
    """
    cdef Sentence s = sentence(scores, single_root)
    cdef Kind kind = kProjective if projective else kTree
    cdef Sums sums
    cdef Arcs nothing
    cdef int64_t head, count
    work = np.full(scratch_size(kind, s.n), np.nan)
    cdef double* scratch = <double*>data(work)
    cdef const int32_t* which
    cdef double* two
    cdef double* up
    above = np.arange(s.n + 1, dtype=np.int32)
    cdef const int32_t* heads = <const int32_t*>data(above)
    c_sum(kind, s, nothing, scratch, &sums)
    found = []
    for head, modifiers in lists:
        count = modifiers.shape[0]
        siblings, grandparents = np.zeros((count, count)), np.zeros((s.n + 1, count))
        which = <const int32_t*>data(modifiers)
        two, up = <double*>data(siblings), <double*>data(grandparents)
        with nogil:
            c_head_joints(&sums, head, count, which, s.n + 1, heads, two, up)
        found.append((siblings, grandparents))
    return sums.log_z, found


def projective_max(scores, bint single_root):
    """Return the best score, and the log-ratios of arcs, of one sentence (float64)."""
    cdef Sentence s = sentence(scores, single_root)
    ratio, work = np.empty(scores.shape), np.full(scratch_size(kProjective, s.n), np.nan)
    cdef double* found = <double*>data(ratio)
    cdef double* scratch = <double*>data(work)
    cdef double score
    with nogil:
        score = c_projective_max(s, found, scratch)
    return score, ratio
