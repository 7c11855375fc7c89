// What float32 is not good enough for: components of a call, asked in float64.
#pragma once

#include <cstdlib>
#include <memory>
#include <vector>

#include "forest/request.h"

namespace vs {

// Arrays are as large as those of the call, so that all numbers of variables, edges and components
// stay; memory that is not touched, of other components, is never taken.
class InDouble {
  public:
    // components[*next, ...), as many as take a fair amount of memory; *next: the first of the
    // others. Scores of a variable are summed in float32, as they are there.
    InDouble(const Request& single, const std::vector<int64_t>& components, size_t* next);
    InDouble(const InDouble&) = delete;  // the request refers to what it holds
    InDouble& operator=(const InDouble&) = delete;

    const Request& request() const { return r_; }
    void write() const;  // rows of answers, into the arrays of the call

  private:
    struct Free {
        void operator()(double* p) const { std::free(p); }
    };
    using Doubles = std::unique_ptr<double[], Free>;  // zeros

    Doubles zeros(int64_t n) const;
    void take(const std::vector<int64_t>& components, size_t* next);
    void find_rows();
    void compose();
    void copy_tables();
    void open_answers();
    template <class F>
    void each_table(F f) const;  // f(number), of those that the components read
    template <class F>
    void each_pair(F f) const;  // f(row of `pairwise`), likewise

    const Request& single_;
    Request r_;
    std::vector<int64_t> components_;
    std::vector<int64_t> rows_;  // their variables
    bool dense_ = false;  // most of what lies between the first and the last of them is theirs
    Doubles unary_, tables_, marginals_, pairwise_, compared_;
    Comparison comparison_{};
};

}  // namespace vs
