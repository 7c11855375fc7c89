#include "parser/relaxed.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace vs::parser {
namespace {

constexpr double kNothing = 1e-18;  // a probability that is felt in no other one

bool before(const Parts::Pair& a, const Parts::Pair& b) {
    return std::lexicographical_compare(a.nodes, a.nodes + 3, b.nodes, b.nodes + 3);
}

bool same(const Parts::Pair& a, const Parts::Pair& b) {
    return a.first == b.first && a.second == b.second;
}

}  // namespace

// Pairs one behind the other: the weights of one are on their way while those of another are added.
struct Relaxed::Screen {
    const Scorer& scorer;
    const float* weights;
    const PairBounds& bounds;
    Kind kind;
    std::vector<Candidate>* out;
    int64_t* scored;
    Keys keys[2];
    Parts::Pair pair[2];
    Range harmless[2];
    int64_t count = 0;

    void push(const Parts::Pair& next, const Range& safe) {
        const int i = count & 1;
        scorer.keys(kind, next.nodes, &keys[i]);
        if (bounds.within(keys[i], safe)) return;
        prefetch(weights, keys[i]);
        pair[i] = next;
        harmless[i] = safe;
        if (count++ > 0) decide(i ^ 1);
    }
    void flush() {
        if (count > 0) decide((count & 1) ^ 1);
    }
    void decide(int i) {
        ++*scored;
        const double theta = double{score(weights, keys[i])};
        if (theta <= harmless[i].most && theta >= harmless[i].least) return;
        out->push_back({pair[i], theta, -1.0, false});
    }
};

// Which arcs can be in a pair that has a gain, and which potentials are harmless beside them.
void Relaxed::list(const Parts& parts, const Loopy& loopy, double epsilon,
                   const Range& potentials) {
    const int64_t arcs = parts.arcs();
    const double most = largest_excess(potentials);
    const double widest = std::sqrt(8.0 * epsilon);  // g <= t^2 / 8, whatever p (Hoeffding)
    p_.resize(at(arcs));
    q_.resize(at(arcs));
    rare_.resize(at(arcs));
    sure_.resize(at(arcs));
    start_.assign(at(parts.n + 2), 0);
    wanted_.clear();
    for (int32_t a = 0; a < arcs; ++a) {
        const double odds = loopy.odds()[at(a)];
        p_[at(a)] = logistic(odds);
        q_[at(a)] = logistic(-odds);
        if (p_[at(a)] * most <= epsilon) continue;
        Range& rare = rare_[at(a)] = harmless(p_[at(a)], epsilon);
        rare = {std::min(rare.least, -widest), std::max(rare.most, widest)};
        if (rare.holds(potentials)) continue;
        // g(p, t) = g(1 - p, -t), and 1 - P(both) is at most twice the larger P(no arc).
        const Range turned = harmless(std::min(1.0, 2.0 * q_[at(a)]), epsilon);
        sure_[at(a)] = {-turned.most, -turned.least};
        wanted_.push_back(a);
        ++start_[at(parts.head[at(a)]) + 1];
    }
    std::partial_sum(start_.begin(), start_.end(), start_.begin());
    child_.resize(wanted_.size());
    for (const int32_t a : wanted_) child_[at(start_[at(parts.head[at(a)])]++)] = a;
    std::rotate(start_.begin(), start_.end() - 1, start_.end());
    start_[0] = 0;
}

