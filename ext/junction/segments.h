// Islands on a graph: who is held, and the free variables between them, solved part by part.
//
// A round reads all of its events off the marginals of the one before (docs/islands.md); only what
// they touch is solved again. The marginal of an island, given the others, is made of what is
// around: each part has a mass for each value that the island could take. Where a single variable
// of a part is near, its marginal tells; where several are, the messages between them are made
// again. Islands in factors with two free variables more are freed, and solved with what is around.
#pragma once

#include "junction/kept_parts.h"

namespace vs::junction {

class Segments {
  public:
    // held[v]: evidence or -1. limit: bytes of the trees of all parts together.
    Segments(const Graph& g, const double* const* soft, const int64_t* held, double limit)
        : from_(g, soft),
          limit_(limit),
          given_(held, held + g.n),
          held_(given_),
          part_(static_cast<size_t>(g.n), -1),
          stamp_(part_.size(), 0),
          released_(part_.size(), 0),
          flipped_(part_.size(), 0),
          all_(part_.size()),
          kept_(g.n) {
        for (int64_t v = 0; v < g.n; ++v) all_[v] = v;
        marginals_.resize(static_cast<size_t>(from_.at(g.n)));
    }

    // Holds variables by what they have to themselves. -1, or one without a state. Trees of an
    // earlier call are there for the segments that are the same.
    int64_t start(double zeta) {
        zeta_ = zeta;
        held_ = given_;
        keep_all();
        std::fill(released_.begin(), released_.end(), 0);
        std::fill(flipped_.begin(), flipped_.end(), 0);
        solved_ = 0;
        refused_.reset();
        std::vector<double> p;
        for (int64_t v = 0; v < from_.n(); ++v) {
            if (held_[v] >= 0) continue;
            p.resize(static_cast<size_t>(from_.card(v)));
            if (!distribution(from_.alone(v), from_.card(v), p.data())) return v;
            const int64_t x = std::max_element(p.begin(), p.end()) - p.begin();
            if (p[x] >= zeta_) held_[v] = x;
        }
        changed_ = all_;
        return -1;
    }

    // Solves again what the last changes touch. kOk; kInfeasible: a part has no mass;
    // Part::kTooMuch: the tree of `refused()`; kCancelled.
    int refresh(int threads, Control* control) {
        std::vector<int64_t> stale;
        mark();
        for (int64_t v : changed_) near(v, &stale);
        for (int64_t v : stale) {
            if (part_[v] >= 0) drop(part_[v]);
        }
        std::vector<size_t> made;
        std::sort(stale.begin(), stale.end());
        const size_t before = stale.size();
        std::vector<int64_t> free;
        for (int64_t v = 0; v < from_.n(); ++v) {
            if (held_[v] >= 0 || part_[v] >= 0) continue;
            const std::vector<int64_t> list = reach(v);
            const size_t q = parts_.size();
            for (int64_t u : list) part_[u] = static_cast<int64_t>(q);
            made.push_back(q);
            parts_.emplace_back();
            const int status =
                kept_.solve(from_, list, held_, threads, bytes_left(), control, &parts_[q]);
            if (status != kOk) return failed(q, status);
            solved_ += parts_[q]->cliques;
            bytes_ += parts_[q]->bytes;
        }
        for (size_t q : made) {
            const Part& part = *parts_[q];
            for (size_t i = 0; i < part.variables.size(); ++i) {
                const int64_t v = part.variables[i];
                std::copy(part.marginals.begin() + part.ptr[i],
                          part.marginals.begin() + part.ptr[i + 1],
                          marginals_.begin() + from_.at(v));
                near(v, &stale);
            }
        }
        std::sort(stale.begin() + static_cast<std::ptrdiff_t>(before), stale.end());
        // Upward passes of a tree spoil its messages: islands that need them come last.
        std::vector<int64_t> later;
        for (int64_t v : stale) {
            if (!island(v)) continue;
            const int status = reconsider(v, false, threads, control);
            if (status == kWiden) {
                later.push_back(v);
            } else if (status != kOk) {
                return status;
            }
        }
        for (int64_t v : later) {
            const int status = reconsider(v, true, threads, control);
            if (status != kOk) return status;
        }
        return kOk;
    }

