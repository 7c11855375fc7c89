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
#include "pool/plan.h"

namespace vs::messages {

using Numbers = std::vector<double>;

// Covariances, correlations and variances below it are not divided by: a rounding of 1e-16 in one
// is 1e-10 at most of what a pair adds, and only where a step leads; values and bounds divide by
// none.
constexpr double kWeak = 1e-6;

// Products between two looks at whether the call ends.
constexpr int64_t kLookEvery = int64_t{1} << 21;
// Of a task: entries of tables and vectors, crossings.
constexpr int64_t kEntries = 4096, kCrossings = 256;

struct Network::Field {
    const Network& l;
    const double* local;
    Control* control;
    bool caller = true;           // this is the thread that polls
    int threads = 1;              // that share its passes
    std::vector<int64_t> roots;   // of the forest
    std::vector<int64_t> order;   // forest factors from the roots on, piece by piece
    std::vector<int64_t> above;   // of a factor: the edge to the variable above it
    std::vector<int64_t> up;      // of a variable: the edge to the factor above it, or -1
    std::vector<int64_t> parent;  // the variable above, or -1 at a root
    std::vector<int64_t> depth, root, outside;  // of a variable; factors that are not in the forest
    std::vector<char> inside;
    Numbers q, joint, node, table;  // marginals and tables' joints; the parameters they come from
    Numbers next_node, next_table;  // the parameters that a whole step leads to
    Numbers theta;                  // the graph's tables, side by side in memory
    // The parts of the value of q: for each entry of the tables 1 where it is in the forest; the
    // forest's tables, and all tables and vectors, zeros held; 1 - degree for each entry of q; and
    // entries of the forest's tables and of vectors that are zeros.
    Numbers counts, own_table, held_table, held_local, share;
    std::vector<int64_t> never_table, never_local, structured;  // structured factors in it
    Numbers sum;                                                // node, and what comes from below
    Numbers in, work;  // messages to structured factors, by entry; scratch
    double value = 0.0, bound = 0.0, scale = 0.0;
    bool possible = true;  // no table outside meets one of them twice

    Field(const Network& network, const double* loc, int64_t count, const int64_t* forest,
          Control* calls)
        : l(network),
          local(loc),
          control(calls),
          up(at(l.n_), -1),
          parent(at(l.n_), -1),
          depth(at(l.n_), 0),
          root(at(l.n_), -1),
          inside(at(l.n_factors_), 0),
          in(l.structured_.empty() ? 0 : at(l.n_entries())),
          work(at(l.scratch_size_ + 2 * l.widest_)) {
        for (int64_t i = 0; i < count; ++i) inside[at(forest[i])] = 1;
        separate();
        root_forest();
        find_pairs();
        cut_forest();
        for (int64_t f = 0; f < l.n_factors_; ++f) {
            if (!inside[at(f)]) outside.push_back(f);
        }
        q.resize(at(l.var_at_.back()));
        joint.resize(at(l.table_at_.back()));
        next_node.resize(q.size());
        next_table.resize(joint.size());
        theta.resize(joint.size());
        l.side_by_side(theta.data());
        find_crossings();
        find_terms();
        parts.resize(at(blocks_of(joint) + blocks_of(q)) + crossing.size() / kCrossings + 1);
    }
    static int64_t blocks_of(const Numbers& x) {
        return (static_cast<int64_t>(x.size()) + kEntries - 1) / kEntries;
    }

    // Whether the call ends here: asked now and then where paths are walked.
    bool ended(size_t i) {
        if (i % 64 == 0 && caller && cancelled(control)) control->stop.store(1);
        return control->stop.load(std::memory_order_relaxed) != 0;
    }

    int64_t arity(int64_t f) const { return l.factor_ptr_[at(f + 1)] - l.factor_ptr_[at(f)]; }
    int64_t parent_of(int64_t v) const { return parent[at(v)]; }

    void root_forest();
    void find_pairs();
    void find_terms();

    // Connected pieces of the forest, those above first. Where all its tables are pairs of binary
    // variables, passes go through them side by side: to the roots each waits for those below.
    void cut_forest();
    Tasks to_roots, from_roots;
    // Whether all that takes time is shared by threads: every factor is in the forest, as a pair of
    // binary variables, or crosses it.
    bool is_shared() const {
        return crossing.size() == outside.size() && downwards.size() == order.size();
    }

    // The variables of a factor outside the forest of three and more lie in trees of their own:
    // where two do not, the table nearest to the second on their path leaves the forest.
    void separate();

    template <class F>
    void each(int64_t f, F&& g) const {
        messages::each(arity(f), l.edge_card_.data() + l.factor_ptr_[at(f)],
                       l.table_at_[at(f + 1)] - l.table_at_[at(f)], g);
    }

