// Chains of segments (semi-Markov) in vectors: a sequence is cut into segments of 1 to L positions,
// each with a label, and transitions stand between neighbouring segments.
//
//   a_e[k] = sum_d g_e-d[k] w[e - d, d, k]     all cuts of e positions whose last label is k
//   g_e[k] = sum_j a_e[j] W[j, k]              what comes before a segment; g_0 = exp(start)
//   h_i[k] = sum_d w[i, d, k] b_i+d[k]         all cuts from i on whose first label is k
//   b_i[j] = sum_k W[j, k] h_i[k]              what comes after; b_n = exp(end)
//
// Every row has the logarithm of a factor beside it, without loss however long the sequence is. A
// term of a sum is multiplied by what its factor is of the largest among them. Boundaries that no
// cut reaches have the factor 0. Each number of a and g that is not 0 has relative accuracy, what
// counts as -inf apart (level.h).
#pragma once

#include <new>

#include "higher/second_rows.h"

namespace VS_NS {

using vs::higher::FactorLog;
using vs::higher::Segments;

class SegmentPass {
  public:
    using V = Vec<double>;

    SegmentPass(const Job& job, Segments* s, double* space)
        : job_(job),
          m_(job.model),
          ask_(job.ask),
          p_(job.packed),
          s_(s),
          k_(m_.labels),
          kp_(p_.kp),
          first_(m_.offset[s->sequence]),
          n_(m_.offset[s->sequence + 1] - first_),
          longest_(m_.longest < n_ ? m_.longest : n_) {
        const auto take = [&](int64_t n) {
            double* const found = space;
            space += n;
            return found;
        };
        const auto take_logs = [&](int64_t n) {
            constexpr int64_t size = sizeof(FactorLog) / sizeof(double);
            return new (take(n * size)) FactorLog[static_cast<std::size_t>(n)];
        };
        weight_ = take(n_ * longest_ * kp_);
        weight_top_ = take(n_ * longest_);
        ended_ = take((n_ + 1) * kp_);
        ended_log_ = take_logs(n_ + 1);
        entry_ = take((n_ + 1) * kp_);
        entry_log_ = take_logs(n_ + 1);
        after_ = take((n_ + 1) * kp_);
        after_log_ = take_logs(n_ + 1);
        share_ = take(n_ * kp_);
        factor_ = take(longest_ + V::N);
        apart_ = take(longest_);
        row_ = take(kp_);
        end_ = take(kp_);
        count_ = take(ask_.entropy != nullptr ? k_ * kp_ : 0);
        score_ = take(ask_.entropy != nullptr ? n_ * longest_ * kp_ : 0);
        s->most = longest_;
        s->weight = weight_;
        s->weight_top = weight_top_;
        s->ended = ended_;
        s->entry = entry_;
        s->entry_log = entry_log_;
    }

    static int64_t space(const LongerModel& m, int64_t kp, int64_t n, bool entropy) {
        const int64_t most = m.longest < n ? m.longest : n, weights = n * most * kp;
        return weights + n * most + 3 * (n + 1) * (kp + 3) + n * kp + 2 * most + 2 * kp + V::N +
               (entropy ? m.labels * kp + weights : 0);
    }

    // expected (K, kp), or null.
    void run(double* expected, bool caller) {
        Ticker ticker(job_.control, caller, k_, 1 + longest_ / 8);
        if (!weigh(&ticker) || !forward(&ticker)) return;
        const double* const last = ended_ + n_ * kp_;
        V sum = V::set1(0.0);
        for (int64_t k = 0; k < kp_; k += V::N) sum = sum + V::load(last + k);
        end_mass_ = std::log(sum.hsum());
        const double mass = ended_log_[n_].total() + end_mass_;
        ask_.log_z[s_->sequence] = mass + tops_.total();
        if (lost_ > -INFINITY && !(mass > all_ways() + lost_ + vs::higher::kUnseen)) {
            refuse();
            return;
        }
        if (!ask_.both_ways()) return;
        if (!backward(&ticker, expected)) return;
        if (ask_.marginals != nullptr) {
            for (int64_t i = 0; i < n_; ++i) {
                V all = V::set1(0.0);
                for (int64_t k = 0; k < kp_; k += V::N) all = all + V::load(share_ + i * kp_ + k);
                row_scale_out(share_ + i * kp_, static_cast<int>(k_), 1.0 / all.hsum(),
                              ask_.marginals + (first_ + i) * k_);
            }
        }
        if (ask_.entropy != nullptr) ask_.entropy[s_->sequence] = end_mass_ - expected_rest();
    }

