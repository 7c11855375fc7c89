// The factors of a graph, of which parts of the variables are held.
#pragma once

#include <cmath>
#include <vector>

#include "core/sum.h"
#include "junction/graph.h"

namespace vs::junction {

// log(sum of exp(x)), -inf where all are; in the order of the numbers.
double log_sum(const double* x, int64_t n);

// p = exp(score) / sum. False where every score is -inf.
bool distribution(const double* score, int64_t n, double* p);

// The table of a factor with its held variables fixed: free ones in the order of the scope.
struct TableSlice {
    const double* first = nullptr;  // the entry where all of them have their first value
    std::vector<int64_t> var, stride;
    bool whole = false;  // nothing is held
};

class TableSlices {
  public:
    // soft[v]: a log-vector or null; soft itself may be null.
    TableSlices(const Graph& g, const double* const* soft);

    int64_t n() const { return g_.n; }
    int64_t n_factors() const { return g_.n_factors; }
    int64_t card(int64_t v) const { return g_.card[v]; }
    int64_t at(int64_t v) const { return ptr_[v]; }  // in arrays over all states
    bool forbids(int64_t f) const { return g_.forbids[f]; }
    double constant() const { return impossible_ ? -INFINITY : constant_.total(); }
    // The score of each state of a variable: unary factors and soft evidence.
    const double* unary(int64_t v) const { return unary_.data() + ptr_[v]; }
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

    void cut(int64_t f, const std::vector<int64_t>& held, TableSlice* to) const;

    // The entries of a slice, the last variable changing fastest.
    void copy(const TableSlice& s, std::vector<double>* to) const;

    // The score of each state of a free variable by factors without another one.
    void local(int64_t v, const std::vector<int64_t>& held, double* score) const;

    // The score of a factor whose variables are all held; false where one is not.
    bool score(int64_t f, const std::vector<int64_t>& held, double* score) const;

  private:
    double* own(int64_t v) { return unary_.data() + ptr_[v]; }

    const Graph& g_;
    std::vector<int64_t> ptr_, of_ptr_, of_;
    std::vector<double> unary_;
    Sum constant_;
    bool impossible_ = false;  // by a factor without variables
};

}  // namespace vs::junction
