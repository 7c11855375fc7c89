// Entropies of components in logarithms, from the leaves to the root:
//
//   w_i(b) = local scores + sum over children c of m_c(b)
//   m_c(a) = log sum_b exp(t(a, b) + w_c(b)),  q_c(b | a) = exp(t(a, b) + w_c(b) - m_c(a))
//   H_c(a) = sum_b q_c(b | a) (-log q_c(b | a) + sum over children d of c of H_d(b))
//
// Nothing cancels, however large scores are. Labels whose marginal is below kLeast are left out:
// all of them together have so little mass that an entropy does not show it, and where labels are
// nearly decided hardly any others are left.
#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "core/logs.h"
#include "core/ticker.h"
#include "forest/call.h"
#include "forest/variables.h"
#include "rows/sparse_table.h"

namespace vs {
namespace {

// The labels of a variable that count.
struct CountedLabels {
    std::vector<int32_t> label;
    std::vector<double> weight, below;  // w; entropies of what lies below, given each of them
};

template <class T>
class Entropies {
  public:
    Entropies(const ForestModel& m, const T* marginals, const uint8_t* wanted, double* value,
              Control* control)
        : m_(m), c_(m.arrays), p_(marginals), wanted_(wanted), value_(value), control_(control) {}

    void chains(int threads) const {
        each_piece("entropies", c_, {threads, control_}, [&](int64_t s, int64_t last, bool caller) {
            Ticker ticker = ticker_of(caller);
            CountedLabels one, other;
            Workspace work;
            for (; s < last; ++s) {
                if (wanted_[s] && !chain(s, ticker, one, other, work)) return;
            }
        });
    }
    // Each node once all of its children have sent. Layouts stand in another order: they turn deep
    // trees.
    void trees() const {
        const Layout& order = *m_.layout;
        const int64_t n = c_.n_positions;
        Ticker ticker = ticker_of(true);
        Workspace work;
        std::vector<std::unique_ptr<CountedLabels>> open(at(n)), spare;
        const auto labels = [&](int64_t i) -> CountedLabels& {
            std::unique_ptr<CountedLabels>& own = open[at(i)];
            if (own) return *own;
            if (spare.empty()) spare.emplace_back(new CountedLabels());
            own = std::move(spare.back());
            spare.pop_back();
            begin(i, {m_.parent[i], 0, nullptr, nullptr}, *own);
            return *own;
        };
        std::vector<int32_t> waiting(at(n), 0);  // for so many children; -1: has sent
        for (int64_t i = 0; i < n; ++i) {
            if (m_.parent[i] >= 0) ++waiting[at(m_.parent[i])];
        }
        for (int64_t i = n; i-- > 0;) {
            for (int64_t v = i, parent; v >= 0 && waiting[at(v)] == 0; v = parent) {
                parent = m_.parent[v];
                waiting[at(v)] = -1;
                if (parent >= 0) --waiting[at(parent)];
                const int64_t tree = order.tree[at(order.slot[at(v)])];
                if (!wanted_[tree]) continue;
                if (parent < 0) {
                    value_[tree] = root(labels(v), work);
                } else {
                    send(labels(v), table_of(m_, v), labels(parent), work);
                }
                spare.push_back(std::move(open[at(v)]));
                if (!ticker.go_on()) return;
            }
        }
    }

  private:
    using Ticker = VS_NS::Ticker;
    struct Workspace {
        std::vector<double> row, sent;
    };
    static constexpr double kLeast = 1e-30;
    static constexpr size_t kPad = 16;  // numbers of a vector, at most, behind a row

