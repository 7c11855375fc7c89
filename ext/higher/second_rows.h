// Chains of order 2 in vectors. Rows of psi, A and B are scaled by powers of two:
//
//   A_1[f, k]   = psi_0(f) F[f, k] psi_1(k)
//   A_i+1[c, t] = psi_i+1(t) sum_b A_i[b, c] W[b, c, t]
//   B_i[k, f]   = sum_t V_i+1[t, k] W[f, k, t],  V_i[k, f] = psi_i(k) B_i[k, f],  B_n-1 = 1
//
// so that labels f, k at i - 1, i have the share A_i[f, k] B_i[k, f] of the sum of all such.
#pragma once

#include <cstring>

#include "core/sum.h"
#include "core/ticker.h"
#include "higher/pairs.h"
#include "rows/rows.h"
#include "simd/math.h"
#include "simd/transpose.h"

namespace VS_NS {

using vs::kLn2;
using vs::higher::Group;
using vs::higher::Job;
using vs::higher::kHeld;
using vs::higher::kLeast;
using vs::higher::LongerModel;
using vs::higher::LongerRequest;
using vs::higher::Packed;

// out (kp,) = the scores of position i of a sequence of n, -inf beyond K; returns the largest.
inline double compose(const LongerModel& m, int64_t kp, int64_t first, int64_t i, int64_t n,
                      double* out) {
    using V = Vec<double>;
    const int64_t K = m.labels;
    const double* u = m.unary + (first + i) * K;
    V top = V::set1(-INFINITY);
    for_row<double>(static_cast<int>(K), [&](int k, int count, auto whole) VS_INLINE_LAMBDA {
        const auto part = [&](const double* x, double fill) VS_INLINE_LAMBDA {
            return whole.value ? V::load(x + k) : V::load_part(x + k, count, fill);
        };
        V x = part(u, -INFINITY);
        if (i == 0) x = x + part(m.start, 0.0);
        if (i == n - 1) x = x + part(m.end, 0.0);
        top = V::max(top, x);
        x.store(out + k);
    });
    for (int64_t k = (K + V::N - 1) / V::N * V::N; k < kp; k += V::N)
        V::set1(-INFINITY).store(out + k);
    return top.hmax();
}

// exp(x) for x <= 0, or 0 below `least`.
VS_INLINE Vec<double> exp_above(Vec<double> least, Vec<double> x) {
    return Vec<double>::where_ge(x, least, exp_from<double>(least, x));
}

// sum p x over p > 0.
inline double expected_score(const double* p, const double* x, int64_t n) {
    using V = Vec<double>;
    V sum = V::set1(0.0);
    for (int64_t k = 0; k < n; k += V::N) {
        const V share = V::load(p + k);
        sum = sum + V::where_positive(share, share, share * V::load(x + k));
    }
    return sum.hsum();
}

class SecondPass {
  public:
    using V = Vec<double>;

    SecondPass(const Job& job, Group* group, double* space)
        : job_(job),
          m_(job.model),
          ask_(job.ask),
          p_(job.packed),
          group_(group),
          k_(m_.labels),
          kp_(p_.kp),
          size_(k_ * kp_),
          square_(kp_ * kp_),
          kept_(keeps(ask_)) {
        const auto take = [&](int64_t n) {
            double* const found = space;
            space += n;
            return found;
        };
        for (int s = 0; s < group->count; ++s) {
            Lane& lane = lanes_[s];
            lane.first = m_.offset[group->sequence[s]];
            lane.n = m_.offset[group->sequence[s] + 1] - lane.first;
            lane.psi = take(lane.n * kp_);
            lane.lift = take(lane.n);
            lane.top = take(lane.n);
            lane.a = take(rows(lane.n, kept_) * size_);
            lane.b = take(square_);
            lane.v = take(square_);
            lane.right = take(size_);
            lane.w = take(square_);
            lane.y = take(size_);
            group->forward[s] = lane.n > 1 ? lane.a : lane.psi;
        }
        turned_ = take(square_);
        pairs_ = take(size_);
        row_ = take(kp_);
        column_ = take(kp_);
        left_ = take(kp_);
    }

