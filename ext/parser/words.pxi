cdef extern from "parser/words.h" namespace "vs::parser" nogil:
    int kFields
    cdef cppclass Text:
        const char* start
        int64_t size
    cdef cppclass Token:
        Token()
        Text form, lemma, coarse, fine, morph
    void c_encode "vs::parser::encode"(const Token&, uint32_t*) noexcept

#: Numbers of an encoded word.
FIELDS = kFields


cdef int read_text(str text, Text* out) except -1:
    cdef Py_ssize_t size
    out.start = PyUnicode_AsUTF8AndSize(text, &size)
    out.size = size
    return 0


def encode(list forms, list lemmas, list coarse, list fine, list morph, words):
    """Fill `words` (n, FIELDS) uint32 from columns of n strings; None: no such column."""
    cdef Token token
    cdef uint32_t* out = <uint32_t*>data(words)
    cdef Py_ssize_t i, n = len(forms)
    for i in range(n):
        read_text(forms[i], &token.form)
        if lemmas is not None:
            read_text(lemmas[i], &token.lemma)
        if coarse is not None:
            read_text(coarse[i], &token.coarse)
        if fine is not None:
            read_text(fine[i], &token.fine)
        if morph is not None:
            read_text(morph[i], &token.morph)
        c_encode(token, out + i * kFields)
