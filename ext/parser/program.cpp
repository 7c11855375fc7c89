#include "parser/program.h"

#include <algorithm>

#include "factors/one_of.h"
#include "factors/or.h"
#include "factors/tree.h"

namespace vs::parser {
namespace {

const dual::DualApi* g_dual = nullptr;

constexpr double kSeen = 1e-3;  // an arc that a fractional point has
// Dual decomposition is slow on flows: so many words have some at most, in so many rounds, of so
// many iterations.
constexpr int64_t kMostFlows = 12, kMostRounds = 5, kMostIterationsOfFlows = 300;

}  // namespace

void use_dual(const dual::DualApi* api, const dependency::TreesApi* trees) noexcept {
    g_dual = api;
    factors::use_trees(trees);
}

int64_t Program::variable(double score) {
    local_.push_back(0.0);
    local_.push_back(score);
    return static_cast<int64_t>(local_.size()) / 2 - 1;
}

// Over the variables that are now in the scope.
void Program::add(std::unique_ptr<factors::Structured> factor) {
    ptr_.push_back(static_cast<int64_t>(scope_.size()));
    tables_.push_back(nullptr);
    own_.push_back(factor.get());
    kept_.push_back(std::move(factor));
}

void Program::add(std::initializer_list<int64_t> scope, std::initializer_list<int64_t> negated) {
    scope_.insert(scope_.end(), scope);
    add(std::make_unique<factors::Or>(static_cast<int64_t>(scope.size()), negated.begin(),
                                      static_cast<int64_t>(negated.size())));
}

// Arcs, trees and pairs: variables and factors are those of `graph` in
// valuesparse/parsing/_graph.py, in their order. A part of non-projectivity that has no variable
// scores the most that its arc allows.
void Program::lay_out(const Parts& parts, const double* potentials, const Trees& trees) {
    const int64_t arcs = parts.arcs(), pairs = parts.pairs();
    local_.clear();
    ptr_ = {0};
    scope_.clear();
    tables_.clear();
    own_.clear();
    kept_.clear();
    std::vector<int64_t> numbers{trees.single_root, parts.n};
    for (int64_t a = 0; a < arcs; ++a) {
        numbers.push_back(parts.head[at(a)]);
        numbers.push_back(parts.modifier[at(a)]);
        scope_.push_back(variable(potentials[a]));
    }
    add(std::make_unique<factors::Tree>(arcs, numbers.data(), trees.kind));
    table_.assign(at(4 * pairs), 0.0);
    const double* theta = potentials + arcs;
    double* table = table_.data();
    for (const auto* list : {&parts.siblings, &parts.grandparents}) {
        for (const Parts::Pair& pair : *list) {
            table[3] = *theta++;
            if (table[3] == 0.0) continue;  // it says nothing
            scope_.push_back(pair.first);
            scope_.push_back(pair.second);
            ptr_.push_back(static_cast<int64_t>(scope_.size()));
            tables_.push_back(table);
            own_.push_back(nullptr);
            table += 4;
        }
    }
    number_.assign(parts.nonprojective.size(), -1);
    path_.assign(at(parts.n + 1), {});
    for (size_t i = 0; i < number_.size(); ++i) {
        if (!asked_[i].empty()) {
            add_nonprojective(parts, i, theta[i]);
        } else {
            local_[at(2 * parts.nonprojective[i] + 1)] += std::max(0.0, theta[i]);
        }
    }
}

// A flow of one unit from the root to `word` within the arcs (MSFXM10, Fig. 3), and paths.
void Program::add_flow(const Parts& parts, int64_t word) {
    std::vector<int64_t>& path = path_[at(word)];
    path.assign(at(parts.n + 1), -1);
    std::vector<std::vector<int64_t>> into(path.size()), out_of(path.size());
    for (int64_t a = 0; a < parts.arcs(); ++a) {
        if (parts.head[at(a)] == word) continue;
        const int64_t flow = variable(0.0);
        add({flow, a}, {0});
        into[at(parts.modifier[at(a)])].push_back(flow);
        out_of[at(parts.head[at(a)])].push_back(flow);
    }
    // One of the flows, or none where the path is off.
    const auto one = [&](const std::vector<int64_t>& flows, int64_t of) {
        scope_.insert(scope_.end(), flows.begin(), flows.end());
        const auto last = static_cast<int64_t>(flows.size());
        if (of >= 0) scope_.push_back(of);
        add(std::make_unique<factors::OneOf>(last + (of >= 0), &last, of >= 0, false));
    };
    one(out_of[0], -1);
    one(into[at(word)], -1);
    for (int64_t w = 1; w <= parts.n; ++w) {
        if (w == word) continue;
        path[at(w)] = variable(0.0);
        one(into[at(w)], path[at(w)]);
        one(out_of[at(w)], path[at(w)]);
    }
}

// Words that are not asked for allow a part that costs to be off; a part that pays asks for all.
void Program::add_nonprojective(const Parts& parts, size_t i, double score) {
    const int64_t a = parts.nonprojective[i], h = parts.head[at(a)];
    for (const int32_t k : asked_[i]) {
        if (path_[at(k)].empty()) add_flow(parts, k);
    }
    const int64_t v = number_[i] = variable(score);
    add({v, a}, {0});
    if (score > 0.0) {
        std::vector<int64_t> negated{0};
        scope_.push_back(v);
        for (const int32_t k : asked_[i]) {
            negated.push_back(static_cast<int64_t>(negated.size()));
            scope_.push_back(path_[at(k)][at(h)]);
        }
        const auto size = static_cast<int64_t>(negated.size());
        add(std::make_unique<factors::Or>(size, negated.data(), size));
    }
    for (const int32_t k : asked_[i]) add({a, path_[at(k)][at(h)], v}, {0});
}

// (words + 1,) the words that the root reaches by arcs of the point without passing h: all others
// descend from h, whatever their flows are.
void Program::reach(const Parts& parts, int32_t h) {
    free_.assign(at(parts.n + 1), 0);
    free_[0] = 1;
    std::vector<int32_t> waiting{0};
    while (!waiting.empty()) {
        const int32_t from = waiting.back();
        waiting.pop_back();
        for (const int32_t m : below_[at(from)]) {
            if (m == h || free_[at(m)]) continue;
            free_[at(m)] = 1;
            waiting.push_back(m);
        }
    }
}

// Whether some part counted for more than it is worth: its words get flows.
bool Program::refine(const Parts& parts, const double* potentials) {
    const double* theta = potentials + parts.arcs() + parts.pairs();
    below_.resize(at(parts.n + 1));
    for (auto& list : below_) list.clear();
    for (int64_t a = 0; a < parts.arcs() && !asked_.empty(); ++a) {
        if (point[at(a)] > kSeen) below_[at(parts.head[at(a)])].push_back(parts.modifier[at(a)]);
    }
    bool more = false;
    int64_t flows = 0;
    for (const auto& path : path_) flows += !path.empty();
    exact = true;
    for (size_t i = 0; i < asked_.size(); ++i) {
        const int32_t a = parts.nonprojective[i];
        const int32_t h = parts.head[at(a)], m = parts.modifier[at(a)];
        const bool pays = theta[i] > 0.0;
        if (theta[i] == 0.0 || !(point[at(a)] > kSeen)) continue;
        if (pays && (!asked_[i].empty() || (answer.integral && parts.crosses(heads_.data(), a)))) {
            continue;
        }
        int64_t fresh = 0;
        for (int32_t k = std::min(h, m) + 1; k < std::max(h, m); ++k) fresh += path_[at(k)].empty();
        if (pays && flows + fresh > kMostFlows) {
            exact = false;
            continue;
        }
        if (!pays) reach(parts, h);
        for (int32_t k = std::min(h, m) + 1; k < std::max(h, m); ++k) {
            std::vector<int32_t>& own = asked_[i];
            if (!pays && (!free_[at(k)] || std::find(own.begin(), own.end(), k) != own.end())) {
                continue;
            }
            std::vector<int64_t>& path = path_[at(k)];
            if (path.empty()) {
                if (flows == kMostFlows) {
                    exact = false;
                    continue;
                }
                ++flows;
                path.push_back(-1);  // it is counted
            }
            own.push_back(k);
            more = true;
        }
    }
    return more;
}

// The tree of the states; where rounding found none, the one with the most of the point.
void Program::take_tree(const Parts& parts) {
    if (!(answer.score > -INFINITY)) {
        std::vector<double> in(at(2 * parts.arcs()), 0.0), work(at(own_[0]->scratch()));
        for (int64_t a = 0; a < parts.arcs(); ++a) in[at(2 * a + 1)] = point[at(a)];
        own_[0]->best(in.data(), states.data(), work.data());
    }
    heads_.assign(at(parts.n), 0);
    for (int64_t a = 0; a < parts.arcs(); ++a) {
        if (states[at(a)]) heads_[at(parts.modifier[at(a)] - 1)] = parts.head[at(a)];
    }
}

// Few arcs of an optimum are non-projective, and flows are many. So a program has flows of those
// words alone that matter to a part, and grows until no part counts for more than it is worth: then
// its optimum is that of the program with all of them. Where that takes too many, its value
// is a bound.
Status Program::solve(const Parts& parts, const double* potentials, const Trees& trees,
                      double tolerance, int64_t max_iterations, Control* control) {
    asked_.assign(parts.nonprojective.size(), {});
    for (int64_t round = 0;; ++round) {
        lay_out(parts, potentials, trees);
        dual::Graph graph;
        graph.n = static_cast<int64_t>(local_.size()) / 2;
        graph.n_factors = static_cast<int64_t>(tables_.size());
        graph.local = local_.data();
        graph.ptr = ptr_.data();
        graph.scope = scope_.data();
        graph.table = tables_.data();
        graph.own = own_.data();
        states.assign(at(graph.n), 0);
        point.assign(at(graph.n), 0.0);
        answer = {};
        answer.states = states.data();
        answer.point = point.data();
        const Status s = g_dual->decode(graph, tolerance, max_iterations, control, &answer);
        if (s != kOk) return s;
        if (answer.integral) std::copy(states.begin(), states.end(), point.begin());
        if (!asked_.empty()) take_tree(parts);
        if (!refine(parts, potentials)) break;
        if (round == kMostRounds) {
            exact = false;
            break;
        }
        max_iterations = std::min(max_iterations, kMostIterationsOfFlows);
    }
    answer.converged = answer.converged && exact;
    return kOk;
}

void Program::whole(const Parts& parts, const double* potentials, double* out) const {
    out = std::copy(point.begin(), point.begin() + parts.arcs(), out);
    const double* theta = potentials + parts.arcs();
    for (const auto* pairs : {&parts.siblings, &parts.grandparents}) {
        for (const Parts::Pair& p : *pairs) {
            const double a = point[at(p.first)], b = point[at(p.second)];
            *out++ = *theta++ > 0.0 ? std::min(a, b) : std::max(a + b - 1.0, 0.0);
        }
    }
    for (size_t i = 0; i < asked_.size(); ++i) {
        const int32_t a = parts.nonprojective[i];
        if (answer.integral) {
            *out++ = states[at(a)] && parts.crosses(heads_.data(), a);
        } else {
            *out++ = number_[i] < 0 ? 0.0 : point[at(number_[i])];
        }
    }
}

}  // namespace vs::parser
