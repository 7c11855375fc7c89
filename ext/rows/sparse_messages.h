// Messages over a table of which most entries are a default:
//
//   y(k) = right(k) sum_l left(l) x(l) + sum_e weight(e) x(label(e)),   e listed for k
//
// A cache line holds the numbers that as many sequences have for one label, so that an entry is one
// multiply-add of vectors. Each sequence has its own chain of operations, whoever is beside it; one
// alone is read as it is, and its numbers are those of all lanes of one vector.
#pragma once

#include "rows/rows.h"
#include "rows/sparse_table.h"
#include "simd/each.h"
#include "simd/transpose.h"

namespace VS_NS {

template <class T>
class SparseMessages {
    using V = Vec<T>;

  public:
    static constexpr int kLane = 64 / static_cast<int>(sizeof(T));  // sequences side by side

    // Numbers of the memory that `open` gets.
    static int64_t memory_size(int K) { return 2 * static_cast<int64_t>(K + 1) * kLane; }
    void open(T* memory, int K) {
        in_ = memory;
        out_ = memory + static_cast<int64_t>(K) * kLane;
    }
    bool ready() const { return in_ != nullptr; }

    void send(const vs::SparseSide& side, int K, int Kp, int rows, const T* const* x,
              T* const* y) const {
        for (int r = 0; r < rows; r += kLane) {
            const int m = rows - r < kLane ? rows - r : kLane;
            if (m == 1) {
                product<true>(side, K, x[r]);
                for (int k = 0; k < Kp; ++k) y[r][k] = k < K ? out_[k] : T(0);
                continue;
            }
            // Lanes of no sequence repeat the last one.
            const T* from[kLane];
            T* to[kLane];
            for (int i = 0; i < kLane; ++i) {
                from[i] = x[r + (i < m ? i : m - 1)];
                to[i] = y[r + (i < m ? i : m - 1)];
            }
            weave<T, kLane>(from, K, in_);
            product<false>(side, K, in_);
            unweave<T, kLane>(out_, K, to);
            for (int i = 0; i < m; ++i) {
                for (int k = K; k < Kp; ++k) to[i][k] = T(0);
            }
        }
    }

    // The entries of exp(t) beside label k, (Kp,).
    static void beside(const vs::SparseSide& side, int K, int Kp, int k, T* own) {
        const T* left = static_cast<const T*>(side.left);
        const T right = static_cast<const T*>(side.right)[k];
        const T* listed = static_cast<const T*>(side.own);
        for (int l = 0; l < K; ++l) own[l] = left[l] * right;
        for (int64_t e = side.start[k]; e < side.start[k + 1]; ++e) own[side.label[e]] = listed[e];
        for (int l = K; l < Kp; ++l) own[l] = T(0);
    }

  private:
    template <bool kAlone>
    struct LabelNumbers {  // the numbers of a label
        static constexpr int NV = kAlone ? 1 : kLane / V::N;
        V v[NV];
    };
    // A label's place among numbers of all sequences, or of one.
    template <bool kAlone>
    static VS_INLINE const T* place(const T* x, int64_t label) {
        return kAlone ? x + label : x + label * kLane;
    }
    template <bool kAlone>
    static VS_INLINE LabelNumbers<kAlone> zero() {
        LabelNumbers<kAlone> a;
        each<LabelNumbers<kAlone>::NV>([&](auto j) VS_INLINE_LAMBDA { a.v[j] = V::set1(T(0)); });
        return a;
    }
    template <bool kAlone>
    static VS_INLINE void add(T w, const T* x, LabelNumbers<kAlone>* a) {
        const V weight = V::set1(w);
        each<LabelNumbers<kAlone>::NV>([&](auto j) VS_INLINE_LAMBDA {
            const V own = kAlone ? V::set1(*x) : V::load(x + j * V::N);
            a->v[j] = V::fma(weight, own, a->v[j]);
        });
    }
    template <bool kAlone>
    static VS_INLINE LabelNumbers<kAlone> sum(const LabelNumbers<kAlone>& a,
                                              const LabelNumbers<kAlone>& b) {
        LabelNumbers<kAlone> c;
        each<LabelNumbers<kAlone>::NV>([&](auto j) VS_INLINE_LAMBDA { c.v[j] = a.v[j] + b.v[j]; });
        return c;
    }
    template <bool kAlone>
    static VS_INLINE LabelNumbers<kAlone> scaled(T w, const LabelNumbers<kAlone>& a) {
        LabelNumbers<kAlone> c;
        each<LabelNumbers<kAlone>::NV>([&](auto j)
                                           VS_INLINE_LAMBDA { c.v[j] = V::set1(w) * a.v[j]; });
        return c;
    }

