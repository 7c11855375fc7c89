# cython: freethreading_compatible=True
"""Attributes of items: read from Python objects, numbered, and scored by the weights of a model.

Reading needs the GIL and copies names into plain memory; all that follows runs without it.
"""

from cpython.pycapsule cimport PyCapsule_GetPointer
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcpy
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


cdef extern from "crf/buffer.h" namespace "vs" nogil:
    cdef cppclass Buffer[T]:
        int64_t size() noexcept
        T* data() noexcept
        T& operator[](int64_t) noexcept
        void truncate(int64_t) noexcept
        void push(T) except +
        void append(const T*, int64_t) except +


cdef extern from "crf/items.h" namespace "vs" nogil:
    cdef cppclass Items:
        Items()
        Buffer[char] text
        Buffer[int64_t] end
        Buffer[double] value
        Buffer[int64_t] item_end
        Buffer[int64_t] length
        int64_t n_attributes() noexcept
        int64_t n_items() noexcept
        int64_t begin(int64_t) noexcept
        void name(const char*, int64_t, double) except +
        void put(const char*, int64_t) except +
        void close(double) except +
        int64_t put_characters(int, const void*, int64_t) except +
        void end_item() except +
        void end_sequence(int64_t) except +
        void append(const Items&) except +
        void clear() noexcept
        void swap(Items&) noexcept


cdef extern from "crf/dictionary.h" namespace "vs" nogil:
    cdef cppclass Names "vs::Dictionary":
        Names() except +
        int64_t fill(const Items&) except +


cdef extern from "crf/encoder.h" namespace "vs" nogil:
    cdef cppclass Encoding:
        Encoding()
        Buffer[int64_t] indptr
        Buffer[int32_t] ids
        Buffer[double] values
        Buffer[int64_t] length
    cdef cppclass Growth:
        Growth()
    const int64_t kFilled "vs::Encoder::kFilled"
    cdef cppclass Encoder:
        Encoder() except +
        bint encode(const Items&, Growth*, Encoding&) except +
        int32_t size() noexcept
        int64_t fill(const Items&) except +
        int32_t find(const char*, int64_t) noexcept
        void copy(Buffer[char]&, Buffer[int64_t]&) except +
        void roll_back(const Growth&) noexcept


cdef extern from "crf/scorer.h" namespace "vs" nogil:
    cdef cppclass WeightRows:
        WeightRows()
        int64_t n_labels
        void add(const int32_t*, const double*, int64_t) except +
    int64_t score_all(const PoolApi&, int, const Names&, const WeightRows&, const Items&, double,
                      double*, Control*) except +


cdef extern from *:
    """
    #include <cmath>
    // Text whose bytes are UTF-8 as they stand; null for any other object.
    static inline const char* vs_ascii(PyObject* o, int64_t* n) {
        if (!PyUnicode_Check(o) || !PyUnicode_IS_COMPACT_ASCII(o)) return nullptr;
        *n = PyUnicode_GET_LENGTH(o);
        return reinterpret_cast<const char*>(PyUnicode_1BYTE_DATA(o));
    }
    // Asks for what the items after item i of a list will need: strings lie all over memory, and
    // waiting for each would take most of the time. Without a GIL others may change the lists.
    static inline void vs_look_ahead(PyObject* items, Py_ssize_t i) {
    #ifndef Py_GIL_DISABLED
        const Py_ssize_t n = PyList_GET_SIZE(items);
        if (i + 3 < n) VS_PREFETCH_READ(PyList_GET_ITEM(items, i + 3));
        if (i + 2 < n && PyList_CheckExact(PyList_GET_ITEM(items, i + 2))) {
            VS_PREFETCH_READ(((PyListObject*)PyList_GET_ITEM(items, i + 2))->ob_item);
        }
        if (i + 1 < n && PyList_CheckExact(PyList_GET_ITEM(items, i + 1))) {
            PyObject* next = PyList_GET_ITEM(items, i + 1);
            const Py_ssize_t m = PyList_GET_SIZE(next) < 64 ? PyList_GET_SIZE(next) : 64;
            for (Py_ssize_t j = 0; j < m; ++j) {
                const char* name = (const char*)PyList_GET_ITEM(next, j);
                VS_PREFETCH_WRITE(name);
                VS_PREFETCH_READ(name + 63);
            }
        }
    #else
        (void)items;
        (void)i;
    #endif
    }
    static inline int vs_deeper() {
        return Py_EnterRecursiveCall(" while reading nested attributes") ? -1 : 0;
    }
    static inline int vs_ready(PyObject* o) {
    #if PY_VERSION_HEX < 0x030C0000
        return PyUnicode_READY(o);
    #else
        (void)o;
        return 0;
    #endif
    }
    """
    int vs_deeper() except -1
    void vs_look_ahead(list, Py_ssize_t) noexcept
    const char* vs_ascii(object, int64_t*) noexcept
    int vs_ready(object) except -1
    int PyUnicode_KIND(object) noexcept
    void* PyUnicode_DATA(object) noexcept
    int64_t PyUnicode_GET_LENGTH(object) noexcept
    void Py_LeaveRecursiveCall() noexcept
    bint isfinite "std::isfinite"(double) noexcept


