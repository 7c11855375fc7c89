// Samples of a forest, from the roots down.
#pragma once

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
    SamplesAbreast<D> samples;
    const bool alike = !pass->which && !w.t.any_flipped;  // all messages are rows of one table
    if (alike && !samples.open(*w.d, size, DrawsBy::kRows, w.scratch)) {
        pass->control->stop.store(2);
        return;
    }
    const int64_t n = w.t.n;
    const double* const uniforms = pass->uniforms + item.first * n;
    int64_t* const states = pass->states + item.first * n;
    for (int64_t s = 0; s < n; ++s) {
        if (!w.ticker.go_on(size)) return;
        if (!w.wanted(s)) continue;
        const int64_t p = w.t.parent[s], i = w.t.node[s];
        D& d = w.domain(s);
        const T* a = static_cast<const T*>(pass->kept_alpha) + s * w.Kp;
        const int64_t drawn = samples.draw(
            *w.d, a, uniforms + i, n, p < 0 ? nullptr : states + w.t.node[p], n, states + i, n);
        for (int64_t r = drawn; r < size; ++r) {
            int64_t* const x = states + r * n;
            const T* message = nullptr;
            if (p >= 0) {
                const int v = static_cast<int>(x[w.t.node[p]]);
                message = w.t.flipped[s] ? d.column_message(w.table(s), v, w.acc)
                                         : d.row_message(w.table(s), v, w.acc);
            }
            x[i] = draw(*w.d, a, message, uniforms[r * n + i], weight);
        }
    }
}

}  // namespace VS_NS
