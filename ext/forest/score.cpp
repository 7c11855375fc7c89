#include <algorithm>
#include <limits>
#include <vector>

#include "core/score.h"
#include "forest/call.h"
#include "forest/plan.h"
#include "forest/request.h"
#include "forest/variables.h"
#include "rows/sparse_table.h"

namespace vs {
namespace {

// f(sum, i, variable) for all variables of trees in their order, with the sum of its component:
// that of the one under way, which mostly goes on, is at hand.
template <class S, class F>
void each_of_trees(const ForestModel& m, std::vector<S>& sums, F f) {
    S sum;
    int64_t component = -1;
    for (int64_t i = 0; i < m.arrays.n_positions; ++i) {
        const int64_t tree = m.layout->tree[at(m.layout->slot[at(i)])], p = m.parent[i];
        if (tree != component) {
            if (component >= 0) sums[at(component)] = sum;
            component = tree;
            sum = sums[at(component)];
        }
        f(sum, i, ForestVariable{p, p < 0 ? 0 : table_of(m, i), nullptr, nullptr});
    }
    if (component >= 0) sums[at(component)] = sum;
}

template <class T>
Expected expected_of_chain(const Chains& c, int64_t s, const T* marginals, const double* energies,
                           const double* largest, bool centred) {
    const int64_t begin = c.offset[s], end = c.offset[s + 1];
    const int64_t step = c.per_edge ? 1 : 0;
    const double* top = largest + (c.per_edge ? c.edge[s] : 0);
    Expected sum;
    sum.centred = centred;
    const auto add = [&](int64_t i) { sum.add_local(c, i, marginals + i * c.n_labels); };
    const auto add_end = [&](int64_t i) {
        const T* const more[2] = {i == begin ? static_cast<const T*>(c.start) : nullptr,
                                  i + 1 == end ? static_cast<const T*>(c.end) : nullptr};
        if (!more[0] && !more[1]) return add(i);
        sum.add_local(c, i, marginals + i * c.n_labels, more);
    };
    if (begin < end) add_end(begin);
    // The energy of an edge stands with its first variable.
    for (int64_t i = begin + 1; i < end; ++i, top += step) {
        sum.add_edge(energies[i - 1], *top);
        i + 1 == end ? add_end(i) : add(i);
    }
    return sum;
}

template <class T>
std::vector<Expected> expected_of(const ForestModel& m, const T* marginals, const double* energies,
                                  const double* largest, bool centred, const OnPool& on) {
    const Chains& c = m.arrays;
    std::vector<Expected> sums(at(c.n_sequences));
    for (Expected& sum : sums) sum.centred = centred;
    if (m.layout) {
        // The energy of an edge of a tree stands with the child.
        each_of_trees(m, sums, [&](Expected& sum, int64_t i, const ForestVariable& v) {
            sum.add_local(c, i, marginals + i * c.n_labels);
            if (v.before >= 0) sum.add_edge(energies[i], largest[v.table]);
        });
        return sums;
    }
    each_piece("expected scores", c, on, [&](int64_t s, int64_t last, bool) {
        for (; s < last; ++s) {
            sums[at(s)] = expected_of_chain(c, s, marginals, energies, largest, centred);
        }
    });
    return sums;
}

// The log-potentials of given states.
template <class T>
class Scores {
  public:
    Scores(const ForestModel& m, const int64_t* states)
        : m_(m), c_(m.arrays), K_(c_.n_labels), states_(states) {}

    void trees(double* scores) const {
        std::vector<ScoreSum> sums(at(c_.n_sequences));
        each_of_trees(m_, sums, [&](ScoreSum& sum, int64_t i, const ForestVariable& v) {
            sum.add(of(i, v));
        });
        for (std::size_t s = 0; s < sums.size(); ++s) scores[s] = sums[s].total();
    }
    void chains(double* scores, const OnPool& on) const {
        each_piece("scores", c_, on, [&](int64_t s, int64_t last, bool) {
            for (; s < last; ++s) scores[s] = chain(s);
        });
    }

