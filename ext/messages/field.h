// Mean field with the structure of a forest: q is any distribution of the forest's factors.
//
// q has tables f for the forest's factors and a vector for each variable. Its value is
// E_q[score] + H(q) <= log Z. At the best q, its tables are the model's own plus the derivative of
// the expectation of the other factors: that of such a factor given the states of a table on the
// path between its two variables, less those given each variable in between. A step goes towards
// that as far as it gains, so no step loses anything.
//
// A structured factor stays in q as it is, its variables' vectors being all that q may choose. A
// path through it goes by the joint of two variables, and the derivative is taken to the nearest
// sum of a function of each.
#pragma once

#include <utility>
#include <vector>

#include "messages/network.h"

namespace vs::messages {

using Numbers = std::vector<double>;

struct Network::Field {
    const Network& l;
    const double* local;
    std::vector<int64_t> order;  // forest factors from the roots on
    std::vector<int64_t> above;  // of a factor: the edge to the variable above it
    std::vector<int64_t> up;     // of a variable: the edge to the factor above it, or -1
    std::vector<int64_t> depth, root, outside;  // of a variable; factors that are not in the forest
    std::vector<char> inside;
    Numbers q, joint, node, table;  // marginals and tables' joints; the parameters they come from
    Numbers next_node, next_table;  // the parameters that a whole step leads to
    Numbers in, work;               // messages to structured factors, by entry; scratch
    double value = 0.0, bound = 0.0, scale = 0.0;
    bool possible = true;  // no table outside meets one of them twice

    Field(const Network& network, const double* loc, int64_t count, const int64_t* forest)
        : l(network),
          local(loc),
          up(at(l.n_), -1),
          depth(at(l.n_), 0),
          root(at(l.n_), -1),
          inside(at(l.n_factors_), 0),
          in(l.structured_.empty() ? 0 : at(l.n_entries())),
          work(at(l.room_ + 2 * l.widest_)) {
        for (int64_t i = 0; i < count; ++i) inside[at(forest[i])] = 1;
        separate();
        root_forest();
        for (int64_t f = 0; f < l.n_factors_; ++f) {
            if (!inside[at(f)]) outside.push_back(f);
        }
        q.resize(at(l.var_at_.back()));
        joint.resize(at(l.table_at_.back()));
    }

    int64_t arity(int64_t f) const { return l.factor_ptr_[at(f + 1)] - l.factor_ptr_[at(f)]; }
    int64_t parent_of(int64_t v) const {  // the variable above, or -1 at a root
        return up[at(v)] < 0 ? -1 : l.edge_var_[at(above[at(l.edge_factor_[at(up[at(v)])])])];
    }

    void root_forest();

    // The variables of a factor outside the forest of three and more lie in trees of their own:
    // where two do not, the table nearest to the second on their path leaves the forest.
    void separate();

    template <class F>
    void each(int64_t f, F&& g) const {
        messages::each(arity(f), l.edge_card_.data() + l.factor_ptr_[at(f)],
                       l.table_at_[at(f + 1)] - l.table_at_[at(f)], g);
    }

    double* in_of(int64_t f) { return in.data() + l.edge_at_[at(l.factor_ptr_[at(f)])]; }

    // Adds what the variables below a structured factor come to for each state of the one above.
    void send_up(int64_t f, Numbers* sum);

    // The marginals of a structured factor's variables, given that of the one above. Its messages
    // are left such that its own distribution has them, and mass one.
    void send_down(int64_t f);

    // q and the joints of the forest's tables from `node` and `table`; false without any mass.
    bool marginals();

    // p(x | y) of variable u of edge a given w of edge b, both of one factor; (card u, card w).
    void given(int64_t a, int64_t b, Numbers& out, Numbers& mass);

    // Adds to the next vectors of two binary variables the sum of a function of each that is
    // nearest to row (2, 2), in mean square; back: p(x | y), mass: p(y).
    void add_nearest_sum(int64_t a, int64_t b, const Numbers& row, const Numbers& back,
                         const Numbers& mass);

    // Pairs of edges of one factor by which the path leads from variable u to v of one tree.
    void path(int64_t u, int64_t v, std::vector<std::pair<int64_t, int64_t>>& steps) const;

    // The value of q, and where a whole step leads. `joints`: those of other pairs, too.
    void assess(bool joints);

    // A zero of a factor outside the forest is finite during the ascent; the bound has it as it is.
    static double held(double x) { return x > -INFINITY ? x : -1e4; }
};

}  // namespace vs::messages
