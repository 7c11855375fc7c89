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
// is the sum of theirs, where nothing cancels, or, where float64 has divided the row by its sum, 1
// less that label's and what was rounded.
constexpr double kRoundedApart = 1.0 + 0x1p-22, kRoundedError = 0x1p-53;
VS_INLINE double rounded_share(int K) { return static_cast<double>(K + 8) * 0x1p-52; }

template <class T>
void compare_rows(const vs::Comparison& c, const T* p, int K, int64_t first, int64_t last,
                  int64_t component, bool divided) {
    const T* other = static_cast<const T*>(c.rows) + first * K;
    const double error = c.error[component] + kRoundedError;
    const double growth = c.growth[component], extra = c.extra[component];
    const double lost = rounded_share(K);
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
// in float64, from their ends on. Rows of the other answer, labels and what is found change places
// some at a time, in whole vectors.
template <class T>
class Beside {
  public:
    using V = Vec<T>;
    static constexpr int N = V::N;
    static constexpr bool kFits = sizeof(T) == 8;
    static constexpr int kAtOnce = 8;

    bool on() const { return c_ != nullptr; }
    // False: no memory.
    bool open(const vs::Comparison& c, int K, vs::Scratch& scratch) {
        c_ = &c;
        K_ = K;
        x_ = scratch.array<T>(static_cast<int64_t>(kAtOnce) * N * K);
        for (int r = 0; r < N; ++r) aim(r, -1, 0);
        return x_ != nullptr;
    }
    // The next row of lane r is that of variable `at`; -1: there is none.
    void aim(int r, int64_t at, int64_t component) {
        left_ = 0;
        own_[r] = at >= 0;
        at_[r] = own_[r] ? at : 0;
        if (!own_[r]) return;
        error_[r] = static_cast<T>(c_->error[component] + kRoundedError);
        growth_[r] = static_cast<T>(c_->growth[component]);
        extra_[r] = static_cast<T>(c_->extra[component]);
    }
    void prefetch(int64_t at) const { row_prefetch(rows_of(at), K_); }
    // p (K, N) times `inverse` are the marginals of the next rows, of which there are so many in
    // all lanes that have any.
    VS_INLINE void row(int64_t rows, const T* p, V inverse) {
        if constexpr (kFits) compare_next(rows, p, inverse);
    }

  private:
    const T* rows_of(int64_t at) const { return static_cast<const T*>(c_->rows) + at * K_; }
    VS_INLINE void compare_next(int64_t rows, const T* p, V inverse) {
        if (left_ == 0) look(rows < kAtOnce ? static_cast<int>(rows) : kAtOnce);
        const int j = --left_;
        // What was stored one number at a time is read as vectors later: none waits for the other.
        for (int r = 0; r < N; ++r) own_share_[j * N + r] = p[label_[j * N + r] * N + r];
        const T* const x = x_ + static_cast<int64_t>(j) * K_ * N;
        V most = V::set1(T(0)), least = most;
        for (int k = 0; k < K_; ++k) {
            const V d = V::load(p + k * N) * inverse - V::load(x + k * N);
            most = V::max(most, d);
            least = V::min(least, d);
        }
        V::max(most, V::set1(T(0)) - least).store(far_ + j * N);
        inverse.store(wrong_ + j * N);
        if (j == 0) tell();
    }
    void look(int rows) {
        rows_ = left_ = rows;
        const T* from[N];
        for (int r = 0; r < N; ++r) {
            const int64_t first = own_[r] ? at_[r] - rows + 1 : 0;
            from[r] = rows_of(first);
            for (int j = 0; j < rows; ++j) {
                const int32_t label = c_->label[first + j];
                label_[j * N + r] = label < 0 ? 0 : label;
                island_[j * N + r] = static_cast<T>(label);
            }
            const int64_t soon = first < kAtOnce ? first : kAtOnce;
            row_prefetch(rows_of(first - soon), soon * K_);
        }
        weave<T, N>(from, static_cast<int64_t>(rows) * K_, x_);
    }
    void tell() {
        T nobody[kAtOnce];
        T *far[N], *wrong[N];
        for (int r = 0; r < N; ++r) {
            const int64_t first = at_[r] - rows_ + 1;
            far[r] = own_[r] ? c_->far + first : nobody;
            wrong[r] = own_[r] ? c_->wrong + first : nobody;
            at_[r] -= own_[r] ? rows_ : 0;
        }
        const V zero = V::set1(T(0)), one = V::set1(T(1));
        const V lost = V::set1(static_cast<T>(rounded_share(K_)));
        const V apart = V::set1(static_cast<T>(kRoundedApart)), error = V::load(error_);
        const V growth = V::load(growth_), extra = V::load(extra_);
        for (int j = 0; j < rows_ * N; j += N) {
            V::min(V::load(far_ + j) * apart + error, one).store(far_ + j);
            const V share = (one - V::load(own_share_ + j) * V::load(wrong_ + j)) + lost;
            const V most = V::min(share * growth + extra, one);
            V::where_ge(V::load(island_ + j), zero, most).store(wrong_ + j);
        }
        unweave<T, N>(far_, rows_, far);
        unweave<T, N>(wrong_, rows_, wrong);
    }

    const vs::Comparison* c_ = nullptr;
    int K_ = 0, rows_ = 0, left_ = 0;  // rows that have changed places; those to come
    bool own_[N];
    int64_t at_[N];   // variables
    T* x_ = nullptr;  // (kAtOnce, K, N)
    T error_[N] = {}, growth_[N] = {}, extra_[N] = {};
    int32_t label_[kAtOnce * N];  // of islands, else 0
    // (kAtOnce, N): labels, -1 of no island; not yet divided; before and after: how far rows are
    // apart, what divides them.
    T island_[kAtOnce * N], own_share_[kAtOnce * N], far_[kAtOnce * N], wrong_[kAtOnce * N];
};

// As Level::compare.
static void compare(int dtype, const void* rows, int64_t labels, const vs::Comparison& c,
                    int64_t first, int64_t n, int64_t component, bool divided) {
    const int K = static_cast<int>(labels);
    if (dtype == vs::kFloat32) {
        compare_rows(c, static_cast<const float*>(rows), K, first, first + n, component, divided);
    } else {
        compare_rows(c, static_cast<const double*>(rows), K, first, first + n, component, divided);
    }
}

// Marginals that are compared, and not kept, stand in scratch memory, which is used again.
template <class D>
bool compared_init(const vs::PathPass* pass, const D& d, Lane<D>& s, vs::Scratch& scratch) {
    if (!pass->compared) return true;
    const int dtype = pass->model.arrays.dtype;
    const int64_t bytes = d.K * (dtype == vs::kFloat32 ? 4 : 8);
    void* const rows = scratch.take(s.n * bytes);
    s.out = RowsOf<typename D::In>::row(rows, dtype);
    return rows != nullptr;
}

template <class D>
void compare_lane(const vs::PathPass* pass, const D& d, const Lane<D>& s) {
    if (!pass->compared || s.compared || s.status != vs::kOk) return;
    constexpr bool kDivided = std::is_same<D, Linear<double, double>>::value;
    compare(pass->model.arrays.dtype, address(s.out + s.enter * d.K), d.K, *pass->compared,
            s.begin + s.enter, s.last - s.enter, s.sequence, kDivided);
}

}  // namespace VS_NS
