# Shared by the modules whose calls leave memory for the next ones: each has its own.
cdef extern from "core/session.h" namespace "vs":
    void c_free_waiting "vs::Session::free_waiting"() noexcept


def free_workspaces():
    """Free the memory that calls have left for the next ones."""
    c_free_waiting()
