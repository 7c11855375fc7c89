// A product of messages in which no entry is ever lost, for the few nodes whose products leave the
// range of the type on the way.
#pragma once

#include <cmath>
#include <cstdint>

#include "core/powers.h"
#include "rows/rows.h"

namespace VS_NS {

// Every entry has an exponent of its own.
template <class T>
struct WideProduct {
    double* mantissa;  // (K,) 0: forbidden
    int64_t* exponent;
    int K;

    void start() {
        for (int k = 0; k < K; ++k) {
            mantissa[k] = 1.0;
            exponent[k] = 0;
        }
    }
    void multiply(const T* m, const int64_t* more) {
        for (int k = 0; k < K; ++k) {
            if (!(m[k] > T(0))) mantissa[k] = 0.0;
            if (!(mantissa[k] > 0.0)) continue;
            int e;
            mantissa[k] = std::frexp(mantissa[k] * std::frexp(static_cast<double>(m[k]), &e), &e_);
            exponent[k] += e + e_ + (more ? more[k] : 0);
        }
    }
    // exp(score - shift), whatever its size.
    void multiply_exp(int k, double score, double shift) {
        if (!(score > -INFINITY)) {
            mantissa[k] = 0.0;
            return;
        }
        int64_t e;
        mantissa[k] *= power_of(score - shift, &e);
        exponent[k] += e;
    }
    bool top(int64_t* e) const {
        bool any = false;
        for (int k = 0; k < K; ++k) {
            if (mantissa[k] > 0.0 && (!any || exponent[k] > *e)) {
                *e = exponent[k];
                any = true;
            }
        }
        return any;
    }
    // The product times 2^-e, e the largest exponent, entries held at the floor.
    int64_t narrow(T* out) const {
        int64_t e = 0;
        if (!top(&e)) {
            for (int k = 0; k < K; ++k) out[k] = T(0);
            return 0;
        }
        for (int k = 0; k < K; ++k) {
            const int64_t by = exponent[k] - e;
            const bool counts = mantissa[k] > 0.0 && by >= -1000;  // and by <= 0
            const double v = counts ? std::ldexp(mantissa[k], static_cast<int>(by)) : 0.0;
            const T held =
                static_cast<T>(v) > Floor<T>::kMessage ? static_cast<T>(v) : Floor<T>::kMessage;
            out[k] = mantissa[k] > 0.0 ? held : T(0);
        }
        return e;
    }

  private:
    int e_ = 0;
};

}  // namespace VS_NS
