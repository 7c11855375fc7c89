// Words as numbers: what templates read of each token.
#pragma once

#include <cstdint>

namespace vs::parser {

// The columns of an encoded word, hashes of strings all but the last.
enum Field : int {
    kForm,
    kLemma,   // the form in small letters where the treebank has none
    kCoarse,  // UPOS; XPOS where there is none
    kFine,    // XPOS; UPOS where there is none
    kMorph,   // FEATS
    kSuffix,  // the last three characters of the form, in small letters
    kPrefix,  // the first three
    kClass,   // the bits below, by which words between are counted
    kFields
};

// By the names that UD, PAROLE and the Penn Treebank give to tags; punctuation by the form as well.
constexpr uint32_t kVerb = 1, kPunctuation = 2, kCoordination = 4;

inline uint64_t mix(uint64_t x) noexcept {
    x = (x ^ (x >> 31)) * 0x9e3779b97f4a7c15ULL;
    x = (x ^ (x >> 29)) * 0xd1342543de82ef95ULL;
    return x ^ (x >> 32);
}

inline uint32_t narrow(uint64_t x) noexcept { return static_cast<uint32_t>(x); }

// A string of bytes, UTF-8 as a rule.
struct Text {
    const char* start = nullptr;
    int64_t size = 0;
};

// The strings of a token. Nothing but `_` in a column, or no column: empty.
struct Token {
    Text form, lemma, coarse, fine, morph;
};

// Fills the kFields numbers of a word.
void encode(const Token& token, uint32_t* word) noexcept;

}  // namespace vs::parser
