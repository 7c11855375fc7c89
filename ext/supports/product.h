// Products of enclosures and weights, and of enclosures: l = l l', l + e = (l + e) (l' + e'), g = g
// + g' and what is rounded.
#pragma once

#include <cmath>
#include <cstring>

#include "supports/message.h"

namespace VS_NS {

// A product adds this to the radius.
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
    V top = V::set1(0.0f);
    for (int64_t k = 0; k < kp; k += V::N) {
        const V xl = V::load(x.l + k), xe = V::load(x.e + k);
        const V yl = V::load(y.l + k), ye = V::load(y.e + k), yh = yl + ye;
        const V low = xl * yl, slack = V::fma(xe, yh, xl * ye);
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

inline double one_product(int64_t kp, vs::supports::Pair* p) {
    Enclosure x{p->l, p->e, p->xg, 0.0};
    std::memcpy(p->l, p->xl, sizeof(float) * static_cast<std::size_t>(kp));
    std::memcpy(p->e, p->xe, sizeof(float) * static_cast<std::size_t>(kp));
    const Enclosure y{const_cast<float*>(p->yl), const_cast<float*>(p->ye), p->yg, 0.0};
    const double lift = multiply(kp, x, y, &x);
    p->g = x.g;
    return lift;
}

// out encloses weights: those below kBottom are slack.
inline void hold(int64_t kp, const float* weight, Enclosure* out) {
    using V = Vec<float>;
    const V bottom = V::set1(kBottom);
    V total = V::set1(0.0f);
    for (int64_t k = 0; k < kp; k += V::N) {
        const V w = V::load(weight + k), kept = V::where_ge(w, bottom, w);
        kept.store(out->l + k);
        (w - kept).store(out->e + k);
        total = total + w;
    }
    out->total = static_cast<double>(total.hsum());
}

// Numbers of (bl, be) times weights p; returns them.
VS_INLINE Vec<float> weigh(Vec<float> bl, Vec<float> be, Vec<float> p, float* l, float* e) {
    using V = Vec<float>;
    const V low = bl * p, kept = V::where_ge(p, V::set1(kBottom), low);
    const V rest = V::fma(be, p, low - kept);
    kept.store(l);
    rest.store(e);
    return kept + rest;
}

// One label of a product of several, as `hold` and `multiply` would make it.
class Factors {
  public:
    explicit Factors(float weight)
        : low_(weight >= kBottom ? static_cast<double>(weight) : 0.0),
          high_(static_cast<double>(weight)),
          alive_(weight > 0.0f) {}
    void times(const Enclosure& x, int32_t k, double lift) {
        const double l = static_cast<double>(x.l[k]), h = l + static_cast<double>(x.e[k]);
        low_ *= l * lift;
        high_ *= h * lift;
        alive_ = alive_ && h > 0.0;
    }
    // Replaces what y has, if that is wider.
    void narrow(int32_t k, Enclosure* y) const {
        const bool kept = low_ >= static_cast<double>(kLeast);
        const float least = kept ? static_cast<float>(low_) : 0.0f;
        const float apart = static_cast<float>(kept ? most_of(0.0, high_ - low_) : high_);
        const bool exact = !alive_ || (kept && !(apart > 0.0f));
        const float slack = exact ? 0.0f : most_of(apart, kLeastSlack);
        if (!(slack < y->e[k])) return;
        y->total += (static_cast<double>(least) - static_cast<double>(y->l[k])) +
                    (static_cast<double>(slack) - static_cast<double>(y->e[k]));
        y->l[k] = least;
        y->e[k] = slack;
    }

  private:
    double low_, high_;
    bool alive_;
};

}  // namespace VS_NS
