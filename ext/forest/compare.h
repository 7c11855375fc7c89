// Rows of marginals beside those of another answer: how far that can be off, and its labels wrong.
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "forest/path_exact.h"
#include "rows/rows.h"
#include "simd/each.h"
#include "simd/transpose.h"

namespace VS_NS {

// max |a - b|.
template <class T>
VS_INLINE double distance(const T* a, const T* b, int K) {
    using V = Vec<T>;
    T most = T(0);
    int k = 0;
    if (K >= V::N) {
        V top = V::set1(T(0));
        for (; k + V::N <= K; k += V::N) {
            const V d = V::load(a + k) - V::load(b + k);
            top = V::max(top, V::max(d, V::set1(T(0)) - d));
        }
        most = top.hmax();
    }
    for (; k < K; ++k) {
        const T d = std::fabs(a[k] - b[k]);
        most = d > most ? d : most;
    }
    return static_cast<double>(most);
}

// The sum of [first, last); four sums do not wait for one another.
template <class T>
VS_INLINE double sum_of(const T* p, int first, int last) {
    double sum[4] = {};
    int k = first;
    for (; k + 4 <= last; k += 4) {
        each<4>([&](auto j) VS_INLINE_LAMBDA { sum[j] += static_cast<double>(p[k + j]); });
    }
    for (; k < last; ++k) sum[0] += static_cast<double>(p[k]);
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

// Differences are rounded to the type of marginals, shares to doubles. That of all labels but one
// is the sum of theirs, where nothing cancels, or, where the row has been divided by its sum in
// float64 or in float32, 1 less that label's and what was rounded.
constexpr double kRoundedApart = 1.0 + 0x1p-22, kRoundedError = 0x1p-53;
// By how much the sum of a row may differ from 1 then, below 0 where it was not divided so: K + 2
// roundings, of half of this each.
template <class D>
constexpr double kRoundedSum = std::is_same<D, Linear<double, double>>::value  ? 0x1p-52
                               : std::is_same<D, Linear<float, double>>::value ? 0x1p-23
                                                                               : -1.0;
VS_INLINE double rounded_share(int K, double rounded) {
    return static_cast<double>(K + 8) * rounded;
}

template <class T>
void compare_rows(const vs::Comparison& c, const T* p, int K, int64_t first, int64_t last,
                  int64_t component, double rounded) {
    const T* other = static_cast<const T*>(c.rows) + first * K;
    const double error = c.error[component] + kRoundedError;
    const double growth = c.growth[component], extra = c.extra[component];
    const bool divided = rounded > 0.0;
    const double lost = rounded_share(K, divided ? rounded : 0x1p-52);
    for (int64_t i = first; i < last; ++i, p += K, other += K) {
        const double most = distance(p, other, K) * kRoundedApart + error;
        c.far[i] = most < 1.0 ? most : 1.0;
        c.wrong[i] = 0.0;
        const int label = c.label[i];
        if (label < 0) continue;
        const double own = static_cast<double>(p[label]);
        double share = (1.0 - own) + lost;
        if (!divided) {
            const double rest = sum_of(p, 0, label) + sum_of(p, label + 1, K);
            share = rest * (1.0 + lost) / (rest + own);
        }
        const double wrong = share * growth + extra;
        c.wrong[i] = wrong < 1.0 ? wrong : 1.0;
    }
}

// The same, bit for bit, of rows of several chains, entry k of all side by side, as they are made
// from their ends on, for answers in float64. Rows of the other answer, labels and what is found
// change places some at a time, in whole vectors.
template <class D>
class Beside {
  public:
    using T = typename D::T;
    using In = typename D::In;
    using V = Vec<T>;
    using W = Vec<In>;
    static constexpr int N = V::N;
    static constexpr bool kFits = kRoundedSum<D> > 0.0;
    static constexpr int kAtOnce = 8;
    static constexpr int kFew = 16;

    bool on() const { return c_ != nullptr; }
    // False: no memory.
    bool open(const vs::Comparison& c, int K, vs::Scratch& scratch) {
        c_ = &c;
        K_ = K;
        x_ = scratch.array<In>(static_cast<int64_t>(kAtOnce) * N * K);
        for (int r = 0; r < N; ++r) aim(r, -1, 0);
        return x_ != nullptr;
    }
    // The next row of lane r is that of variable `at`; -1: there is none.
    void aim(int r, int64_t at, int64_t component) {
        left_ = 0;
        own_[r] = at >= 0;
        at_[r] = own_[r] ? at : 0;
        if (!own_[r]) return;
        error_[r] = static_cast<In>(c_->error[component] + kRoundedError);
        growth_[r] = static_cast<In>(c_->growth[component]);
        extra_[r] = static_cast<In>(c_->extra[component]);
    }
    void prefetch(int64_t at) const { row_prefetch(rows_of(at), K_); }
    // p (K, N) times `inverse` are the marginals of the next rows, of which there are so many in
    // all lanes that have any.
    VS_INLINE void row(int64_t rows, const T* p, V inverse) {
        if constexpr (kFits) compare_next(rows, p, inverse);
    }

  private:
    static constexpr int kParts = kWidened<In, T>;
    const In* rows_of(int64_t at) const { return static_cast<const In*>(c_->rows) + at * K_; }
    VS_INLINE void compare_next(int64_t rows, const T* p, V inverse) {
        if (left_ == 0) look(rows < kAtOnce ? static_cast<int>(rows) : kAtOnce);
        const int j = --left_;
        // Few labels are all looked at; of many, one number at a time, which are read as vectors
        // later, so that none waits for the other.
        if (K_ <= kFew) {
            const V label = V::load(label_ + j * N);
            V own = V::set1(T(0));
            for (int k = 0; k < K_; ++k) {
                own = own + V::where_equal(label, V::set1(static_cast<T>(k)), V::load(p + k * N));
            }
            own.store(own_share_ + j * N);
        } else {
            for (int r = 0; r < N; ++r) {
                const T label = label_[j * N + r];
                // No branch: which are islands is anyone's guess.
                own_share_[j * N + r] = p[static_cast<int>(label > T(0) ? label : T(0)) * N + r];
            }
        }
        const In* const x = x_ + static_cast<int64_t>(j) * K_ * N;
        const W zero = W::set1(In(0));
        W most[kParts], least[kParts];
        each<kParts>([&](auto q) VS_INLINE_LAMBDA { most[q] = least[q] = zero; });
        for (int k = 0; k < K_; ++k) {
            W part[kParts];
            widen_to(V::load(p + k * N) * inverse, part);
            each<kParts>([&](auto q) VS_INLINE_LAMBDA {
                const W d = part[q] - W::load(x + k * N + q * W::N);
                most[q] = W::max(most[q], d);
                least[q] = W::min(least[q], d);
            });
        }
        each<kParts>([&](auto q) VS_INLINE_LAMBDA {
            W::max(most[q], zero - least[q]).store(far_ + j * N + q * W::N);
        });
        inverse.store(inverse_ + j * N);
        if (j == 0) tell();
    }
    void look(int rows) {
        rows_ = left_ = rows;
        const In* from[N];
        for (int r = 0; r < N; ++r) {
            const int64_t first = own_[r] ? at_[r] - rows + 1 : 0;
            from[r] = rows_of(first);
            for (int j = 0; j < rows; ++j) {
                label_[j * N + r] = static_cast<T>(c_->label[first + j]);
            }
            const int64_t soon = first < kAtOnce ? first : kAtOnce;
            row_prefetch(rows_of(first - soon), soon * K_);
        }
        weave<In, N>(from, static_cast<int64_t>(rows) * K_, x_);
    }
    void tell() {
        In nobody[kAtOnce];
        In *far[N], *wrong[N];
        for (int r = 0; r < N; ++r) {
            const int64_t first = at_[r] - rows_ + 1;
            far[r] = own_[r] ? c_->far + first : nobody;
            wrong[r] = own_[r] ? c_->wrong + first : nobody;
            at_[r] -= own_[r] ? rows_ : 0;
        }
        const W zero = W::set1(In(0)), one = W::set1(In(1));
        const W lost = W::set1(static_cast<In>(rounded_share(K_, kRoundedSum<D>)));
        const W apart = W::set1(static_cast<In>(kRoundedApart));
        for (int j = 0; j < rows_ * N; j += N) {
            W own[kParts], label[kParts];
            widen_to(V::load(own_share_ + j) * V::load(inverse_ + j), own);
            widen_to(V::load(label_ + j), label);
            each<kParts>([&](auto q) VS_INLINE_LAMBDA {
                constexpr int lane = q * W::N;
                In *const f = far_ + j + lane, *const w = wrong_ + j + lane;
                W::min(W::load(f) * apart + W::load(error_ + lane), one).store(f);
                const W share = (one - own[q]) + lost;
                const W most =
                    W::min(share * W::load(growth_ + lane) + W::load(extra_ + lane), one);
                W::where_ge(label[q], zero, most).store(w);
            });
        }
        unweave<In, N>(far_, rows_, far);
        unweave<In, N>(wrong_, rows_, wrong);
    }

    const vs::Comparison* c_ = nullptr;
    int K_ = 0, rows_ = 0, left_ = 0;  // rows that have changed places; those to come
    bool own_[N];
    int64_t at_[N];    // variables
    In* x_ = nullptr;  // (kAtOnce, K, N)
    In error_[N] = {}, growth_[N] = {}, extra_[N] = {};
    // (kAtOnce, N): labels of islands, else -1; what they have, not yet divided; what divides; how
    // far rows are apart.
    T label_[kAtOnce * N], own_share_[kAtOnce * N], inverse_[kAtOnce * N];
    In far_[kAtOnce * N], wrong_[kAtOnce * N];
};

// As Level::compare.
static void compare(int dtype, const void* rows, int64_t labels, const vs::Comparison& c,
                    int64_t first, int64_t n, int64_t component, double rounded) {
    const int K = static_cast<int>(labels);
    if (dtype == vs::kFloat32) {
        compare_rows(c, static_cast<const float*>(rows), K, first, first + n, component, rounded);
    } else {
        compare_rows(c, static_cast<const double*>(rows), K, first, first + n, component, rounded);
    }
}

// Marginals that are compared, and not kept, stand in scratch memory, which is used again.
template <class D>
bool compared_init(const vs::PathPass* pass, const D& d, Lane<D>& s, vs::Scratch& scratch) {
    if (!pass->compared) return true;
    s.out = scratch.array<typename D::In>(s.n * d.K);
    return s.out != nullptr;
}

template <class D>
void compare_lane(const vs::PathPass* pass, const D& d, const Lane<D>& s) {
    if (!pass->compared || s.compared || s.status != vs::kOk) return;
    compare(pass->model.arrays.dtype, s.out + s.enter * d.K, d.K, *pass->compared,
            s.begin + s.enter, s.last - s.enter, s.sequence, kRoundedSum<D>);
}

}  // namespace VS_NS
