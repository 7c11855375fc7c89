// Max-sum messages over a table of which most entries are a default: those of the dense table, bit
// for bit, from the pairs that are listed (CERTIFICATES sections 5 and 9).
//
//   y(k) = max(max over l listed for k of x(l) + t(l, k), max over all others of x(l) + default)
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "rows/rows.h"
#include "rows/sparse_table.h"

namespace VS_NS {

// A label whose x is at most this changes no end k, where no entry of column k is larger than
// top(k): x <= y(k) - top(k), less two units that the difference may have been rounded by.
// `missing`: the largest top(k) - y(k).
template <class T>
static T least_felt(T missing) {
    const T unit = std::numeric_limits<T>::epsilon(), none = std::numeric_limits<T>::infinity();
    if (!(missing > -none)) return none;
    return missing < none ? -missing - unit * (missing < T(0) ? -missing : missing) : -none;
}

// f(j, m, e): e has t(j, i), or t(i, j) where `row`, of m labels from j on, as if none were listed.
template <class T, class F>
static VS_INLINE void each_unlisted(const vs::ListedScores& t, int i, bool row, F f) {
    using V = Vec<T>;
    const bool second = row != t.turned;  // columns of the table as it was given vary, not rows
    const T* vary = static_cast<const T*>(second ? t.column_ends : t.row_ends);
    const T* fixed = static_cast<const T*>(second ? t.row_ends : t.column_ends);
    const V rest = V::set1(static_cast<T>(t.rest)), own = V::set1(fixed ? fixed[i] : T(0));
    const bool alike = t.single == (sizeof(T) == sizeof(float));
    for_row<T>(t.n_labels, [&](int j, int m, auto whole) VS_INLINE_LAMBDA {
        if (!alike) {  // sums in float32
            T e[V::N] = {};
            for (int k = 0; k < m; ++k)
                e[k] = static_cast<T>(row ? t.unlisted(i, j + k) : t.unlisted(j + k, i));
            return f(j, m, V::load_part(e, m, -static_cast<T>(INFINITY)));
        }
        const V x = vary == nullptr ? V::set1(T(0))
                    : whole.value   ? V::load(vary + j)
                                    : V::load_part(vary + j, m, -static_cast<T>(INFINITY));
        f(j, m, second ? (rest + own) + x : (rest + x) + own);
    });
}

// Messages along one table; labels that change no end are not read:
//
//   the label of the largest x, with its end's share, serves all ends for which it is not listed;
//   of the ends for which it is, those are open that another may serve better;
//   a row l that is listed matters where x(l) + gain(l) > y(k) - share(k) for some k.
template <class T>
class BestListed {
    using V = Vec<T>;

  public:
    // Workspaces are (K,) and (kLists K,).
    static constexpr int kLists = 3;
    BestListed(const vs::ListedScores& table, T* keys, int32_t* lists)
        : t_(table),
          rows_(static_cast<const T*>(table.turned ? table.column_ends : table.row_ends)),
          columns_(static_cast<const T*>(table.turned ? table.row_ends : table.column_ends)),
          exact_(table.single == (sizeof(T) == sizeof(float)) && !(rows_ && columns_)),
          key_(keys),
          order_(lists),
          open_(lists + table.n_labels),
          row_(open_ + table.n_labels) {}

    // y (Kp,), -inf beyond K.
    void send(const T* x, int Kp, T* y) {
        const int K = t_.n_labels;
        const T margin = measure(x);
        const T top = row_max(key_, K);
        for (int k = K; k < Kp; ++k) y[k] = lowest();
        if (static_cast<T>(t_.rest) > lowest() && top > lowest()) {
            serve(x, row_find(key_, K, top), top, margin, y);
        } else {
            for (int k = 0; k < K; ++k) y[k] = lowest();
        }
        add_listed(x, margin, top, y);
    }

  private:
    // Labels are sorted so many at a time.
    static constexpr int kSorted = 16;
    // Rows are read in turns: those within so much of the first, and what still matters.
    static constexpr T kNear = 4;

    static T lowest() { return -static_cast<T>(INFINITY); }

