#include "junction/propagation.h"

#include "core/ln2.h"
#include "junction/workspace.h"

namespace vs::junction {
namespace {

constexpr double kSmallest = -400.0;  // log of a mass below which products may have been lost

template <class A>
double share_of(typename A::T x, typename A::T total, bool logs) {
    return logs ? A::log_of(A::ratio(x, total)) : A::share(x, total);
}

template <class A>
typename A::T sum_of(const std::vector<typename A::T>& list) {
    typename A::T total = A::zero();
    for (const auto& x : list) total = A::add(total, x);
    return total;
}

}  // namespace

template <class A>
void Propagation<A>::keep(const std::vector<uint8_t>& tables, std::vector<uint8_t> messages) {
    for (size_t c = 0; c < s_.clique.size(); ++c) {  // children come first
        messages[c] = messages[c] && tables[c];
        if (!messages[c] && s_.c.t.parent[c] >= 0) messages[s_.c.t.parent[c]] = 0;
        s_.clique[c].loaded = s_.clique[c].loaded && tables[c];
        s_.clique[c].sent = s_.clique[c].sent && messages[c];
    }
}

template <class A>
int64_t Propagation<A>::n_sent() const {
    return std::count_if(s_.clique.begin(), s_.clique.end(), [](const auto& c) { return c.sent; });
}

template <class A>
bool Propagation<A>::lossless() const {
    return std::all_of(s_.clique.begin(), s_.clique.end(),
                       [](const auto& c) { return c.loss == -INFINITY; });
}

template <class A>
bool Propagation<A>::faithful() const {
    return lossless() && !s_.lost.load(std::memory_order_relaxed);
}

// f(score) of each factor of which every variable is decided. False where one of them forbids that.
template <class A>
template <class F>
bool Propagation<A>::each_decided(const double* const* soft, F each) const {
    const Graph& g = s_.c.g;
    const Domains& d = s_.c.d;
    for (int64_t f = 0; f < g.n_factors + g.n; ++f) {
        const Factor x = factor_of(g, f, soft);
        if (x.table == nullptr) continue;
        int64_t at = 0;
        bool decided = true;
        for (int64_t i = 0; i < x.arity; ++i) {
            const int64_t v = x.scope[i];
            decided = decided && d.size(v) == 1;
            at = at * g.card[v] + d.values(v)[0];
        }
        if (!decided) continue;
        if (x.table[at] == -INFINITY) return false;
        each(x.table[at]);
    }
    return true;
}

template <class A>
Status Propagation<A>::run(const double* const* soft, bool upward_only, int threads,
                           Control* control) {
    Sum total;
    if (!each_decided(soft, [&](double score) { total.add(score); })) return kInfeasible;
    s_.soft = soft;
    if (!upward_only) {
        s_.lost.store(false);
        const size_t n_queries = s_.c.queries.size();  // others may have been asked for since
        s_.query.resize(n_queries);
        for (auto& one : s_.clique) one.asked.clear();
        for (size_t q = 0; q < n_queries; ++q) {
            const int32_t c = s_.c.queries[q].clique;
            if (c >= 0) s_.clique[c].asked.push_back(static_cast<int32_t>(q));
        }
    }
    const Status status = walk(&s_, upward_only, threads, control);
    if (status != kOk) return status;
    // Exponents are added as whole numbers, so that log Z errs by a few eps times the largest
    // partial score, however many cliques there are. Hardly any is positive, and all of them
    // together are log2 of Z less that of the tables' largest entries: see kLargestSum.
    int64_t bits = 0;
    for (size_t c = 0; c < s_.clique.size(); ++c) {
        const auto& one = s_.clique[c];
        total.add(s_.shift[c].value);
        total.rest += s_.shift[c].rest;
        bits += static_cast<int64_t>(one.scale) + static_cast<int64_t>(one.tail);
        if (s_.c.t.parent[c] < 0) total.add(A::log_of(one.message[0]));
    }
    const double high = static_cast<double>(bits);
    double rest;
    total.add(VS_NS::log_of_power(high, &rest));
    total.add(rest + static_cast<double>(bits - static_cast<int64_t>(high)) * kLn2);
    log_z_ = total.total();
    return kOk;
}

template <class A>
std::vector<int32_t> Propagation<A>::between(const std::vector<int32_t>& variables) const {
    std::vector<int32_t> found, left;
    for (int32_t v : variables) {
        if (s_.c.d.size(v) > 1) left.push_back(s_.c.t.home[v]);
    }
    while (!left.empty()) {  // children come before their parents
        const int32_t c = *std::min_element(left.begin(), left.end());
        left.erase(std::remove(left.begin(), left.end(), c), left.end());
        found.push_back(c);
        if (!left.empty() && s_.c.t.parent[c] >= 0) left.push_back(s_.c.t.parent[c]);
    }
    return found;
}

template <class A>
typename A::T Propagation<A>::mass_at(int32_t c) const {
    const auto& own = s_.clique[c];
    if (s_.c.t.parent[c] < 0) return own.message[0];
    typename A::T sum = A::zero();
    for (size_t e = 0; e < own.message.size(); ++e) {
        sum = A::add(sum, A::mul(own.message[e], own.belief[e]));
    }
    return sum;
}

template <class A>
bool Propagation<A>::weigh(int32_t c, int32_t v, const double* before, const double* now) {
    const Domains& d = s_.c.d;
    const CliqueLayout& l = s_.c.l.clique[c];
    const int64_t n = d.size(v);
    std::vector<double> gain(static_cast<size_t>(n), -INFINITY);
    double top = -INFINITY, low = INFINITY;
    for (int64_t x = 0; x < n; ++x) {
        const int32_t at = d.values(v)[x];
        if (before[at] == -INFINITY || now[at] == -INFINITY) continue;
        gain[x] = now[at] - before[at];
        top = std::max(top, gain[x]);
        low = std::min(low, gain[x]);
    }
    if (top == -INFINITY) return false;
    std::vector<typename A::T> by(static_cast<size_t>(n));
    for (int64_t x = 0; x < n; ++x) by[x] = A::from_log(gain[x] - top);
    for (size_t i = 0; i < l.statics.size(); ++i) {
        const auto& factors = l.statics[i].factors;
        if (std::find(factors.begin(), factors.end(), s_.c.g.n_factors + v) == factors.end()) {
            continue;
        }
        std::vector<typename A::T>& table = s_.clique[c].tables[i];
        const int64_t stride = l.statics[i].dims.stride_of(v);
        auto* to = table.data();
        for (auto* const end = to + table.size(); to < end;) {
            for (int64_t x = 0; x < n; ++x) {
                for (int64_t t = 0; t < stride; ++t, ++to) *to = A::mul(*to, by[x]);
            }
        }
        s_.clique[c].low[i] += (low - top) / kLn2;
    }
    s_.shift[c].add(top);
    return true;
}

template <class A>
Status Propagation<A>::log_ratio(const double* const* soft, const std::vector<int32_t>& changed,
                                 Control* control, double* ratio) {
    using Clique = typename State<A>::Clique;
    if (A::kChecked && !faithful()) return kWiden;
    Sum total;
    int64_t bits = 0;
    const double* const* const before = s_.soft;
    for (int32_t v : changed) {
        if (s_.c.d.size(v) != 1) continue;
        const int32_t x = s_.c.d.values(v)[0];
        if (soft[v][x] == -INFINITY) return kInfeasible;
        total.add(soft[v][x]);
        total.add(-before[v][x]);
    }
    const std::vector<int32_t> cliques = between(changed);
    // The mass is taken at the roots of the list: cliques whose parent is not in it.
    std::vector<int32_t> roots;
    for (int32_t c : cliques) {
        const int32_t above = s_.c.t.parent[c];
        if (above < 0 || !std::binary_search(cliques.begin(), cliques.end(), above)) {
            roots.push_back(c);
        }
    }
    const auto count = [&](double sign) {
        for (int32_t c : cliques) {
            const Clique& own = s_.clique[c];
            total.add(sign * s_.shift[c].value);
            total.rest += sign * s_.shift[c].rest;
            bits += static_cast<int64_t>(sign) *
                    (static_cast<int64_t>(own.scale) + static_cast<int64_t>(own.tail));
        }
    };
    count(-1.0);
    std::vector<typename A::T> masses;
    for (int32_t c : roots) masses.push_back(mass_at(c));
    bool possible = true;
    std::vector<Clique> kept(cliques.size());
    std::vector<Sum> shift;
    for (size_t i = 0; i < cliques.size(); ++i) {
        Clique& own = s_.clique[cliques[i]];
        Clique& to = kept[i];
        std::swap(own, to);
        own.belief.swap(to.belief);
        own.product.swap(to.product);
        own.spread.swap(to.spread);
        shift.push_back(s_.shift[cliques[i]]);
        own.tables.swap(to.tables);
        own.low.swap(to.low);
        own.loaded = true;
        bool copied = false;
        for (int32_t v : changed) {
            if (s_.c.d.size(v) < 2 || s_.c.t.home[v] != cliques[i]) continue;
            if (!copied) {
                to.tables = own.tables;
                to.low = own.low;
            }
            copied = true;
            possible = weigh(cliques[i], v, before[v], soft[v]) && possible;
        }
    }
    Status status = possible ? walk_up(&s_, cliques, control) : kInfeasible;
    if (status == kOk) {
        count(1.0);
        for (size_t i = 0; i < roots.size(); ++i) {
            const typename A::T now = mass_at(roots[i]);
            const bool small = A::is_zero(now) || A::less(now, A::from_log(kSmallest)) ||
                               A::less(masses[i], A::from_log(kSmallest));
            if (A::kChecked ? small : A::is_zero(now)) {
                status = A::kChecked ? kWiden : kInfeasible;
                break;
            }
            total.add(A::log_of(now));
            total.add(-A::log_of(masses[i]));
        }
        for (int32_t c : cliques) {
            if (A::kChecked && s_.clique[c].loss != -INFINITY) status = kWiden;
        }
    }
    for (size_t i = 0; i < cliques.size(); ++i) {
        Clique& own = s_.clique[cliques[i]];
        Clique& to = kept[i];
        own.belief.swap(to.belief);
        own.product.swap(to.product);
        own.spread.swap(to.spread);
        if (to.tables.empty()) {
            own.tables.swap(to.tables);
            own.low.swap(to.low);
        }
        std::swap(own, to);
        s_.shift[cliques[i]] = shift[i];
    }
    *ratio = total.total() + kLn2 * static_cast<double>(bits);
    return status;
}

template <class A>
void Propagation<A>::marginals(const int64_t* ptr, bool logs, double* out) const {
    const Domains& d = s_.c.d;
    std::fill(out, out + ptr[s_.c.g.n], logs ? -INFINITY : 0.0);
    for (int64_t v = 0; v < s_.c.g.n; ++v) {
        const int32_t* value = d.values(v);
        double* p = out + ptr[v];
        if (d.size(v) == 1) {
            p[value[0]] = logs ? 0.0 : 1.0;
            continue;
        }
        const typename A::T total = sum_of<A>(s_.marginal[v]);
        for (int64_t x = 0; x < d.size(v); ++x) {
            p[value[x]] = share_of<A>(s_.marginal[v][x], total, logs);
        }
    }
}

template <class A>
void Propagation<A>::query(size_t q, bool logs, double* out) const {
    if (s_.c.queries[q].clique < 0) {  // everything is decided
        out[0] = logs ? 0.0 : 1.0;
        return;
    }
    const typename A::T total = sum_of<A>(s_.query[q]);
    for (size_t i = 0; i < s_.query[q].size(); ++i) {
        out[i] = share_of<A>(s_.query[q][i], total, logs);
    }
}

template <class A>
ExpectedScore Propagation<A>::expected() const {
    ExpectedScore found;
    each_decided(s_.soft, [&](double score) {
        found.score.add(score);
        found.magnitude.add(std::fabs(score));
    });
    size_t q = 0;
    std::vector<double> p;
    for (const CliqueLayout& l : s_.c.l.clique) {
        for (const Static& table : l.statics) {
            p.resize(static_cast<size_t>(s_.c.queries[q].dims.size));
            query(q, false, p.data());
            for (int64_t f : table.factors) {
                const Factor x = factor_of(s_.c.g, f, s_.soft);
                add_expected(s_.c.g, s_.c.d, x, s_.c.queries[q].vars, p, &found);
            }
            ++q;
        }
    }
    return found;
}

template class Propagation<Linear64>;
template class Propagation<LinearWide>;
template void Propagation<MaxLogs>::keep(const std::vector<uint8_t>&, std::vector<uint8_t>);
template Status Propagation<MaxLogs>::run(const double* const*, bool, int, Control*);

}  // namespace vs::junction
