// exp(transition) in tiles, both ways round, and (for islands) as plain rows and columns.
#pragma once

#include "rows/input.h"
#include "rows/rows.h"
#include "rows/tile.h"
#include "rows/pack_table.h"

namespace VS_NS {

template <class T>
Packed<T> packed_view(const vs::Packing& p) {
    return {static_cast<const T*>(p.forward),
            static_cast<const T*>(p.backward),
            static_cast<const T*>(p.rows),
            static_cast<const T*>(p.columns),
            p.shift,
            static_cast<T>(p.reach),
            p.floored,
            p.positive,
            p.sparse ? &p.sparse_forward : nullptr,
            p.sparse ? &p.sparse_backward : nullptr};
}

template <class T>
static double row_sum(const T* e, int Kp) {
    using V = Vec<T>;
    V sum = V::set1(T(0));
    for (int k = 0; k < Kp; k += V::N) sum = sum + V::load(e + k);
    return static_cast<double>(sum.hsum());
}

// Finds what a row of transitions holds (Packing::Finding), with `shift` taken out.
template <class T, class In>
static uint8_t findings_of(const In* t, int K, typename Linear<T, In>::Score shift) {
    using Score = typename Linear<T, In>::Score;
    constexpr Score low = static_cast<Score>(Floor<T>::kTransitionLog);
    if (static_cast<Score>(row_min(t, K)) - shift >= low) return 0;
    uint8_t found = 0;
    for (int k = 0; k < K; ++k) {
        found |= !(t[k] >= ExpConst<In>::kMostNegative)   ? vs::Packing::kForbids
                 : static_cast<Score>(t[k]) - shift < low ? vs::Packing::kFloored
                                                          : 0;
    }
    return found;
}

// e(k) = e(k) (shift - t(k)), 0 where e is held at its floor: what it stands for is nothing.
template <class T, class In>
static void times_depth(const In* t, int K, T shift, T* e) {
    for (int k = 0; k < K; ++k) {
        const T depth = shift - static_cast<T>(t[k]);
        e[k] = depth <= -Floor<T>::kTransitionLog ? e[k] * depth : T(0);
    }
}

// out[k][r] = block[r][k] for r < LANES.
template <class T, int LANES>
static void transpose_block(const T* block, int64_t Kp, int K, T* out, int64_t stride) {
    for (int k = 0; k < K; ++k, out += stride) {
        for (int r = 0; r < LANES; ++r) out[r] = block[r * Kp + k];
    }
}

template <class T, class In>
static void pack_rows(const vs::Chains* c, vs::Packing* p, int64_t l0, int64_t l1, double* sums,
                      uint8_t* findings, vs::Scratch* scratch) {
    constexpr int VN = Vec<T>::N;
    const Tiling<T> g(c->n_labels);
    const int K = g.K;
    scratch->reset();
    T* tmp = scratch->array<T>(2 * static_cast<int64_t>(g.Kp));
    T* block = scratch->array<T>(static_cast<int64_t>(VN) * g.Kp);
    if (scratch->failed) {
        std::memset(findings + l0, vs::Packing::kNotPacked, static_cast<size_t>(l1 - l0));
        return;
    }
    const Input<In> in(*c);
    const Packed<T> none{nullptr, nullptr, nullptr, nullptr, p->shift,
                         T(0),    false,   false,   nullptr, nullptr};
    const Linear<T, In> d(in, none, tmp);
    const auto shift = static_cast<typename Linear<T, In>::Score>(p->shift);
    T* forward = static_cast<T*>(p->forward);
    T* backward = static_cast<T*>(p->backward);
    T* rows = static_cast<T*>(p->rows);
    T* columns = static_cast<T*>(p->columns);
    for (int64_t l = l0; l < l1; l += VN) {
        const int m = static_cast<int>(l1 - l < VN ? l1 - l : VN);
        for (int r = 0; r < m; ++r) {
            T* e = block + static_cast<int64_t>(r) * g.Kp;
            const In* t = d.in_edge(0) + (l + r) * K;
            d.exp_transition(t, shift, e);
            if (p->depth) times_depth(t, K, static_cast<T>(p->shift), e);
            sums[l + r] = row_sum(e, g.Kp);
            findings[l + r] = findings_of<T>(t, K, shift);
            for (int t2 = 0; t2 < g.n_tiles; ++t2) {
                const int width = g.width(t2), column = g.first_unit(t2) * VN;
                T* out = forward + g.offset(t2) + (l + r) * width;
                std::memcpy(out, e + column, sizeof(T) * static_cast<size_t>(width));
            }
            if (g.lone) {
                forward[g.lone_offset() + l + r] = e[K - 1];
                for (int64_t k = K; l + r == K - 1 && k < g.Kp; ++k) {
                    forward[g.lone_offset() + k] = T(0);
                }
            }
            if (rows) std::memcpy(rows + (l + r) * g.Kp, e, sizeof(T) * static_cast<size_t>(g.Kp));
        }
        // Lanes beyond m are pads.
        for (int r = m; r < VN; ++r) {
            std::memset(block + static_cast<int64_t>(r) * g.Kp, 0,
                        sizeof(T) * static_cast<size_t>(g.Kp));
        }
        auto transpose = [&](T* out, int64_t stride, int lanes) {
            if (lanes == VN) return transpose_block<T, VN>(block, g.Kp, K, out, stride);
            transpose_block<T, Tail<T>::N>(block, g.Kp, K, out, stride);
        };
        if (columns) transpose(columns + l, g.Kp, VN);
        if (g.lone && l == K - 1) {
            std::memcpy(backward + g.lone_offset(), block, sizeof(T) * static_cast<size_t>(g.Kp));
            continue;
        }
        // Columns [l, l + m) of the transposed matrix lie in one vector of one tile.
        const int tile = g.tile_of(static_cast<int>(l));
        const int column = static_cast<int>(l) - g.first_unit(tile) * VN;
        const int workspace = g.width(tile) - column;
        transpose(backward + g.offset(tile) + column, g.width(tile),
                  workspace < VN ? workspace : VN);
    }
}

static void pack(int compute, const vs::Chains* c, vs::Packing* p, int64_t l0, int64_t l1,
                 double* sums, uint8_t* findings, vs::Scratch* scratch) {
    if (c->dtype == vs::kFloat64 && compute == vs::kFloat32) {
        pack_rows<float, double>(c, p, l0, l1, sums, findings, scratch);
    } else if (c->dtype == vs::kFloat64) {
        pack_rows<double, double>(c, p, l0, l1, sums, findings, scratch);
    } else {
        pack_rows<float, float>(c, p, l0, l1, sums, findings, scratch);
    }
}

static void layout(int dtype, int64_t labels, int64_t* stride, int64_t* packed) {
    if (dtype == vs::kFloat32) {
        const Tiling<float> g(labels);
        *stride = g.Kp;
        *packed = g.packed_size();
    } else {
        const Tiling<double> g(labels);
        *stride = g.Kp;
        *packed = g.packed_size();
    }
}

template <class T>
static double max_finite_of(const T* x, int64_t n) {
    const T top = largest_of(x, n);
    return top > -static_cast<T>(INFINITY) ? static_cast<double>(top) : 0.0;
}

static double max_finite(int dtype, const void* x, int64_t n) {
    return dtype == vs::kFloat32 ? max_finite_of(static_cast<const float*>(x), n)
                                 : max_finite_of(static_cast<const double*>(x), n);
}

}  // namespace VS_NS
