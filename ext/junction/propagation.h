// Propagation in a junction tree: messages up, messages down, marginals on the way.
//
//   up:    m_c(S) = sum over C \ S of  statics(C) * product of the children's messages
//   down:  d_c(S) = belief(S) / m_c(S), belief(S) the sum over the parent's other variables of
//          everything multiplied into the parent, its own message from above included
//
// A message is scaled to have its largest entry in [1/2, 1): by a power of two, so exactly.
//
// Plain numbers lose what is below 2^-1022. All operands are at most 1, so each underflow takes at
// most that much from one entry, and what a message has lost is bounded on its way:
//   up:    `loss` of a message, in the units of its largest entry, grows by the entries added up
//          and by what scaling takes out;
//   down:  everything stands in the clique, so what is lost is a share of the mass of the whole.
// The bound at every clique on the way down suffices: mass that an impossible-looking entry of a
// message from below would have had is missing from the parent's sum, with which the bound is
// compared.
#pragma once

#include <vector>

#include "junction/state.h"

namespace vs::junction {

template <class A>
class Propagation {
  public:
    explicit Propagation(const Compiled& compiled) : s_(compiled) {}

    // Forgets all statics but those of `tables`, and all messages but those of `messages` from
    // cliques below which every one is kept.
    void keep(const std::vector<uint8_t>& tables, std::vector<uint8_t> messages);
    int64_t n_sent() const;

    // Messages up, and down unless only `log_z` is wanted. kOk, kWiden (numbers too small for this
    // algebra), kInfeasible, kCancelled. `soft`: a log-vector for each variable, or null.
    Status run(const double* const* soft, bool upward_only, int threads, Control* control);

    double log_z() const { return log_z_; }
    // Every variable's values at ptr[v]..: zero for values that are not alive. Or their logarithms,
    // which reach further down than numbers do.
    void marginals(const int64_t* ptr, bool logs, double* out) const;
    // Over alive values, in the order of its dims.
    void query(size_t q, bool logs, double* out) const;
    // After down, with the queries of locate_factors().
    ExpectedScore expected() const;
    // After down: the log of the mass with other soft evidence on `changed` over the mass as it is.
    // Only messages between their cliques are made again, and put back. It may not allow what was
    // impossible. kWiden where numbers are too small to tell, kInfeasible where no mass is left.
    Status log_ratio(const double* const* soft, const std::vector<int32_t>& changed,
                     Control* control, double* ratio);
    bool lossless() const;  // after up: no message has lost anything
    bool faithful() const;  // after down: neither has anything else, however small it is
    const State<A>& state() const { return s_; }

  private:
    template <class F>
    bool each_decided(const double* const* soft, F f) const;
    // The cliques between the homes of some variables and the first above all of them, or a root.
    std::vector<int32_t> between(const std::vector<int32_t>& variables) const;
    // Multiplies a variable's other soft evidence into its clique; false where it leaves no state.
    bool weigh(int32_t c, int32_t v, const double* before, const double* now);
    // A clique's messages up and down, multiplied and summed.
    typename A::T mass_at(int32_t c) const;

    State<A> s_;
    double log_z_ = 0.0;
};

}  // namespace vs::junction
