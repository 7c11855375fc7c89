#include "parser/features.h"

#include <algorithm>
#include <stdexcept>

namespace vs::parser {
namespace {

constexpr uint32_t kRoot = 0x52303070, kOutside = 0x4f757473;

uint32_t value_hash(With with, uint64_t value) {
    return narrow(mix(value * 8 + static_cast<uint64_t>(with) + 0x7654321ULL));
}

// hash_role of kCount places, one word after the other.
template <int kCount>
void hash_places(const Place* places, uint64_t seed, const Sentence& sentence, uint32_t* out,
                 int64_t step) {
    const uint32_t* field[kCount];
    for (int k = 0; k < kCount; ++k) field[k] = sentence.word(places[k].offset) + places[k].field;
    for (int64_t position = 0; position <= sentence.size(); ++position) {
        uint64_t h = seed;
        for (int k = 0; k < kCount; ++k) h = mix(h ^ field[k][position * kFields]);
        out[position * step] = narrow(h);
    }
}

}  // namespace

std::vector<Slots> classes_of(Kind kind) {
    std::vector<Slots> out;
    if (kind == Kind::kSibling) {
        for (int c = 0; c < kSiblingClasses; ++c) out.push_back({1 + c / 4, 4 + c});
    } else if (kind == Kind::kGrandparent) {
        for (int c = 0; c < kGrandparentClasses; ++c) {
            out.push_back({1 + c / 3, 7 + c / 6 * 3 + c % 3});
        }
    } else {
        for (int c = 0; c < 2 * kBins; ++c) out.push_back({1 + c / kBins, 3 + c});
    }
    return out;
}

Values::Values() {
    uint64_t value = 0;
    for (uint32_t& hash : distance_) hash = value_hash(With::kDistance, value++);
    value = 0;
    for (uint32_t& hash : counts_) hash = value_hash(With::kCounts, value++);
}

uint32_t Values::tag(uint32_t tag) { return value_hash(With::kBetween, tag); }

void hash_role(const Set& set, int64_t t, int role, const Sentence& sentence, uint32_t* out,
               int64_t step) {
    const std::vector<Place>& places = set.all[at(t)].of[role];
    const uint64_t seed = static_cast<uint64_t>(t * kRoles + role + 1) << 32;
    const Place* first = places.data();
    switch (places.size()) {
        case 0:
            for (int64_t p = 0; p <= sentence.size(); ++p) out[p * step] = narrow(0);
            return;
        case 1:
            return hash_places<1>(first, seed, sentence, out, step);
        case 2:
            return hash_places<2>(first, seed, sentence, out, step);
        case 3:
            return hash_places<3>(first, seed, sentence, out, step);
        default:
            throw std::logic_error("a role has more than three places");
    }
}

void Sentence::read(const uint32_t* words, int64_t n) {
    n_ = n;
    words_.assign(at((n + 1 + 2 * kAround) * kFields), kOutside);
    std::fill_n(words_.begin() + kAround * kFields, int{kFields}, kRoot);
    std::copy(words, words + n * kFields, words_.begin() + (kAround + 1) * kFields);
    sums_.assign(at(n + 2), Sums{0, 0, 0});
    tags_.clear();
    number_.assign(at(n + 1), 0);
    for (int64_t i = 1; i <= n; ++i) {
        Sums s = sums_[at(i)];
        const uint32_t found = word(i)[kClass];
        s.verbs += (found & kVerb) != 0;
        s.punctuation += (found & kPunctuation) != 0;
        s.coordination += (found & kCoordination) != 0;
        sums_[at(i) + 1] = s;
        const auto own = std::find(tags_.begin(), tags_.end(), word(i)[kCoarse]);
        number_[at(i)] = static_cast<uint8_t>(std::min<int64_t>(own - tags_.begin(), kTags - 1));
        if (own == tags_.end() && tags_.size() < kTags) tags_.push_back(word(i)[kCoarse]);
    }
}

uint64_t Sentence::tags(int64_t left, int64_t right) const {
    uint64_t set = 0;
    for (int64_t i = left + 1; i < right; ++i) set |= uint64_t{1} << number_[at(i)];
    return set;
}

uint32_t Sentence::counts(int64_t left, int64_t right) const {
    const Sums a = sums_[at(left + 1)], b = sums_[at(std::max(right, left + 1))];
    const int32_t verbs = std::min(b.verbs - a.verbs, 2);
    const int32_t punctuation = std::min(b.punctuation - a.punctuation, 3);
    const int32_t coordination = std::min(b.coordination - a.coordination, 1);
    return static_cast<uint32_t>((verbs * 4 + punctuation) * 2 + coordination);
}

void Features::read(const Sentence& sentence) {
    sentence_ = &sentence;
    const int64_t n = sentence.size(), size = set_.size();
    for (int role = 0; role < set_.roles; ++role) {
        rows_[role].resize(at((n + 1) * size));
        for (int64_t t = 0; t < size; ++t) {
            hash_role(set_, t, role, sentence, rows_[role].data() + t, size);
        }
    }
}

// mixed(t): the exclusive or of the hashes of template t.
template <class Mixed>
void Features::fill(const Mixed& mixed, int64_t left, int64_t right, int64_t distance,
                    Keys* keys) const {
    if (set_.named) {
        list<true>(mixed, left, right, distance, keys);
        if (set_.entries) find(keys);
    } else {
        list<false>(mixed, left, right, distance, keys);
    }
}

// From keys to lines; places in the table are on their way while others are asked.
void Features::find(Keys* keys) const {
    for (int64_t k = 0; k < keys->count; ++k) {
        const uint8_t t = keys->of[k];
        prefetch_line(set_.entries + set_.base[t] + (keys->line[k] & set_.mask[t]));
    }
    for (int64_t k = 0; k < keys->count; ++k) {
        keys->line[k] = set_.find(keys->of[k], keys->line[k]);
    }
}

template <bool kNamed, class Mixed>
void Features::list(const Mixed& mixed, int64_t left, int64_t right, int64_t distance,
                    Keys* keys) const {
    const uint32_t *base = set_.base.data(), *mask = set_.mask.data();
    const auto put = [&](int64_t k, int64_t t, uint32_t key) {
        if constexpr (kNamed) {
            keys->line[k] = key;
            keys->of[k] = static_cast<uint8_t>(t);
        } else {
            keys->line[k] = base[t] + (key & mask[t]);
        }
    };
    const int64_t size = set_.size();
    int64_t count = set_.plain;
    for (int64_t t = 0; t < count; ++t) put(t, t, mixed(t));
    for (int64_t t = count; t < size; ++t) {
        const With with = set_.all[at(t)].with;
        if (with != With::kBetween) {
            const uint32_t value = with == With::kDistance
                                       ? values_.distance(distance)
                                       : values_.counts(sentence_->counts(left, right));
            put(count++, t, mixed(t) ^ value);
            continue;
        }
        uint64_t tags = sentence_->tags(left, right);
        for (int tag = 0; tags && count < Keys::kMost; ++tag, tags >>= 1) {
            if (!(tags & 1)) continue;
            put(count++, t, mixed(t) ^ Values::tag(sentence_->tag(tag)));
        }
    }
    keys->count = count;
}

void Features::arc(int64_t head, int64_t modifier, Keys* keys) const {
    const uint32_t *h = row(0, head), *m = row(1, modifier);
    const int64_t left = std::min(head, modifier), right = std::max(head, modifier);
    const int direction = head < modifier;
    keys->a = 1 + direction;
    keys->b = 3 + 6 * direction + bin(right - left);
    fill([&](int64_t t) { return h[t] ^ m[t]; }, left, right, modifier - head, keys);
}

void Features::sibling(int64_t head, int64_t first, int64_t second, Keys* keys) const {
    const uint32_t *h = row(0, head), *m = row(1, first), *s = row(2, second);
    const Slots slots = sibling_slots(head, first, second);
    keys->a = slots.a;
    keys->b = slots.b;
    fill([&](int64_t t) { return h[t] ^ m[t] ^ s[t]; }, first, second, second - first, keys);
}

void Features::grandparent(int64_t grand, int64_t head, int64_t modifier, Keys* keys) const {
    const uint32_t *g = row(0, grand), *h = row(1, head), *m = row(2, modifier);
    const Slots slots = grandparent_slots(grand, head, modifier);
    const int64_t left = std::min(grand, modifier), right = std::max(grand, modifier);
    keys->a = slots.a;
    keys->b = slots.b;
    fill([&](int64_t t) { return g[t] ^ h[t] ^ m[t]; }, left, right, modifier - grand, keys);
}

}  // namespace vs::parser
