// Compiled once per SIMD level: see setup.py.
#include "loopy/model.h"
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

void products(const vs::LoopyTable& f, const double* const* in, double* const* out,
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

const vs::LoopyLevel kLevel = {products};

}  // namespace
}  // namespace VS_NS

namespace vs {
#if VS_LEVEL == VS_LEVEL_V4
const LoopyLevel* loopy_level_v4() { return &VS_NS::kLevel; }
#elif VS_LEVEL == VS_LEVEL_V3
const LoopyLevel* loopy_level_v3() { return &VS_NS::kLevel; }
#elif VS_LEVEL == VS_LEVEL_V2
const LoopyLevel* loopy_level_v2() { return &VS_NS::kLevel; }
#elif VS_LEVEL == VS_LEVEL_NEON
const LoopyLevel* loopy_level_neon() { return &VS_NS::kLevel; }
#else
const LoopyLevel* loopy_level_scalar() { return &VS_NS::kLevel; }
#endif
}  // namespace vs
