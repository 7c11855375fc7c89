// Compiled once per SIMD level: see setup.py.
#include <cstring>

#include "junction/lanes_level.h"
#include "junction/rows.h"
#include "simd/math.h"
#include "simd/vec.h"

namespace VS_NS {
namespace {

struct SumProductRows {
    using T = double;
    using V = Vec<double>;
    static VS_INLINE V set1(double x) { return V::set1(x); }
    static double zero() { return 0.0; }
    static double one() { return 1.0; }
    static bool is_zero(double x) { return x == 0.0; }
    static VS_INLINE V mul(V a, V b) { return a * b; }
    static VS_INLINE V add(V a, V b) { return a + b; }
    static VS_INLINE double mul(double a, double b) { return a * b; }
    static VS_INLINE double add(double a, double b) { return a + b; }
    static VS_INLINE double fold(V a) { return a.hsum(); }
};

// On logarithms: the score of the best configuration.
struct MaxPlusRows {
    using T = double;
    using V = Vec<double>;
    static VS_INLINE V set1(double x) { return V::set1(x); }
    static double zero() { return -INFINITY; }
    static double one() { return 0.0; }
    static bool is_zero(double x) { return x == -INFINITY; }
    static VS_INLINE V mul(V a, V b) { return a + b; }
    static VS_INLINE V add(V a, V b) { return V::max(a, b); }
    static VS_INLINE double mul(double a, double b) { return a + b; }
    static VS_INLINE double add(double a, double b) { return a > b ? a : b; }
    static VS_INLINE double fold(V a) { return a.hmax(); }
};

void rows_of(int algebra, const vs::RowJob<double>& job, int64_t r0, int64_t r1, double* buffer) {
    if (algebra == vs::kMaxPlus) return rows<MaxPlusRows>(job, r0, r1, buffer);
    rows<SumProductRows>(job, r0, r1, buffer);
}

void spread(const double* table, const int32_t* base, int64_t n, const int32_t* inner,
            int64_t width, double* wide) {
    spread_rows<double>(table, base, n, inner, width, wide);
}

void gather(int algebra, const double* wide, const int32_t* base, int64_t n, const int32_t* inner,
            int64_t width, double* table) {
    if (algebra == vs::kMaxPlus) {
        return gather_rows<MaxPlusRows>(wide, base, n, inner, width, table);
    }
    gather_rows<SumProductRows>(wide, base, n, inner, width, table);
}

// Non-negative doubles are ordered as their bits are; 0 - 1 is the largest unsigned number.
void bounds(const double* x, int64_t n, double* top, double* low) {
    uint64_t high = 0, least = ~uint64_t{0};
    for (int64_t i = 0; i < n; ++i) {
        uint64_t u;
        std::memcpy(&u, x + i, 8);
        high = u > high ? u : high;
        least = u - 1 < least ? u - 1 : least;
    }
    ++least;
    std::memcpy(top, &high, 8);
    std::memcpy(low, &least, 8);
}

void divide(double* x, const double* by, int64_t n) {
    using V = Vec<double>;
    int64_t i = 0;
    for (; i + V::N <= n; i += V::N) {
        const V a = V::load(x + i), b = V::load(by + i);
        V::where_positive(a, b, a / b).store(x + i);
    }
    for (; i < n; ++i) x[i] = x[i] > 0.0 && by[i] > 0.0 ? x[i] / by[i] : 0.0;
}

void multiply(double* x, double by, int64_t n) {
    for (int64_t i = 0; i < n; ++i) x[i] *= by;
}

void exponentials(const double* x, int64_t n, double top, double* to) {
    using V = Vec<double>;
    const V shift = V::set1(top);
    for (int64_t i = 0; i < n; i += V::N) {
        const int k = static_cast<int>(n - i);
        if (k >= V::N) {
            exp_or_zero(V::load(x + i) - shift).store(to + i);
        } else {
            exp_or_zero(V::load_part(x + i, k, top) - shift).store_part(to + i, k);
        }
    }
}

double fold(const double* x, int64_t n, double* into) {
    using V = Vec<double>;
    V a = V::set1(0.0), b = a, c = a, d = a;
    int64_t i = 0;
    if (into) {
        for (; i + 2 * V::N <= n; i += 2 * V::N) {
            const V p = V::load(x + i), q = V::load(x + i + V::N);
            (V::load(into + i) + p).store(into + i);
            (V::load(into + i + V::N) + q).store(into + i + V::N);
            a = a + p;
            b = b + q;
        }
    } else {
        for (; i + 4 * V::N <= n; i += 4 * V::N) {
            a = a + V::load(x + i);
            b = b + V::load(x + i + V::N);
            c = c + V::load(x + i + 2 * V::N);
            d = d + V::load(x + i + 3 * V::N);
        }
    }
    double sum = ((a + b) + (c + d)).hsum();
    for (; i < n; ++i) {
        sum += x[i];
        if (into) into[i] += x[i];
    }
    return sum;
}

const vs::GraphLevel kLevel = {rows_of, spread,   gather,       bounds,
                               divide,  multiply, exponentials, fold};

}  // namespace

template <>
const vs::GraphLevel* table<vs::GraphLevel>() {
    return &kLevel;
}

}  // namespace VS_NS
