// Compiled once per SIMD level (VS_LEVEL); nothing here may be shared between levels, so no
// standard containers: an inline function of theirs compiled for a newer machine could be the
// copy that the linker keeps.
#include "rows/arithmetic.h"
#include "chain/decode.h"
#include "chain/exact_pass.h"
#include "chain/island_rows.h"
#include "islands/bind.h"
#include "rows/pack.h"
#include "chain/table.h"

namespace VS_NS {

// As Level::weigh.
template <class T>
static int64_t weigh_in(const T* x, int64_t n, T largest, double* found) {
    using V = Vec<T>;
    constexpr int64_t kBlock = 4096;
    const V zero = V::set1(T(0)), lowest = V::set1(ExpConst<T>::kMostNegative);
    const auto good = [largest](T v) {
        return v <= largest && (v >= -largest || v < ExpConst<T>::kMostNegative);
    };
    T most = T(0);
    for (int64_t first = 0; first < n; first += kBlock) {
        const int64_t last = n - first < kBlock ? n : first + kBlock;
        bool bad = false;
        V top = zero;
        int64_t i = first;
        for (; i + V::N <= last; i += V::N) {
            const V v = V::load(x + i);
            bad |= v.any_bad();
            const V finite = V::where_ge(v, lowest, v);  // 0 for -inf
            top = V::max(top, V::max(finite, zero - finite));
        }
        const T here = top.hmax();
        bad |= !(here <= largest);
        most = here > most ? here : most;
        for (; i < last; ++i) {
            bad |= !good(x[i]);
            const T size = x[i] < ExpConst<T>::kMostNegative ? T(0) : x[i] < T(0) ? -x[i] : x[i];
            most = size > most ? size : most;
        }
        for (i = first; bad && i < last; ++i) {
            if (!good(x[i])) return i;
        }
    }
    *found = static_cast<double>(most);
    return -1;
}

static int64_t weigh(int dtype, const void* x, int64_t n, double* found) {
    return dtype == vs::kFloat32
               ? weigh_in(static_cast<const float*>(x), n, static_cast<float>(vs::kLargest32),
                          found)
               : weigh_in(static_cast<const double*>(x), n, vs::kLargest64, found);
}

static void exact(int arithmetic, vs::ExactPass* pass, vs::TaskKind kind, vs::Item item, int worker,
                  int64_t chunk) {
    with_arithmetic(arithmetic,
                    [&](auto d) { exact_task<VS_DOMAIN(d)>(pass, kind, item, worker, chunk); });
}

static bool open_split(int arithmetic, vs::ExactPass* pass, int64_t which, void* forward,
                       void* backward, vs::Scratch* scratch) {
    bool ok = false;
    with_arithmetic(arithmetic, [&](auto d) {
        ok = split_open<VS_DOMAIN(d)>(pass, which, forward, backward, *scratch);
    });
    return ok;
}

static void close_split(int arithmetic, vs::ExactPass* pass, int64_t which, vs::Scratch* scratch) {
    with_arithmetic(arithmetic, [&](auto d) { split_close<VS_DOMAIN(d)>(pass, which, *scratch); });
}

static const vs::IslandVerbs* islands(int arithmetic) {
    const vs::IslandVerbs* verbs = nullptr;
    with_arithmetic(arithmetic, [&](auto d) {
        using D = VS_DOMAIN(d);
        verbs = &BoundVerbs<ChainRows<D>, typename D::T, vs::IslandPass>::kVerbs;
    });
    return verbs;
}

static void sample(int arithmetic, vs::ExactPass* pass, vs::Item item, int64_t size,
                   const double* uniforms, int64_t* states, int worker) {
    with_arithmetic(arithmetic, [&](auto d) {
        sample_task<VS_DOMAIN(d)>(pass, item, size, uniforms, states, worker);
    });
}

static int64_t lane_bytes() { return static_cast<int64_t>(sizeof(Lane<Log>)); }

template <class T>
static double peak_of(int64_t iterations) {
    using V = Vec<T>;
    constexpr int kChains = 10;
    V a[kChains];
    for (int i = 0; i < kChains; ++i) a[i] = V::set1(T(1e-3) * T(i));
    const V x = V::set1(T(0.999)), y = V::set1(T(1e-3));
    for (int64_t i = 0; i < iterations; ++i) {
        for (int j = 0; j < kChains; ++j) a[j] = V::fma(a[j], x, y);
    }
    volatile T keep = T(0);
    for (int j = 0; j < kChains; ++j) keep = keep + a[j].hsum();
    return 2.0 * kChains * V::N * static_cast<double>(iterations);
}

static double peak(int dtype, int64_t iterations) {
    return dtype == vs::kFloat32 ? peak_of<float>(iterations) : peak_of<double>(iterations);
}

template <class T>
static double message_pass_of(int64_t labels, int64_t rows, int64_t positions,
                              vs::Scratch* scratch) {
    constexpr int kRows = 64;
    const Tiling<T> g(labels);
    if (rows > kRows) rows = kRows;
    scratch->reset();
    T* e[2] = {scratch->array<T>(g.packed_size() + 64), scratch->array<T>(g.packed_size() + 64)};
    T* x = scratch->array<T>(2 * rows * g.Kp);
    if (scratch->failed) return 0.0;
    for (int d = 0; d < 2; ++d) {
        for (int64_t i = 0; i < g.packed_size(); ++i) e[d][i] = T(1) / static_cast<T>(labels);
    }
    for (int64_t i = 0; i < 2 * rows * g.Kp; ++i) x[i] = T(1);
    const T* in[kRows];
    T* out[kRows];
    for (int d = 0; d < 2; ++d) {
        for (int64_t i = 0; i < positions; ++i) {
            for (int64_t r = 0; r < rows; ++r) {  // the message just made is the next input
                in[r] = x + (2 * r + i % 2) * g.Kp;
                out[r] = x + (2 * r + 1 - i % 2) * g.Kp;
            }
            messages<SumProduct, T>(g, e[d], static_cast<int>(rows), in, out);
        }
    }
    return 4.0 * static_cast<double>(labels * labels) * static_cast<double>(rows * positions);
}

static double message_pass(int dtype, int64_t labels, int64_t rows, int64_t positions,
                           vs::Scratch* scratch) {
    return dtype == vs::kFloat32 ? message_pass_of<float>(labels, rows, positions, scratch)
                                 : message_pass_of<double>(labels, rows, positions, scratch);
}

static const vs::Level kLevel = {
    {layout, max_finite, pack, pack_scores},
    exact,
    lane_bytes,
    open_split,
    close_split,
    islands,
    sample,
    weigh,
    viterbi,
    prefix_scores,
    peak,
    message_pass,
};

template <>
const vs::Level* table<vs::Level>() {
    return &kLevel;
}

}  // namespace VS_NS
