// The functions of a SIMD level for trees, in one table that trees/level.cpp fills per level.
#pragma once

#include "trees/trees.h"

namespace vs::trees {

// As in trees.h. `doubt`: a number was too small for plain doubles, and nothing that was written
// counts.
struct Level {
    double (*marginals)(Kind kind, const Sentence& s, const Arcs& arcs, double* scratch,
                        bool* doubt);
    // As `trees::several` of exactly so many.
    int lanes;
    void (*several)(const Sentence* s, double* const* marginal, double* log_z, bool* doubt,
                    double* scratch);
    int64_t (*several_scratch)(int64_t n);
    // A pair whose minor has lost its digits has -1.
    double (*minors)(const Sentence& s, int64_t count, const Pair* pairs, double* out,
                     double* scratch, bool* doubt);
    // Log Z. `doubt` where a head's joints have lost digits, too.
    double (*begin_head_joints)(Kind kind, const Sentence& s, double* scratch, HeadJoints* state,
                                bool* doubt);
    void (*head_joints)(const HeadJoints& state, int64_t head, int64_t count,
                        const int32_t* modifiers, double* siblings, double* grandparents,
                        bool* doubt);
    double (*best)(Kind kind, const Sentence& s, int64_t* heads, double* scratch);
    double (*projective_max)(const Sentence& s, double* ratio, double* scratch);
    double (*grandparents)(const Sentence& s, const Grandparents& parts, double* marginal,
                           double* of_parts, double* scratch, bool* doubt);
    double (*best_grandparents)(const Sentence& s, const Grandparents& parts, int64_t* heads,
                                double* scratch);
};

}  // namespace vs::trees
