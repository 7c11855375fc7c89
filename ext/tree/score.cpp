#include <vector>

#include "core/score.h"
#include "tree/run.h"

namespace vs {

namespace {

int64_t table_of(const TreeModel& m, int64_t node) {
    if (m.tables == Tables::kShared) return 0;
    return m.tables == Tables::kTyped ? m.type[node] : node;
}

std::size_t tree_of(const Layout& t, int64_t node) {
    const auto slot = static_cast<std::size_t>(t.slot[static_cast<std::size_t>(node)]);
    return static_cast<std::size_t>(t.tree[slot]);
}

template <class T>
void expected_of(const TreeModel& m, const T* marginals, const double* energies,
                 const double* largest, std::vector<Expected>& sums) {
    const T* const none[2] = {};
    for (int64_t i = 0; i < m.layout->n; ++i) {
        Expected& sum = sums[tree_of(*m.layout, i)];
        sum.add_local(m.arrays, i, marginals + i * m.arrays.n_labels, none);
        if (m.parent[i] >= 0) sum.add_edge(energies[i], largest[table_of(m, i)]);
    }
}

}  // namespace

void tree_score(const TreeModel& m, const int64_t* states, double* scores) {
    const Layout& t = *m.layout;
    const int64_t K = m.arrays.n_labels;
    std::vector<Score> sums(static_cast<std::size_t>(t.n_trees));
    for (int64_t i = 0; i < t.n; ++i) {
        double x = local_score(m.arrays, i, states[i]);
        const int64_t p = m.parent[i];
        if (p >= 0) {
            x += entry(m.arrays, m.arrays.transition,
                       (table_of(m, i) * K + states[p]) * K + states[i]);
        }
        sums[tree_of(t, i)].add(x);
    }
    for (std::size_t k = 0; k < sums.size(); ++k) scores[k] = sums[k].total();
}

void tree_expected(const TreeModel& m, const void* marginals, const double* energies,
                   const double* largest, double* value, double* size) {
    std::vector<Expected> sums(static_cast<std::size_t>(m.layout->n_trees));
    if (m.arrays.dtype == kFloat32) {
        expected_of(m, static_cast<const float*>(marginals), energies, largest, sums);
    } else {
        expected_of(m, static_cast<const double*>(marginals), energies, largest, sums);
    }
    for (std::size_t k = 0; k < sums.size(); ++k) {
        value[k] = sums[k].value.total();
        size[k] = sums[k].size;
    }
}

}  // namespace vs