    static int64_t space(const Job& job, const int64_t* lengths, int count) {
        const int64_t k = job.model.labels, kp = job.packed.kp;
        int64_t n = kp * kp + k * kp + 3 * kp;
        for (int s = 0; s < count; ++s) {
            const int64_t held = rows(lengths[s], keeps(job.ask)) + 2;
            n += lengths[s] * (kp + 2) + held * k * kp + 3 * kp * kp;
        }
        return n;
    }

    // expected [from][before][to], or null.
    void run(double* expected, bool caller) {
        Ticker ticker(job_.control, caller, k_, k_);
        for (int s = 0; s < group_->count; ++s) open(s);
        const int64_t longest = lanes_[0].n;
        for (int64_t i = 2; i < longest; ++i) {
            const int alive = longer_than(i);
            if (!ticker.go_on(alive)) return;
            forward(alive, i);
        }
        for (int s = 0; s < group_->count; ++s) end_forward(s);
        if (!ask_.both_ways()) return;
        for (int64_t i = longest - 1; i >= 1; --i) {
            const int alive = longer_than(i);
            if (!ticker.go_on(alive)) return;
            backward(alive, i, expected);
        }
        for (int s = 0; s < group_->count && ask_.entropy != nullptr; ++s) {
            const Lane& lane = lanes_[s];
            ask_.entropy[group_->sequence[s]] = lane.mass - lane.score.total();
        }
    }

    // The best scores of all that ends in each pair of labels.
    void run_best(bool caller) {
        Ticker ticker(job_.control, caller, k_, k_);
        for (int s = 0; s < group_->count; ++s) {
            const Lane& lane = lanes_[s];
            compose(m_, kp_, lane.first, 0, kNoEnd, left_);
            compose(m_, kp_, lane.first, 1, kNoEnd, row_);
            for (int64_t f = 0; f < k_; ++f) {
                const V own = V::set1(left_[f]);
                for (int64_t k = 0; k < kp_; k += V::N) {
                    const V x = own + V::load(p_.first + f * kp_ + k) + V::load(row_ + k);
                    x.store(a_of(lane, 1) + f * kp_ + k);
                }
            }
        }
        for (int64_t i = 2; i < lanes_[0].n; ++i) {
            const int alive = longer_than(i);
            if (!ticker.go_on(alive)) return;
            advance<PairMaxima>(alive, i);
            for (int s = 0; s < alive; ++s) {
                double* const a = a_of(lanes_[s], i);
                compose(m_, kp_, lanes_[s].first, i, kNoEnd, row_);
                add_to_rows(row_, a);
            }
        }
        for (int64_t k = 0; k < kp_; ++k) row_[k] = k < k_ ? m_.end[k] : 0.0;
        for (int s = 0; s < group_->count; ++s) add_to_rows(row_, a_of(lanes_[s], lanes_[s].n - 1));
    }

  private:
    struct Lane {
        int64_t first = 0, n = 0;
        double *psi = nullptr, *lift = nullptr, *top = nullptr, *a = nullptr;
        double *b = nullptr, *v = nullptr;  // v is woven
        double* right = nullptr;            // psi B [f][k] over the mass
        double *w = nullptr, *y = nullptr;  // A_i-1, woven; its product with what W scores
        double mass = 0.0;                  // log Z less what was taken from scores
        vs::Sum tops, score;
        double lost = -INFINITY;  // the largest score that counts as -inf
        int64_t power = 0;
    };
    // As the length of a sequence: its last position has the scores of others.
    static constexpr int64_t kNoEnd = int64_t{1} << 62;

    const Job& job_;
    const LongerModel& m_;
    const LongerRequest& ask_;
    const Packed& p_;
    Group* group_;
    int64_t k_, kp_, size_, square_;
    bool kept_;  // all A_i; else two of them take turns
    Lane lanes_[Group::kMost];
    double *turned_, *pairs_, *row_, *column_, *left_;

