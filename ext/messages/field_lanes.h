// Coordinate ascent of naive mean field, several starts side by side: a lane each. Included by
// level.cpp.
#pragma once

#include "messages/model.h"
#include "simd/math.h"
#include "simd/vec.h"

namespace VS_NS {
namespace {

using vs::messages::Ascent;
using vs::messages::kStarts;

// score += w theta; an entry of -inf counts where w is not 0.
VS_INLINE void expect(Vec<double> w, double theta, double* score) {
    using V = Vec<double>;
    const V t = V::set1(theta), s = V::load(score);
    if (theta > ExpConst<double>::kMostNegative) {
        V::fma(w, t, s).store(score);
    } else {
        (s + V::where_positive(w, w, w * t)).store(score);
    }
}

// Adds to each of a variable's k values the expectation of a table that it meets.
VS_INLINE void meet(const Ascent& b, const vs::messages::Meeting& m, int64_t k, int64_t lane,
                    double* score) {
    using V = Vec<double>;
    if (m.edge < 0) {
        const double* q = b.q + m.other * kStarts + lane;
        for (int64_t y = 0; y < m.values; ++y) {
            const V w = V::load(q + y * kStarts);
            for (int64_t x = 0; x < k; ++x) {
                expect(w, m.theta[x * m.own + y * m.step], score + x * kStarts);
            }
        }
        return;
    }
    const int64_t f = b.edge_factor[m.edge], first = b.factor_ptr[f];
    const int64_t arity = b.factor_ptr[f + 1] - first;
    int64_t state[64] = {};
    for (int64_t i = 0; i < b.size[f + 1] - b.size[f]; ++i) {
        V w = V::set1(1.0);
        for (int64_t j = 0; j < arity; ++j) {
            if (first + j == m.edge) continue;
            w = w * V::load(b.q + (b.var_at[b.edge_var[first + j]] + state[j]) * kStarts + lane);
        }
        expect(w, m.theta[i], score + state[m.edge - first] * kStarts);
        for (int64_t j = arity; j-- > 0;) {
            if (++state[j] < b.edge_card[first + j]) break;
            state[j] = 0;
        }
    }
}

// p where `go` is positive, else what stands in `to`; returns how far that moved.
VS_INLINE Vec<double> move_to(Vec<double> go, Vec<double> p, double* to) {
    using V = Vec<double>;
    const V stay = V::set1(1.0) - go, before = V::load(to);
    const V next = V::where_positive(go, go, p) + V::where_positive(stay, stay, before);
    next.store(to);
    return V::max(next - before, before - next);
}

VS_INLINE bool has_slopes(const Ascent& b, int64_t v) { return b.bias[v] == b.bias[v]; }

// A variable of two values that meets pairs of such variables: their scores' difference d makes
// p(1) = 1 / (1 + e^-d), by one exponential of -|d|.
VS_INLINE Vec<double> update_two(const Ascent& b, int64_t v, int64_t lane, Vec<double> open) {
    using V = Vec<double>;
    const V one = V::set1(1.0), zero = V::set1(0.0);
    const double* local = b.local + b.var_at[v];
    V d = V::set1(local[1] - local[0] + b.bias[v]);
    for (int64_t j = b.ptr[v]; j < b.ptr[v + 1]; ++j) {
        const vs::messages::Slope& s = b.slope[j];
        d = V::fma(V::set1(s.slope), V::load(b.q + s.other * kStarts + lane), d);
    }
    const V size = V::max(d, zero - d);
    const V e = exp_or_zero(zero - size);
    const V large = one / (one + e), small = e * large;
    const V first_large = V::where_ge(zero, d, large), first_small = V::where_ge(zero, d, small);
    // Where both values are impossible d is no number, and it stays as it is.
    const V go = V::where_ge(size, zero, open);
    double* p = b.q + b.var_at[v] * kStarts + lane;
    const V moved = move_to(go, first_large + (small - first_small), p);
    return V::max(moved, move_to(go, (large - first_large) + first_small, p + kStarts));
}

// A variable of k values.
VS_INLINE Vec<double> update(const Ascent& b, int64_t v, int64_t lane, Vec<double> open,
                             double* score) {
    using V = Vec<double>;
    const int64_t at = b.var_at[v], k = b.var_at[v + 1] - at;
    for (int64_t x = 0; x < k; ++x) V::set1(b.local[at + x]).store(score + x * kStarts);
    for (int64_t j = b.ptr[v]; j < b.ptr[v + 1]; ++j) meet(b, b.meeting[j], k, lane, score);
    V top = V::load(score);
    for (int64_t x = 1; x < k; ++x) top = V::max(top, V::load(score + x * kStarts));
    V sum = V::set1(0.0), most = sum;
    for (int64_t x = 0; x < k; ++x) {
        const V s = V::load(score + x * kStarts) - top;
        const V e = exp_or_zero(s);
        e.store(score + x * kStarts);
        sum = sum + e;
    }
    // Where all values are impossible given the others, it stays as it is.
    const V go = V::where_ge(top, V::set1(ExpConst<double>::kMostNegative), open);
    const V share = V::set1(1.0) / sum;
    for (int64_t x = 0; x < k; ++x) {
        const V p = V::load(score + x * kStarts) * share;
        most = V::max(most, move_to(go, p, b.q + (at + x) * kStarts + lane));
    }
    return most;
}

// How far the variables that v meets have travelled, all together.
VS_INLINE double around(const Ascent& b, int64_t v) {
    double sum = 0.0;
    if (has_slopes(b, v)) {
        for (int64_t j = b.ptr[v]; j < b.ptr[v + 1]; ++j) sum += b.travelled[b.slope[j].other - 1];
        return sum;
    }
    for (int64_t j = b.ptr[v]; j < b.ptr[v + 1]; ++j) {
        const vs::messages::Meeting& m = b.meeting[j];
        if (m.edge < 0) {
            sum += b.travelled[m.other];
            continue;
        }
        const int64_t f = b.edge_factor[m.edge];
        for (int64_t e = b.factor_ptr[f]; e < b.factor_ptr[f + 1]; ++e) {
            if (e != m.edge) sum += b.travelled[b.var_at[b.edge_var[e]]];
        }
    }
    return sum;
}

// The best q of variables that share no factor, one after the other, and how far they moved.
void ascend(const Ascent& b, const int64_t* variable, int64_t n, double* score, double* moved) {
    using V = Vec<double>;
    V far[kStarts / V::N];
    for (V& x : far) x = V::set1(0.0);
    for (int64_t i = 0; i < n; ++i) {
        const int64_t v = variable[i];
        const double now = around(b, v);
        if (now - b.seen[v] <= b.idle) continue;
        b.seen[v] = now;
        double most = 0.0;
        for (int64_t lane = 0; lane < kStarts; lane += V::N) {
            const V open = V::load(b.open + lane);
            if (!(open.hsum() > 0.0)) continue;
            const V x = has_slopes(b, v) ? update_two(b, v, lane, open)
                                         : update(b, v, lane, open, score + lane);
            far[lane / V::N] = V::max(x, far[lane / V::N]);
            most = most > x.hmax() ? most : x.hmax();
        }
        b.travelled[b.var_at[v]] += most;
    }
    // Once: tasks beside this one write to the same lines.
    for (int64_t lane = 0; lane < kStarts; lane += V::N) far[lane / V::N].store(moved + lane);
}

}  // namespace
}  // namespace VS_NS
