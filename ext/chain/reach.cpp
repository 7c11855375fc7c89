#include "chain/reach.h"

#include <cstddef>
#include <limits>

namespace vs {
namespace {

using std::size_t;

template <class T>
int64_t first_dead_of(const Chains& c, int64_t sequence) {
    const T none = -std::numeric_limits<T>::infinity();
    const T* unary = static_cast<const T*>(c.unary);
    const T* start = static_cast<const T*>(c.start);
    const T* end = static_cast<const T*>(c.end);
    const int64_t K = c.n_labels, begin = c.offset[sequence];
    const int64_t n = c.offset[sequence + 1] - begin;
    std::vector<char> now(static_cast<size_t>(K), 1), next(static_cast<size_t>(K));
    for (int64_t i = 0; i < n; ++i) {
        if (i > 0) {
            const T* t = static_cast<const T*>(c.transition) +
                         (c.per_edge ? c.edge[sequence] + i - 1 : 0) * K * K;
            next.assign(static_cast<size_t>(K), 0);
            for (int64_t l = 0; l < K; ++l) {
                if (!now[static_cast<size_t>(l)]) continue;
                for (int64_t k = 0; k < K; ++k) {
                    if (t[l * K + k] > none) next[static_cast<size_t>(k)] = 1;
                }
            }
            now.swap(next);
        }
        bool any = false;
        for (int64_t k = 0; k < K; ++k) {
            char& alive = now[static_cast<size_t>(k)];
            if (!(unary[(begin + i) * K + k] > none)) alive = 0;
            if (c.allowed && !c.allowed[(begin + i) * K + k]) alive = 0;
            if (i == 0 && start && !(start[k] > none)) alive = 0;
            if (i == n - 1 && end && !(end[k] > none)) alive = 0;
            any |= alive != 0;
        }
        if (!any) return i;
    }
    return -1;
}

}  // namespace

int64_t first_dead(const Chains& c, int64_t sequence) {
    return c.dtype == kFloat32 ? first_dead_of<float>(c, sequence)
                               : first_dead_of<double>(c, sequence);
}

}  // namespace vs
