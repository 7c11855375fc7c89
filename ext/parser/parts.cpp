#include "parser/parts.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>

namespace vs::parser {

Templates::Templates(int o, int bits) : order(o) {
    sets.push_back(make_set(order == 0 ? Kind::kPruner : Kind::kArc, bits));
    line_at = {0, sets[0].lines};
    for (const Kind kind : {Kind::kSibling, Kind::kGrandparent, Kind::kNonprojective}) {
        if (!has(kind)) break;
        sets.push_back(make_set(kind, bits));
        line_at.push_back(line_at.back() + sets.back().lines);
    }
    weights_ = line_at.back() * kSlots;
}

Templates::Templates(int o, const Dictionary& dictionary) : order(o) {
    const int64_t* sizes = dictionary.sizes;
    line_at = {0};
    for (const Kind kind : {Kind::kArc, Kind::kSibling, Kind::kGrandparent, Kind::kNonprojective}) {
        if (!has(kind)) break;
        sets.push_back(make_named_set(kind, sizes));
        if (sizes) sizes += sets.back().size();
        line_at.push_back(line_at.back() + sets.back().lines);
    }
    if (sizes) insert(dictionary);
}

bool Templates::has(Kind kind) const {
    return kind == Kind::kArc || order > (kind == Kind::kNonprojective ? 2 : 1);
}

void Templates::insert(const Dictionary& dictionary) {
    constexpr int kMostSteps = 4096;  // from where a key belongs
    entries.resize(at(line_at.back()));
    const int64_t* size = dictionary.sizes;
    const uint32_t* key = dictionary.keys;
    const uint16_t* slots = dictionary.slots;
    for (size_t kind = 0; kind < sets.size(); ++kind) {
        Set& set = sets[kind];
        for (int64_t t = 0; t < set.size(); ++t, ++size) {
            Entry* own = entries.data() + line_at[kind] + set.base[at(t)];
            const uint32_t mask = set.mask[at(t)];
            for (int64_t k = 0; k < *size; ++k, ++key, ++slots) {
                uint32_t i = *key & mask;
                int steps = 0;
                for (; own[i].slots && steps < kMostSteps; ++steps) i = (i + 1) & mask;
                if (own[i].slots) throw std::invalid_argument("keys fall together");
                own[i] = {*key, static_cast<uint32_t>(weights_), *slots};
                weights_ += ones(*slots);
            }
        }
        set.entries = entries.data() + line_at[kind];
    }
}

void Parts::list_arcs(int64_t words) {
    n = words;
    siblings.clear();
    grandparents.clear();
    nonprojective.clear();
    head.resize(at(n * n));
    modifier.resize(at(n * n));
    size_t a = 0;
    for (int32_t m = 1; m <= n; ++m) {
        for (int32_t h = 0; h <= n; ++h) {
            if (h == m) continue;
            head[a] = h;
            modifier[a++] = m;
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
    nonprojective.clear();
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
    count_children();
    siblings.clear();
    grandparents.clear();
    for (int32_t h = 0; h <= n; ++h) {
        for (int32_t i = start_[at(h)]; i < start_[at(h) + 1]; ++i) {
            const int32_t a = child_[at(i)];
            for (int32_t j = i + 1; j < start_[at(h) + 1]; ++j) {
                const int32_t b = child_[at(j)];
                siblings.push_back({{h, modifier[at(a)], modifier[at(b)]}, a, b});
            }
            const int32_t m = modifier[at(a)];
            for (int32_t j = start_[at(m)]; j < start_[at(m) + 1]; ++j) {
                const int32_t b = child_[at(j)];
                if (modifier[at(b)] == h) continue;
                grandparents.push_back({{h, m, modifier[at(b)]}, a, b});
            }
        }
    }
}

// Words all descend from the root, and nothing is between neighbours.
void Parts::list_nonprojective() {
    nonprojective.clear();
    for (int32_t a = 0; a < arcs(); ++a) {
        const int32_t h = head[at(a)], m = modifier[at(a)];
        if (h != 0 && h != m - 1 && h != m + 1) nonprojective.push_back(a);
    }
}

int64_t Parts::count_pairs() const {
    if (arcs() == n * n) {
        // All arcs: the root has n children, each word n - 1, and no word is its own grandparent.
        const int64_t below = n - 1;
        return n * below / 2 + n * below * (n - 2) / 2 + n * below + n * below * (n - 2);
    }
    std::vector<int64_t> children(at(n + 1), 0);
    for (const int32_t h : head) ++children[at(h)];
    int64_t count = 0;
    for (const int64_t k : children) count += k * (k - 1) / 2;
    std::vector<uint8_t> there(at((n + 1) * (n + 1)), 0);
    for (int64_t a = 0; a < arcs(); ++a) {
        const int64_t h = head[at(a)], m = modifier[at(a)];
        // Arcs (h, m) and (m, h) are no pair.
        count += children[at(m)] - 2 * there[at(m * (n + 1) + h)];
        there[at(h * (n + 1) + m)] = 1;
    }
    return count;
}

void Parts::structure(const int32_t* heads, double* out) const {
    int64_t i = 0;
    const auto on = [&](int32_t a) { return heads[modifier[at(a)] - 1] == head[at(a)]; };
    for (; i < arcs(); ++i) out[i] = on(static_cast<int32_t>(i));
    for (const Pair& p : siblings) out[i++] = on(p.first) && on(p.second);
    for (const Pair& p : grandparents) out[i++] = on(p.first) && on(p.second);
    for (const int32_t a : nonprojective) out[i++] = on(a) && crosses(heads, a);
}

bool Parts::crosses(const int32_t* heads, int32_t a) const {
    const int32_t h = head[at(a)], m = modifier[at(a)];
    for (int32_t k = std::min(h, m) + 1; k < std::max(h, m); ++k) {
        int32_t above = k;
        while (above != 0 && above != h) above = heads[above - 1];
        if (above != h) return true;
    }
    return false;
}

Scorer::Scorer(const Templates& templates) : templates_(templates) {
    for (const Set& set : templates.sets) features_.emplace_back(set);
}

void Scorer::read(const uint32_t* words, int64_t n, bool arcs, bool others) {
    sentence_.read(words, n);
    for (size_t kind = arcs ? 0 : 1; kind < (others ? features_.size() : 1); ++kind) {
        features_[kind].read(sentence_);
    }
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
    keys->entries = templates_.entries.empty() ? nullptr : templates_.entries.data();
    const auto base = static_cast<uint32_t>(templates_.line_at[static_cast<size_t>(kind)]);
    if (base) {
        for (int64_t k = 0; k < keys->count; ++k) keys->line[k] += base;
    }
}

}  // namespace vs::parser
