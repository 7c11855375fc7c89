# How long chains are cut, for tests.

cdef extern from "forest/cut.h" namespace "vs" nogil:
    cdef cppclass CutRule:
        int64_t least, chunk, run_in
        double agree
    CutRule& cut_rule() noexcept


def cut_from():
    """Return the positions from which on a chain may be cut."""
    cdef int64_t least = cut_rule().least
    return least if least >= 0 else INT64_MAX


def cut_chains(int64_t least=4096, int64_t chunk=0, int64_t run_in=0, double agree=0.0):
    """Cut chains from `least` positions on (negative: none) into chunks, which are entered after
    `run_in`, by messages that differ by no more than `agree`; zeros: as the chain says. For tests,
    while nothing else runs."""
    cdef CutRule* rule = &cut_rule()
    rule.least = least
    rule.chunk = chunk
    rule.run_in = run_in
    rule.agree = agree
