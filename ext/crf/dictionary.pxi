cdef extern from "crf/dictionary.h" namespace "vs::crf" nogil:
    cdef cppclass Names "vs::crf::Dictionary":
        Names() except +
        int64_t fill(const Items&) except +


cdef extern from "crf/encoder.h" namespace "vs::crf" nogil:
    cdef cppclass Encoding:
        Encoding()
        GrowingArray[int64_t] indptr
        GrowingArray[int32_t] ids
        GrowingArray[double] values
        GrowingArray[int64_t] length
    cdef cppclass Growth:
        Growth()
    const int64_t kFilled "vs::crf::Encoder::kFilled"
    cdef cppclass Encoder:
        Encoder() except +
        bint encode(const Items&, Growth*, Encoding&) except +
        int32_t size() noexcept
        int64_t fill(const Items&) except +
        int32_t find(const char*, int64_t) noexcept
        void copy(GrowingArray[char]&, GrowingArray[int64_t]&) except +
        void roll_back(const Growth&) noexcept


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
        cdef GrowingArray[char] text
        cdef GrowingArray[int64_t] begin
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
