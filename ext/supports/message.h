// One message, x -> y = x W, of which a few rows and columns of W are read:
//
//   columns C, all rows:  l' = sum x.l W, e' = sum x.e W, then both folded into sqrt(l' (l' + e'))
//   others:               l' = sum over rows S of x.l W, e' from norms of what is left
//   gamma = max over C of log((l' + e') / l')
//   delta = 1 - sum over i of min over C of x.l(i) W(i, k) / (l' + e')(k)
//   g' = log(1 + delta (e^g - 1)) + gamma + what rounding adds
//
// and outside of C [l', l' + e'] is widened by the part of the radius that C lost.
#pragma once

#include <cmath>

#include "simd/each.h"
#include "simd/math.h"
#include "supports/supports.h"

namespace VS_NS {

using vs::supports::kBottom;
using vs::supports::Norms;
using vs::supports::Space;
using vs::supports::Step;
using vs::supports::Table;
using vs::supports::Trial;

// Entries below the first count as slack; slack is at least the second, unless it is 0: products
// of two such numbers and of kBottom are normal floats.
constexpr float kLeast = 1e-18f, kLeastSlack = 1e-19f;

// The side of a table that one direction reads.
struct Side {
    const float *rows, *columns;
    Norms n;
    int64_t k, kp;
    double norms, delta;
    Side(const Table& t, bool backward)
        : rows(backward ? t.columns.data() : t.rows.data()),
          columns(backward ? t.rows.data() : t.columns.data()),
          n(backward ? t.backward.norms() : t.forward.norms()),
          k(t.k),
          kp(t.kp),
          norms(t.norms),
          delta(t.delta) {}
};

// Rows (kp,) that enclose something, and the sum of l + e, about.
struct Enclosure {
    float *l = nullptr, *e = nullptr;
    double g = 0.0, total = 0.0;
};

VS_INLINE double least_of(double a, double b) { return a < b ? a : b; }
VS_INLINE double most_of(double a, double b) { return a > b ? a : b; }
VS_INLINE float most_of(float a, float b) { return a > b ? a : b; }

// Rounding of a sum of floats, K / N to a lane, relative.
inline double sum_error(int64_t kp) {
    return (static_cast<double>(kp) / Vec<float>::N + 24.0) * 0x1p-24;
}

// Adds the numbers of lanes to a list: bits of `lanes`, from k on.
VS_INLINE void push(unsigned lanes, int64_t k, int32_t* list, int64_t* count) {
    while (lanes != 0) {
        list[(*count)++] = static_cast<int32_t>(k) + vs_first_bit(lanes);
        lanes &= lanes - 1;
    }
}

// Lists the entries in [least, below), and returns how many.
inline int64_t listed(const float* x, int64_t kp, float least, float below, int32_t* list) {
    using V = Vec<float>;
    int64_t count = 0;
    const V low = V::set1(least), high = V::set1(below);
    for (int64_t k = 0; k < kp; k += V::N) {
        const V v = V::load(x + k);
        push(v.ge(low) & ~v.ge(high), k, list, &count);
    }
    return count;
}

class Message {
  public:
    using V = Vec<float>;
    Step step;

    // In the first four rows of `space`.
    Message(int64_t kp, Space& space)
        : row_(space.numbers.get()),
          column_(row_ + kp + 4),
          low_(space.sums.get()),
          high_(low_ + kp + 4),
          sum_(space.rows.get()),
          l_(sum_ + kp),
          e_(l_ + kp),
          share_(e_ + kp) {}

