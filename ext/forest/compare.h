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
// in float64, from their ends on.
template <class T>
class Beside {
  public:
    using V = Vec<T>;
    static constexpr int N = V::N;
    static constexpr bool kFits = sizeof(T) == 8;

    bool on() const { return c_ != nullptr; }
    void open(const vs::Comparison& c, int K) {
        // Rows before these are asked for: as many as lie in a few lines.
        constexpr int kBytes = 256, kMost = 12;
        c_ = &c;
        K_ = K;
        ahead_ = 2 + kBytes / (K * static_cast<int>(sizeof(T)));
        if (ahead_ > kMost) ahead_ = kMost;
        for (int r = 0; r < N; ++r) aim(r, -1, 0);
    }
    // The next row of lane r is that of variable `at`; -1: there is none.
    void aim(int r, int64_t at, int64_t component) {
        own_[r] = at >= 0;
        at_[r] = own_[r] ? at : 0;
        other_[r] = static_cast<const T*>(c_->rows) + at_[r] * K_;
        if (!own_[r]) return;
        error_[r] = static_cast<T>(c_->error[component] + kRoundedError);
        growth_[r] = static_cast<T>(c_->growth[component]);
        extra_[r] = static_cast<T>(c_->extra[component]);
    }
    void prefetch(int64_t at) const { row_prefetch(static_cast<const T*>(c_->rows) + at * K_, K_); }
    // p (K, N) times `inverse` are the marginals; x (K, N) is overwritten.
    VS_INLINE void rows(int K, const T* p, V inverse, T* x) {
        const V zero = V::set1(T(0)), one = V::set1(T(1));
        T own[N], far[N], wrong[N];
        bool sure[N];
        for (int r = 0; r < N; ++r) {
            const int k = own_[r] ? c_->label[at_[r]] : -1;
            sure[r] = k >= 0;
            own[r] = p[(sure[r] ? k : 0) * N + r];
        }
        weave<T, N>(other_, K, x);
        V most = zero, least = zero;
        for (int k = 0; k < K; ++k) {
            const V d = V::load(p + k * N) * inverse - V::load(x + k * N);
            most = V::max(most, d);
            least = V::min(least, d);
        }
        const V lost = V::set1(static_cast<T>(rounded_share(K)));
        const V share = (one - V::load(own) * inverse) + lost;
        V::min(share * V::load(growth_) + V::load(extra_), one).store(wrong);
        const V apart = V::max(most, zero - least) * V::set1(static_cast<T>(kRoundedApart));
        V::min(apart + V::load(error_), one).store(far);
        for (int r = 0; r < N; ++r) {
            if (!own_[r]) continue;
            c_->far[at_[r]] = static_cast<double>(far[r]);
            c_->wrong[at_[r]] = sure[r] ? static_cast<double>(wrong[r]) : 0.0;
            if (at_[r] >= ahead_) row_prefetch(other_[r] - ahead_ * K, K);
            other_[r] -= K;
            --at_[r];
        }
    }

  private:
    const vs::Comparison* c_ = nullptr;
    int K_ = 0, ahead_ = 0;
    bool own_[N];
    int64_t at_[N];  // variables
    const T* other_[N];
    T error_[N] = {}, growth_[N] = {}, extra_[N] = {};
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
