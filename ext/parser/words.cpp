#include "parser/words.h"

#include <cstring>

namespace vs::parser {
namespace {

constexpr int64_t kLetters = 3;
constexpr int64_t kLongest = 4 * kLetters;  // bytes of as many characters

uint64_t hash(Text text, uint64_t seed) noexcept {
    uint64_t h = mix(seed + static_cast<uint64_t>(text.size));
    int64_t i = 0;
    for (; i + 8 <= text.size; i += 8) {
        uint64_t part = 0;
        for (int64_t k = 8; k-- > 0;)  // the same on machines of either byte order
            part = part << 8 | static_cast<unsigned char>(text.start[i + k]);
        h = mix(h ^ part);
    }
    uint64_t rest = 0;
    for (int64_t k = text.size; k-- > i;) {
        rest = rest << 8 | static_cast<unsigned char>(text.start[k]);
    }
    return mix(h ^ rest);
}

uint32_t number(Text text, int field) noexcept {
    return text.size ? narrow(hash(text, static_cast<uint64_t>(field) + 1)) : 0;
}

bool inside(char c) noexcept { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

// Letters A to Z made small; other characters stay.
char small(char c) noexcept { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }

Text first_letters(Text text) noexcept {
    int64_t end = 0, letters = 0;
    while (end < text.size && (inside(text.start[end]) || letters++ < kLetters)) ++end;
    return {text.start, end < kLongest ? end : kLongest};
}

Text last_letters(Text text) noexcept {
    int64_t begin = text.size, letters = 0;
    while (begin > 0 && text.size - begin < kLongest && letters < kLetters) {
        --begin;
        letters += !inside(text.start[begin]);
    }
    return {text.start + begin, text.size - begin};
}

uint32_t small_number(Text text, int field) noexcept {
    char buffer[64];
    if (text.size > static_cast<int64_t>(sizeof(buffer))) return number(text, field);
    for (int64_t i = 0; i < text.size; ++i) buffer[i] = small(text.start[i]);
    return number({buffer, text.size}, field);
}

bool is(Text text, const char* name) noexcept {
    return static_cast<int64_t>(std::strlen(name)) == text.size &&
           std::memcmp(text.start, name, static_cast<size_t>(text.size)) == 0;
}

bool begins(Text text, const char* name) noexcept {
    const auto size = static_cast<int64_t>(std::strlen(name));
    return size <= text.size && std::memcmp(text.start, name, static_cast<size_t>(size)) == 0;
}

// ASCII punctuation; beyond it the General Punctuation and CJK blocks, and guillemets.
bool punctuates(Text form) noexcept {
    for (int64_t i = 0; i < form.size; ++i) {
        const auto c = static_cast<unsigned char>(form.start[i]);
        if (c < 0x80) {
            if (!std::strchr("!\"#%&'()*,-./:;?@[\\]_{}", c) || c == 0) return false;
        } else if (i + 1 < form.size && c == 0xc2) {
            const auto d = static_cast<unsigned char>(form.start[++i]);
            if (d != 0xab && d != 0xbb && d != 0xa1 && d != 0xbf) return false;
        } else if (i + 2 < form.size && (c == 0xe2 || c == 0xe3)) {
            const auto d = static_cast<unsigned char>(form.start[i + 1]);
            if (d != 0x80 && !(c == 0xe2 && d == 0x81)) return false;
            i += 2;
        } else {
            return false;
        }
    }
    return form.size > 0;
}

uint32_t class_of(Text tag, Text form) noexcept {
    uint32_t found = 0;
    if (begins(tag, "V") || is(tag, "verb")) found |= kVerb;
    if (is(tag, "PUNCT") || punctuates(form)) found |= kPunctuation;
    for (const char* name : {"CC", "CCONJ", "CONJ", "conj", "cc", "vg"}) {
        if (is(tag, name)) found |= kCoordination;
    }
    return found;
}

Text given(Text text) noexcept { return is(text, "_") ? Text{} : text; }

}  // namespace

void encode(const Token& token, uint32_t* word) noexcept {
    Text coarse = given(token.coarse), fine = given(token.fine);
    if (!coarse.size) coarse = fine;
    if (!fine.size) fine = coarse;
    const Text lemma = given(token.lemma);
    word[kForm] = number(token.form, kForm);
    word[kLemma] = lemma.size ? number(lemma, kLemma) : small_number(token.form, kLemma);
    word[kCoarse] = number(coarse, kCoarse);
    word[kFine] = number(fine, kFine);
    word[kMorph] = number(given(token.morph), kMorph);
    word[kSuffix] = small_number(last_letters(token.form), kSuffix);
    word[kPrefix] = small_number(first_letters(token.form), kPrefix);
    word[kClass] = class_of(coarse, token.form);
}

}  // namespace vs::parser