# Attributes that a long batch has read when they are looked up: enough to hide what a look-up costs
# besides, few enough to stay in cache.
cdef int64_t BLOCK = 1 << 16

# Items within items. A level takes some 500 bytes of the stack, and a thread may have 256 KiB.
cdef int DEEPEST = 256


cdef class Reader:
    """Copies names and values out of items; see `ItemSequence` for what an item is.

    `single` makes error messages speak of one ``xseq``, not of ``xseqs``; `characters` takes a str
    for the sequence of its characters, as python-crfsuite does, where it is refused otherwise.
    """

    cdef Items items
    cdef vector[char] prefix  # of the nested item that is being read
    cdef int64_t sequence, item
    cdef int depth  # of nested items
    cdef bint single, characters

    def __cinit__(self, bint single, bint characters):
        self.single = single
        self.characters = characters
        self.sequence = 0
        self.item = 0
        self.depth = 0

    cdef str place(self):
        if self.single:
            return f"xseq[{self.item}]"
        return f"xseqs[{self.sequence}][{self.item}]"

    cdef int read(self, xseq) except -1:
        """Read one sequence after those that were read."""
        cdef ItemSequence ready
        self.item = 0
        if type(xseq) is list:
            for item in <list>xseq:
                vs_look_ahead(<list>xseq, self.item)
                self.read_item(item)
                self.item += 1
        elif isinstance(xseq, ItemSequence):
            ready = <ItemSequence>xseq
            self.items.append(ready.c_items)
            self.item = ready.c_items.n_items()
        else:
            for item in self.items_of(xseq):
                self.read_item(item)
                self.item += 1
        self.items.end_sequence(self.item)
        self.sequence += 1
        return 0

    cdef items_of(self, xseq):
        where = "xseq" if self.single else f"xseqs[{self.sequence}]"
        if isinstance(xseq, (str, bytes, Mapping)) and not self.characters:
            raise TypeError(
                f"{where} must be a sequence of items, not {type(xseq).__name__}; "
                "wrap a single item in a list"
            )
        if hasattr(xseq, "__iter__"):
            return xseq
        if callable(getattr(xseq, "items", None)):  # python-crfsuite's own ItemSequence
            return xseq.items()
        raise TypeError(f"{where} must be a sequence of items, not {type(xseq).__name__}")

    cdef int read_item(self, item) except -1:
        if (self.items.n_attributes() & 0xFFFF) == 0:
            PyErr_CheckSignals()
        if type(item) is list:
            for name in <list>item:
                self.read_name(name)
        elif type(item) is dict:
            for key, value in (<dict>item).items():
                self.read_pair(key, value)
        elif isinstance(item, dict):
            for key, value in item.items():
                self.read_pair(key, value)
        elif not isinstance(item, (set, tuple, frozenset)) and not self.is_item(item):
            raise TypeError(
                f"{self.place()}: an item must be a list, set or dict of attributes, "
                f"not {type(item).__name__}"
            )
        else:
            for name in item:
                self.read_name(name)
        self.items.end_item()
        return 0

    cdef bint is_item(self, item) except -1:
        if isinstance(item, (str, Mapping)):
            return self.characters
        return (
            not isinstance(item, (bytes, bytearray, memoryview))
            and isinstance(item, Iterable)
            and isinstance(item, Sized)
        )

    cdef int read_name(self, name) except -1:
        cdef int64_t n
        cdef const char* s = vs_ascii(name, &n)
        if s != NULL:
            self.items.name(s, n, 1.0)
        else:
            self.put(name)
            self.items.close(1.0)
        return 0

    cdef int put(self, name) except -1:
        """Append a text or bytes to the name under way."""
        cdef int64_t n, bad
        cdef const char* s = vs_ascii(name, &n)
        if s != NULL:
            self.items.put(s, n)
        elif isinstance(name, str):
            vs_ready(name)
            n = PyUnicode_GET_LENGTH(name)
            bad = self.items.put_characters(PyUnicode_KIND(name), PyUnicode_DATA(name), n)
            if bad >= 0:
                raise UnicodeEncodeError(
                    "utf-8", name, bad, bad + 1,
                    f"{self.place()}: surrogates are not allowed in an attribute's name",
                )
        elif isinstance(name, (bytes, bytearray)):
            name = bytes(name)
            self.items.put(<const char*>(<bytes>name), len(<bytes>name))
        else:
            raise TypeError(
                f"{self.place()}: an attribute's name must be str, not {type(name).__name__}: "
                f"{name!r}"
            )
        return 0

    cdef int open(self, key) except -1:
        """Begin a name with the prefix of the nested item and `key`."""
        if not self.prefix.empty():
            self.items.put(self.prefix.data(), self.prefix.size())
        self.put(key)
        return 0

    cdef str under_way(self):
        """The name under way, for messages."""
        cdef int64_t begin = self.items.begin(self.items.n_attributes())
        cdef char* text = self.items.text.data()
        name = text[begin:self.items.text.size()] if self.items.text.size() > begin else b""
        return repr(name.decode("utf-8", "surrogateescape"))

    cdef int read_pair(self, key, value) except -1:
        cdef double number
        self.open(key)
        if type(value) is float:
            number = <double>value
        elif type(value) is bool:
            number = 1.0 if value is True else 0.0
        elif isinstance(value, (str, bytes, bytearray)):
            self.items.put(":", 1)
            self.put(value)
            self.items.close(1.0)
            return 0
        elif isinstance(value, (dict, list, set)):
            self.items.put(":", 1)
            self.read_nested(value)
            return 0
        else:
            number = self.number(value)
        if not isfinite(number):
            raise ValueError(
                f"{self.place()}: attribute {self.under_way()} has value {number}; "
                "values must be finite"
            )
        self.items.close(number)
        return 0

    cdef double number(self, value) except? -1.0:
        kind = type(value)
        if not (hasattr(kind, "__float__") or hasattr(kind, "__index__")):
            raise TypeError(
                f"{self.place()}: attribute {self.under_way()}: a value must be a number, bool, "
                f"str, list, set or dict, not {kind.__name__}"
            )
        try:
            return float(value)
        except TypeError as error:
            raise TypeError(f"{self.place()}: attribute {self.under_way()}: {error}") from None
        except (OverflowError, ValueError) as error:
            raise ValueError(f"{self.place()}: attribute {self.under_way()}: {error}") from None

    cdef int read_nested(self, value) except -1:
        """Read a nested item: the name under way becomes the prefix of its attributes."""
        cdef int64_t begin = self.items.begin(self.items.n_attributes())
        cdef size_t before = self.prefix.size()
        cdef char* text = self.items.text.data()
        cdef int64_t i
        for i in range(begin + <int64_t>before, self.items.text.size()):
            self.prefix.push_back(text[i])
        self.items.text.truncate(begin)
        # Python's own limit knows nothing of how small the stack of a thread is.
        if self.depth >= DEEPEST:
            raise RecursionError(
                f"{self.place()}: attributes are nested more than {DEEPEST} deep; flatten the item"
            )
        vs_deeper()
        self.depth += 1
        try:
            if isinstance(value, dict):
                for key, inner in value.items():
                    self.read_pair(key, inner)
            else:
                for name in value:
                    self.open(name)
                    self.items.close(1.0)
        finally:
            self.depth -= 1
            Py_LeaveRecursiveCall()
        self.prefix.resize(before)
        return 0