    // Applies all events of the marginals at hand; returns how many there are.
    int64_t decide() {
        changed_.clear();
        for (int64_t v = 0; v < from_.n(); ++v) {
            if (given_[v] >= 0) continue;
            const double* const p = marginals_.data() + from_.at(v);
            const int64_t mode = std::max_element(p, p + from_.card(v)) - p;
            if (held_[v] >= 0) {
                if (p[mode] >= zeta_ && p[held_[v]] == p[mode]) continue;
                if (p[mode] < zeta_ || flipped_[v]) {
                    release(v);
                } else {
                    flipped_[v] = 1;
                    held_[v] = mode;
                }
            } else if (!released_[v] && p[mode] >= zeta_) {
                held_[v] = mode;
            } else {
                continue;
            }
            changed_.push_back(v);
        }
        return static_cast<int64_t>(changed_.size());
    }
    // Whether decide() would change anything.
    bool converged() const {
        Segments other(*this, 0);
        return other.decide() == 0;
    }

    // Releases islands whose value is impossible given the others; returns how many.
    int64_t release_dead() {
        std::vector<int64_t> dead;
        for (int64_t v = 0; v < from_.n(); ++v) {
            if (island(v) && marginals_[from_.at(v) + held_[v]] == 0.0) dead.push_back(v);
        }
        if (dead.empty()) return 0;
        for (int64_t v : dead) release(v);
        changed_ = std::move(dead);
        return static_cast<int64_t>(changed_.size());
    }

    // Releases the islands of factors and parts that have no mass given their islands. kInfeasible
    // where there is a part, or a factor, without any; others as refresh().
    int release_contradictions(int threads, Control* control) {
        std::vector<uint8_t> to_release(held_.size(), 0);
        bool model_infeasible = false;
        const auto mark_held = [&](const auto& list) {
            bool any = false;
            for (int64_t v : list) {
                if (!island(v)) continue;
                to_release[v] = 1;
                any = true;
            }
            model_infeasible = model_infeasible || !any;
        };
        for (int64_t f = 0; f < from_.n_factors(); ++f) {
            const Factor x = from_.factor(f);
            double score;
            if (x.arity > 1 && from_.score(f, held_, &score) && score == -INFINITY) {
                mark_held(std::vector<int64_t>(x.scope, x.scope + x.arity));
            }
        }
        forget_all();
        for (int64_t v = 0; v < from_.n(); ++v) {
            if (held_[v] >= 0 || part_[v] >= 0) continue;
            const std::vector<int64_t> list = reach(v);
            for (int64_t u : list) part_[u] = 0;
            parts_.clear();
            parts_.emplace_back(new Part);
            const int status = parts_[0]->solve(from_, list, held_, threads, bytes_left(), control);
            if (status == kInfeasible) {
                std::vector<int64_t> around;
                mark();
                for (int64_t u : list) near(u, &around);
                mark_held(around);
            } else if (status != kOk) {
                return failed(0, status);
            }
        }
        for (int64_t v = 0; v < from_.n(); ++v) {
            if (held_[v] >= 0 && from_.alone(v)[held_[v]] == -INFINITY) {
                mark_held(std::vector<int64_t>{v});
            }
        }
        forget_all();
        if (model_infeasible) return kInfeasible;
        int64_t any = 0;
        for (int64_t v = 0; v < from_.n(); ++v) {
            if (!to_release[v]) continue;
            release(v);
            ++any;
        }
        changed_ = all_;
        return any ? kOk : kInfeasible;
    }

    // The log mass of what agrees with the islands; -inf where factors of evidence forbid it.
    double log_mass() const {
        vs::Sum total;
        bool none = false;
        const auto add = [&](double x) {
            none = none || x == -INFINITY;
            if (!none) total.add(x);
        };
        add(from_.constant());
        for (int64_t f = 0; f < from_.n_factors(); ++f) {
            double score;
            if (from_.factor(f).arity > 1 && from_.score(f, held_, &score)) add(score);
        }
        for (int64_t v = 0; v < from_.n(); ++v) {
            if (held_[v] >= 0) {
                add(from_.alone(v)[held_[v]]);
            } else if (parts_[part_[v]]->variables[0] == v) {
                add(parts_[part_[v]]->log_z);
            }
        }
        return none ? -INFINITY : total.total();
    }

    const std::vector<double>& marginals() const { return marginals_; }
    // The value that an island holds, or -1.
    int64_t island_of(int64_t v) const { return island(v) ? held_[v] : -1; }
    int64_t released() const { return std::count(released_.begin(), released_.end(), 1); }
    int64_t flipped() const { return std::count(flipped_.begin(), flipped_.end(), 1); }
    int64_t n_parts() const {
        return std::count_if(parts_.begin(), parts_.end(),
                             [](const auto& p) { return p != nullptr; });
    }
    int64_t solved() const { return solved_; }
    // The part whose tree does not fit, and what those beside it take.
    const Part& refused() const { return *refused_; }
    double used() const { return bytes_; }

