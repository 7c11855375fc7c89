cdef extern from "crf/buffer.h" namespace "vs::crf" nogil:
    cdef cppclass GrowingArray[T]:
        int64_t size() noexcept
        T* data() noexcept
        T& operator[](int64_t) noexcept
        void push(T) except +
        void append(const T*, int64_t) except +


cdef extern from "crf/items.h" namespace "vs::crf" nogil:
    cdef cppclass Items:
        Items()
        GrowingArray[char] text
        GrowingArray[int64_t] end
        GrowingArray[double] value
        GrowingArray[int64_t] item_end
        GrowingArray[int64_t] length
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
    cdef cppclass Prefix:
        void open(Items&) except +
        int64_t enter(Items&) except +
        void leave(int64_t) noexcept


cdef extern from "crf/python.h":
    int vs_deeper() except -1
    void vs_look_ahead(list, Py_ssize_t) noexcept
    const char* vs_ascii(object, int64_t*) noexcept
    int vs_ready(object) except -1
    int PyUnicode_KIND(object) noexcept
    void* PyUnicode_DATA(object) noexcept
    int64_t PyUnicode_GET_LENGTH(object) noexcept
    void Py_LeaveRecursiveCall() noexcept


cdef extern from "<cmath>" namespace "std" nogil:
    bint isfinite(double) noexcept


# Attributes of a long batch that are looked up at a time: enough to hide the fixed cost of a
# look-up, few enough to stay in cache.
cdef int64_t BLOCK = 1 << 16

# Items within items. A level takes some 500 bytes of the stack, and a thread may have 256 KiB.
cdef int DEEPEST = 256


cdef class Reader:
    """Copies names and values out of items; see `ItemSequence` for what an item is.

    `single` makes error messages speak of one ``xseq``, not of ``xseqs``; `characters` takes a str
    for the sequence of its characters, as python-crfsuite does, where it is refused otherwise.
    """

    cdef Items items
    cdef Prefix prefix  # of the nested item that is being read
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
            return no_frame(where, xseq)
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
        self.prefix.open(self.items)
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
        cdef int64_t before = self.prefix.enter(self.items)
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
        self.prefix.leave(before)
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


cdef object doubles(GrowingArray[double]& b):
    return array_of(b.data(), b.size(), cnp.NPY_FLOAT64)


cdef object int64s(GrowingArray[int64_t]& b):
    return array_of(b.data(), b.size(), cnp.NPY_INT64)


cdef object int32s(GrowingArray[int32_t]& b):
    return array_of(b.data(), b.size(), cnp.NPY_INT32)


cdef Reader read_names(list names):
    cdef Reader reader = Reader(True, True)
    reader.read_item(names)
    return reader