    // Sends a message. Rows are read whose share of x is at least `first`, and more if what is left
    // has a share above `spare` of y weight, down to `least`; columns of shares of y weight. It
    // fails beyond `most` rows and columns. weight(k) = a(k) + b(k); b null: a(k).
    void send(const Side& s, const Enclosure& x, const float* a, const float* b, double spare,
              double first, double least, double most) {
        step = Step();
        rows_ = columns_ = 0;
        const double scale = 1.0 / x.total;
        if (!(scale > 0.0 && scale < 1e30)) return;
        float below = INFINITY;
        double weighted = 0.0;
        for (double threshold = first;; threshold *= kDeeper) {
            const float limit = most_of(static_cast<float>(threshold * x.total), 1e-37f);
            const int64_t more = listed(x.l, s.kp, limit, below, row_ + rows_);
            if (static_cast<double>(rows_ + more) > most) return;
            add_rows(s, x.l, static_cast<float>(scale), more);
            step.rows = rows_;
            below = limit;
            weighted = bound_rest(s, x, limit, scale, a, b);
            ++step.looks;
            if (!(weighted > 0.0 && weighted < 1e30)) return;
            const double left = choose_columns(s, a, b, threshold * weighted);
            if (left <= spare * weighted || threshold <= least) break;
        }
        if (static_cast<double>(rows_ + columns_) > most) return;
        step.columns = columns_;
        read_columns(s, x, scale);
        const double largest = b != nullptr ? static_cast<double>(most_) : weighted;
        factor_ = std::ldexp(1.0, -std::ilogb(largest) - 1);
        contract(s, x, scale);
    }

    // y weight, or y where `weight` is null, as an enclosure whose sum, or largest entry, is about
    // one. `step.scale` is the logarithm of the factor that it wants.
    void finish(const Side& s, const float* weight, Enclosure* out) const {
        const V inner = V::set1(static_cast<float>(factor_ / widened_));
        const V outer = V::set1(static_cast<float>(factor_ * widened_));
        const V more = V::set1(static_cast<float>(factor_ * (widened_ - 1.0 / widened_)));
        const V bottom = V::set1(kBottom), least = V::set1(kLeast);
        const V slack = V::set1(kLeastSlack), one = V::set1(1.0f);
        V total = V::set1(0.0f);
        for (int64_t k = 0; k < s.kp; k += V::N) {
            const V w = weight != nullptr ? V::load(weight + k) : one;
            const V y = V::load(l_ + k);
            const V low = y * inner * w;
            const V kept = V::where_ge(w, bottom, V::where_ge(low, least, low));
            const V rest = V::fma(V::fma(V::load(e_ + k), outer, y * more), w, low - kept);
            const V high = V::where_positive(w, one, V::max(rest, slack));
            kept.store(out->l + k);
            high.store(out->e + k);
            total = total + (kept + high);
        }
        out->g = step.radius;
        out->total = static_cast<double>(total.hsum());
        for (int64_t j = 0; j < columns_; ++j) {
            const int32_t k = column_[j];
            const double w = weight != nullptr ? static_cast<double>(weight[k]) : 1.0;
            const float x = static_cast<float>(std::sqrt(low_[j] * high_[j]) * factor_ * w);
            out->total -= static_cast<double>(out->l[k]) + static_cast<double>(out->e[k]);
            const bool exact = w >= static_cast<double>(kBottom) && x >= kLeast;
            out->l[k] = exact ? x : 0.0f;
            out->e[k] = exact || !(w > 0.0)
                            ? 0.0f
                            : most_of(kLeastSlack, static_cast<float>(high_[j] * factor_ * w));
            out->total += static_cast<double>(out->l[k]) + static_cast<double>(out->e[k]);
        }
    }

    // The factor of a message, and how much its radius lost: it can be read again.
    struct Sent {
        double factor, widened;
    };
    Sent sent() const { return {factor_, widened_}; }

