// Compiled once per SIMD level, like chain/level.cpp, and under the same rule: nothing that the
// linker could share between levels.
#include "rows/arithmetic.h"
#include "islands/bind.h"
#include "rows/pack.h"
#include "tree/draw.h"
#include "tree/edges.h"
#include "tree/island_rows.h"
#include "tree/pass.h"

namespace VS_NS {

static void up(int arithmetic, vs::TreePass* pass, int64_t block, int worker) {
    with_arithmetic(arithmetic, [&](auto d) { tree_up<VS_DOMAIN(d)>(pass, block, worker); });
}

static void down(int arithmetic, vs::TreePass* pass, int64_t block, int worker) {
    with_arithmetic(arithmetic, [&](auto d) { tree_down<VS_DOMAIN(d)>(pass, block, worker); });
}

static void edges(int arithmetic, vs::TreePass* pass, int64_t first, int64_t last, double* sums,
                  int worker) {
    with_arithmetic(arithmetic,
                    [&](auto d) { tree_edges<VS_DOMAIN(d)>(pass, first, last, sums, worker); });
}

static void sample(int arithmetic, vs::TreePass* pass, int64_t size, const double* uniforms,
                   int64_t* states, int worker) {
    with_arithmetic(arithmetic, [&](auto d) {
        tree_sample<VS_DOMAIN(d)>(pass, size, uniforms, states, worker);
    });
}

static const vs::IslandVerbs* islands(int arithmetic) {
    const vs::IslandVerbs* verbs = nullptr;
    with_arithmetic(arithmetic, [&](auto d) {
        using D = VS_DOMAIN(d);
        verbs = &BoundVerbs<IslandRows<D>, typename D::T, vs::TreePass>::kVerbs;
    });
    return verbs;
}

static void decode_up(vs::TreePass* pass, const void* const* packed, const void* const* turned,
                      int64_t block, int worker) {
    if (pass->dtype == vs::kFloat32) {
        tree_decode_up<float>(pass, packed, turned, block, worker);
    } else {
        tree_decode_up<double>(pass, packed, turned, block, worker);
    }
}

static void decode_down(vs::TreePass* pass, int64_t* states, int64_t block, int worker) {
    if (pass->dtype == vs::kFloat32) {
        tree_decode_down<float>(pass, states, block, worker);
    } else {
        tree_decode_down<double>(pass, states, block, worker);
    }
}

static const vs::TreeLevel kTreeLevel = {
    {layout, max_finite, pack, pack_scores},
    edges,
    up,
    down,
    sample,
    islands,
    decode_up,
    decode_down,
};

template <>
const vs::TreeLevel* table<vs::TreeLevel>() {
    return &kTreeLevel;
}

}  // namespace VS_NS
