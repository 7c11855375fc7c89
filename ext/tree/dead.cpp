#include "tree/run.h"

#include <cstddef>
#include <limits>

namespace vs {
namespace {

using std::size_t;

template <class T>
void first_dead_of(const TreeModel& m, int64_t* tree, int64_t* node) {
    const T none = -std::numeric_limits<T>::infinity();
    const Chains& c = m.arrays;
    const T* unary = static_cast<const T*>(c.unary);
    const int64_t n = c.n_positions, K = c.n_labels;
    const size_t size = static_cast<size_t>(n);
    std::vector<uint8_t> alive(static_cast<size_t>(n * K));
    for (int64_t i = 0; i < n * K; ++i) {
        alive[static_cast<size_t>(i)] = unary[i] > none && (!c.allowed || c.allowed[i]);
    }
    std::vector<int32_t> waits(size, 0);
    for (int64_t v = 0; v < n; ++v) {
        if (m.parent[v] >= 0) ++waits[static_cast<size_t>(m.parent[v])];
    }
    std::vector<int64_t> ready;
    for (int64_t v = 0; v < n; ++v) {
        if (!waits[static_cast<size_t>(v)]) ready.push_back(v);
    }
    *tree = *node = -1;
    for (size_t q = 0; q < ready.size(); ++q) {
        const int64_t v = ready[q], p = m.parent[v];
        const uint8_t* own = alive.data() + v * K;
        bool any = false;
        for (int64_t k = 0; k < K; ++k) any |= own[k] != 0;
        if (!any) {
            const Layout& t = *m.layout;
            const int64_t of = t.tree[static_cast<size_t>(t.slot[static_cast<size_t>(v)])];
            if (*node < 0 || of < *tree || (of == *tree && v < *node)) {
                *tree = of;
                *node = v;
            }
            continue;  // nothing above it can be a first
        }
        if (p < 0) continue;
        const int64_t table = m.tables == Tables::kShared  ? 0
                              : m.tables == Tables::kTyped ? m.type[v]
                                                           : v;
        const T* t = static_cast<const T*>(c.transition) + table * K * K;
        uint8_t* up = alive.data() + p * K;
        for (int64_t l = 0; l < K; ++l) {
            bool some = false;
            for (int64_t k = 0; k < K && !some; ++k) some = own[k] && t[l * K + k] > none;
            if (!some) up[l] = 0;
        }
        if (--waits[static_cast<size_t>(p)] == 0) ready.push_back(p);
    }
}

}  // namespace

void first_dead_node(const TreeModel& m, int64_t* tree, int64_t* node) {
    if (m.arrays.dtype == kFloat32) return first_dead_of<float>(m, tree, node);
    first_dead_of<double>(m, tree, node);
}

}  // namespace vs
