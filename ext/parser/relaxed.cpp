#include "parser/relaxed.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>

namespace vs::parser {
namespace {

constexpr double kNothing = 1e-18;  // a probability that is felt in no other one
constexpr double kRarest = 1e-100;  // one whose log-odds no bound cuts off
// Pairs of one sentence that wait to be scored with those of others; candidates that one keeps
// memory for.
constexpr int64_t kMostWaiting = int64_t{1} << 16;
constexpr size_t kKept = size_t{1} << 12;

bool before(const Parts::Pair& a, const Parts::Pair& b) {
    return std::lexicographical_compare(a.nodes, a.nodes + 3, b.nodes, b.nodes + 3);
}

Range any_of(const Bounds& bounds) {
    const Range &one = bounds.siblings.any(), &two = bounds.grandparents.any();
    return {std::min(one.least, two.least), std::max(one.most, two.most)};
}

bool same(const Parts::Pair& a, const Parts::Pair& b) {
    return a.first == b.first && a.second == b.second;
}

}  // namespace

// Pairs of one kind that may have a gain.
struct Relaxed::Screen {
    // high and q: P(both arcs) and 1 - P(both arcs) are not larger.
    void push(const Candidate& next, double high, double q) {
        if (high * most <= harmless.epsilon()) return;
        const int32_t* nodes = next.pair.nodes;
        const Slots slots = pair_slots(kind, nodes);
        if (harmless.at(high, q).holds(bounds.of(slots))) return;
        scores->add(kind, nodes, slots);
        out->push_back(next);
    }

    const Kind kind;
    const PairBounds& bounds;
    const Harmless& harmless;
    std::vector<Candidate>* out;
    PairScores* scores;
    const double most = largest_excess(bounds.any());
};

// 1 - P(both arcs). 1 - p has no digits beside a p near 1; the other bounds have.
double Relaxed::rest(double p, double q_a, double q_b) {
    return std::clamp(1.0 - p, std::max(q_a, q_b), std::min(1.0, q_a + q_b));
}

// Which arcs can be in a pair that has a gain: P(both arcs) is at most P(arc).
void Relaxed::list(const Parts& parts, const Loopy& loopy, const Range& potentials,
                   const Harmless& harmless, const Floors& floors) {
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
    children_.clear();
    for (int32_t a = 0; a < arcs; ++a) {
        if (loopy.odds()[at(a)] < least) continue;
        p_[at(a)] = logistic(loopy.odds()[at(a)], &q_[at(a)]);
        if (p_[at(a)] * most <= harmless.epsilon()) continue;
        if (harmless.at(p_[at(a)], 1.0).holds(potentials)) continue;
        const int32_t h = parts.head[at(a)], m = parts.modifier[at(a)];
        if (p_[at(a)] >= floors.first(h < m)) {
            wanted_.push_back(a);
            above_.push_back(h);
            ++into_[at(m) + 1];
        }
        if (p_[at(a)] >= floors.child(h < m)) {
            children_.push_back(a);
            ++start_[at(h) + 1];
        }
    }
    std::partial_sum(start_.begin(), start_.end(), start_.begin());
    std::partial_sum(into_.begin(), into_.end(), into_.begin());
    child_.resize(children_.size());
    modifier_.resize(children_.size());
    next_.assign(start_.begin(), start_.end() - 1);
    for (const int32_t a : children_) {
        const auto i = at(next_[at(parts.head[at(a)])]++);
        child_[i] = a;
        modifier_[i] = parts.modifier[at(a)];
    }
}

// Odds for the tree factor, without arcs so improbable that no joint has a digit of them: plain
// doubles are enough then.
void Relaxed::tell(const Parts& parts, const double* potentials, const Trees& trees, Loopy* loopy) {
    loopy->complete(parts, potentials, trees);
    double least = kNothing;
    for (const auto* some : {&wanted_, &children_}) {
        for (const int32_t a : *some) least = std::min(least, 0.5 * p_[at(a)]);
    }
    table_ = loopy->table();
    for (int64_t a = 0; a < parts.arcs(); ++a) {
        if (logistic(loopy->odds()[at(a)]) > least) continue;
        table_[at(parts.head[at(a)] * (parts.n + 1) + parts.modifier[at(a)])] = -INFINITY;
    }
}

// The pairs of those arcs that may have a gain, head by head.
void Relaxed::screen(const Place& here, const Harmless& harmless) {
    const Sentence& sentence = here.sentence;
    const Trees& trees = here.trees;
    const Options& options = here.options;
    const Parts& parts = *here.parts;
    const double* potentials = here.potentials->data();
    Loopy* loopy = here.loopy;
    Shared* shared = here.shared;
    found_.clear();
    weighed_siblings_ = weighed_grandparents_ = 0;
    found_.siblings.reserve(2 * children_.size());
    found_.grandparents.reserve(2 * children_.size());
    PairScores* scores = &shared->scores;
    first_ = scores->begin(sentence);
    std::vector<double>&two = shared->two, &up = shared->up;
    std::vector<int32_t>& left = shared->left;
    const Floors& floors = shared->floors;
    Screen siblings{Kind::kSibling, options.bounds->siblings, harmless, &found_.siblings, scores};
    Screen grandparents{Kind::kGrandparent, options.bounds->grandparents, harmless,
                        &found_.grandparents, scores};
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
        tell(parts, potentials, trees, loopy);
        const dependency::Sentence s{table_.data(), n, trees.single_root};
        trees.api->sum(trees.kind, s, {}, loopy->scratch(), sums);
    }
    for (int32_t h = 0; h <= n; ++h) {
        const int32_t first = start_[at(h)], count = start_[at(h) + 1] - first;
        if (count == 0) continue;
        two.resize(std::max(two.size(), at(int64_t{count} * count)));
        up.resize(std::max(up.size(), at(int64_t{count} * (n + 1))));
        const int32_t into = into_[at(h)], many = into_[at(h) + 1] - into;
        trees.api->head_joints(sums, h, count, &modifier_[at(first)], many, &above_[at(into)],
                               two.data(), up.data());
        // Those of a row from i to `end` that may matter, by their distances from a word.
        const int32_t *words = modifier_.data() + first, *arcs = child_.data() + first;
        const auto middle = static_cast<int32_t>(std::lower_bound(words, words + count, h) - words);
        int32_t* next = nullptr;
        const auto some = [&](const double* p, int32_t i, int32_t end, int32_t from,
                              const double* floor) {
            for (; i < end; ++i) {
                const int32_t d = std::min<int32_t>(std::abs(words[i] - from), kFar - 1);
                *next = i;
                next += std::fabs(p[i]) >= floor[d];
            }
        };
        left.resize(std::max(left.size(), at(count) + 1));
        for (int32_t i = 0; i < count; ++i) {
            const double* p = two.data() + int64_t{i} * count;
            const int32_t m = words[i], behind = std::max(i + 1, middle);
            next = left.data();
            some(p, i + 1, middle, m, floors.siblings(0));
            some(p, behind, count, m, floors.siblings(m < h ? 1 : 2));
            for (const int32_t* j = left.data(); j < next; ++j) {
                push(&siblings, h, m, words[*j], arcs[i], arcs[*j], p[*j]);
            }
        }
        for (int32_t k = into; k < into + many; ++k) {
            const int32_t a = wanted_[at(k)], g = above_[at(k)];
            const double* p = up.data() + int64_t{g} * count;
            const auto other =
                static_cast<int32_t>(std::lower_bound(words, words + count, g) - words);
            const int32_t low = std::min(middle, other), high = std::max(middle, other);
            next = left.data();
            some(p, 0, low, g, floors.grandparents(g, h, 0));
            some(p, low, high, g, floors.grandparents(g, h, 1));
            some(p, high, count, g, floors.grandparents(g, h, 2));
            for (const int32_t* i = left.data(); i < next; ++i) {
                const int32_t m = words[*i];
                if (m != g) push(&grandparents, g, h, m, a, arcs[*i], p[*i]);
            }
        }
        if (waiting() >= kMostWaiting) weigh_now(sentence, harmless, shared);
    }
    counts.scored += waiting();
}

