// Crossings in the value of a field; see Field::assess.
//
// Let a pair outside the forest have the table c + alpha x + beta y + J x y, and u = z_0, z_1, ...,
// z_n = v be the path between its variables, all binary. p(u = 1 | z_i) is s_i + l_i z_i, l_i being
// a product of Cov(z_j, z_j+1) / Var(z_j+1); p(v = 1 | z_i) is t_i + m_i z_i. The derivative by the
// table of (z_i, z_i+1), less those by the variables in between, is then, up to functions of single
// variables that cancel,
//
//   J l_i m_i+1 z_i z_i+1 = J Cov(u, v) / Cov(z_i, z_i+1) z_i z_i+1,
//
// and for single variables: less that times p(z_i+1 = 1 | z_i = 0), and likewise of z_i; less
// J Cov(u, v) / Var(z_i) for each in between; alpha + J t_0 and beta + J s_n at the ends.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "messages/field.h"
#include "pool/blocks.h"

namespace vs::messages {
namespace {

constexpr int64_t kStretch = 1024;  // variables of a task

}  // namespace

void Network::Field::find_crossings() {
    crosses.assign(at(l.n_factors_), 0);
    std::vector<int64_t> hard(at(l.n_), 0);  // links above that are no pairs of binary variables
    for (int64_t f : order) {
        const int64_t first = l.factor_ptr_[at(f)];
        first_below.push_back(static_cast<int64_t>(downwards.size()));
        for (int64_t e = first; e < l.factor_ptr_[at(f + 1)]; ++e) {
            if (e == above[at(f)]) continue;
            const int64_t v = l.edge_var_[at(e)];
            hard[at(v)] = hard[at(parent_of(v))] + (pair[at(f)] ? 0 : 1);
            if (!pair[at(f)]) continue;
            const int64_t p = parent_of(v);
            downwards.push_back(
                {v, p, l.var_at_[at(v)], l.var_at_[at(p)], l.table_at_[at(f)], e > first});
        }
    }
    first_below.push_back(static_cast<int64_t>(downwards.size()));
    for (int64_t f : outside) {
        const int64_t first = l.factor_ptr_[at(f)];
        if (arity(f) != 2 || l.structured_at(f)) continue;
        if (ended(crossing.size())) return;
        int64_t u = l.edge_var_[at(first)], v = l.edge_var_[at(first + 1)];
        if (root[at(u)] != root[at(v)] || l.card_[at(u)] != 2 || l.card_[at(v)] != 2) continue;
        const double* t = table_of(f);
        if (!std::all_of(t, t + 4, [](double x) { return x > -INFINITY; })) continue;
        Crossing c{
            f,  u,  v,  -1,          l.var_at_[at(u)], l.var_at_[at(v)],         l.table_at_[at(f)],
            -1, -1, -1, t[2] - t[0], t[1] - t[0],      t[3] - t[2] - t[1] + t[0]};
        while (u != v) {
            if (depth[at(u)] >= depth[at(v)]) {
                u = parent_of(u);
            } else {
                v = parent_of(v);
            }
        }
        if (hard[at(c.u)] + hard[at(c.v)] != 2 * hard[at(u)]) continue;
        c.meet = u;
        crosses[at(f)] = 1;
        crossing.push_back(c);
    }
    link.assign(at(l.n_), Link{});
    way_to.assign(at(l.n_), Way{});
    tie.resize(downwards.size());
    if (!crossing.empty()) find_meetings();
}

void Network::Field::find_meetings() {
    end_ptr.assign(at(l.n_ + 1), 0);
    meet_ptr.assign(at(l.n_ + 1), 0);
    for (const Crossing& c : crossing) {
        ++end_ptr[at(c.u + 1)];
        ++end_ptr[at(c.v + 1)];
        ++meet_ptr[at(c.meet + 1)];
    }
    std::partial_sum(end_ptr.begin(), end_ptr.end(), end_ptr.begin());
    std::partial_sum(meet_ptr.begin(), meet_ptr.end(), meet_ptr.begin());
    std::vector<int64_t> ends_at(end_ptr), meets_at(meet_ptr);
    for (Crossing& c : crossing) {
        c.end_u = ends_at[at(c.u)]++;
        c.end_v = ends_at[at(c.v)]++;
        c.met = meets_at[at(c.meet)]++;
    }
    ended_at.resize(2 * crossing.size());
    met_at.resize(crossing.size());
    is_walked.resize(crossing.size());
    crossed.resize(at(l.n_));
    ends.resize(at(l.n_));
    product.resize(crossing.size());
}

void Network::Field::read_links(int64_t begin, int64_t end) {
    const size_t first = at(begin), last = at(end);
    for (size_t i = first; i < last; ++i) {
        const Below& d = downwards[i];
        const double* p = joint.data() + d.table;
        Link& k = link[at(d.v)];
        k.joint[0] = p[0];
        k.joint[1] = d.is_last ? p[1] : p[2];
        k.joint[2] = d.is_last ? p[2] : p[1];
        k.joint[3] = p[3];
        k.covariance = p[0] * p[3] - p[1] * p[2];
        const double *a = q.data() + d.at_above, *b = q.data() + d.at_v;
        const double va = a[0] * a[1], vb = b[0] * b[1];
        const bool some = va > 0.0 && vb > 0.0 && k.covariance != 0.0;
        const double r = some ? std::min(1.0, std::fabs(k.covariance) / std::sqrt(va * vb)) : 0.0;
        const Way& from = way_to[at(d.above)];
        Way& way = way_to[at(d.v)];
        tie[i] = r;
        k.is_weak = !(r > kWeak) || !(std::fabs(k.covariance) > kWeak);
        way.negative = from.negative + (k.covariance < 0.0 ? 1 : 0);
        way.weak = from.weak + (k.is_weak || !(va > kWeak) || !(vb > kWeak) ? 1 : 0);
    }
    level().logs(tie.data() + first, end - begin);
    for (size_t i = first; i < last; ++i) {
        const Way& from = way_to[at(downwards[i].above)];
        Way& way = way_to[at(downwards[i].v)];
        const bool some = tie[i] > -INFINITY;
        way.log_size = from.log_size + (some ? tie[i] : 0.0);
        way.zeros = from.zeros + (some ? 0 : 1);
    }
}

// The part of assess() that has all crossings: assess_block() tells what each is worth, variables
// gather that of those that end and meet there, and sums over subtrees have what goes through each
// link of the forest.
void Network::Field::assess_crossings() {
    if (crossing.empty()) return;
    run_blocks(*g_pool, "variables", l.n_, kStretch, threads, control,
               [&](int64_t v, int64_t last) {
                   for (; v < last; ++v) gather(v);
               });
    const bool walks = std::find(is_walked.begin(), is_walked.end(), 1) != is_walked.end();
    const Plan plan = to_roots.view("crossings");
    run_items(*g_pool, plan, threads, control, [&](Item item) {
        const int64_t first = first_below[at(item.first)], last = first_below[at(item.last)];
        add_below(first, last);
        if (!walks) take_links(first, last);
    });
    for (int64_t v : roots) take_ends(v);
    if (!walks) return;
    for (size_t i = 0; i < crossing.size() && !ended(i); ++i) {
        if (is_walked[i]) walk(crossing[i]);
    }
    run_items(*g_pool, plan, threads, control, [&](Item item) {
        take_links(first_below[at(item.first)], first_below[at(item.last)]);
    });
}

Sums Network::Field::assess_block(int64_t begin, int64_t end) {
    const size_t first = at(begin), last = at(end);
    for (size_t i = first; i < last; ++i) {
        const Crossing& c = crossing[i];
        const Way &a = way_to[at(c.u)], &b = way_to[at(c.v)], &m = way_to[at(c.meet)];
        const bool some = a.zeros + b.zeros == 2 * m.zeros;
        product[i] = some ? std::min(0.0, a.log_size + b.log_size - 2.0 * m.log_size) : -INFINITY;
        is_walked[i] = a.weak + b.weak != 2 * m.weak;
    }
    level().exps(product.data() + first, end - begin);
    Sums sums{0.0, 0.0};
    for (size_t i = first; i < last; ++i) {
        const Crossing& c = crossing[i];
        const Way &a = way_to[at(c.u)], &b = way_to[at(c.v)];
        const double *p = q.data() + c.at_u, *r = q.data() + c.at_v;
        const double vp = p[0] * p[1], vr = r[0] * r[1];
        double cov = product[i] * std::sqrt(vp * vr);
        cov = (a.negative + b.negative) % 2 == 0 ? cov : -cov;
        // No probability is negative.
        cov = std::min(cov, std::min(p[1] * r[0], p[0] * r[1]));
        cov = std::max(cov, -std::min(p[1] * r[1], p[0] * r[0]));
        const double* t = theta.data() + c.table;
        const double own[4] = {p[0] * r[0] + cov, p[0] * r[1] - cov, p[1] * r[0] - cov,
                               p[1] * r[1] + cov};
        // Without zeros of its own.
        sums.value += (own[0] * t[0] + own[1] * t[1]) + (own[2] * t[2] + own[3] * t[3]);
        sums.scale += (own[0] * std::fabs(t[0]) + own[1] * std::fabs(t[1])) +
                      (own[2] * std::fabs(t[2]) + own[3] * std::fabs(t[3]));
        const double given_u = vp > 0.0 ? r[1] - cov / p[0] : r[1];  // p(v = 1 | u = 0)
        const double given_v = vr > 0.0 ? p[1] - cov / r[0] : p[1];
        const double both = c.both * cov;
        ended_at[at(c.end_u)] = {both, c.alpha + c.both * given_u};
        ended_at[at(c.end_v)] = {both, c.beta + c.both * given_v};
        met_at[at(c.met)] = both;
    }
    return sums;
}

// What the crossings that end or meet at a variable give it.
void Network::Field::gather(int64_t v) {
    double both = 0.0, met = 0.0, node = 0.0;
    for (int64_t i = end_ptr[at(v)]; i < end_ptr[at(v + 1)]; ++i) {
        both += ended_at[at(i)].both;
        node += ended_at[at(i)].node;
    }
    for (int64_t i = meet_ptr[at(v)]; i < meet_ptr[at(v + 1)]; ++i) met += met_at[at(i)];
    crossed[at(v)] = both - 2.0 * met;
    ends[at(v)] = -both;  // add_below() makes it twice what has v in between
    if (end_ptr[at(v)] < end_ptr[at(v + 1)]) next_node[at(l.var_at_[at(v)] + 1)] += node;
}

// Sums over subtrees, of links whose variables above lie in one piece.
void Network::Field::add_below(int64_t first, int64_t last) {
    for (int64_t i = last; i-- > first;) {
        const int64_t v = downwards[at(i)].v, above_v = downwards[at(i)].above;
        crossed[at(above_v)] += crossed[at(v)];
        ends[at(v)] += crossed[at(v)];
        ends[at(above_v)] += crossed[at(v)];
        take_ends(v);
        if (link[at(v)].is_weak) {
            crossed[at(v)] = 0.0;  // walk() has it
        } else {
            crossed[at(v)] /= link[at(v)].covariance;
        }
    }
}

void Network::Field::take_ends(int64_t v) {
    const double* p = q.data() + l.var_at_[at(v)];
    if (l.card_[at(v)] != 2 || !(p[0] * p[1] > kWeak)) return;
    next_node[at(l.var_at_[at(v)] + 1)] -= 0.5 * ends[at(v)] / (p[0] * p[1]);
}

// The derivatives by the joints of links, less those by single variables.
void Network::Field::take_links(int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
        const Below& d = downwards[at(i)];
        const double both = crossed[at(d.v)];
        if (both == 0.0) continue;
        next_table[at(d.table + 3)] += both;
        const double *p = link[at(d.v)].joint, *own = q.data() + d.at_v;
        const double* over = q.data() + d.at_above;
        if (over[0] > 0.0) next_node[at(d.at_above + 1)] -= both * p[1] / over[0];
        if (own[0] > 0.0) next_node[at(d.at_v + 1)] -= both * p[2] / own[0];
    }
}