    // Scores of the best that ends, and begins, at each boundary; weights are scores.
    void run_best(bool caller) {
        Ticker ticker(job_.control, caller, k_, 1 + longest_ / 8);
        if (!weigh_scores(false, &ticker)) return;
        for (int64_t k = 0; k < kp_; ++k) {
            entry_[k] = k < k_ ? m_.start[k] : -INFINITY;
            end_[k] = k < k_ ? m_.end[k] : -INFINITY;
        }
        for (int64_t e = 1; e <= n_; ++e) {
            if (!ticker.go_on()) return;
            double* const a = ended_ + e * kp_;
            const int64_t most = longest_ < e ? longest_ : e;
            for (int64_t k = 0; k < kp_; k += V::N) {
                V best = V::set1(-INFINITY);
                for (int64_t d = 1; d <= most; ++d) {
                    best = V::max(
                        best, V::load(entry_ + (e - d) * kp_ + k) + V::load(weight(e - d, d) + k));
                }
                if (e == n_) best = best + V::load(end_ + k);
                best.store(a + k);
            }
            if (e < n_) product<PairMaxima>(a, p_.up, entry_ + e * kp_);
        }
    }

  private:
    const Job& job_;
    const LongerModel& m_;
    const LongerRequest& ask_;
    const Packed& p_;
    Segments* s_;
    int64_t k_, kp_, first_, n_, longest_;
    double *weight_, *weight_top_, *ended_, *entry_, *after_;
    FactorLog *ended_log_, *entry_log_, *after_log_;
    double *share_, *factor_, *apart_, *row_, *end_, *count_, *score_;
    vs::Sum tops_, scored_;
    double end_mass_ = 0.0;  // the logarithm of the sum of the last row
    double ends_ = 0.0;      // the largest score of an end
    double lost_ = p_.lost;  // the largest score, less that of its row, that counts as -inf

    // Less than this factor more than log Z is what two directions make at a boundary.
    static constexpr double kMostApart = 230.0;  // 1e100
    // Scores of segments that are further below the largest of their row count as -inf.
    static constexpr double kLeastScore = -2000.0;

    double* weight(int64_t i, int64_t d) const { return weight_ + (i * longest_ + d - 1) * kp_; }
    bool refuse() {
        s_->refused = true;
        return false;
    }

    // The scores of all segments, -inf beyond K; `centred`: those of positions less their largest.
    bool weigh_scores(bool centred, Ticker* ticker) {
        const auto load = [&](const double* x, int64_t k, double fill) VS_INLINE_LAMBDA {
            return k + V::N <= k_ ? V::load(x + k)
                   : k < k_       ? V::load_part(x + k, static_cast<int>(k_ - k), fill)
                                  : V::set1(fill);
        };
        for (int64_t i = 0; i < n_; ++i) {
            if (!ticker->go_on()) return false;
            const int64_t most = longest_ < n_ - i ? longest_ : n_ - i;
            for (int64_t k = 0; k < kp_; k += V::N) {
                V sum = V::set1(0.0);
                for (int64_t d = 1; d <= most; ++d) {
                    const int64_t at = i + d - 1;
                    V u = load(m_.unary + (first_ + at) * k_, k, -INFINITY);
                    if (centred) u = u - V::set1(share_[at * kp_]);
                    sum = sum + u;
                    V own = sum;
                    const double* const segment =
                        m_.segment ? m_.segment + ((first_ + i) * m_.longest + d - 1) * k_
                                   : nullptr;
                    if (m_.duration != nullptr) {
                        V more = load(m_.duration + (d - 1) * k_, k, 0.0);
                        if (segment != nullptr) more = more + load(segment, k, 0.0);
                        own = own + more;
                    } else if (segment != nullptr) {
                        own = own + load(segment, k, 0.0);
                    }
                    own.store(weight(i, d) + k);
                }
            }
        }
        return true;
    }

