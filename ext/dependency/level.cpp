// Compiled once per SIMD level (VS_LEVEL); see setup.py.
#include "dependency/level.h"

#include "dependency/edmonds.h"
#include "dependency/grandparents_run.h"
#include "dependency/lanes.h"
#include "dependency/maxima.h"
#include "dependency/minors.h"
#include "dependency/projective_sentences.h"
#include "dependency/run.h"
#include "dependency/sentences.h"
#include "dependency/valid.h"

namespace VS_NS {
namespace {

using vs::dependency::Kind;
using vs::dependency::Sentence;

double sum(Kind kind, const Sentence& s, const vs::dependency::Arcs& arcs, double* scratch,
           vs::dependency::Sums* sums, bool* doubt) {
    return kind == Kind::kTree ? sum_trees<Plain>(s, arcs, scratch, doubt, sums)
                               : sum_projective<Plain>(s, arcs, scratch, doubt, sums);
}

double pairs(const Sentence& s, int64_t count, const vs::dependency::Pair* which, double* out,
             double* scratch, bool* doubt) {
    vs::dependency::Sums sums;
    const double log_z = sum_trees<Plain>(s, {}, scratch, doubt, &sums);
    if (*doubt || log_z == -INFINITY) return log_z;
    const Minors<Plain> minor(sums, s);
    for (int64_t i = 0; i < count; ++i) out[i] = minor(which[i]);
    return log_z;
}

void head_joints(vs::dependency::Sums* sums, int64_t head, int64_t count, const int32_t* modifiers,
                 int64_t many, const int32_t* above, double* siblings, double* grandparents,
                 bool* doubt) {
    if (sums->kind == Kind::kProjective) {
        projective_joints<Plain>(sums, head, count, modifiers, many, above, siblings, grandparents,
                                 doubt);
    } else {
        if (count == 0) return;
        const HeadMinors minors(*sums, head, count, modifiers);
        minors.siblings(siblings);
        minors.grandparents(many, above, grandparents);
    }
}

double best(Kind kind, const Sentence& s, int64_t* heads, double* scratch) {
    return kind == Kind::kTree ? Edmonds(s, scratch).best(heads)
                               : BestSpans(s, scratch).best(heads);
}

double projective_max(const Sentence& s, double* ratio, double* scratch) {
    return BestSpans(s, scratch).ratios(ratio);
}

const vs::dependency::Level kLevel = {
    valid,
    sum,
    more_of<Plain>,
    Sentences::kLanes,
    Sentences::run,
    Sentences::scratch,
    ProjectiveSentences::run,
    ProjectiveSentences::scratch,
    pairs,
    head_joints,
    best,
    projective_max,
    sum_grandparents<Plain>,
    best_grandparents,
};

}  // namespace

template <>
const vs::dependency::Level* table<vs::dependency::Level>() {
    return &kLevel;
}

}  // namespace VS_NS