namespace {

// p(b = 1 | a = 0) and p(b = 1 | a = 1) of a joint of a and b, (a, b) or turned.
void conditional(const double* p, bool turned, double* low, double* high) {
    const double p01 = turned ? p[2] : p[1], p10 = turned ? p[1] : p[2];
    const double off = p[0] + p01, on = p10 + p[3];
    *low = off > 0.0 ? p01 / off : 0.0;
    *high = on > 0.0 ? p[3] / on : 0.0;
}

}  // namespace

void Network::Field::walk(const Crossing& c) {
    // Links from u to the meeting point, then from there down to v.
    way.clear();
    back.clear();
    for (int64_t x = c.u; x != c.meet; x = parent_of(x)) way.push_back(x);
    const size_t n_up = way.size();
    for (int64_t x = c.v; x != c.meet; x = parent_of(x)) back.push_back(x);
    way.insert(way.end(), back.rbegin(), back.rend());
    // towards[i]: what u's probability moves with the variable i links away; likewise from v.
    const size_t n = way.size();
    towards.assign(n + 1, 1.0);
    from.assign(n + 1, 1.0);
    double low, high;
    for (size_t i = 0; i < n; ++i) {
        // p(nearer to u | farther): upwards the farther one is the one above.
        conditional(link[at(way[i])].joint, i >= n_up, &low, &high);
        towards[i + 1] = towards[i] * (high - low);
    }
    for (size_t i = n; i-- > 0;) {
        conditional(link[at(way[i])].joint, i < n_up, &low, &high);
        from[i] = from[i + 1] * (high - low);
    }
    for (size_t i = 0; i < n; ++i) {
        if (link[at(way[i])].is_weak) crossed[at(way[i])] += c.both * towards[i] * from[i + 1];
        if (i == 0) continue;
        // The variable between links i - 1 and i.
        const int64_t v = i == n_up ? c.meet : i < n_up ? way[i] : way[i - 1];
        const double* p = q.data() + l.var_at_[at(v)];
        if (p[0] * p[1] > kWeak) continue;
        next_node[at(l.var_at_[at(v)] + 1)] -= c.both * towards[i] * from[i];
    }
}

