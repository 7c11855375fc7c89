// Estimates of time, in nanoseconds.
#include <cmath>

#include "junction/planner.h"

namespace vs::junction {

// Fitted to the 22 instances and the networks that the benchmarks know, tables opened and indexed
// (benchmarks/predicted_time.py).
double predict(const Graph& g, const Domains& d, const CliqueTree& t, const TableLayout& layout) {
    constexpr double kCall = 3e4, kClique = 9e3, kRowOf = 2.0, kView = 1.5, kEntry = 0.09;
    constexpr double kFar = 0.25, kCopy = 5.0, kMessage = 4.5, kOpened = 8.0, kIndex = 0.2;
    constexpr double kNear = 24576.0;  // bytes of rows that the nearest cache holds
    double total = kCall;
    for (size_t c = 0; c < layout.clique.size(); ++c) {
        const CliqueLayout& l = layout.clique[c];
        if (l.size > kBeyond) {
            total += l.size;
            continue;
        }
        const bool root = t.parent[c] < 0;
        // Tables that meet rows side by side, going in and coming out, and all views.
        double in = 0.0, out = l.local_in_tile ? 1.0 : 0.0, views = 0.0, ns = kClique;
        const auto meet = [&](const View& v, bool down) {
            views += down ? 3.0 : 2.0;
            if (!v.scalar) in += 1.0;
            if (!v.scalar && down) out += 1.0;
            if (copied(v)) ns += 2.0 * kCopy * static_cast<double>(v.size);
            ns += kIndex * static_cast<double>(l.rows);
        };
        for (const Static& s : l.statics) {
            meet(s.view, false);
            ns += kOpened * static_cast<double>(s.view.size);
            for (int64_t f : s.factors) ns += kOpened * settings(d, scope_of(g, d, f));
        }
        for (const Child& k : l.children) {
            ns += kMessage * static_cast<double>(layout.clique[k.clique].message.size);
            if (k.into < 0) {
                meet(k.view, true);
                continue;
            }
            const int32_t into = l.children[k.into].clique;
            ns += 2.0 * kMessage * static_cast<double>(layout.clique[into].message.size);
        }
        double sums = 2.0 * in + out;
        if (!root) {
            meet(l.up, false);
            if (!l.up.scalar) sums += 2.0;
        }
        const double rows = static_cast<double>(l.rows), width = static_cast<double>(l.width);
        const bool far = (in + out) * width * 8.0 > kNear;
        ns += rows * (2.0 * kRowOf + kView * views);
        ns += l.size * sums * (far ? kEntry + kFar : kEntry);
        total += ns;
    }
    return total;
}

Cost cost_of(const Domains& d, const TableLayout& layout, const CliqueLayout& l, bool up,
             bool root) {
    constexpr double kTouch = 0.25, kCopy = 1.0, kMultiply = 1.5, kSum = 0.35, kDivided = 1.0;
    const int blocks = l.pieces[up].blocks;
    const double own = static_cast<double>(l.message.size);
    Cost x;
    double operands = 1.0 + static_cast<double>(l.statics.size()), zeros = 0.0, sums = 0.0;
    const auto collect = [&](const View& v, double size) {
        const double wide = static_cast<double>(v.size);
        zeros += v.disjoint ? wide : blocks * wide;
        if (!v.disjoint) x.merge += kSum * (blocks - 1) * wide;
        if (copied(v)) {
            x.merge += kTouch * size;
            x.gather += kCopy * wide;
        }
        sums += v.scalar ? 0.1 : 1.0;
    };
    for (const Child& k : l.children) {
        const Dims& message = layout.clique[k.clique].message;
        const double size = static_cast<double>(message.size);
        if (k.into < 0) operands += 1.0;
        if (up) {
            if (k.absorbs) {
                const double n = static_cast<double>(k.absorbed.size());
                (k.into < 0 ? x.absorb : x.before) += size * (kTouch + kMultiply * n);
            }
            if (k.into < 0 && copied(k.view)) x.before += kCopy * static_cast<double>(k.view.size);
            continue;
        }
        if (k.into < 0) {
            collect(k.view, size);
        } else {
            const Child& into = l.children[k.into];
            const double n = static_cast<double>(layout.clique[into.clique].message.size);
            (into.into < 0 ? x.project : x.nested) += kMultiply * n;
        }
        x.divide += (k.n_read > 0 ? kSum + kDivided : kDivided) * size;
        if (k.n_read > 1) x.decide += kSum * size / static_cast<double>(d.size(message.var[0]));
        x.scale += kTouch * size;
    }
    if (up && !root) {
        collect(l.up, own);
        x.divide += kTouch * own;
        x.scale += kTouch * own;
    } else if (!root) {
        operands += 1.0;
        if (copied(l.up)) x.before += kCopy * static_cast<double>(l.up.size);
    }
    x.before += x.absorb + kTouch * zeros;
    x.rows = kLeast + static_cast<double>(l.rows) * 4.0 +
             l.size * (up ? 0.06 : 0.09) * (operands + sums);
    x.after = x.merge + x.gather + x.project + x.nested + x.divide + x.decide + x.scale;
    return x;
}

}  // namespace vs::junction
