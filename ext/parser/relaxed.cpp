#include "parser/relaxed.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace vs::parser {
namespace {

constexpr double kNothing = 1e-18;  // a probability that is felt in no other one
constexpr size_t kTables = 64;      // thresholds of which tables are kept

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
           int64_t* n, std::vector<Candidate>* to, int64_t words,
           std::vector<PairBounds::Kept>* sums)
        : scorer(s),
          weights(w),
          kind(k),
          bounds(b),
          harmless(h),
          most(largest_excess(b.any())),
          scored(n),
          out(to),
          stride(words + 1),
          apart(*sums) {
        apart.assign(at(stride * stride), PairBounds::Kept{});
    }

    // high and q: P(both arcs) and 1 - P(both arcs) are not larger.
    void push(const Candidate& next, double high, double q) {
        if (high * most <= harmless.epsilon()) return;
        safe[count] = harmless.at(high, q);
        const int32_t* nodes = next.pair.nodes;
        sort[count] = bounds.sort_of(kind == Kind::kSibling
                                         ? sibling_slots(nodes[0], nodes[1], nodes[2])
                                         : grandparent_slots(nodes[0], nodes[1], nodes[2]));
        if (safe[count].holds(bounds.any(sort[count]))) return;
        place[count] = at(nodes[kind == Kind::kSibling] * stride + nodes[2]);
        const PairBounds::Kept& sum = apart[place[count]];
        if (sum.known() && bounds.within(sum.sum(), sort[count], safe[count])) return;
        own[count] = next;
        scorer.keys(kind, next.pair.nodes, &keys[count]);
        direct[count] = bounds.too_coarse(safe[count]);
        if (direct[count]) {
            prefetch(weights, keys[count]);
        } else {
            bounds.prefetch(keys[count], !sum.known());
        }
        if (++count == kBatch) flush();
    }
    void flush() {
        int open[kBatch], left[kBatch], n_open = 0, size = 0;
        PairBounds::Sum sums[kBatch];
        for (int i = 0; i < count; ++i) {
            if (direct[i]) {
                open[n_open++] = i;
                continue;
            }
            PairBounds::Kept& sum = apart[place[i]];
            if (!sum.known()) sum = bounds.apart(keys[i]);
            sums[i] = sum.sum();
            if (bounds.within(keys[i], sort[i], safe[i], PairBounds::kFirst, &sums[i])) continue;
            bounds.prefetch_rest(keys[i]);
            open[n_open++] = i;
        }
        for (int k = 0; k < n_open; ++k) {
            const int i = open[k];
            if (!direct[i]) {
                if (bounds.within(keys[i], sort[i], safe[i], PairBounds::kAll, &sums[i])) continue;
                prefetch(weights, keys[i]);
            }
            left[size++] = i;
        }
        count = 0;
        *scored += size;
        for (int k = 0; k < size; ++k) {
            Candidate& c = own[left[k]];
            c.theta = double{score(weights, keys[left[k]])};
            if (c.p >= 0.0) c.weigh();
            if (c.p < 0.0 || c.gain > harmless.epsilon()) out->push_back(c);
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
    const int64_t stride;
    // (n + 1, n + 1) bounds of what two words add, whatever is between them; once asked for.
    std::vector<PairBounds::Kept>& apart;
    Keys keys[kBatch];
    Candidate own[kBatch];
    Range safe[kBatch];
    size_t place[kBatch];
    int sort[kBatch];
    bool direct[kBatch];  // to be scored, whatever their bounds
    int count = 0;
};

const Harmless& Relaxed::harmless(double epsilon) {
    for (const Harmless& h : harmless_) {
        if (h.epsilon() == epsilon) return h;
    }
    if (harmless_.size() == kTables) harmless_.clear();
    harmless_.emplace_back(epsilon);
    return harmless_.back();
}

// 1 - P(both arcs). 1 - p has no digits beside a p near 1; the other bounds have.
double Relaxed::rest(double p, double q_a, double q_b) {
    return std::clamp(1.0 - p, std::max(q_a, q_b), std::min(1.0, q_a + q_b));
}

// Which arcs can be in a pair that has a gain: P(both arcs) is at most P(arc).
void Relaxed::list(const Parts& parts, const Loopy& loopy, const Range& potentials,
                   const Harmless& harmless) {
    const int64_t arcs = parts.arcs();
    const double most = largest_excess(potentials);
    // Log-odds of a probability that is surely too small, without its exponential.
    const double least = std::log(harmless.epsilon() / most) - 1e-6;
    p_.resize(at(arcs));
    q_.resize(at(arcs));
    start_.assign(at(parts.n + 2), 0);
    into_.assign(at(parts.n + 2), 0);
    wanted_.clear();
    above_.clear();
    for (int32_t a = 0; a < arcs; ++a) {
        if (loopy.odds()[at(a)] < least) continue;
        p_[at(a)] = logistic(loopy.odds()[at(a)], &q_[at(a)]);
        if (p_[at(a)] * most <= harmless.epsilon()) continue;
        if (harmless.at(p_[at(a)], 1.0).holds(potentials)) continue;
        wanted_.push_back(a);
        above_.push_back(parts.head[at(a)]);
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

// Odds for the tree factor, without arcs so improbable that no joint has a digit of them: plain
// doubles are enough then.
void Relaxed::tell(const Parts& parts, const Loopy& loopy) {
    double least = kNothing;
    for (const int32_t a : wanted_) least = std::min(least, 0.5 * p_[at(a)]);
    table_ = loopy.table();
    for (int64_t a = 0; a < parts.arcs(); ++a) {
        if (logistic(loopy.odds()[at(a)]) > least) continue;
        table_[at(parts.head[at(a)] * (parts.n + 1) + parts.modifier[at(a)])] = -INFINITY;
    }
}

// The pairs of those arcs that have a gain, head by head.
void Relaxed::screen(const Scorer& scorer, const float* weights, const Parts& parts,
                     const Trees& trees, const Options& options, const Harmless& harmless,
                     Loopy* loopy) {
    found_.clear();
    Screen one(scorer, weights, Kind::kSibling, options.bounds->siblings, harmless, &counts.scored,
               &found_.siblings, parts.n, &apart_[0]);
    Screen two(scorer, weights, Kind::kGrandparent, options.bounds->grandparents, harmless,
               &counts.scored, &found_.grandparents, parts.n, &apart_[1]);
    const auto push = [&](Screen* to, int32_t h, int32_t m, int32_t s, int32_t a, int32_t b,
                          double p) {
        const bool known = p >= 0.0;
        if (known && p * to->most <= harmless.epsilon()) return;
        const double q_a = q_[at(a)], q_b = q_[at(b)];
        const double q = known ? rest(p, q_a, q_b) : std::min(1.0, q_a + q_b);
        to->push({{{h, m, s}, a, b}, 0.0, p, q}, known ? p : std::min(p_[at(a)], p_[at(b)]), q);
    };
    const int64_t n = parts.n;
    dependency::Sums* sums = loopy->sums();
    if (!sums->narrow || sums->scratch != loopy->scratch()) {
        tell(parts, *loopy);
        const dependency::Sentence s{table_.data(), n, trees.single_root};
        trees.api->sum(trees.kind, s, {}, loopy->scratch(), sums);
    }
    for (int32_t h = 0; h <= n; ++h) {
        const int32_t first = start_[at(h)], count = start_[at(h) + 1] - first;
        if (count == 0) continue;
        two_.resize(std::max(two_.size(), at(int64_t{count} * count)));
        up_.resize(std::max(up_.size(), at(int64_t{count} * (n + 1))));
        const int32_t into = into_[at(h)], many = into_[at(h) + 1] - into;
        trees.api->head_joints(sums, h, count, &modifier_[at(first)], many, &above_[at(into)],
                               two_.data(), up_.data());
        for (int32_t i = 0; i < count; ++i) {
            const int32_t a = child_[at(first + i)], m = modifier_[at(first + i)];
            for (int32_t j = i + 1; j < count; ++j) {
                push(&one, h, m, modifier_[at(first + j)], a, child_[at(first + j)],
                     two_[at(i * count + j)]);
            }
        }
        for (int32_t k = into; k < into + many; ++k) {
            const int32_t a = wanted_[at(k)], g = above_[at(k)];
            for (int32_t i = 0; i < count; ++i) {
                const int32_t m = modifier_[at(first + i)];
                if (m != g) push(&two, g, h, m, a, child_[at(first + i)], up_[at(g * count + i)]);
            }
        }
    }
    one.flush();
    two.flush();
    std::sort(found_.grandparents.begin(), found_.grandparents.end(),
              [](const Candidate& a, const Candidate& b) { return before(a.pair, b.pair); });
}

// P(both arcs) of the candidates that `screen` did not find them of; drops those without a gain.
void Relaxed::ask(const Parts& parts, const Trees& trees, double epsilon, Loopy* loopy) {
    open_.clear();
    asked_.clear();
    for (auto* list : {&found_.siblings, &found_.grandparents}) {
        for (Candidate& c : *list) {
            if (c.p >= 0.0) continue;
            const auto a = at(c.pair.first), b = at(c.pair.second);
            open_.push_back(&c);
            asked_.push_back({parts.head[a], parts.modifier[a], parts.head[b], parts.modifier[b]});
        }
    }
    if (open_.empty()) return;
    joint_.resize(asked_.size());
    tell(parts, *loopy);
    trees.api->joints({table_.data(), parts.n, trees.single_root},
                      static_cast<int64_t>(asked_.size()), asked_.data(), joint_.data(),
                      loopy->scratch());
    loopy->sums()->narrow = false;  // they are gone
    const double* p = joint_.data();
    for (Candidate* c : open_) {
        c->p = *p++;
        c->q = rest(c->p, q_[at(c->pair.first)], q_[at(c->pair.second)]);
        c->weigh();
    }
    found_.keep_above(epsilon);
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
    merge(found_.siblings, theta, messages, &parts->siblings);
    merge(found_.grandparents, theta + siblings, messages + 2 * siblings, &parts->grandparents);
    potentials->swap(potentials_);
    loopy->messages.swap(messages_);
    return parts->size() > size;
}

// `find(epsilon)` finds all pairs with a gain above epsilon. MinSize and MinDivergence choose
// those with larger gains than all others, so that most need not be known.
template <class Find>
void Relaxed::choose(const Options& options, const Parts& parts, const Find& find) {
    if (options.choice == Choice::kAbove) return find(options.amount);
    if (options.choice == Choice::kDivergence) {
        const auto wanted =
            static_cast<int64_t>(std::min(options.amount, static_cast<double>(INT32_MAX)));
        for (const double epsilon : {1e-3, 1e-5, 1e-8, 0.0}) {
            find(epsilon);
            if (found_.size() >= wanted) break;
        }
        return found_.keep_largest(wanted);
    }
    // The others have at most epsilon each, and all of these together are left out: a power of 2,
    // so that there are few tables.
    const auto pairs = static_cast<double>(std::max<int64_t>(1, parts.count_pairs()));
    double epsilon = std::exp2(std::floor(std::log2(options.amount / (64.0 * pairs))));
    for (int i = 0;; ++i) {
        if (i == 3) epsilon = 0.0;  // a tie
        find(epsilon);
        if (found_.size() == 0) return;
        const double others =
            epsilon > 0.0 ? epsilon * (pairs - static_cast<double>(found_.size())) : 0.0;
        const int64_t left = found_.smallest_within(options.amount);
        if (others <= 0.0 || left == found_.smallest_within(options.amount - others)) {
            return found_.keep_largest(found_.size() - left);
        }
        epsilon /= 1024.0;
    }
}

double Relaxed::run(const Scorer& scorer, const float* weights, const Trees& trees,
                    const Options& options, Parts* parts, std::vector<double>* potentials,
                    std::vector<double>* beliefs, Loopy* loopy) {
    counts = {};
    const Range &one = options.bounds->siblings.any(), &two = options.bounds->grandparents.any();
    const Range any{std::min(one.least, two.least), std::max(one.most, two.most)};
    const auto find = [&](double epsilon) {
        const Harmless& h = harmless(epsilon);
        list(*parts, *loopy, any, h);
        screen(scorer, weights, *parts, trees, options, h, loopy);
        ask(*parts, trees, epsilon, loopy);
    };
    for (;;) {
        beliefs->resize(at(parts->size()));
        // Beliefs of arcs alone are wanted only where no pair is added.
        const bool pairs = parts->size() > parts->arcs();
        const double log_z = loopy->run(*parts, potentials->data(), trees,
                                        pairs ? beliefs->data() : nullptr, counts.rounds > 0);
        counts.iterations += loopy->iterations();
        if (log_z == -INFINITY) return log_z;
        bool done = counts.rounds == options.rounds;
        if (!done) {
            choose(options, *parts, find);
            done = !add(parts, potentials, loopy);
        }
        if (done) {
            if (!pairs) loopy->tell_arcs(beliefs->data());
            counts.converged = loopy->converged();
            return log_z;
        }
        ++counts.rounds;
    }
}

}  // namespace vs::parser
