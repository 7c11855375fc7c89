// Compiled once per SIMD level: see setup.py.
#include "core/ln2.h"
#include "dual/pair_points.h"
#include "messages/field_lanes.h"
#include "messages/model.h"
#include "messages/terms.h"
#include "simd/math.h"
#include "simd/vec.h"

namespace VS_NS {
namespace {

using V = Vec<double>;

// One row of a table: out += c * w, and the sum of w * p.
VS_INLINE double row(const double* w, const double* p, double c, double* out, int64_t n) {
    const V cs = V::set1(c);
    V acc = V::set1(0.0);
    double rest = 0.0;
    int64_t y = 0;
    if (n >= V::N) {
        for (; y + V::N <= n; y += V::N) {
            const V x = V::load(w + y);
            acc = V::fma(x, V::load(p + y), acc);
            V::fma(cs, x, V::load(out + y)).store(out + y);
        }
        rest = acc.hsum();
    }
    for (; y < n; ++y) {
        rest += w[y] * p[y];
        out[y] += c * w[y];
    }
    return rest;
}

void products(const vs::messages::DenseTable& f, const double* const* in, double* const* out,
              double* scratch) {
    const int last = f.arity - 1;
    const int64_t width = f.card[last];
    const double* w = f.weight;
    if (f.arity == 2) {
        for (int64_t x = 0; x < f.card[0]; ++x, w += width) {
            out[0][x] += row(w, in[1], in[0][x], out[1], width);
        }
        return;
    }
    int64_t state[64] = {};
    double* before = scratch;  // before[j]: product of in over the variables left of j
    for (const double* end = w + f.size; w < end; w += width) {
        double c = 1.0;
        for (int j = 0; j < last; ++j) {
            before[j] = c;
            c *= in[j][state[j]];
        }
        double r = row(w, in[last], c, out[last], width);
        for (int j = last; j-- > 0;) {
            out[j][state[j]] += r * before[j];
            r *= in[j][state[j]];
        }
        for (int j = last; j-- > 0;) {
            if (++state[j] < f.card[j]) break;
            state[j] = 0;
        }
    }
}

VS_INLINE V magnitude(V x) { return V::max(x, V::set1(0.0) - x); }

// 1 or -1; 1 for 0.
VS_INLINE V sign(V x) { return V::where_ge(x, V::set1(0.0), V::set1(2.0)) - V::set1(1.0); }

// The message of a pair of coupling J from a variable whose log-ratio is b: for c = |b|, t = |2 J|
// it is min(c, t) + log((1 + exp(-(c + t))) / (1 + exp(-|c - t|))), with the sign of J b. Infinite
// b is fine.
template <bool BEST>
VS_INLINE V message(V t, V signs, V b) {
    b = b * signs;
    const V c = magnitude(b);
    V m = V::min(c, t);
    if (!BEST) {
        const V e = exp_floor<double>(V::set1(0.0) - (c + t));
        const V f = exp_floor<double>(V::set1(0.0) - magnitude(c - t));
        m = m + log_ratio(e - f, V::set1(2.0) + e + f);
    }
    return m * sign(b);
}

template <bool BEST>
double logs(const vs::messages::PairBlock& b) {
    const V keep = V::set1(b.keep);
    const V rounding = V::set1(b.keep > 0.0 ? vs::messages::kRounding : 0.0);
    V most = V::set1(0.0);
    for (int64_t i = 0; i < b.n; i += V::N) {
        const V j = V::load(b.coupling + i);
        const V signs = sign(j), t = magnitude(j + j);
        const V x = V::load(b.to_left + i), y = V::load(b.to_right + i);
        V p = message<BEST>(t, signs, V::gather(b.total, b.right + i) - y);
        V q = message<BEST>(t, signs, V::gather(b.total, b.left + i) - x);
        const V less = x - p, more = y - q;
        most = V::max(most, V::max(magnitude(less) - rounding * magnitude(x),
                                   magnitude(more) - rounding * magnitude(y)));
        p = V::fma(keep, less, p);
        q = V::fma(keep, more, q);
        p.store(b.to_left + i);
        q.store(b.to_right + i);
        if (b.rho) {
            const V rho = V::load(b.rho + i);
            (p * rho).store(b.weighed_left + i);
            (q * rho).store(b.weighed_right + i);
        }
    }
    return most.hmax();
}

// In plain numbers a message is (1 + Q b) / (Q + b), b = P / r the other side's total without its
// own message, Q = exp(2 J): (r + Q P) / (Q r + P). One division gives it and its change.
double ratios(const vs::messages::PairBlock& b) {
    const V one = V::set1(1.0);
    V most = one, least = one;
    for (int64_t i = 0; i < b.n; i += V::N) {
        const V q = V::load(b.coupling + i);
        const V x = V::load(b.to_left + i), y = V::load(b.to_right + i);
        const V from_right = V::gather(b.total, b.right + i);
        const V from_left = V::gather(b.total, b.left + i);
        const V a = V::fma(q, from_right, y), c = V::fma(q, from_left, x);
        const V d = one / (V::fma(q, y, from_right) * x), e = one / (V::fma(q, x, from_left) * y);
        const V p = a * d, s = c * e;
        most = V::max(most, V::max(p, s));
        least = V::min(least, V::min(p, s));
        (p * x).store(b.to_left + i);
        (s * y).store(b.to_right + i);
    }
    const double high = most.hmax(), low = (one / least).hmax();
    return high > low ? high : low;
}

void masses(const vs::messages::PairBlock& b, double* out) {
    const V half = V::set1(0.5), zero = V::set1(0.0);
    for (int64_t i = 0; i < b.n; i += V::N) {
        const V j = V::load(b.coupling + i);
        const V x = half * V::load(b.to_left + i), y = half * V::load(b.to_right + i);
        const V left = V::gather(b.total, b.left + i), right = V::gather(b.total, b.right + i);
        // Log-odds of the worse of two states.
        const V up_left = V::min(left, zero), down_left = V::min(zero - left, zero);
        const V up_right = V::min(right, zero), down_right = V::min(zero - right, zero);
        const V pp = j - x - y + (up_left + up_right);
        const V mm = j + x + y + (down_left + down_right);
        const V pm = y - x - j + (up_left + down_right);
        const V mp = x - y - j + (down_left + up_right);
        const V top = V::max(V::max(pp, mm), V::max(pm, mp));
        const V sum = exp_floor<double>(pp - top) + exp_floor<double>(mm - top) +
                      exp_floor<double>(pm - top) + exp_floor<double>(mp - top);
        const V two = V::set1(2.0), ln2 = V::set1(vs::kLn2);
        (top + ln2 + log_ratio(sum - two, sum + two)).store(out + i);
    }
}

void marginals(const double* total, int64_t n, double* p, double* log_mass) {
    const V one = V::set1(1.0), zero = V::set1(0.0);
    for (int64_t i = 0; i < n; i += V::N) {
        const V b = V::load(total + i);
        const V m = zero - magnitude(b);
        const V e = exp_or_zero(m);
        const V worse = e / (one + e), better = one / (one + e);
        log_ratio(e, e + V::set1(2.0)).store(log_mass + i);
        double lo[V::N], hi[V::N];
        worse.store(lo);
        better.store(hi);
        for (int64_t k = 0; k < V::N && i + k < n; ++k) {
            const bool up = total[i + k] >= 0.0;
            p[2 * (i + k)] = up ? lo[k] : hi[k];
            p[2 * (i + k) + 1] = up ? hi[k] : lo[k];
        }
    }
}

const vs::messages::MessageLevel kLevel = {products, ratios,    logs<false>, logs<true>,
                                           masses,   marginals, ascend,      sum_terms,
                                           logs_of,  exps_of,   pair_points};

}  // namespace

template <>
const vs::messages::MessageLevel* table<vs::messages::MessageLevel>() {
    return &kLevel;
}

}  // namespace VS_NS