    // key(l) = x(l) + the share of l. Returns what roundings of such sums may add up to.
    T measure(const T* x) const {
        const T rest = exact_ && columns_ == nullptr ? static_cast<T>(t_.rest) : T(0);
        V size = V::set1(T(0));
        for_row<T>(t_.n_labels, [&](int l, int m, auto whole) VS_INLINE_LAMBDA {
            const V v = part(x, l, m, whole, lowest());
            size = V::max(size, V::where_ge(v, V::set1(std::numeric_limits<T>::lowest()),
                                            V::max(v, V::set1(T(0)) - v)));
            const V own = rows_ ? part(rows_, l, m, whole, T(0)) : V::set1(T(0));
            const V sum = v + (V::set1(rest) + own);
            whole.value ? sum.store(key_ + l) : sum.store_part(key_ + l, m);
        });
        const T unit = t_.single ? static_cast<T>(std::numeric_limits<float>::epsilon())
                                 : std::numeric_limits<T>::epsilon();
        return 16 * unit * (size.hmax() + static_cast<T>(t_.size));
    }
    // No label of this key, or of less, offers end k more by what is not listed.
    T most(T key, int k, T margin) const {
        if (!exact_)
            return key + static_cast<T>(t_.rest) + (columns_ ? columns_[k] : T(0)) + margin;
        return columns_ ? key + static_cast<T>(t_.unlisted(0, k)) : key;
    }
    T offer(const T* x, int l, int k) const { return x[l] + static_cast<T>(t_.unlisted(l, k)); }

    // What is not listed: `best` serves all ends but those it is listed for.
    void serve(const T* x, int best, T top, T margin, T* y) {
        const V from = V::set1(x[best]);
        each_unlisted<T>(t_, best, true, [&](int k, int m, V e) VS_INLINE_LAMBDA {
            const V z = from + e;
            m == V::N ? z.store(y + k) : z.store_part(y + k, m);
        });
        key_[best] = lowest();
        const T next = row_max(key_, t_.n_labels);
        if (!exact_ && next >= top - margin) rivals(x, best, top - margin, y);
        key_[best] = top;
        const T* score = static_cast<const T*>(t_.by_row.score);
        int open = 0;
        for (int64_t e = t_.by_row.start[best]; e < t_.by_row.start[best + 1]; ++e) {
            const int32_t k = t_.by_row.label[e];
            y[k] = x[best] + score[e];
            if (next > lowest() && y[k] < most(next, k, margin)) open_[open++] = k;
        }
        if (open > 0) serve_open(x, margin, open, y);
    }
    // Labels whose keys are as large, but for rounding: they are offered to all ends.
    void rivals(const T* x, int best, T least, T* y) const {
        const int K = t_.n_labels;
        for (int l = 0; l < K; ++l) {
            if (!(key_[l] >= least) || l == best) continue;
            if (x[l] == x[best] && (!rows_ || rows_[l] == rows_[best])) continue;
            int64_t e = t_.by_row.start[l];
            for (int k = 0; k < K; ++k) {
                if (e < t_.by_row.start[l + 1] && t_.by_row.label[e] == k) {
                    ++e;
                } else {
                    y[k] = std::max(y[k], offer(x, l, k));
                }
            }
        }
    }
    // Label by label, in descending order: an end stays open until none that is left offers more.
    void serve_open(const T* x, T margin, int open, T* y) {
        const int K = t_.n_labels;
        for (int l = 0; l < K; ++l) {
            order_[l] = l;
            row_[l] = -1;
        }
        int sorted = std::min(K, kSorted);
        sort(0, sorted);
        for (int i = 1; i < K && open > 0 && key_[order_[i]] > lowest(); ++i) {
            if (i + 1 >= sorted && sorted < K) {
                sort(sorted, 4 * sorted);
                sorted = std::min(K, 4 * sorted);
            }
            const int l = order_[i];
            const T next = i + 1 < K ? key_[order_[i + 1]] : lowest();
            for (int64_t e = t_.by_row.start[l]; e < t_.by_row.start[l + 1]; ++e) {
                row_[t_.by_row.label[e]] = i;
            }
            int left = 0;
            for (int j = 0; j < open; ++j) {
                const int32_t k = open_[j];
                if (row_[k] != i) y[k] = std::max(y[k], offer(x, l, k));
                if (next > lowest() && y[k] < most(next, k, margin)) open_[left++] = k;
            }
            open = left;
        }
    }
    // The next labels by their keys, in descending order.
    void sort(int from, int to) const {
        const int K = t_.n_labels;
        const auto before = [&](int32_t a, int32_t b) {
            return key_[a] > key_[b] || (key_[a] == key_[b] && a < b);
        };
        std::partial_sort(order_ + from, order_ + std::min(to, K), order_ + K, before);
    }

