// Plain doubles of the SIMD level in use, and wide numbers where those are too narrow.
#include "dependency/trees.h"

#include <algorithm>
#include <cmath>

#include "dependency/grandparents_run.h"
#include "dependency/level.h"
#include "dependency/run.h"
#include "dependency/wide.h"

namespace vs::dependency {
namespace {

namespace baseline = VS_NS;
using baseline::Plain;
using baseline::WideSums;

const SimdApi* g_simd = nullptr;
// Rows of a sentence are short: on a processor of level 4, vectors of level 3 took 0.8 to 0.95 of
// the time.
const Level& level() {
    int number = g_simd->level();
#if defined(VS_HAVE_V3) && defined(VS_HAVE_V4)
    if (number == VS_LEVEL_V4) number = VS_LEVEL_V3;
#endif
    return at_level<Level>(number);
}

double wide(Kind kind, const Sentence& s, const Arcs& arcs, double* scratch, Sums* sums = nullptr) {
    bool never = false;
    return kind == Kind::kTree ? baseline::sum_trees<WideSums>(s, arcs, scratch, &never, sums)
                               : baseline::sum_projective<WideSums>(s, arcs, scratch, &never, sums);
}

// P(a and b) of pairs of one `a`: P(a) times P(b) where its word has no other head. `p`: of all
// arcs by themselves, (n + 1, n + 1).
void hold(const Sentence& s, const double* p, const Pair* first, const Pair* last, double* out,
          double* scratch) {
    const int64_t n = s.n, size = (n + 1) * (n + 1);
    const auto of = [&](const double* table, int64_t h, int64_t m) {
        return table[h * (n + 1) + m];
    };
    const int64_t head = first->head_a, modifier = first->modifier_a;
    const double own = of(p, head, modifier);
    bool open = false;
    for (int64_t i = 0; i < last - first; ++i) {
        // Of an arc that is never there, or of a word with another head, nothing is asked.
        const Pair& q = first[i];
        const bool same = q.modifier_b == modifier;
        if (out[i] >= 0.0) continue;
        if (own == 0.0 || same || of(p, q.head_b, q.modifier_b) == 0.0) {
            out[i] = same && q.head_b == head ? own : 0.0;
        } else {
            open = true;
        }
    }
    if (!open) return;
    double *held = scratch, *with = held + size, *rest = with + size;
    std::copy(s.scores, s.scores + size, held);
    for (int64_t h = 0; h <= n; ++h) {
        if (h != head) held[h * (n + 1) + modifier] = -INFINITY;
    }
    Arcs arcs;
    arcs.marginal = with;
    marginals(Kind::kTree, {held, n, s.single_root}, arcs, rest);
    for (int64_t i = 0; i < last - first; ++i) {
        if (out[i] < 0.0) out[i] = own * of(with, first[i].head_b, first[i].modifier_b);
    }
}

// Sums that are still to be made.
Sums begun(Kind kind, const Sentence& s, double* scratch) {
    Sums sums;
    sums.kind = kind;
    sums.sentence = s;
    sums.scratch = scratch;
    return sums;
}

// Plain doubles were too narrow.
void widen(Sums* sums, const Arcs& arcs) {
    sums->narrow = false;
    sums->log_z = wide(sums->kind, sums->sentence, arcs, sums->scratch, sums);
}

}  // namespace

void use_simd(const SimdApi* simd) noexcept { g_simd = simd; }

bool valid(const double* scores, int64_t count, double largest) noexcept {
    return level().valid(scores, count, largest);
}

int64_t scratch_size(Kind kind, int64_t n) noexcept {
    if (kind == Kind::kProjective) return baseline::projective_scratch<WideSums>(n);
    const int64_t sums =
        std::max(baseline::tree_scratch<WideSums>(n), baseline::tree_scratch<Plain>(n));
    const int64_t held = 3 * (n + 1) * (n + 1);  // see `joints` and `hold`
    return std::max(sums + held, 4 * (n + 1) * (n + 9) + 32);
}

double marginals(Kind kind, const Sentence& s, const Arcs& arcs, double* scratch) noexcept {
    bool doubt = false;
    const double log_z = level().sum(kind, s, arcs, scratch, nullptr, &doubt);
    return doubt ? wide(kind, s, arcs, scratch) : log_z;
}

int64_t lanes() noexcept { return level().lanes; }

int64_t several_size(Kind kind, int64_t n) noexcept {
    if (kind == Kind::kTree) return std::max(level().several_scratch(n), scratch_size(kind, n));
    return sum_several_size(kind, n) + level().lanes * scratch_size(kind, n);
}

void several(Kind kind, const Sentence* sentences, int64_t count, double* const* marginal,
             double* log_z, double* scratch) noexcept {
    const int64_t lanes = level().lanes;
    if (kind == Kind::kProjective) {
        Arcs arcs[kMostLanes];
        double* own[kMostLanes] = {};
        for (int64_t l = 0; l < count; ++l) {
            arcs[l].marginal = marginal[l];
            own[l] = scratch;
            scratch += scratch_size(kind, sentences[l].n);
        }
        sum_several(kind, sentences, arcs, count, own, false, nullptr, log_z, scratch);
        return;
    }
    Sentence all[kMostLanes];
    double *out[kMostLanes], found[kMostLanes];
    bool doubt[kMostLanes];
    for (int64_t l = 0; l < lanes; ++l) {  // the first one again where there are fewer
        all[l] = sentences[l < count ? l : 0];
        out[l] = marginal[l < count ? l : 0];
    }
    level().several(all, out, found, doubt, scratch);
    for (int64_t l = 0; l < count; ++l) {
        log_z[l] = found[l];
        if (!doubt[l]) continue;
        Arcs arcs;
        arcs.marginal = marginal[l];
        log_z[l] = marginals(kind, sentences[l], arcs, scratch);
    }
}

double joints(const Sentence& s, int64_t count, const Pair* pairs, double* out,
              double* scratch) noexcept {
    bool doubt = false;
    double log_z = level().minors(s, count, pairs, out, scratch, &doubt);
    if (doubt) {
        log_z = wide(Kind::kTree, s, {}, scratch);
        std::fill(out, out + count, -1.0);
    }
    if (log_z == -INFINITY) {
        std::fill(out, out + count, 0.0);
        return log_z;
    }
    const double* p = nullptr;  // of all arcs, where a pair is lost
    for (int64_t i = 0, next = 0; i < count; i = next) {
        const auto other = [&](const Pair& q) {
            return q.head_a != pairs[i].head_a || q.modifier_a != pairs[i].modifier_a;
        };
        bool lost = false;
        for (next = i; next < count && !other(pairs[next]); ++next) lost |= out[next] < 0.0;
        if (!lost) continue;
        double* const rest = scratch + (s.n + 1) * (s.n + 1);
        if (!p) {
            Arcs arcs;
            arcs.marginal = scratch;
            marginals(Kind::kTree, s, arcs, rest);
            p = scratch;
        }
        hold(s, p, pairs + i, pairs + next, out + i, rest);
    }
    return log_z;
}

double sum(Kind kind, const Sentence& s, const Arcs& arcs, double* scratch, Sums* sums) noexcept {
    *sums = begun(kind, s, scratch);
    bool doubt = false;
    sums->log_z = level().sum(kind, s, arcs, scratch, sums, &doubt);
    if (doubt) widen(sums, arcs);
    return sums->log_z;
}

void sum_several(Kind kind, const Sentence* sentences, const Arcs* arcs, int64_t count,
                 double* const* scratch, bool spans, Sums* sums, double* log_z,
                 double* shared) noexcept {
    bool alone[kMostLanes];
    std::fill(alone, alone + count, true);
    // Side by side they take what the longest one takes alone, and a third more.
    double most = 0.0, all = 0.0;
    for (int64_t l = 0; l < count; ++l) {
        const auto n = static_cast<double>(sentences[l].n);
        most = std::max(most, n);
        all += n * n * n;
    }
    if (kind == Kind::kProjective && most <= kMostSpans && 1.3 * most * most * most < all) {
        for (int64_t l = 0; sums && l < count; ++l) {
            sums[l] = begun(kind, sentences[l], scratch[l]);
        }
        level().projective(sentences, arcs, count, scratch, spans, sums, log_z, alone, shared);
    }
    Sums unused;
    for (int64_t l = 0; l < count; ++l) {
        Sums* own = sums ? sums + l : &unused;
        if (alone[l]) log_z[l] = sum(kind, sentences[l], arcs[l], scratch[l], own);
        own->log_z = log_z[l];
    }
}

int64_t sum_several_size(Kind kind, int64_t n) noexcept {
    return kind == Kind::kProjective && n <= kMostSpans ? level().projective_scratch(n) : 0;
}

void more(Sums* sums, const Arcs& arcs) noexcept {
    const int64_t n = sums->sentence.n;
    if (sums->log_z == -INFINITY || n == 0) {
        baseline::nothing(arcs, n, 0.0);
        return;
    }
    sums->narrow ? level().more(*sums, arcs) : baseline::more_of<WideSums>(*sums, arcs);
}

void head_joints(Sums* sums, int64_t head, int64_t count, const int32_t* modifiers, int64_t many,
                 const int32_t* above, double* siblings, double* grandparents) noexcept {
    const bool none = sums->log_z == -INFINITY;
    if (none || (!sums->narrow && sums->kind == Kind::kTree)) {
        const double answer = none ? 0.0 : -1.0;
        std::fill(siblings, siblings + count * count, answer);
        for (int64_t k = 0; k < many; ++k) {
            std::fill_n(grandparents + above[k] * count, count, answer);
        }
        return;
    }
    bool doubt = false;
    if (sums->narrow) {
        level().head_joints(sums, head, count, modifiers, many, above, siblings, grandparents,
                            &doubt);
        if (!doubt) return;
        widen(sums, {});
    }
    baseline::projective_joints<WideSums>(sums, head, count, modifiers, many, above, siblings,
                                          grandparents, &doubt);
}

double best(Kind kind, const Sentence& s, int64_t* heads, double* scratch) noexcept {
    return level().best(kind, s, heads, scratch);
}

double projective_max(const Sentence& s, double* ratio, double* scratch) noexcept {
    return level().projective_max(s, ratio, scratch);
}

int64_t grandparents_scratch_size(int64_t n) noexcept {
    return baseline::grandparents_scratch<WideSums>(n);
}

double grandparents(const Sentence& s, const Grandparents& parts, double* marginal,
                    double* of_parts, double* scratch) noexcept {
    bool doubt = false;
    const double log_z = level().grandparents(s, parts, marginal, of_parts, scratch, &doubt);
    return doubt
               ? baseline::sum_grandparents<WideSums>(s, parts, marginal, of_parts, scratch, &doubt)
               : log_z;
}

double best_grandparents(const Sentence& s, const Grandparents& parts, int64_t* heads,
                         double* scratch) noexcept {
    return level().best_grandparents(s, parts, heads, scratch);
}

const TreesApi* trees_api() noexcept {
    static const TreesApi api = {scratch_size, marginals,        joints, sum,
                                 sum_several,  sum_several_size, lanes,  head_joints,
                                 best,         projective_max,   more};
    return &api;
}

}  // namespace vs::dependency
