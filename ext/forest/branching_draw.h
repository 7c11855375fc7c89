// Samples and the best configuration of a forest: what is known from below, then choices from the
// roots down.
#pragma once

#include "core/sum.h"
#include "forest/path_best.h"
#include "forest/path_draw.h"
#include "forest/branching_pass.h"

namespace VS_NS {

// Samples: uniforms and states are (size, n) by node. x_root ~ alpha, x_c ~ alpha_c(.) E(x_p, .).
// They go along together, so that a draw need not wait for another.
template <class D>
void tree_sample(vs::BranchingPass* pass, vs::Item item, int worker) {
    using T = typename D::T;
    const int64_t size = item.last - item.first;
    BranchingBuffers<D> w(pass, worker);
    double* weight = w.scratch.template array<double>(draw_size(w.Kp));
    if (!w.ok || !weight) {
        pass->control->stop.store(2);
        return;
    }
    const double* const uniforms = pass->uniforms + item.first * w.t.n;
    int64_t* const states = pass->states + item.first * w.t.n;
    for (int64_t s = 0; s < w.t.n; ++s) {
        if (!w.ticker.go_on(size)) return;
        if (!w.wanted(s)) continue;
        const int64_t p = w.t.parent[s], i = w.t.node[s];
        D& d = w.domain(s);
        const T* a = static_cast<const T*>(pass->kept_alpha) + s * w.Kp;
        for (int64_t r = 0; r < size; ++r) {
            int64_t* const x = states + r * w.t.n;
            const T* message = nullptr;
            if (p >= 0) {
                const int v = static_cast<int>(x[w.t.node[p]]);
                message = w.t.flipped[s] ? d.column_message(w.table(s), v, w.acc)
                                         : d.row_message(w.table(s), v, w.acc);
            }
            x[i] = draw(*w.d, a, message, uniforms[r * w.t.n + i], weight);
        }
    }
}

// The arrays that a task of decoding reads.
template <class In>
struct DecodingBlock {
    const vs::TreeView& t;
    const Tiling<In> g;
    const In lowest = Input<In>::forbidden();
    Ticker ticker;
    const Input<In> in;

