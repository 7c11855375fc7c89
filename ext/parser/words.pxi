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


cdef int read_text(object text, Text* out) except -1:
    cdef Py_ssize_t size
    out.start = PyUnicode_AsUTF8AndSize(text, &size)
    out.size = size
    return 0


cdef int require_cells(str name, list column, Py_ssize_t n) except -1:
    if column is not None and len(column) != n:
        raise ValueError(f"{name} has {len(column)} entries, forms has {n}")
    return 0


def encode(list forms, list lemmas, list coarse, list fine, list morph, words):
    """Fill `words` (n, FIELDS) uint32 from columns of n strings; None: no such column.

    Lists can have changed since they were counted: ValueError where they are not of n.
    """
    cdef Token token
    cdef uint32_t* out = <uint32_t*>data(words)
    cdef Py_ssize_t i, n = len(forms)
    if n != len(words):
        raise ValueError(f"forms has {n} entries, the sentence has {len(words)}")
    require_cells("lemmas", lemmas, n)
    require_cells("upos", coarse, n)
    require_cells("xpos", fine, n)
    require_cells("feats", morph, n)
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
