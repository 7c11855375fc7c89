// The functions of a SIMD level for trees, in one table that dependency/level.cpp fills per level.
#pragma once

#include "dependency/trees.h"

namespace vs::dependency {

// As in trees.h. `doubt`: a number was too small for plain doubles, and nothing that was written
// counts.
struct Level {
    bool (*valid)(const double* scores, int64_t count, double largest);
    double (*sum)(Kind kind, const Sentence& s, const Arcs& arcs, double* scratch, Sums* sums,
                  bool* doubt);
    void (*more)(const Sums& sums, const Arcs& arcs);
    // As `dependency::several` of exactly so many.
    int lanes;
    void (*several)(const Sentence* s, double* const* marginal, double* log_z, bool* doubt,
                    double* scratch);
    int64_t (*several_scratch)(int64_t n);
    // As `dependency::sum_several` of projective trees, of at most `lanes`.
    void (*projective)(const Sentence* s, const Arcs* arcs, int64_t count, double* const* scratch,
                       bool spans, Sums* sums, double* log_z, bool* doubt, double* shared);
    int64_t (*projective_scratch)(int64_t n);
    // A pair whose minor has lost its digits has -1.
    double (*minors)(const Sentence& s, int64_t count, const Pair* pairs, double* out,
                     double* scratch, bool* doubt);
    // `doubt` where joints have lost digits.
    void (*head_joints)(Sums* sums, int64_t head, int64_t count, const int32_t* modifiers,
                        int64_t many, const int32_t* above, double* siblings, double* grandparents,
                        bool* doubt);
    double (*best)(Kind kind, const Sentence& s, int64_t* heads, double* scratch);
    double (*projective_max)(const Sentence& s, double* ratio, double* scratch);
    double (*grandparents)(const Sentence& s, const Grandparents& parts, double* marginal,
                           double* of_parts, double* scratch, bool* doubt);
    double (*best_grandparents)(const Sentence& s, const Grandparents& parts, int64_t* heads,
                                double* scratch);
};

}  // namespace vs::dependency
