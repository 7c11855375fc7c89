// Several small problems of one size side by side, one in each lane: plain doubles.
#pragma once

#include <cstdint>
#include <limits>

#include "simd/vec.h"
#include "dependency/serial.h"

namespace VS_NS {

struct Abreast : Serial<Abreast, Vec<double>> {
    using T = Vec<double>;
    static VS_INLINE T zero() { return T::set1(0.0); }
    static VS_INLINE T one() { return T::set1(1.0); }
    static VS_INLINE T plus(T a, T b) { return a + b; }
    static VS_INLINE T times(T a, T b) { return a * b; }
    static VS_INLINE T over(T a, T b) { return a / b; }
    static VS_INLINE T more(T a, T b, T c) { return T::fma(a, b, c); }
    // In any lane.
    static VS_INLINE bool is_zero(T a) {
        constexpr unsigned all = (1U << T::N) - 1;
        return a.ge(T::set1(std::numeric_limits<double>::denorm_min())) != all;
    }
};

}  // namespace VS_NS
