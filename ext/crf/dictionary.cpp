#include "crf/dictionary.h"

#include <random>

namespace vs::crf {

namespace {

constexpr uint64_t kMix = 0x9E3779B97F4A7C15, kLast = 0xD6E8FEB86659FD93;

// Names come from files and users: a seed of each process keeps others from choosing collisions.
uint64_t process_seed() {
    static const uint64_t seed = [] {
        std::random_device device;
        return uint64_t{device()} << 32 | device();
    }();
    return seed;
}

template <class Word>
VS_INLINE uint64_t load(const char* p) {
    Word w;
    std::memcpy(&w, p, sizeof w);
    return w;
}

VS_INLINE uint64_t mix(uint64_t h, uint64_t w) {
    h = (h ^ w) * kMix;
    return h ^ h >> 32;
}

}  // namespace

bool cut_at_nul(const char* s, int64_t* n) noexcept {
    const void* at = *n == 0 ? nullptr : std::memchr(s, 0, static_cast<size_t>(*n));
    if (at == nullptr) return false;
    *n = static_cast<const char*>(at) - s;
    return true;
}

Dictionary::Dictionary() : seed_(process_seed()) {
    begin_.push(0);
    rebuild(64);
}

VS_INLINE uint64_t Dictionary::hash(const char* s, int64_t n) const noexcept {
    uint64_t h = seed_ ^ static_cast<uint64_t>(n) * kLast;
    const unsigned char* u = reinterpret_cast<const unsigned char*>(s);
    if (n > 8) {
        const char* const last = s + n - 8;
        for (; s < last; s += 8) h = mix(h, load<uint64_t>(s));
        h = mix(h, load<uint64_t>(last));
    } else if (n >= 4) {
        h = mix(h, load<uint32_t>(s) << 32 | load<uint32_t>(s + n - 4));
    } else if (n > 0) {
        h = mix(h, uint64_t{u[0]} << 16 | uint64_t{u[n / 2]} << 8 | u[n - 1]);
    }
    h *= kLast;
    return h ^ h >> 29;
}

int32_t Dictionary::find(const char* s, int64_t n) const noexcept { return find(s, n, hash(s, n)); }

int32_t Dictionary::find(const char* s, int64_t n, uint64_t h) const noexcept {
    const uint32_t tag = static_cast<uint32_t>(h >> 32);
    for (uint64_t at = h & mask_;; at = (at + 1) & mask_) {
        const Slot slot = slots_[static_cast<int64_t>(at)];
        if (slot.id < 0) return -1;
        if (slot.tag == tag && is(slot.id, s, n)) return slot.id;
    }
}

void Dictionary::place(uint64_t h, int32_t id) noexcept {
    uint64_t at = h & mask_;
    while (slots_[static_cast<int64_t>(at)].id >= 0) at = (at + 1) & mask_;
    slots_[static_cast<int64_t>(at)] = {static_cast<uint32_t>(h >> 32), id};
}

void Dictionary::rebuild(int64_t n_slots) {
    GrowingArray<Slot> slots;
    slots.reserve(n_slots);
    slots.used(n_slots);
    slots_.swap(slots);
    mask_ = static_cast<uint64_t>(n_slots - 1);
    place_all();
}

void Dictionary::place_all() noexcept {
    for (int64_t i = 0; i < slots_.size(); ++i) slots_[i] = {0, -1};
    for (int32_t id = 0; id < size(); ++id) place(hash(name(id), length(id)), id);
}

int32_t Dictionary::add(const char* s, int64_t n) {
    const uint64_t h = hash(s, n);
    const int32_t id = find(s, n, h);
    if (id >= 0) return id;
    const int32_t fresh = size();
    if (fresh == kLargest) return -1;
    if (2 * (int64_t{fresh} + 1) > slots_.size()) rebuild(2 * slots_.size());
    text_.reserve(n);
    begin_.reserve(1);
    text_.append(s, n);
    begin_.push(text_.size());
    place(h, fresh);
    return fresh;
}

int64_t Dictionary::fill(const Items& names) {
    for (int64_t i = 0; i < names.n_attributes(); ++i) {
        const int64_t begin = names.begin(i);
        if (add(names.text.data() + begin, names.end[i] - begin) != i) return i;
    }
    return -1;
}

void Dictionary::truncate(int32_t n_names) noexcept {
    if (n_names >= size()) return;
    begin_.truncate(int64_t{n_names} + 1);
    text_.truncate(begin_[n_names]);
    place_all();
}

void Dictionary::copy(GrowingArray<char>& text, GrowingArray<int64_t>& begin) const {
    text.append(text_.data(), text_.size());
    begin.append(begin_.data(), begin_.size());
}

void Dictionary::look_up(const Items& items, int64_t first, int64_t last,
                         int32_t* ids) const noexcept {
    const char* const text = items.text.data();
    const int64_t begin = items.begin(first), stop = last > first ? items.end[last - 1] : begin;
    const int64_t n = last - first;
    uint64_t h[kBlock];
    int64_t from = begin;
    // A look-up waits for memory: each step prefetches the numbers that the next one reads.
    for (int64_t i = 0; i < n; ++i) {
        const int64_t to = items.end[first + i];
        h[i] = hash(text + from, to - from);
        VS_PREFETCH_READ(slots_.data() + (h[i] & mask_));
        from = to;
    }
    for (int64_t i = 0; i < n; ++i) {
        const uint32_t tag = static_cast<uint32_t>(h[i] >> 32);
        uint64_t at = h[i] & mask_;
        Slot slot = slots_[static_cast<int64_t>(at)];
        while (slot.id >= 0 && slot.tag != tag) {
            at = (at + 1) & mask_;
            slot = slots_[static_cast<int64_t>(at)];
        }
        ids[i] = slot.id;
        if (slot.id >= 0) VS_PREFETCH_READ(begin_.data() + slot.id);
    }
    for (int64_t i = 0; i < n; ++i) {
        if (ids[i] >= 0) VS_PREFETCH_READ(text_.data() + begin_[ids[i]]);
    }
    from = begin;
    for (int64_t i = 0; i < n; ++i) {
        const int64_t to = items.end[first + i];
        // Two names of one tag are rare: then the search is made again, in full.
        if (ids[i] >= 0 && !is(ids[i], text + from, to - from)) {
            ids[i] = find(text + from, to - from, h[i]);
        }
        from = to;
    }
    if (stop == begin || std::memchr(text + begin, 0, static_cast<size_t>(stop - begin)) == nullptr)
        return;
    from = begin;
    for (int64_t i = 0; i < n; ++i) {
        int64_t size = items.end[first + i] - from;
        if (cut_at_nul(text + from, &size)) ids[i] = find(text + from, size);
        from = items.end[first + i];
    }
}

}  // namespace vs::crf
