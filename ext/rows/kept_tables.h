// Tables that edges have each, as exponentials: messages forward leave them for those back.
#pragma once

#include "rows/rows.h"

namespace VS_NS {

template <class T>
class KeptTables {
  public:
    static constexpr int kMost = 4;  // sequences

    // Of `count` edges from `first` on, (count, size).
    void keep(int64_t first, int64_t count, T* e) { kept_[n_++] = {first, count, e}; }
    void keep_nothing() { n_ = 0; }
    bool none() const { return n_ == 0; }
    // Where the table of an edge lies, or null: it is not kept.
    T* find(int64_t edge, int64_t size) const {
        for (int r = 0; r < n_; ++r) {
            const int64_t at = edge - kept_[r].first;
            if (at >= 0 && at < kept_[r].count) return kept_[r].e + at * size;
        }
        return nullptr;
    }

  private:
    struct Kept {
        int64_t first, count;
        T* e;
    };
    Kept kept_[kMost];
    int n_ = 0;
};

// out = exp(x - c) of a row of a table, finite entries held at the transition floor.
template <class T>
VS_INLINE void row_exp_table(const T* x, int K, int Kp, T c, T* out) {
    using V = Vec<T>;
    const T lowest = -static_cast<T>(INFINITY);
    const V shift = V::set1(c), low = V::set1(Floor<T>::kTransitionLog);
    const V finite = V::set1(ExpConst<T>::kMostNegative);
    for (int k = 0; k < Kp; k += V::N) {
        const V v = k + V::N <= K ? V::load(x + k) : V::load_part(x + k, K - k, lowest);
        V::where_ge(v, finite, exp_floor<T>(V::max(v - shift, low))).store(out + k);
    }
}
// y += x row
template <class T>
VS_INLINE void row_add(T x, const T* row, int Kp, T* y) {
    using V = Vec<T>;
    const V w = V::set1(x);
    for (int k = 0; k < Kp; k += V::N) {
        V::fma(w, V::load(row + k), V::load(y + k)).store(y + k);
    }
}
// row . x
template <class T>
VS_INLINE T row_inner(const T* row, const T* x, int Kp) {
    using V = Vec<T>;
    V s = V::set1(T(0));
    for (int k = 0; k < Kp; k += V::N) s = V::fma(V::load(row + k), V::load(x + k), s);
    return s.hsum();
}

}  // namespace VS_NS
