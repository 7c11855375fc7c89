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

// Pairs by the batch: what bounds and weights say of one is on its way while others are looked at.
struct Relaxed::Screen {
    static constexpr int kBatch = 16;

    Screen(const Scorer& s, const float* w, Kind k, const PairBounds& b, const Harmless& h,
           int64_t* n, std::vector<Candidate>* to)
        : scorer(s),
          weights(w),
          kind(k),
          bounds(b),
          harmless(h),
          most(largest_excess(b.any())),
          scored(n),
          out(to) {}

    // high and q: P(both arcs) and 1 - P(both arcs) are not larger.
    void push(const Candidate& next, double high, double q) {
        if (high * most <= harmless.epsilon()) return;
        safe[count] = harmless.at(high, q);
        if (safe[count].holds(bounds.any())) return;
        own[count] = next;
        scorer.keys(kind, next.pair.nodes, &keys[count]);
        bounds.prefetch(keys[count]);
        if (++count == kBatch) flush();
    }
    void flush() {
        int left[kBatch], size = 0;
        for (int i = 0; i < count; ++i) {
            if (bounds.within(keys[i], safe[i])) continue;
            prefetch(weights, keys[i]);
            left[size++] = i;
        }
        count = 0;
        *scored += size;
        for (int k = 0; k < size; ++k) {
            Candidate& c = own[left[k]];
            c.theta = double{score(weights, keys[left[k]])};
            if (c.p < 0.0 || c.worth(harmless.epsilon())) out->push_back(c);
        }
    }

    const Scorer& scorer;
    const float* weights;
    const Kind kind;
    const PairBounds& bounds;
    const Harmless& harmless;
    const double most;
    int64_t* scored;
    std::vector<Candidate>* out;
    Keys keys[kBatch];
    Candidate own[kBatch];
    Range safe[kBatch];
    int count = 0;
};

bool Relaxed::Candidate::worth(double epsilon) const { return gain(p, q, theta) > epsilon; }

// 1 - P(both arcs). 1 - p has no digits beside a p near 1; the other bounds have.
double Relaxed::rest(double p, double q_a, double q_b) {
    return std::clamp(1.0 - p, std::max(q_a, q_b), std::min(1.0, q_a + q_b));
}

// Which arcs can be in a pair that has a gain: P(both arcs) is at most P(arc).
void Relaxed::list(const Parts& parts, const Loopy& loopy, const Range& potentials) {
    const int64_t arcs = parts.arcs();
    const double most = largest_excess(potentials);
    p_.resize(at(arcs));
    q_.resize(at(arcs));
    start_.assign(at(parts.n + 2), 0);
    into_.assign(at(parts.n + 2), 0);
    wanted_.clear();
    for (int32_t a = 0; a < arcs; ++a) {
        p_[at(a)] = logistic(loopy.odds()[at(a)], &q_[at(a)]);
        if (p_[at(a)] * most <= harmless_.epsilon()) continue;
        if (harmless_.at(p_[at(a)], 1.0).holds(potentials)) continue;
        wanted_.push_back(a);
        ++start_[at(parts.head[at(a)]) + 1];
        ++into_[at(parts.modifier[at(a)]) + 1];
    }
    std::partial_sum(start_.begin(), start_.end(), start_.begin());
    std::partial_sum(into_.begin(), into_.end(), into_.begin());
    child_.resize(wanted_.size());
    modifier_.resize(wanted_.size());
    next_.assign(start_.begin(), start_.end() - 1);
    for (const int32_t a : wanted_) {
        const auto i = at(next_[at(parts.head[at(a)])]++);
        child_[i] = a;
        modifier_[i] = parts.modifier[at(a)];
    }
}

// What the tree factor was told, without arcs so improbable that no joint has a digit of them:
// plain doubles are enough then.
void Relaxed::tell(const Parts& parts, const Loopy& loopy) {
    double least = kNothing;
    for (const int32_t a : wanted_) least = std::min(least, 0.5 * p_[at(a)]);
    table_ = loopy.table();
    for (int64_t a = 0; a < parts.arcs(); ++a) {
        if (p_[at(a)] > least) continue;
        table_[at(parts.head[at(a)] * (parts.n + 1) + parts.modifier[at(a)])] = -INFINITY;
    }
}