    // Their exponentials, each row less its largest score.
    bool weigh(Ticker* ticker) {
        for (int64_t i = 0; i < n_; ++i) {  // the largest scores of positions
            const double top = row_max(m_.unary + (first_ + i) * k_, static_cast<int>(k_));
            share_[i * kp_] = top > -INFINITY ? top : 0.0;
            tops_.add(share_[i * kp_]);
        }
        if (!weigh_scores(true, ticker)) return false;
        if (ask_.entropy != nullptr) {
            std::memcpy(score_, weight_,
                        sizeof(double) * static_cast<std::size_t>(n_ * longest_ * kp_));
        }
        V lost = V::set1(lost_);
        for (int64_t i = 0; i < n_; ++i) {
            if (!ticker->go_on()) return false;
            const int64_t most = longest_ < n_ - i ? longest_ : n_ - i;
            for (int64_t d = 1; d <= most; ++d) {
                double* const w = weight(i, d);
                weight_top_[i * longest_ + d - 1] = narrow(w, w, &lost);
            }
        }
        lost_ = lost.hmax();
        return true;
    }
    // out = exp(x - its largest number), which is returned; numbers above kLeastScore stay above 0.
    double narrow(const double* x, double* out, V* lost) const {
        V top = V::load(x);
        for (int64_t k = V::N; k < kp_; k += V::N) top = V::max(top, V::load(x + k));
        const double most = top.hmax();
        const V taken = V::set1(most > -INFINITY ? most : 0.0), least = V::set1(kLeastScore);
        const V never = V::set1(-INFINITY);
        for (int64_t k = 0; k < kp_; k += V::N) {
            const V y = V::load(x + k) - taken;
            *lost = V::max(*lost, y + V::where_ge(y, least, never));
            V::where_ge(y, least, exp_floor<double>(y)).store(out + k);
        }
        return most;
    }
    double narrow_labels(const double* x, double* out) {
        for (int64_t k = 0; k < kp_; ++k) row_[k] = k < k_ ? x[k] : -INFINITY;
        V lost = V::set1(lost_);
        const double most = narrow(row_, out, &lost);
        lost_ = lost.hmax();
        return most;
    }
    // The logarithm of at least the sum over all cuts and labels of the largest weights in a row.
    double all_ways() {
        double* const ways = after_;  // (n + 1,), free until messages go back
        const double labels = std::log(static_cast<double>(k_));
        ways[0] = entry_log_[0].total() + labels;
        for (int64_t e = 1; e <= n_; ++e) {
            const int64_t most = longest_ < e ? longest_ : e;
            for (int64_t d = 1; d <= most; ++d)
                factor_[d - 1] = ways[e - d] + weight_top_[(e - d) * longest_ + d - 1];
            const double top = compare(most);
            double sum = 0.0;
            for (int64_t d = 0; d < most && top > -INFINITY; ++d) sum += factor_[d];
            ways[e] = top > -INFINITY ? top + std::log(sum) + p_.shift + labels : top;
        }
        return ways[n_] - p_.shift - labels + ends_;
    }

    template <class Algebra>
    void product(const double* x, const double* table, double* out) const {
        for (int64_t t = 0; t < kp_; t += V::N) {
            V even = Algebra::none(), odd = even;
            int64_t b = 0;
            for (; b + 2 <= k_; b += 2) {
                const double* const w = table + b * kp_ + t;
                even = Algebra::add(V::set1(x[b]), V::load(w), even);
                odd = Algebra::add(V::set1(x[b + 1]), V::load(w + kp_), odd);
            }
            if (b < k_) even = Algebra::add(V::set1(x[b]), V::load(table + b * kp_ + t), even);
            Algebra::join(even, odd).store(out + t);
        }
    }

    // The largest of factor_[0, n), logarithms, which become their shares of it. -inf: all are.
    double compare(int64_t n) const {
        for (int64_t d = n; d % V::N != 0; ++d) factor_[d] = -INFINITY;
        V top = V::set1(-INFINITY);
        for (int64_t d = 0; d < n; d += V::N) top = V::max(top, V::load(factor_ + d));
        const double most = top.hmax();
        if (!(most > -INFINITY)) return most;
        for (int64_t d = 0; d < n; d += V::N)
            exp_or_zero(V::load(factor_ + d) - V::set1(most)).store(factor_ + d);
        return most;
    }
    // Takes the power of two of its largest number, `most`, out of a row; returns it.
    double settle(double* row, double most) const {
        const int power = exponent_of(most);
        const V lift = V::set1(power_of_two(-power, 0.0));
        for (int64_t k = 0; k < kp_; k += V::N) (V::load(row + k) * lift).store(row + k);
        return static_cast<double>(power);
    }
    double largest(const double* row) const {
        V top = V::load(row);
        for (int64_t k = V::N; k < kp_; k += V::N) top = V::max(top, V::load(row + k));
        return top.hmax();
    }
    void clear(double* row) const {
        for (int64_t k = 0; k < kp_; ++k) row[k] = 0.0;
    }

