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
// Each template has a range of lines of its own.
#pragma once

#include <cstdint>
#include <vector>

#include "parser/words.h"

namespace vs::parser {

constexpr int kSlots = 16;  // weights of a line; 64 bytes of floats
constexpr int kRoles = 3;

enum class Kind : int { kArc = 0, kSibling = 1, kGrandparent = 2, kPruner = 3, kLabel = 4 };
constexpr int kKinds = 5;

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
    int64_t size() const { return static_cast<int64_t>(all.size()); }
    int64_t n_weights() const { return static_cast<int64_t>(lines) * kSlots; }
};

constexpr int kLeastBits = 4, kMostBits = 20;

// `bits`: the largest templates have 2^bits lines, those of tags alone fewer.
Set make_set(Kind kind, int bits);

}  // namespace vs::parser
