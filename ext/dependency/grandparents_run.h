// Sums and the best of projective trees with grandparents, in one arithmetic A.
#pragma once

#include <cmath>
#include <cstdint>

#include "dependency/grandparents.h"
#include "dependency/maxima.h"
#include "dependency/run.h"

namespace VS_NS {

// Doubles of scratch of the functions below.
template <class A>
int64_t grandparents_scratch(int64_t n) {
    using Spans = GrandparentSpans<A>;
    return row_of(n) + Spans::table(n) + (Spans::table(n) + Spans::scratch(n)) * A::kDoubles;
}

// score (n + 1, n + 1, stride) at [head, modifier, grandparent]: of an arc with the grandparent
// that it has; -inf where none may be.
inline void fill_scores(const vs::dependency::Sentence& s,
                        const vs::dependency::Grandparents& parts, double* score) {
    const int64_t n = s.n, ld = row_of(n);
    for (int64_t h = 0; h <= n; ++h) {
        for (int64_t m = 0; m <= n; ++m) {
            double* x = score + (h * (n + 1) + m) * ld;
            const int64_t low = h < m ? h : m, high = h < m ? m : h;
            const double own = m == 0 || m == h ? -INFINITY : s.scores[h * (n + 1) + m];
            for (int64_t g = 0; g < ld; ++g) {
                const bool may = h == 0 ? g == 0 : g <= n && (g < low || g > high);
                x[g] = may ? own : -INFINITY;
            }
        }
    }
    for (int64_t i = 0; i < parts.count; ++i) {
        const int64_t* part = parts.words + 3 * i;
        score[(part[1] * (n + 1) + part[2]) * ld + part[0]] += parts.score[i];
    }
}

// As `shifts`: the largest score of each word, with its grandparent.
inline Shifts grandparent_shifts(const double* score, int64_t n, double* shift) {
    const int64_t ld = row_of(n);
    Shifts found;
    double lowest = 0.0;
    for (int64_t m = 1; m <= n; ++m) {
        const auto each = [&](auto act) {
            for (int64_t h = 0; h <= n; ++h) {
                const double* x = score + (h * (n + 1) + m) * ld;
                for (int64_t g = 0; g <= n; ++g) act(x[g]);
            }
        };
        double most = -INFINITY;
        each([&](double x) { most = x > most ? x : most; });
        found.possible = found.possible && most > -INFINITY;
        found.sum += most;
        shift[m] = most;
        each([&](double x) {
            const double below = x == -INFINITY ? 0.0 : x - most;
            lowest = below < lowest ? below : lowest;
        });
    }
    found.range = -lowest;
    return found;
}

// log Z; marginals of arcs (n + 1, n + 1), and of the parts (count,). `doubt` as of sum_trees.
template <class A>
double sum_grandparents(const vs::dependency::Sentence& s,
                        const vs::dependency::Grandparents& parts, double* marginal,
                        double* of_parts, double* scratch, bool* doubt) {
    using T = typename A::T;
    using Spans = GrandparentSpans<A>;
    const int64_t n = s.n, ld = row_of(n);
    *doubt = false;
    const auto never = [&](double answer) {
        for (int64_t i = 0; i < parts.count; ++i) of_parts[i] = 0.0;
        vs::dependency::Arcs arcs;
        arcs.marginal = marginal;
        return nothing(arcs, n, answer);
    };
    ScratchPieces pieces{scratch};
    double* shift = pieces.take<double>(ld);
    double* score = pieces.take<double>(Spans::table(n));
    fill_scores(s, parts, score);
    const Shifts found = grandparent_shifts(score, n, shift);
    if (!found.possible || n == 0) return never(n == 0 ? 0.0 : -INFINITY);
    if (found.range > A::kRange) return *doubt = true, 0.0;
    T* weight = pieces.take<T>(Spans::table(n));
    A::begin();
    for (int64_t h = 0; h <= n; ++h) {
        for (int64_t m = 0; m <= n; ++m) {
            const int64_t at = (h * (n + 1) + m) * ld;
            A::exp_row(score + at, shift[m], weight + at, m == 0 ? 0 : n + 1);
        }
    }
    Spans spans(weight, n, s.single_root, pieces.take<T>(Spans::scratch(n)));
    const T z = spans.inside();
    if (A::out_of_range(z)) return *doubt = true, 0.0;
    if (A::is_zero(z)) {
        if (A::doubtful()) return *doubt = true, 0.0;
        return never(-INFINITY);
    }
    spans.outside();
    bool lost = A::doubtful() && A::too_small(z, n);
    const bool look = A::doubtful();
    const T inverse = A::over(A::one(), z);
    for (int64_t h = 0; h <= n; ++h) {
        for (int64_t m = 0; m <= n; ++m) {
            T total = A::zero();
            for (int64_t g = 0; m > 0 && m != h && g <= (h == 0 ? 0 : n); ++g) {
                const T mass = spans.mass(g, h, m);
                lost = lost || (look && A::vanished(spans.weight(g, h, m), mass));
                total = A::plus(total, mass);
            }
            marginal[h * (n + 1) + m] = A::as_double(A::times(total, inverse));
        }
    }
    if (lost) return *doubt = true, 0.0;
    for (int64_t i = 0; i < parts.count; ++i) {
        const int64_t* part = parts.words + 3 * i;
        const T mass = spans.mass(part[0], part[1], part[2]);
        of_parts[i] = A::as_double(A::times(mass, inverse));
    }
    return A::log(z) + found.sum;
}

// The best score, and its heads (n,); -inf and -1 where nothing is possible.
inline double best_grandparents(const vs::dependency::Sentence& s,
                                const vs::dependency::Grandparents& parts, int64_t* heads,
                                double* scratch) {
    using Spans = GrandparentSpans<MaxPlus>;
    const int64_t n = s.n;
    for (int64_t m = 0; m < n; ++m) heads[m] = -1;
    if (n == 0) return 0.0;
    ScratchPieces pieces{scratch};
    double* score = pieces.take<double>(Spans::table(n));
    fill_scores(s, parts, score);
    Spans spans(score, n, s.single_root, pieces.take<double>(Spans::scratch(n)));
    const double most = spans.inside();
    if (most > -INFINITY) attach(spans, 0, 0, n, heads);
    return most;
}

}  // namespace VS_NS