    bool forward(Ticker* ticker) {
        const double begins = narrow_labels(m_.start, entry_);
        ends_ = narrow_labels(m_.end, end_);
        if (!(begins > -INFINITY && ends_ > -INFINITY)) return refuse();
        std::fill_n(apart_, longest_, -INFINITY);
        entry_log_[0] = FactorLog().times(begins);
        const FactorLog* base = entry_log_;
        apart_[0] = 0.0;
        const V held = V::set1(vs::higher::kHeld), nothing = V::set1(0x1p-1074);
        const V one = V::set1(1.0);
        for (int64_t e = 1; e <= n_; ++e) {
            if (!ticker->go_on()) return false;
            double *const a = ended_ + e * kp_, *const g = entry_ + e * kp_;
            const int64_t most = longest_ < e ? longest_ : e;
            for (int64_t d = 1; d <= most; ++d)
                factor_[d - 1] = apart_[d - 1] + weight_top_[(e - d) * longest_ + d - 1];
            const double found_most = compare(most);
            if (!(found_most > -INFINITY)) {
                if (e == n_) return refuse();
                clear(a);
                clear(g);
                ended_log_[e].power = entry_log_[e].power = -INFINITY;
                pass(entry_log_ + e, &base);
                continue;
            }
            V top = V::set1(0.0);
            unsigned wild = 0;
            for (int64_t k = 0; k < kp_; k += V::N) {
                V sum = V::set1(0.0), some = sum;
                for (int64_t d = 1; d <= most; ++d) {
                    const V g_before = V::load(entry_ + (e - d) * kp_ + k);
                    const V w = V::load(weight(e - d, d) + k);
                    some = V::max(some, V::where_positive(g_before, w, one));
                    sum = V::fma(V::set1(factor_[d - 1]) * g_before, w, sum);
                }
                if (e == n_) {
                    some = V::where_positive(some, V::load(end_ + k), one);
                    sum = sum * V::load(end_ + k);
                }
                sum.store(a + k);
                wild |= some.ge(one) & ~sum.ge(held);
                top = V::max(top, sum);
            }
            const double found = top.hmax();
            if (wild != 0 || !(found > vs::higher::kLeast)) return refuse();
            ended_log_[e] = base->times(found_most, settle(a, found));
            if (e == n_) {
                ended_log_[e].rest.add(ends_);
                break;
            }
            product<PairSums>(a, p_.up, g);
            for (int64_t k = 0; k < kp_; k += V::N) {
                const V x = V::load(g + k);
                wild |= x.ge(nothing) ^ x.ge(held);
            }
            const double next = largest(g);
            if (wild != 0 || !(next > vs::higher::kLeast)) return refuse();
            entry_log_[e] = ended_log_[e].times(p_.shift, settle(g, next));
            pass(entry_log_ + e, &base);
        }
        return true;
    }

    bool backward(Ticker* ticker, double* expected) {
        std::memcpy(after_ + n_ * kp_, end_, sizeof(double) * static_cast<std::size_t>(kp_));
        after_log_[n_] = FactorLog().times(ends_);
        const FactorLog* base = after_log_ + n_;
        apart_[0] = 0.0;
        for (int64_t i = 0; i < n_ * kp_; ++i) share_[i] = 0.0;
        if (ask_.entropy != nullptr) {
            for (int64_t j = 0; j < k_ * kp_; ++j) count_[j] = 0.0;
        }
        double* const h = row_;
        for (int64_t i = n_ - 1; i >= 0; --i) {
            if (!ticker->go_on()) return false;
            double* const b = after_ + i * kp_;
            const int64_t most = longest_ < n_ - i ? longest_ : n_ - i;
            for (int64_t d = 1; d <= most; ++d)
                factor_[d - 1] = apart_[d - 1] + weight_top_[i * longest_ + d - 1];
            const double found_most = compare(most);
            if (!(found_most > -INFINITY)) {
                if (i == 0) return refuse();
                clear(b);
                after_log_[i].power = -INFINITY;
                pass(after_log_ + i, &base);
                write_nothing(i, 0);
                continue;
            }
            const FactorLog before = base->times(found_most);
            const double apart = share_of_all(entry_log_[i], before);
            if (apart > kMostApart) return refuse();
            meet(i, most, apart > -700.0 ? std::exp(apart) : 0.0, h);
            if (i == 0) return true;
            const double found = largest(h);
            if (!(found > vs::higher::kLeast)) return refuse();
            FactorLog own = before;
            own.power += settle(h, found);
            const double edges = share_of_all(ended_log_[i], own) + p_.shift;
            const bool some = ended_log_[i].any() && edges > -700.0;
            if (some && edges > 2.0 * kMostApart) return refuse();
            if (some && expected != nullptr) count(i, std::exp(edges), h, expected);
            if (some && ask_.entropy != nullptr) count(i, std::exp(edges), h, count_);
            product<PairSums>(h, p_.down, b);
            const double next = largest(b);
            if (!(next > vs::higher::kLeast)) return refuse();
            after_log_[i] = own.times(p_.shift, settle(b, next));
            pass(after_log_ + i, &base);
        }
        return true;
    }