    static bool keeps(const LongerRequest& ask) {
        return ask.both_ways() || ask.size > 0 || ask.best;
    }
    static int64_t rows(int64_t n, bool kept) { return kept || n < 3 ? n - 1 : 2; }
    double* a_of(const Lane& lane, int64_t i) const {
        return lane.a + (kept_ ? i - 1 : (i - 1) % 2) * size_;
    }
    void add_to_rows(const double* row, double* a) const {
        for (int64_t j = 0; j < size_; j += kp_) {
            for (int64_t k = 0; k < kp_; k += V::N)
                (V::load(a + j + k) + V::load(row + k)).store(a + j + k);
        }
    }
    int longer_than(int64_t i) const {
        int count = 0;
        while (count < group_->count && lanes_[count].n > i) ++count;
        return count;
    }
    void need(int s, bool holds) {
        if (!holds) group_->refused[s] = true;
    }

    void open(int s) {
        Lane& lane = lanes_[s];
        V lost = V::set1(p_.lost);
        for (int64_t i = 0; i < lane.n; ++i) {
            double* psi = lane.psi + i * kp_;
            double top = compose(m_, kp_, lane.first, i, lane.n, psi);
            if (!(top > -INFINITY)) {
                group_->refused[s] = true;
                top = 0.0;
            }
            lane.tops.add(top);
            const V most = V::set1(top), least = V::set1(vs::higher::kLeastLabelLog);
            const V never = V::set1(-INFINITY);
            for (int64_t k = 0; k < kp_; k += V::N) {
                const V x = V::load(psi + k) - most;
                lost = V::max(lost, x + V::where_ge(x, least, never));
                exp_above(least, x).store(psi + k);
            }
        }
        lane.lost = lost.hmax();
        if (lane.n < 2) return;
        for (int64_t f = 0; f < k_; ++f) {
            const V own = V::set1(lane.psi[f]);
            for (int64_t k = 0; k < kp_; k += V::N)
                (own * V::load(p_.first + f * kp_ + k)).store(a_of(lane, 1) + f * kp_ + k);
        }
        lane.lift[0] = 1.0;
        absorb(s, 1);
    }

    // A_i from A_i-1, psi_i apart.
    template <class Algebra>
    void advance(int alive, int64_t i) {
        const double* x[Group::kMost];
        double* y[Group::kMost];
        for (int s = 0; s < alive; ++s) {
            x[s] = lanes_[s].v;
            y[s] = a_of(lanes_[s], i);
            weave_pairs(a_of(lanes_[s], i - 1), k_, kp_, lanes_[s].v);
        }
        pair_product<Algebra>(alive, x, p_.up, k_, kp_, y);
    }
    void forward(int alive, int64_t i) {
        advance<PairSums>(alive, i);
        for (int s = 0; s < alive; ++s) absorb(s, i);
    }

    // Multiplies A_i by psi_i and by what is taken out of A_i-1.
    void absorb(int s, int64_t i) {
        Lane& lane = lanes_[s];
        double* const a = a_of(lane, i);
        const double* const psi = lane.psi + i * kp_;
        const V lift = V::set1(lane.lift[i - 1]);
        V top = V::set1(0.0);
        const V held = V::set1(kHeld), nothing = V::set1(0x1p-1074);
        unsigned wild = 0;
        for (int64_t k = 0; k < kp_; k += V::N) {
            const V own = V::load(psi + k) * lift;
            for (int64_t j = k; j < size_; j += kp_) {
                const V x = V::load(a + j) * own;
                x.store(a + j);
                top = V::max(top, x);
                wild |= x.ge(held) ^ x.ge(nothing);
            }
        }
        const double most = top.hmax();
        need(s, wild == 0 && most > kLeast);
        const int power = most > kLeast ? exponent_of(most) : 0;
        lane.top[i] = most;
        lane.lift[i] = power_of_two(-power, 0.0);
        if (i < lane.n - 1) lane.power += power;
    }

