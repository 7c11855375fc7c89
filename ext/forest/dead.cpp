#include "forest/dead.h"

#include <cstddef>
#include <limits>

#include "forest/plan.h"

namespace vs {
namespace {

template <class T>
struct Reach {
    const ForestModel& m;
    const Chains& c;
    const int64_t K;

    explicit Reach(const ForestModel& model)
        : m(model), c(model.arrays), K(model.arrays.n_labels) {}

    static bool allows(const void* scores, int64_t i) {
        return !scores || static_cast<const T*>(scores)[i] > -std::numeric_limits<T>::infinity();
    }
    // Takes what the local scores of variable i forbid out of `alive`; is anything left?
    bool local(int64_t i, bool first, bool last, uint8_t* alive) const {
        bool any = false;
        for (int64_t k = 0; k < K; ++k) {
            alive[k] &= allows(c.unary, i * K + k) && (!c.allowed || c.allowed[i * K + k]) &&
                        (!first || allows(c.start, k)) && (!last || allows(c.end, k));
            any |= alive[k] != 0;
        }
        return any;
    }
    // The first position of a chain at which no label is left, or -1.
    int64_t chain(int64_t s) const {
        const int64_t begin = c.offset[s], end = c.offset[s + 1];
        std::vector<uint8_t> now(at(K), 1), next;
        for (int64_t i = begin; i < end; ++i) {
            const int64_t table = c.per_edge ? c.edge[s] + i - begin - 1 : 0;
            for (int64_t l = 0; l < K && i > begin; ++l) {
                if (l == 0) next.assign(at(K), 0);
                for (int64_t k = 0; now[at(l)] && k < K; ++k) {
                    next[at(k)] |= allows(c.transition, (table * K + l) * K + k);
                }
            }
            if (i > begin) now.swap(next);
            if (!local(i, i == begin, i == end - 1, now.data())) return i - begin;
        }
        return -1;
    }
    void trees(int64_t* tree, int64_t* node) const {
        const int64_t n = c.n_positions;
        std::vector<uint8_t> alive(at(n * K), 1);
        std::vector<int32_t> waits(at(n), 0);
        for (int64_t v = 0; v < n; ++v) {
            if (m.parent[v] >= 0) ++waits[at(m.parent[v])];
        }
        std::vector<int64_t> ready;
        for (int64_t v = 0; v < n; ++v) {
            if (!waits[at(v)]) ready.push_back(v);
        }
        bool found = false;
        for (size_t q = 0; q < ready.size(); ++q) {
            const int64_t v = ready[q], p = m.parent[v];
            uint8_t* own = alive.data() + v * K;
            if (!local(v, false, false, own)) {
                const int64_t of = m.layout->tree[at(m.layout->slot[at(v)])];
                if (!found || of < *tree || (of == *tree && v < *node)) {
                    *tree = of;
                    *node = v;
                }
                found = true;
                continue;  // nothing above it can be a first
            }
            if (p < 0) continue;
            const int64_t table = table_of(m, v);
            for (int64_t l = 0; l < K; ++l) {
                bool some = false;
                for (int64_t k = 0; k < K && !some; ++k) {
                    some = own[k] && allows(c.transition, (table * K + l) * K + k);
                }
                alive[at(p * K + l)] &= some;
            }
            if (--waits[at(p)] == 0) ready.push_back(p);
        }
    }
    void find(const std::vector<int64_t>& components, int64_t* component, int64_t* position) const {
        if (m.layout) return trees(component, position);
        for (int64_t s : components) {
            const int64_t i = chain(s);
            if (i < 0) continue;
            *component = s;
            *position = i;
            return;
        }
    }
};

}  // namespace

void first_dead(const ForestModel& m, const std::vector<int64_t>& components, int64_t* component,
                int64_t* position) {
    if (m.arrays.dtype == kFloat32) return Reach<float>(m).find(components, component, position);
    Reach<double>(m).find(components, component, position);
}

}  // namespace vs
