// A sequence: messages forward, then backward, which meet those in marginals and a proof.
//
//   a_t = psi_t (a_{t-1} W), b_{t-1} = W (psi_t b_t), p_t in proportion to a_t b_t
//   m = q / sum q, q = a.l b.l, G = a.g + b.g, U = sum ((a.l + a.e) (b.l + b.e) - q) / sum q
//   |p - m| <= m (1 - m) (e^G - 1) + U e^G
#pragma once

#include "core/sum.h"
#include "core/ticker.h"
#include "rows/rows.h"
#include "supports/message.h"

namespace VS_NS {

using vs::supports::Answer;
using vs::supports::Problem;

// exp(scores - shift) of padded rows, held at kBottom from below; -inf: 0.
VS_INLINE void exp_row(const double* scores, double shift, int64_t n, float* out) {
    using V = Vec<double>;
    for (int64_t k = 0; k < n; k += Vec<float>::N) {
        V x[kParts];
        for (int j = 0; j < kParts; ++j) x[j] = V::load(scores + k + j * V::N);
        exp_narrow<false>(x, V::set1(shift), V::set1(vs::supports::kBottomLog)).store(out + k);
    }
}

class Sequence {
    using V = Vec<float>;

  public:
    Sequence(const Problem& p, const Table& t, const Answer& a, int64_t sequence, Space& space,
             vs::Control* control, bool caller)
        : p_(p),
          t_(t),
          a_(a),
          number_(sequence),
          first_(p.offset[sequence]),
          n_(p.offset[sequence + 1] - first_),
          ticker_(control, caller, 8 * t.k),
          message_(t.kp, space),
          forward_(t, false),
          backward_(t, true),
          rows_(space.rows.get() + 4 * t.kp),
          scores_(space.sums.get() + 2 * t.kp + 8),
          g_(scores_ + t.kp),
          total_(g_ + n_),
          factor_(total_ + n_),
          widened_(factor_ + n_),
          list_(space.numbers.get() + 2 * t.kp + 8) {
        for (int64_t k = 0; k < t.kp; ++k) scores_[k] = -INFINITY;
    }

    void run() {
        if (n_ == 0) return;
        bool fine = attempt(1.0);
        if (!fine && !over_) {
            ++repairs_;
            fine = attempt(0.2);
        }
        a_.taken[number_] = fine ? 1 : 0;
        a_.counts[3 * number_] = read_rows_;
        a_.counts[3 * number_ + 1] = read_columns_;
        a_.counts[3 * number_ + 2] = repairs_;
    }

  private:
    // Where the proof begins to count: shares of what is left, of the tolerance.
    static constexpr double kSpare = 0.1;
    // Costs, in rows: of a column, of a look at what is left, of a message besides.
    static constexpr double kColumn = 1.4, kLook = 8.0, kOther = 12.0;
    // How often something is repaired, and how many labels at a time.
    static constexpr int kAgain = 3;
    static constexpr int64_t kMost = 32;

    const Problem& p_;
    const Table& t_;
    const Answer& a_;
    int64_t number_, first_, n_;
    Ticker ticker_;
    Message message_;
    Side forward_, backward_;
    float* rows_;     // psi, a.l, a.e of each position; b.l, b.e, x.l, x.e twice, q
    double* scores_;  // of a position
    double *g_, *total_, *factor_, *widened_;  // of each position, and of the message to it
    int32_t* list_;
    double spent_ = 0.0, lost_ = 0.0;
    vs::Sum logs_;                 // of all that rows were divided by
    double ends_[2] = {0.0, 0.0};  // what adding scores of the ends rounds, of log-odds
    int64_t read_rows_ = 0, read_columns_ = 0, repairs_ = 0, sent_ = 0;
    bool over_ = false;         // it does not pay, or cannot be done
    Enclosure b_, x_, before_;  // of the position under way, and x of the one before it
    Message::Sent sent_back_{1.0, 1.0};
    float* q_ = nullptr;
    double mass_ = 0.0;

    float* row(int64_t i) { return rows_ + i * t_.kp; }
    float* psi(int64_t i) { return row(3 * i); }
    Message::Sent sent_to(int64_t i) const { return {factor_[i], widened_[i]}; }
    Enclosure a(int64_t i) { return {row(3 * i + 1), row(3 * i + 2), g_[i], total_[i]}; }

