#include <limits>
#include <vector>

#include "core/score.h"
#include "forest/plan.h"
#include "forest/request.h"
#include "rows/sparse_table.h"

namespace vs {
namespace {

// A variable of a forest: its component, the neighbour before it (-1: none) and the table of the
// edge from there; start and end scores where a chain has them.
struct ForestVariable {
    int64_t component, before, table;
    const void *start, *end;
};

// f(i, variable) for all variables of a component in their order.
template <class F>
void each_variable(const ForestModel& m, F f) {
    const Chains& c = m.arrays;
    if (m.layout) {
        for (int64_t i = 0; i < c.n_positions; ++i) {
            const int64_t tree = m.layout->tree[at(m.layout->slot[at(i)])];
            const int64_t p = m.parent[i];
            f(i, ForestVariable{tree, p, p < 0 ? 0 : table_of(m, i), nullptr, nullptr});
        }
        return;
    }
    for (int64_t s = 0; s < c.n_sequences; ++s) {
        const int64_t begin = c.offset[s], end = c.offset[s + 1];
        for (int64_t i = begin; i < end; ++i) {
            f(i,
              ForestVariable{s, i == begin ? -1 : i - 1, c.per_edge ? c.edge[s] + i - 1 - begin : 0,
                             i == begin ? c.start : nullptr, i == end - 1 ? c.end : nullptr});
        }
    }
}

template <class T>
void expected_of(const ForestModel& m, const T* marginals, const double* energies,
                 const double* largest, std::vector<Expected>& sums) {
    each_variable(m, [&](int64_t i, const ForestVariable& v) {
        Expected& sum = sums[at(v.component)];
        const T* more[2] = {static_cast<const T*>(v.start), static_cast<const T*>(v.end)};
        // The energy of an edge stands with the first variable of a chain, with the child of a
        // tree.
        if (!m.layout && v.before >= 0) sum.add_edge(energies[v.before], largest[v.table]);
        sum.add_local(m.arrays, i, marginals + i * m.arrays.n_labels, more);
        if (m.layout && v.before >= 0) sum.add_edge(energies[i], largest[v.table]);
    });
}

// The log-potentials of given states.
template <class T>
void add_scores(const ForestModel& m, const int64_t* states, std::vector<ScoreSum>& sums) {
    const Chains& c = m.arrays;
    const int64_t K = c.n_labels;
    const auto score = [](const void* array, int64_t i) {
        return static_cast<double>(static_cast<const T*>(array)[i]);
    };
    ScoreSum sum;  // of the component under way, which mostly goes on
    int64_t component = -1;
    each_variable(m, [&](int64_t i, const ForestVariable& v) {
        const int64_t k = states[i];
        double x = score(c.unary, i * K + k);
        if (v.start) x += score(v.start, k);
        if (v.end) x += score(v.end, k);
        if (v.before >= 0) {
            const int64_t l = states[v.before];
            x += c.transition ? score(c.transition, (v.table * K + l) * K + k)
                              : c.sparse->at_pair(c.dtype, l, k);
        }
        if (c.allowed && !c.allowed[i * K + k]) x = -std::numeric_limits<double>::infinity();
        if (v.component != component) {
            if (component >= 0) sums[at(component)] = sum;
            component = v.component;
            sum = sums[at(component)];
        }
        sum.add(x);
    });
    if (component >= 0) sums[at(component)] = sum;
}

}  // namespace

void score(const ForestModel& m, const int64_t* states, double* scores) {
    std::vector<ScoreSum> sums(at(m.arrays.n_sequences));
    if (m.arrays.dtype == kFloat32) {
        add_scores<float>(m, states, sums);
    } else {
        add_scores<double>(m, states, sums);
    }
    for (std::size_t s = 0; s < sums.size(); ++s) scores[s] = sums[s].total();
}

void expected(const ForestModel& m, const void* marginals, const double* energies,
              const double* largest, double* value, double* size) {
    std::vector<Expected> sums(at(m.arrays.n_sequences));
    if (m.arrays.dtype == kFloat32) {
        expected_of(m, static_cast<const float*>(marginals), energies, largest, sums);
    } else {
        expected_of(m, static_cast<const double*>(marginals), energies, largest, sums);
    }
    for (std::size_t s = 0; s < sums.size(); ++s) {
        value[s] = sums[s].value.total();
        size[s] = sums[s].size;
    }
}

}  // namespace vs
