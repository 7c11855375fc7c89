// Plain doubles of the SIMD level in use, and wide numbers where those are too narrow.
#include "trees/trees.h"

#include <algorithm>
#include <cmath>

#include "trees/grandparents_run.h"
#include "trees/level.h"
#include "trees/run.h"
#include "trees/wide.h"

namespace vs::trees {
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

// Numbers of a table of arcs.
int64_t table_size(int64_t n) { return (n + 1) * (n + 1); }

double wide(Kind kind, const Sentence& s, const Arcs& arcs, double* scratch) {
    bool never = false;
    return kind == Kind::kTree ? baseline::sum_trees<WideSums>(s, arcs, scratch, &never)
                               : baseline::sum_projective<WideSums>(s, arcs, scratch, &never);
}

// P(a and b) of pairs of one `a`: P(a) times P(b) where its word has no other head.
void hold(const Sentence& s, const Pair* first, const Pair* last, double* out, double* scratch) {
    const int64_t n = s.n, size = (n + 1) * (n + 1);
    double *held = scratch, *p = held + size, *rest = p + size;
    const int64_t head = first->head_a, modifier = first->modifier_a;
    Arcs arcs;
    arcs.marginal = p;
    marginals(Kind::kTree, s, arcs, rest);
    const double own = p[head * (n + 1) + modifier];
    std::copy(s.scores, s.scores + size, held);
    for (int64_t h = 0; h <= n; ++h) {
        if (h != head) held[h * (n + 1) + modifier] = -INFINITY;
    }
    if (own > 0.0) marginals(Kind::kTree, {held, n, s.single_root}, arcs, rest);
    for (; first < last; ++first, ++out) {
        if (*out < 0.0)
            *out = own > 0.0 ? own * p[first->head_b * (n + 1) + first->modifier_b] : 0.0;
    }
}

// Where first-order terms of a single root have no pivot: the children that the root may have, and
// a sum over trees of several roots for each of them as the only one. Plain doubles are enough.
class EachRoot {
  public:
    EachRoot(const Sentence& s, double* scratch)
        : n_(s.n), given_(s.scores), own_(scratch), next_(scratch + table_size(s.n)) {
        for (int64_t m = 1; m <= n_; ++m) {
            if (!(s.scores[m] > -INFINITY)) continue;
            if (count == HeadJoints::kMostRoots) {
                count = 0;
                break;
            }
            root_[count++] = m;
        }
        if (count > 0) std::copy(given_, given_ + table_size(n_), own_);
    }
    int count = 0;  // 0: there are too many, or none

    double* next() const { return next_; }  // what is left of the scratch
    Sentence only(int i) const {
        for (int64_t m = 1; m <= n_; ++m) own_[m] = m == root_[i] ? given_[m] : -INFINITY;
        return {own_, n_, false};
    }
    // Weighs what was found for root i; false: they are too far apart for each other's digits.
    bool weigh(int i, double log_z) {
        if (log_z == -INFINITY) return share[i] = 0.0, true;
        if (total_ == 0.0) reference_ = log_z;
        const double x = log_z - reference_;
        share[i] = std::exp(x);
        total_ += share[i];
        return std::fabs(x) < 300.0;
    }
    double log_z() const { return total_ > 0.0 ? reference_ + std::log(total_) : -INFINITY; }
    double total() const { return total_; }

    double share[HeadJoints::kMostRoots] = {};

