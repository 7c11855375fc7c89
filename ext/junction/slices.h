// The factors of a graph, of which parts of the variables are held.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/sum.h"
#include "junction/graph.h"

namespace vs::junction {

// log(sum of exp(x)), -inf where all are; in the order of the numbers.
inline double log_sum(const double* x, int64_t n) {
    const double top = *std::max_element(x, x + n);
    if (top == -INFINITY) return top;
    double sum = 0.0;
    for (int64_t i = 0; i < n; ++i) sum += std::exp(x[i] - top);
    return top + std::log(sum);
}

// p = exp(score) / sum. False where every score is -inf.
inline bool distribution(const double* score, int64_t n, double* p) {
    const double top = *std::max_element(score, score + n);
    if (top == -INFINITY) return false;
    double sum = 0.0;
    for (int64_t i = 0; i < n; ++i) sum += p[i] = std::exp(score[i] - top);
    for (int64_t i = 0; i < n; ++i) p[i] /= sum;
    return true;
}

// The table of a factor with its held variables fixed: free ones in the order of the scope.
struct Slice {
    const double* first = nullptr;  // the entry where all of them have their first value
    std::vector<int64_t> var, stride;
    bool whole = false;  // nothing is held
};

class Slices {
  public:
    // soft[v]: a log-vector or null; soft itself may be null.
    Slices(const Graph& g, const double* const* soft)
        : g_(g), ptr_(static_cast<size_t>(g.n) + 1), of_ptr_(ptr_.size()) {
        for (int64_t v = 0; v < g.n; ++v) ptr_[v + 1] = ptr_[v] + g.card[v];
        alone_.resize(static_cast<size_t>(ptr_.back()));
        for (int64_t v = 0; v < g.n; ++v) {
            if (soft && soft[v]) std::copy(soft[v], soft[v] + g.card[v], own(v));
        }
        for (int64_t f = 0; f < g.n_factors; ++f) {
            const Factor x = factor(f);
            if (x.arity == 0 && x.table[0] == -INFINITY) impossible_ = true;
            if (x.arity == 0 && !impossible_) constant_.add(x.table[0]);
            if (x.arity == 1) {
                double* to = own(x.scope[0]);
                for (int64_t i = 0; i < g.card[x.scope[0]]; ++i) to[i] += x.table[i];
            }
            if (x.arity < 2) continue;
            for (int64_t i = 0; i < x.arity; ++i) ++of_ptr_[x.scope[i] + 1];
        }
        for (int64_t v = 0; v < g.n; ++v) of_ptr_[v + 1] += of_ptr_[v];
        of_.resize(static_cast<size_t>(of_ptr_.back()));
        std::vector<int64_t> at(of_ptr_.begin(), of_ptr_.end() - 1);
        for (int64_t f = 0; f < g.n_factors; ++f) {
            const Factor x = factor(f);
            for (int64_t i = 0; x.arity > 1 && i < x.arity; ++i) of_[at[x.scope[i]]++] = f;
        }
    }

    int64_t n() const { return g_.n; }
    int64_t n_factors() const { return g_.n_factors; }
    int64_t card(int64_t v) const { return g_.card[v]; }
    int64_t at(int64_t v) const { return ptr_[v]; }  // in arrays over all states
    bool forbids(int64_t f) const { return g_.forbids[f]; }
    double constant() const { return impossible_ ? -INFINITY : constant_.total(); }
    // The score of each state of a variable by all that it has to itself.
    const double* alone(int64_t v) const { return alone_.data() + ptr_[v]; }
    Factor factor(int64_t f) const { return factor_of(g_, f, nullptr); }
    // The factors of several variables that one is in.
    const int64_t* begin(int64_t v) const { return of_.data() + of_ptr_[v]; }
    const int64_t* end(int64_t v) const { return of_.data() + of_ptr_[v + 1]; }

    // f(u) for the other variables of all factors that one is in, more than once perhaps.
    template <class F>
    void each_near(int64_t v, F f) const {
        for (const int64_t* i = begin(v); i != end(v); ++i) {
            const Factor x = factor(*i);
            for (int64_t j = 0; j < x.arity; ++j) {
                if (x.scope[j] != v) f(x.scope[j]);
            }
        }
    }

    void cut(int64_t f, const std::vector<int64_t>& held, Slice* to) const {
        const Factor x = factor(f);
        to->first = x.table;
        to->var.clear();
        to->stride.clear();
        to->whole = true;
        int64_t stride = 1;
        for (int64_t i = x.arity; i-- > 0;) {
            const int64_t v = x.scope[i];
            if (held[v] >= 0) {
                to->first += stride * held[v];
                to->whole = false;
            } else {
                to->var.push_back(v);
                to->stride.push_back(stride);
            }
            stride *= g_.card[v];
        }
        std::reverse(to->var.begin(), to->var.end());
        std::reverse(to->stride.begin(), to->stride.end());
    }

    // The entries of a slice, the last variable changing fastest.
    void copy(const Slice& s, std::vector<double>* to) const {
        const size_t k = s.var.size();
        std::vector<int64_t> state(k, 0);
        const double* from = s.first;
        for (;;) {
            to->push_back(*from);
            size_t i = k;
            while (i-- > 0) {
                from += s.stride[i];
                if (++state[i] < g_.card[s.var[i]]) break;
                from -= s.stride[i] * state[i];
                state[i] = 0;
            }
            if (i == static_cast<size_t>(-1)) return;
        }
    }

    // The score of each state of a free variable by factors without another one.
    void local(int64_t v, const std::vector<int64_t>& held, double* score) const {
        std::copy(alone(v), alone(v) + g_.card[v], score);
        for (const int64_t* i = begin(v); i != end(v); ++i) {
            const Factor x = factor(*i);
            const double* from = x.table;
            int64_t stride = 1, own = 0;
            bool others = false;
            for (int64_t j = x.arity; j-- > 0; stride *= g_.card[x.scope[j]]) {
                const int64_t u = x.scope[j];
                if (u == v) {
                    own = stride;
                } else if (held[u] >= 0) {
                    from += stride * held[u];
                } else {
                    others = true;
                    break;
                }
            }
            if (others) continue;
            for (int64_t s = 0; s < g_.card[v]; ++s) score[s] += from[s * own];
        }
    }

    // The score of a factor whose variables are all held; false where one is not.
    bool score(int64_t f, const std::vector<int64_t>& held, double* score) const {
        const Factor x = factor(f);
        int64_t at = 0;
        for (int64_t i = 0; i < x.arity; ++i) {
            if (held[x.scope[i]] < 0) return false;
            at = at * g_.card[x.scope[i]] + held[x.scope[i]];
        }
        *score = x.table[at];
        return true;
    }

  private:
    double* own(int64_t v) { return alone_.data() + ptr_[v]; }

    const Graph& g_;
    std::vector<int64_t> ptr_, of_ptr_, of_;
    std::vector<double> alone_;
    vs::Sum constant_;
    bool impossible_ = false;  // by a factor without variables
};

}  // namespace vs::junction
