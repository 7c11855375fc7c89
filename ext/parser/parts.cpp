#include "parser/parts.h"

#include <algorithm>
#include <numeric>

namespace vs::parser {

Templates::Templates(int o, int bits) : order(o) {
    sets.push_back(make_set(order == 0 ? Kind::kPruner : Kind::kArc, bits));
    line_at = {0, sets[0].lines};
    for (const Kind kind : {Kind::kSibling, Kind::kGrandparent}) {
        if (order < 2) break;
        sets.push_back(make_set(kind, bits));
        line_at.push_back(line_at.back() + sets.back().lines);
    }
}

void Parts::list_arcs(int64_t words) {
    n = words;
    head.clear();
    modifier.clear();
    siblings.clear();
    grandparents.clear();
    for (int32_t m = 1; m <= n; ++m) {
        for (int32_t h = 0; h <= n; ++h) {
            if (h == m) continue;
            head.push_back(h);
            modifier.push_back(m);
        }
    }
}

void Parts::list_arcs(int64_t words, int64_t count, const int32_t* heads,
                      const int32_t* modifiers) {
    n = words;
    head.assign(heads, heads + count);
    modifier.assign(modifiers, modifiers + count);
    siblings.clear();
    grandparents.clear();
}

void Parts::count_children() {
    start_.assign(at(n + 2), 0);
    child_.resize(head.size());
    for (const int32_t h : head) ++start_[at(h) + 1];
    std::partial_sum(start_.begin(), start_.end(), start_.begin());
    std::vector<int32_t> next(start_.begin(), start_.end() - 1);
    for (int32_t a = 0; a < arcs(); ++a) child_[at(next[at(head[at(a)])]++)] = a;
}

void Parts::list_pairs() {
    siblings.clear();
    grandparents.clear();
    visit_pairs(
        nullptr, nullptr, [&](const Pair& p) { siblings.push_back(p); },
        [&](const Pair& p) { grandparents.push_back(p); });
}

void Parts::structure(const int32_t* heads, double* out) const {
    int64_t i = 0;
    const auto on = [&](int32_t a) { return heads[modifier[at(a)] - 1] == head[at(a)]; };
    for (; i < arcs(); ++i) out[i] = on(static_cast<int32_t>(i));
    for (const Pair& p : siblings) out[i++] = on(p.first) && on(p.second);
    for (const Pair& p : grandparents) out[i++] = on(p.first) && on(p.second);
}

Scorer::Scorer(const Templates& templates) : templates_(templates) {
    for (const Set& set : templates.sets) features_.emplace_back(set);
}

void Scorer::read(const uint32_t* words, int64_t n) {
    sentence_.read(words, n);
    for (Features& f : features_) f.read(sentence_);
}

void Scorer::keys(Kind kind, const int32_t* nodes, Keys* keys) const {
    const Features& f = features_[static_cast<size_t>(kind)];
    if (kind == Kind::kSibling) {
        f.sibling(nodes[0], nodes[1], nodes[2], keys);
    } else if (kind == Kind::kGrandparent) {
        f.grandparent(nodes[0], nodes[1], nodes[2], keys);
    } else {
        f.arc(nodes[0], nodes[1], keys);
    }
    const auto base = static_cast<uint32_t>(templates_.line_at[static_cast<size_t>(kind)]);
    if (base) {
        for (int64_t k = 0; k < keys->count; ++k) keys->line[k] += base;
    }
}

}  // namespace vs::parser
