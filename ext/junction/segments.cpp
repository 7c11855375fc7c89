#include "junction/segments.h"

#include <algorithm>

namespace vs::junction {

Segments::Segments(const Graph& g, const double* const* soft, const int64_t* held, double limit)
    : from_(g, soft),
      limit_(limit),
      given_(held, held + g.n),
      held_(given_),
      part_(static_cast<size_t>(g.n), -1),
      stamp_(part_.size(), 0),
      flag_(part_.size(), 0),
      all_(part_.size()),
      kept_(g.n) {
    for (int64_t v = 0; v < g.n; ++v) all_[v] = v;
    marginals_.resize(static_cast<size_t>(from_.at(g.n)));
    find_components();
}

void Segments::find_components() {
    int64_t count = 0;
    component_.assign(held_.size(), -1);
    for (int64_t v = 0; v < from_.n(); ++v) {
        if (held_[v] >= 0 || component_[v] >= 0) continue;
        for (int64_t u : reach(v)) component_[u] = count;
        ++count;
    }
    rounds_.assign(static_cast<size_t>(std::max<int64_t>(count, 1)), 0);
    counted_ = rounds_;
}

void Segments::count_round() {
    mark();
    for (int64_t v : changed_) {
        const int64_t c = component_[v];
        if (counted_[c] == now_) continue;
        counted_[c] = now_;
        ++rounds_[c];
    }
}

int64_t Segments::start(double zeta) {
    zeta_ = zeta;
    held_ = given_;
    keep_all();
    std::fill(flag_.begin(), flag_.end(), 0);
    counts_ = Counts{};
    std::fill(rounds_.begin(), rounds_.end(), 0);
    solved_ = 0;
    refused_.reset();
    std::vector<double> p;
    for (int64_t v = 0; v < from_.n(); ++v) {
        if (held_[v] >= 0) continue;
        p.resize(static_cast<size_t>(from_.card(v)));
        if (!distribution(from_.unary(v), from_.card(v), p.data())) return v;
        const IslandEvent e = event_of(v, p.data());
        if (e != kNone) take(v, e, p.data());
    }
    changed_ = all_;
    return -1;
}

int Segments::refresh(int threads, Control* control) {
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
        const SegmentTree& part = *parts_[q];
        for (size_t i = 0; i < part.variables.size(); ++i) {
            const int64_t v = part.variables[i];
            std::copy(part.marginals.begin() + part.ptr[i],
                      part.marginals.begin() + part.ptr[i + 1], marginals_.begin() + from_.at(v));
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

IslandEvent Segments::event_of(int64_t v, const double* p) const {
    if (given_[v] >= 0) return kNone;
    RowRequest m{};
    m.alive = true;
    m.largest = *std::max_element(p, p + from_.card(v));
    if (!island(v)) return IslandState::free_event(m, flag_[v], zeta_);
    m.own = p[held_[v]];
    m.forbidden = m.own == 0.0;
    return IslandState::island_event(m, zeta_);
}

void Segments::take(int64_t v, IslandEvent e, const double* p) {
    IslandState::take_event(e, flag_[v], held_[v], counts_,
                            [&] { return std::max_element(p, p + from_.card(v)) - p; });
}

int64_t Segments::decide(int64_t limit) {
    changed_.clear();
    for (int64_t v = 0; v < from_.n(); ++v) {
        const IslandEvent e = event_of(v);
        if (e == kNone || (limit >= 0 && rounds_[component_[v]] >= limit)) continue;
        take(v, e, marginals_.data() + from_.at(v));
        changed_.push_back(v);
    }
    count_round();
    return static_cast<int64_t>(changed_.size());
}

bool Segments::converged() const {
    for (int64_t v = 0; v < from_.n(); ++v) {
        if (event_of(v) != kNone) return false;
    }
    return true;
}

int64_t Segments::release_dead() {
    std::vector<int64_t> dead;
    for (int64_t v = 0; v < from_.n(); ++v) {
        if (event_of(v) == kContradiction) dead.push_back(v);
    }
    if (dead.empty()) return 0;
    for (int64_t v : dead) take(v, IslandEvent::kRelease, nullptr);
    changed_ = std::move(dead);
    count_round();
    return static_cast<int64_t>(changed_.size());
}

int Segments::release_contradictions(int threads, Control* control) {
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
        parts_.emplace_back(new SegmentTree);
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
        if (held_[v] >= 0 && from_.unary(v)[held_[v]] == -INFINITY) {
            mark_held(std::vector<int64_t>{v});
        }
    }
    forget_all();
    if (model_infeasible) return kInfeasible;
    changed_.clear();
    for (int64_t v = 0; v < from_.n(); ++v) {
        if (!to_release[v]) continue;
        take(v, IslandEvent::kRelease, nullptr);
        changed_.push_back(v);
    }
    if (changed_.empty()) return kInfeasible;
    count_round();
    changed_ = all_;
    return kOk;
}

double Segments::log_mass() const {
    Sum total;
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
            add(from_.unary(v)[held_[v]]);
        } else if (parts_[part_[v]]->variables[0] == v) {
            add(parts_[part_[v]]->log_z);
        }
    }
    return none ? -INFINITY : total.total();
}

int64_t Segments::n_parts() const {
    return std::count_if(parts_.begin(), parts_.end(), [](const auto& p) { return p != nullptr; });
}

void Segments::near(int64_t v, std::vector<int64_t>* list) {
    const auto add = [&](int64_t u) {
        if (stamp_[u] == now_) return;
        stamp_[u] = now_;
        list->push_back(u);
    };
    add(v);
    from_.each_near(v, add);
}

std::vector<int64_t> Segments::reach(int64_t v) {
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

void Segments::drop(int64_t q) {
    for (int64_t v : parts_[q]->variables) part_[v] = -1;
    bytes_ -= parts_[q]->bytes;
    kept_.keep(std::move(parts_[q]), bytes_left());
}

void Segments::forget_all() {
    parts_.clear();
    std::fill(part_.begin(), part_.end(), -1);
    bytes_ = 0.0;
}

void Segments::keep_all() {
    for (auto& part : parts_) {
        if (part) drop(part_[part->variables[0]]);
    }
    forget_all();
}

int Segments::failed(size_t q, int status) {
    if (status == SegmentTree::kTooMuch) refused_ = std::move(parts_[q]);
    return status;
}

}  // namespace vs::junction
