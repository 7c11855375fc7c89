// The product of all messages into a node, from which any one of them can be taken out again.
#pragma once

#include "core/powers.h"
#include "forest/branching_buffers.h"

namespace VS_NS {

// Every entry has an exponent of its own, and counts its zeros.
template <class D>
struct Total {
    using T = typename D::T;
    static constexpr bool kLog = D::kUnit == 1.0;
    double* value;  // (K,) product of the factors that are not zero (sum, in the log domain)
    int64_t* exponent;
    int32_t* zeros;
    int K;
    int64_t of = -1;  // slot

    void start(int64_t s) {
        of = s;
        for (int k = 0; k < K; ++k) {
            value[k] = kLog ? 0.0 : 1.0;
            exponent[k] = 0;
            zeros[k] = 0;
        }
    }
    void multiply(const T* m) {
        for (int k = 0; k < K; ++k) {
            if (!D::alive(m[k])) {
                ++zeros[k];
            } else if (kLog) {
                value[k] += static_cast<double>(m[k]);
            } else {
                int e, f;
                value[k] = std::frexp(value[k] * std::frexp(static_cast<double>(m[k]), &e), &f);
                exponent[k] += e + f;
            }
        }
    }
    // A local factor given as a score: exp(score - shift), whatever its size.
    void multiply_score(int k, double score, double shift) {
        if (!(score > -INFINITY)) {
            ++zeros[k];
        } else if (kLog) {
            value[k] += score - shift;
        } else {
            int64_t e;
            value[k] *= power_of(score - shift, &e);
            exponent[k] += e;
        }
    }
    // out: the product without m, scaled, entries held at the floor; returns what scaling took out,
    // in units of the arithmetic.
    double without(const D& d, const T* m, T* out) const {
        d.clear(out);
        double best = -INFINITY;
        int64_t top = INT64_MIN;
        auto lives = [&](int k) { return zeros[k] == (D::alive(m[k]) ? 0 : 1); };
        for (int k = 0; k < K; ++k) {
            if (!lives(k)) continue;
            if (kLog) {
                const double v = value[k] - (D::alive(m[k]) ? static_cast<double>(m[k]) : 0.0);
                out[k] = static_cast<T>(v);
                best = v > best ? v : best;
            } else {
                const int64_t e = exponent_without(k, m);
                top = e > top ? e : top;
            }
        }
        for (int k = 0; k < K; ++k) {
            if (!lives(k)) continue;
            if constexpr (kLog) {
                out[k] -= best;
            } else {
                int e, f = 0;
                double v = value[k];
                if (D::alive(m[k])) {
                    v = std::frexp(v / std::frexp(static_cast<double>(m[k]), &e), &f);
                } else {
                    v = std::frexp(v, &f);
                }
                const int64_t by = exponent_without(k, m) - top;
                const T x = by < -1000 ? T(0) : static_cast<T>(std::ldexp(v, static_cast<int>(by)));
                out[k] = x > Floor<T>::kMessage ? x : Floor<T>::kMessage;
            }
        }
        if (kLog) return best > -INFINITY ? best : 0.0;
        return top > INT64_MIN ? static_cast<double>(top) : 0.0;
    }

  private:
    int64_t exponent_without(int k, const T* m) const {
        int e = 0, f;
        double v = value[k];
        if (D::alive(m[k])) v /= std::frexp(static_cast<double>(m[k]), &e);
        std::frexp(v, &f);
        return exponent[k] - e + f;
    }
};

}  // namespace VS_NS
