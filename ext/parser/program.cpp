#include "parser/program.h"

#include <algorithm>

#include "factors/tree.h"

namespace vs::parser {
namespace {

const dual::DualApi* g_dual = nullptr;

}  // namespace

void use_dual(const dual::DualApi* api, const trees::TreesApi* trees) noexcept {
    g_dual = api;
    factors::use_trees(trees);
}

// Variables and factors are those of `graph` in valuesparse/parsing/_graph.py, in their order.
Status Program::solve(const Parts& parts, const double* potentials, const Trees& trees,
                      double tolerance, int64_t max_iterations, Control* control) {
    const int64_t arcs = parts.arcs(), pairs = parts.size() - arcs;
    local_.assign(at(2 * arcs), 0.0);
    numbers_ = {trees.single_root, parts.n};
    ptr_ = {0, arcs};
    scope_.clear();
    for (int64_t a = 0; a < arcs; ++a) {
        local_[at(2 * a + 1)] = potentials[a];
        numbers_.push_back(parts.head[at(a)]);
        numbers_.push_back(parts.modifier[at(a)]);
        scope_.push_back(a);
    }
    table_.assign(at(4 * pairs), 0.0);
    tables_ = {nullptr};
    const double* theta = potentials + arcs;
    double* table = table_.data();
    const auto add = [&](const Parts::Pair& pair) {
        table[3] = *theta++;
        if (table[3] == 0.0) return;  // it says nothing
        tables_.push_back(table);
        table += 4;
        scope_.push_back(pair.first);
        scope_.push_back(pair.second);
        ptr_.push_back(static_cast<int64_t>(scope_.size()));
    };
    for (const Parts::Pair& pair : parts.siblings) add(pair);
    for (const Parts::Pair& pair : parts.grandparents) add(pair);
    const factors::Tree tree(arcs, numbers_.data(), trees.kind);
    own_.assign(tables_.size(), nullptr);
    own_[0] = &tree;
    states.assign(at(arcs), 0);
    point.assign(at(arcs), 0.0);
    dual::Graph graph;
    graph.n = arcs;
    graph.n_factors = static_cast<int64_t>(tables_.size());
    graph.local = local_.data();
    graph.ptr = ptr_.data();
    graph.scope = scope_.data();
    graph.table = tables_.data();
    graph.own = own_.data();
    answer = {};
    answer.states = states.data();
    answer.point = point.data();
    const Status s = g_dual->decode(graph, tolerance, max_iterations, control, &answer);
    if (s == kOk && answer.integral) std::copy(states.begin(), states.end(), point.begin());
    return s;
}

void Program::whole(const Parts& parts, const double* potentials, double* out) const {
    out = std::copy(point.begin(), point.end(), out);
    const double* theta = potentials + parts.arcs();
    for (const auto* pairs : {&parts.siblings, &parts.grandparents}) {
        for (const Parts::Pair& p : *pairs) {
            const double a = point[at(p.first)], b = point[at(p.second)];
            *out++ = *theta++ > 0.0 ? std::min(a, b) : std::max(a + b - 1.0, 0.0);
        }
    }
}

}  // namespace vs::parser