    // Narrows some labels of y weight: their columns are read now.
    static void reread(const Side& s, const Enclosure& x, Sent sent, const float* weight,
                       const int32_t* list, int64_t count, Enclosure* y) {
        const double factor = sent.factor / x.total;
        each_column(s, x, list, count, [&](int64_t j, double low, double more) {
            const int32_t k = list[j];
            const double w = factor * (weight != nullptr ? static_cast<double>(weight[k]) : 1.0);
            const bool bottom = weight != nullptr && !(weight[k] >= kBottom);
            const float found = static_cast<float>(low * w / sent.widened);
            const float kept = !bottom && found >= kLeast ? found : 0.0f;
            const double apart = low * (sent.widened - 1.0 / sent.widened) + more * sent.widened;
            const float rest = static_cast<float>(apart * w) + (found - kept);
            const float slack = rest > kLeastSlack || !(w > 0.0) ? rest : kLeastSlack;
            if (!(slack < y->e[k])) return;
            y->total += (static_cast<double>(kept) - static_cast<double>(y->l[k])) +
                        (static_cast<double>(slack) - static_cast<double>(y->e[k]));
            y->l[k] = kept;
            y->e[k] = slack;
        });
    }

  private:
    static constexpr double kDeeper = 0.3, kLargestRadius = 30.0;
    static constexpr int64_t kShared = 24, kSharedEntries = 640;

    int32_t *row_, *column_;
    double *low_, *high_;            // of the columns that are read: l' and l' + e'
    float *sum_, *l_, *e_, *share_;  // sums over rows; l', e' and (l' + e') weight of the others
    int64_t rows_ = 0, columns_ = 0;
    double widened_ = 1.0, factor_ = 1.0;
    float most_ = 0.0f;

    // Adds x(i) W(i, .) of the rows that follow in the list, four at a time.
    void add_rows(const Side& s, const float* x, float scale, int64_t more) {
        if (rows_ == 0 && more == 0)
            for (int64_t k = 0; k < s.kp; ++k) sum_[k] = 0.0f;
        const int64_t last = rows_ + more;
        for (; rows_ + 4 <= last; rows_ += 4) add_some<4>(s, x, scale);
        if (rows_ + 3 == last) add_some<3>(s, x, scale);
        if (rows_ + 2 == last) add_some<2>(s, x, scale);
        if (rows_ + 1 == last) add_some<1>(s, x, scale);
        rows_ = last;
    }
    template <int M>
    void add_some(const Side& s, const float* x, float scale) {
        const float* w[M];
        V c[M];
        each<M>([&](auto j) VS_INLINE_LAMBDA {
            const int32_t i = row_[rows_ + j];
            w[j] = s.rows + i * s.kp;
            c[j] = V::set1(x[i] * scale);
        });
        const bool fresh = rows_ == 0;
        for (int64_t k = 0; k < s.kp; k += V::N) {
            V y = fresh ? V::set1(0.0f) : V::load(sum_ + k);
            each<M>([&](auto j) VS_INLINE_LAMBDA { y = V::fma(c[j], V::load(w[j] + k), y); });
            y.store(sum_ + k);
        }
    }

