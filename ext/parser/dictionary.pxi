cdef extern from "parser/templates.h" namespace "vs::parser" nogil:
    int kLeastBits, kMostBits

#: Bounds of the size of tables.
LEAST_BITS, MOST_BITS = kLeastBits, kMostBits


cdef extern from "parser/dictionary.h" namespace "vs::parser" nogil:
    cdef cppclass Found:
        vector[uint32_t] keys, counts
        vector[uint16_t] slots
    int c_count "vs::parser::count"(const Corpus&, int, bint, uint32_t, int, const PoolApi&,
                                    Control*, vector[Found]*, int64_t*) except +
    int64_t kMostKeys

#: The largest number of keys of a dictionary.
MOST_KEYS = kMostKeys


cdef CDictionary dictionary_of(dictionary):
    cdef CDictionary made
    made.sizes = <const int64_t*>data(dictionary[0])
    made.keys = <const uint32_t*>data(dictionary[1])
    made.slots = <const uint16_t*>data(dictionary[2])
    return made


cdef Templates* templates_of(int order, int bits, dictionary) except NULL:
    if dictionary is None:
        return new Templates(order, bits)
    return new Templates(order, dictionary_of(dictionary))


def templates_of_parts(int order):
    """Return how many templates a model of arcs (1), or of pairs as well (2) has."""
    cdef unique_ptr[Templates] templates
    cdef int64_t count = 0
    cdef size_t k
    templates.reset(new Templates(order, kLeastBits))
    for k in range(templates.get().sets.size()):
        count += templates.get().sets[k].size()
    return count


def weights_of_dictionary(int order, dictionary):
    """Return how many weights a model with these sizes, keys and slots has.

    Raises ValueError where keys fall together as no treebank's do.
    """
    cdef unique_ptr[Templates] templates
    templates.reset(templates_of(order, 0, dictionary))
    return templates.get().n_weights()


def count_features(words, offset, heads, arcs, int order, bint trees, uint32_t least,
                   int threads):
    """Return sizes, keys, slots and counts of a dictionary; None: there are too many keys."""
    cdef Call call = Call(offset.shape[0] - 1, None, None, None)
    cdef Corpus corpus = corpus_of(words, offset, heads, arcs)
    cdef vector[Found] found
    cdef int status
    cdef size_t t
    cdef int64_t k, at = 0, met = 0
    with nogil:
        status = c_count(corpus, order, trees, least, threads, pool_api[0], &call.control,
                         &found, &met)
    call.end(status)
    if met > kMostKeys:
        return None
    sizes = np.array([found[t].keys.size() for t in range(found.size())], np.int64)
    total = int(sizes.sum())
    keys, counts = np.empty((2, total), np.uint32)
    slots = np.empty(total, np.uint16)
    cdef uint32_t* key = <uint32_t*>data(keys)
    cdef uint32_t* count = <uint32_t*>data(counts)
    cdef uint16_t* slot = <uint16_t*>data(slots)
    for t in range(found.size()):
        for k in range(<int64_t>found[t].keys.size()):
            key[at], count[at], slot[at] = found[t].keys[k], found[t].counts[k], found[t].slots[k]
            at += 1
    return sizes, keys, slots, counts
