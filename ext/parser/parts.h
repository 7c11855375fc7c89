// The parts of one sentence, their scores, and what a gradient says of their weights.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "parser/features.h"
#include "parser/templates.h"

namespace vs::parser {

// The sets of templates of a model: of order 0 those of a pruner, of order 1 arcs alone, of order 2
// pairs of arcs as well, of order 3 whether arcs are non-projective, too. Weights of arcs stand
// first, then those of siblings, of grandparents and of non-projective arcs.
struct Templates {
    Templates(int order, int bits);
    // With the keys of a dictionary; of none (no sizes): keys alone, for counting. Throws where
    // keys fall together as no treebank's do.
    Templates(int order, const Dictionary& dictionary);
    Templates(const Templates&) = delete;
    Templates& operator=(const Templates&) = delete;

    int order;
    std::vector<Set> sets;         // by kind of part: one, three or four
    std::vector<int64_t> line_at;  // the first line of each set, and how many there are
    std::vector<Entry> entries;    // (lines,) of a dictionary, or none

    int64_t n_weights() const { return weights_; }
    // The weight of a line and a slot; -1: there is no such one.
    int64_t weight(int64_t line, int slot) const {
        return entries.empty() ? line * kSlots + slot : place(entries[at(line)], slot);
    }
    // The weights of a line by slot, 0 where there is none.
    template <class T>
    void read(const T* weights, int64_t line, T* out) const {
        for (int slot = 0; slot < kSlots; ++slot) {
            const int64_t at = weight(line, slot);
            out[slot] = at < 0 ? T{0} : weights[at];
        }
    }

    // sum, and what template t of a set has for a key: the bits that `score` has.
    float add(const float* weights, size_t set, int64_t t, uint32_t key, const Slots& slots,
              float sum) const {
        const Set& own = sets[set];
        if (!own.entries) {
            const int64_t line = line_at[set] + own.base[at(t)] + (key & own.mask[at(t)]);
            const float* w = weights + line * kSlots;
            return sum + (w[0] + w[slots.a] + w[slots.b]);
        }
        const Entry& e = own.entries[own.find(t, key)];
        for (const int slot : {0, slots.a, slots.b}) {
            const int64_t i = e.slots ? place(e, slot) : -1;
            if (i >= 0) sum += weights[i];
        }
        return sum;
    }

  private:
    bool has(Kind kind) const;
    void insert(const Dictionary& dictionary);
    int64_t weights_ = 0;
};

// The arcs of a sentence that are looked at, by modifier and head; none listed: all.
struct Listed {
    int64_t count = 0;
    const int32_t *head = nullptr, *modifier = nullptr;
};

// Which parts a sentence has. Arcs are ordered by modifier, then head; siblings by (h, m, s),
// grandparents by (g, h, m), each a pair of arcs. The last parts say of an arc that it is on, and
// that some word between its ends does not descend from its head.
struct Parts {
    struct Pair {
        int32_t nodes[3];       // (h, m, s) or (g, h, m)
        int32_t first, second;  // the arcs (h, m), (h, s), or (g, h), (h, m)
    };
    int64_t n = 0;
    std::vector<int32_t> head, modifier;
    std::vector<Pair> siblings, grandparents;
    std::vector<int32_t> nonprojective;  // numbers of arcs

    int64_t arcs() const { return static_cast<int64_t>(head.size()); }
    Listed listed() const { return {arcs(), head.data(), modifier.data()}; }
    int64_t pairs() const { return static_cast<int64_t>(siblings.size() + grandparents.size()); }
    int64_t size() const { return arcs() + pairs() + static_cast<int64_t>(nonprojective.size()); }
    // All arcs, or those given.
    void list_arcs(int64_t words);
    void list_arcs(int64_t words, int64_t count, const int32_t* heads, const int32_t* modifiers);
    void list_pairs();
    void list_nonprojective();
    int64_t count_pairs() const;  // how many that would list
    // (size,) 1 where the tree `heads` (n,) has a part.
    void structure(const int32_t* heads, double* out) const;
    // Whether arc a of that tree is non-projective.
    bool crosses(const int32_t* heads, int32_t a) const;

