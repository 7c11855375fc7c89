// The scores of a call as the kernels read them, and its tables as they are packed.
#pragma once

#include <cmath>

#include "core/problem.h"
#include "core/scratch.h"
#include "rows/sparse_table.h"
#include "simd/level.h"

namespace VS_NS {

// exp(transition), packed once per call and shared by all workers.
template <class T>
struct Packed {
    const T* forward;   // [l][k] in tiles
    const T* backward;  // [k][l] in tiles
    const T* rows;      // (K, Kp) row l: E(l, .)   (islands only, else null)
    const T* columns;   // (K, Kp) row k: E(., k)
    double shift;       // the largest transition log-potential
    T reach;            // R
    bool floored;       // some finite transition lies below Floor::kTransitionLog
    bool positive;      // no transition is forbidden
    const vs::SparseSide *sparse_forward, *sparse_backward;  // in place of tables, or null
};

template <class In>
struct Input {
    const vs::Chains& c;
    const In *unary, *transition, *start, *end;

    explicit Input(const vs::Chains& chains)
        : c(chains),
          unary(static_cast<const In*>(chains.unary)),
          transition(static_cast<const In*>(chains.transition)),
          start(static_cast<const In*>(chains.start)),
          end(static_cast<const In*>(chains.end)) {}

    bool decorated(bool first, bool last) const {
        return (first && c.start) || (last && c.end) || c.allowed;
    }
    // The local log-potential of label k at position i, summed in T.
    template <class T>
    T score_in(int64_t i, int64_t k, bool first, bool last) const {
        if (c.allowed && !c.allowed[i * c.n_labels + k]) return static_cast<T>(forbidden());
        T x = static_cast<T>(unary[i * c.n_labels + k]);
        if (first && start) x += static_cast<T>(start[k]);
        if (last && end) x += static_cast<T>(end[k]);
        return x;
    }
    In score(int64_t i, int64_t k, bool first, bool last) const {
        return score_in<In>(i, k, first, last);
    }
    In edge_score(int64_t edge, int64_t l, int64_t k) const {
        return transition[((c.per_edge ? edge : 0) * c.n_labels + l) * c.n_labels + k];
    }
    static In forbidden() { return -static_cast<In>(INFINITY); }
    template <class T>
    void compose(int64_t i, bool first, bool last, T* row) const {
        for (int64_t k = 0; k < c.n_labels; ++k) row[k] = static_cast<T>(score(i, k, first, last));
    }
};

}  // namespace VS_NS