    // left . x, in four sums: one addition waits for the one before it.
    template <bool kAlone>
    static LabelNumbers<kAlone> mass(const T* left, int K, const T* x) {
        LabelNumbers<kAlone> part[4];
        for (auto& p : part) p = zero<kAlone>();
        int l = 0;
        for (; l + 4 <= K; l += 4) {
            each<4>([&](auto i) VS_INLINE_LAMBDA {
                add<kAlone>(left[l + i], place<kAlone>(x, l + i), &part[i]);
            });
        }
        for (; l < K; ++l) add<kAlone>(left[l], place<kAlone>(x, l), &part[0]);
        return sum<kAlone>(sum<kAlone>(part[0], part[1]), sum<kAlone>(part[2], part[3]));
    }
    // Fills `out_`; of one alone, each store leaves copies where the next ones write.
    template <bool kAlone>
    void product(const vs::SparseSide& side, int K, const T* x) const {
        constexpr int NV = LabelNumbers<kAlone>::NV;
        const T* left = static_cast<const T*>(side.left);
        const T* right = static_cast<const T*>(side.right);
        const T* weight = static_cast<const T*>(side.weight);
        const LabelNumbers<kAlone> all = mass<kAlone>(left, K, x);
        for (int k = 0; k < K; ++k) {
            T* to = out_ + static_cast<int64_t>(k) * (kAlone ? 1 : kLane);
            LabelNumbers<kAlone> plus = scaled<kAlone>(right[k], all);
            int64_t e = side.start[k];
            const int64_t split = side.split[k], end = side.start[k + 1];
            for (; e < split; ++e) add<kAlone>(weight[e], place<kAlone>(x, side.label[e]), &plus);
            if (split == end) {
                each<NV>([&](auto j) VS_INLINE_LAMBDA { plus.v[j].store(to + j * V::N); });
                continue;
            }
            LabelNumbers<kAlone> minus = zero<kAlone>();
            for (; e < end; ++e) add<kAlone>(weight[e], place<kAlone>(x, side.label[e]), &minus);
            unsigned lost = 0;
            each<NV>([&](auto j) VS_INLINE_LAMBDA {
                (plus.v[j] - minus.v[j]).store(to + j * V::N);
                // Half of it is gone, and digits with it; where there is nothing, nothing is lost.
                const V limit = V::max(plus.v[j], V::set1(kLeast));
                lost |= (minus.v[j] + minus.v[j]).ge(limit) << (j * V::N);
            });
            if (lost != 0) again<kAlone>(side, K, k, x, lost, to);
        }
    }
    // The sum for k without a subtraction, in the lanes of `lost`: over labels that are not listed,
    // and over those that are.
    template <bool kAlone>
    static void again(const vs::SparseSide& side, int K, int k, const T* x, unsigned lost, T* to) {
        constexpr int NV = LabelNumbers<kAlone>::NV;
        const T* left = static_cast<const T*>(side.left);
        const T* own = static_cast<const T*>(side.own);
        const int64_t split = side.split[k], end = side.start[k + 1];
        LabelNumbers<kAlone> rest = zero<kAlone>(), listed = zero<kAlone>();
        int64_t p = side.start[k], q = split;
        for (int l = 0; l < K; ++l) {
            const T* at = place<kAlone>(x, l);
            if (p < split && side.label[p] == l) {
                add<kAlone>(own[p++], at, &listed);
            } else if (q < end && side.label[q] == l) {
                add<kAlone>(own[q++], at, &listed);
            } else {
                add<kAlone>(left[l], at, &rest);
            }
        }
        T value[NV * V::N];
        const T right = static_cast<const T*>(side.right)[k];
        const LabelNumbers<kAlone> y = sum<kAlone>(scaled<kAlone>(right, rest), listed);
        each<NV>([&](auto j) VS_INLINE_LAMBDA { y.v[j].store(value + j * V::N); });
        for (int i = 0; i < NV * V::N; ++i) {
            if (lost >> i & 1) to[i] = value[i];
        }
    }

    static constexpr T kLeast = sizeof(T) == 8 ? static_cast<T>(1e-300) : static_cast<T>(1e-37);
    T *in_ = nullptr, *out_ = nullptr;
};

}  // namespace VS_NS