  private:
    static constexpr int64_t kPasses = 8;  // states for each of which a pass is worth it

    // The state that decide() looks at and changes.
    Segments(const Segments& o, int)
        : from_(o.from_),
          zeta_(o.zeta_),
          limit_(o.limit_),
          given_(o.given_),
          held_(o.held_),
          released_(o.released_),
          flipped_(o.flipped_),
          marginals_(o.marginals_),
          kept_(0) {}

    bool island(int64_t v) const { return held_[v] >= 0 && given_[v] < 0; }
    double bytes_left() const { return limit_ - bytes_; }
    void release(int64_t v) {
        held_[v] = -1;
        released_[v] = 1;
    }
    void mark() { ++now_; }
    // Adds a variable and those that share a factor with it, where they have no mark yet.
    void near(int64_t v, std::vector<int64_t>* list) {
        const auto add = [&](int64_t u) {
            if (stamp_[u] == now_) return;
            stamp_[u] = now_;
            list->push_back(u);
        };
        add(v);
        from_.each_near(v, add);
    }
    // The free variables that are connected to one by free ones, ascending.
    std::vector<int64_t> reach(int64_t v) {
        std::vector<int64_t> list{v};
        reached_.resize(held_.size(), 0);
        reached_[v] = 1;
        for (size_t i = 0; i < list.size(); ++i) {
            from_.each_near(list[i], [&](int64_t u) {
                if (held_[u] >= 0 || reached_[u]) return;
                reached_[u] = 1;
                list.push_back(u);
            });
        }
        for (int64_t u : list) reached_[u] = 0;
        std::sort(list.begin(), list.end());
        return list;
    }
    void drop(int64_t q) {
        for (int64_t v : parts_[q]->variables) part_[v] = -1;
        bytes_ -= parts_[q]->bytes;
        kept_.keep(std::move(parts_[q]), bytes_left());
    }
    void forget_all() {
        parts_.clear();
        std::fill(part_.begin(), part_.end(), -1);
        bytes_ = 0.0;
    }
    void keep_all() {
        for (auto& part : parts_) {
            if (part) drop(part_[part->variables[0]]);
        }
        forget_all();
    }
    int failed(size_t q, int status) {
        if (status == Part::kTooMuch) refused_ = std::move(parts_[q]);
        return status;
    }

    // A variable near an island, and its number in its part.
    struct Near {
        int64_t part, variable;
        bool operator<(const Near& o) const {
            return part != o.part ? part < o.part : variable < o.variable;
        }
        bool operator==(const Near& o) const { return part == o.part && variable == o.variable; }
    };

    // m' of an island. kWiden: only an upward pass would do, and `whole` does not allow it.
    int reconsider(int64_t v, bool whole, int threads, Control* control) {
        const int64_t value = held_[v];
        std::vector<Near> around;
        bool narrow = true;
        for (const int64_t* f = from_.begin(v); f != from_.end(v); ++f) {
            const Factor x = from_.factor(*f);
            int64_t free = 0;
            for (int64_t i = 0; i < x.arity; ++i) {
                const int64_t u = x.scope[i];
                if (u == v || held_[u] >= 0) continue;
                ++free;
                around.push_back({part_[u], u});
            }
            narrow = narrow && free <= 1;
        }
        std::sort(around.begin(), around.end());
        around.erase(std::unique(around.begin(), around.end()), around.end());
        if (!narrow) return solve_freed(v, around, threads, control);
        std::vector<double> score(static_cast<size_t>(from_.card(v))), mass(score.size());
        held_[v] = -1;
        from_.local(v, held_, score.data());
        held_[v] = value;
        for (size_t a = 0; a < around.size();) {
            size_t b = a;
            while (b < around.size() && around[b].part == around[a].part) ++b;
            if (b - a > 1 || !near_mean(v, around[a], &mass)) {
                if (static_cast<int64_t>(score.size()) > kPasses) {
                    return solve_freed(v, around, threads, control);
                }
                const int status =
                    masses(v, around.data() + a, b - a, whole, threads, control, &mass);
                if (status != kOk) return status;
            }
            for (size_t x = 0; x < score.size(); ++x) score[x] += mass[x];
            a = b;
        }
        const int64_t n = from_.card(v);
        return distribution(score.data(), n, marginals_.data() + from_.at(v)) ? kOk : kInfeasible;
    }

