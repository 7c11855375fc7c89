// A vector whose first N entries need no memory of their own: most sets of variables are small, and
// small networks would spend their time in the allocator.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <type_traits>

namespace vs::junction {

template <class T, size_t N>
class Few {
    static_assert(std::is_trivially_copyable_v<T>, "entries are copied as bytes");

  public:
    using value_type = T;
    using iterator = T*;
    using const_iterator = const T*;

    Few() = default;
    explicit Few(size_t n) { resize(n); }
    Few(std::initializer_list<T> list) { append(list.begin(), list.end()); }
    template <class It>
    Few(It first, It last) {
        assign(first, last);
    }
    Few(const Few& o) { append(o.begin(), o.end()); }
    Few(Few&& o) noexcept { take(&o); }
    Few& operator=(const Few& o) {
        if (this != &o) {
            size_ = 0;
            append(o.begin(), o.end());
        }
        return *this;
    }
    Few& operator=(Few&& o) noexcept {
        if (this != &o) take(&o);
        return *this;
    }

    T* begin() { return data(); }
    T* end() { return data() + size_; }
    const T* begin() const { return data(); }
    const T* end() const { return data() + size_; }
    std::reverse_iterator<const T*> rbegin() const { return std::reverse_iterator(end()); }
    std::reverse_iterator<const T*> rend() const { return std::reverse_iterator(begin()); }
    T* data() { return far_ ? far_.get() : near_; }
    const T* data() const { return far_ ? far_.get() : near_; }
    size_t size() const { return size_; }
    bool empty() const { return size_ == 0; }
    T& operator[](size_t i) { return data()[i]; }
    const T& operator[](size_t i) const { return data()[i]; }
    T& back() { return data()[size_ - 1]; }
    const T& back() const { return data()[size_ - 1]; }

    void clear() { size_ = 0; }
    void reserve(size_t n) {
        if (n <= most_) return;
        std::unique_ptr<T[]> more(new T[n]);
        std::memcpy(more.get(), data(), size_ * sizeof(T));
        far_ = std::move(more);
        most_ = n;
    }
    void resize(size_t n, T x = T()) {
        reserve(n);
        if (n > size_) std::fill(data() + size_, data() + n, x);
        size_ = n;
    }
    void push_back(T x) {
        if (size_ == most_) reserve(2 * most_);
        data()[size_++] = x;
    }
    void pop_back() { --size_; }
    void append(const T* first, const T* last) {
        const size_t n = static_cast<size_t>(last - first);
        reserve(size_ + n);
        if (n > 0) std::memcpy(data() + size_, first, n * sizeof(T));
        size_ += n;
    }
    template <class It>
    void assign(It first, It last) {
        clear();
        for (; first != last; ++first) push_back(static_cast<T>(*first));
    }
    T* insert(const T* at, T x) {
        const size_t i = static_cast<size_t>(at - data());
        push_back(x);
        std::rotate(data() + i, data() + size_ - 1, data() + size_);
        return data() + i;
    }
    void erase(const T* first, const T* last) {
        std::copy(last, static_cast<const T*>(end()), data() + (first - data()));
        size_ -= static_cast<size_t>(last - first);
    }
    void swap(Few& o) noexcept { std::swap(*this, o); }

    bool operator==(const Few& o) const { return std::equal(begin(), end(), o.begin(), o.end()); }
    bool operator!=(const Few& o) const { return !(*this == o); }
    bool operator<(const Few& o) const {
        return std::lexicographical_compare(begin(), end(), o.begin(), o.end());
    }

  private:
    void take(Few* o) noexcept {
        far_ = std::move(o->far_);
        if (!far_) std::memcpy(near_, o->near_, sizeof near_);
        size_ = o->size_;
        most_ = o->most_;
        o->size_ = 0;
        o->most_ = N;
    }

    std::unique_ptr<T[]> far_;
    size_t size_ = 0, most_ = N;
    T near_[N] = {};
};

using Set = Few<int32_t, 8>;      // of variables, of cliques; offsets in a table
using Strides = Few<int64_t, 8>;  // of the variables of a table

}  // namespace vs::junction
