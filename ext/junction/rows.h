// rows() over an algebra A on vectors A::V of A::T. Included once per SIMD level, and for numbers
// of a wider range.
#pragma once

#include "junction/kernels.h"

namespace VS_NS {

template <class A, int M, bool FIRST>
VS_INLINE void multiply_in(const typename A::T* const* p, typename A::T s, int64_t width,
                           typename A::T* x) {
    using V = typename A::V;
    const auto first = FIRST ? A::set1(s) : A::set1(A::one());
    int64_t t = 0;
    for (; t + V::N <= width; t += V::N) {
        V v = FIRST ? first : V::load(x + t);
        for (int i = 0; i < M; ++i) v = A::mul(v, V::load(p[i] + t));
        v.store(x + t);
    }
    if (t < width) {
        const int m = static_cast<int>(width - t);
        V v = FIRST ? first : V::load_part(x + t, m, A::zero());
        for (int i = 0; i < M; ++i) v = A::mul(v, V::load_part(p[i] + t, m, A::zero()));
        v.store_part(x + t, m);
    }
}

template <int M>
struct Count {
    static constexpr int value = M;
};

// f with the number n, at most 4, as a type.
template <class F>
VS_INLINE void with_count(int n, F&& f) {
    if (n == 0) return f(Count<0>());
    if (n == 1) return f(Count<1>());
    if (n == 2) return f(Count<2>());
    if (n == 3) return f(Count<3>());
    f(Count<4>());
}

template <class A, bool FIRST>
VS_INLINE void multiply_some(int n, const typename A::T* const* p, typename A::T s, int64_t width,
                             typename A::T* x) {
    with_count(n, [&](auto m) { multiply_in<A, decltype(m)::value, FIRST>(p, s, width, x); });
}

// out += s * product of M rows, nothing else wanted.
template <class A, int M>
VS_INLINE void multiply_add(const typename A::T* const* p, typename A::T s, int64_t width,
                            typename A::T* out) {
    using V = typename A::V;
    const auto first = A::set1(s);
    int64_t t = 0;
    for (; t + V::N <= width; t += V::N) {
        V v = first;
        for (int i = 0; i < M; ++i) v = A::mul(v, V::load(p[i] + t));
        A::add(V::load(out + t), v).store(out + t);
    }
    if (t < width) {
        const int m = static_cast<int>(width - t);
        V v = first;
        for (int i = 0; i < M; ++i) v = A::mul(v, V::load_part(p[i] + t, m, A::zero()));
        A::add(V::load_part(out + t, m, A::zero()), v).store_part(out + t, m);
    }
}

template <class A>
void rows(const vs::RowJob<typename A::T>& j, int64_t r0, int64_t r1, typename A::T* x) {
    using T = typename A::T;
    using V = typename A::V;
    constexpr int kAtOnce = 4;
    const int64_t width = j.width;
    const bool simple = j.n_vec_out == 1 && j.n_scalar_out == 0 && j.n_vec <= kAtOnce;
    for (int64_t r = r0; r < r1; ++r) {
        T s = j.first;
        for (int i = 0; i < j.n_scalar; ++i) {
            s = A::mul(s, j.scalar[i][j.scalar_at[i] ? j.scalar_at[i][r] : 0]);
        }
        if (A::is_zero(s)) continue;
        const T* p[kAtOnce];
        const int head = j.n_vec < kAtOnce ? j.n_vec : kAtOnce;
        for (int i = 0; i < head; ++i) p[i] = j.vec[i] + j.vec_at[i][r];
        if (simple) {
            T* out = j.vec_out[0] + (j.vec_out_at[0] ? j.vec_out_at[0][r] : 0);
            with_count(head,
                       [&](auto m) { multiply_add<A, decltype(m)::value>(p, s, width, out); });
            continue;
        }
        multiply_some<A, true>(head, p, s, width, x);
        for (int done = head; done < j.n_vec; done += kAtOnce) {
            const int n = j.n_vec - done < kAtOnce ? j.n_vec - done : kAtOnce;
            for (int i = 0; i < n; ++i) p[i] = j.vec[done + i] + j.vec_at[done + i][r];
            multiply_some<A, false>(n, p, A::one(), width, x);
        }
        for (int i = 0; i < j.n_vec_out; ++i) {
            T* out = j.vec_out[i] + (j.vec_out_at[i] ? j.vec_out_at[i][r] : 0);
            int64_t t = 0;
            for (; t + V::N <= width; t += V::N) {
                A::add(V::load(out + t), V::load(x + t)).store(out + t);
            }
            if (t < width) {
                const int m = static_cast<int>(width - t);
                A::add(V::load_part(out + t, m, A::zero()), V::load_part(x + t, m, A::zero()))
                    .store_part(out + t, m);
            }
        }
        if (j.n_scalar_out == 0) continue;
        V sum = A::set1(A::zero());
        int64_t t = 0;
        for (; t + V::N <= width; t += V::N) sum = A::add(sum, V::load(x + t));
        if (t < width) {
            sum = A::add(sum, V::load_part(x + t, static_cast<int>(width - t), A::zero()));
        }
        const T total = A::fold(sum);
        for (int i = 0; i < j.n_scalar_out; ++i) {
            T& out = j.scalar_out[i][j.scalar_out_at[i] ? j.scalar_out_at[i][r] : 0];
            out = A::add(out, total);
        }
    }
}

template <class T>
VS_INLINE void spread_rows(const T* table, const int32_t* base, int64_t n, const int32_t* inner,
                           int64_t width, T* wide) {
    for (int64_t i = 0; i < n; ++i) {
        const T* from = table + base[i];
        T* to = wide + i * width;
        for (int64_t t = 0; t < width; ++t) to[t] = from[inner[t]];
    }
}

template <class A>
VS_INLINE void gather_rows(const typename A::T* wide, const int32_t* base, int64_t n,
                           const int32_t* inner, int64_t width, typename A::T* table) {
    for (int64_t i = 0; i < n; ++i) {
        typename A::T* to = table + base[i];
        const typename A::T* from = wide + i * width;
        for (int64_t t = 0; t < width; ++t) to[inner[t]] = A::add(to[inner[t]], from[t]);
    }
}

}  // namespace VS_NS