    // exp(scores - their largest) of a position, held at kBottom from below. False: all forbidden.
    bool local(int64_t i) {
        if (p_.single) {
            compose<float>(i);
        } else {
            compose<double>(i);
        }
        using W = Vec<double>;
        W top = W::load(scores_);
        for (int64_t k = W::N; k < t_.kp; k += W::N) top = W::max(top, W::load(scores_ + k));
        const double most = top.hmax();
        if (!(most > -INFINITY)) return false;
        logs_.add(most);
        // One sum in float64: what is kept lies within -kBottomLog of the largest.
        const double rounded = (std::fabs(most) - vs::supports::kBottomLog) * 0x1p-52;
        if (i == 0) ends_[0] = p_.start != nullptr ? rounded : 0.0;
        if (i == n_ - 1) ends_[1] = p_.end != nullptr ? rounded : 0.0;
        exp_row(scores_, most, t_.kp, psi(i));
        return true;
    }

    template <class In>
    void compose(int64_t i) {
        const int64_t k = t_.k, at_row = (first_ + i) * k;
        const In* x = static_cast<const In*>(p_.unary) + at_row;
        for (int64_t j = 0; j < k; ++j) scores_[j] = static_cast<double>(x[j]);
        if (i == 0 && p_.start) add(static_cast<const In*>(p_.start));
        if (i == n_ - 1 && p_.end) add(static_cast<const In*>(p_.end));
        if (p_.allowed == nullptr) return;
        for (int64_t j = 0; j < k; ++j) {
            if (p_.allowed[at_row + j] == 0) scores_[j] = -INFINITY;
        }
    }
    template <class In>
    void add(const In* more) {
        for (int64_t j = 0; j < t_.k; ++j) scores_[j] += static_cast<double>(more[j]);
    }

    // True: proved within the tolerance. `tightness` is of what a message may leave out.
    bool attempt(double tightness) {
        lost_ = 0.0;
        logs_ = vs::Sum();
        if (!go_forward(tightness)) return false;
        return go_backward(tightness);
    }

    bool send(const Side& s, const Enclosure& x, const float* w, const float* v, double tightness) {
        const double spare = kSpare * tightness * p_.tol;
        const double first = least_of(1e-2, most_of(p_.tol * tightness, 1e-4));
        message_.send(s, x, w, v, spare, first, 1e-6, most());
        const Step& step = message_.step;
        spent_ += static_cast<double>(step.rows) + kColumn * static_cast<double>(step.columns) +
                  kLook * static_cast<double>(step.looks) + kOther;
        ++sent_;
        over_ = over_ || !step.ok || spent_ > limit();
        read_rows_ += step.rows;
        read_columns_ += step.columns;
        return !over_;
    }
    // It does not pay beyond the price of the other route; a few messages may cost more.
    double limit() const {
        const double sent = static_cast<double>(sent_), all = 2.0 * static_cast<double>(n_);
        return p_.price[number_] * (sent + 0.03 * all + 1.0);
    }
    double most() const { return most_of(0.0, limit() + p_.price[number_] - spent_); }

    bool go_forward(double tightness) {
        const double rounding = 16.0 * 0x1p-24;
        for (int64_t i = 0; i < n_; ++i) {
            if (!local(i) || !ticker_.go_on()) return give_up();
            Enclosure out = a(i);
            if (i == 0) {
                begin(&out);
                out.g = rounding;
            } else {
                if (!send(forward_, a(i - 1), psi(i), nullptr, tightness)) return false;
                for (int again = 0; again < kAgain && wide(tightness) && i > 1; ++again) {
                    Enclosure before = a(i - 1);
                    const int64_t count = widest(before.e);
                    if (count == 0) break;
                    Message::reread(forward_, a(i - 2), sent_to(i - 1), psi(i - 1), list_, count,
                                    &before);
                    total_[i - 1] = before.total;
                    repaired(count);
                    if (!send(forward_, before, psi(i), nullptr, tightness)) return false;
                }
                factor_[i] = message_.sent().factor;
                widened_[i] = message_.sent().widened;
                message_.finish(forward_, psi(i), &out);
                logs_.add(message_.step.scale);
                logs_.add(t_.shift);
                lost_ += message_.step.lost;
            }
            const double given = (i == 0 ? ends_[0] : 0.0) + (i == n_ - 1 ? ends_[1] : 0.0);
            out.g += given;
            lost_ += given;
            g_[i] = out.g;
            total_[i] = out.total;
        }
        return true;
    }
    bool give_up() {
        over_ = true;
        return false;
    }

