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

template <class T>
class BestListed {
  public:
    // Workspaces are (K,) and (kLists K,).
    static constexpr int kLists = 3;
    BestListed(const vs::ListedScores& table, T* keys, int32_t* lists)
        : t_(table),
          key_(keys),
          order_(lists),
          open_(lists + table.n_labels),
          row_(open_ + table.n_labels) {}

    // y (Kp,), -inf beyond K.
    void send(const T* x, int Kp, T* y) {
        const int K = t_.n_labels;
        const T lowest = -static_cast<T>(INFINITY);
        const T rest = static_cast<T>(t_.rest);
        if (t_.rows == nullptr && t_.columns == nullptr) return send_alike(x, Kp, y);
        if (!(rest > lowest)) {
            for (int k = 0; k < Kp; ++k) y[k] = lowest;
        } else {
            others(x, y);
            for (int k = K; k < Kp; ++k) y[k] = lowest;
        }
        // Rows that cannot change anything are left out: rounding is monotone.
        const T least = -row_max_of_negated(y, K);
        const T* tops = static_cast<const T*>(t_.tops);
        const T* score = static_cast<const T*>(t_.by_row.score);
        for (int l = 0; l < K; ++l) {
            if (!(x[l] + tops[l] > least)) continue;
            for (int64_t e = t_.by_row.start[l]; e < t_.by_row.start[l + 1]; ++e) {
                T& to = y[t_.by_row.label[e]];
                const T s = x[l] + score[e];
                to = s > to ? s : to;
            }
        }
    }

