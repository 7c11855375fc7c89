// Sums over all trees of a sentence in one arithmetic A: Plain or WideSums.
#pragma once

#include <cmath>
#include <cstdint>
#include <initializer_list>

#include "dependency/children.h"
#include "dependency/eisner.h"
#include "dependency/odds.h"
#include "dependency/root_words.h"
#include "dependency/walk.h"
#include "dependency/weights.h"

namespace VS_NS {

// Takes pieces of the caller's scratch.
struct ScratchPieces {
    double* next;
    template <class T>
    T* take(int64_t n) {
        T* piece = reinterpret_cast<T*>(next);
        next += n * static_cast<int64_t>(sizeof(T) / sizeof(double));
        return piece;
    }
};

inline int64_t row_of(int64_t n) { return (n + 1 + 7) / 8 * 8; }

// Numbers of scratch of the functions below.
template <class A>
int64_t tree_scratch(int64_t n) {
    const int64_t ld = row_of(n);
    const int64_t solving = A::kOrders ? Walk<A>::scratch(n) : SingleRoot::scratch(n);
    return 2 * ld + (3 * (n + 1) * ld + 2 * n + solving + Odds<A>::scratch(n, ld)) * A::kDoubles;
}
template <class A>
int64_t projective_scratch(int64_t n) {
    const int64_t ld = row_of(n);
    return 2 * ld + (2 * (n + 1) * ld + Eisner<A>::scratch(n) + Odds<A>::scratch(n, ld) +
                     Children<A>::scratch(n)) *
                        A::kDoubles;
}

inline double nothing(const vs::dependency::Arcs& arcs, int64_t n, double answer) {
    for (double* out : {arcs.marginal, arcs.complement, arcs.ratio}) {
        for (int64_t i = 0; out && i < (n + 1) * (n + 1); ++i) out[i] = 0.0;
    }
    return answer;
}

// Keeps the sums that `more` and `head_joints` need.
template <class T>
void hold(const double* shift, const T* weight, const T* rest, const T* total, T* space,
          vs::dependency::Sums* sums) {
    sums->shift = shift;
    sums->weight = weight;
    sums->rest = rest;
    sums->total = total;
    sums->odds = space;
}

// How every sum begins: the weights of arcs, and what is left of the scratch. Where there is
// nothing to sum up, or A is too narrow (`doubt`), there are no weights but an answer.
template <class A>
struct Opening {
    using T = typename A::T;

    // After A::begin(). Whether there are weights.
    bool open(const vs::dependency::Sentence& s, const vs::dependency::Arcs& arcs, double* scratch,
              bool* doubt) {
        ld = row_of(s.n);
        pieces = {scratch};
        shift = pieces.take<double>(ld);
        const Shifts found = shifts(s, shift, pieces.take<double>(ld));
        sum = found.sum;
        *doubt = found.possible && s.n > 0 && found.range > A::kRange;
        if (*doubt) return false;
        if (!found.possible || s.n == 0) {
            answer = nothing(arcs, s.n, s.n == 0 ? 0.0 : -INFINITY);
            return false;
        }
        weight = pieces.take<T>((s.n + 1) * ld);
        A::weights(s, shift, weight, ld);
        return true;
    }

    int64_t ld = 0;
    ScratchPieces pieces = {};
    double *shift = nullptr, sum = 0.0, answer = 0.0;
    T* weight = nullptr;  // (n + 1, ld)
};

// log Z of all trees, -inf where there is none. `doubt`: where A is too narrow, it becomes true and
// nothing that was written counts.
template <class A>
double sum_trees(const vs::dependency::Sentence& s, const vs::dependency::Arcs& arcs,
                 double* scratch, bool* doubt, vs::dependency::Sums* sums = nullptr) {
    using T = typename A::T;
    Opening<A> o;
    A::begin();
    if (!o.open(s, arcs, scratch, doubt)) return o.answer;
    const int64_t n = s.n, ld = o.ld;
    T* weight = o.weight;
    ScratchPieces& pieces = o.pieces;
    T* steps = pieces.take<T>((n + 1) * ld);
    T* hit = pieces.take<T>((n + 1) * ld);
    T* root = pieces.take<T>(n);
    T* pivot = pieces.take<T>(n);
    for (int64_t m = 1; m <= n; ++m) {
        T* row = steps + (m - 1) * ld;
        for (int64_t h = 1; h <= n; ++h) row[h - 1] = weight[h * ld + m];
        root[m - 1] = s.single_root ? A::epsilon(weight[m]) : weight[m];
        hit[m] = s.single_root ? A::epsilon(A::one()) : A::one();
    }
    hit[0] = A::zero();
    for (int64_t h = 1; h <= n; ++h) hit[h * ld] = A::zero();
    T* const inner = hit + ld + 1;
    const auto solve = [&] {
        if constexpr (!A::kOrders) {
            T* solving = pieces.take<T>(SingleRoot::scratch(n));
            if (s.single_root) {
                return SingleRoot::solve(steps, weight + ld + 1, ld, root, n,
                                         arcs.ratio && arcs.all_ratios, inner, hit + 1, pivot,
                                         solving);
            }
            return Walk<A>::solve(steps, ld, root, n, false, inner, ld, pivot, solving);
        } else {
            return Walk<A>::solve(steps, ld, root, n, false, inner, ld, pivot,
                                  pieces.take<T>(Walk<A>::scratch(n)));
        }
    };
    const bool solved = solve();
    if (A::doubtful()) return *doubt = true, 0.0;
    const double log_det = solved ? A::log_product(pivot, n, s.single_root ? 1 : 0) : -INFINITY;
    if (log_det == -INFINITY) return nothing(arcs, n, log_det);
    T* space = pieces.take<T>(Odds<A>::scratch(n, ld));
    Odds<A> odds(weight, hit, n, ld, space);
    if (A::doubtful()) return *doubt = true, 0.0;
    if (sums) hold(o.shift, weight, hit, odds.total(), space, sums);
    odds.tell(o.shift, arcs);
    return log_det + o.sum;
}

// Whether the mass of some arc is so small that terms which vanished are felt in it.
template <class A>
bool vanished(const typename A::T* weight, const typename A::T* rest, int64_t n, int64_t ld) {
    for (int64_t h = 0; h <= n; ++h) {
        for (int64_t i = h * ld + 1; i <= h * ld + n; ++i) {
            if (A::vanished(weight[i], A::times(weight[i], rest[i]))) return true;
        }
    }
    return false;
}

// What surrounds the sums over projective trees of one sentence.
template <class A>
struct Projective {
    using T = typename A::T;

