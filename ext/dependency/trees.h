// Dependency trees of one sentence: sums over all trees, the best one, and what each arc adds.
//
// `scores` (n + 1, n + 1) holds the log-potential of each arc at [head, modifier], 0 being the
// root; column 0 and the diagonal are ignored, -inf forbids, no number is NaN or +inf. A tree gives
// every word 1..n one head, without a cycle. Projective: no two arcs cross, those of the root
// included. Scratch comes from the caller; nothing throws, allocates or takes the GIL.
//
// Sums are made of positive numbers only, so that probabilities and their complements have their
// digits however small they are. They run in plain doubles; where one of those would underflow the
// sentence is done again with exponents of their own (wide.h).
#pragma once

#include <cstdint>

#include "simd/level.h"

namespace vs::dependency {

struct Sentence {
    const double* scores;  // (n + 1, n + 1)
    int64_t n;             // words; 0 is fine: one empty tree
    bool single_root;      // exactly one word is attached to the root; not asked where n is 0
};

// The answers of each arc that are asked for: (n + 1, n + 1) as the scores, 0 in column 0 and on
// the diagonal, or null. Where no tree is possible everything is 0.
struct Arcs {
    double* marginal = nullptr;    // P(arc)
    double* complement = nullptr;  // 1 - P(arc)
    // log P(arc) - log(1 - P(arc)) - score, as if the score were 0: what a factor tells an arc. A
    // forbidden arc has one, too. -inf: impossible whatever its score; inf: forced.
    double* ratio = nullptr;
    bool all_ratios = true;  // false: those of forbidden arcs are not read, and not always right
    // (n + 1, n + 1), or null: some ratios alone are read, those of arcs that are not 0 here.
    const uint8_t* asked = nullptr;
    double least = 0.0;  // ratios of arcs with a smaller P(arc) are -inf
};

// Both arcs of a pair, as places [head, modifier].
struct Pair {
    int32_t head_a, modifier_a, head_b, modifier_b;
};

// Whether each of `count` scores is -inf or has a magnitude of at most `largest`.
bool valid(const double* scores, int64_t count, double largest) noexcept;

enum class Kind : int { kTree = 0, kProjective = 1 };

// Doubles of scratch that any function below may use for a sentence of n words.
int64_t scratch_size(Kind kind, int64_t n) noexcept;

// log Z, -inf where no tree is possible. Tree: O(n^3) by the matrix-tree theorem, relative accuracy
// 1e-9 of marginals and complements. Projective: O(n^3), Eisner's inside-outside.
double marginals(Kind kind, const Sentence& sentence, const Arcs& arcs, double* scratch) noexcept;

// Several sentences, at most `lanes()` of them: log Z of each, and marginals (n + 1, n + 1). Over
// all trees they have one length. Longer ones than these do not stay in the cache: one by one is
// better.
int64_t lanes() noexcept;
constexpr int64_t kMostLanes = 8, kMostAbreast = 64, kMostSpans = 128;
int64_t several_size(Kind kind, int64_t n) noexcept;  // scratch
void several(Kind kind, const Sentence* sentences, int64_t count, double* const* marginal,
             double* log_z, double* scratch) noexcept;

// P(both arcs) of `count` pairs, in O(n^3 + count) and another run for each `a` whose 2x2 minors
// have lost their digits; returns log Z. Two different arcs of one word
// have 0.
double joints(const Sentence& sentence, int64_t count, const Pair* pairs, double* out,
              double* scratch) noexcept;

// Sums that lie in the scratch, for what is asked later.
struct Sums {
    Kind kind = Kind::kTree;
    Sentence sentence = {};
    double log_z = 0.0;  // -inf: no tree
    bool narrow = true;  // in plain doubles
    double* scratch = nullptr;
    // See run.h: weights of arcs, what each is multiplied by, the mass of each word; the rest of
    // projective trees.
    const double* shift = nullptr;
    const void *weight = nullptr, *rest = nullptr, *total = nullptr;
    void *odds = nullptr, *spans = nullptr, *children = nullptr;
};
// As `marginals`.
double sum(Kind kind, const Sentence& sentence, const Arcs& arcs, double* scratch,
           Sums* sums) noexcept;
// The same of several sentences, at most `lanes()` (kMostLanes), with the bits of one by one: each
// has its scratch; those of projective trees go side by side, in `shared` of sum_several_size of
// the longest. Not beyond kMostSpans words, where their tables would be too large. Without `spans`
// head_joints cannot be asked of them, and without `sums` nothing can.
void sum_several(Kind kind, const Sentence* sentences, const Arcs* arcs, int64_t count,
                 double* const* scratch, bool spans, Sums* sums, double* log_z,
                 double* shared) noexcept;
int64_t sum_several_size(Kind kind, int64_t n) noexcept;
// Answers of other arcs, from the same sums. O(n^2), of wide numbers O(n^3).
void more(Sums* sums, const Arcs& arcs) noexcept;
// P(two arcs): of the arcs from `head` to some modifiers (count,), ascending. Two of them, i < j,
// are at siblings[i count + j], of (count, count) numbers. An arc g -> head, where g is one of
// `above` (many,), with arc i is at grandparents[g count + i], of (n + 1, count). -1: `joints` has
// to be asked (never of projective trees). O(count^2 + many count), of projective trees
// O(n^2 count).
void head_joints(Sums* sums, int64_t head, int64_t count, const int32_t* modifiers, int64_t many,
                 const int32_t* above, double* siblings, double* grandparents) noexcept;

// The best score; -inf where no tree is possible. `heads` (n,): of words 1..n, or -1. Ties always
// give the same tree. Tree: O(n^2), Chu-Liu-Edmonds. Projective: O(n^3), Eisner.
double best(Kind kind, const Sentence& sentence, int64_t* heads, double* scratch) noexcept;

// The best score of a projective tree. ratio: the best score with an arc less its own, minus the
// best score without it; -inf, inf as above.
double projective_max(const Sentence& sentence, double* ratio, double* scratch) noexcept;

// Scores of an arc with the head of its head.
struct Grandparents {
    int64_t count = 0;
    const int64_t* words = nullptr;  // (count, 3): grandparent, head, modifier, each part once
    const double* score = nullptr;   // (count,)
};
int64_t grandparents_scratch_size(int64_t n) noexcept;

// log Z of projective trees with grandparents, O(n^4); marginals of arcs (n + 1, n + 1) and of the
// parts (count,).
double grandparents(const Sentence& sentence, const Grandparents& parts, double* marginal,
                    double* of_parts, double* scratch) noexcept;
// The best of them, as `best`.
double best_grandparents(const Sentence& sentence, const Grandparents& parts, int64_t* heads,
                         double* scratch) noexcept;

// The capsule `valuesparse._parsing.trees`, by which other extension modules call these.
struct TreesApi {
    int64_t (*scratch_size)(Kind, int64_t) noexcept;
    double (*marginals)(Kind, const Sentence&, const Arcs&, double*) noexcept;
    double (*joints)(const Sentence&, int64_t, const Pair*, double*, double*) noexcept;
    double (*sum)(Kind, const Sentence&, const Arcs&, double*, Sums*) noexcept;
    void (*sum_several)(Kind, const Sentence*, const Arcs*, int64_t, double* const*, bool, Sums*,
                        double*, double*) noexcept;
    int64_t (*sum_several_size)(Kind, int64_t) noexcept;
    int64_t (*lanes)() noexcept;
    void (*head_joints)(Sums*, int64_t, int64_t, const int32_t*, int64_t, const int32_t*, double*,
                        double*) noexcept;
    double (*best)(Kind, const Sentence&, int64_t*, double*) noexcept;
    double (*projective_max)(const Sentence&, double*, double*) noexcept;
    void (*more)(Sums*, const Arcs&) noexcept;
};
const TreesApi* trees_api() noexcept;
void use_simd(const SimdApi* simd) noexcept;  // before the first call

}  // namespace vs::dependency
