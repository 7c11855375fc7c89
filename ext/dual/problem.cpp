#include "dual/problem.h"

#include <limits>

#include "messages/scopes.h"

namespace vs::dual {
namespace {

constexpr double kEps = std::numeric_limits<double>::epsilon();

// Calls f(entry, mask) for the entries of a table over k variables that agree with what is known;
// bit i of a mask is the state of variable i.
template <class F>
void agreeing(const std::vector<int8_t>& known, const int64_t* scope, int64_t k, F&& f) {
    int64_t given = 0, held = 0;
    for (int64_t i = 0; i < k; ++i) {
        const int8_t state = known[at(scope[i])];
        given |= int64_t{state >= 0} << i;
        held |= int64_t{state == 1} << i;
    }
    for (int64_t mask = 0; mask < int64_t{1} << k; ++mask) {
        if ((mask & given) != held) continue;
        int64_t entry = 0;
        for (int64_t i = 0; i < k; ++i) entry = 2 * entry + ((mask >> i) & 1);
        f(entry, mask);
    }
}

}  // namespace

// Fixes every variable to which evidence, or a table given what is known, leaves one state.
Status Problem::decide(const Control* control) {
    known.assign(at(g_.n), -1);
    std::vector<int64_t> waiting, ptr(at(g_.n + 1), 0), of;
    std::vector<uint8_t> queued(at(g_.n_factors), 0);
    const auto ask = [&](int64_t f) {
        if (g_.table[f] && !queued[at(f)]) waiting.push_back(f), queued[at(f)] = 1;
    };
    for (int64_t e = 0; e < g_.ptr[g_.n_factors]; ++e) ++ptr[at(g_.scope[e] + 1)];
    for (int64_t v = 0; v < g_.n; ++v) ptr[at(v + 1)] += ptr[at(v)];
    of.resize(at(ptr.back()));
    std::vector<int64_t> next(ptr);
    for (int64_t f = 0; f < g_.n_factors; ++f) {
        for (int64_t e = g_.ptr[f]; e < g_.ptr[f + 1]; ++e) of[at(next[at(g_.scope[e])]++)] = f;
        const int64_t size = int64_t{1} << (g_.table[f] ? g_.ptr[f + 1] - g_.ptr[f] : 0);
        for (int64_t i = 0; g_.table[f] && i < size; ++i) {
            if (g_.table[f][i] == -INFINITY) ask(f);
        }
        if (messages::cancelled(control, f)) return kCancelled;
    }
    const auto fix = [&](int64_t v, int8_t state) {
        known[at(v)] = state;
        for (int64_t i = ptr[at(v)]; i < ptr[at(v + 1)]; ++i) ask(of[at(i)]);
    };
    for (int64_t v = 0; v < g_.n; ++v) {
        const bool off = g_.local[2 * v] > -INFINITY, on = g_.local[2 * v + 1] > -INFINITY;
        if (!off && !on) return kInfeasible;
        if (off != on) fix(v, on);
    }
    for (int64_t step = 0; !waiting.empty(); ++step) {
        if (messages::cancelled(control, step, 256)) return kCancelled;
        const int64_t f = waiting.back(), k = g_.ptr[f + 1] - g_.ptr[f];
        waiting.pop_back();
        queued[at(f)] = 0;
        const int64_t* scope = g_.scope + g_.ptr[f];
        int64_t on = 0, off = 0;
        agreeing(known, scope, k, [&](int64_t entry, int64_t mask) {
            if (g_.table[f][entry] > -INFINITY) on |= mask, off |= ~mask;
        });
        for (int64_t i = 0; i < k; ++i) {
            const bool may = (on >> i) & 1, may_not = (off >> i) & 1;
            if (!may && !may_not) return kInfeasible;
            if (known[at(scope[i])] < 0 && may != may_not) fix(scope[i], may);
        }
    }
    return kOk;
}

// A table given what is known: a number, the odds of one variable, a pair, or a part.
void Problem::add_table(int64_t f, std::vector<Sum>* sums, Sum* base) {
    const int64_t *scope = g_.scope + g_.ptr[f], k = g_.ptr[f + 1] - g_.ptr[f];
    std::vector<int64_t> places, masks;
    for (int64_t i = 0; i < k; ++i) {
        if (known[at(scope[i])] < 0) places.push_back(i);
    }
    std::vector<double> scores;
    double most = 0.0;
    agreeing(known, scope, k, [&](int64_t entry, int64_t mask) {
        if (g_.table[f][entry] == -INFINITY) return;
        int64_t own = 0;
        for (size_t i = 0; i < places.size(); ++i) own |= ((mask >> places[i]) & 1) << i;
        masks.push_back(own);
        scores.push_back(g_.table[f][entry]);
        most = std::max(most, std::fabs(scores.back()));
    });
    rounding_ += 16.0 * kEps * most;
    const auto edge = [&](int64_t i, double more) {
        var.push_back(static_cast<int32_t>(scope[places[at(i)]]));
        origin.push_back(g_.ptr[f] + places[at(i)]);
        offset.push_back(more);
    };
    if (places.empty()) {
        base->add(scores[0]);
    } else if (places.size() == 1) {
        base->add(scores[0]);
        (*sums)[at(scope[places[0]])].add(scores[1] - scores[0]);
    } else if (places.size() == 2 && scores.size() == 4) {
        base->add(scores[0]);
        const double a = scores[1] - scores[0], b = scores[2] - scores[0];
        (*sums)[at(scope[places[0]])].add(a);
        (*sums)[at(scope[places[1]])].add(b);
        const double c = (scores[3] - scores[2]) - a;
        if (c == 0.0) return;
        couple.push_back(c);
        edge(0, a), edge(1, b);
    } else {
        const auto open_places = static_cast<int64_t>(places.size());
        part.push_back(std::make_unique<TablePart>(open_places, masks, scores));
        for (int64_t i = 0; i < open_places; ++i) edge(i, 0.0);
    }
}

Status Problem::lay_out(const Graph& graph, const Control* control) {
    g_ = graph;
    if (const Status found = decide(control); found != kOk) return found;
    std::vector<Sum> sums(at(g_.n));
    Sum base;
    base.add(g_.constant);
    for (int64_t v = 0; v < g_.n; ++v) {
        const double off = g_.local[2 * v], on = g_.local[2 * v + 1];
        const int8_t state = known[at(v)];
        base.add(state == 1 || (state < 0 && off == -INFINITY) ? on : off);
        if (state < 0) sums[at(v)].add(on - off), rounding_ += kEps * std::fabs(on - off);
    }
    // Pairs come first.
    const auto is_pair = [&](int64_t f) {
        int64_t places = 0;
        for (int64_t e = g_.ptr[f]; e < g_.ptr[f + 1]; ++e) places += known[at(g_.scope[e])] < 0;
        if (places > 2) return false;
        bool finite = true;
        const int64_t k = g_.ptr[f + 1] - g_.ptr[f];
        agreeing(known, g_.scope + g_.ptr[f], k, [&](int64_t entry, int64_t) {
            finite = finite && g_.table[f][entry] > -INFINITY;
        });
        return places < 2 || finite;
    };
    std::vector<int64_t> later;
    for (int64_t f = 0; f < g_.n_factors; ++f) {
        if (messages::cancelled(control, f)) return kCancelled;
        if (g_.table[f] && is_pair(f)) {
            add_table(f, &sums, &base);
        } else {
            later.push_back(f);
        }
    }
    // First places, then second ones.
    const auto apart = [&](auto* of) {
        auto both = *of;
        for (int64_t i = 0; i < n_pairs(); ++i) {
            (*of)[at(i)] = both[at(2 * i)];
            (*of)[at(i + n_pairs())] = both[at(2 * i + 1)];
        }
    };
    apart(&var), apart(&origin), apart(&offset);
    for (int64_t f : later) {
        if (messages::cancelled(control, f)) return kCancelled;
        const auto first = static_cast<int64_t>(var.size());
        if (g_.table[f]) {
            add_table(f, &sums, &base);
        } else {
            std::vector<int8_t> own;
            for (int64_t e = g_.ptr[f]; e < g_.ptr[f + 1]; ++e) {
                own.push_back(known[at(g_.scope[e])]);
                if (own.back() >= 0) continue;
                var.push_back(static_cast<int32_t>(g_.scope[e]));
                origin.push_back(e);
                offset.push_back(0.0);
            }
            if (messages::cancelled(control, 0)) return kCancelled;
            part.push_back(std::make_unique<StructuredPart>(g_.own[f], own));
            serial = serial || part.back()->serial();
            Part& p = *part.back();
            const std::vector<double> none(at(p.k), 0.0);
            std::vector<uint8_t> y(at(p.k));
            if (p.best(none.data(), 1.0, nullptr, y.data()) == -INFINITY) return kInfeasible;
        }
        part.back()->first = first;
    }
    base_ = base.total();
    rounding_ += kEps * std::fabs(base_);
    std::vector<int32_t> number(at(g_.n), -1);
    for (int64_t v = 0; v < g_.n; ++v) {
        if (known[at(v)] >= 0) continue;
        number[at(v)] = static_cast<int32_t>(open.size());
        open.push_back(v);
        odds.push_back(sums[at(v)].total());
        rounding_ += kEps * std::fabs(odds.back());
    }
    for (int32_t& v : var) v = number[at(v)];
    finish();
    return kOk;
}

void Problem::finish() {
    var_ptr.assign(open.size() + 1, 0);
    for (int32_t v : var) ++var_ptr[at(v + 1)];
    for (size_t v = 0; v < open.size(); ++v) var_ptr[v + 1] += var_ptr[v];
    var_edge.resize(var.size());
    std::vector<int64_t> next(var_ptr);
    for (int64_t e = 0; e < n_edges(); ++e) var_edge[at(next[at(var[at(e)])]++)] = e;
    Sum low;
    double size = std::fabs(base_);
    const auto add = [&](double x) {
        low.add(x);
        size += std::fabs(x);
    };
    low.add(base_);
    for (double o : odds) add(std::min(o, 0.0));
    for (double c : couple) add(std::min(c, 0.0));
    for (const auto& p : part) add(p->lowest());
    lowest_ = low.total() - rounding_ - 4.0 * kEps * size;
}

double Problem::score(const int64_t* states) const {
    Sum total;
    total.add(g_.constant);
    bool possible = true;
    const auto add = [&](double x) {
        possible = possible && x > -INFINITY;
        if (possible) total.add(x);
    };
    for (int64_t v = 0; v < g_.n; ++v) add(g_.local[2 * v + states[v]]);
    std::vector<int64_t> own;
    for (int64_t f = 0; f < g_.n_factors && possible; ++f) {
        int64_t entry = 0;
        own.clear();
        for (int64_t e = g_.ptr[f]; e < g_.ptr[f + 1]; ++e) {
            own.push_back(states[g_.scope[e]]);
            if (g_.table[f]) entry = 2 * entry + own.back();
        }
        add(g_.table[f] ? g_.table[f][entry] : g_.own[f]->log_potential(own.data()));
    }
    return possible ? total.total() : -INFINITY;
}

Status Problem::bound(const double* share, const Control* control, double* value) const {
    Sum total;
    double error = rounding_, size = std::fabs(base_);
    total.add(base_);
    const auto add = [&](double x) {
        total.add(x);
        size += std::fabs(x);
    };
    for (int64_t v = 0; v < n_open(); ++v) {
        Sum left;
        double own = std::fabs(odds[at(v)]);
        left.add(odds[at(v)]);
        for (int64_t i = var_ptr[at(v)]; i < var_ptr[at(v + 1)]; ++i) {
            const double s = share[var_edge[at(i)]];
            left.add(-s);
            own += std::fabs(s);
        }
        const auto terms = static_cast<double>(var_ptr[at(v + 1)] - var_ptr[at(v)] + 2) * kEps;
        error += 2.0 * kEps * std::fabs(left.total()) + 2.0 * terms * terms * own;
        if (left.total() > 0.0) add(left.total());
    }
    for (int64_t i = 0; i < n_pairs(); ++i) {
        const double a = share[i], b = share[i + n_pairs()], c = couple[at(i)];
        add(std::max(std::max(0.0, a + b + c), std::max(a, b)));
        error += 2.0 * kEps * (std::fabs(a) + std::fabs(b) + std::fabs(c));
    }
    std::vector<uint8_t> y;
    for (size_t i = 0; i < part.size(); ++i) {
        Part& p = *part[i];
        if (messages::cancelled(control, static_cast<int64_t>(i), p.large() ? 1 : 64)) {
            return kCancelled;
        }
        const double* s = share + p.first;
        y.resize(at(p.k));
        const double own = p.best(s, 1.0, nullptr, y.data());
        if (own != own) return kCancelled;
        double most = p.size();
        add(own);
        for (int64_t j = 0; j < p.k; ++j) {
            most += std::fabs(s[j]);
            if (y[at(j)]) add(s[j]);
        }
        // The corner is the best one up to rounding of sums of its entries.
        error += 2.0 * kEps * static_cast<double>(p.k + 16) * most;
    }
    const auto terms = static_cast<double>(n_edges() + n_open() + 16) * kEps;
    error += 2.0 * kEps * std::fabs(total.total()) + 2.0 * terms * terms * size;
    *value = std::nextafter(total.total() + error * (1.0 + 1e-6), INFINITY);
    return kOk;
}

}  // namespace vs::dual