    const double* table_of(int64_t f) const { return theta.data() + l.table_at_[at(f)]; }
    double* in_of(int64_t f) { return in.data() + l.edge_at_[at(l.factor_ptr_[at(f)])]; }

    // Adds what the variables below a structured factor come to for each state of the one above.
    void send_up(int64_t f, Numbers* sum);

    // The marginals of a structured factor's variables, given that of the one above. Its messages
    // are left such that its own distribution has them, and mass one.
    void send_down(int64_t f);

    std::vector<char> pair;  // of a forest factor: a table of two binary variables
    void pair_up(int64_t f, Numbers* sum);
    void pair_down(int64_t f);

    // q and the joints of the forest's tables from `node` and `table`; false without any mass.
    bool marginals();
    void table_up(int64_t f);
    void table_down(int64_t f);
    Numbers top, total;  // scratch of theirs

    // p(x | y) of variable u of edge a given w of edge b, both of one factor; (card u, card w).
    void given(int64_t a, int64_t b, Numbers& out, Numbers& mass);

    // Adds to the next vectors of two binary variables the sum of a function of each that is
    // nearest to row (2, 2), in mean square; back: p(x | y), mass: p(y).
    void add_nearest_sum(int64_t a, int64_t b, const Numbers& row, const Numbers& back,
                         const Numbers& mass);

    // Pairs of edges of one factor by which the path leads from variable u to v of one tree.
    void path(int64_t u, int64_t v, std::vector<std::pair<int64_t, int64_t>>& steps) const;

    // A pair outside the forest whose path goes through pairs of binary variables only, without
    // zeros of its own: its table is c + alpha x + beta y + both x y.
    struct Crossing {
        int64_t factor, u, v, meet;  // meet: where the ways up from u and v meet
        int64_t at_u, at_v, table;   // of its entries
        int64_t end_u, end_v, met;   // in ended_at and met_at
        double alpha, beta, both;
    };
    std::vector<Crossing> crossing;
    struct Below {  // a variable below another by a pair
        int64_t v, above, at_v, at_above, table;
        bool is_last;  // of the two
    };
    std::vector<Below> downwards;  // parents first
    std::vector<char> crosses;     // of a factor
    // The joint of a variable with the one above, (above, own).
    struct Link {
        double joint[4], covariance;
        bool is_weak;
    };
    std::vector<Link> link;
    // Sums over the links from a root down to a variable: of the logs of their correlations' sizes,
    // and how many of these are 0, negative or weak.
    struct Way {
        double log_size;
        int32_t zeros, negative, weak;
    };
    std::vector<Way> way_to;
    Numbers crossed, ends;
    Numbers tie, product;  // of links: the logs of correlations; of crossings: their products
    std::vector<int64_t>
        first_below;  // of a place in `order`: where its links begin in `downwards`
    // What crossings give the variables where they end, and where they meet: those of a variable
    // stand together.
    struct End {
        double both, node;
    };
    std::vector<End> ended_at;
    Numbers met_at;
    std::vector<int64_t> end_ptr, meet_ptr;  // (n + 1,) of a variable: where they begin
    std::vector<char> is_walked;             // of a crossing: nearly independent links hide some
    std::vector<Sums> parts;                 // of the value, by blocks

    // Finds the crossings: the forest stays as it is.
    void find_crossings();
    void find_meetings();
    void read_links(int64_t first, int64_t last);
    // What crossings add to the value, and to what leads to the next.
    Sums assess_block(int64_t first, int64_t last);
    void gather(int64_t v);
    void add_below(int64_t first, int64_t last);
    void take_ends(int64_t v);
    void take_links(int64_t first, int64_t last);
    // The part of assess() for crossings, without a walk along their paths: Cov(u, v) is a product
    // of correlations, and what a pair adds to each table that its path goes through is
    // both Cov(u, v) / Cov(of that table), so that sums over subtrees have those of all pairs.
    void assess_crossings();
    // Along the path of one: what a nearly independent pair of variables, or a certain one, hides.
    void walk(const Crossing& c);
    std::vector<int64_t> way, back;  // its scratch
    Numbers towards, from;
    void joint_of(const Crossing& c, double* out) const;
    // Those of all crossings, after assess().
    void crossing_joints();

    // The terms of the value that stand alone, and where a step leads but for other factors.
    void assess_terms();

    // The value of q, and where a whole step leads. `joints`: those of other pairs than crossings,
    // too.
    void assess(bool joints);

    // A zero of a factor outside the forest is finite during the ascent; the bound has it as it is.
    static double held(double x) { return x > -INFINITY ? x : -1e4; }
    static Numbers all_held(Numbers x) {
        for (double& y : x) y = held(y);
        return x;
    }
};

}  // namespace vs::messages
