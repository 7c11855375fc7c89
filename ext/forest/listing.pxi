# Rows of marginals: those entries that are worth to be listed, the largest, and comparisons.

cdef extern from "forest/listing.h" namespace "vs" nogil:
    cdef cppclass Rows:
        const void* at
        int dtype
        int64_t n, K
    void c_count "vs::count_listed"(const PoolApi&, const Rows&, double, int, int64_t*,
                                    Control*) except +
    void c_list "vs::list"(const PoolApi&, const Rows&, double, int, const int64_t*, int32_t*,
                           void*, double*, Control*) except +
    void c_compare "vs::compare"(const PoolApi&, const Rows&, const int64_t*, const Comparison&,
                                 int, Control*) except +
    void c_top "vs::top"(const PoolApi&, const Rows&, int64_t, int, int64_t*, void*,
                         Control*) except +


cdef Rows rows_of(marginals):
    cdef Rows rows
    rows.at = data(marginals)
    rows.dtype = dtype_code(marginals)
    rows.n, rows.K = marginals.shape
    return rows


def count_listed(marginals, double least, int threads):
    """Return where the entries (n, K) >= `least` of each row, at least one, begin in a list."""
    cdef Call call = Call(0, None, None, None)
    cdef Rows rows = rows_of(marginals)
    start = np.empty(rows.n + 1, dtype=np.int64)
    cdef int64_t* s = <int64_t*>data(start)
    with nogil:
        c_count(pool_api[0], rows, least, threads, s, &call.control)
    call.end(kOk)
    return start


def listed(marginals, double least, int threads, start, labels, values, unlisted):
    """Fill in the labels and values of those entries, and what the rest of each row has at most;
    see `list` in forest/listing.h."""
    cdef Call call = Call(0, None, None, None)
    cdef Rows rows = rows_of(marginals)
    cdef const int64_t* s = <const int64_t*>data(start)
    cdef int32_t* label = <int32_t*>data(labels)
    cdef void* value = data(values)
    cdef double* rest = <double*>data(unlisted)
    with nogil:
        c_list(pool_api[0], rows, least, threads, s, label, value, rest, &call.control)
    call.end(kOk)


cdef Comparison comparison(compared):
    """Return a Comparison (forest/request.h), of which the last two arrays are filled.

    compared: marginals (N, K), labels (N,) int32, error, growth and extra of components, far (N,),
    wrong (N,)."""
    cdef Comparison c
    marginals, labels, error, growth, extra, far, wrong = compared
    c.rows = data(marginals)
    c.label = <const int32_t*>data(labels)
    c.error = <const double*>data(error)
    c.growth = <const double*>data(growth)
    c.extra = <const double*>data(extra)
    c.far = <double*>data(far)
    c.wrong = <double*>data(wrong)
    return c


cdef double grown_by(double g) noexcept nogil:
    """At least e^g - 1, but for rounding, and by 1e-10 of it more at most."""
    if g > 0.05:
        return expm1(min(g, 700.0))
    cdef double rest = 1.0 + g / 5.0  # at least 1 + g/6 + ...
    return g * (1.0 + g / 2.0 * (1.0 + g / 3.0 * (1.0 + g / 4.0 * (1.0 + g / 5.0 * rest))))


cdef void allow(double radius, double mass, double written, double* to, int64_t n) noexcept nogil:
    cdef double grown = grown_by(radius)
    to[0] = min((grown * (0.25 + mass) + mass + written) * (1.0 + 1e-12), 1.0)
    to[n] = (grown + 1.0) * (1.0 + 2.0**-50)
    to[2 * n] = 2.0 * mass * (grown + 1.0) + 2.0**-51


def allowances(radius, slack, double written):
    """Return rows (3, n): what the radius G (n,) and the slack U, a number or (n,), allow.

    The first is the error, of what `written` may have been rounded by beside: the most that
    |p - m| <= m (1 - m) (e^G - 1) + U e^G comes to. Of a label, or several, whose share of what was
    computed is x, the exact one is at most a x + b: the others (CERTIFICATES, section 1)."""
    cdef int64_t n = radius.shape[0], i
    cdef bint each = isinstance(slack, np.ndarray)
    cdef double one = 0.0 if each else slack
    cdef const double* g = <const double*>data(radius)
    cdef const double* u = <const double*>data(slack) if each else &one
    found = np.empty((3, n))
    cdef double* out = <double*>data(found)
    with nogil:
        for i in range(n):
            allow(g[i], u[i] if each else u[0], written, out + i, n)
    return found


def allowances_of(
    sizes, int64_t longest, double step, double once, double slack, double written,
    double cut=0.0,
):
    """The same of components of so many variables, whose radius is `step` of each and `once`.

    `cut`: the slack beside, a variable, of those that may have been cut."""
    cdef int64_t n = sizes.shape[0], i, j
    cdef const int64_t* size = <const int64_t*>data(sizes)
    cdef bint known = longest < n  # of each size once
    cdef vector[double] of_size
    cdef int64_t long = cut_from()
    found = np.empty((3, n))
    cdef double* out = <double*>data(found)
    if known:
        of_size.resize(3 * (longest + 1))
    cdef double* own = of_size.data()
    with nogil:
        for i in range(longest + 1 if known else n):
            if known:
                allow(step * <double>i + once, slack + (cut * i if i >= long else 0.0), written,
                      own + i, longest + 1)
            else:
                allow(step * <double>size[i] + once,
                      slack + (cut * size[i] if size[i] >= long else 0.0), written, out + i, n)
        for j in range(3 if known else 0):
            for i in range(n):
                out[j * n + i] = own[j * (longest + 1) + size[i]]
    return found


def compare(marginals, owner, compared, int threads):
    """Compare rows (N, K) with those of another answer, see `comparison`; `owner` (N,): the
    component of each row, None: there are as many."""
    cdef Call call = Call(0, None, None, None)
    cdef Rows rows = rows_of(marginals)
    cdef const int64_t* own = <const int64_t*>data(owner)
    cdef Comparison c = comparison(compared)
    with nogil:
        c_compare(pool_api[0], rows, own, c, threads, &call.control)
    call.end(kOk)


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
