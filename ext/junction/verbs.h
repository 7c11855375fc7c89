// Loops over the entries of tables: by the kernels of the SIMD level where numbers are
// doubles, one entry after the other where they are wide. One body for every algebra.
#pragma once

#include <type_traits>
#include <utility>
#include <vector>

#include "junction/algebra.h"
#include "junction/kernels.h"
#include "junction/layout.h"
#include "junction/poll.h"
#include "junction/rows.h"

namespace vs::junction {

const GraphLevel& level();

// LinearWide for rows.h: one number at a time.
struct WideRows : LinearWide {
    struct V {
        static constexpr int N = 1;
        Wide v;
        static V load(const Wide* p) { return {*p}; }
        static V load_part(const Wide* p, int, Wide) { return {*p}; }
        void store(Wide* p) const { *p = v; }
        void store_part(Wide* p, int) const { *p = v; }
    };
    static V set1(Wide x) { return {x}; }
    using LinearWide::add;
    using LinearWide::mul;
    static V mul(V a, V b) { return {mul(a.v, b.v)}; }
    static V add(V a, V b) { return {add(a.v, b.v)}; }
    static Wide fold(V a) { return a.v; }
};

template <class A>
constexpr bool kWide = std::is_same_v<A, LinearWide>;
template <class A>
constexpr int kAlgebra = std::is_same_v<A, MaxLogs> ? kMaxPlus : kSumProduct;

constexpr int64_t kNear = 2048;   // entries that stay in a near cache from one loop to the next
constexpr double kBoost = 900.0;  // log2 of what products start from where some may underflow

template <class A>
void rows(const RowJob<typename A::T>& job, int64_t r0, int64_t r1, typename A::T* buffer) {
    if constexpr (kWide<A>) {
        VS_NS::rows<WideRows>(job, r0, r1, buffer);
    } else {
        level().rows(kAlgebra<A>, job, r0, r1, buffer);
    }
}

// 2^bits where small numbers may be lost, else one.
template <class A>
typename A::T first_factor(double bits) {
    if constexpr (A::kChecked) return std::ldexp(A::one(), static_cast<int>(bits));
    return A::one();
}

// Resizes in parts: memory that is new is cleared by the system first, which takes its time.
template <class T>
void grow(std::vector<T>* x, int64_t size, const Poll& poll) {
    const int64_t there = static_cast<int64_t>(x->size());
    x->reserve(static_cast<size_t>(size));
    x->resize(static_cast<size_t>(std::min(there, size)));
    poll.parts(there, size, 4 * kPoll,
               [&](int64_t, int64_t end) { x->resize(static_cast<size_t>(end)); });
}

// f(first spread row, number of rows) for a share of the spread rows of a view, in parts.
template <class F>
void spread_parts(const View& v, int64_t width, LoopPiece share, const Poll& poll, F&& f) {
    const int64_t all = static_cast<int64_t>(v.base.size());
    poll.parts(share.first(all), share.last(all), std::max<int64_t>(1, 4 * kPoll / width),
               [&](int64_t a, int64_t b) { f(a, b - a); });
}

// wide[i, t] = table[base[i] + inner[t]], rows of `width`.
template <class A>
void spread(const View& v, int64_t width, const std::vector<typename A::T>& table, LoopPiece share,
            const Poll& poll, std::vector<typename A::T>* wide) {
    spread_parts(v, width, share, poll, [&](int64_t a, int64_t n) {
        const int32_t *base = v.base.data() + a, *inner = v.inner.data();
        typename A::T* out = wide->data() + a * width;
        if constexpr (kWide<A>) {
            VS_NS::spread_rows<Wide>(table.data(), base, n, inner, width, out);
        } else {
            level().spread(table.data(), base, n, inner, width, out);
        }
    });
}

// table[base[i] + inner[t]] += wide[i, t]. No two spread rows meet the same entry, so that shares
// may run side by side.
template <class A>
void gather(const View& v, int64_t width, const std::vector<typename A::T>& wide, LoopPiece share,
            const Poll& poll, std::vector<typename A::T>* table) {
    spread_parts(v, width, share, poll, [&](int64_t a, int64_t n) {
        const int32_t *base = v.base.data() + a, *inner = v.inner.data();
        const typename A::T* in = wide.data() + a * width;
        if constexpr (kWide<A>) {
            VS_NS::gather_rows<WideRows>(in, base, n, inner, width, table->data());
        } else {
            level().gather(kAlgebra<A>, in, base, n, inner, width, table->data());
        }
    });
}

// x = x / by, 0 where either is 0.
template <class A>
void divide(typename A::T* x, const typename A::T* by, int64_t n) {
    if constexpr (A::kChecked) {
        level().divide(x, by, n);
    } else {
        for (int64_t i = 0; i < n; ++i) x[i] = A::ratio(x[i], by[i]);
    }
}

// The sum of x, which is added to `into` too where that is not null.
template <class A>
typename A::T fold(const typename A::T* x, int64_t n, typename A::T* into) {
    if constexpr (A::kChecked) {
        return level().fold(x, n, into);
    } else {
        typename A::T sum = A::zero();
        for (int64_t i = 0; i < n; ++i) {
            sum = A::add(sum, x[i]);
            if (into) into[i] = A::add(into[i], x[i]);
        }
        return sum;
    }
}

// The largest of some entries, and the smallest that is not zero (plain numbers only).
template <class A>
struct Range {
    typename A::T top = A::zero();
    double least = 0.0;

    static Range of(const typename A::T* x, int64_t n) {
        Range r;
        if constexpr (A::kChecked) {
            level().bounds(x, n, &r.top, &r.least);
        } else {
            for (int64_t i = 0; i < n; ++i) {
                if (A::less(r.top, x[i])) r.top = x[i];
            }
        }
        return r;
    }
    void join(const Range& other) {
        if (A::less(top, other.top)) top = other.top;
        if (other.least > 0.0 && !(least > 0.0 && least < other.least)) least = other.least;
    }
    // The power of two that a message is divided by, and log2 of its smallest entry after that.
    // False when all are zero.
    bool find_scale(double* bits, double* low) const {
        *low = *bits = 0.0;
        if (A::is_zero(top)) return false;
        if constexpr (A::kChecked) {
            int e;
            std::frexp(top, &e);
            *low = std::log2(least) - e;
            *bits = e;
        } else {
            *bits = A::scale(nullptr, 0, top);
        }
        return true;
    }
};

// A share of x, divided by the power of two that belongs to its largest entry.
template <class A>
void scale(std::vector<typename A::T>* x, typename A::T top, LoopPiece share, const Poll& poll) {
    const int64_t n = static_cast<int64_t>(x->size()), first = share.first(n), last = share.last(n);
    if constexpr (A::kChecked) {
        int e;
        std::frexp(top, &e);
        if (e == 0) return;
        // In two steps where one would leave the range.
        const int half = e > -1000 && e < 1000 ? e : e / 2;
        poll.parts(first, last, 4 * kPoll, [&](int64_t a, int64_t b) {
            if (half != 0) level().multiply(x->data() + a, std::ldexp(1.0, -half), b - a);
            if (half != e) level().multiply(x->data() + a, std::ldexp(1.0, half - e), b - a);
        });
    } else {
        A::scale(x->data() + first, last - first, top);
    }
}

}  // namespace vs::junction