cdef class ItemSequence:
    """Attributes of the items of one sequence, read once and used as often as needed.

    Parameters
    ----------
    pyseq : iterable of items
        Each item is a list (or another sized iterable) of attributes, each of value 1, or a dict
        from names to values: a number or bool is the attribute's value; a str makes the attribute
        ``name:value`` of value 1; a list, set or dict holds attributes to which ``name:`` is
        prefixed.

    Examples
    --------
    >>> xseq = ItemSequence([{"foo": 1, "bar": 0}, {"foo": 1.5, "n": {"w": "the"}}])
    >>> xseq
    <ItemSequence of size 2>
    >>> xseq.items()
    [{'foo': 1.0, 'bar': 0.0}, {'foo': 1.5, 'n:w:the': 1.0}]
    """

    cdef Items c_items

    def __init__(self, pyseq):
        cdef Reader reader = Reader(True, True)
        reader.read(pyseq)
        # Last, so that __init__ called again never leaves half of two sequences.
        self.c_items.swap(reader.items)

    cdef bytes name(self, int64_t i):
        cdef char* text = self.c_items.text.data()
        cdef int64_t begin = self.c_items.begin(i), end = self.c_items.end[i]
        # As in C, a name ends at its first NUL.
        return text[begin:end].partition(b"\0")[0] if end > begin else b""

    def items(self):
        """Return a list of ``{name: value}`` dicts; of a repeated name the last value stays."""
        cdef int64_t at = 0, item
        answer = []
        for item in range(self.c_items.n_items()):
            x = {}
            while at < self.c_items.item_end[item]:
                x[self.name(at).decode("utf-8")] = self.c_items.value[at]
                at += 1
            answer.append(x)
        return answer

    def __len__(self):
        return self.c_items.n_items()

    def __repr__(self):
        return f"<ItemSequence of size {len(self)}>"

    def __reduce__(self):
        cdef int64_t at = 0, item
        pairs = []
        for item in range(self.c_items.n_items()):
            pair = []
            while at < self.c_items.item_end[item]:
                pair.append((self.name(at), self.c_items.value[at]))
                at += 1
            pairs.append(pair)
        return _item_sequence, (pairs,)


