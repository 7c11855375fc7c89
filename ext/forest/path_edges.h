// What a pass both ways says of edges: pairwise marginals, their sums and their energies.
#pragma once

#include "forest/path_exact.h"
#include "rows/edges.h"
#include "simd/each.h"
#include "simd/transpose.h"
#include "forest/level.h"

namespace VS_NS {

// Keeps what pairwise marginals need: they are written when the sequence is known to be right.
template <class D>
struct EdgeSink {
    using T = typename D::T;
    static constexpr bool kActive = true;
    Lane<D>* lanes = nullptr;
    T* outgoing[vs::kMostTogether] = {};   // (n, Kp) per lane: psi * b, right end of an edge
    double* mass[vs::kMostTogether] = {};  // (n,) per lane: sum of alpha_i b_i

    // Memory for m lanes; `alpha`: for their forward messages as well. False: there is none.
    bool open(const D& d, int m, bool alpha, vs::Scratch& scratch) {
        for (int r = 0; r < m; ++r) {
            const int64_t size = lanes[r].n * d.Kp;
            outgoing[r] = scratch.array<T>(size);
            mass[r] = scratch.array<double>(lanes[r].n);
            if (!outgoing[r] || !mass[r]) return false;
            if (!alpha) continue;
            T* const a = scratch.array<T>(size);
            if (!a) return false;
            std::memset(outgoing[r], 0, sizeof(T) * static_cast<size_t>(size));
            std::memset(a, 0, sizeof(T) * static_cast<size_t>(size));
            lanes[r].alpha = a;
            lanes[r].stride = d.Kp;
        }
        return true;
    }
    void edge(D& d, Lane<D>& s, int64_t i, const T*, const T* g) {
        const int64_t r = &s - lanes;
        std::memcpy(outgoing[r] + i * d.Kp, g, sizeof(*g) * static_cast<size_t>(d.Kp));
        mass[r][i] = s.mass;
    }
};

// One past the last edge of a lane's own part, by its left end.
template <class D>
int64_t end_of_edges(const Lane<D>& s) {
    return s.last < s.n ? s.last : s.n - 1;
}

// Keeps the same of lanes that lie side by side, one in each lane of vectors.
template <class D>
class EdgesBeside {
  public:
    using T = typename D::T;
    static constexpr int N = Vec<T>::N;

    bool on() const { return sink_ != nullptr; }
    // lanes[0..m), some of those of the sink.
    void open(const EdgeSink<D>& sink, const Lane<D>* lanes, int m) {
        sink_ = &sink;
        lanes_ = lanes;
        first_ = lanes - sink.lanes;
        m_ = m;
    }
    // Forward messages of position i, and what comes back to it; `unused`: (K,).
    void rows(const D& d, int64_t i, const T* alpha, const T* outgoing, T* unused) const {
        T *a[N], *g[N];
        for (int r = 0; r < N; ++r) {
            const bool some = has_edge(r, i);
            a[r] = some ? lanes_[r].alpha + i * d.Kp : unused;
            g[r] = some ? sink_->outgoing[first_ + r] + i * d.Kp : unused;
        }
        unweave<T, N>(alpha, d.K, a);
        unweave<T, N>(outgoing, d.K, g);
    }
    void masses(int64_t i, Vec<T> sum) const {
        T mass[N];
        sum.store(mass);
        for (int r = 0; r < m_; ++r) {
            if (has_edge(r, i)) sink_->mass[first_ + r][i] = static_cast<double>(mass[r]);
        }
    }

  private:
    // Is there an edge from position i of lane r, in its own part?
    bool has_edge(int r, int64_t i) const {
        return r < m_ && lanes_[r].enter <= i && i < end_of_edges(lanes_[r]);
    }
    const EdgeSink<D>* sink_ = nullptr;
    const Lane<D>* lanes_ = nullptr;
    int64_t first_ = 0;
    int m_ = 0;
};

// The energies of lanes that lie side by side, made as messages come back: none of their rows is
// kept.
template <class D>
class EnergiesBeside {
  public:
    using T = typename D::T;
    using Wide = Vec<double>;
    static constexpr int N = Vec<T>::N;