    void end_forward(int s) {
        Lane& lane = lanes_[s];
        const int64_t number = group_->sequence[s];
        V sum = V::set1(0.0);
        const bool lone = lane.n == 1;
        const double* const last = lone ? lane.psi : a_of(lane, lane.n - 1);
        for (int64_t j = 0; j < (lone ? kp_ : size_); j += V::N) sum = sum + V::load(last + j);
        const double total = sum.hsum();
        need(s, total > kLeast);
        if (group_->refused[s]) return;
        lane.mass = std::log(total) + static_cast<double>(lane.power) * kLn2;
        const double ways = static_cast<double>(lane.n) * std::log(static_cast<double>(k_));
        need(s, lane.mass > lane.lost + ways + vs::higher::kUnseen);
        const double edges = static_cast<double>(lane.n - 2);
        const double taken = lone ? 0.0 : p_.first_shift + p_.shift * edges;
        ask_.log_z[number] = lane.tops.total() + taken + lane.mass;
        if (!lone) return;
        if (ask_.marginals != nullptr) {
            row_scale_out(last, static_cast<int>(k_), 1.0 / total,
                          ask_.marginals + lane.first * k_);
        }
        if (ask_.entropy != nullptr) lane.score.add(score_of(lane, 0, last) / total);
    }

    void backward(int alive, int64_t i, double* expected) {
        const int before = longer_than(i + 1);
        const double* x[Group::kMost];
        double* y[Group::kMost];
        for (int s = 0; s < before; ++s) {
            x[s] = lanes_[s].v;
            y[s] = lanes_[s].b;
        }
        pair_product<PairSums>(before, x, p_.down, k_, kp_, y);
        for (int s = before; s < alive; ++s) {
            double* const ones = lanes_[s].b;
            for (int64_t j = 0; j < square_; ++j) ones[j] = 0.0;
            for (int64_t k = 0; k < k_; ++k) {
                for (int64_t f = 0; f < k_; ++f) ones[k * kp_ + f] = 1.0;
            }
        }
        for (int s = 0; s < alive; ++s) {
            const double most = meet(s, i);
            if (i > 1) weigh(s, i, most > kLeast ? power_of_two(-exponent_of(most), 0.0) : 1.0);
        }
        if (i > 1 && (expected != nullptr || ask_.entropy != nullptr))
            meet_table(alive, i, expected);
    }

    // V_i, times `lift`.
    void weigh(int s, int64_t i, double lift) {
        const Lane& lane = lanes_[s];
        const V scale = V::set1(lift);
        for (int64_t v = 0; v < kp_; v += V::N) {
            const V own = V::load(lane.psi + i * kp_ + v) * scale;
            for (int64_t j = v * kp_; j < v * kp_ + k_ * V::N; j += V::N)
                (V::load(turned_ + j) * own).store(lane.v + j);
        }
    }

    // Answers at i from A_i and B_i; returns the largest number of B_i.
    double meet(int s, int64_t i) {
        Lane& lane = lanes_[s];
        const double* const a = a_of(lane, i);
        // Blocks of labels k, [f][k], of what is [k][f].
        for (int64_t v = 0; v < kp_; v += V::N) {
            const double* from[V::N];
            for (int j = 0; j < V::N; ++j) from[j] = lane.b + (v + j) * kp_;
            weave<double, V::N>(from, kp_, turned_ + v * kp_);
        }
        V sum = V::set1(0.0), top = sum;
        for (int64_t v = 0; v < kp_; v += V::N) {
            V column = V::set1(0.0);
            for (int64_t f = 0; f < k_; ++f) {
                const V b = V::load(turned_ + v * kp_ + f * V::N);
                const V p = V::load(a + f * kp_ + v) * b;
                p.store(pairs_ + f * kp_ + v);
                column = column + p;
                top = V::max(top, b);
            }
            column.store(column_ + v);
            sum = sum + column;
        }
        const double mass = sum.hsum(), most = top.hmax();
        need(s, most > kLeast && mass > kLeast * lane.top[i] * most);
        if (!group_->refused[s]) answer(s, i, 1.0 / mass);
        return most;
    }