// The pairs of those arcs that have a gain, head by head.
void Relaxed::screen(const Scorer& scorer, const float* weights, const Parts& parts,
                     const Trees& trees, const Options& options, double* scratch) {
    siblings_.clear();
    grandparents_.clear();
    Screen one(scorer, weights, Kind::kSibling, options.bounds->siblings, harmless_, &counts.scored,
               &siblings_);
    Screen two(scorer, weights, Kind::kGrandparent, options.bounds->grandparents, harmless_,
               &counts.scored, &grandparents_);
    const auto push = [&](Screen* to, int32_t h, int32_t m, int32_t s, int32_t a, int32_t b,
                          double p) {
        const double q_a = q_[at(a)], q_b = q_[at(b)];
        const bool known = p >= 0.0;
        const double q = known ? rest(p, q_a, q_b) : std::min(1.0, q_a + q_b);
        to->push({{{h, m, s}, a, b}, 0.0, p, q}, known ? p : std::min(p_[at(a)], p_[at(b)]), q);
    };
    const int64_t n = parts.n;
    trees::HeadJoints joints;
    trees.api->begin_head_joints(trees.kind, {table_.data(), n, trees.single_root}, scratch,
                                 &joints);
    for (int32_t h = 0; h <= n; ++h) {
        const int32_t first = start_[at(h)], count = start_[at(h) + 1] - first;
        if (count == 0) continue;
        two_.resize(at(int64_t{count} * count));
        up_.resize(at(int64_t{count} * (n + 1)));
        trees.api->head_joints(&joints, h, count, &modifier_[at(first)], two_.data(), up_.data());
        for (int32_t i = 0; i < count; ++i) {
            const int32_t a = child_[at(first + i)], m = modifier_[at(first + i)];
            for (int32_t j = i + 1; j < count; ++j) {
                push(&one, h, m, modifier_[at(first + j)], a, child_[at(first + j)],
                     two_[at(i * count + j)]);
            }
        }
        for (int32_t k = into_[at(h)]; k < into_[at(h) + 1]; ++k) {
            const int32_t a = wanted_[at(k)], g = parts.head[at(a)];
            for (int32_t i = 0; i < count; ++i) {
                const int32_t m = modifier_[at(first + i)];
                if (m != g) push(&two, g, h, m, a, child_[at(first + i)], up_[at(g * count + i)]);
            }
        }
    }
    one.flush();
    two.flush();
    std::sort(grandparents_.begin(), grandparents_.end(),
              [](const Candidate& a, const Candidate& b) { return before(a.pair, b.pair); });
}

// P(both arcs) of the candidates that `screen` did not find them of; drops those without a gain.
void Relaxed::ask(const Parts& parts, const Trees& trees, double* scratch) {
    open_.clear();
    asked_.clear();
    for (auto* list : {&siblings_, &grandparents_}) {
        for (Candidate& c : *list) {
            if (c.p >= 0.0) continue;
            const auto a = at(c.pair.first), b = at(c.pair.second);
            open_.push_back(&c);
            asked_.push_back({parts.head[a], parts.modifier[a], parts.head[b], parts.modifier[b]});
        }
    }
    if (open_.empty()) return;
    joint_.resize(asked_.size());
    trees.api->joints({table_.data(), parts.n, trees.single_root},
                      static_cast<int64_t>(asked_.size()), asked_.data(), joint_.data(), scratch);
    const double* p = joint_.data();
    for (Candidate* c : open_) {
        c->p = *p++;
        c->q = rest(c->p, q_[at(c->pair.first)], q_[at(c->pair.second)]);
    }
    for (auto* list : {&siblings_, &grandparents_}) {
        const auto none = [&](const Candidate& c) { return !c.worth(harmless_.epsilon()); };
        list->erase(std::remove_if(list->begin(), list->end(), none), list->end());
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
        for (; c != from.end() && before(c->pair, old); ++c) keep(c->pair, c->theta, 0.0, 0.0);
        if (c != from.end() && same(c->pair, old)) ++c;
        keep(old, *theta++, messages[0], messages[1]);
        messages += 2;
    }
    for (; c != from.end(); ++c) keep(c->pair, c->theta, 0.0, 0.0);
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
    if (harmless_.epsilon() != options.epsilon) harmless_ = Harmless(options.epsilon);
    for (;;) {
        beliefs->resize(at(parts->size()));
        const double log_z =
            loopy->run(*parts, potentials->data(), trees, beliefs->data(), counts.rounds > 0);
        counts.iterations += loopy->iterations();
        if (log_z == -INFINITY) return log_z;
        if (counts.rounds == options.rounds) {
            counts.converged = loopy->converged();
            return log_z;
        }
        list(*parts, *loopy, any);
        tell(*parts, *loopy);
        screen(scorer, weights, *parts, trees, options, loopy->scratch());
        ask(*parts, trees, loopy->scratch());
        if (!add(parts, potentials, loopy)) {
            counts.converged = loopy->converged();
            return log_z;
        }
        ++counts.rounds;
    }
}

}  // namespace vs::parser