  private:
    static T row_max_of_negated(const T* y, int K) {
        T most = -static_cast<T>(INFINITY);
        for (int k = 0; k < K; ++k) most = -y[k] > most ? -y[k] : most;
        return most;
    }
    bool listed(int l, int k) const {
        const int32_t* first = t_.by_column.label + t_.by_column.start[k];
        const int32_t* last = t_.by_column.label + t_.by_column.start[k + 1];
        return std::binary_search(first, last, static_cast<int32_t>(l));
    }
    // The next labels by x plus what their end has, in descending order.
    void sort(int from, int to) const {
        const int K = t_.n_labels;
        const auto before = [&](int32_t a, int32_t b) {
            return key_[a] > key_[b] || (key_[a] == key_[b] && a < b);
        };
        std::partial_sort(order_ + from, order_ + std::min(to, K), order_ + K, before);
    }
    // y(k) = max over l that are not listed for k.
    void others(const T* x, T* y) const {
        const int K = t_.n_labels;
        const T lowest = -static_cast<T>(INFINITY), unit = std::numeric_limits<T>::epsilon();
        T size = std::fabs(static_cast<T>(t_.rest));
        for (int l = 0; l < K; ++l) {
            const T own = static_cast<T>(t_.own(l));
            key_[l] = x[l] + own;
            order_[l] = l;
            if (x[l] > lowest) size = std::max(size, std::fabs(x[l]) + 2 * std::fabs(own));
        }
        int sorted = std::min(K, kSorted);
        sort(0, sorted);
        const auto column = [&](int k) {
            const T other = std::fabs(static_cast<T>(t_.other(k)));
            const T margin = 16 * unit * (size + std::fabs(static_cast<T>(t_.rest)) + other);
            T best = lowest;
            for (int i = 0; i < K; ++i) {
                if (i == sorted) {
                    sort(sorted, 4 * sorted);
                    sorted = std::min(K, 4 * sorted);
                }
                const int l = order_[i];
                if (!(x[l] > lowest)) break;
                const T most = key_[l] + static_cast<T>(t_.rest) + static_cast<T>(t_.other(k));
                if (best > lowest && most < best - margin) break;
                if (listed(l, k)) continue;
                const T s = x[l] + static_cast<T>(t_.unlisted(l, k));
                best = s > best ? s : best;
            }
            y[k] = best;
        };
        for (int k = 0; k < K; ++k) column(k);
    }
    // All that is not listed is one number: label by label, in descending order, until none that is
    // left can matter. An end is open as long as all labels so far are listed for it.
    void send_alike(const T* x, int Kp, T* y) {
        const int K = t_.n_labels;
        const T lowest = -static_cast<T>(INFINITY), rest = static_cast<T>(t_.rest);
        const T* score = static_cast<const T*>(t_.by_row.score);
        for (int l = 0; l < K; ++l) {
            key_[l] = x[l];
            order_[l] = l;
            row_[l] = -1;
        }
        int sorted = std::min(K, kSorted);
        sort(0, sorted);
        const T best = x[order_[0]] + rest;
        for (int k = 0; k < K; ++k) y[k] = best;
        for (int k = K; k < Kp; ++k) y[k] = lowest;
        int open = 0;
        for (int i = 0; i < K; ++i) {
            if (i == sorted) {
                sort(sorted, 4 * sorted);
                sorted = std::min(K, 4 * sorted);
            }
            const int l = order_[i];
            if (i > 0 && (!(x[l] > lowest) || (open == 0 && i % 2 == 1 && x[l] <= felt(y)))) break;
            for (int64_t e = t_.by_row.start[l]; e < t_.by_row.start[l + 1]; ++e) {
                const int32_t k = t_.by_row.label[e];
                const T s = x[l] + score[e];
                if (i == 0) {
                    open_[open++] = k;
                    y[k] = s;
                } else {
                    row_[k] = i;
                    y[k] = s > y[k] ? s : y[k];
                }
            }
            if (i > 0 && open > 0) open = close(i, x[l] + rest, open, y);
        }
    }
    // Gives the ends that label i is not listed for what it has for them, and returns how many stay
    // open.
    int close(int i, T here, int open, T* y) const {
        int left = 0;
        for (int j = 0; j < open; ++j) {
            const int32_t k = open_[j];
            if (row_[k] == i) {
                open_[left++] = k;
            } else {
                y[k] = here > y[k] ? here : y[k];
            }
        }
        return left;
    }
    // A label whose x is at most this changes no end by what is listed.
    T felt(const T* y) const {
        using V = Vec<T>;
        const T lowest = -static_cast<T>(INFINITY);
        const T* tops = static_cast<const T*>(t_.column_tops);
        const V least = V::set1(std::numeric_limits<T>::lowest());
        V most = V::set1(lowest);
        for_row<T>(t_.n_labels, [&](int k, int m, auto whole) VS_INLINE_LAMBDA {
            const V top = whole.value ? V::load(tops + k) : V::load_part(tops + k, m, lowest);
            const V own = whole.value ? V::load(y + k) : V::load_part(y + k, m, T(0));
            most = V::max(most, top - V::max(own, least));
        });
        return least_felt(most.hmax());
    }

    static constexpr int kSorted = 16;
    const vs::ListedScores& t_;
    T* key_;
    // Labels by what they offer; ends that have none yet; the last label that lists an end.
    int32_t *order_, *open_, *row_;
};

// t(., k) of all l (Kp,), -inf beyond.
template <class T>
static void listed_column(const vs::ListedScores& t, int k, int Kp, T* out) {
    const int K = t.n_labels;
    if (t.rows == nullptr && t.columns == nullptr) {
        for (int l = 0; l < K; ++l) out[l] = static_cast<T>(t.rest);
    } else {
        for (int l = 0; l < K; ++l) out[l] = static_cast<T>(t.unlisted(l, k));
    }
    for (int l = K; l < Kp; ++l) out[l] = -static_cast<T>(INFINITY);
    const T* score = static_cast<const T*>(t.by_column.score);
    for (int64_t e = t.by_column.start[k]; e < t.by_column.start[k + 1]; ++e) {
        out[t.by_column.label[e]] = score[e];
    }
}

}  // namespace VS_NS