    // Sets l', e', and `share`, whose sum it returns. The part that is in no
    // row that was read, v = e + [l < limit] l, has
    //   r.v c - below <= v W <= r.v c + above,   above <= the least of |v|_p |column|_q.
    double bound_rest(const Side& s, const Enclosure& x, float limit, double scale, const float* a,
                      const float* b) {
        const V lim = V::set1(limit), factor = V::set1(static_cast<float>(scale));
        const V floor = V::set1(kLeast);
        V rl = V::set1(0.0f), ru = rl, squares = rl, weighted = rl, top = rl;
        for (int64_t i = 0; i < s.kp; i += V::N) {
            const V xl = V::load(x.l + i);
            const V vl = (xl - V::where_ge(xl, lim, xl)) * factor;
            const V vu = V::max(V::fma(V::load(x.e + i), factor, vl), floor);
            const V r = V::load(s.n.r + i);
            rl = V::fma(r, V::where_ge(vl, floor, vl), rl);
            ru = V::fma(r, vu, ru);
            squares = V::fma(vu, vu, squares);
            const V w = V::max(vu * V::load(s.n.size + i), floor);
            weighted = V::fma(w, w, weighted);
            top = V::max(top, vu);
        }
        const double wide = 1.0 + sum_error(s.kp), norms = wide * s.norms;
        const float low = static_cast<float>(static_cast<double>(rl.hsum()) / (wide * wide));
        const float more = static_cast<float>(static_cast<double>(ru.hsum()) * wide * wide) - low;
        const V two = V::set1(static_cast<float>(std::sqrt(squares.hsum()) * norms));
        const V max = V::set1(static_cast<float>(top.hmax() * norms));
        const V own = V::set1(static_cast<float>(std::sqrt(weighted.hsum()) * norms));
        const V vlow = V::set1(low), vmore = V::set1(more > 0.0f ? more * 1.000001f : 0.0f);
        V sum = V::set1(0.0f), most = sum;
        for (int64_t k = 0; k < s.kp; k += V::N) {
            const V c = V::load(s.n.c + k);
            const V part = c * vlow;
            const V below =
                V::min(two * V::load(s.n.below_two + k), max * V::load(s.n.below_sum + k));
            const V over =
                V::min(V::min(two * V::load(s.n.above_two + k), max * V::load(s.n.above_sum + k)),
                       own * V::load(s.n.above_weighted + k));
            const V rest = V::max(part - below, V::set1(0.0f));
            const V y = V::load(sum_ + k) + rest;
            const V slack = V::fma(c, vmore, V::min(part, below) + over);
            y.store(l_ + k);
            slack.store(e_ + k);
            const V high = y + slack;
            most = V::max(most, high);
            V weight = V::load(a + k);
            if (b != nullptr) weight = weight + V::load(b + k);
            const V here = high * weight;
            here.store(share_ + k);
            sum = sum + here;
        }
        most_ = most.hmax();
        return static_cast<double>(sum.hsum());
    }

    // Lists the columns with a share >= `least`, and returns the slack of the others.
    double choose_columns(const Side& s, const float* a, const float* b, double least) {
        // Above 0, which is what pads have.
        const V lim = V::set1(most_of(static_cast<float>(least), 1e-37f));
        V left = V::set1(0.0f);
        columns_ = 0;
        for (int64_t k = 0; k < s.kp; k += V::N) {
            V weight = V::load(a + k);
            if (b != nullptr) weight = weight + V::load(b + k);
            const V x = V::load(e_ + k) * weight, share = V::load(share_ + k);
            left = left + (x - V::where_ge(share, lim, x));
            push(share.ge(lim), k, column_, &columns_);
        }
        return static_cast<double>(left.hsum());
    }

    // f(j, sum of x.l, sum of x.e) for each column of a list, over all rows, four at a time.
    template <class F>
    static VS_INLINE void each_column(const Side& s, const Enclosure& x, const int32_t* list,
                                      int64_t count, F f) {
        int64_t first = 0;
        for (; first + 4 <= count; first += 4) some_columns<4>(s, x, list, first, f);
        if (first + 3 == count) some_columns<3>(s, x, list, first, f);
        if (first + 2 == count) some_columns<2>(s, x, list, first, f);
        if (first + 1 == count) some_columns<1>(s, x, list, first, f);
    }
    template <int M, class F>
    static VS_INLINE void some_columns(const Side& s, const Enclosure& x, const int32_t* list,
                                       int64_t first, F f) {
        const float* w[M];
        V low[M], more[M];
        each<M>([&](auto j) VS_INLINE_LAMBDA {
            w[j] = s.columns + list[first + j] * s.kp;
            low[j] = more[j] = V::set1(0.0f);
        });
        for (int64_t i = 0; i < s.kp; i += V::N) {
            const V xl = V::load(x.l + i), xe = V::load(x.e + i);
            each<M>([&](auto j) VS_INLINE_LAMBDA {
                const V v = V::load(w[j] + i);
                low[j] = V::fma(xl, v, low[j]);
                more[j] = V::fma(xe, v, more[j]);
            });
        }
        // Products may underflow: a sum that it is felt in is slack.
        const double under = static_cast<double>(s.kp) * 0x1p-149;
        each<M>([&](auto j) VS_INLINE_LAMBDA {
            const double sum = static_cast<double>(low[j].hsum());
            const double rest = static_cast<double>(more[j].hsum()) + under;
            const bool fine = sum >= under * 0x1p26;
            f(first + j, fine ? sum : 0.0, fine ? rest : rest + sum);
        });
    }

