// The tables of cliques that many questions meet.
#include <algorithm>
#include <cmath>

#include "core/at.h"
#include "core/sum.h"
#include "junction/many.h"
#include "junction/poll.h"

namespace vs::junction {
namespace {

constexpr double kFarApart = -600.0;  // log of entries of a clique, below its largest

// The numbers of the settings of `vars` in a table over `scope` (living values, or the original
// ones with `card`); the last variable of `vars` changes fastest.
template <class Scope>
std::vector<int64_t> settings_in(const Domains& d, const Set& vars, const Scope* scope,
                                 int64_t arity, const int64_t* card) {
    std::vector<int64_t> found(1, 0);
    std::vector<int64_t> stride(at(arity));
    int64_t size = 1;
    for (int64_t i = arity; i-- > 0;) {
        const int64_t v = scope[i];
        stride[at(i)] = size;
        size *= card ? card[v] : d.size(v);
        // A variable with one state left is in no clique.
        if (card && d.size(v) == 1) found[0] += stride[at(i)] * d.values(v)[0];
    }
    for (const int32_t v : vars) {
        int64_t step = 0;
        for (int64_t i = 0; i < arity; ++i) {
            if (scope[i] == v) step = stride[at(i)];
        }
        const int64_t k = d.size(v);
        std::vector<int64_t> next;
        next.reserve(found.size() * at(k));
        for (const int64_t x : found) {
            for (int64_t y = 0; y < k; ++y) next.push_back(x + step * (card ? d.values(v)[y] : y));
        }
        found.swap(next);
    }
    return found;
}

std::vector<int32_t> small(const std::vector<int64_t>& x) { return {x.begin(), x.end()}; }

// Those of the entries that are kept.
template <class T>
void keep(const std::vector<int32_t>& kept, std::vector<T>* x) {
    for (size_t i = 0; i < kept.size(); ++i) (*x)[i] = (*x)[at(kept[i])];
    x->resize(kept.size());
}

}  // namespace

Many::Many(const Graph& g, const Domains& d, const CliqueTree& t, const TableLayout& l)
    : g_(g),
      d_(d),
      clique_(t.clique.size()),
      place_(at(g.n)),
      first_(at(g.n)),
      read_below_(at(g.n)) {
    for (int64_t v = 0; v < g.n; ++v) {
        place_[at(v)].assign(at(g.card[v]), -1);
        for (int64_t x = 0; x < d.size(v); ++x) {
            place_[at(v)][at(d.values(v)[x])] = static_cast<int32_t>(x);
        }
        first_[at(v)] = n_states_;
        if (d.size(v) > 1) n_states_ += d.size(v);
    }
    for (size_t c = 0; c < clique_.size(); ++c) {
        Clique& own = clique_[c];
        own.parent = t.parent[c];
        const Set separator = live(d, t.separator[c]);
        own.vars = separator;
        for (const int32_t v : live(d, t.clique[c])) {
            if (!has(separator, v)) own.vars.push_back(v);
        }
        own.n_separator = static_cast<int64_t>(settings(d, separator));
        own.first_message = n_messages_;
        n_messages_ += own.n_separator;
        entries_ += settings(d, own.vars);
        for (const Static& s : l.clique[c].statics) {
            for (const int64_t f : s.factors) own.factors.push_back(f);
        }
        for (const int32_t v : own.vars) {
            if (has(separator, v)) continue;
            own.home.push_back({v, {}, false});
        }
    }
    for (size_t c = 0; c < clique_.size(); ++c) {
        if (clique_[c].parent < 0) continue;
        clique_[at(clique_[c].parent)].child.push_back({static_cast<int32_t>(c), {}, false});
    }
    for (Clique& own : clique_) choose_rows(&own, t);
    std::vector<double> work(at(g.n), 0.0);
    for (const Clique& own : clique_) {
        for (const int32_t v : own.vars) work[at(v)] += settings(d, own.vars);
    }
    for (int64_t v = 0; v < g.n; ++v) by_work_.push_back(static_cast<int32_t>(v));
    std::stable_sort(by_work_.begin(), by_work_.end(),
                     [&](int32_t a, int32_t b) { return work[at(a)] > work[at(b)]; });
    // A variable's marginal is read from the smallest message into its clique that has it.
    for (Clique& own : clique_) {
        for (const Meeting& home : own.home) {
            int32_t best = -1;
            for (const Meeting& k : own.child) {
                const Clique& below = clique_[at(k.which)];
                if (!has(live(d, t.separator[at(k.which)]), home.which)) continue;
                if (best < 0 || below.n_separator < clique_[at(best)].n_separator) best = k.which;
            }
            if (best < 0) continue;
            read_below_[at(home.which)] = 1;
            clique_[at(best)].read.push_back({home.which, {}, false});
        }
    }
}

// Puts those variables last that fewest messages from below have: rows run over some of them.
void Many::choose_rows(Clique* c, const CliqueTree& t) const {
    constexpr int64_t kRow = 4, kLongRow = 64;  // entries that are worth a row; and no message
    const auto first = c->vars.end() - static_cast<std::ptrdiff_t>(c->home.size());
    const auto met = [&](int32_t v) {
        return std::count_if(c->child.begin(), c->child.end(),
                             [&](const Meeting& k) { return has(t.separator[at(k.which)], v); });
    };
    std::stable_sort(first, c->vars.end(), [&](int32_t a, int32_t b) {
        return met(a) != met(b) ? met(a) > met(b) : d_.size(a) < d_.size(b);
    });
    for (auto v = c->vars.end(); v != first; --v) {
        const int64_t wider = c->width * d_.size(*(v - 1));
        if (c->width >= kRow && (met(*(v - 1)) > 0 || wider > kLongRow)) break;
        c->width = wider;
    }
}

Set Many::separator_of(const Clique& c) const {
    return Set(c.vars.begin(), c.vars.begin() + (c.vars.size() - c.home.size()));
}

// Finds what every entry of a clique meets, zeros included.
void Many::place(Clique* c) {
    const Set separator = separator_of(*c);
    for (Meeting& k : c->child) {
        const Set shared = separator_of(clique_[at(k.which)]);
        const int64_t n = static_cast<int64_t>(shared.size());
        k.at = small(settings_in(d_, c->vars, shared.data(), n, nullptr));
    }
    for (Meeting& h : c->home) h.at = small(settings_in(d_, c->vars, &h.which, 1, nullptr));
    for (Meeting& r : c->read) r.at = small(settings_in(d_, separator, &r.which, 1, nullptr));
    for (std::vector<Meeting>* some : {&c->child, &c->home}) {
        for (Meeting& k : *some) {
            for (size_t e = 0; e < k.at.size(); ++e) {
                k.varies = k.varies || k.at[e] != k.at[e - e % at(c->width)];
            }
        }
    }
    c->family.clear();
    for (const int64_t f : c->factors) {
        const Factor x = factor_of(g_, f, nullptr);
        c->family.push_back({f, settings_in(d_, c->vars, x.scope, x.arity, g_.card)});
    }
}

Status Many::load_clique(Clique* c, const double* const* table, const double* const* soft,
                         Control* control) {
    Poll poll{control};
    const bool fresh = c->entry.empty();
    if (fresh) place(c);
    const size_t n = fresh ? at(static_cast<int64_t>(settings(d_, c->vars))) : c->psi.size();
    c->psi.assign(n, 0.0);
    for (const Family& f : c->family) {
        const double* const logs =
            f.factor < g_.n_factors ? table[f.factor] : soft[f.factor - g_.n_factors];
        for (size_t e = 0; e < n; ++e) c->psi[e] += logs[f.at[e]];
        if (!poll.go_on_after(static_cast<int64_t>(n))) return kCancelled;
    }
    const double top = n == 0 ? -INFINITY : *std::max_element(c->psi.begin(), c->psi.end());
    if (top == -INFINITY) {
        possible_ = false;
        return kOk;
    }
    shift_ += top;
    std::vector<int32_t> kept;
    bool far = false;
    for (size_t e = 0; e < n; ++e) {
        const double x = c->psi[e] - top;
        far = far || (x < kFarApart && x > -INFINITY);
        c->psi[e] = std::exp(x);
        if (x > -INFINITY) kept.push_back(static_cast<int32_t>(e));
    }
    if (far) return kWiden;
    if (!fresh) return kOk;
    // Entries of one setting of the separator lie side by side, and so do those of a row.
    const int64_t inner = static_cast<int64_t>(n) / c->n_separator;
    std::vector<int32_t> heads;  // the first entry of each row that has any
    c->row.assign(at(c->n_separator + 1), 0);
    for (size_t i = 0; i < kept.size(); ++i) {
        if (i > 0 && kept[i] / c->width == kept[i - 1] / c->width) continue;
        heads.push_back(kept[i]);
        c->entry.push_back(static_cast<int32_t>(i));
        ++c->row[at(kept[i] / inner + 1)];
    }
    c->entry.push_back(static_cast<int32_t>(kept.size()));
    for (int64_t s = 0; s < c->n_separator; ++s) c->row[at(s + 1)] += c->row[at(s)];
    keep(kept, &c->psi);
    for (std::vector<Meeting>* some : {&c->child, &c->home}) {
        for (Meeting& k : *some) keep(k.varies ? kept : heads, &k.at);
    }
    for (Family& f : c->family) keep(kept, &f.at);
    return kOk;
}

Status Many::load(const double* const* table, const double* const* soft, Control* control) {
    Sum total;
    possible_ = true;
    shift_ = 0.0;
    n_entries_ = 0;
    for (Clique& c : clique_) {
        const Status status = load_clique(&c, table, soft, control);
        if (status != kOk) return status;
        total.add(shift_);
        shift_ = 0.0;
        c.first_entry = n_entries_;
        n_entries_ += static_cast<int64_t>(c.psi.size());
    }
    // Factors of which every variable is decided are in no clique.
    for (int64_t f = 0; f < g_.n_factors + g_.n; ++f) {
        const Factor x = factor_of(g_, f, soft);
        const double* const logs = f < g_.n_factors ? table[f] : x.table;
        if (logs == nullptr) continue;
        int64_t entry = 0;
        bool decided = true;
        for (int64_t i = 0; i < x.arity; ++i) {
            decided = decided && d_.size(x.scope[i]) == 1;
            entry = entry * g_.card[x.scope[i]] + d_.values(x.scope[i])[0];
        }
        if (!decided) continue;
        if (logs[entry] == -INFINITY) {
            possible_ = false;
        } else {
            total.add(logs[entry]);
        }
    }
    shift_ = total.total();
    return kOk;
}

}  // namespace vs::junction