    void begin(Enclosure* out) {
        const V bottom = V::set1(kBottom);
        V total = V::set1(0.0f);
        for (int64_t k = 0; k < t_.kp; k += V::N) {
            const V w = V::load(psi(0) + k), kept = V::where_ge(w, bottom, w);
            kept.store(out->l + k);
            (w - kept).store(out->e + k);
            total = total + w;
        }
        out->total = static_cast<double>(total.hsum());
    }

    // Has the message lost more than its share of the tolerance?
    bool wide(double tightness) const {
        return message_.step.lost > 0.3 * tightness * p_.tol + 4.0 * sum_error(t_.kp);
    }
    // Lists the labels with most slack.
    int64_t widest(const float* e) {
        V top = V::set1(0.0f);
        for (int64_t k = 0; k < t_.kp; k += V::N) top = V::max(top, V::load(e + k));
        const float most = top.hmax();
        return most > 0.0f ? some_of(e, 0.1f * most) : 0;
    }
    int64_t some_of(const float* x, float least) {
        const int64_t count = listed(x, t_.kp, least, INFINITY, list_);
        return count < kMost ? count : kMost;
    }
    void repaired(int64_t columns) {
        ++repairs_;
        read_columns_ += columns;
        spent_ += kColumn * static_cast<double>(columns) + kLook;
    }

    bool go_backward(double tightness) {
        float* const own = row(3 * n_);
        b_ = {own, own + t_.kp, 0.0, 0.0};
        x_ = {own + 2 * t_.kp, own + 3 * t_.kp, 0.0, 0.0};
        before_ = {own + 4 * t_.kp, own + 5 * t_.kp, 0.0, 0.0};
        q_ = own + 6 * t_.kp;
        for (int64_t k = 0; k < t_.kp; ++k) {
            b_.l[k] = 1.0f;
            b_.e[k] = 0.0f;
        }
        for (int64_t i = n_ - 1;; --i) {
            if (!ticker_.go_on()) return give_up();
            double error = meet(i);
            for (int again = 0; again < kAgain && error > p_.tol && repair(i); ++again) {
                error = meet(i);
            }
            if (!(error <= p_.tol)) return false;
            a_.error[first_ + i] = error;
            write(i, static_cast<float>(1.0 / mass_));
            if (i == 0) break;
            if (!send_back(i, tightness)) return false;
        }
        bound_log_z();
        return true;
    }

    // x_i becomes the message to b_{i-1}.
    bool send_back(int64_t i, double tightness) {
        const Enclosure next = a(i - 1);
        if (!send(backward_, x_, next.l, next.e, tightness)) return false;
        for (int again = 0; again < kAgain && wide(tightness) && i < n_ - 1; ++again) {
            const int64_t count = widest(x_.e);
            if (count == 0) break;
            reread_back(i, count);
            repaired(count);
            if (!send(backward_, x_, next.l, next.e, tightness)) return false;
        }
        message_.finish(backward_, nullptr, &b_);
        sent_back_ = message_.sent();
        const Enclosure old = before_;
        before_ = x_;
        x_.l = old.l;
        x_.e = old.e;
        return true;
    }

    // Reads columns of b_i again, for the labels that are listed.
    void reread_back(int64_t i, int64_t count) {
        Message::reread(backward_, before_, sent_back_, nullptr, list_, count, &b_);
        const float* w = psi(i);
        for (int64_t j = 0; j < count; ++j) {
            const int32_t k = list_[j];
            const float low = b_.l[k] * w[k], kept = w[k] >= kBottom ? low : 0.0f;
            const float rest = b_.e[k] * w[k] + (low - kept);
            x_.total += (static_cast<double>(kept) - static_cast<double>(x_.l[k])) +
                        (static_cast<double>(rest) - static_cast<double>(x_.e[k]));
            x_.l[k] = kept;
            x_.e[k] = rest;
        }
    }