    // After A::begin(). False: there is an answer, or doubt.
    bool open(const vs::dependency::Sentence& s, const vs::dependency::Arcs& wanted,
              double* scratch, bool* doubt) {
        arcs = wanted;
        n = s.n;
        if (!o.open(s, arcs, scratch, doubt)) return false;
        rest = o.pieces.template take<T>((n + 1) * o.ld);
        spans = o.pieces.template take<T>(Eisner<A>::scratch(n));
        return true;
    }
    // The mass of all trees, after `inside`. False: there is an answer, or doubt.
    bool weigh(T mass, bool more, bool* doubt) {
        z = mass;
        o.answer = A::is_zero(z) ? -INFINITY : A::log(z) + o.sum;
        if (A::out_of_range(z)) return *doubt = true, false;
        if (A::is_zero(z)) {
            if (A::doubtful()) return *doubt = true, false;
            return nothing(arcs, n, o.answer), false;
        }
        if (arcs.marginal || arcs.complement || arcs.ratio || more) return true;
        *doubt = A::doubtful() && A::too_small(z, 0);
        return false;
    }
    // After `outside`, with what arcs are multiplied by in `rest`.
    void answer(vs::dependency::Sums* sums, bool* doubt) {
        T* space = o.pieces.template take<T>(Odds<A>::scratch(n, o.ld));
        Odds<A> odds(o.weight, rest, n, o.ld, space);
        if (A::doubtful() && (A::too_small(z, n) || vanished<A>(o.weight, rest, n, o.ld))) {
            *doubt = true;
            return;
        }
        if (sums) {
            hold(o.shift, o.weight, rest, odds.total(), space, sums);
            sums->spans = spans;
            sums->children = o.pieces.template take<T>(Children<A>::scratch(n));
        }
        odds.tell(o.shift, arcs);
    }

    Opening<A> o;
    vs::dependency::Arcs arcs;
    int64_t n = 0;
    T z = {}, *rest = nullptr, *spans = nullptr;  // rest (n + 1, ld)
};

// The same of projective trees.
template <class A>
double sum_projective(const vs::dependency::Sentence& s, const vs::dependency::Arcs& arcs,
                      double* scratch, bool* doubt, vs::dependency::Sums* sums = nullptr) {
    A::begin();
    Projective<A> p;
    if (!p.open(s, arcs, scratch, doubt)) return p.o.answer;
    Eisner<A> eisner(s.n, s.single_root, p.spans);
    eisner.write(s.n, p.o.weight, p.o.ld);
    eisner.inside();
    if (p.weigh(eisner.mass(s.n), sums != nullptr, doubt)) {
        eisner.outside();
        eisner.read(s.n, p.rest, p.o.ld);
        p.answer(sums, doubt);
    }
    return p.o.answer;
}

// Answers of other arcs.
template <class A>
void more_of(const vs::dependency::Sums& sums, const vs::dependency::Arcs& arcs) {
    using T = typename A::T;
    const int64_t n = sums.sentence.n;
    Odds<A>(static_cast<const T*>(sums.weight), static_cast<const T*>(sums.rest), n, row_of(n),
            static_cast<T*>(sums.odds))
        .tell(sums.shift, arcs);
}

// Terms that vanish in plain doubles are at most 1e-160 of all where too_small says no.
template <class A>
void projective_joints(vs::dependency::Sums* sums, int64_t head, int64_t count,
                       const int32_t* modifiers, int64_t many, const int32_t* above,
                       double* siblings, double* grandparents, bool* doubt) {
    using T = typename A::T;
    const int64_t n = sums->sentence.n;
    const bool single = sums->sentence.single_root;
    A::begin();
    const SpanSums<T> spans = Eisner<A>(n, single, static_cast<T*>(sums->spans))
                                  .spans(static_cast<const T*>(sums->weight), row_of(n));
    Children<A>(spans, n, single, static_cast<T*>(sums->children))
        .joints(head, count, modifiers, many, above, siblings, grandparents);
    *doubt = A::doubtful() && A::too_small(spans.complete(0, 0, n), n);
}

}  // namespace VS_NS