  private:
    static double entry(const void* array, int64_t i) {
        return static_cast<double>(static_cast<const T*>(array)[i]);
    }
    double of(int64_t i, const ForestVariable& v) const {
        const int64_t k = states_[i];
        double x = entry(c_.unary, i * K_ + k);
        if (v.start) x += entry(v.start, k);
        if (v.end) x += entry(v.end, k);
        if (v.before >= 0) {
            const int64_t l = states_[v.before];
            x += c_.transition ? entry(c_.transition, (v.table * K_ + l) * K_ + k)
                               : c_.sparse->at_pair(c_.dtype, l, k);
        }
        if (c_.allowed && !c_.allowed[i * K_ + k]) x = -std::numeric_limits<double>::infinity();
        return x;
    }
    double chain(int64_t s) const {
        ScoreSum sum;
        int64_t i = c_.offset[s];
        const int64_t end = c_.offset[s + 1];
        if (i < end && c_.transition && !c_.allowed) {
            return c_.per_edge ? plain_chain<true>(s) : plain_chain<false>(s);
        }
        for (; i < end; ++i) sum.add(of(i, position_of(c_, s, i)));
        return sum.total();
    }
    // Between the ends, of() in few steps. EACH: every edge has a table.
    template <bool EACH>
    double plain_chain(int64_t s) const {
        const int64_t K = K_, table = EACH ? K * K : 0;
        const T* edge = static_cast<const T*>(c_.transition) + (EACH ? c_.edge[s] * table : 0);
        int64_t i = c_.offset[s];
        const int64_t end = c_.offset[s + 1], last = c_.end ? end - 1 : end;
        const T* unary = static_cast<const T*>(c_.unary) + i * K;
        const int64_t* state = states_ + i;
        ScoreSum sum;
        sum.add(c_.start || i == last ? of(i, position_of(c_, s, i))
                                      : static_cast<double>(unary[*state]));
        // The state and the edge j places on.
        const auto local = [&](int64_t j) { return static_cast<double>(unary[j * K + state[j]]); };
        const auto edge_at = [&](int64_t j) {
            return static_cast<double>(edge[j * table + state[j - 1] * K + state[j]]);
        };
        for (++i, ++state, unary += K; i + 4 <= last; i += 4, state += 4) {
            const TwoDoubles first =
                TwoDoubles{local(0), local(2)} + TwoDoubles{edge_at(0), edge_at(2)};
            const TwoDoubles second =
                TwoDoubles{local(1), local(3)} + TwoDoubles{edge_at(1), edge_at(3)};
            sum.add(first + second);  // without the rests of two positions: 2 ulp of their size
            unary += 4 * K;
            edge += 4 * table;
        }
        if (i < last) {  // one to three, without a branch that would be guessed wrong; x[0]: none
            const int64_t more = last - i, second = more > 1 ? 1 : 0, third = more > 2 ? 2 : 0;
            const double x[4] = {0.0, local(0) + edge_at(0), local(second) + edge_at(second),
                                 local(third) + edge_at(third)};
            sum.add(TwoDoubles{x[1] + x[more > 2 ? 3 : 0], x[more > 1 ? 2 : 0]});
        }
        if (last < end && i <= last) sum.add(of(last, position_of(c_, s, last)));
        return sum.total();
    }

    const ForestModel& m_;
    const Chains& c_;
    const int64_t K_;
    const int64_t* const states_;
};

template <class T>
void score_of(const ForestModel& m, const int64_t* states, double* scores, const OnPool& on) {
    const Scores<T> all(m, states);
    m.layout ? all.trees(scores) : all.chains(scores, on);
}

}  // namespace

int score(const ForestModel& m, const int64_t* states, int threads, double* scores,
          Control& control) {
    const OnPool on{threads, &control};
    if (m.arrays.dtype == kFloat32) {
        score_of<float>(m, states, scores, on);
    } else {
        score_of<double>(m, states, scores, on);
    }
    return control.stop.load() ? kCancelled : kOk;
}

int expected(const ForestModel& m, const void* marginals, const double* energies,
             const double* largest, bool centred, int threads, double* value, double* size,
             Control& control) {
    const OnPool on{threads, &control};
    const std::vector<Expected> sums =
        m.arrays.dtype == kFloat32
            ? expected_of(m, static_cast<const float*>(marginals), energies, largest, centred, on)
            : expected_of(m, static_cast<const double*>(marginals), energies, largest, centred, on);
    for (std::size_t s = 0; s < sums.size(); ++s) {
        value[s] = sums[s].value.total();
        size[s] = sums[s].size;
    }
    return control.stop.load() ? kCancelled : kOk;
}

}  // namespace vs
