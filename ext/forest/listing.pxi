# Rows of marginals: those entries that are worth to be listed, the largest, and distances.

cdef extern from "forest/listing.h" namespace "vs" nogil:
    cdef cppclass Rows:
        const void* at
        int dtype
        int64_t n, K
    void c_count "vs::count_listed"(const PoolApi&, const Rows&, double, int, int64_t*,
                                    Control*) noexcept
    void c_list "vs::list"(const PoolApi&, const Rows&, double, int, const int64_t*, int32_t*,
                           void*, double*, Control*) noexcept
    void c_distances "vs::distances"(const PoolApi&, const Rows&, const void*, const int32_t*, int,
                                     double*, double*, Control*) noexcept
    void c_top "vs::top"(const PoolApi&, const Rows&, int64_t, int, int64_t*, void*,
                         Control*) noexcept


cdef Rows rows_of(marginals):
    cdef Rows rows
    rows.at = data(marginals)
    rows.dtype = dtype_code(marginals)
    rows.n, rows.K = marginals.shape
    return rows


def listed(marginals, double least, int threads):
    """Return the entries (n, K) >= `least`, and the largest of each row: (start, labels, values,
    unlisted), as `list` in forest/listing.h has them."""
    cdef Call call = Call(0, None, None, None)
    cdef Rows rows = rows_of(marginals)
    start, unlisted = np.empty(rows.n + 1, dtype=np.int64), np.empty(rows.n)
    cdef int64_t* s = <int64_t*>data(start)
    cdef double* rest = <double*>data(unlisted)
    with nogil:
        c_count(pool_api[0], rows, least, threads, s, &call.control)
    call.end(kOk)
    labels = np.empty(s[rows.n], dtype=np.int32)
    values = np.empty(s[rows.n], dtype=marginals.dtype)
    cdef int32_t* label = <int32_t*>data(labels)
    cdef void* value = data(values)
    with nogil:
        c_list(pool_api[0], rows, least, threads, s, label, value, rest, &call.control)
    call.end(kOk)
    return start, labels, values, unlisted


def distances(marginals, others, labels, int threads):
    """Return the largest distance (n,) of each row (n, K) from that of `others`, and the share of
    it that its label (n,) int32 does not have, 0 where that is below 0."""
    cdef Call call = Call(0, None, None, None)
    cdef Rows rows = rows_of(marginals)
    found, left = np.empty(rows.n), np.empty(rows.n)
    cdef const void* other = data(others)
    cdef const int32_t* label = <const int32_t*>data(labels)
    cdef double* out = <double*>data(found)
    cdef double* rest = <double*>data(left)
    with nogil:
        c_distances(pool_api[0], rows, other, label, threads, out, rest, &call.control)
    call.end(kOk)
    return found, left


def top(marginals, int64_t k, int threads):
    """Return the labels and values (n, k) of the k largest entries of rows (n, K), descending."""
    cdef Call call = Call(0, None, None, None)
    cdef Rows rows = rows_of(marginals)
    labels = np.empty((rows.n, k), dtype=np.int64)
    values = np.empty((rows.n, k), dtype=marginals.dtype)
    cdef int64_t* label = <int64_t*>data(labels)
    cdef void* value = data(values)
    with nogil:
        c_top(pool_api[0], rows, k, threads, label, value, &call.control)
    call.end(kOk)
    return labels, values
