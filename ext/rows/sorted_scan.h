// Max-sum messages that read only those rows of a table that can matter (CERTIFICATES section 9).
//
//   y(k) = max_l (x(l) + t(l, k)),  l in descending order of x, until x(l) + top(k) <= y(k) for all
//   k
//
// where top(k) is the largest entry of column k. Rounding is monotone, so what is left out cannot
// have been larger: y is that of all rows, bit for bit.
#pragma once

#include <limits>

#include "core/scratch.h"
#include "rows/listed_scores.h"
#include "rows/pack_table.h"
#include "rows/rows.h"
#include "rows/tile.h"
#include "simd/each.h"

namespace VS_NS {

template <class T>
class BestMessages {
  public:
    static constexpr int kMostRows = 16;

    // The messages of one table after the other: `open` sets which. False: no memory.
    bool init(const Tiling<T>& g, vs::Scratch& scratch, vs::ScanBackoff* backoff) {
        g_ = &g;
        backoff_ = backoff;
        chosen_ = scratch.array<Row>(g.K);
        keys_ = scratch.array<T>(g.K);
        order_ = scratch.array<int32_t>(BestListed<T>::kLists * g.K);
        return chosen_ && keys_ && order_;
    }
    void send(const vs::Scores& table, const T* x, T* y) { send(table, 1, &x, &y); }
    // Of several rows, at most kMostRows: one reading of the table serves all that need it.
    void send(const vs::Scores& table, int rows, const T* const* x, T* const* y) {
        const T* from[kMostRows];
        T* to[kMostRows];
        int left = 0;
        for (int r = 0; r < rows; ++r) {
            if (alone(table, x[r], y[r])) continue;
            from[left] = x[r];
            to[left++] = y[r];
        }
        if (left == 0) return;
        // A large table that serves one row is read as fast as it lies.
        if (table.tiles && (left > 1 || g_->K <= vs::Scores::kTilesTo)) {
            return messages<MaxSum, T>(*g_, static_cast<const T*>(table.tiles), left, from, to);
        }
        for (int r = 0; r < left; ++r) all_rows(from[r], to[r]);
    }

  private:
    static constexpr int kAtOnce = 4;
    static constexpr int kLongest = 63;
    struct Row {
        T x;
        int l;
    };

    // y = max(y, x + t) over M rows, FIRST: y = x + t; returns the x that a row must exceed to
    // change y yet (LAST: not asked). A column in which all is forbidden asks for none.
    template <int M, bool FIRST, bool LAST = false>
    T take(const Row* rows, T* y) const {
        using V = Vec<T>;
        const T lowest = -static_cast<T>(INFINITY);
        const V least = V::set1(std::numeric_limits<T>::lowest());
        const T* t[M];
        V x[M], most = V::set1(lowest);
        each<M>([&](auto j) VS_INLINE_LAMBDA {
            t[j] = rows_ + static_cast<int64_t>(rows[j].l) * g_->K;
            x[j] = V::set1(rows[j].x);
        });
        for_row<T>(g_->K, [&](int k, int m, auto whole) VS_INLINE_LAMBDA {
            V z = FIRST ? V::set1(lowest) : V::load(y + k);
            each<M>([&](auto j) VS_INLINE_LAMBDA {
                const V e = whole.value ? V::load(t[j] + k) : V::load_part(t[j] + k, m, lowest);
                z = V::max(z, x[j] + e);
            });
            z.store(y + k);
            if (LAST) return;
            most = V::max(most, V::load(tops_ + k) - V::max(z, least));
        });
        return least_felt(most.hmax());
    }
    T take(const Row* rows, int m, T* y) const {
        switch (m) {
            case 1:
                return take<1, false>(rows, y);
            case 2:
                return take<2, false>(rows, y);
            case 3:
                return take<3, false>(rows, y);
            default:
                return take<4, false>(rows, y);
        }
    }

    // False: the message needs the whole table.
    bool alone(const vs::Scores& table, const T* x, T* y) {
        if (table.listed) {
            BestListed<T>(*table.listed, keys_, order_).send(x, g_->Kp, y);
            return true;
        }
        if (!table.rows) return false;
        rows_ = static_cast<const T*>(table.rows);
        tops_ = static_cast<const T*>(table.tops);
        vs::ScanBackoff& p = *backoff_;
        if (p.wait > 0) {
            --p.wait;
            return false;
        }
        const bool found = scan(x, y);
        p.length = found ? 0 : 2 * p.length + 1 < kLongest ? 2 * p.length + 1 : kLongest;
        p.wait = p.length;
        return found;
    }