def _item_sequence(pairs):
    """Return the sequence of items that are lists of (name, value); for pickle."""
    cdef ItemSequence made = ItemSequence(())
    cdef Reader reader = Reader(True, True)
    for item in pairs:
        for name, value in item:
            reader.put(name)
            reader.items.close(value)
        reader.items.end_item()
    reader.items.end_sequence(len(pairs))
    made.c_items.swap(reader.items)
    return made


cdef object array_of(const void* numbers, cnp.npy_intp n, int kind):
    array = cnp.PyArray_EMPTY(1, &n, kind, 0)
    if n:
        memcpy(cnp.PyArray_DATA(array), numbers, cnp.PyArray_NBYTES(array))
    return array


cdef object doubles(Buffer[double]& b):
    return array_of(b.data(), b.size(), cnp.NPY_FLOAT64)


cdef object int64s(Buffer[int64_t]& b):
    return array_of(b.data(), b.size(), cnp.NPY_INT64)


cdef object int32s(Buffer[int32_t]& b):
    return array_of(b.data(), b.size(), cnp.NPY_INT32)


cdef Reader read_names(list names):
    cdef Reader reader = Reader(True, True)
    reader.read_item(names)
    return reader


cdef class Dictionary:
    """Numbers of attributes, in the order in which they first appeared.

    Parameters
    ----------
    names : iterable of str
        Attributes that are known from the start; all different.

    Notes
    -----
    May be used by several threads at once: each sees all names of a call to `encode` or, before
    it has come to them, those up to some block of its attributes. A name ends at its first NUL, as
    in CRFsuite.

    Examples
    --------
    >>> d = Dictionary()
    >>> indptr, ids, values, lengths = d.encode([[["a", "b"], {"a": 2.0}], [["c"]]], grow=True)
    >>> indptr, ids, values, lengths
    (array([0, 2, 3, 4]), array([0, 1, 0, 2], dtype=int32), array([1., 1., 2., 1.]), array([2, 1]))
    >>> d.names()
    ['a', 'b', 'c']
    >>> d.encode([[["c", "new"]]])[1]
    array([2], dtype=int32)
    """

    cdef Encoder* encoder

    def __cinit__(self):
        self.encoder = new Encoder()

    def __dealloc__(self):
        del self.encoder

    def __init__(self, names=()):
        given = list(names)
        cdef int64_t repeat = self.encoder.fill(read_names(given).items)
        if repeat == kFilled:
            raise ValueError("a dictionary is filled once; make a new one")
        if repeat >= 0:
            raise ValueError(f"names[{repeat}] is {given[repeat]!r} again; names must differ")

    def __len__(self):
        return self.encoder.size()

    def __reduce__(self):
        return type(self), (self.names(),)

    def names(self):
        """Return the known names in the order of their ids."""
        cdef Buffer[char] text
        cdef Buffer[int64_t] begin
        cdef int64_t i
        with nogil:
            self.encoder.copy(text, begin)
        cdef const char* at = text.data()
        return [at[begin[i]:begin[i + 1]].decode("utf-8", "surrogateescape")
                if begin[i] < begin[i + 1] else "" for i in range(begin.size() - 1)]

    def find(self, name):
        """Return the id of a name, -1 for one that is not known."""
        cdef Reader reader = Reader(True, True)
        cdef int32_t found
        reader.put(name)
        with nogil:
            found = self.encoder.find(reader.items.text.data(), reader.items.text.size())
        return found

    def encode(self, xseqs, bint grow=False, *, bint single=False, bint characters=False):
        """Number the attributes of every item.

        Parameters
        ----------
        xseqs : iterable of B sequences of items
            See `ItemSequence`. A `pycrfsuite.ItemSequence` is a sequence too.
        grow : bool
            Whether new names become known; else they are left out.
        single : bool
            Whether `xseqs` is one sequence, and error messages speak of ``xseq``.
        characters : bool
            Whether a str may stand for the list of its characters, as python-crfsuite takes it.

        Returns
        -------
        indptr : (N + 1,) int64
            The attributes of item i are ``[indptr[i], indptr[i + 1])``.
        ids : (M,) int32
            In the order given, repeats kept.
        values : (M,) float64
            Finite.
        lengths : (B,) int64
            The number of items of each sequence; they sum to N.

        Raises
        ------
        TypeError, ValueError
            Something is of a wrong type, not finite or not Unicode; the message names sequence,
            item and attribute. The dictionary is then what it was before, unless another thread
            has added to it meanwhile.
        """
        cdef Encoding out
        cdef Reader reader = Reader(single, characters)
        cdef Growth growth
        cdef Growth* grows = &growth if grow else NULL
        try:
            for xseq in ((xseqs,) if single else xseqs):
                reader.read(xseq)
                if reader.items.n_attributes() >= BLOCK:
                    self.add(reader, grows, &out)
            self.add(reader, grows, &out)
        except BaseException:
            self.encoder.roll_back(growth)
            raise
        return int64s(out.indptr), int32s(out.ids), doubles(out.values), int64s(out.length)

    cdef int add(self, Reader reader, Growth* growth, Encoding* out) except -1:
        cdef bint fits
        with nogil:
            fits = self.encoder.encode(reader.items, growth, out[0])
        if not fits:
            raise ValueError(f"{reader.place()}: more than {2**31 - 1} different attributes")
        reader.items.clear()
        return 0