    bool on() const { return energies_ != nullptr; }
    // `energies` (N,): as those of Request; null `depth`: of edges that have a table each. False:
    // no memory.
    bool open(const Depth<D>* depth, double* energies, int K, vs::Scratch& scratch) {
        depth_ = depth;
        energies_ = energies;
        y_ = scratch.array<T>(static_cast<int64_t>(N) * K);
        return y_ != nullptr;
    }
    // Lane r goes on, towards the front, with the edge from `position`; -1: with none. That from
    // the last position of a sequence is none: what is written there means nothing.
    void aim(int r, int64_t position) {
        step_[r] = position < 0 ? 0 : 1;
        to_[r] = position < 0 ? unused_ + r : energies_ + position;
    }
    // Forward messages of a position, and what comes back to it; own(total): of tables of edges.
    template <class F>
    VS_INLINE void rows(const T* alpha, const T* outgoing, F own) {
        depth_ ? depth_->dots_abreast(alpha, outgoing, y_, total_) : own(total_);
    }
    VS_INLINE void masses(Vec<T> sum) {
        Wide mass[kWidened<double, T>];
        widen_to(sum, mass);
        double energy[N];
        const Wide shift = Wide::set1(depth_ ? depth_->shift() : 0.0);
        each<kWidened<double, T>>([&](auto q) VS_INLINE_LAMBDA {
            const Wide mean = total_[q] / mass[q];
            (depth_ ? shift - mean : mean).store(energy + q * Wide::N);
        });
        each<N>([&](auto r) VS_INLINE_LAMBDA {
            *to_[r] = energy[r];
            to_[r] -= step_[r];
        });
    }