  private:
    void count_children();
    std::vector<int32_t> start_, child_;  // the arcs of each head, by modifier
};

// A key of a part and its share of the gradient.
struct Change {
    uint32_t line;
    int8_t a, b;
    double value;
};

// The features of one sentence at a time.
class Scorer {
  public:
    explicit Scorer(const Templates& templates);

    // Without `arcs`, or `others`, no arc, or no other part, will be asked about.
    void read(const uint32_t* words, int64_t n, bool arcs = true, bool others = true);
    const Sentence& sentence() const { return sentence_; }
    void keys(Kind kind, const int32_t* nodes, Keys* keys) const;
    // (parts,) scores; or those of parts [first, last) alone.
    template <class T>
    void score(const T* weights, const Parts& parts, double* out) const {
        score(weights, parts, 0, parts.size(), out);
    }
    template <class T>
    void score(const T* weights, const Parts& parts, int64_t first, int64_t last,
               double* out) const;
    // Calls add(Change) for every key of every part whose residual exceeds `least` in magnitude; or
    // of parts [first, last) alone.
    template <class Add>
    void pull(const Parts& parts, const double* residual, double least, const Add& add) const {
        pull(parts, 0, parts.size(), residual, least, add);
    }
    template <class Add>
    void pull(const Parts& parts, int64_t first, int64_t last, const double* residual, double least,
              const Add& add) const {
        Keys keys;
        each(parts, first, last, [&](int64_t i, Kind kind, const int32_t* nodes) {
            const double r = residual[i];
            if (!(r > least || r < -least)) return;
            this->keys(kind, nodes, &keys);
            for (int64_t k = 0; k < keys.count; ++k) {
                if (keys.entries && !keys.entries[keys.line[k]].slots) continue;
                add(Change{keys.line[k], static_cast<int8_t>(keys.a), static_cast<int8_t>(keys.b),
                           r});
            }
        });
    }

  private:
    template <class Do>
    void each(const Parts& parts, int64_t first, int64_t last, const Do& act) const {
        const int64_t arcs = parts.arcs();
        const int64_t both = arcs + static_cast<int64_t>(parts.siblings.size());
        int64_t i = first;
        for (; i < std::min(last, arcs); ++i) {
            const int32_t nodes[3] = {parts.head[at(i)], parts.modifier[at(i)], -1};
            act(i, Kind::kArc, nodes);
        }
        for (; i < std::min(last, both); ++i) {
            act(i, Kind::kSibling, parts.siblings[at(i - arcs)].nodes);
        }
        const int64_t pairs = arcs + parts.pairs();
        for (; i < std::min(last, pairs); ++i) {
            act(i, Kind::kGrandparent, parts.grandparents[at(i - both)].nodes);
        }
        for (; i < last; ++i) {
            const size_t a = at(parts.nonprojective[at(i - pairs)]);
            const int32_t nodes[3] = {parts.head[a], parts.modifier[a], -1};
            act(i, Kind::kNonprojective, nodes);
        }
    }

    const Templates& templates_;
    Sentence sentence_;
    std::vector<Features> features_;
};

template <class T>
void Scorer::score(const T* weights, const Parts& parts, int64_t first, int64_t last,
                   double* out) const {
    if (last <= first) return;
    // One part behind: its lines are on their way.
    Keys keys[2];
    each(parts, first, last, [&](int64_t i, Kind kind, const int32_t* nodes) {
        this->keys(kind, nodes, &keys[i & 1]);
        prefetch(weights, keys[i & 1]);
        if (i > first) out[i - 1] = parser::score(weights, keys[~i & 1]);
    });
    out[last - 1] = parser::score(weights, keys[(last - 1) & 1]);
}

}  // namespace vs::parser
