// Features by name: a table of keys, in place of lines that keys share.
#pragma once

#include <cstdint>
#include <vector>

#include "core/problem.h"
#include "pool/pool.h"

namespace vs::parser {

struct Corpus;

// A key and its features, a bit for each of kSlots. Their weights lie side by side.
struct Entry {
    uint32_t key = 0;
    uint32_t first = 0;  // weight
    uint16_t slots = 0;  // none: nobody is here
};

inline int ones(uint32_t sixteen) noexcept {
    uint32_t x = sixteen - (sixteen >> 1 & 0x5555u);
    x = (x & 0x3333u) + (x >> 2 & 0x3333u);
    x = (x + (x >> 4)) & 0x0f0fu;
    return static_cast<int>((x + (x >> 8)) & 31u);
}

// The weight of a feature; -1: there is no such one.
inline int64_t place(const Entry& e, int slot) noexcept {
    const uint32_t bit = 1u << slot;
    if (!(e.slots & bit)) return -1;
    return int64_t{e.first} + ones(e.slots & (bit - 1));
}

// Which keys a model has: arrays of the caller, template by template in the order of its sets.
struct Dictionary {
    const int64_t* sizes = nullptr;   // (templates,) how many keys each has
    const uint32_t* keys = nullptr;   // (keys,) ascending in each template
    const uint16_t* slots = nullptr;  // (keys,)
};

// No model has more keys: their lines have numbers of 32 bits.
constexpr int64_t kMostKeys = int64_t{1} << 26;

// The keys of one template, how often they were met, and with which slots.
struct Found {
    std::vector<uint32_t> keys, counts;
    std::vector<uint16_t> slots;
};

// Counts the keys of the parts of a treebank: of its trees alone, or of all arcs that are looked
// at. Those that were met less than `least` times are left out of `found`, not of their number
// `met`; where that is above kMostKeys, counting has ended before.
Status count(const Corpus& corpus, int order, bool trees, uint32_t least, int threads,
             const PoolApi& pool, Control* control, std::vector<Found>* found, int64_t* met);

}  // namespace vs::parser