  private:
    const int64_t n_;
    const double* given_;
    double *own_, *next_;
    int64_t root_[HeadJoints::kMostRoots];
    double reference_ = 0.0, total_ = 0.0;
};

// As `marginals`; false: they have to be found otherwise.
bool each_root(const Sentence& s, const Arcs& arcs, double* scratch, double* log_z) {
    EachRoot roots(s, scratch);
    if (roots.count == 0) return false;
    const int64_t n = s.n, size = table_size(n);
    double* p = roots.next();
    double *q = p + size, *own_p = q + size, *own_q = own_p + size, *rest = own_q + size;
    Arcs own;
    own.marginal = own_p;
    own.complement = own_q;
    std::fill(p, q + size, 0.0);
    for (int i = 0; i < roots.count; ++i) {
        bool doubt = false;
        const double found = level().marginals(Kind::kTree, roots.only(i), own, rest, &doubt);
        if (doubt || !roots.weigh(i, found)) return false;
        for (int64_t k = 0; roots.share[i] > 0.0 && k < size; ++k) {
            p[k] += roots.share[i] * own_p[k];
            q[k] += roots.share[i] * own_q[k];
        }
    }
    *log_z = roots.log_z();
    const double unit = roots.total() > 0.0 ? 1.0 / roots.total() : 0.0;
    for (int64_t h = 0; h <= n; ++h) {
        for (int64_t m = 0; m <= n; ++m) {
            const int64_t k = h * (n + 1) + m;
            const bool none = m == 0 || m == h || unit == 0.0;
            if (arcs.marginal) arcs.marginal[k] = none ? 0.0 : p[k] * unit;
            if (arcs.complement) arcs.complement[k] = none ? 0.0 : q[k] * unit;
            if (!arcs.ratio) continue;
            const bool there = s.scores[k] > -INFINITY;
            const double odds = there ? std::log(p[k]) - std::log(q[k]) - s.scores[k] : -INFINITY;
            arcs.ratio[k] = none ? 0.0 : odds;
        }
    }
    return true;
}

// As begin_head_joints.
bool begin_each_root(const Sentence& s, double* scratch, HeadJoints* state) {
    EachRoot roots(s, scratch);
    if (roots.count == 0) return false;
    const int64_t n = s.n, ld = baseline::row_of(n), table = (n + 1) * ld, size = 2 * table + ld;
    double* part = roots.next() + 2 * table_size(n);
    double* rest = part + roots.count * size;
    for (int i = 0; i < roots.count; ++i) {
        HeadJoints one;
        bool doubt = false;
        const double found =
            level().begin_head_joints(Kind::kTree, roots.only(i), rest, &one, &doubt);
        if (doubt || !roots.weigh(i, found)) return false;
        if (!(roots.share[i] > 0.0)) continue;
        double* to = part + i * size;
        std::copy_n(static_cast<const double*>(one.weight), table, to);
        std::copy_n(static_cast<const double*>(one.hit), table, to + table);
        std::copy_n(static_cast<const double*>(one.total), n + 1, to + 2 * table);
    }
    state->log_z = roots.log_z();
    state->roots = roots.count;
    state->part = part;
    for (int i = 0; i < roots.count; ++i) {
        state->share[i] = roots.total() > 0.0 ? roots.share[i] / roots.total() : 0.0;
    }
    return true;
}

// As head_joints: sums over the child of the root.
void of_each_root(const HeadJoints& state, int64_t head, int64_t count, const int32_t* modifiers,
                  double* siblings, double* grandparents) {
    const int64_t n = state.sentence.n, ld = baseline::row_of(n), table = (n + 1) * ld;
    const int64_t sizes[2] = {count * count, count * (n + 1)};
    double* const to[2] = {siblings, grandparents};
    double* own[2] = {state.scratch + table_size(n), nullptr};
    own[1] = own[0] + table_size(n);
    for (int side = 0; side < 2; ++side) std::fill_n(to[side], sizes[side], 0.0);
    for (int i = 0; i < state.roots; ++i) {
        if (!(state.share[i] > 0.0)) continue;
        HeadJoints one;
        one.sentence = {state.sentence.scores, n, false};
        one.weight = state.part + i * (2 * table + ld);
        one.hit = static_cast<const double*>(one.weight) + table;
        one.total = static_cast<const double*>(one.hit) + table;
        bool doubt = false;
        std::fill_n(own[0], sizes[0], 0.0);
        level().head_joints(one, head, count, modifiers, own[0], own[1], &doubt);
        for (int side = 0; side < 2; ++side) {
            for (int64_t k = 0; k < sizes[side]; ++k) {
                const double x = own[side][k];
                double& sum = to[side][k];
                sum = sum < 0.0 || x < 0.0 ? -1.0 : sum + state.share[i] * x;
            }
        }
    }
}

// Plain doubles were too narrow.
void widen(HeadJoints* state) {
    bool never = false;
    state->narrow = false;
    state->log_z =
        state->kind == Kind::kTree
            ? wide(Kind::kTree, state->sentence, {}, state->scratch)
            : baseline::begin_projective<WideSums>(state->sentence, state->scratch, state, &never);
}

}  // namespace

