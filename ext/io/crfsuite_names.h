// Name tables of CRFsuite's model files: texts found by id and, through hashes, ids by text.
#pragma once

#include <cstdint>
#include <vector>

namespace vs {

// The chunk "CQDB" of `n` names that lie end to end in `text`, each ended by a NUL: names[i] begins
// at begin[i]. The chunk is described in valuesparse/io/_crfsuite_format.py.
std::vector<char> name_table(const char* text, const int64_t* begin, int64_t n);

}  // namespace vs
