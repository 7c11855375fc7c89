// The features of the parts of one sentence.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/at.h"
#include "parser/templates.h"

namespace vs::parser {

// The lines of a part, and the two slots of each that count beside the first.
struct Keys {
    static constexpr int kMost = 256;
    uint32_t line[kMost];
    uint8_t of[kMost];               // templates, of keys with names
    const Entry* entries = nullptr;  // by line, of a model with a dictionary
    int64_t count = 0;
    int a = 0, b = 0;
};

// Words of a sentence, with the root before the first and nothing beyond both ends.
class Sentence {
  public:
    static constexpr int64_t kTags = 64;
    static constexpr uint32_t kCounts = 3 * 4 * 2;  // what `counts` may be

    void read(const uint32_t* words, int64_t n);
    int64_t size() const { return n_; }
    // Position 0 is the root; -kAround..n + kAround.
    const uint32_t* word(int64_t position) const {
        return words_.data() + (position + kAround) * kFields;
    }
    // The tags strictly between two positions, a bit each, by their numbers in this sentence.
    uint64_t tags(int64_t left, int64_t right) const;
    int n_tags() const { return static_cast<int>(tags_.size()); }
    uint32_t tag(int number) const { return tags_[at(number)]; }
    // The counts there of verbs, punctuation, coordinating conjunctions, each up to a few.
    uint32_t counts(int64_t left, int64_t right) const;

  private:
    struct Sums {
        int32_t verbs, punctuation, coordination;
    };
    int64_t n_ = 0;
    std::vector<uint32_t> words_;  // (n + 1 + 2 kAround, kFields)
    std::vector<uint32_t> tags_;   // UPOS that the sentence has, at most 64
    std::vector<uint8_t> number_;  // (n + 1,) of each word's
    std::vector<Sums> sums_;       // (n + 2,) of the words before each position
};

constexpr int64_t kFarthest = 40;  // exact distances end here

// Distances d > 0 of an arc from kNearest[b] on are in bin b.
constexpr int kBins = 6;
constexpr int64_t kNearest[kBins] = {1, 2, 3, 4, 6, 11};
inline int bin(int64_t d) {
    static_assert(kNearest[2] == 3, "the first three are single distances");
    return d < kNearest[3]   ? static_cast<int>(d) - 1
           : d < kNearest[4] ? 3
           : d < kNearest[5] ? 4
                             : 5;
}

// The slots of a line that count for a part beside the first, by its directions and distances.
struct Slots {
    int a, b;
};
inline int coarse_bin(int64_t d) { return d < 3 ? static_cast<int>(d) - 1 : d < 6 ? 2 : 3; }
inline Slots sibling_at(int side, int64_t d) { return {1 + side, 4 + 4 * side + coarse_bin(d)}; }
inline Slots grandparent_at(int middle, bool up, int64_t d) {
    return {1 + 2 * middle + up, 7 + 3 * middle + (d < 3 ? 0 : d < 7 ? 1 : 2)};
}
constexpr int64_t kFar = 8;  // distances from 7 on are alike there
inline Slots sibling_slots(int64_t head, int64_t first, int64_t second) {
    return sibling_at(second < head ? 0 : first < head ? 1 : 2, second - first);
}
inline Slots grandparent_slots(int64_t grand, int64_t head, int64_t modifier) {
    // Which of the three is between the others, and in which direction.
    const bool a = grand < head, b = head < modifier, c = grand < modifier;
    const int middle = a == b ? 0 : a == c ? 1 : 2;
    return grandparent_at(middle, a, c ? modifier - grand : grand - modifier);
}

inline Slots pair_slots(Kind kind, const int32_t* nodes) {
    return kind == Kind::kSibling ? sibling_slots(nodes[0], nodes[1], nodes[2])
                                  : grandparent_slots(nodes[0], nodes[1], nodes[2]);
}

// Parts of a kind with the same slots are a class. The slots of each class:
std::vector<Slots> classes_of(Kind kind);
constexpr int kSiblingClasses = 3 * 4, kGrandparentClasses = 6 * 3;
// The class of a pair, among those of its kind.
inline int pair_class(Kind kind, const Slots& s) {
    return kind == Kind::kSibling ? s.b - 4 : 3 * (s.a - 1) + (s.b - 7) % 3;
}

// The hashes of what stands in the places that template t has for a role: of position p at
// out[p step], 0 where it has none.
void hash_role(const Set& set, int64_t t, int role, const Sentence& sentence, uint32_t* out,
               int64_t step);

// Hashes of what a template holds beside words: a distance of the modifier from the head, what is
// counted between, or a tag.
class Values {
  public:
    Values();
    uint32_t distance(int64_t d) const {
        return distance_[at(std::clamp(d, -kFarthest, kFarthest) + kFarthest)];
    }
    uint32_t counts(uint32_t counts) const { return counts_[counts]; }
    static uint32_t tag(uint32_t tag);

  private:
    uint32_t distance_[2 * kFarthest + 1], counts_[Sentence::kCounts];
};

// A part's key in a template is the exclusive or of one hash for each role, made once for a word.
class Features {
  public:
    explicit Features(const Set& set) : set_(set) {}

    void read(const Sentence& sentence);
    // The keys of a part: positions in the order of the roles.
    void arc(int64_t head, int64_t modifier, Keys* keys) const;
    void sibling(int64_t head, int64_t first, int64_t second, Keys* keys) const;
    void grandparent(int64_t grand, int64_t head, int64_t modifier, Keys* keys) const;

  private:
    const uint32_t* row(int role, int64_t position) const {
        return rows_[role].data() + position * set_.size();
    }
    template <class Mixed>
    void fill(const Mixed& mixed, int64_t left, int64_t right, int64_t distance, Keys* keys) const;
    template <bool kNamed, class Mixed>
    void list(const Mixed& mixed, int64_t left, int64_t right, int64_t distance, Keys* keys) const;
    void find(Keys* keys) const;

    const Set& set_;
    const Values values_;
    const Sentence* sentence_ = nullptr;
    std::vector<uint32_t> rows_[kRoles];  // each (n + 1, templates)
};

// The score of a part: weights have kSlots in each line, or lie where a dictionary says.
template <class T>
T score(const T* weights, const Keys& keys) noexcept {
    T sum = 0;
    if (keys.entries) {
        for (int64_t i = 0; i < keys.count; ++i) {
            const Entry& e = keys.entries[keys.line[i]];
            if (!e.slots) continue;
            for (const int slot : {0, keys.a, keys.b}) {
                const int64_t at = place(e, slot);
                if (at >= 0) sum += weights[at];
            }
        }
        return sum;
    }
    for (int64_t i = 0; i < keys.count; ++i) {
        const T* line = weights + static_cast<int64_t>(keys.line[i]) * kSlots;
        sum += line[0] + line[keys.a] + line[keys.b];
    }
    return sum;
}

// Asks for memory before it is needed.
inline void prefetch_line(const void* p) noexcept {
#if defined(__GNUC__)
    __builtin_prefetch(p);
#else
    (void)p;
#endif
}

// Asks for the lines of a part.
template <class T>
void prefetch(const T* weights, const Keys& keys) noexcept {
    for (int64_t i = 0; i < keys.count; ++i) {
        prefetch_line(weights + (keys.entries ? int64_t{keys.entries[keys.line[i]].first}
                                              : int64_t{keys.line[i]} * kSlots));
    }
}

}  // namespace vs::parser