    void read_columns(const Side& s, const Enclosure& x, double scale) {
        each_column(s, x, column_, columns_, [&](int64_t j, double low, double more) {
            low_[j] = low * scale;
            high_[j] = (low + more) * scale;
        });
    }

    // The radius of what was sent; see above.
    void contract(const Side& s, const Enclosure& x, double scale) {
        int64_t kept = 0;
        double gamma = 0.0;
        for (int64_t j = 0; j < columns_; ++j) {
            const double low = low_[j], high = high_[j];
            if (!(low * factor_ >= 4.0 * static_cast<double>(kLeast))) continue;
            gamma = most_of(gamma, std::log1p((high - low) / low));
            column_[kept] = column_[j];
            low_[kept] = low;
            high_[kept++] = high;
        }
        columns_ = kept;
        if (kept == 0 || !(x.g < kLargestRadius)) return;
        const double rounding =
            most_of(sum_error(s.kp), (static_cast<double>(rows_) + 40.0) * 0x1p-24);
        const double delta =
            least_of(1.0, 1.0 - shared(s, x, scale) * (1.0 - 4.0 * rounding) + 0x1p-20) * s.delta;
        const double left = std::log1p(delta * std::expm1(x.g));
        widened_ = std::exp(most_of(0.0, x.g - left));
        if (!(factor_ * widened_ < 1e37)) return;  // in floats
        step.lost = gamma + 2.0 * rounding;
        step.radius = left + step.lost;
        step.scale = std::log(x.total) - std::log(factor_);
        step.ok = true;
    }

    // The mass that all columns that are read have in common, of some large rows.
    double shared(const Side& s, const Enclosure& x, double scale) const {
        double common = 0.0;
        int64_t large = 0;
        for (int64_t j = 0; j < rows_; ++j) {
            const int32_t i = row_[j];
            const double mass = static_cast<double>(x.l[i]) * scale;
            if (mass < 0.01) continue;
            if (++large > kShared || large * columns_ > kSharedEntries) break;
            const float* w = s.rows + i * s.kp;
            double least = 1.0;
            for (int64_t c = 0; c < columns_; ++c) {
                least = least_of(least, mass * static_cast<double>(w[column_[c]]) / high_[c]);
            }
            common += least;
        }
        return most_of(0.0, common);
    }
};

inline Step one_message(const Table& t, const Trial& given, Space& space) {
    const Side s(t, given.backward);
    float* const own = space.rows.get() + 4 * t.kp;
    Enclosure x{own, own + t.kp, given.radius, 0.0}, y{given.yl, given.ye, 0.0, 0.0};
    for (int64_t k = 0; k < t.kp; ++k) {
        x.l[k] = given.low[k];
        x.e[k] = given.slack[k];
        x.total += static_cast<double>(x.l[k]) + static_cast<double>(x.e[k]);
    }
    Message m(t.kp, space);
    const double all = 2.0 * static_cast<double>(t.kp);
    m.send(s, x, given.weight, nullptr, 1.0, given.share, given.share, all);
    if (!m.step.ok) return m.step;
    m.finish(s, given.weight, &y);
    Message::reread(s, x, m.sent(), given.weight, given.again, given.n_again, &y);
    return m.step;
}

}  // namespace VS_NS
