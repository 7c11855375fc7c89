// A component: messages upward, from children to parents, then downward, which meet those in
// marginals and a proof. A chain goes up from its first position to its last.
//   a_i = psi_i prod over children c of (a_c W), x_ic = psi_i b_i prod over the others of (a_c W),
//   b_c = W x_ic, p_i in proportion to a_i b_i
//   m = q / sum q, q = a.l b.l, G = a.g + b.g, U = sum ((a.l + a.e) (b.l + b.e) - q) / sum q
//   |p - m| <= m (1 - m) (e^G - 1) + U e^G
#pragma once

#include "core/sum.h"
#include "core/ticker.h"
#include "rows/rows.h"
#include "supports/positions.h"
#include "supports/product.h"
#include "supports/scores.h"

namespace VS_NS {

using vs::supports::Answer;
using vs::supports::Problem;

class Component : private Positions {
    using V = Vec<float>;

  public:
    Component(const Problem& p, const Table& t, const Answer& a, int64_t number, Space& space,
              vs::Control* control, bool caller)
        : Positions(*p.order, number, t.kp, space),
          p_(p),
          t_(t),
          a_(a),
          number_(number),
          ticker_(control, caller, 8 * t.k),
          message_(t.kp, space),
          up_(t, p.order->downward),
          down_(t, !p.order->downward),
          scores_(p, t, space.sums.get() + 2 * t.kp + 8),
          list_(space.numbers.get() + 2 * t.kp + 8),
          children_(list_ + t.kp),
          q_(rest_),
          others_{q_ + t.kp, q_ + 2 * t.kp, 0.0, 0.0} {}