    // Z(x) / Z = E[exp(score(x, u) - score(now, u))]. False where that has too few digits.
    bool near_mean(int64_t v, const Near& one, std::vector<double>* mass) {
        const Part& part = *parts_[one.part];
        const int64_t n = from_.card(one.variable), now = held_[v];
        const size_t i = part.number(one.variable);
        const double* const local = part.local.data() + part.ptr[i];
        scores_.resize(static_cast<size_t>(n));
        if (!part.solver) {
            for (size_t x = 0; x < mass->size(); ++x) {
                held_[v] = static_cast<int64_t>(x);
                from_.local(one.variable, held_, scores_.data());
                (*mass)[x] = log_sum(scores_.data(), n) - part.log_z;
            }
            held_[v] = now;
            return true;
        }
        const double* const p = part.marginals.data() + part.ptr[i];
        double low = 0.0, high = 0.0;
        bool fine = true;
        for (size_t x = 0; x < mass->size(); ++x) {
            held_[v] = static_cast<int64_t>(x);
            from_.local(one.variable, held_, scores_.data());
            double sum = 0.0;
            for (int64_t s = 0; s < n; ++s) {
                if (scores_[s] == -INFINITY) continue;
                fine = fine && local[s] > -INFINITY;
                if (!fine) break;
                const double gain = scores_[s] - local[s];
                low = std::min(low, gain);
                high = std::max(high, gain);
                sum += p[s] * std::exp(gain);
            }
            (*mass)[x] = std::log(sum);
        }
        held_[v] = now;
        return fine && high - low <= (part.faithful ? kFaithfulSpan : kSpan);
    }

    int masses(int64_t v, const Near* list, size_t n, bool whole, int threads, Control* control,
               std::vector<double>* mass) {
        Part& part = *parts_[list->part];
        const int64_t now = held_[v];
        std::vector<size_t> which;
        size_t size = 0;
        for (size_t i = 0; i < n; ++i) {
            which.push_back(part.number(list[i].variable));
            size += static_cast<size_t>(from_.card(list[i].variable));
        }
        int status = kOk;
        for (size_t x = 0; status == kOk && x < mass->size(); ++x) {
            (*mass)[x] = 0.0;
            if (static_cast<int64_t>(x) == now) continue;
            held_[v] = static_cast<int64_t>(x);
            scores_.resize(size);
            double* to = scores_.data();
            for (size_t i = 0; i < n; ++i) {
                from_.local(list[i].variable, held_, to);
                to += from_.card(list[i].variable);
            }
            held_[v] = now;
            status = part.change(which, scores_, false, threads, control, &(*mass)[x]);
            solved_ += static_cast<int64_t>(n);
            if (status == kWiden && whole) {
                status = part.change(which, scores_, true, threads, control, &(*mass)[x]);
                solved_ += part.cliques;
            }
        }
        return status;
    }

    // Frees an island, and solves it together with all parts around it.
    int solve_freed(int64_t v, const std::vector<Near>& around, int threads, Control* control) {
        std::vector<int64_t> list{v};
        double instead = 0.0;  // the limit is for one tree, beside those of other parts
        for (size_t i = 0; i < around.size(); ++i) {
            if (i > 0 && around[i].part == around[i - 1].part) continue;
            const Part& part = *parts_[around[i].part];
            list.insert(list.end(), part.variables.begin(), part.variables.end());
            instead += part.bytes;
        }
        std::sort(list.begin(), list.end());
        const int64_t value = held_[v];
        held_[v] = -1;
        std::unique_ptr<Part> part;
        const int status =
            kept_.solve(from_, list, held_, threads, bytes_left() + instead, control, &part);
        held_[v] = value;
        if (status == Part::kTooMuch) {
            bytes_ -= instead;
            refused_ = std::move(part);
        }
        if (status != kOk) return status;
        solved_ += part->cliques;
        const size_t i = part->number(v);
        std::copy(part->marginals.begin() + part->ptr[i],
                  part->marginals.begin() + part->ptr[i + 1], marginals_.begin() + from_.at(v));
        kept_.keep(std::move(part), bytes_left());
        return kOk;
    }

    Slices from_;
    double zeta_ = 0.0;
    const double limit_;
    const std::vector<int64_t> given_;
    std::vector<int64_t> held_, part_, stamp_;  // part_: -1 where a variable has none
    std::vector<uint8_t> released_, flipped_, reached_;
    std::vector<int64_t> all_, changed_;
    std::vector<double> marginals_, scores_;
    std::vector<std::unique_ptr<Part>> parts_;  // null where one was dropped
    KeptParts kept_;
    std::unique_ptr<Part> refused_;
    int64_t now_ = 0, solved_ = 0;
    double bytes_ = 0.0;
};

}  // namespace vs::junction