    DecodingBlock(vs::BranchingPass* pass, int worker)
        : t(pass->t),
          g(pass->model.arrays.n_labels),
          ticker(pass->control, worker == 0, pass->model.arrays.n_labels),
          in(*pass->tables) {}
};

// V_v = u_v + sum_c max_k (t(., k) + V_c(k)): the max-sum algebra. V is kept in pass->alpha and
// the messages to parents in pass->up; products over children are sums, near zero by their maximum.
template <class In>
void tree_decode_up(vs::BranchingPass* pass, int64_t b, int worker) {
    using V = Vec<In>;
    DecodingBlock<In> w(pass, worker);
    const vs::TreeView& t = w.t;
    const Tiling<In>& g = w.g;
    const int K = g.K, Kp = g.Kp;
    const In lowest = w.lowest;
    Ticker& ticker = w.ticker;
    const Input<In>& in = w.in;
    BestMessages<In> send;
    pass->scratch[worker].reset();
    if (pass->scores_up && !send.init(g, pass->scratch[worker], pass->backoff + worker)) {
        pass->control->stop.store(2);
        return;
    }
    In* alpha = static_cast<In*>(pass->alpha);
    In* up = static_cast<In*>(pass->up);
    In* const together = static_cast<In*>(pass->block_up) + b * Kp;
    const int64_t begin = t.begin[b], end = t.begin[b + 1];
    int64_t below = t.below_ptr[b + 1];
    if (!ticker.begin_task()) return;
    auto renew_stale = [&](In* v) {
        const In top = row_max(v, K);
        for (int k = 0; k < K && top > lowest; ++k) v[k] -= top;
    };
    for (int64_t s = end; s-- > begin;) {
        if (!ticker.go_on()) return;
        In* v = alpha + s * Kp;
        for (int k = K; k < Kp; ++k) v[k] = lowest;
        in.compose(t.node[s], false, false, v);
        auto join = [&](const In* m) {
            for (int k = 0; k < K; ++k) v[k] += m[k];
            renew_stale(v);
        };
        int64_t from = below;
        while (from > t.below_ptr[b] && t.above[t.below[from - 1]] == s) --from;
        for (int64_t k = from; k < below; ++k) {
            join(static_cast<const In*>(pass->block_up) + t.below[k] * Kp);
        }
        below = from;
        for (int64_t c = t.children[s]; c < t.children_end[s]; ++c) join(up + c * Kp);
        renew_stale(v);
        if (t.parent[s] < 0) continue;
        In* y = up + s * Kp;
        const int64_t table = pass->which ? pass->which[s] : 0;
        const vs::Scores* scores = t.flipped[s] ? pass->scores_down : pass->scores_up;
        if (scores) {
            const In* x = v;
            send.send(scores[table], x, y);
            continue;
        }
        const In* e = in.transition + table * static_cast<int64_t>(K) * K;
        if (t.flipped[s]) {
            max_sum_forward(e, K, Kp, v, y);
            continue;
        }
        for (int l = 0; l < K; ++l, e += K) {
            V best = V::set1(lowest);
            for (int k = 0; k < Kp; k += V::N) {
                const V x = k + V::N <= K ? V::load(e + k) : V::load_part(e + k, K - k, lowest);
                best = V::max(best, x + V::load(v + k));
            }
            y[l] = best.hmax();
        }
    }
    if (t.above[b] < 0) return;
    for (int k = 0; k < Kp; ++k) together[k] = k < K ? In(0) : lowest;
    for (int64_t s = begin; s < begin + t.block_roots[b]; ++s) {
        for (int k = 0; k < K; ++k) together[k] += up[s * Kp + k];
        renew_stale(together);
    }
}

template <class In>
void tree_decode_down(vs::BranchingPass* pass, int64_t b, int worker) {
    DecodingBlock<In> w(pass, worker);
    const vs::TreeView& t = w.t;
    const int K = w.g.K, Kp = w.g.Kp;
    const In lowest = w.lowest;
    Ticker& ticker = w.ticker;
    const Input<In>& in = w.in;
    const In* const tables = in.transition;
    int64_t* const states = pass->states;
    pass->scratch[worker].reset();
    In* const column = pass->scratch[worker].array<In>(Kp);
    if (column == nullptr) {
        pass->control->stop.store(2);
        return;
    }
    for (int64_t s = t.begin[b]; s < t.begin[b + 1]; ++s) {
        if (!ticker.go_on()) return;
        const In* v = static_cast<const In*>(pass->alpha) + s * Kp;
        vs::Account& a = pass->account[t.above[b] >= 0 ? t.n_trees + b : t.tree[s]];
        const int64_t p = t.parent[s];
        vs::Sum sum;
        sum.value = a.shift;
        sum.rest = a.rest;
        int best = -1;
        In top = lowest;
        const int64_t table = pass->which ? pass->which[s] : 0;
        const int64_t from = p < 0 ? 0 : states[t.node[p]];
        const In* e = tables + table * static_cast<int64_t>(K) * K;
        const vs::Scores* scores = t.flipped[s] ? pass->scores_down : pass->scores_up;
        const bool listed = scores && scores[table].listed;
        if (listed && p >= 0 && from >= 0) {
            listed_column(*scores[table].listed, static_cast<int>(from), Kp, column);
        }
        auto step = [&](int k) {
            return p < 0          ? In(0)
                   : listed       ? column[k]
                   : t.flipped[s] ? e[k * K + from]
                                  : e[from * K + k];
        };
        for (int k = 0; k < K && from >= 0; ++k) {
            const In x = v[k] + step(k);
            if (x > top) {
                top = x;
                best = k;
            }
        }
        states[t.node[s]] = best;
        if (best < 0) {
            a.status = vs::kInfeasible;
            continue;
        }
        sum.add(static_cast<double>(in.score(t.node[s], best, false, false)));
        sum.add(static_cast<double>(step(best)));
        a.shift = sum.value;
        a.rest = sum.rest;
    }
}

}  // namespace VS_NS
