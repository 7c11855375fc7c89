#include "io/crfsuite_names.h"

#include <cstring>

namespace vs {
namespace {

constexpr uint32_t kTables = 256, kDirectory = 24, kData = kDirectory + 8 * kTables;

uint32_t turn(uint32_t x, int bits) { return (x << bits) | (x >> (32 - bits)); }

// Bob Jenkins's lookup3 of a text, its NUL included, with seed 0: CRFsuite's hash of names.
uint32_t hash_of(const char* text, uint32_t size) {
    uint32_t a, b, c;
    a = b = c = 0xdeadbeefu + size;
    const auto take = [&](uint32_t bytes) {  // twelve bytes, little-endian, zeros beyond the end
        unsigned char part[12] = {};
        std::memcpy(part, text, bytes);
        uint32_t word[3];
        for (int i = 0; i < 3; ++i) {
            word[i] = static_cast<uint32_t>(part[4 * i]) |
                      static_cast<uint32_t>(part[4 * i + 1]) << 8 |
                      static_cast<uint32_t>(part[4 * i + 2]) << 16 |
                      static_cast<uint32_t>(part[4 * i + 3]) << 24;
        }
        a += word[0];
        b += word[1];
        c += word[2];
    };
    for (; size > 12; size -= 12, text += 12) {
        take(12);
        a = (a - c) ^ turn(c, 4);
        c += b;
        b = (b - a) ^ turn(a, 6);
        a += c;
        c = (c - b) ^ turn(b, 8);
        b += a;
        a = (a - c) ^ turn(c, 16);
        c += b;
        b = (b - a) ^ turn(a, 19);
        a += c;
        c = (c - b) ^ turn(b, 4);
        b += a;
    }
    if (size == 0) return c;
    take(size);
    c = (c ^ b) - turn(b, 14);
    a = (a ^ c) - turn(c, 11);
    b = (b ^ a) - turn(a, 25);
    c = (c ^ b) - turn(b, 16);
    a = (a ^ c) - turn(c, 4);
    b = (b ^ a) - turn(a, 14);
    c = (c ^ b) - turn(b, 24);
    return c;
}

void put(std::vector<char>& out, size_t at, uint32_t x) {
    for (int i = 0; i < 4; ++i) out[at + static_cast<size_t>(i)] = static_cast<char>(x >> (8 * i));
}

void add(std::vector<char>& out, uint32_t x) {
    out.resize(out.size() + 4);
    put(out, out.size() - 4, x);
}

struct Bucket {
    uint32_t hash, at;
};

}  // namespace

std::vector<char> name_table(const char* text, const int64_t* begin, int64_t n) {
    std::vector<char> out(kData, 0);
    std::vector<std::vector<Bucket>> tables(kTables);
    std::vector<uint32_t> by_id;
    for (int64_t i = 0; i < n; ++i) {
        const char* name = text + begin[i];
        const uint32_t size = static_cast<uint32_t>(begin[i + 1] - begin[i]);
        const uint32_t at = static_cast<uint32_t>(out.size()), hash = hash_of(name, size);
        add(out, static_cast<uint32_t>(i));
        add(out, size);
        out.insert(out.end(), name, name + size);
        tables[hash % kTables].push_back({hash, at});
        by_id.push_back(at);
    }
    for (uint32_t t = 0; t < kTables; ++t) {
        if (tables[t].empty()) continue;
        const uint32_t places = 2 * static_cast<uint32_t>(tables[t].size());
        put(out, kDirectory + 8 * t, static_cast<uint32_t>(out.size()));
        put(out, kDirectory + 8 * t + 4, places);
        std::vector<Bucket> bucket(places, Bucket{0, 0});
        for (const Bucket& b : tables[t]) {  // the next free place after the hash's own
            uint32_t k = (b.hash >> 8) % places;
            while (bucket[k].at != 0) k = (k + 1) % places;
            bucket[k] = b;
        }
        for (const Bucket& b : bucket) {
            add(out, b.hash);
            add(out, b.at);
        }
    }
    if (n > 0) {
        put(out, 16, static_cast<uint32_t>(n));
        put(out, 20, static_cast<uint32_t>(out.size()));
        for (uint32_t at : by_id) add(out, at);
    }
    std::memcpy(out.data(), "CQDB", 4);
    put(out, 4, static_cast<uint32_t>(out.size()));
    put(out, 8, 0);
    put(out, 12, 0x62445371u);
    return out;
}

}  // namespace vs
