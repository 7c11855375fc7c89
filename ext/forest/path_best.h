// Viterbi in the max-sum algebra: the message kernel of tile.h over another algebra.
//
//   v_i(k) = u_i(k) + max_l (v_{i-1}(l) + t(l, k));   back-trace: argmax_l (v_{i-1}(l) + t(l, k))
//
// No back-pointers are stored: the trace reads one column of t per position.
#pragma once

#include <cmath>
#include <type_traits>

#include "core/sum.h"
#include "rows/input.h"
#include "rows/rows.h"
#include "rows/sorted_scan.h"
#include "rows/tile.h"
#include "core/scratch.h"
#include "forest/level.h"
#include "core/ticker.h"

namespace VS_NS {

// A row of a table in the type that is computed in; `workspace` (K,) where that is a wider one.
[[maybe_unused]] static const float* widened(const float* t, int, float*) { return t; }
[[maybe_unused]] static const double* widened(const double* t, int, double*) { return t; }
[[maybe_unused]] static const double* widened(const float* t, int K, double* workspace) {
    for (int k = 0; k < K; ++k) workspace[k] = static_cast<double>(t[k]);
    return workspace;
}

// y[k] = max_l (x[l] + t[l][k]) with a plain table.
template <class In, class T>
static void max_sum_forward(const In* t, int K, int Kp, const T* x, T* y, T* workspace = nullptr) {
    using V = Vec<T>;
    const T lowest = -static_cast<T>(INFINITY);
    for (int k = 0; k < K; ++k) y[k] = lowest;
    for (int l = 0; l < K; ++l, t += K) {
        const T* row = widened(t, K, workspace);
        const V w = V::set1(x[l]);
        for (int k = 0; k < Kp; k += V::N) {
            const V e = k + V::N <= K ? V::load(row + k) : V::load_part(row + k, K - k, lowest);
            V::max(V::load(y + k), w + e).store(y + k);
        }
    }
}

// v = y + the scores u[0..K), -inf beyond; y is -inf there.
template <class T>
static VS_INLINE void add_scores(const T* y, const T* u, int K, int Kp, T* v) {
    using V = Vec<T>;
    const T lowest = -static_cast<T>(INFINITY);
    for_row<T>(K, [&](int k, int m, auto whole) VS_INLINE_LAMBDA {
        const V x = whole.value ? V::load(u + k) : V::load_part(u + k, m, lowest);
        (V::load(y + k) + x).store(v + k);
    });
    for (int k = K; k < Kp; ++k) v[k] = lowest;
}

// v_i of all positions, rows of `best` (n, Kp). CENTRED: each row less its largest entry, which
// keeps scores near zero. False: stopped, or no memory.
template <bool CENTRED, class In, class T>
static bool best_prefixes(const Input<In>& in, const vs::Scores* table, int64_t sequence, T* best,
                          vs::Scratch* scratch, vs::Patience* patience, vs::Control* control,
                          bool caller) {
    const vs::Chains& c = in.c;
    const Tiling<T> g(c.n_labels);
    const int K = g.K, Kp = g.Kp;
    const int64_t begin = c.offset[sequence], n = c.offset[sequence + 1] - begin;
    const int64_t edge = c.edge[sequence];
    const T lowest = -static_cast<T>(INFINITY);
    T* y = scratch->array<T>(3 * static_cast<int64_t>(Kp));
    BestMessages<T> send;
    if (best == nullptr || y == nullptr || (table && !send.init(g, *scratch, patience))) {
        control->stop.store(2);
        return false;
    }
    T *u = y + Kp, *workspace = u + Kp;
    for (int k = 0; k < 2 * Kp; ++k) y[k] = lowest;
    Ticker ticker(control, caller, c.n_labels);
    for (int64_t i = 0; i < n; ++i) {
        if (!ticker.go_on()) return false;
        T* v = best + i * Kp;
        const T* scores = u;
        if (std::is_same_v<T, In> && !in.decorated(i == 0, i == n - 1)) {
            scores = reinterpret_cast<const T*>(in.unary + (begin + i) * K);
        } else {
            for (int k = 0; k < K; ++k) {
                u[k] = in.template score_in<T>(begin + i, k, i == 0, i == n - 1);
            }
        }
        if (i == 0) {
            for (int k = 0; k < Kp; ++k) v[k] = k < K ? scores[k] : lowest;
        } else {
            const T* x = v - Kp;
            if (table) {
                send.send(*table, x, y);
            } else {
                const int64_t own = c.per_edge ? edge + i - 1 : 0;
                max_sum_forward(in.transition + own * K * K, K, Kp, x, y, workspace);
            }
            add_scores(y, scores, K, Kp, v);
        }
        if (!CENTRED) continue;
        const T top = row_max(v, K);
        if (top > lowest) {
            const Vec<T> most = Vec<T>::set1(top);
            for (int k = 0; k < Kp; k += Vec<T>::N) (Vec<T>::load(v + k) - most).store(v + k);
        }
    }
    return true;
}

// The first l with the largest x(l) + column(l); entries of the column lie a row of the table
// apart.
template <class T>
static int best_of_all(const T* x, const T* column, int K) {
    T top = -static_cast<T>(INFINITY);
    int from = 0;
    for (int l = 0; l < K; ++l, column += K) {
        const T s = x[l] + *column;
        if (s > top) {
            top = s;
            from = l;
        }
    }
    return from;
}

// The same, where no entry exceeds `most`: those are read that can matter.

template <class T>
static int best_before(const T* x, const T* column, int K, T most) {
    using V = Vec<T>;
    const T lowest = -static_cast<T>(INFINITY);
    const auto score = [&](int l) { return x[l] + column[static_cast<int64_t>(l) * K]; };
    T top = lowest, bound = score(row_argmax(x, K));
    int from = 0;
    const V no_more = V::set1(most);
    for_row<T>(K, [&](int k, int m, auto whole) VS_INLINE_LAMBDA {
        const V v = whole.value ? V::load(x + k) : V::load_part(x + k, m, lowest);
        for (unsigned lanes = (v + no_more).ge(V::set1(bound)); lanes != 0; lanes &= lanes - 1) {
            const int l = k + vs_first_bit(lanes);
            const T s = l < K ? score(l) : lowest;
            if (s > top) {
                top = s;
                from = l;
                bound = s > bound ? s : bound;
            }
        }
    });
    return from;
}

// `table`: null where each edge has its own.
template <class In>
static void viterbi_of(const vs::Chains* c, const vs::Scores* table, int64_t sequence,
                       int64_t* states, double* score, vs::Scratch* scratch, vs::Patience* patience,
                       vs::Control* control, bool caller) {
    const Input<In> in(*c);
    const int K = static_cast<int>(c->n_labels), Kp = Tiling<In>(K).Kp;
    const int64_t begin = c->offset[sequence], n = c->offset[sequence + 1] - begin;
    const int64_t edge = c->edge[sequence];
    const In lowest = Input<In>::forbidden();
    scratch->reset();
    In* best = scratch->array<In>(n * Kp);
    In* column = scratch->array<In>(2 * static_cast<int64_t>(Kp));
    In* sums = column + Kp;
    if (column == nullptr) {
        control->stop.store(2);
        return;
    }
    for (int l = 0; l < 2 * Kp; ++l) column[l] = -static_cast<In>(INFINITY);
    // Each row's maximum is moved into the total.
    if (!best_prefixes<true>(in, table, sequence, best, scratch, patience, control, caller)) return;
    int k = row_argmax(best + (n - 1) * Kp, K);
    if (!(best[(n - 1) * Kp + k] > lowest)) {
        *score = -INFINITY;
        return;
    }
    vs::Sum total;
    for (int64_t i = n - 1;; --i) {
        states[i] = k;
        total.add(static_cast<double>(in.score(begin + i, k, i == 0, i == n - 1)));
        if (i == 0) break;
        const In* x = best + (i - 1) * Kp;
        if (table && table->listed) {
            listed_column(*table->listed, k, Kp, column);
            for (int l = 0; l < K; ++l) sums[l] = x[l] + column[l];
            k = row_argmax(sums, K);
            total.add(static_cast<double>(column[k]));
            continue;
        }
        const In* all = in.transition + (c->per_edge ? edge + i - 1 : 0) * K * K + k;
        const int from = table && table->rows
                             ? best_before(x, all, K, static_cast<const In*>(table->tops)[k])
                             : best_of_all(x, all, K);
        total.add(static_cast<double>(in.edge_score(edge + i - 1, from, k)));
        k = from;
    }
    *score = total.total();
}

[[maybe_unused]] static void viterbi(const vs::Chains* c, const vs::Scores* table, int64_t sequence,
                                     int64_t* states, double* score, vs::Scratch* scratch,
                                     vs::Patience* patience, vs::Control* control, int caller) {
    if (c->dtype == vs::kFloat32) {
        viterbi_of<float>(c, table, sequence, states, score, scratch, patience, control,
                          caller != 0);
    } else {
        viterbi_of<double>(c, table, sequence, states, score, scratch, patience, control,
                           caller != 0);
    }
}

// As Level::prefix_scores.
[[maybe_unused]] static void prefix_scores(const vs::Chains* c, const vs::Scores* table,
                                           int64_t sequence, double* rows, vs::Scratch* scratch,
                                           vs::Patience* patience, vs::Control* control,
                                           int caller) {
    if (c->dtype == vs::kFloat32) {
        best_prefixes<false>(Input<float>(*c), table, sequence, rows, scratch, patience, control,
                             caller != 0);
    } else {
        best_prefixes<false>(Input<double>(*c), table, sequence, rows, scratch, patience, control,
                             caller != 0);
    }
}

template <class In, class T>
static void pack_scores_of(const vs::Chains* c, T* packed) {
    const Tiling<T> g(c->n_labels);
    const In* t = static_cast<const In*>(c->transition);
    const T lowest = -static_cast<T>(INFINITY);
    for (int tile = 0; tile < g.n_tiles; ++tile) {
        const int width = g.width(tile), column = g.first_unit(tile) * Vec<T>::N;
        for (int l = 0; l < g.K; ++l) {
            T* out = packed + g.offset(tile) + static_cast<int64_t>(l) * width;
            for (int k = 0; k < width; ++k) {
                out[k] = column + k < g.K
                             ? static_cast<T>(t[static_cast<int64_t>(l) * g.K + column + k])
                             : lowest;
            }
        }
    }
    for (int l = 0; g.lone && l < g.Kp; ++l) {
        packed[g.lone_offset() + l] =
            l < g.K ? static_cast<T>(t[static_cast<int64_t>(l) * g.K + g.K - 1]) : lowest;
    }
}

static void column_tops(int compute, int dtype, const void* table, int64_t labels, void* tops) {
    const int K = static_cast<int>(labels);
    const auto in = [&](const auto* t) {
        if (compute == vs::kFloat32) {
            return column_tops_of(t, K, Tiling<float>(K).Kp, static_cast<float*>(tops));
        }
        column_tops_of(t, K, Tiling<double>(K).Kp, static_cast<double*>(tops));
    };
    dtype == vs::kFloat32 ? in(static_cast<const float*>(table))
                          : in(static_cast<const double*>(table));
}

static void pack_scores(int compute, const vs::Chains* c, void* packed) {
    if (c->dtype == vs::kFloat64) {
        pack_scores_of<double>(c, static_cast<double*>(packed));
    } else if (compute == vs::kFloat64) {
        pack_scores_of<float>(c, static_cast<double*>(packed));
    } else {
        pack_scores_of<float>(c, static_cast<float*>(packed));
    }
}

}  // namespace VS_NS
