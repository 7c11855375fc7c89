// The functions of a SIMD level for hidden Markov models, in one table that hmm/level.cpp fills.
#pragma once

#include "hmm/few.h"

namespace vs::hmm {

struct Level {
    // Rows are padded to this many states; 0: there are too many for `FewStates`.
    int64_t (*padded)(int64_t states);
    void (*local)(const FewStates& f, int64_t first, int64_t last);
    bool (*forward)(const FewStates& f, int64_t sequence, bool caller);
    bool (*backward)(const FewStates& f, int64_t sequence, bool caller);
    bool (*both)(const FewStates& f, int64_t sequence, bool caller);
    bool (*meet)(const FewStates& f, int64_t first, int64_t last, double* sums);
    bool (*best)(const BestStates& b, int64_t sequence, bool caller);
    void (*normal)(const Normal& d, int64_t first, int64_t last);
};

}  // namespace vs::hmm