// The potentials of the pairs that wait, which begin at `next`; drops those without a gain, as far
// as it is known.
void Relaxed::weigh(const Harmless& harmless, const PairScores& scores, PairScores::Mark next) {
    for (const Kind kind : {Kind::kSibling, Kind::kGrandparent}) {
        const bool siblings = kind == Kind::kSibling;
        auto& list = siblings ? found_.siblings : found_.grandparents;
        size_t& weighed = siblings ? weighed_siblings_ : weighed_grandparents_;
        const auto without = [&](Candidate& c) {
            const int which = PairScores::class_of(kind, pair_slots(kind, c.pair.nodes));
            c.theta = scores.of(which, next.count[which]++);
            if (c.p < 0.0) return false;
            if (harmless.at(c.p, c.q).holds({c.theta, c.theta})) return true;
            c.weigh();
            return !(c.gain > harmless.epsilon());
        };
        const auto first = list.begin() + static_cast<std::ptrdiff_t>(weighed);
        list.erase(std::remove_if(first, list.end(), without), list.end());
        weighed = list.size();
    }
}

// All that wait, with those of other sentences.
void Relaxed::weigh_last(const Harmless& harmless, const PairScores& scores) {
    weigh(harmless, scores, first_);
    std::sort(found_.grandparents.begin(), found_.grandparents.end(),
              [](const Candidate& a, const Candidate& b) { return before(a.pair, b.pair); });
    found_.fit(kKept);
}

int64_t Relaxed::waiting() const {
    return found_.size() - static_cast<int64_t>(weighed_siblings_ + weighed_grandparents_);
}