  private:
    const Depth<D>* depth_ = nullptr;
    double* energies_ = nullptr;
    T* y_ = nullptr;  // (K, N)
    Wide total_[kWidened<double, T>] = {};
    double* to_[N];
    int64_t step_[N];
    double unused_[N];
};

// The sums of emit_edges, of the pairs listed alone.
template <class D>
bool add_listed(const vs::SparseTable& pairs, D& d, Ticker& ticker, const Lane<D>& s,
                typename D::T* outgoing, const double* mass, double* sums, double weight) {
    using T = typename D::T;
    constexpr int kSteps = 4;  // messages that take as long
    const int64_t* start = pairs.start.data();
    const int32_t* column = pairs.column.data();
    const int64_t last = end_of_edges(s);
    if (d.sums_without_transition()) {
        // Some edges at a time: each sum is read and written once for all of them.
        constexpr int kEdges = 4;
        for (int64_t i = s.enter; i < last; i += kEdges) {
            const int m = static_cast<int>(last - i < kEdges ? last - i : kEdges);
            if (!ticker.go_on(m * kSteps)) return false;
            const T *a[kEdges], *g[kEdges];
            T scale[kEdges];
            for (int r = 0; r < kEdges; ++r) {  // those that are none are the first, times 0
                const int64_t at = r < m ? i + r : i;
                a[r] = s.alpha + at * s.stride;
                g[r] = outgoing + at * d.Kp;
                scale[r] = r < m ? static_cast<T>(weight / mass[at]) : T(0);
            }
            for (int l = 0; l < d.K; ++l) {
                T x[kEdges];
                each<kEdges>([&](auto r) VS_INLINE_LAMBDA { x[r] = a[r][l] * scale[r]; });
                for (int64_t e = start[l]; e < start[l + 1]; ++e) {
                    const int32_t k = column[e];
                    const T here =
                        (x[0] * g[0][k] + x[1] * g[1][k]) + (x[2] * g[2][k] + x[3] * g[3][k]);
                    sums[e] += static_cast<double>(here);
                }
            }
        }
        return true;
    }
    for (int64_t i = s.enter; i < last; ++i) {
        if (!ticker.go_on(kSteps)) return false;
        const T* a = s.alpha + i * s.stride;
        T* g = outgoing + i * d.Kp;
        d.edge_marginal(s.edge + i, a, g, mass[i], [&](int l, const T* xi) {
            for (int64_t e = start[l]; e < start[l + 1]; ++e) {
                sums[e] += weight * static_cast<double>(xi[column[e]]);
            }
        });
    }
    return true;
}

// xi(l, k) = alpha_i(l) E(l, k) g_{i+1}(k) / mass_i of every edge of a lane: written, or summed.
// For shared linear transitions the sum leaves E out (the caller multiplies once):
// sums += alpha^T (weight g / mass), a few edges at a time. False: cancelled.
template <class D>
bool emit_edges(vs::PathPass* pass, D& d, Ticker& ticker, const Lane<D>& s, typename D::T* outgoing,
                const double* mass, double* sums, double weight, Depth<D>& depth) {
    constexpr int kSteps = 32;  // messages that take as long as writing an edge
    using T = typename D::T;
    using In = typename D::In;
    const int K = d.K;
    const int64_t kk = static_cast<int64_t>(K) * K;
    const int64_t first = s.enter, last = end_of_edges(s);
    for (int64_t i = first; pass->log_left && i < last; ++i) {
        double* a = pass->log_left + (s.begin + i) * K;
        double* g = pass->log_right + (s.begin + i) * K;
        if (!ticker.go_on()) return false;
        for (int k = 0; k < K; ++k) {
            a[k] = D::to_log(s.alpha[i * s.stride + k]);
            g[k] = D::to_log(outgoing[i * d.Kp + k]);
        }
    }
    double* energies = pass->energies;
    if (energies && d.sums_without_transition()) {
        constexpr int kRows = Depth<D>::kRows;
        const T *a[kRows], *g[kRows];
        double* to[kRows];
        for (int64_t i0 = first; i0 < last; i0 += kRows) {
            const int m = static_cast<int>(last - i0 < kRows ? last - i0 : kRows);
            if (!ticker.go_on(m)) return false;
            for (int r = 0; r < m; ++r) {
                a[r] = s.alpha + (i0 + r) * s.stride;
                g[r] = outgoing + (i0 + r) * d.Kp;
                to[r] = energies + s.begin + i0 + r;
            }
            depth.add(m, a, g, mass + i0, to);
        }
        energies = nullptr;
    }
    if (sums && pass->pairs) {
        if (!add_listed(*pass->pairs, d, ticker, s, outgoing, mass, sums, weight)) return false;
        sums = nullptr;
    }
    if (sums && d.sums_without_transition()) {
        // Few where sums are kept in float32 for the length of a block.
        constexpr int kBlock = sizeof(T) == 8 ? 32 : 8;
        for (int64_t i0 = first; i0 < last; i0 += kBlock) {
            const int m = static_cast<int>(last - i0 < kBlock ? last - i0 : kBlock);
            if (!ticker.go_on(kBlock)) return false;
            for (int r = 0; r < m; ++r) {
                T* g = outgoing + (i0 + r) * d.Kp;
                row_scale_out(g, K, static_cast<T>(weight / mass[i0 + r]), g);
            }
            add_outer(s.alpha + i0 * s.stride, s.stride, outgoing + i0 * d.Kp, d.Kp, m, K, sums);
        }
        sums = nullptr;
    }
    for (int64_t i = first; i < last; ++i) {
        const int64_t edge = s.edge + i;
        In* out = nullptr;
        if (pass->pairwise && edge >= pass->pairwise_first && edge < pass->pairwise_last) {
            out = static_cast<In*>(pass->pairwise) + (edge - pass->pairwise_first) * kk;
        }
        if (!out && !sums && !energies) continue;
        if (!ticker.go_on(kSteps)) return false;
        const double energy = edge_answers(d, edge, s.alpha + i * s.stride, outgoing + i * d.Kp,
                                           mass[i], out, sums, weight, energies != nullptr);
        if (energies) energies[s.begin + i] = energy;
    }
    return true;
}

}  // namespace VS_NS