cdef object empty(int type_number, int64_t rows, int64_t columns):
    cdef cnp.npy_intp[2] shape = [rows, columns]
    return cnp.PyArray_EMPTY(2, shape, type_number, 0)


cdef class Run:
    """One pass over sequences that were read: where they begin, and how the pass can be ended.

    A pass below a millisecond needs no polls; one of some 25 microseconds keeps the GIL, because
    threads that hand it to each other lose more time than so short a pass could share.
    """

    cdef Buffer[int64_t] offset, edge
    cdef Control control
    cdef Call call
    cdef int64_t before  # sequences of the batch that came before
    cdef bint brief

    def __cinit__(self, Reader reader, int64_t n_labels, bint score):
        cdef int64_t at = 0, edges = 0, i, size, n = reader.items.length.size()
        self.offset.push(0)
        self.edge.push(0)
        for i in range(n):
            size = reader.items.length[i]
            at += size
            edges += size - 1 if size > 0 else 0
            self.offset.push(at)
            self.edge.push(edges)
        self.before = reader.sequence - n if score else 0
        # Nanoseconds, roughly.
        cdef double work = 30.0 * reader.items.n_attributes()
        work += at * (20.0 + 2.0 * n_labels + 0.15 * n_labels * n_labels)
        self.brief = work < 25e3
        self.call = None if work < 1e6 else Call(at, None, None, None)

    cdef Control* watch(self) noexcept:
        return &self.control if self.call is None else &self.call.control

    cdef int finish(self, Report r) except -1:
        """Raise what ended the pass."""
        if self.call is not None:
            self.call.end(r.status)
        elif r.status == kNoMemory:
            raise MemoryError("not enough memory for the messages of this model")
        if r.status == kInfeasible:
            raise InfeasibleError(self.before + r.sequence, r.position)
        return 0