    // What is listed. Rounding is monotone, so rows that cannot change anything are left out.
    void add_listed(const T* x, T margin, T top, T* y) {
        T from = top > lowest() ? top - kNear : lowest(), below = static_cast<T>(INFINITY);
        while (true) {
            const int rows = choose(x, from, below, margin, y);
            const T* score = static_cast<const T*>(t_.by_row.score);
            for (int i = 0; i < rows; ++i) {
                const int l = order_[i];
                const T own = x[l];
                for (int64_t e = t_.by_row.start[l]; e < t_.by_row.start[l + 1]; ++e) {
                    T& to = y[t_.by_row.label[e]];
                    const T s = own + score[e];
                    to = s > to ? s : to;
                }
            }
            if (!(from > lowest())) return;
            below = from;
            from = lowest();
        }
    }
    // Lists the rows of keys in [from, below) that may change an end.
    int choose(const T* x, T from, T below, T margin, const T* y) const {
        constexpr T huge = std::numeric_limits<T>::max();
        const T* tops = static_cast<const T*>(t_.column_tops);
        V missing = V::set1(lowest()), gap = missing;
        for_row<T>(t_.n_labels, [&](int k, int m, auto whole) VS_INLINE_LAMBDA {
            const V own = V::max(part(y, k, m, whole, huge), V::set1(-huge));
            missing = V::max(missing, part(tops, k, m, whole, lowest()) - own);
            const V share = columns_ ? part(columns_, k, m, whole, T(0)) : V::set1(T(0));
            gap = V::max(gap, share - own);
        });
        const T* gains = static_cast<const T*>(t_.gains);
        const V felt = V::set1(least_felt(missing.hmax())), limit = V::set1(-gap.hmax() - margin);
        const V first = V::set1(from), last = V::set1(below);
        int n = 0;
        for_row<T>(t_.n_labels, [&](int l, int m, auto whole) VS_INLINE_LAMBDA {
            const V v = part(x, l, m, whole, lowest()), key = part(key_, l, m, whole, lowest());
            unsigned lanes = (v + part(gains, l, m, whole, T(0))).ge(limit) & key.ge(first);
            for (lanes &= ~(felt.ge(v) | key.ge(last)); lanes != 0; lanes &= lanes - 1)
                order_[n++] = l + vs_first_bit(lanes);
        });
        return n;
    }
    template <class Whole>
    static VS_INLINE V part(const T* x, int k, int m, Whole, T fill) {
        return Whole::value ? V::load(x + k) : V::load_part(x + k, m, fill);
    }

    const vs::ListedScores& t_;
    const T *rows_, *columns_;  // (K,) the shares of this end, and of the other, or null
    const bool exact_;          // keys and one share are all that a sum has: none is rounded apart
    T* key_;
    // Labels by key, or rows; ends that are open; the last label that lists an end.
    int32_t *order_, *open_, *row_;
};

// t(., k) of all l (Kp,), -inf beyond.
template <class T>
static void listed_column(const vs::ListedScores& t, int k, int Kp, T* out) {
    using V = Vec<T>;
    each_unlisted<T>(t, k, false, [&](int l, int m, V e) VS_INLINE_LAMBDA {
        m == V::N ? e.store(out + l) : e.store_part(out + l, m);
    });
    for (int l = t.n_labels; l < Kp; ++l) out[l] = -static_cast<T>(INFINITY);
    const T* score = static_cast<const T*>(t.by_column.score);
    for (int64_t e = t.by_column.start[k]; e < t.by_column.start[k + 1]; ++e) {
        out[t.by_column.label[e]] = score[e];
    }
}

}  // namespace VS_NS