// The pairs of those arcs whose potentials are not harmless, with these.
void Relaxed::screen(const Scorer& scorer, const float* weights, const Parts& parts,
                     const Options& options) {
    siblings_.clear();
    grandparents_.clear();
    Screen one{
        scorer, weights, options.bounds->siblings, Kind::kSibling, &siblings_, &counts.scored, {},
        {},     {}};
    Screen two{scorer,
               weights,
               options.bounds->grandparents,
               Kind::kGrandparent,
               &grandparents_,
               &counts.scored,
               {},
               {},
               {}};
    const auto both = [&](int32_t a, int32_t b) {
        const Range &ra = rare_[at(a)], &rb = rare_[at(b)], &sa = sure_[at(a)], &sb = sure_[at(b)];
        return Range{std::min({ra.least, rb.least, std::max(sa.least, sb.least)}),
                     std::max({ra.most, rb.most, std::min(sa.most, sb.most)})};
    };
    for (int32_t h = 0; h <= parts.n; ++h) {
        for (int32_t i = start_[at(h)]; i < start_[at(h) + 1]; ++i) {
            const int32_t a = child_[at(i)], m = parts.modifier[at(a)];
            for (int32_t j = i + 1; j < start_[at(h) + 1]; ++j) {
                const int32_t b = child_[at(j)];
                const Range safe = both(a, b);
                if (safe.holds(one.bounds.any())) continue;
                one.push({{h, m, parts.modifier[at(b)]}, a, b}, safe);
            }
            for (int32_t j = start_[at(m)]; j < start_[at(m) + 1]; ++j) {
                const int32_t b = child_[at(j)];
                const Range safe = both(a, b);
                if (parts.modifier[at(b)] == h || safe.holds(two.bounds.any())) continue;
                two.push({{h, m, parts.modifier[at(b)]}, a, b}, safe);
            }
        }
    }
    one.flush();
    two.flush();
}

// Decides candidates by bounds on P(a and b), where they do, and lists the others in open_:
// P(a) + P(b) - 1 <= P(a and b) <= min(P(a), P(b)), and the gain is concave in it.
void Relaxed::decide(double epsilon) {
    open_.clear();
    for (auto* list : {&siblings_, &grandparents_}) {
        for (Candidate& c : *list) {
            const auto a = at(c.pair.first), b = at(c.pair.second);
            const double high = std::min(p_[a], p_[b]), low = std::max(0.0, p_[a] - q_[b]);
            c.worth = gain(high, std::max(q_[a], q_[b]), c.theta) > epsilon &&
                      gain(low, std::min(1.0, q_[a] + q_[b]), c.theta) > epsilon;
            if (!c.worth) open_.push_back(&c);
        }
    }
}

// What the tree factor was told, without arcs so improbable that no joint has a digit of them:
// plain doubles are enough then.
void Relaxed::tell(const Parts& parts, const Loopy& loopy) {
    double least = kNothing;
    for (const Candidate* c : open_) {
        least = std::min({least, 0.5 * p_[at(c->pair.first)], 0.5 * p_[at(c->pair.second)]});
    }
    table_ = loopy.table();
    for (int64_t a = 0; a < parts.arcs(); ++a) {
        if (p_[at(a)] > least) continue;
        table_[at(parts.head[at(a)] * (parts.n + 1) + parts.modifier[at(a)])] = -INFINITY;
    }
}

// P(both arcs) of the open candidates, by 2x2 minors.
void Relaxed::ask_tree(const Parts& parts, const Trees& trees, double* scratch) {
    asked_.clear();
    for (const Candidate* c : open_) {
        const auto a = at(c->pair.first), b = at(c->pair.second);
        asked_.push_back({parts.head[a], parts.modifier[a], parts.head[b], parts.modifier[b]});
    }
    joint_.resize(asked_.size());
    trees.api->joints({table_.data(), parts.n, trees.single_root},
                      static_cast<int64_t>(asked_.size()), asked_.data(), joint_.data(), scratch);
    const double* p = joint_.data();
    for (Candidate* c : open_) c->p = *p++;
}

// The same of projective trees: P(a) P(b | a), by a run for each a.
void Relaxed::ask_projective(const Parts& parts, const Trees& trees, double* scratch) {
    const int64_t n = parts.n, ld = n + 1;
    popular_.assign(at(parts.arcs()), 0);
    for (const Candidate* c : open_) {
        ++popular_[at(c->pair.first)];
        ++popular_[at(c->pair.second)];
    }
    const auto given = [&](const Candidate* c) {
        const int32_t a = c->pair.first, b = c->pair.second;
        return popular_[at(a)] >= popular_[at(b)] ? a : b;
    };
    std::stable_sort(open_.begin(), open_.end(),
                     [&](const Candidate* x, const Candidate* y) { return given(x) < given(y); });
    joint_.resize(table_.size());
    column_.resize(at(ld));
    for (size_t i = 0; i < open_.size();) {
        const int32_t a = given(open_[i]), m = parts.modifier[at(a)];
        for (int64_t h = 0; h <= n; ++h) {
            double& x = table_[at(h * ld + m)];
            column_[at(h)] = x;
            if (h != parts.head[at(a)]) x = -INFINITY;
        }
        trees::Arcs out;
        out.marginal = joint_.data();
        trees.api->marginals(trees.kind, {table_.data(), n, trees.single_root}, out, scratch);
        for (int64_t h = 0; h <= n; ++h) table_[at(h * ld + m)] = column_[at(h)];
        for (; i < open_.size() && given(open_[i]) == a; ++i) {
            Candidate& c = *open_[i];
            const int32_t b = a == c.pair.first ? c.pair.second : c.pair.first;
            c.p = p_[at(a)] * joint_[at(parts.head[at(b)] * ld + parts.modifier[at(b)])];
        }
    }
}