void Network::Field::joint_of(const Crossing& c, double* out) const {
    // p(x at u or v, state of the variable reached), from each end to where they meet.
    const auto climb = [&](int64_t v, double* table) {
        table[0] = table[3] = 1.0;
        table[1] = table[2] = 0.0;
        for (; v != c.meet; v = parent_of(v)) {
            const double* p = link[at(v)].joint;
            const double off = p[0] + p[1], on = p[2] + p[3];
            for (int64_t x = 0; x < 2; ++x) {  // p(x | above) = sum p(x | own) p(own | above)
                const double a = table[2 * x], b = table[2 * x + 1];
                table[2 * x] = off > 0.0 ? (a * p[0] + b * p[1]) / off : 0.0;
                table[2 * x + 1] = on > 0.0 ? (a * p[2] + b * p[3]) / on : 0.0;
            }
        }
    };
    double left[4], right[4];
    climb(c.u, left);
    climb(c.v, right);
    const double* p = q.data() + l.var_at_[at(c.meet)];
    for (int64_t x = 0; x < 2; ++x) {
        for (int64_t y = 0; y < 2; ++y) {
            out[2 * x + y] =
                p[0] * left[2 * x] * right[2 * y] + p[1] * left[2 * x + 1] * right[2 * y + 1];
        }
    }
}

void Network::Field::crossing_joints() {
    const auto n = static_cast<int64_t>(crossing.size());
    run_blocks(*g_pool, "joints", n, kCrossings, threads, control, [&](int64_t i, int64_t last) {
        for (; i < last; ++i) joint_of(crossing[at(i)], joint.data() + crossing[at(i)].table);
    });
}

}  // namespace vs::messages
