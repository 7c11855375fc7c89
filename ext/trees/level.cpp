// Compiled once per SIMD level (VS_LEVEL); see setup.py.
#include "trees/level.h"

#include "trees/edmonds.h"
#include "trees/grandparents_run.h"
#include "trees/lanes.h"
#include "trees/maxima.h"
#include "trees/minors.h"
#include "trees/run.h"
#include "trees/sentences.h"

namespace VS_NS {
namespace {

using vs::trees::Kind;
using vs::trees::Sentence;

double marginals(Kind kind, const Sentence& s, const vs::trees::Arcs& arcs, double* scratch,
                 bool* doubt) {
    return kind == Kind::kTree ? sum_trees<Plain>(s, arcs, scratch, doubt)
                               : sum_projective<Plain>(s, arcs, scratch, doubt);
}

double pairs(const Sentence& s, int64_t count, const vs::trees::Pair* which, double* out,
             double* scratch, bool* doubt) {
    Walks<Plain> walks;
    const double log_z = sum_trees<Plain>(s, {}, scratch, doubt, &walks);
    if (*doubt || log_z == -INFINITY) return log_z;
    const Minors<Plain> minor(walks, s);
    for (int64_t i = 0; i < count; ++i) out[i] = minor(which[i]);
    return log_z;
}

double begin_head_joints(Kind kind, const Sentence& s, double* scratch,
                         vs::trees::HeadJoints* state, bool* doubt) {
    if (kind == Kind::kProjective) return begin_projective<Plain>(s, scratch, state, doubt);
    Walks<Plain> walks{};
    const double log_z = sum_trees<Plain>(s, {}, scratch, doubt, &walks);
    state->weight = walks.weight;
    state->hit = walks.hit;
    state->total = walks.total;
    return log_z;
}

void head_joints(const vs::trees::HeadJoints& state, int64_t head, int64_t count,
                 const int32_t* modifiers, double* siblings, double* grandparents, bool* doubt) {
    if (state.kind == Kind::kProjective) {
        projective_joints<Plain>(state, head, count, modifiers, siblings, grandparents, doubt);
        return;
    }
    const Walks<Plain> walks{static_cast<const double*>(state.weight),
                             static_cast<const double*>(state.hit),
                             static_cast<const double*>(state.total)};
    head_minors(walks, state.sentence, head, count, modifiers, siblings, grandparents);
}

double best(Kind kind, const Sentence& s, int64_t* heads, double* scratch) {
    return kind == Kind::kTree ? Edmonds(s, scratch).best(heads)
                               : BestSpans(s, scratch).best(heads);
}

double projective_max(const Sentence& s, double* ratio, double* scratch) {
    return BestSpans(s, scratch).ratios(ratio);
}

const vs::trees::Level kLevel = {
    marginals,      Sentences::kLanes,       Sentences::run,    Sentences::scratch,
    pairs,          begin_head_joints,       head_joints,       best,
    projective_max, sum_grandparents<Plain>, best_grandparents,
};

}  // namespace

template <>
const vs::trees::Level* table<vs::trees::Level>() {
    return &kLevel;
}

}  // namespace VS_NS
