#include "parser/relaxed.h"

#include <algorithm>
#include <cmath>

namespace vs::parser {
namespace {

// e^t - 1 - t: no digits are lost near 0.
double excess(double t) {
    if (std::fabs(t) < 1e-4) return t * t * (0.5 + t / 6.0);
    return std::expm1(t) - t;
}

// Sums of slots that count together in a line: a in 1..n_a, and of each its own n_b.
void widen(const float* line, int n_a, int n_b, int group, double* least, double* most) {
    for (int a = 0; a < n_a; ++a) {
        const float* own = line + 1 + n_a + a / group * n_b;
        const double base = static_cast<double>(line[0]) + line[1 + a];
        *least = std::min(*least, base + *std::min_element(own, own + n_b));
        *most = std::max(*most, base + *std::max_element(own, own + n_b));
    }
}

Range range_of(const Set& set, const float* weights, int n_a, int n_b, int group) {
    Range range;
    for (int64_t t = 0; t < set.size(); ++t) {
        double least = INFINITY, most = -INFINITY;
        for (int64_t l = set.base[at(t)]; l <= int64_t{set.base[at(t)]} + set.mask[at(t)]; ++l) {
            widen(weights + l * kSlots, n_a, n_b, group, &least, &most);
        }
        range.least += least;
        range.most += most;
    }
    return range;
}

}  // namespace

double Range::gain() const { return std::max({0.0, excess(least), excess(most)}); }

void find_ranges(const Templates& templates, const float* weights, Range* siblings,
                 Range* grandparents) {
    const float* w = weights + templates.line_at[1] * kSlots;
    *siblings = range_of(templates.sets[1], w, 3, 4, 1);
    w = weights + templates.line_at[2] * kSlots;
    *grandparents = range_of(templates.sets[2], w, 6, 3, 2);
}

double gain(double p, double theta) {
    if (p > 0.5) return gain(1.0 - p, -theta);
    if (theta > 600.0) return p > 0.0 ? std::log(p) + theta * (1.0 - p) : 0.0;
    return std::max(0.0, std::log1p(p * std::expm1(theta)) - p * theta);
}

// `old`: the potentials of the pairs that are there; scores_ has those of all afterwards.
int64_t Relaxed::choose(const Scorer& scorer, const float* weights, Kind kind, double largest,
                        double epsilon, const std::vector<Parts::Pair>& candidates, const double* p,
                        const double* old, std::vector<Parts::Pair>* pairs) {
    const auto before = [](const Parts::Pair& a, const Parts::Pair& b) {
        return std::lexicographical_compare(a.nodes, a.nodes + 3, b.nodes, b.nodes + 3);
    };
    Keys keys;
    int64_t added = 0;
    merged_.clear();
    auto there = pairs->begin();
    for (const Parts::Pair& pair : candidates) {
        const double own = *p++;
        for (; there != pairs->end() && before(*there, pair); ++there) {
            merged_.push_back(*there);
            scores_.push_back(*old++);
        }
        if (there != pairs->end() && !before(pair, *there)) continue;  // it is there
        if (!(own * largest > epsilon)) continue;
        scorer.keys(kind, pair.nodes, &keys);
        const double theta = score(weights, keys);
        ++counts.scored;
        if (!(gain(own, theta) > epsilon)) continue;
        merged_.push_back(pair);
        scores_.push_back(theta);
        ++added;
    }
    for (; there != pairs->end(); ++there) {
        merged_.push_back(*there);
        scores_.push_back(*old++);
    }
    pairs->swap(merged_);
    return added;
}

bool Relaxed::add(const Scorer& scorer, const float* weights, const trees::TreesApi& api,
                  trees::Kind kind, bool single_root, const Options& options, Parts* parts,
                  std::vector<double>* potentials, const std::vector<double>& beliefs,
                  Loopy* loopy) {
    const int64_t arcs = parts->arcs();
    const double largest[2] = {options.siblings.gain(), options.grandparents.gain()};
    siblings_.resize(at(arcs));
    grandparents_.resize(at(arcs));
    // P(both) <= P(one): an arc that is too improbable is in no pair.
    for (int64_t a = 0; a < arcs; ++a) {
        siblings_[at(a)] = beliefs[at(a)] * largest[0] > options.epsilon;
        grandparents_[at(a)] = beliefs[at(a)] * largest[1] > options.epsilon;
    }
    for (auto& list : candidates_) list.clear();
    parts->visit_pairs(
        siblings_.data(), grandparents_.data(),
        [&](const Parts::Pair& p) { candidates_[0].push_back(p); },
        [&](const Parts::Pair& p) { candidates_[1].push_back(p); });
    joint_.clear();
    asked_.clear();
    for (const auto& list : candidates_) {
        for (const Parts::Pair& p : list) {
            const int64_t a = p.first, b = p.second;
            asked_.push_back({parts->head[at(a)], parts->modifier[at(a)], parts->head[at(b)],
                              parts->modifier[at(b)]});
            joint_.push_back(beliefs[at(a)] * beliefs[at(b)]);
        }
    }
    if (kind == trees::Kind::kTree && !asked_.empty()) {
        api.joints(loopy->sentence(*parts, single_root), static_cast<int64_t>(asked_.size()),
                   asked_.data(), joint_.data(), loopy->scratch());
    }
    scores_.assign(potentials->begin(), potentials->begin() + arcs);
    const double* old = potentials->data() + arcs;
    const auto n_old = static_cast<int64_t>(parts->siblings.size());
    int64_t added = choose(scorer, weights, Kind::kSibling, largest[0], options.epsilon,
                           candidates_[0], joint_.data(), old, &parts->siblings);
    added +=
        choose(scorer, weights, Kind::kGrandparent, largest[1], options.epsilon, candidates_[1],
               joint_.data() + candidates_[0].size(), old + n_old, &parts->grandparents);
    potentials->swap(scores_);
    return added > 0;
}

double Relaxed::run(const Scorer& scorer, const float* weights, const trees::TreesApi& api,
                    trees::Kind kind, bool single_root, const Options& options, Parts* parts,
                    std::vector<double>* potentials, std::vector<double>* beliefs, Loopy* loopy) {
    counts = {};
    for (;;) {
        beliefs->resize(at(parts->size()));
        const double log_z =
            loopy->run(*parts, potentials->data(), api, kind, single_root, beliefs->data());
        if (log_z == -INFINITY || counts.rounds == options.rounds) return log_z;
        if (!add(scorer, weights, api, kind, single_root, options, parts, potentials, *beliefs,
                 loopy)) {
            return log_z;
        }
        ++counts.rounds;
    }
}

}  // namespace vs::parser