// Pairs that are there and those that are new, in order; with their potentials and messages.
void Relaxed::merge(const std::vector<Candidate>& from, const double* theta, const double* messages,
                    std::vector<Parts::Pair>* pairs) {
    pairs_.clear();
    const auto keep = [&](const Parts::Pair& pair, double t, double x, double y) {
        pairs_.push_back(pair);
        potentials_.push_back(t);
        messages_.push_back(x);
        messages_.push_back(y);
    };
    auto c = from.begin();
    for (const Parts::Pair& old : *pairs) {
        for (; c != from.end() && before(c->pair, old); ++c) {
            if (c->worth) keep(c->pair, c->theta, 0.0, 0.0);
        }
        if (c != from.end() && same(c->pair, old)) ++c;
        keep(old, *theta++, messages[0], messages[1]);
        messages += 2;
    }
    for (; c != from.end(); ++c) {
        if (c->worth) keep(c->pair, c->theta, 0.0, 0.0);
    }
    pairs->swap(pairs_);
}

// False: there was nothing to add.
bool Relaxed::add(Parts* parts, std::vector<double>* potentials, Loopy* loopy) {
    const int64_t arcs = parts->arcs(), size = parts->size();
    const auto siblings = static_cast<int64_t>(parts->siblings.size());
    const double *theta = potentials->data() + arcs, *messages = loopy->messages.data();
    potentials_.assign(potentials->begin(), potentials->begin() + arcs);
    messages_.clear();
    merge(siblings_, theta, messages, &parts->siblings);
    merge(grandparents_, theta + siblings, messages + 2 * siblings, &parts->grandparents);
    potentials->swap(potentials_);
    loopy->messages.swap(messages_);
    return parts->size() > size;
}

double Relaxed::run(const Scorer& scorer, const float* weights, const Trees& trees,
                    const Options& options, Parts* parts, std::vector<double>* potentials,
                    std::vector<double>* beliefs, Loopy* loopy) {
    counts = {};
    const Range &one = options.bounds->siblings.any(), &two = options.bounds->grandparents.any();
    const Range any{std::min(one.least, two.least), std::max(one.most, two.most)};
    const double epsilon = options.epsilon;
    for (;;) {
        beliefs->resize(at(parts->size()));
        const double log_z = loopy->run(*parts, potentials->data(), trees, beliefs->data());
        counts.iterations += loopy->iterations();
        if (log_z == -INFINITY) return log_z;
        if (counts.rounds == options.rounds) {
            counts.converged = loopy->converged();
            return log_z;
        }
        list(*parts, *loopy, epsilon, any);
        screen(scorer, weights, *parts, options);
        decide(epsilon);
        if (!open_.empty()) tell(*parts, *loopy);
        if (trees.kind == trees::Kind::kProjective) {
            ask_projective(*parts, trees, loopy->scratch());
        } else if (!open_.empty()) {
            ask_tree(*parts, trees, loopy->scratch());
        }
        for (Candidate* c : open_) {
            const double qa = q_[at(c->pair.first)], qb = q_[at(c->pair.second)];
            // 1 - P has no digits beside a P near 1; these bounds have.
            const double q = std::clamp(1.0 - c->p, std::max(qa, qb), std::min(1.0, qa + qb));
            c->worth = gain(c->p, q, c->theta) > epsilon;
        }
        if (!add(parts, potentials, loopy)) {
            counts.converged = loopy->converged();
            return log_z;
        }
        ++counts.rounds;
    }
}

}  // namespace vs::parser
