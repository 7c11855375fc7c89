#include "dual/rounding.h"

#include <algorithm>
#include <cmath>

#include "messages/scopes.h"

namespace vs::dual {
namespace {

constexpr int kSweeps = 10;  // over single variables, and of all together

}  // namespace

Rounding::Rounding(const Problem& problem) : p_(problem) {
    const int64_t n = p_.n_open(), pairs = 2 * p_.n_pairs();
    part_of_.assign(at(p_.n_edges() - pairs), 0);
    apart_.assign(at(n), 1);
    y_.assign(at(n), 0);
    held_.assign(at(n), -1);
    gain_.assign(at(n), 0.0);
    double size = 1.0;
    for (size_t i = 0; i < p_.part.size(); ++i) {
        const Part& part = *p_.part[i];
        size += part.size();
        most_ = std::max(most_, part.k);
        for (int64_t e = part.first; e < part.first + part.k; ++e) {
            part_of_[at(e - pairs)] = static_cast<int64_t>(i);
            if (part.plain()) apart_[at(p_.var[at(e)])] = 0;
        }
    }
    for (double o : p_.odds) size += std::fabs(o);
    for (double c : p_.couple) size += std::fabs(c);
    forbidden_ = 4.0 * size;
    own_gain_.resize(at(most_));
    own_held_.resize(at(most_));
    own_y_.resize(at(most_));
}

// The states of a table part, y_ with variable `axis` of it in another state; -1: as they are.
double Rounding::entry(const Part& part, int64_t axis, uint8_t state) {
    for (int64_t j = 0; j < part.k; ++j) own_y_[at(j)] = y_[at(p_.var[at(part.first + j)])];
    if (axis >= 0) own_y_[at(axis)] = state;
    const double found = part.score(own_y_.data());
    return found > -INFINITY ? found : -forbidden_;
}

// The gain of state 1 of a variable over state 0, given the states of the others in tables.
double Rounding::alone(int64_t v) {
    double worth = p_.odds[at(v)];
    const int64_t pairs = 2 * p_.n_pairs();
    for (int64_t i = p_.var_ptr[at(v)]; i < p_.var_ptr[at(v + 1)]; ++i) {
        const int64_t e = p_.var_edge[at(i)];
        if (e < pairs) {
            if (y_[at(p_.var[at(p_.other(e))])]) worth += p_.couple[at(p_.pair_of(e))];
            continue;
        }
        const Part& part = *p_.part[at(part_of_[at(e - pairs)])];
        if (part.plain()) continue;
        const int64_t axis = e - part.first;
        worth += entry(part, axis, 1) - entry(part, axis, 0);
    }
    return worth;
}

// gain_ (open,): what `alone` says of each variable.
void Rounding::all_alone() {
    gain_ = p_.odds;
    for (int64_t v = 0; v < p_.n_open(); ++v) {
        if (!y_[at(v)]) continue;
        for (int64_t i = p_.var_ptr[at(v)]; i < p_.var_ptr[at(v + 1)]; ++i) {
            const int64_t e = p_.var_edge[at(i)];
            if (e >= 2 * p_.n_pairs()) break;
            gain_[at(p_.var[at(p_.other(e))])] += p_.couple[at(p_.pair_of(e))];
        }
    }
    for (const auto& part : p_.part) {
        if (part->plain()) continue;
        for (int64_t j = 0; j < part->k; ++j) {
            gain_[at(p_.var[at(part->first + j)])] += entry(*part, j, 1) - entry(*part, j, 0);
        }
    }
}

// kInfeasible where a part cannot follow those before it.
Status Rounding::decide(const double* gain, const Control* control) {
    std::fill(held_.begin(), held_.end(), int8_t{-1});
    for (size_t i = 0; i < p_.part.size(); ++i) {
        Part* part = p_.part[i].get();
        if (!part->plain()) continue;
        if (messages::cancelled(control, static_cast<int64_t>(i), part->large() ? 1 : 64)) {
            return kCancelled;
        }
        for (int64_t j = 0; j < part->k; ++j) {
            const int32_t v = p_.var[at(part->first + j)];
            own_gain_[at(j)] = gain[v];
            own_held_[at(j)] = held_[at(v)];
        }
        const double found = part->best(own_gain_.data(), 1.0, own_held_.data(), own_y_.data());
        if (found != found) return kCancelled;
        if (found == -INFINITY) return kInfeasible;
        for (int64_t j = 0; j < part->k; ++j) {
            held_[at(p_.var[at(part->first + j)])] = static_cast<int8_t>(own_y_[at(j)]);
        }
    }
    for (int64_t v = 0; v < p_.n_open(); ++v) {
        y_[at(v)] = held_[at(v)] < 0 ? gain[v] > 0.0 : held_[at(v)] == 1;
    }
    improve();
    return kOk;
}

// Variables in no structured part take the better state, one after the other.
void Rounding::improve() {
    bool moved = true;
    for (int sweep = 0; moved && sweep < kSweeps; ++sweep) {
        moved = false;
        for (int64_t v = 0; v < p_.n_open(); ++v) {
            if (!apart_[at(v)]) continue;
            const double worth = alone(v);
            const bool better = worth > 0.0 || (worth == 0.0 && y_[at(v)]);
            moved = moved || better != (y_[at(v)] != 0);
            y_[at(v)] = better;
        }
    }
}

// The score of y_; each factor that forbids it counts `forbidden_`.
double Rounding::score() {
    double total = p_.base();
    for (int64_t v = 0; v < p_.n_open(); ++v) {
        if (!y_[at(v)]) continue;
        total += p_.odds[at(v)];
        for (int64_t i = p_.var_ptr[at(v)]; i < p_.var_ptr[at(v + 1)]; ++i) {
            const int64_t e = p_.var_edge[at(i)];  // ascending: first places first
            if (e >= p_.n_pairs()) break;
            if (y_[at(p_.var[at(p_.other(e))])]) total += p_.couple[at(e)];
        }
    }
    possible_ = true;
    for (const auto& part : p_.part) {
        if (part->plain()) continue;
        const double own = entry(*part, -1, 0);
        possible_ = possible_ && own != -forbidden_;
        total += own;
    }
    return total;
}

Status Rounding::round(const double* gain, const Control* control) {
    const auto done = [](Status s) { return s == kInfeasible ? kOk : s; };
    if (const Status s = decide(gain, control); s != kOk) return done(s);
    for (double last = score();;) {
        if (possible_ && last > best_) {
            best_ = last;
            kept_ = y_;
        }
        all_alone();
        if (const Status s = decide(gain_.data(), control); s != kOk) return done(s);
        const double next = score();
        if (!(next > last)) return kOk;
        last = next;
    }
}

void Rounding::states(int64_t* out) const {
    for (size_t v = 0; v < p_.known.size(); ++v) out[v] = p_.known[v] == 1;
    for (size_t v = 0; v < kept_.size(); ++v) out[p_.open[v]] = kept_[v];
}

}  // namespace vs::dual
