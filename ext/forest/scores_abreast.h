// Scores of chains that lie side by side, one in each lane of vectors, and their exponentials.
#pragma once

#include <cmath>
#include <type_traits>

#include "forest/path_exact.h"
#include "simd/each.h"
#include "simd/transpose.h"

namespace VS_NS {

// Can rows of an arithmetic lie side by side? There hsum() adds up halves of a vector, as fold()
// does.
template <class D>
constexpr bool kGoAbreast =
    (std::is_same<D, Linear<typename D::T, typename D::T>>::value ||
     std::is_same<D, Linear<float, double>>::value) &&
    Vec<typename D::T>::N >= 4 && Vec<typename D::T>::N <= 16 && VS_LEVEL != VS_LEVEL_NEON;

// Lanes that have ended, or are none, take as long as the longest.
struct LaneSizes {
    int64_t positions = 0, longest = 0;
};
template <class L>
LaneSizes lane_sizes(const L* lanes, int m) {
    LaneSizes sizes;
    for (int r = 0; r < m; ++r) {
        sizes.positions += lanes[r].n;
        sizes.longest = lanes[r].n > sizes.longest ? lanes[r].n : sizes.longest;
    }
    return sizes;
}

template <class D>
class ScoresAbreast {
  public:
    using T = typename D::T;
    using In = typename D::In;
    using V = Vec<T>;
    using S = Vec<In>;
    static constexpr int N = V::N;
    static constexpr int kScores = N / S::N;  // vectors of scores for one of T
    struct Top {
        S part[kScores];
    };
    static constexpr int64_t kAtOnce = 8;  // rows that are woven at once: whole vectors

    // False: no memory.
    bool open(const D& d, vs::Scratch& scratch) {
        x_ = scratch.array<In>(kAtOnce * N * d.K);
        row_ = scratch.array<In>(static_cast<int64_t>(N) * d.Kp);
        const bool masks = d.in.c.allowed != nullptr;
        masked_ = masks ? scratch.array<In>(kAtOnce * N * d.K) : nullptr;
        return x_ != nullptr && row_ != nullptr && (masked_ != nullptr) == masks;
    }
    // Points at the scores of row i; lanes that have ended go on with those of the longest.
    template <class L>
    void aim(const D& d, const L* lanes, int m, int longest, int64_t i) {
        for (int r = 0; r < N; ++r) {
            const L& s = lanes[r < m && i < lanes[r].n ? r : longest];
            const bool head = i == 0 && s.head, tail = i == s.n - 1 && s.tail;
            const int64_t first = (s.begin + i) * d.K;
            from_[r] = d.in.unary + first;
            allowed_[r] = masked_ ? d.in.c.allowed + first : nullptr;
            if (!(head && d.in.start) && !(tail && d.in.end)) continue;
            In* const own = row_ + r * d.Kp;
            d.in.compose(s.begin + i, head, tail, own);
            from_[r] = own;
            allowed_[r] = nullptr;
        }
    }
    // The scores of so many rows from there on, which are as good as one long row: (rows, K, N).
    VS_INLINE const In* look(const D& d, int64_t rows) {
        const int64_t size = rows * d.K;
        masked_ ? mask(size) : weave<In, N>(from_, size, x_);
        for (int r = 0; r < N; ++r) from_[r] += size;
        return x_;
    }
    // The largest scores of a row, 0 where all are forbidden; `plain`: none is. FEW: K, where the
    // compiler knows it, or 0.
    template <int FEW = 0>
    VS_INLINE Top largest(int K, const In* x, bool* plain) const {
        S high[kScores], low[kScores];
        each<kScores>([&](auto q) VS_INLINE_LAMBDA { high[q] = low[q] = S::load(x + q * S::N); });
        const auto see = [&](int k) VS_INLINE_LAMBDA {
            each<kScores>([&](auto q) VS_INLINE_LAMBDA {
                const S v = S::load(x + k * N + q * S::N);
                high[q] = S::max(high[q], v);
                low[q] = S::min(low[q], v);
            });
        };
        if constexpr (FEW > 0) {
            each<FEW - 1>([&](auto k) VS_INLINE_LAMBDA { see(k + 1); });
        } else {
            for (int k = 1; k < K; ++k) see(k);
        }
        const S finite = S::set1(ExpConst<In>::kMostNegative);
        bool all = true;
        Top top;
        each<kScores>([&](auto q) VS_INLINE_LAMBDA {
            const bool here = low[q].ge(finite) == (1u << S::N) - 1u;
            all &= here;
            top.part[q] = here ? high[q] : S::where_ge(high[q], finite, high[q]);
        });
        *plain = all;
        return top;
    }
    // The exponentials of entry k, of scores less the largest.
    template <bool PLAIN>
    VS_INLINE V local(const In* x, int k, const Top& top) const {
        if constexpr (D::kNarrows) {
            S part[kScores];
            each<kScores>([&](auto q)
                              VS_INLINE_LAMBDA { part[q] = S::load(x + k * N + q * S::N); });
            return exp_narrow<PLAIN>(part, top.part, S::set1(static_cast<In>(ExpConst<T>::kLow)));
        } else {
            const V v = V::load(x + k * N);
            return PLAIN ? exp_floor<T>(v - top.part[0]) : exp_shifted<T>(v, top.part[0]);
        }
    }
    // For two scores, none of which is forbidden: by how much the first is larger, and the
    // exponential of the smaller less the larger.
    VS_INLINE void local_of_two(const In* x, V* apart, V* other) const {
        const S zero = S::set1(In(0));
        S more[kScores], less[kScores];
        each<kScores>([&](auto q) VS_INLINE_LAMBDA {
            more[q] = S::load(x + q * S::N) - S::load(x + N + q * S::N);
            less[q] = S::min(more[q], zero - more[q]);
        });
        if constexpr (D::kNarrows) {
            const S low = S::set1(static_cast<In>(ExpConst<T>::kLow));
            *apart = V::narrow(more);
            *other = exp_narrow<true>(less, zero, low);
        } else {
            *apart = more[0];
            *other = exp_floor<T>(less[0]);
        }
    }
    // Vectors of doubles for one of T.
    static constexpr int kWide = N / Vec<double>::N;
    static VS_INLINE void widen(const Top& top, Vec<double>* out) {
        if constexpr (sizeof(In) == 8) {
            each<kWide>([&](auto q) VS_INLINE_LAMBDA { out[q] = top.part[q]; });
        } else {
            top.part[0].widen(out);
        }
    }

  private:
    // The next scores, those of what is not allowed forbidden.
    void mask(int64_t size) {
        const In* from[N];
        for (int r = 0; r < N; ++r) {
            from[r] = from_[r];
            const uint8_t* const allowed = allowed_[r];
            if (!allowed) continue;
            In* const own = masked_ + r * size;
            const In *const x = from_[r], forbidden = -static_cast<In>(INFINITY);
            int64_t k = 0;
            for (; k + S::N <= size; k += S::N) {
                S::load_where(x + k, allowed + k, forbidden).store(own + k);
            }
            for (; k < size; ++k) own[k] = allowed[k] ? x[k] : forbidden;
            from[r] = own;
            allowed_[r] += size;
        }
        weave<In, N>(from, size, x_);
    }

    In* x_ = nullptr;            // (kAtOnce, K, N)
    In* row_ = nullptr;          // (N, Kp): rows that are sums
    In* masked_ = nullptr;       // (N, kAtOnce, K) where there are masks
    const In* from_[N];          // the next rows
    const uint8_t* allowed_[N];  // theirs, or null
};

}  // namespace VS_NS
