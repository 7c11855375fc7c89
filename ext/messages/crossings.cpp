#include "messages/crossings.h"

#include "pool/blocks.h"

namespace vs::messages {

void Network::Field::find_crossings() {
    crosses.assign(at(l.n_factors_), 0);
    pair.assign(at(l.n_factors_), 0);
    std::vector<int64_t> hard(at(l.n_), 0);  // links above that are no pairs of binary variables
    for (int64_t f : order) {
        const int64_t first = l.factor_ptr_[at(f)];
        pair[at(f)] = arity(f) == 2 && !l.structured_at(f) && l.edge_card_[at(first)] == 2 &&
                      l.edge_card_[at(first + 1)] == 2;
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
    for (int64_t f : outside) {
        const int64_t first = l.factor_ptr_[at(f)];
        if (arity(f) != 2 || l.structured_at(f)) continue;
        if (ended(crossing.size())) return;
        int64_t u = l.edge_var_[at(first)], v = l.edge_var_[at(first + 1)];
        if (root[at(u)] != root[at(v)] || l.card_[at(u)] != 2 || l.card_[at(v)] != 2) continue;
        const double* t = table_of(f);
        if (!std::all_of(t, t + 4, [](double x) { return x > -INFINITY; })) continue;
        Crossing c{f,
                   u,
                   v,
                   -1,
                   l.var_at_[at(u)],
                   l.var_at_[at(v)],
                   l.table_at_[at(f)],
                   t[2] - t[0],
                   t[1] - t[0],
                   t[3] - t[2] - t[1] + t[0]};
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
}

void Network::Field::read_links() {
    tie.resize(downwards.size());
    for (size_t i = 0; i < downwards.size(); ++i) {
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
    level().logs(tie.data(), static_cast<int64_t>(tie.size()));
    for (size_t i = 0; i < downwards.size(); ++i) {
        const Way& from = way_to[at(downwards[i].above)];
        Way& way = way_to[at(downwards[i].v)];
        const bool some = tie[i] > -INFINITY;
        way.log_size = from.log_size + (some ? tie[i] : 0.0);
        way.zeros = from.zeros + (some ? 0 : 1);
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

namespace {

constexpr int64_t kCrossings = 256;  // of a task

}  // namespace

void Network::Field::crossing_joints(int threads) {
    const auto n = static_cast<int64_t>(crossing.size());
    run_blocks(*g_pool, "joints", n, kCrossings, threads, control, [&](int64_t i, int64_t last) {
        for (; i < last; ++i) joint_of(crossing[at(i)], joint.data() + crossing[at(i)].table);
    });
}

}  // namespace vs::messages
