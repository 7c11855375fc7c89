// Compiled once per SIMD level (VS_LEVEL); nothing here may be shared between levels, so no
// standard containers: an inline function of theirs compiled for a newer machine could be the
// copy that the linker keeps.
#include "forest/level.h"

#include <type_traits>

#include "core/subnormals.h"
#include "forest/branching_best.h"
#include "forest/branching_draw.h"
#include "forest/branching_edges.h"
#include "forest/branching_island_rows.h"
#include "forest/branching_pass.h"
#include "forest/conditional.h"
#include "forest/islands_abreast_task.h"
#include "forest/likely.h"
#include "rows/listed_row.h"
#include "forest/path_best_tasks.h"
#include "forest/path_island_rows.h"
#include "forest/path_pass.h"
#include "forest/path_sample_tasks.h"
#include "forest/prefixes.h"
#include "islands/bind.h"
#include "rows/arithmetic.h"
#include "rows/heads.h"
#include "rows/pack.h"
#include "rows/wide_table.h"

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

static vs::PathPass* path(vs::Pass* pass) { return static_cast<vs::PathPass*>(pass); }
static vs::BranchingPass* trees(vs::Pass* pass) { return static_cast<vs::BranchingPass*>(pass); }

// A task that not every arithmetic has.
template <class D>
static void run_more(vs::Pass* pass, const vs::Work& w) {
    switch (w.verb) {
        case vs::Verb::kPathSample:
        case vs::Verb::kPathSampleCompare:
        case vs::Verb::kPathSampleAgain:
            return sample_task<D>(path(pass), w);
        case vs::Verb::kEdges:
            return tree_edges<D>(trees(pass), w.item, w.sums, w.worker);
        case vs::Verb::kBranchingSample:
            return tree_sample<D>(trees(pass), w.item, w.worker);
        default:  // kPathBest and what belongs to it
            return best_path(path(pass), w);
    }
}

// A task of a pass over chains, or over trees. Float32 from scores in float64: marginals alone.
template <class D>
static void run_in(vs::Pass* pass, const vs::Work& w) {
    switch (w.verb) {
        case vs::Verb::kPathExact:
            return exact_task<D>(path(pass), w);
        case vs::Verb::kPathIslands:
            return islands_task<D>(path(pass), w);
        case vs::Verb::kPathOpen:
        case vs::Verb::kPathClose:
            return split_task<D>(path(pass), w.item.first, w.verb == vs::Verb::kPathOpen);
        case vs::Verb::kPathProbe:
        case vs::Verb::kPathCompare:
        case vs::Verb::kPathPassOn:
            return cut_task<D>(path(pass), w);
        case vs::Verb::kUp:
            return tree_up<D>(trees(pass), w.item.first, w.worker);
        case vs::Verb::kDown:
            return tree_down<D>(trees(pass), w.item.first, w.worker);
        default:
            if constexpr (!std::is_same<D, Linear<float, double>>::value) run_more<D>(pass, w);
    }
}

// Products of likely and unlikely labels often leave the normal range of float32, and nothing rests
// on them: floors are far above, and what is asked of sums is (rows/linear.h). So they are zeros
// where float32 is computed with, or written.
static void run(vs::Pass* pass, const vs::Work& work) {
    const Subnormals subnormals(vs::is_single(pass->arithmetic) ||
                                pass->model.arrays.dtype == vs::kFloat32);
    if (pass->arithmetic == vs::kLinear32of64) return run_in<Linear<float, double>>(pass, work);
    with_arithmetic(pass->arithmetic, [&](auto d) { run_in<VS_DOMAIN(d)>(pass, work); });
}

template <template <class> class Rows, class Pass>
static const vs::IslandVerbs* islands(int arithmetic) {
    const vs::IslandVerbs* verbs = nullptr;
    with_arithmetic(arithmetic, [&](auto d) {
        using D = VS_DOMAIN(d);
        verbs = &BoundVerbs<Rows<D>, typename D::T, Pass>::kVerbs;
    });
    return verbs;
}

static void best(vs::BranchingPass* pass, bool upward, int64_t block, int worker) {
    const auto in = [&](auto type) { tree_best<decltype(type)>(pass, upward, block, worker); };
    pass->model.arrays.dtype == vs::kFloat32 ? in(float()) : in(double());
}

template <class T>
static double peak_of(int64_t iterations) {
    using V = Vec<T>;
    constexpr int kChains = 10;
    V a[kChains];
    for (int i = 0; i < kChains; ++i) a[i] = V::set1(T(1e-3) * T(i));
    const V x = V::set1(T(0.999)), y = V::set1(T(1e-3));
    for (int64_t i = 0; i < iterations; ++i) {
        each<kChains>([&](auto j) VS_INLINE_LAMBDA { a[j] = V::fma(a[j], x, y); });
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
    {layout, max_finite, pack, pack_wide, pack_scores, column_tops},
    run,
    islands<PathRows, vs::PathIslands>,
    islands<BranchingRows, vs::BranchingPass>,
    weigh,
    prefix_scores,
    {extend_heads, largest_head, steps_to},
    best,
    likely,
    list_row,
    conditional,
    compare,
    peak,
    message_pass,
};

template <>
const vs::Level* table<vs::Level>() {
    return &kLevel;
}

}  // namespace VS_NS