    // Reads the columns of labels that leave most slack at a position. False: it has none.
    bool repair(int64_t i) {
        Enclosure f = a(i);
        V top = V::set1(0.0f);
        for (int64_t k = 0; k < t_.kp; k += V::N) {
            const V slack = V::fma(V::load(f.e + k), V::load(b_.l + k) + V::load(b_.e + k),
                                   V::load(f.l + k) * V::load(b_.e + k));
            slack.store(q_ + k);
            top = V::max(top, slack);
        }
        const double most = static_cast<double>(top.hmax());
        if (!(most > 0.01 * p_.tol * mass_) || spent_ > limit()) return false;
        const int64_t count = some_of(q_, static_cast<float>(0.1 * most));
        if (i > 0) {
            Message::reread(forward_, a(i - 1), sent_to(i), psi(i), list_, count, &f);
            total_[i] = f.total;
        }
        if (i < n_ - 1) reread_back(i, count);
        repaired(2 * count);
        return true;
    }

    // q = a b, x = psi b, and the error that is proved of their marginals.
    double meet(int64_t i) {
        const Enclosure f = a(i);
        const float* w = psi(i);
        const V bottom = V::set1(kBottom);
        V sum = V::set1(0.0f), slack = sum, top = sum, total = sum;
        for (int64_t k = 0; k < t_.kp; k += V::N) {
            const V al = V::load(f.l + k), ae = V::load(f.e + k);
            const V bl = V::load(b_.l + k), be = V::load(b_.e + k), p = V::load(w + k);
            const V product = al * bl;
            product.store(q_ + k);
            sum = sum + product;
            top = V::max(top, product);
            slack = slack + V::fma(ae, bl + be, al * be);
            const V low = bl * p, kept = V::where_ge(p, bottom, low);
            const V rest = V::fma(be, p, low - kept);
            kept.store(x_.l + k);
            rest.store(x_.e + k);
            total = total + (kept + rest);
        }
        x_.g = b_.g + 8.0 * 0x1p-24 + (i == n_ - 1 ? ends_[1] : 0.0);
        x_.total = static_cast<double>(total.hsum());
        mass_ = static_cast<double>(sum.hsum());
        if (!(mass_ > 1e-25)) return INFINITY;
        const double wide = 1.0 + 2.0 * sum_error(t_.kp);
        const double u = (static_cast<double>(slack.hsum()) / mass_ + 1e-12) * wide;
        const double radius = least_of(f.g + x_.g, 600.0);
        const double share = static_cast<double>(top.hmax()) / mass_;
        const double spread = share * most_of(0.0, 1.0 - share) + 2.0 * sum_error(t_.kp);
        a_.radius[first_ + i] = radius + 4.0 * sum_error(t_.kp);
        a_.slack[first_ + i] = u;
        return spread * std::expm1(radius) + u * std::exp(radius) + 3.0 * sum_error(t_.kp);
    }

    void write(int64_t i, float factor) {
        const int k = static_cast<int>(t_.k);
        const int64_t at_row = (first_ + i) * t_.k;
        if (p_.single)
            return row_scale_out(q_, k, factor, static_cast<float*>(a_.marginals) + at_row);
        row_widen_out(q_, k, factor, static_cast<double*>(a_.marginals) + at_row);
    }

    // sum a_n = s sum (a.l + part of a.e), and |log s| + a.g / 2 is at most half of what was lost.
    void bound_log_z() {
        const Enclosure last = a(n_ - 1);
        double low = 0.0, high = 0.0;
        for (int64_t k = 0; k < t_.k; ++k) {
            low += static_cast<double>(last.l[k]);
            high += static_cast<double>(last.l[k]) + static_cast<double>(last.e[k]);
        }
        const double given = logs_.total();
        const double off = lost_ / 2.0 + 16.0 * 0x1p-24;
        a_.lower[number_] = given + std::log(low) - off;
        a_.upper[number_] = given + std::log(high) + off;
    }
};

}  // namespace VS_NS