    Ticker ticker_of(bool caller) const { return Ticker(control_, caller, c_.n_labels, 8); }
    static double entry(const void* array, int64_t i) {
        return static_cast<double>(static_cast<const T*>(array)[i]);
    }
    // The labels of variable i, with local scores and nothing below.
    void begin(int64_t i, const ForestVariable& v, CountedLabels& own) const {
        own.label.clear();
        own.weight.clear();
        for (int64_t k = 0; k < c_.n_labels; ++k) {
            if (!(static_cast<double>(p_[i * c_.n_labels + k]) >= kLeast)) continue;
            if (c_.allowed && !c_.allowed[i * c_.n_labels + k]) continue;
            double x = entry(c_.unary, i * c_.n_labels + k);
            if (v.start) x += entry(v.start, k);
            if (v.end) x += entry(v.end, k);
            own.label.push_back(static_cast<int32_t>(k));
            own.weight.push_back(x);
        }
        own.below.assign(own.label.size(), 0.0);
    }
    // False: cancelled.
    bool chain(int64_t s, Ticker& ticker, CountedLabels& own, CountedLabels& after,
               Workspace& work) const {
        const int64_t first = c_.offset[s], end = c_.offset[s + 1];
        value_[s] = 0.0;
        for (int64_t i = end; i-- > first; std::swap(own, after)) {
            begin(i, position_of(c_, s, i), own);
            if (i + 1 < end) send(after, position_of(c_, s, i + 1).table, own, work);
            if (i == first) value_[s] = root(own, work);
            if (!ticker.go_on()) return false;
        }
        return true;
    }
    // t(a, b) for the labels b of `to`.
    void read_row(int64_t table, int32_t a, const std::vector<int32_t>& to, double* row) const {
        if (c_.transition) {
            const int64_t begin = (table * c_.n_labels + a) * c_.n_labels;
            for (size_t j = 0; j < to.size(); ++j) row[j] = entry(c_.transition, begin + to[j]);
            return;
        }
        const SparseTable& t = *c_.sparse;
        int64_t e = t.start[at(a)];
        const int64_t end = t.start[at(a + 1)];
        for (size_t j = 0; j < to.size(); ++j) {
            while (e < end && t.column[at(e)] < to[j]) ++e;
            const bool listed = e < end && t.column[at(e)] == to[j];
            row[j] = listed ? t.score[at(e)] : t.unlisted(c_.dtype, a, to[j]);
        }
    }
    // Adds what `child` sends to each label of `parent`.
    void send(const CountedLabels& child, int64_t table, CountedLabels& parent,
              Workspace& work) const {
        const size_t n = parent.label.size();
        std::vector<double>&row = work.row, &sent = work.sent;
        row.resize(child.label.size() + kPad);
        sent.resize(n);
        double top = kNever;
        for (size_t i = 0; i < n; ++i) {
            read_row(table, parent.label[i], child.label, row.data());
            double below;
            sent[i] = summed(child, row, &below);
            parent.below[i] += below;
            top = std::max(top, sent[i]);
        }
        // Only differences count, and these keep their digits.
        for (size_t i = 0; i < n; ++i) parent.weight[i] += top > kNever ? sent[i] - top : kNever;
    }
    double root(const CountedLabels& own, Workspace& work) const {
        work.row.assign(own.label.size() + kPad, 0.0);
        double entropy;
        summed(own, work.row, &entropy);
        return entropy;
    }
    // log sum_b exp(row(b) + w(b)), and the entropy of b and of all below it.
    static double summed(const CountedLabels& own, std::vector<double>& row, double* entropy) {
        constexpr int kVectors = 4;  // labels from which vectors are faster
        const int n = static_cast<int>(own.label.size());
        const Level& by = n < kVectors ? at_level<Level>(VS_LEVEL_SCALAR) : level();
        return by.conditional(row.data(), own.weight.data(), own.below.data(), n, entropy);
    }

    const ForestModel& m_;
    const Chains& c_;
    const T* const p_;
    const uint8_t* const wanted_;
    double* const value_;
    Control* const control_;
};

template <class T>
void find_entropies(const ForestModel& m, const void* marginals, const uint8_t* wanted, int threads,
                    double* value, Control& control) {
    const Entropies<T> all(m, static_cast<const T*>(marginals), wanted, value, &control);
    m.layout ? all.trees() : all.chains(threads);
}

template <class T>
void find_near(const Chains& c, const T* p, int64_t* best, double* scores, Control& control) {
    const int64_t K = c.n_labels;
    const T* unary = static_cast<const T*>(c.unary);
    VS_NS::Ticker ticker(&control, true, K);
    for (int64_t i = 0; i < c.n_positions && ticker.go_on(); ++i, p += K, unary += K, scores += K) {
        int64_t top = 0;
        for (int64_t k = 1; k < K; ++k) {
            if (p[k] > p[top]) top = k;
        }
        best[i] = top;
        const double own = std::isfinite(unary[top]) ? static_cast<double>(unary[top]) : 0.0;
        for (int64_t k = 0; k < K; ++k) scores[k] = static_cast<double>(unary[k]) - own;
    }
}

}  // namespace

int entropies(const ForestModel& m, const void* marginals, const uint8_t* wanted, int threads,
              double* value, Control& control) {
    if (m.arrays.dtype == kFloat32) {
        find_entropies<float>(m, marginals, wanted, threads, value, control);
    } else {
        find_entropies<double>(m, marginals, wanted, threads, value, control);
    }
    return control.stop.load() ? kCancelled : kOk;
}

int near_likely(const ForestModel& m, const void* marginals, int64_t* best, double* scores,
                Control& control) {
    if (m.arrays.dtype == kFloat32) {
        find_near(m.arrays, static_cast<const float*>(marginals), best, scores, control);
    } else {
        find_near(m.arrays, static_cast<const double*>(marginals), best, scores, control);
    }
    return control.stop.load() ? kCancelled : kOk;
}

}  // namespace vs
