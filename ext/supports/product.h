// Products of enclosures: l = l l', l + e = (l + e) (l' + e'), g = g + g' and what is rounded.
#pragma once

#include <cmath>
#include <cstring>

#include "supports/message.h"

namespace VS_NS {

// What a product adds to the radius.
constexpr double kProductRounding = 8.0 * 0x1p-24;

inline void copy(int64_t kp, const Enclosure& x, Enclosure* out) {
    std::memcpy(out->l, x.l, sizeof(float) * static_cast<std::size_t>(kp));
    std::memcpy(out->e, x.e, sizeof(float) * static_cast<std::size_t>(kp));
    out->g = x.g;
    out->total = x.total;
}

// out = lift x y, lift a power of two, which is returned: the largest number is about one. `out`
// may be x or y. 0: x and y are so far apart that floats do not hold the product.
inline double multiply(int64_t kp, const Enclosure& x, const Enclosure& y, Enclosure* out) {
    using V = Vec<float>;
    // Where something is left its slack is not 0, even if the product underflows.
    const V tiny = V::set1(1e-37f);
    V top = V::set1(0.0f);
    for (int64_t k = 0; k < kp; k += V::N) {
        const V xl = V::load(x.l + k), xe = V::load(x.e + k);
        const V yl = V::load(y.l + k), ye = V::load(y.e + k), yh = yl + ye;
        const V low = xl * yl, more = V::fma(xe, yh, xl * ye);
        const V alive = V::where_positive(xl + xe, yh, V::max(more, tiny));
        const V slack = V::where_positive(xe + ye, V::set1(1.0f), alive);
        low.store(out->l + k);
        slack.store(out->e + k);
        top = V::max(top, low + slack);
    }
    const float largest = top.hmax();
    // Numbers of a message are at least kLeastSlack: above this nothing else underflows.
    if (!(largest > 1e-18f && largest < 1e30f)) return 0.0;
    const double lift = std::ldexp(1.0, -std::ilogb(largest) - 1);
    const V factor = V::set1(static_cast<float>(lift)), least = V::set1(kLeast);
    const V floor = V::set1(kLeastSlack);
    V total = V::set1(0.0f);
    for (int64_t k = 0; k < kp; k += V::N) {
        const V low = V::load(out->l + k) * factor, kept = V::where_ge(low, least, low);
        const V rest = V::fma(V::load(out->e + k), factor, low - kept);
        const V slack = V::where_positive(rest, V::set1(1.0f), V::max(rest, floor));
        kept.store(out->l + k);
        slack.store(out->e + k);
        total = total + (kept + slack);
    }
    out->g = x.g + y.g + kProductRounding;
    out->total = static_cast<double>(total.hsum());
    return lift;
}

}  // namespace VS_NS