void use_simd(const SimdApi* simd) noexcept { g_simd = simd; }

int64_t scratch_size(Kind kind, int64_t n) noexcept {
    if (kind == Kind::kProjective) return baseline::projective_scratch<WideSums>(n);
    const int64_t sums =
        std::max(baseline::tree_scratch<WideSums>(n), baseline::tree_scratch<Plain>(n));
    // `hold` has two tables. Where each root is taken apart, there are five more, and two a root.
    const int64_t apart =
        5 * table_size(n) + HeadJoints::kMostRoots * (2 * n + 3) * baseline::row_of(n);
    return std::max(sums + 2 * table_size(n) + apart, 4 * (n + 1) * (n + 9) + 32);
}

double marginals(Kind kind, const Sentence& s, const Arcs& arcs, double* scratch) noexcept {
    bool doubt = false;
    double log_z = level().marginals(kind, s, arcs, scratch, &doubt);
    // Ratios of arcs without a score need all roots together; each_root takes one at a time.
    const bool apart = kind == Kind::kTree && s.single_root && !(arcs.ratio && arcs.all_ratios);
    if (doubt && apart) doubt = !each_root(s, arcs, scratch, &log_z);
    return doubt ? wide(kind, s, arcs, scratch) : log_z;
}

int64_t lanes() noexcept { return level().lanes; }

int64_t several_scratch_size(int64_t n) noexcept {
    return std::max(level().several_scratch(n), scratch_size(Kind::kTree, n));
}

void several(const Sentence* sentences, int64_t count, double* const* marginal, double* log_z,
             double* scratch) noexcept {
    Sentence all[kMostLanes];
    double *out[kMostLanes], found[kMostLanes];
    bool doubt[kMostLanes];
    const int64_t lanes = level().lanes;
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
        log_z[l] = marginals(Kind::kTree, sentences[l], arcs, scratch);
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
    for (int64_t i = 0, next = 0; i < count; i = next) {
        const auto other = [&](const Pair& q) {
            return q.head_a != pairs[i].head_a || q.modifier_a != pairs[i].modifier_a;
        };
        bool lost = false;
        for (next = i; next < count && !other(pairs[next]); ++next) lost |= out[next] < 0.0;
        if (lost) hold(s, pairs + i, pairs + next, out + i, scratch);
    }
    return log_z;
}

void begin_head_joints(Kind kind, const Sentence& s, double* scratch, HeadJoints* state) noexcept {
    *state = {};
    state->kind = kind;
    state->sentence = s;
    state->scratch = scratch;
    bool doubt = false;
    state->log_z = level().begin_head_joints(kind, s, scratch, state, &doubt);
    if (doubt && kind == Kind::kTree && s.single_root) doubt = !begin_each_root(s, scratch, state);
    if (doubt) widen(state);
}

void head_joints(HeadJoints* state, int64_t head, int64_t count, const int32_t* modifiers,
                 double* siblings, double* grandparents) noexcept {
    const bool none = state->log_z == -INFINITY;
    if (none || (!state->narrow && state->kind == Kind::kTree)) {
        const double answer = none ? 0.0 : -1.0;
        std::fill(siblings, siblings + count * count, answer);
        std::fill(grandparents, grandparents + count * (state->sentence.n + 1), answer);
        return;
    }
    if (state->roots > 0) {
        return of_each_root(*state, head, count, modifiers, siblings, grandparents);
    }
    bool doubt = false;
    if (state->narrow) {
        level().head_joints(*state, head, count, modifiers, siblings, grandparents, &doubt);
        if (!doubt) return;
        widen(state);
    }
    baseline::projective_joints<WideSums>(*state, head, count, modifiers, siblings, grandparents,
                                          &doubt);
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
    static const TreesApi api = {scratch_size, marginals, joints,        begin_head_joints,
                                 head_joints,  best,      projective_max};
    return &api;
}

}  // namespace vs::trees
