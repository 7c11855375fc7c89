// Attributes of items of sequences as UTF-8, end to end: read from Python objects once,
// so that everything after can run without the GIL.
#pragma once

#include "crf/buffer.h"

namespace vs::crf {

class Items {
  public:
    GrowingArray<char> text;         // names, one after the other
    GrowingArray<int64_t> end;       // (M,) where each name ends
    GrowingArray<double> value;      // (M,)
    GrowingArray<int64_t> item_end;  // (N,) number of attributes up to the end of each item
    GrowingArray<int64_t> length;    // (B,) items of each sequence

    int64_t n_attributes() const { return end.size(); }
    int64_t n_items() const { return item_end.size(); }
    int64_t n_sequences() const { return length.size(); }
    int64_t begin(int64_t i) const { return i == 0 ? 0 : end[i - 1]; }
    int64_t first(int64_t item) const { return item == 0 ? 0 : item_end[item - 1]; }

    VS_INLINE void name(const char* s, int64_t n, double v) {
        put(s, n);
        close(v);
    }
    // A name is put piece by piece and then closed.
    VS_INLINE void put(const char* s, int64_t n) {
        char* to = text.reserve(n + 16);
        if (n <= 16) {
            // Most names are short: two fixed moves that overlap cost less than a call.
            if (n >= 8) {
                move<8>(to, s);
                move<8>(to + n - 8, s + n - 8);
            } else if (n >= 4) {
                move<4>(to, s);
                move<4>(to + n - 4, s + n - 4);
            } else {
                for (int64_t i = 0; i < n; ++i) to[i] = s[i];
            }
        } else {
            std::memcpy(to, s, static_cast<size_t>(n));
        }
        text.used(n);
    }
    VS_INLINE void close(double v) {
        end.push(text.size());
        value.push(v);
    }
    // Text of n characters of `kind` bytes each, as CPython keeps it. Returns where a surrogate
    // stands, which UTF-8 cannot say, or -1.
    int64_t put_characters(int kind, const void* characters, int64_t n) {
        if (kind == 1) return transcode(static_cast<const uint8_t*>(characters), n);
        if (kind == 2) return transcode(static_cast<const uint16_t*>(characters), n);
        return transcode(static_cast<const uint32_t*>(characters), n);
    }
    void end_item() { item_end.push(end.size()); }
    void end_sequence(int64_t n_items) { length.push(n_items); }

    // The items of a sequence after those that are there; the caller ends the sequence.
    void append(const Items& other) {
        const int64_t shift = text.size(), before = end.size();
        text.append(other.text.data(), other.text.size());
        int64_t* e = end.reserve(other.end.size());
        for (int64_t i = 0; i < other.end.size(); ++i) e[i] = shift + other.end[i];
        end.used(other.end.size());
        value.append(other.value.data(), other.value.size());
        int64_t* p = item_end.reserve(other.item_end.size());
        for (int64_t i = 0; i < other.item_end.size(); ++i) p[i] = before + other.item_end[i];
        item_end.used(other.item_end.size());
    }
    void clear() {
        text.clear();
        end.clear();
        value.clear();
        item_end.clear();
        length.clear();
    }
    void swap(Items& other) {
        text.swap(other.text);
        end.swap(other.end);
        value.swap(other.value);
        item_end.swap(other.item_end);
        length.swap(other.length);
    }

  private:
    template <int kBytes>
    static VS_INLINE void move(char* to, const char* from) {
        std::memcpy(to, from, kBytes);
    }

    template <class Character>
    int64_t transcode(const Character* c, int64_t n) {
        char* const begin = text.reserve(n * (sizeof(Character) == 1 ? 2 : 4));
        char* to = begin;
        for (int64_t i = 0; i < n; ++i) {
            const uint32_t x = c[i];
            if (x < 0x80) {
                *to++ = static_cast<char>(x);
            } else if (x < 0x800) {
                *to++ = static_cast<char>(0xC0 | x >> 6);
                *to++ = static_cast<char>(0x80 | (x & 0x3F));
            } else if (x < 0x10000) {
                if (x >= 0xD800 && x < 0xE000) return i;
                *to++ = static_cast<char>(0xE0 | x >> 12);
                *to++ = static_cast<char>(0x80 | (x >> 6 & 0x3F));
                *to++ = static_cast<char>(0x80 | (x & 0x3F));
            } else {
                *to++ = static_cast<char>(0xF0 | x >> 18);
                *to++ = static_cast<char>(0x80 | (x >> 12 & 0x3F));
                *to++ = static_cast<char>(0x80 | (x >> 6 & 0x3F));
                *to++ = static_cast<char>(0x80 | (x & 0x3F));
            }
        }
        text.used(to - begin);
        return -1;
    }
};

// Names of items within items begin with the keys that lead to them, each followed by ':'.
class Prefix {
  public:
    void open(Items& items) const {
        if (text_.size() > 0) items.put(text_.data(), text_.size());
    }
    // The name under way, which was opened here, becomes the prefix; returns what `leave` takes.
    int64_t enter(Items& items) {
        const int64_t before = text_.size(), begin = items.begin(items.n_attributes()) + before;
        text_.append(items.text.data() + begin, items.text.size() - begin);
        items.text.truncate(begin - before);
        return before;
    }
    void leave(int64_t before) { text_.truncate(before); }

  private:
    GrowingArray<char> text_;
};

}  // namespace vs::crf
