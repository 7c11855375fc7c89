#include "parser/worker.h"

#include <algorithm>
#include <cmath>

namespace vs::parser {
namespace {

// Limits of programs: learning wants no more digits, and sees each sentence many times.
constexpr double kTolerance = 1e-4;
constexpr int64_t kMostIterations = 1000;

}  // namespace

Worker::Worker(const Templates& templates, const Trees& trees, Memory* memory)
    : templates_(templates),
      trees_(trees),
      own_(memory ? nullptr : std::make_unique<Memory>()),
      memory_(memory ? memory : own_.get()),
      scorer_(templates),
      loopy_(memory_) {}

void Worker::list(int64_t n, const Listed& arcs, bool pairs) {
    if (arcs.head) {
        parts_.list_arcs(n, arcs.count, arcs.head, arcs.modifier);
    } else {
        parts_.list_arcs(n);
    }
    if (pairs && templates_.order > 1) parts_.list_pairs();
    if (pairs && templates_.order > 2) parts_.list_nonprojective();
}

void Worker::read(const uint32_t* words, int64_t n, const Listed& arcs, bool pairs) {
    list(n, arcs, pairs);
    scorer_.read(words, n, true, pairs);
    known_ = 0;
}

void Worker::list(const uint32_t* words, int64_t n, const Listed& arcs, bool pairs, bool told) {
    list(n, arcs, pairs);
    scorer_.read(words, n, false, pairs && !told);
    known_ = 0;
}

// f(kind, pair) for pairs [first, last) of the parts: siblings stand before grandparents.
template <class F>
void Worker::each_pair(int64_t first, int64_t last, F f) const {
    const auto siblings = static_cast<int64_t>(parts_.siblings.size());
    for (int64_t i = first; i < last; ++i) {
        if (i < siblings) {
            f(Kind::kSibling, parts_.siblings[at(i)]);
        } else {
            f(Kind::kGrandparent, parts_.grandparents[at(i - siblings)]);
        }
    }
}

PairScores::Mark Worker::ask_pairs(int64_t first, int64_t last, PairScores* scores) const {
    const PairScores::Mark mark = scores->begin(scorer_.sentence());
    each_pair(first, last, [&](Kind kind, const Parts::Pair& p) {
        scores->add(kind, p.nodes, pair_slots(kind, p.nodes));
    });
    return mark;
}

void Worker::tell_pairs(int64_t first, int64_t last, PairScores::Mark mark,
                        const PairScores& scores) {
    known_ = parts_.size();
    scores_.resize(at(known_));
    double* out = scores_.data() + parts_.arcs() + first;
    each_pair(first, last, [&](Kind kind, const Parts::Pair& p) {
        const int c = PairScores::class_of(kind, pair_slots(kind, p.nodes));
        *out++ = scores.of(c, mark.count[c]++);
    });
}

void Worker::tell(const ArcScores& scores, int64_t sentence) {
    known_ = parts_.arcs();
    scores_.resize(at(known_));
    scores.tell(sentence, scores_.data());
}

dependency::Sentence Worker::dense(const double* potentials) {
    const int64_t n = parts_.n, size = (n + 1) * (n + 1);
    table_.assign(at(size), -INFINITY);
    for (int64_t a = 0; a < parts_.arcs(); ++a) {
        table_[at(parts_.head[at(a)] * (n + 1) + parts_.modifier[at(a)])] = potentials[a];
    }
    memory_->of(trees_, n);
    return {table_.data(), n, trees_.single_root};
}

double Worker::marginals(const double* potentials, double* out) {
    if (templates_.order > 1) {
        loopy_.messages.clear();
        return loopy_.run(parts_, potentials, trees_, out);
    }
    const dependency::Sentence s = dense(potentials);
    p_.resize(table_.size());
    dependency::Arcs arcs;
    arcs.marginal = p_.data();
    const double log_z = trees_.api->marginals(trees_.kind, s, arcs, memory_->scratch.data());
    for (int64_t a = 0; a < parts_.arcs(); ++a) {
        out[a] = p_[at(parts_.head[at(a)] * (s.n + 1) + parts_.modifier[at(a)])];
    }
    return log_z;
}

bool Worker::begin_relaxed(const Relaxed::Options& options, Relaxed::Shared* shared) {
    score(shared->weights.all);
    loopy_.messages.clear();
    return relaxed_.begin(place(options, shared));
}

bool Worker::heads(int32_t* heads, double* own, std::vector<double>* beliefs) {
    if (loopy_.heads(parts_, scores_.data(), trees_, heads, own)) return true;
    beliefs->assign(at(parts_.size()), 0.0);
    if (relaxed_.log_z() > -INFINITY) {
        loopy_.tell(parts_, scores_.data(), trees_, beliefs->data());
    }
    return false;
}

double Worker::relax(const Relaxed::Options& options, std::vector<double>* beliefs,
                     Relaxed::Shared* shared) {
    shared->scores.clear();
    bool wanted = begin_relaxed(options, shared);
    while (wanted) wanted = resume_relaxed(options, shared, loopy_.ask(parts_, trees_));
    shared->scores.score(shared->weights);
    read_relaxed(options, shared);
    wanted = end_relaxed(options, shared, beliefs);
    while (wanted) wanted = resume_end(options, shared, beliefs, loopy_.ask(parts_, trees_));
    return relaxed_.log_z();
}

double Worker::best(const double* potentials, const int32_t** heads) {
    const dependency::Sentence s = dense(potentials);
    best_.resize(at(s.n));
    const double score = trees_.api->best(trees_.kind, s, best_.data(), memory_->scratch.data());
    heads_.assign(best_.begin(), best_.end());
    *heads = heads_.data();
    return score;
}

Status Worker::point(const double* potentials, Control* control, double* out) {
    if (parts_.n == 0) return kOk;
    const Status s =
        program_.solve(parts_, potentials, trees_, kTolerance, kMostIterations, control);
    if (s == kOk) program_.whole(parts_, potentials, out);
    return s;
}

Status Worker::loss(const int32_t* gold, const Rule& rule, Control* control, double* loss) {
    const int64_t size = parts_.size(), arcs = parts_.arcs();
    gold_.resize(at(size));
    residual_.assign(at(size), 0.0);
    cut_short_ = false;
    parts_.structure(gold, gold_.data());
    double right = 0.0;
    for (int64_t p = 0; p < size; ++p) right += scores_[at(p)] * gold_[at(p)];
    // The cost of a tree is that of its arcs: p = 1 - 2 z, q = n.
    for (int64_t a = 0; a < arcs; ++a) {
        scores_[at(a)] += rule.gamma * (1.0 - 2.0 * gold_[at(a)]);
    }
    double top = 0.0;
    *loss = 0.0;
    if (!std::isinf(rule.beta)) {
        if (rule.beta != 1.0) {
            for (double& x : scores_) x *= rule.beta;
        }
        top = marginals(scores_.data(), residual_.data()) / rule.beta;
    } else if (templates_.order > 1) {
        const Status s = point(scores_.data(), control, residual_.data());
        if (s == kInfeasible) top = -INFINITY;
        if (s == kCancelled || s == kNoMemory) return s;
        cut_short_ = s == kOk && parts_.n > 0 && !program_.exact;
    } else {
        const int32_t* heads = nullptr;
        top = best(scores_.data(), &heads);
        parts_.structure(heads, residual_.data());
    }
    if (top == -INFINITY) {  // no tree at all: nothing to learn
        std::fill(residual_.begin(), residual_.end(), 0.0);
        return kOk;
    }
    // log Z is a mean score plus an entropy, which is never negative: Bethe's can be, and would
    // hide that a tree is wrong.
    double mean = 0.0;
    for (int64_t p = 0; p < size; ++p) {
        if (residual_[at(p)] != 0.0) mean += residual_[at(p)] * scores_[at(p)];
    }
    top = std::isinf(rule.beta) ? mean : std::max(top, mean / rule.beta);
    for (int64_t p = 0; p < size; ++p) residual_[at(p)] -= gold_[at(p)];
    *loss = std::max(0.0, top + rule.gamma * static_cast<double>(parts_.n) - right);
    return kOk;
}

}  // namespace vs::parser
