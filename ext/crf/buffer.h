// Memory that only grows, for plain data; unlike a vector it does not zero its memory.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "simd/level.h"

namespace vs::crf {

template <class T>
class GrowingArray {
  public:
    GrowingArray() = default;
    GrowingArray(const GrowingArray&) = delete;
    GrowingArray& operator=(const GrowingArray&) = delete;
    ~GrowingArray() { std::free(data_); }

    int64_t size() const { return size_; }
    T* data() { return data_; }
    const T* data() const { return data_; }
    T& operator[](int64_t i) { return data_[i]; }
    const T& operator[](int64_t i) const { return data_[i]; }
    void clear() { size_ = 0; }
    void truncate(int64_t n) { size_ = n; }
    void swap(GrowingArray& other) {
        std::swap(data_, other.data_);
        std::swap(size_, other.size_);
        std::swap(capacity_, other.capacity_);
    }

    // Memory for n more, not counted as used before `used` says so.
    VS_INLINE T* reserve(int64_t n) {
        if (n > capacity_ - size_) grow(n);
        return data_ + size_;
    }
    VS_INLINE void used(int64_t n) { size_ += n; }
    VS_INLINE void push(T value) {
        *reserve(1) = value;
        ++size_;
    }
    void append(const T* values, int64_t n) {
        if (n == 0) return;
        std::memcpy(reserve(n), values, static_cast<size_t>(n) * sizeof(T));
        size_ += n;
    }
    // Gives memory beyond `keep` entries back: one huge call does not pin it for ever.
    void forget(int64_t keep) {
        size_ = 0;
        if (capacity_ <= keep) return;
        std::free(data_);
        data_ = nullptr;
        capacity_ = 0;
    }

  private:
    void grow(int64_t n) {
        const int64_t wanted = size_ + n;
        int64_t capacity = capacity_ < 64 ? 64 : 2 * capacity_;
        if (capacity < wanted) capacity = wanted;
        void* p = std::realloc(data_, static_cast<size_t>(capacity) * sizeof(T));
        if (p == nullptr) throw std::bad_alloc();
        data_ = static_cast<T*>(p);
        capacity_ = capacity;
    }

    T* data_ = nullptr;
    int64_t size_ = 0, capacity_ = 0;
};

}  // namespace vs::crf
