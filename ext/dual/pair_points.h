// Compiled once per SIMD level.
#pragma once

#include "dual/pairs.h"
#include "simd/vec.h"

namespace VS_NS {

// The best point of each pair: the nearest to (a, b) with c y_a y_b, for c < 0 with b turned round.
//   z_a = clamp(a + clamp((c - a + b) / 2, 0, c), 0, 1), z_b likewise.
inline vs::dual::PairSums pair_points(const vs::dual::PairPoints& b) {
    using D = Vec<double>;
    const D zero = D::set1(0.0), one = D::set1(1.0), half = D::set1(0.5);
    const D inverse = D::set1(b.inverse);
    D value = zero, far = zero;
    for (int64_t i = 0; i < b.n; i += D::N) {
        const D c = D::load(b.couple + i), plus = D::max(c, zero), minus = D::min(c, zero);
        const D s = D::load(b.share_left + i), t = D::load(b.share_right + i);
        const D left = D::gather(b.point, b.left + i), right = D::gather(b.point, b.right + i);
        const D turn = D::where_ge(c, zero, D::set1(2.0)) - one, w = (plus - minus) * inverse;
        const D x = D::fma(inverse, s + minus, left);
        const D y = D::fma(turn, D::fma(inverse, t, right) - half, half);
        const D up = half * (w - x + y), down = half * (w + x - y);
        const D u = D::min(D::max(x + D::min(D::max(up, zero), w), zero), one);
        const D v = D::min(D::max(y + D::min(D::max(down, zero), w), zero), one);
        const D r = D::fma(turn, v - half, half);
        D own = D::fma(plus, D::min(u, r), minus * D::max(u + r - one, zero));
        own = own + D::fma(s, u, t * r);
        const D away = (u - left) * (u - left) + (r - right) * (r - right);
        const int64_t rest = b.n - i;
        if (rest >= D::N) {
            u.store(b.left_q + i);
            r.store(b.right_q + i);
            value = value + own;
            far = far + away;
        } else {
            const int m = static_cast<int>(rest);
            u.store_part(b.left_q + i, m);
            r.store_part(b.right_q + i, m);
            value = value + own.first(m);
            far = far + away.first(m);
        }
    }
    return {value.hsum(), far.hsum()};
}

}  // namespace VS_NS
