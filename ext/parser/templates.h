// Templates of features, and where their weights lie.
//
// A template is a text such as "hp h+p m-p mp": XPOS of the head and of the word after it, of the
// word before the modifier and of the modifier. Letters are of roles: h head, m modifier (of two
// siblings the left one), s the right sibling, g grandparent; then + or -, as many as there are
// steps; then of a field: f form, l lemma, c UPOS, p XPOS, x FEATS, u suffix, r prefix. A template
// that begins with "d:" holds the exact distance, "n:" what is counted between, "b:" each tag
// between, as well.
//
// A key is a template with values in its places. It has a line of kSlots weights, three of which
// count: the first whatever the directions, and two for the directions and distances of the part.
// Each template has a range of lines of its own. Keys that fall on the same line are one, or with a
// dictionary each key that it has has a line, which then is a place in a table.
#pragma once

#include <cstdint>
#include <vector>

#include "core/at.h"
#include "parser/dictionary.h"
#include "parser/words.h"

namespace vs::parser {

constexpr int kSlots = 16;  // weights of a line; 64 bytes of floats
constexpr int kRoles = 3;
constexpr int kAround = 2;  // words beyond either end of a sentence that templates may name

enum class Kind : int {
    kArc = 0,
    kSibling = 1,
    kGrandparent = 2,
    kNonprojective = 3,
    kPruner = 4,
    kLabel = 5
};
constexpr int kKinds = 6;

enum class With : int { kNothing, kDistance, kCounts, kBetween };

struct Place {
    int offset;
    Field field;
};

struct Template {
    With with = With::kNothing;
    std::vector<Place> of[kRoles];
};

// The templates of a kind of part, those with nothing else first.
struct Set {
    int roles = 2;
    std::vector<Template> all;
    std::vector<uint32_t> base, mask;  // of each, the lines [base, base + mask]
    int64_t plain = 0;                 // templates with nothing else
    uint32_t lines = 0;                // of all, from line 0
    bool named = false;                // keys are told whole
    const Entry* entries = nullptr;    // (lines,) of a dictionary
    int64_t size() const { return static_cast<int64_t>(all.size()); }
    // The line of a key of template t, or one where nobody is.
    uint32_t find(int64_t t, uint32_t key) const {
        const Entry* own = entries + base[at(t)];
        uint32_t i = key & mask[at(t)];
        while (own[i].slots && own[i].key != key) i = (i + 1) & mask[at(t)];
        return base[at(t)] + i;
    }
};

constexpr int kLeastBits = 4, kMostBits = 20;

// `bits`: the largest templates have 2^bits lines, those of tags alone fewer.
Set make_set(Kind kind, int bits);

// The same with keys told whole, and where `sizes` (templates,) says how many keys each template
// has, with a table for them that is at most half full.
Set make_named_set(Kind kind, const int64_t* sizes);

}  // namespace vs::parser