// The pairs that wait do so no longer: where bounds rule nearly none out, there are O(n^3).
void Relaxed::weigh_now(const Sentence& sentence, const Harmless& harmless, Shared* shared) {
    counts.scored += waiting();
    shared->scores.take_back(first_);
    PairScores& own = shared->own;
    own.clear();
    const PairScores::Mark mark = own.begin(sentence);
    const auto ask = [&](Kind kind, const std::vector<Candidate>& list, size_t first) {
        for (size_t i = first; i < list.size(); ++i) {
            const int32_t* nodes = list[i].pair.nodes;
            own.add(kind, nodes, pair_slots(kind, nodes));
        }
    };
    ask(Kind::kSibling, found_.siblings, weighed_siblings_);
    ask(Kind::kGrandparent, found_.grandparents, weighed_grandparents_);
    own.score(shared->weights);
    weigh(harmless, own, mark);
}

// P(both arcs) of the candidates that `screen` did not find them of; drops those without a gain.
void Relaxed::ask(const Place& here, double epsilon) {
    const Parts& parts = *here.parts;
    const Trees& trees = here.trees;
    Loopy* loopy = here.loopy;
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
    tell(parts, here.potentials->data(), trees, loopy);
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
bool Relaxed::add(const Place& here) {
    Parts* parts = here.parts;
    std::vector<double>* potentials = here.potentials;
    Loopy* loopy = here.loopy;
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

// The pairs that may have a gain above epsilon, to be scored.
void Relaxed::offer(const Place& here, double epsilon) {
    Shared* shared = here.shared;
    const Bounds& bounds = *here.options.bounds;
    const Harmless& h = shared->thresholds.of(epsilon);
    shared->floors.make(bounds, h);
    list(*here.parts, *here.loopy, any_of(bounds), h, shared->floors);
    screen(here, h);
}

bool Relaxed::begin(const Place& here) {
    const Options& options = here.options;
    counts = {};
    // Arcs that are in no pair with a gain, whatever their digits: see `list`.
    const double rare = options.amount / largest_excess(any_of(*options.bounds));
    const bool leave_out = quick(options) && rare > kRarest;
    return here.loopy->begin(*here.parts, here.potentials->data(), here.trees, false,
                             leave_out ? (1.0 - 1e-6) * rare : 0.0);
}

bool Relaxed::resume(const Place& here, double log_z) {
    if (here.loopy->resume(*here.parts, here.potentials->data(), log_z)) return true;
    const Options& options = here.options;
    log_z_ = here.loopy->log_z();
    offered_ = log_z_ != -INFINITY && options.choice == Choice::kAbove && options.rounds != 0;
    if (offered_) offer(here, options.amount);
    here.loopy->leave();
    return false;
}

void Relaxed::read(const Options& options, Shared* shared) {
    if (offered_) weigh_last(shared->thresholds.of(options.amount), shared->scores);
}

void Relaxed::find(const Place& here, double epsilon) {
    Shared* shared = here.shared;
    if (!offered_) {
        shared->scores.clear();
        offer(here, epsilon);
        shared->scores.score(shared->weights);
        weigh_last(shared->thresholds.of(epsilon), shared->scores);
    }
    offered_ = false;
    ask(here, epsilon);
}

bool Relaxed::begin_end(const Place& here, std::vector<double>* beliefs) {
    done_ = false;
    return go_on(here, beliefs);
}

bool Relaxed::go_on(const Place& here, std::vector<double>* beliefs) {
    Loopy* loopy = here.loopy;
    if (log_z_ == -INFINITY) return false;
    if (counts.rounds != here.options.rounds) {
        choose(here.options, *here.parts, [&](double epsilon) { find(here, epsilon); });
        if (add(here)) {
            ++counts.rounds;
            const double* potentials = here.potentials->data();
            // Messages begin without a tree, and may end so.
            return loopy->begin(*here.parts, potentials, here.trees, true, 0.0) ||
                   end_round(here, beliefs);
        }
    }
    done_ = true;
    if (counts.rounds == 0 &&
        loopy->begin_complete(*here.parts, here.potentials->data(), here.trees)) {
        return true;
    }
    return finish(here, beliefs);
}

bool Relaxed::resume_end(const Place& here, std::vector<double>* beliefs, double log_z) {
    if (here.loopy->resume(*here.parts, here.potentials->data(), log_z)) return true;
    return done_ ? finish(here, beliefs) : end_round(here, beliefs);
}

// Messages have ended: beliefs, and another round.
bool Relaxed::end_round(const Place& here, std::vector<double>* beliefs) {
    Loopy* loopy = here.loopy;
    log_z_ = loopy->log_z();
    if (beliefs && log_z_ > -INFINITY) {
        beliefs->resize(at(here.parts->size()));
        log_z_ = loopy->tell(*here.parts, here.potentials->data(), here.trees, beliefs->data());
    }
    counts.iterations += loopy->iterations();
    return go_on(here, beliefs);
}

// Nothing was added any more.
bool Relaxed::finish(const Place& here, std::vector<double>* beliefs) {
    if (counts.rounds == 0 && beliefs) {
        beliefs->resize(at(here.parts->arcs()));
        here.loopy->tell_arcs(beliefs->data());
    }
    counts.converged = here.loopy->converged();
    return false;
}

}  // namespace vs::parser