    void run() {
        if (n_ == 0) return;
        bool fine = attempt(1.0);
        if (!fine && !over_ && spent_ < kHalf * limit()) {
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
    // Costs, in rows: of a column, of a look at what is left, of a message besides, of a product.
    static constexpr double kColumn = 1.4, kLook = 8.0, kOther = 12.0, kProduct = 4.0;
    // No second attempt pays for a first that took more than this of the other route.
    static constexpr double kHalf = 0.5;
    // How often something is repaired, and how many labels at a time.
    static constexpr int kAgain = 3;
    static constexpr int64_t kMost = 32;
    // Messages are read again whose slack is at least this much of another's.
    static constexpr float kLoose = 0.2f;
    // Messages begin with smaller shares after one that had to look again, or that lost more than
    // kLoss of the tolerance: by which factors, and down to what.
    static constexpr double kFall = 0.5, kRise = 1.3, kStart = 0.05, kLoss = 1.5;
    // The rounding of exponentials.
    static constexpr double kRounding = 16.0 * 0x1p-24;

    const Problem& p_;
    const Table& t_;
    const Answer& a_;
    int64_t number_;
    Ticker ticker_;
    Message message_;
    Side up_, down_;
    Scores scores_;
    int32_t *list_, *children_;  // labels; children of a position under way
    float* q_;
    Enclosure others_, x_;  // psi b, and what of it was multiplied in; what is to be sent down
    int64_t n_children_ = 0;
    double spent_ = 0.0, lost_ = 0.0, start_ = 1.0;
    vs::Sum logs_;                 // of all that rows were divided by
    double ends_[2] = {0.0, 0.0};  // what adding scores of the ends rounds, of log-odds
    int64_t read_rows_ = 0, read_columns_ = 0, repairs_ = 0, sent_ = 0;
    bool over_ = false;                // it does not pay, or cannot be done
    double mass_ = 0.0, apart_ = 0.0;  // of a position: sum of q, what the radius proves

    // False: all labels of a position are forbidden.
    bool local(int64_t i) {
        const double most = scores_.exponentials(variable(i), i == 0, i == n_ - 1, psi(i));
        if (!(most > -INFINITY)) return false;
        logs_.add(most);
        // One sum: what is kept lies within -kBottomLog of the largest. At both ends there are two.
        const double more = n_ == 1 && p_.start && p_.end ? scores_.largest_end() : 0.0;
        const double rounded = (std::fabs(most) + more - vs::supports::kBottomLog) * 0x1p-52;
        if (i == 0) ends_[0] = p_.start != nullptr ? rounded : 0.0;
        if (i == n_ - 1) ends_[1] = p_.end != nullptr ? rounded : 0.0;
        return true;
    }

    // True: proved within the tolerance. `tightness` is of what a message may leave out.
    bool attempt(double tightness) {
        lost_ = 0.0;
        start_ = 1.0;
        logs_ = vs::Sum();
        return go_up(tightness) && go_down(tightness);
    }

    bool send(const Side& s, const Enclosure& x, const float* w, const float* v, double tightness) {
        const double spare = kSpare * tightness * p_.tol;
        const double first = start_ * least_of(1e-2, most_of(p_.tol * tightness, 1e-4));
        message_.send(s, x, w, v, spare, first, 1e-6, most());
        const Step& step = message_.step;
        spent_ += static_cast<double>(step.rows) + kColumn * static_cast<double>(step.columns) +
                  kLook * static_cast<double>(step.looks) + kOther;
        ++sent_;
        start_ = step.looks > 1 || wide(tightness) ? most_of(kStart, kFall * start_)
                                                   : least_of(1.0, kRise * start_);
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
    double most() const {
        const double paid = limit() + p_.price[number_] - spent_;
        return most_of(0.0, p_.budget ? least_of(paid, 0.5 * static_cast<double>(left())) : paid);
    }
    int64_t left() const { return p_.budget[number_] - read_rows_ - 2 * read_columns_; }

    bool go_up(double tightness) {
        for (int64_t i = 0; i < n_; ++i) {
            if (!local(i) || !ticker_.go_on()) return give_up();
            Enclosure out = a(i);
            if (lone(i)) {
                if (!pull(i - 1, psi(i), nullptr, tightness)) return false;
                message_.finish(up_, psi(i), &out);
            } else if (!gather(i, tightness, &out)) {
                return false;
            }
            const double given = (i == 0 ? ends_[0] : 0.0) + (i == n_ - 1 ? ends_[1] : 0.0);
            lost_ += given;
            nodes_[i].g = out.g + given;
            nodes_[i].total = out.total;
        }
        return true;
    }
    bool give_up() {
        over_ = true;
        return false;
    }

    // The message of a child, for numbers of these weights, which `finish` has to write.
    bool pull(int64_t c, const float* w, const float* v, double tightness) {
        if (!send(up_, a(c), w, v, tightness)) return false;
        for (int again = 0; again < kAgain && wide(tightness) && !leaf(c); ++again) {
            const int64_t count = widest(a(c).e);
            if (count == 0 || !affords(c, count)) break;
            repaired(narrow(c, count));
            if (!send(up_, a(c), w, v, tightness)) return false;
        }
        nodes_[c].factor = message_.sent().factor;
        nodes_[c].widened = message_.sent().widened;
        logs_.add(message_.step.scale);
        logs_.add(t_.shift);
        lost_ += message_.step.lost;
        return true;
    }

    // a_i of a leaf, or of a position with several children: that which is surest comes first, as
    // what is known says which columns of the others matter.
    bool gather(int64_t i, double tightness, Enclosure* out) {
        hold(t_.kp, psi(i), out);
        out->g = kRounding + (p_.entered && i == 0 ? p_.entered[2 * number_] : 0.0);
        lost_ += kRounding;
        int64_t surest = -1;
        float most = 0.0f;
        for_children(i, [&](int64_t c) {
            V top = V::set1(0.0f);
            for (int64_t k = 0; k < t_.kp; k += V::N) top = V::max(top, V::load(a(c).l + k));
            const float share = top.hmax() / static_cast<float>(nodes_[c].total);
            if (!(share <= most)) surest = c;
            most = most_of(most, share);
            return true;
        });
        const auto take = [&](int64_t c) {
            if (!pull(c, out->l, out->e, tightness)) return false;
            Enclosure y = side(c);
            message_.finish(up_, nullptr, &y);
            const double lift = times(*out, y, out);
            if (!(lift > 0.0)) return false;
            nodes_[c].side_g = y.g;
            nodes_[c].lift = lift;
            logs_.add(-std::log(lift));
            lost_ += kProductRounding;
            return true;
        };
        return (surest < 0 || take(surest)) &&
               for_children(i, [&](int64_t c) { return c == surest || take(c); });
    }
    double times(const Enclosure& x, const Enclosure& y, Enclosure* out) {
        const double lift = multiply(t_.kp, x, y, out);
        spent_ += kProduct;
        over_ = over_ || !(lift > 0.0);
        return lift;
    }

    // Reads columns again, of labels that are listed, of what a position knows from below. Returns
    // how many.
    int64_t narrow(int64_t i, int64_t count) {
        if (leaf(i)) return 0;
        Enclosure y = a(i);
        if (lone(i)) {
            Message::reread(up_, a(i - 1), sent_up(i - 1), psi(i), list_, count, &y);
            nodes_[i].total = y.total;
            return count;
        }
        const int64_t columns = narrow_sides(i, -1, count);
        for (int64_t j = 0; j < count; ++j) gather_again(i, list_[j], &y);
        nodes_[i].total = y.total;
        return columns;
    }
    // Likewise, of the messages of several children but one: of those with most slack.
    int64_t narrow_sides(int64_t i, int64_t but, int64_t count) {
        const auto loose = [&](int64_t c, int32_t k) {
            const Enclosure u = side(c);
            const float high = u.l[k] + u.e[k];
            return high > 0.0f ? u.e[k] / high : 0.0f;
        };
        float least[kMost] = {};
        for_children(i, [&](int64_t c) {
            for (int64_t j = 0; j < count && c != but; ++j)
                least[j] = most_of(least[j], kLoose * loose(c, list_[j]));
            return true;
        });
        int64_t columns = 0;
        for_children(i, [&](int64_t c) {
            int32_t some[kMost];
            int64_t n = 0;
            for (int64_t j = 0; j < count && c != but; ++j) {
                if (least[j] > 0.0f && loose(c, list_[j]) >= least[j]) some[n++] = list_[j];
            }
            Enclosure y = side(c);
            Message::reread(up_, a(c), sent_up(c), nullptr, some, n, &y);
            columns += n;
            return true;
        });
        return columns;
    }
    void gather_again(int64_t i, int32_t k, Enclosure* y) {
        Factors f(psi(i)[k]);
        for_children(i, [&](int64_t c) {
            f.times(side(c), k, nodes_[c].lift);
            return true;
        });
        f.narrow(k, y);
    }

    // Has the message lost more than its share of the tolerance?
    bool wide(double tightness) const {
        return message_.step.lost > kLoss * tightness * p_.tol + 4.0 * sum_error(t_.kp);
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
    // May columns of so many labels be read again, for a position?
    bool affords(int64_t i, int64_t count) {
        int64_t messages = 1;
        for_children(i, [&](int64_t) { return ++messages > 0; });
        return spent_ + kColumn * static_cast<double>(messages * count) < limit() &&
               (!p_.budget || 2 * messages * count <= left());
    }
    void repaired(int64_t columns) {
        ++repairs_;
        read_columns_ += columns;
        spent_ += kColumn * static_cast<double>(columns) + kLook;
    }

    bool go_down(double tightness) {
        Enclosure top = above(n_ - 1);
        for (int64_t k = 0; k < t_.kp; ++k) {
            top.l[k] = 1.0f;
            top.e[k] = 0.0f;
        }
        nodes_[n_ - 1].above_g = p_.entered ? p_.entered[2 * number_ + 1] : 0.0;
        for (int64_t i = n_ - 1; i >= 0; --i) {
            if (!ticker_.go_on()) return give_up();
            x_ = lone(i) ? entered(i - 1) : others_;
            double error = meet(i);
            for (int again = 0; again < kAgain && error > p_.tol && repair(i); ++again) {
                error = meet(i);
            }
            if (!(error <= p_.tol)) {
                if (!p_.entered) return false;
                error = meet(i);  // a repair that was not made has left its look in q
                if (!(error < INFINITY)) return false;
            }
            a_.error[variable(i)] = least_of(error, 1.0);
            write(i, static_cast<float>(1.0 / mass_));
            if (!(lone(i) ? deliver(i, 0, i - 1, tightness) : spread(i, tightness))) return false;
        }
        bound_log_z();
        return true;
    }

    // x_ becomes the message to a child; `j`: which of several.
    bool deliver(int64_t i, int64_t j, int64_t c, double tightness) {
        const Enclosure below = a(c);
        const bool only = lone(i);
        if (!send(down_, x_, below.l, below.e, tightness)) return false;
        for (int again = 0; again < kAgain && wide(tightness) && !(only && i == n_ - 1); ++again) {
            const int64_t count = widest(x_.e);
            if (count == 0 || !affords(i, count)) break;
            int64_t columns = narrow_above(i, count);
            if (only) {
                enter_again(i, count);
            } else {
                columns += narrow_sides(i, c, count);
                enter(i, &others_);
                for (int64_t m = 0; m < j; ++m) {
                    if (!take_in(m)) return false;
                }
                if (!leave_out(j)) return false;
            }
            repaired(columns);
            if (!send(down_, x_, below.l, below.e, tightness)) return false;
        }
        Enclosure b = above(c);
        message_.finish(down_, nullptr, &b);
        Node& node = nodes_[c];
        node.above_g = b.g;
        node.above_factor = message_.sent().factor;
        node.above_widened = message_.sent().widened;
        node.x_total = x_.total;
        return true;
    }

    // Sends to several children what psi b is with the messages of all others.
    bool spread(int64_t i, double tightness) {
        n_children_ = 0;
        for_children(i, [&](int64_t c) {
            children_[n_children_++] = static_cast<int32_t>(c);
            return true;
        });
        others_ = x_;
        for (int64_t j = 0; j < n_children_; ++j) {
            if (!(j == 0 ? leave_out(0) : take_in(j - 1) && join(j))) return false;
            if (!deliver(i, j, children_[j], tightness)) return false;
        }
        return true;
    }
    // The message of a child belongs to what all later ones are sent.
    bool take_in(int64_t j) { return times(others_, side(children_[j]), &others_) > 0.0; }
    // Each child from j on but the last has the product of those after it where its own will be.
    bool leave_out(int64_t j) {
        for (int64_t m = n_children_ - 2; m >= j; --m) {
            const int32_t c = children_[m], next = children_[m + 1];
            Enclosure out = entered(c);
            if (m == n_children_ - 2) {
                copy(t_.kp, side(next), &out);
            } else if (!(times(entered(next), side(next), &out) > 0.0)) {
                return false;
            }
            nodes_[c].x_g = out.g;
        }
        return join(j);
    }
    bool join(int64_t j) {
        x_ = entered(children_[j]);
        if (j < n_children_ - 1) return times(others_, x_, &x_) > 0.0;
        copy(t_.kp, others_, &x_);
        return true;
    }

    // Reads columns of what came from above again, for the labels that are listed; how many.
    int64_t narrow_above(int64_t i, int64_t count) {
        if (i == n_ - 1) return 0;
        Enclosure b = above(i);
        Message::reread(down_, entered(i), sent_down(i), nullptr, list_, count, &b);
        return count;
    }

    // Reads the columns of labels that leave most slack at a position. False: it has none.
    bool repair(int64_t i) {
        const Enclosure f = a(i), b = above(i);
        V top = V::set1(0.0f);
        for (int64_t k = 0; k < t_.kp; k += V::N) {
            const V slack = V::fma(V::load(f.e + k), V::load(b.l + k) + V::load(b.e + k),
                                   V::load(f.l + k) * V::load(b.e + k));
            slack.store(q_ + k);
            top = V::max(top, slack);
        }
        const double most = static_cast<double>(top.hmax());
        if (!(most > 0.01 * p_.tol * mass_) || apart_ > p_.tol) return false;
        const int64_t count = some_of(q_, static_cast<float>(0.1 * most));
        if (!affords(i, count)) return false;
        const int64_t columns = narrow(i, count);
        repaired(columns + narrow_above(i, count));
        return true;
    }

    void enter(int64_t i, Enclosure* x) {
        const Enclosure b = above(i);
        V total = V::set1(0.0f);
        for (int64_t k = 0; k < t_.kp; k += V::N) {
            total = total + weigh(V::load(b.l + k), V::load(b.e + k), V::load(psi(i) + k), x->l + k,
                                  x->e + k);
        }
        entered_with(i, total, x);
    }
    void entered_with(int64_t i, V total, Enclosure* x) {
        x->g = nodes_[i].above_g + 8.0 * 0x1p-24 + (i == n_ - 1 ? ends_[1] : 0.0);
        x->total = static_cast<double>(total.hsum());
    }
    // Likewise, the labels that are listed, where columns of b were read again.
    void enter_again(int64_t i, int64_t count) {
        const Enclosure b = above(i);
        const float* w = psi(i);
        for (int64_t j = 0; j < count; ++j) {
            const int32_t k = list_[j];
            const float low = b.l[k] * w[k], kept = w[k] >= kBottom ? low : 0.0f;
            const float rest = b.e[k] * w[k] + (low - kept);
            x_.total += (static_cast<double>(kept) - static_cast<double>(x_.l[k])) +
                        (static_cast<double>(rest) - static_cast<double>(x_.e[k]));
            x_.l[k] = kept;
            x_.e[k] = rest;
        }
    }

    // q = a b, x = psi b, and the error that is proved of their marginals.
    double meet(int64_t i) {
        const Enclosure f = a(i), b = above(i);
        const float* w = psi(i);
        V sum = V::set1(0.0f), slack = sum, top = sum, total = sum;
        for (int64_t k = 0; k < t_.kp; k += V::N) {
            const V al = V::load(f.l + k), ae = V::load(f.e + k);
            const V bl = V::load(b.l + k), be = V::load(b.e + k);
            const V product = al * bl;
            product.store(q_ + k);
            sum = sum + product;
            top = V::max(top, product);
            slack = slack + V::fma(ae, bl + be, al * be);
            total = total + weigh(bl, be, V::load(w + k), x_.l + k, x_.e + k);
        }
        entered_with(i, total, &x_);
        mass_ = static_cast<double>(sum.hsum());
        if (!(mass_ > 1e-25)) return INFINITY;
        const double wide = 1.0 + 2.0 * sum_error(t_.kp);
        const double u = (static_cast<double>(slack.hsum()) / mass_ + 1e-12) * wide;
        const double radius = least_of(f.g + x_.g, 600.0);
        const double share = static_cast<double>(top.hmax()) / mass_;
        const double spread = share * most_of(0.0, 1.0 - share) + 2.0 * sum_error(t_.kp);
        const int64_t v = variable(i);
        a_.radius[v] = radius + 4.0 * sum_error(t_.kp);
        a_.slack[v] = u;
        apart_ = spread * std::expm1(radius);
        return apart_ + u * std::exp(radius) + 3.0 * sum_error(t_.kp);
    }

    void write(int64_t i, float factor) {
        const int k = static_cast<int>(t_.k);
        const int64_t at_row = variable(i) * t_.k;
        if (p_.single)
            return row_scale_out(q_, k, factor, static_cast<float*>(a_.marginals) + at_row);
        row_widen_out(q_, k, factor, static_cast<double*>(a_.marginals) + at_row);
    }

    // At the root, sum a = s sum (a.l + part of a.e), and |log s| + a.g / 2 is at most half of what
    // was lost.
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