cdef class Scorer:
    """A model's attributes and their weights, its transitions, and what items come to by them.

    Immutable: threads may share it. Arguments are taken as they come, except items.

    Parameters
    ----------
    names : iterable of A str
        All different.
    indptr : (A + 1,) int64
    labels : (M,) int32
    weights : (M,) float64
        Row a of the (A, K) weights: ``labels[indptr[a]:indptr[a + 1]]`` and their weights.
    transition : (K, K) float64
        C-contiguous.
    """

    cdef Names* names
    cdef WeightRows rows
    cdef object transition
    cdef Prepared* prepared

    def __cinit__(self, names, const int64_t[::1] indptr, const int32_t[::1] labels,
                  const double[::1] weights, cnp.ndarray transition):
        cdef int64_t a
        self.names = new Names()
        self.names.fill(read_names(list(names)).items)
        self.transition = transition
        self.rows.n_labels = transition.shape[0]
        for a in range(indptr.shape[0] - 1):
            self.rows.add(&labels[0] + indptr[a] if labels.shape[0] else NULL,
                          &weights[0] + indptr[a] if labels.shape[0] else NULL,
                          indptr[a + 1] - indptr[a])

    def __dealloc__(self):
        del self.names
        chains.release(self.prepared)

    cdef int prepare(self) except -1:
        """Make what passes want of the transition, when the first one comes."""
        cdef Chains c
        with cython.critical_section(self):
            if self.prepared == NULL:
                c = self.chains_of(None, None, NULL, NULL, 0, 0)
                self.prepared = chains.prepare(c)
        return 0

    cdef Chains chains_of(self, unary, allowed, const int64_t* offset, const int64_t* edge,
                          int64_t n_positions, int64_t n_sequences):
        cdef Chains c
        c.unary = data(unary)
        c.transition = data(self.transition)
        c.start = c.end = NULL
        c.allowed = <const uint8_t*>data(allowed)
        c.offset = offset
        c.edge = edge
        c.n_positions = n_positions
        c.n_labels = self.rows.n_labels
        c.n_sequences = n_sequences
        c.dtype = dtype_code(self.transition)
        c.per_edge = False
        return c

    cdef int idle(self, Reader reader) except -1:
        """Whether there are no labels, and so nothing to compute: kernels want one at least."""
        if self.rows.n_labels:
            return 0
        if reader.items.n_items():
            raise refusal(reader, 0, "the model has no labels: it was trained on empty sequences; "
                          "train it on items with labels")
        return 1

    cdef int fill(self, Reader reader, unary, int threads, double limit) except -1:
        """Score what was read."""
        cdef double* u = <double*>data(unary)
        cdef Control control
        cdef int64_t bad
        if self.idle(reader):
            return 0
        with nogil:
            bad = score_all(pool_api[0], threads, self.names[0], self.rows, reader.items, limit, u,
                            &control)
        if bad >= 0:
            raise refusal(reader, bad, kTooLarge)
        return 0

    def unary(self, xseqs, bint single, bint characters, double limit):
        """Return scores (N, K) and lengths (B,); scores beyond ±`limit` are a ValueError.

        See `Dictionary.encode` for `xseqs`, `single` and `characters`.
        """
        cdef Reader reader = Reader(single, characters)
        if single:
            reader.read(xseqs)
        else:
            for xseq in xseqs:
                reader.read(xseq)
        unary = empty(cnp.NPY_FLOAT64, reader.items.n_items(), self.rows.n_labels)
        self.fill(reader, unary, 1, limit)
        return unary, int64s(reader.items.length)

    def tag(self, xseq, list labels):
        """Return the scores of one sequence and the labels of its best configuration."""
        cdef Reader reader = Reader(True, True)
        reader.read(xseq)
        unary = empty(cnp.NPY_FLOAT64, reader.items.n_items(), self.rows.n_labels)
        states, _ = self.decode_read(reader, unary, None, 1, 1, True)
        return unary, labelled(states, labels)

    def marginals(self, xseq):
        """Return scores, marginals and log_z of one sequence."""
        cdef Reader reader = Reader(True, True)
        reader.read(xseq)
        unary = empty(cnp.NPY_FLOAT64, reader.items.n_items(), self.rows.n_labels)
        marginals, log_z = self.infer_read(reader, unary, None, 1.0, 1, True)
        return unary, marginals, log_z[0]

    def decode_scores(self, unary, allowed, int64_t n_best):
        """Return states (n_best, n) and scores (n_best, 1) of one sequence."""
        cdef Reader reader = Reader(True, True)
        reader.items.end_sequence((<cnp.ndarray>unary).shape[0])
        return self.decode_read(reader, unary, allowed, n_best, 1, False)

    def infer_scores(self, unary, allowed, double zeta):
        """Return marginals and log_z of one sequence."""
        cdef Reader reader = Reader(True, True)
        reader.items.end_sequence((<cnp.ndarray>unary).shape[0])
        marginals, log_z = self.infer_read(reader, unary, allowed, zeta, 1, False)
        return marginals, log_z[0]

    def pairwise(self, unary, allowed):
        """Return the edge marginals (n - 1, K, K) of one sequence."""
        cdef Reader reader = Reader(True, True)
        cdef int64_t n = (<cnp.ndarray>unary).shape[0]
        reader.items.end_sequence(n)
        cdef cnp.npy_intp[3] shape = [n - 1 if n else 0, self.rows.n_labels, self.rows.n_labels]
        answer = cnp.PyArray_EMPTY(3, shape, cnp.NPY_FLOAT64, 0)
        if self.idle(reader):
            return answer
        cdef double log_z
        cdef Run run = Run(reader, self.rows.n_labels * 4, False)
        cdef Control* control = run.watch()
        self.prepare()
        cdef Request q
        cdef Report r
        q.chains = self.chains_of(unary, allowed, run.offset.data(), run.edge.data(), n, 1)
        q.prepared = self.prepared
        q.threads = 1
        q.zeta = 1.0
        q.log_z = &log_z
        q.pairwise = data(answer)
        q.pairwise_first = 0
        q.pairwise_last = shape[0]
        with nogil:
            r = chains.infer(q, control[0])
        run.finish(r)
        return answer

    def tag_batch(self, xseqs, masks, list labels, int threads):
        """Return a list of labels of each sequence; `masks` as in `Masks`, or None."""
        cdef Reader reader = Reader(False, True)
        answer, given = [], []
        for xseq in xseqs:
            self.take(reader, xseq, masks, given)
            if full(reader, self.rows.n_labels):
                self.tag_block(reader, given, labels, threads, answer)
        self.tag_block(reader, given, labels, threads, answer)
        return answer

    def marginals_batch(self, xseqs, masks, double zeta, int threads):
        """Return the marginals (n, K) of each sequence; `masks` as in `Masks`, or None."""
        cdef Reader reader = Reader(False, True)
        answer, given = [], []
        for xseq in xseqs:
            self.take(reader, xseq, masks, given)
            if full(reader, self.rows.n_labels):
                self.marginals_block(reader, given, zeta, threads, answer)
        self.marginals_block(reader, given, zeta, threads, answer)
        return answer

    cdef int take(self, Reader reader, xseq, masks, list given) except -1:
        reader.read(xseq)
        if masks is not None:
            given.append(masks(reader.sequence - 1, reader.item))
        return 0

    cdef object joined(self, Reader reader, list given):
        """One mask (N, K) of the masks of the sequences, of which some are None."""
        cdef int64_t at = 0, i
        if all([mask is None for mask in given]):
            return None
        allowed = empty(cnp.NPY_BOOL, reader.items.n_items(), self.rows.n_labels)
        for i, mask in enumerate(given):
            size = reader.items.length[i]
            allowed[at:at + size] = True if mask is None else mask
            at += size
        return allowed

    cdef int tag_block(self, Reader reader, list given, list labels, int threads,
                       list answer) except -1:
        cdef int64_t at = 0, i, size
        unary = empty(cnp.NPY_FLOAT64, reader.items.n_items(), self.rows.n_labels)
        allowed = self.joined(reader, given)
        states, _ = self.decode_read(reader, unary, allowed, 1, threads, True)
        for i in range(reader.items.length.size()):
            size = reader.items.length[i]
            answer.append(names_of_states(<int64_t*>data(states) + at, size, labels))
            at += size
        reader.items.clear()
        given.clear()
        return 0

    cdef int marginals_block(self, Reader reader, list given, double zeta, int threads,
                             list answer) except -1:
        cdef int64_t at = 0, i, size
        unary = empty(cnp.NPY_FLOAT64, reader.items.n_items(), self.rows.n_labels)
        allowed = self.joined(reader, given)
        marginals, _ = self.infer_read(reader, unary, allowed, zeta, threads, True)
        for i in range(reader.items.length.size()):
            size = reader.items.length[i]
            answer.append(marginals[at:at + size])
            at += size
        reader.items.clear()
        given.clear()
        return 0

    cdef tuple decode_read(self, Reader reader, unary, allowed, int64_t n_best, int threads,
                           bint score):
        """Decode what was read, scoring it first when `score`."""
        cdef int64_t n = (<cnp.ndarray>unary).shape[0], bad = -1
        cdef int64_t n_sequences = reader.items.length.size()
        cdef Run run = Run(reader, self.rows.n_labels * n_best, score)
        states = empty(cnp.NPY_INT64, n_best, n)
        scores = empty(cnp.NPY_FLOAT64, n_best, n_sequences)
        if self.idle(reader):
            scores[:] = 0.0
            return states, scores
        cdef Chains c = self.chains_of(unary, allowed, run.offset.data(), run.edge.data(), n,
                                       n_sequences)
        cdef double* u = <double*>data(unary)
        cdef int64_t* x = <int64_t*>data(states)
        cdef double* s = <double*>data(scores)
        cdef Control* control = run.watch()
        self.prepare()
        cdef Report r
        if run.brief:
            bad = self.decode(reader, c, u, n_best, threads, score, x, s, control, &r)
        else:
            with nogil:
                bad = self.decode(reader, c, u, n_best, threads, score, x, s, control, &r)
        if bad >= 0:
            raise refusal(reader, bad, kTooLarge)
        run.finish(r)
        return states, scores

    cdef int64_t decode(self, Reader reader, const Chains& c, double* unary, int64_t n_best,
                        int threads, bint score, int64_t* states, double* scores,
                        Control* control, Report* r) except -2 nogil:
        cdef int64_t bad = -1
        if score:
            bad = score_all(pool_api[0], threads, self.names[0], self.rows, reader.items,
                            kLargest64, unary, control)
        if bad < 0:
            r[0] = chains.decode(c, n_best, threads, states, scores, control[0], self.prepared)
        return bad

    cdef tuple infer_read(self, Reader reader, unary, allowed, double zeta, int threads,
                          bint score):
        """Compute marginals of what was read, scoring it first when `score`."""
        cdef int64_t n = (<cnp.ndarray>unary).shape[0], bad = -1
        cdef cnp.npy_intp n_sequences = reader.items.length.size()
        cdef cnp.npy_intp m = n
        cdef Run run = Run(reader, self.rows.n_labels, score)
        marginals = empty(cnp.NPY_FLOAT64, n, self.rows.n_labels)
        log_z = cnp.PyArray_EMPTY(1, &n_sequences, cnp.NPY_FLOAT64, 0)
        if self.idle(reader):
            log_z[:] = 0.0
            return marginals, log_z
        islands = cnp.PyArray_EMPTY(1, &m, cnp.NPY_INT32, 0) if zeta < 1.0 else None
        cdef Request q
        cdef Report r
        cdef double* u = <double*>data(unary)
        cdef Control* control = run.watch()
        self.prepare()
        q.chains = self.chains_of(unary, allowed, run.offset.data(), run.edge.data(), n,
                                  n_sequences)
        q.prepared = self.prepared
        q.threads = threads
        q.zeta = zeta
        q.marginals = data(marginals)
        q.log_z = <double*>data(log_z)
        q.islands = <int32_t*>data(islands)
        if run.brief:
            bad = self.infer(reader, q, u, score, control, &r)
        else:
            with nogil:
                bad = self.infer(reader, q, u, score, control, &r)
        if bad >= 0:
            raise refusal(reader, bad, kTooLarge)
        run.finish(r)
        return marginals, log_z

    cdef int64_t infer(self, Reader reader, const Request& q, double* unary, bint score,
                       Control* control, Report* r) except -2 nogil:
        cdef int64_t bad = -1
        if score:
            bad = score_all(pool_api[0], q.threads, self.names[0], self.rows, reader.items,
                            kLargest64, unary, control)
        if bad < 0:
            r[0] = chains.infer(q, control[0])
        return bad


cdef bint full(Reader reader, int64_t n_labels):
    """Whether a block of a batch has enough to be worked on, in memory that a cache may hold."""
    return reader.items.n_attributes() >= BLOCK or reader.items.n_items() * n_labels >= 8 * BLOCK


cdef list names_of_states(const int64_t* states, int64_t n, list labels):
    cdef int64_t i
    return [labels[states[i]] for i in range(n)]


cdef list labelled(states, list labels):
    return names_of_states(<int64_t*>data(states), (<cnp.ndarray>states).shape[1], labels)


cdef str kTooLarge = "a score is too large for float64; scale the values down"


cdef refusal(Reader reader, int64_t item, str problem):
    """The error for an item, by its number among those read."""
    cdef int64_t s = 0
    while item >= reader.items.length[s]:
        item -= reader.items.length[s]
        s += 1
    reader.sequence += s - reader.items.length.size()
    reader.item = item
    return ValueError(f"{reader.place()}: {problem}")
