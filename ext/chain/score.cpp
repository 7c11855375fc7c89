#include "chain/run.h"
#include "core/score.h"

namespace vs {

void score(const Chains& c, const int64_t* states, double* scores) {
    const int64_t K = c.n_labels;
    for (int64_t s = 0; s < c.n_sequences; ++s) {
        Score sum;
        const int64_t begin = c.offset[s], end = c.offset[s + 1];
        for (int64_t i = begin; i < end; ++i) {
            const int64_t k = states[i];
            double x = local_score(c, i, k);
            if (i == begin && c.start) x += entry(c, c.start, k);
            if (i == end - 1 && c.end) x += entry(c, c.end, k);
            if (i > begin) {
                const int64_t edge = c.per_edge ? c.edge[s] + i - 1 - begin : 0;
                x += entry(c, c.transition, (edge * K + states[i - 1]) * K + k);
            }
            sum.add(x);
        }
        scores[s] = sum.total();
    }
}

namespace {

template <class T>
void expected_of(const Chains& c, const T* marginals, const double* energies, const double* largest,
                 double* value, double* size) {
    for (int64_t s = 0; s < c.n_sequences; ++s) {
        Expected sum;
        const int64_t begin = c.offset[s], end = c.offset[s + 1];
        for (int64_t i = begin; i < end; ++i) {
            const T* more[2] = {i == begin ? static_cast<const T*>(c.start) : nullptr,
                                i == end - 1 ? static_cast<const T*>(c.end) : nullptr};
            sum.add_local(c, i, marginals + i * c.n_labels, more);
            if (i + 1 == end) continue;
            sum.add_edge(energies[i], largest[c.per_edge ? c.edge[s] + i - begin : 0]);
        }
        value[s] = sum.value.total();
        size[s] = sum.size;
    }
}

}  // namespace

void expected(const Chains& c, const void* marginals, const double* energies, const double* largest,
              double* value, double* size) {
    if (c.dtype == kFloat32) {
        expected_of(c, static_cast<const float*>(marginals), energies, largest, value, size);
    } else {
        expected_of(c, static_cast<const double*>(marginals), energies, largest, value, size);
    }
}

}  // namespace vs