    // A number that a few rows at least reach: the least of the largest in each of kParts parts.
    static constexpr int kParts = Vec<T>::N < 8 ? 8 : Vec<T>::N;
    T high(const T* x) const {
        using V = Vec<T>;
        constexpr int units = kParts / V::N;
        const T lowest = -static_cast<T>(INFINITY);
        V top[units];
        for (int j = 0; j < units; ++j) top[j] = V::set1(lowest);
        int k = 0;
        for (; k + kParts <= g_->K; k += kParts) {
            for (int j = 0; j < units; ++j) top[j] = V::max(top[j], V::load(x + k + j * V::N));
        }
        T all[kParts];
        for (int j = 0; j < units; ++j) top[j].store(all + j * V::N);
        T least = all[0];
        for (int j = 1; j < kParts; ++j) least = all[j] < least ? all[j] : least;
        return least;
    }

    // Rows of [from, below) that exceed `least`, too, in chosen_; returns how many.
    int choose(const T* x, T from, T below, T least) const {
        using V = Vec<T>;
        const T lowest = -static_cast<T>(INFINITY);
        const V limit = V::set1(from > least ? from : least);
        int n = 0;
        for_row<T>(g_->K, [&](int k, int m, auto whole) VS_INLINE_LAMBDA {
            const V v = whole.value ? V::load(x + k) : V::load_part(x + k, m, lowest);
            for (unsigned lanes = v.ge(limit); lanes != 0; lanes &= lanes - 1) {
                const int l = k + vs_first_bit(lanes);
                if (x[l] >= from && x[l] < below && x[l] > least) chosen_[n++] = {x[l], l};
            }
        });
        return n;
    }

    // In descending order, so that what is left soon does not matter.
    void sort(int n) const {
        for (int i = 1; i < n; ++i) {
            const Row row = chosen_[i];
            int j = i;
            for (; j > 0 && chosen_[j - 1].x < row.x; --j) chosen_[j] = chosen_[j - 1];
            chosen_[j] = row;
        }
    }

    // False: too many rows matter.
    bool scan(const T* x, T* y) const {
        constexpr int kRounds = 3;
        const T lowest = -static_cast<T>(INFINITY);
        const int most = g_->K / 8 + kParts;
        T below = -lowest, from = high(x), least = lowest;
        int taken = 0;
        for (int round = 0; below > least; ++round) {
            const int n = choose(x, from, below, least);
            if (taken > most || n > 2 * most) return false;
            sort(n);
            for (int i = 0, m; i < n && chosen_[i].x > least; i += m, taken += m) {
                m = taken == 0 ? 1 : n - i < kAtOnce ? n - i : kAtOnce;
                least = taken == 0 ? take<1, true>(chosen_, y) : take(chosen_ + i, m, y);
            }
            // Half of what is left, by value; all of it in the end.
            below = from;
            from = round + 1 < kRounds && least > lowest ? least + (below - least) / 2 : lowest;
        }
        if (taken == 0) {  // all is forbidden
            for (int k = 0; k < g_->Kp; ++k) y[k] = lowest;
        }
        return true;
    }

    void all_rows(const T* x, T* y) const {
        const int K = g_->K;
        constexpr int kMany = 8;
        Row next[kMany] = {{x[0], 0}};
        take<1, true, true>(next, y);
        int l = 1;
        for (; l + kMany <= K; l += kMany) {
            for (int m = 0; m < kMany; ++m) next[m] = {x[l + m], l + m};
            take<kMany, false, true>(next, y);
        }
        for (; l < K; ++l) {
            next[0] = {x[l], l};
            take<1, false, true>(next, y);
        }
    }

    const Tiling<T>* g_ = nullptr;
    const T *rows_ = nullptr, *tops_ = nullptr;
    Row* chosen_ = nullptr;
    T* keys_ = nullptr;
    int32_t* order_ = nullptr;
    vs::ScanBackoff* backoff_ = nullptr;
};

// tops[k] = max_l t(l, k), -inf beyond K.
constexpr int kTopsAtOnce = 1024;
template <class In, class T>
static void column_tops_of(const In* t, int K, int Kp, T* tops) {
    using V = Vec<In>;
    const In lowest = -static_cast<In>(INFINITY);
    In top[kTopsAtOnce];
    for (int k = 0; k < Kp; ++k) tops[k] = -static_cast<T>(INFINITY);
    for (int k0 = 0; k0 < K; k0 += kTopsAtOnce) {
        const int columns = K - k0 < kTopsAtOnce ? K - k0 : kTopsAtOnce;
        for (int k = 0; k < kTopsAtOnce; ++k) top[k] = lowest;
        for (int l = 0; l < K; ++l) {
            const In* row = t + static_cast<int64_t>(l) * K + k0;
            for_row<In>(columns, [&](int k, int m, auto whole) VS_INLINE_LAMBDA {
                const V e = whole.value ? V::load(row + k) : V::load_part(row + k, m, lowest);
                V::max(V::load(top + k), e).store(top + k);
            });
        }
        for (int k = 0; k < columns; ++k) tops[k0 + k] = static_cast<T>(top[k]);
    }
}

}  // namespace VS_NS