    void answer(int s, int64_t i, double factor) {
        Lane& lane = lanes_[s];
        const int K = static_cast<int>(k_);
        if (ask_.marginals != nullptr) {
            row_scale_out(column_, K, factor, ask_.marginals + (lane.first + i) * k_);
        }
        if (i == 1 && (ask_.marginals != nullptr || ask_.entropy != nullptr)) {
            for (int64_t f = 0; f < k_; ++f) {
                V sum = V::set1(0.0);
                for (int64_t k = 0; k < kp_; k += V::N) sum = sum + V::load(pairs_ + f * kp_ + k);
                left_[f] = sum.hsum();
            }
            for (int64_t f = k_; f < kp_; ++f) left_[f] = 0.0;
            if (ask_.marginals != nullptr)
                row_scale_out(left_, K, factor, ask_.marginals + lane.first * k_);
        }
        if (ask_.joint != nullptr) {
            double* const out = ask_.joint + (ask_.edge[group_->sequence[s]] + i - 1) * k_ * k_;
            for (int64_t f = 0; f < k_; ++f)
                row_scale_out(pairs_ + f * kp_, K, factor, out + f * k_);
        }
        if (ask_.entropy != nullptr) {
            lane.score.add(factor * score_of(lane, i, column_));
            if (i == 1) lane.score.add(factor * (score_of(lane, 0, left_) + score_of_first()));
        }
        if (i == 1 || (ask_.expected == nullptr && ask_.entropy == nullptr)) return;
        const V scale = V::set1(factor);
        for (int64_t v = 0; v < kp_; v += V::N) {
            const V psi = V::load(lane.psi + i * kp_ + v);
            for (int64_t c = 0; c < k_; ++c) {
                const V b = V::load(turned_ + v * kp_ + c * V::N) * scale;
                (b * psi).store(lane.right + c * kp_ + v);
            }
        }
    }
    double score_of(const Lane& lane, int64_t i, const double* share) {
        const V top = V::set1(compose(m_, kp_, lane.first, i, lane.n, row_));
        for (int64_t k = 0; k < kp_; k += V::N) (V::load(row_ + k) - top).store(row_ + k);
        return expected_score(share, row_, kp_);
    }
    double score_of_first() const {
        double sum = 0.0;
        for (int64_t f = 0; f < k_; ++f) {
            for (int64_t k = 0; k < k_; ++k) {
                const double p = pairs_[f * kp_ + k];
                if (p > 0.0) sum += p * (m_.first[f * k_ + k] - p_.first_shift);
            }
        }
        return sum;
    }

    // Labels b, c, t at i - 2, i - 1, i have the share A_i-1[b, c] W[b, c, t] right[c, t].
    void meet_table(int alive, int64_t i, double* expected) {
        const double *x[Group::kMost], *right[Group::kMost];
        double *y[Group::kMost], lift[Group::kMost];
        for (int s = 0; s < alive; ++s) {
            const Lane& lane = lanes_[s];
            weave_pairs(a_of(lane, i - 1), k_, kp_, lane.w);
            x[s] = lane.w;
            y[s] = lane.y;
            right[s] = lane.right;
            lift[s] = lane.lift[i - 1];
        }
        for (int64_t c = 0; c < k_ && expected != nullptr; ++c) {
            by_four(alive, [&](int s, auto n) VS_INLINE_LAMBDA {
                pair_counts<n>(x + s, lift + s, right + s, c, k_, kp_, expected + c * size_);
            });
        }
        if (ask_.entropy == nullptr) return;
        pair_product<PairSums>(alive, x, p_.scored, k_, kp_, y);
        for (int s = 0; s < alive; ++s) {
            V sum = V::set1(0.0);
            for (int64_t j = 0; j < size_; j += V::N)
                sum = V::fma(V::load(y[s] + j), V::load(right[s] + j), sum);
            lanes_[s].score.add(lift[s] * sum.hsum());
        }
    }
};

}  // namespace VS_NS
