# Included by messages.pyx.
cdef class SpanningTrees:
    """How often uniform spanning trees hold each of some pairs of variables."""

    cdef Resistances resistances
    cdef int64_t count
    cdef readonly int64_t columns  # of the Laplacian; 0: no pair is on a cycle
    cdef readonly tuple laplacian  # by columns: values, rows, where each column begins

    def __cinit__(self, int64_t n, pairs):
        """pairs: (2 m,), each pair once."""
        cdef const int64_t* p = indices(pairs)
        self.count = pairs.shape[0] // 2
        with nogil:
            self.resistances.lay_out(n, self.count, p)
        self.columns = self.resistances.columns()
        value = np.empty(self.resistances.value().size())
        row = np.empty(value.size, dtype=np.int32)
        ptr = np.empty(self.columns + 1, dtype=np.int32)
        if value.size:
            memcpy(data(value), self.resistances.value().data(), value.nbytes)
            memcpy(data(row), self.resistances.row().data(), row.nbytes)
        memcpy(data(ptr), self.resistances.ptr().data(), ptr.nbytes)
        self.laplacian = value, row, ptr

    def read(self, ptr, row, factor, pivot, order):
        """Return the probabilities, given L D L' of the permuted Laplacian."""
        found = np.empty(self.count)
        cdef const int32_t* p = <const int32_t*>data(ptr)
        cdef const int32_t* r = <const int32_t*>data(row)
        cdef const int32_t* o = <const int32_t*>data(order)
        cdef const double* f = doubles(factor)
        cdef const double* d = doubles(pivot)
        cdef double* out = <double*>data(found)
        with nogil:
            self.resistances.read(p, r, f, d, o, out)
        return found