    // apart_: the last rows' factors relative to *base, that of the last which is not empty.
    // Another row follows.
    void pass(const FactorLog* row, const FactorLog** base) const {
        const double more = row->any() ? *row - **base : 0.0;
        for (int64_t d = longest_; d-- > 1;) apart_[d] = apart_[d - 1] - more;
        apart_[0] = row->any() ? 0.0 : -INFINITY;
        if (row->any()) *base = row;
    }
    // The logarithm of the share that the product of two rows with these factors has.
    double share_of_all(const FactorLog& a, const FactorLog& b) const {
        const FactorLog& all = ended_log_[n_];
        double rest = a.rest.value, lost = a.rest.rest + b.rest.rest - all.rest.rest;
        vs::add_to(rest, lost, b.rest.value);
        return kLn2 * (a.power + b.power - all.power) +
               (((rest - all.rest.value) + lost) - end_mass_);
    }
    // h_i, and the shares of the segments from i, factor g_i[k] w[i, d, k] b_i+d[k].
    void meet(int64_t i, int64_t most, double factor, double* h) {
        const V scale = V::set1(factor);
        double* const joint =
            ask_.joint != nullptr ? ask_.joint + (first_ + i) * m_.longest * k_ : nullptr;
        V score = V::set1(0.0), begun = score;
        for (int64_t k = 0; k < kp_; k += V::N) {
            const V before = V::load(entry_ + i * kp_ + k) * scale;
            V sum = V::set1(0.0), covered = sum;
            for (int64_t d = most; d >= 1; --d) {
                const V own = V::set1(factor_[d - 1]) * V::load(weight(i, d) + k);
                const V after = own * V::load(after_ + (i + d) * kp_ + k);
                const V share = before * after;
                sum = sum + after;
                covered = covered + share;  // by segments from i that reach so far
                double* const p = share_ + (i + d - 1) * kp_ + k;
                (V::load(p) + covered).store(p);
                if (joint != nullptr && k < k_) {
                    double* const out = joint + (d - 1) * k_ + k;
                    const V at_most_one = V::min(share, V::set1(1.0));
                    if (k + V::N <= k_) {
                        at_most_one.store(out);
                    } else {
                        at_most_one.store_part(out, static_cast<int>(k_ - k));
                    }
                }
                if (ask_.entropy == nullptr) continue;
                // What factors grow by along a cut is known of all of it: what is left is small.
                const V known = V::set1(ended_log_[i + d] - entry_log_[i]);
                const V rest = V::load(score_ + (i * longest_ + d - 1) * kp_ + k) - known;
                score = score + V::where_positive(share, share, share * rest);
            }
            sum.store(h + k);
            begun = begun + covered;
        }
        scored_.add(score.hsum());
        if (i > 0 && entry_log_[i].any())
            scored_.add(begun.hsum() * ((ended_log_[i] - entry_log_[i]) + p_.shift));
        write_nothing(i, most);
    }
    // No segment from i has more than `most` positions.
    void write_nothing(int64_t i, int64_t most) const {
        if (ask_.joint == nullptr) return;
        double* const out = ask_.joint + (first_ + i) * m_.longest * k_;
        for (int64_t j = most * k_; j < m_.longest * k_; ++j) out[j] = 0.0;
    }

    // out[j][k] += factor a_i[j] h_i[k], which W[j, k] multiplies in the end.
    void count(int64_t i, double factor, const double* h, double* out) const {
        for (int64_t j = 0; j < k_; ++j, out += kp_) {
            const V own = V::set1(ended_[i * kp_ + j] * factor);
            for (int64_t k = 0; k < kp_; k += V::N)
                V::fma(own, V::load(h + k), V::load(out + k)).store(out + k);
        }
    }

    // The expected score less what factors grow by in all.
    double expected_rest() const {
        double sum = scored_.total();
        for (int64_t k = 0; k < k_; ++k) {
            const double begin = share_[k], end = share_[(n_ - 1) * kp_ + k];
            if (begin > 0.0) sum += begin * (m_.start[k] - entry_log_[0].total());
            if (end > 0.0) sum += end * m_.end[k];
        }
        for (int64_t j = 0; j < k_; ++j) {
            for (int64_t k = 0; k < k_; ++k) {
                const double p = count_[j * kp_ + k] * p_.up[j * kp_ + k];
                if (p > 0.0) sum += p * (m_.transition[j * k_ + k] - p_.shift);
            }
        }
        return sum;
    }
};

}  // namespace VS_NS
