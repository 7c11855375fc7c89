// Rows of marginals beside those of another answer: how far that can be off, and its labels wrong.
#pragma once

#include <cmath>
#include <cstdint>

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

// Adds p[k] of [first, last) to sum[k % 4]: four sums do not wait for one another.
template <class T>
VS_INLINE void add_to(double* sum, const T* p, int first, int last) {
    int k = first;
    for (; k < last && k % 4; ++k) sum[k % 4] += static_cast<double>(p[k]);
    for (; k + 4 <= last; k += 4) {
        each<4>([&](auto j) VS_INLINE_LAMBDA { sum[j] += static_cast<double>(p[k + j]); });
    }
    for (; k < last; ++k) sum[k % 4] += static_cast<double>(p[k]);
}

// Differences are rounded to the type of marginals, shares to doubles.
constexpr double kRoundedApart = 1.0 + 0x1p-22, kRoundedError = 0x1p-53;
VS_INLINE double rounded_share(int K) { return 1.0 + static_cast<double>(K + 8) * 0x1p-52; }

template <class T>
void compare_rows(const vs::Comparison& c, const T* p, int K, int64_t first, int64_t last,
                  int64_t component) {
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
        // The share that the label does not have is added up: nothing cancels.
        double sum[4] = {};
        add_to(sum, p, 0, label);
        add_to(sum, p, label + 1, K);
        const double rest = (sum[0] + sum[1]) + (sum[2] + sum[3]);
        const double share = rest * lost / (rest + static_cast<double>(p[label]));
        const double wrong = share * growth + extra;
        c.wrong[i] = wrong < 1.0 ? wrong : 1.0;
    }
}

// The same, bit for bit, of rows of several chains, entry k of all side by side, as they are made
// from their ends on.
template <class T>
class Beside {
  public:
    using V = Vec<T>;
    static constexpr int N = V::N;
    static constexpr bool kFits = sizeof(T) == 8;  // a vector has the sums of its lanes

    bool on() const { return c_ != nullptr; }
    void open(const vs::Comparison& c, int K) {
        c_ = &c;
        K_ = K;
        for (int r = 0; r < N; ++r) aim(r, -1, 0);
    }
    // The next row of lane r is that of variable `at`; -1: there is none.
    void aim(int r, int64_t at, int64_t component) {
        const bool own = at >= 0;
        step_[r] = own ? 1 : 0;
        other_[r] = static_cast<const T*>(c_->rows) + (own ? at * K_ : 0);
        label_[r] = own ? c_->label + at : &kNone;
        far_[r] = own ? c_->far + at : unread_;
        wrong_[r] = own ? c_->wrong + at : unread_ + 1;
        if (!own) return;
        error_[r] = static_cast<T>(c_->error[component] + kRoundedError);
        growth_[r] = static_cast<T>(c_->growth[component]);
        extra_[r] = static_cast<T>(c_->extra[component]);
    }
    void prefetch(int64_t at) const { row_prefetch(static_cast<const T*>(c_->rows) + at * K_, K_); }
    // p (K, N) times `inverse` are the marginals; x (K, N) is overwritten.
    VS_INLINE void rows(int K, const T* p, V inverse, T* x) {
        const V zero = V::set1(T(0)), one = V::set1(T(1));
        T number[N], far[N], wrong[N];
        for (int r = 0; r < N; ++r) number[r] = static_cast<T>(*label_[r]);
        const V label = V::load(number);
        weave<T, N>(other_, K, x);
        V most = zero, own = zero, sum[4] = {zero, zero, zero, zero};
        for (int k0 = 0; k0 < K; k0 += 4) {
            each<4>([&](auto j) VS_INLINE_LAMBDA {
                const int k = k0 + j;
                if (k >= K) return;
                const V share = V::load(p + k * N) * inverse, d = share - V::load(x + k * N);
                most = V::max(most, V::max(d, zero - d));
                const V e = label - V::set1(static_cast<T>(k));
                const V other = V::where_ge(V::max(e, zero - e), one, share);
                sum[j] = sum[j] + other;
                own = own + (share - other);
            });
        }
        const V rest = (sum[0] + sum[1]) + (sum[2] + sum[3]);
        const V share = rest * V::set1(static_cast<T>(rounded_share(K))) / (rest + own);
        const V least = V::min(share * V::load(growth_) + V::load(extra_), one);
        V::where_ge(label, zero, least).store(wrong);
        const V apart = most * V::set1(static_cast<T>(kRoundedApart)) + V::load(error_);
        V::min(apart, one).store(far);
        for (int r = 0; r < N; ++r) {
            *far_[r] = static_cast<double>(far[r]);
            *wrong_[r] = static_cast<double>(wrong[r]);
            other_[r] -= step_[r] * K;
            label_[r] -= step_[r];
            far_[r] -= step_[r];
            wrong_[r] -= step_[r];
        }
    }

  private:
    static constexpr int32_t kNone = -1;

    const vs::Comparison* c_ = nullptr;
    int K_ = 0;
    double unread_[2];
    int64_t step_[N];
    const T* other_[N];
    const int32_t* label_[N];
    double *far_[N], *wrong_[N];
    T error_[N] = {}, growth_[N] = {}, extra_[N] = {};
};

// As Level::compare.
static void compare(int dtype, const void* rows, int64_t labels, const vs::Comparison& c,
                    int64_t first, int64_t n, int64_t component) {
    const int K = static_cast<int>(labels);
    if (dtype == vs::kFloat32) {
        compare_rows(c, static_cast<const float*>(rows), K, first, first + n, component);
    } else {
        compare_rows(c, static_cast<const double*>(rows), K, first, first + n, component);
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
    compare(pass->model.arrays.dtype, address(s.out + s.enter * d.K), d.K, *pass->compared,
            s.begin + s.enter, s.last - s.enter, s.sequence);
}

}  // namespace VS_NS
