// Viterbi in the max-sum algebra: the message kernel of tile.h over another algebra.
//
//   v_i(k) = u_i(k) + max_l (v_{i-1}(l) + t(l, k));   back-trace: argmax_l (v_{i-1}(l) + t(l, k))
//
// No back-pointers are stored: the trace reads one column of t per position. Sequences, and chunks
// of long ones, go through it in path_best_tasks.h.
#pragma once

#include <cmath>
#include <type_traits>

#include "rows/input.h"
#include "rows/rows.h"
#include "rows/sorted_scan.h"
#include "rows/tile.h"
#include "core/scratch.h"
#include "forest/level.h"
#include "core/ticker.h"

namespace VS_NS {

// A row of a table in the type that is computed in; `workspace` (K,) where that is a wider one.
[[maybe_unused]] static const float* widened(const float* t, int, float*) { return t; }
[[maybe_unused]] static const double* widened(const double* t, int, double*) { return t; }
[[maybe_unused]] static const double* widened(const float* t, int K, double* workspace) {
    for (int k = 0; k < K; ++k) workspace[k] = static_cast<double>(t[k]);
    return workspace;
}

// y[k] = max_l (x[l] + t[l][k]) with a plain table.
template <class In, class T>
static void max_sum_forward(const In* t, int K, int Kp, const T* x, T* y, T* workspace = nullptr) {
    using V = Vec<T>;
    const T lowest = -static_cast<T>(INFINITY);
    for (int k = 0; k < K; ++k) y[k] = lowest;
    for (int l = 0; l < K; ++l, t += K) {
        const T* row = widened(t, K, workspace);
        const V w = V::set1(x[l]);
        for (int k = 0; k < Kp; k += V::N) {
            const V e = k + V::N <= K ? V::load(row + k) : V::load_part(row + k, K - k, lowest);
            V::max(V::load(y + k), w + e).store(y + k);
        }
    }
}

// v = y + the scores u[0..K), -inf beyond; y is -inf there. Returns the largest entry.
template <class T>
static VS_INLINE T add_scores(const T* y, const T* u, int K, int Kp, T* v) {
    using V = Vec<T>;
    const T lowest = -static_cast<T>(INFINITY);
    V high = V::set1(lowest);
    for_row<T>(K, [&](int k, int m, auto whole) VS_INLINE_LAMBDA {
        const V x = whole.value ? V::load(u + k) : V::load_part(u + k, m, lowest);
        const V z = V::load(y + k) + x;
        high = V::max(high, z);
        z.store(v + k);
    });
    for (int k = K; k < Kp; ++k) v[k] = lowest;
    return high.hmax();
}

// Rows [0, n) of a sequence or of a chunk, which answers for [enter, last).
template <class T>
struct BestLane {
    int64_t sequence;     // or -1: a chunk
    int64_t begin, edge;  // the position of row 0, and the edge into it
    int64_t n, enter, last;
    bool head, tail;  // does it begin where the sequence does, and end there?
    const T* before;  // the row before row 0, or null: nothing, or a guess
    T *entry, *left;  // (Kp,) where the row before its own part goes, and the last of it; or null
    int state;        // at the last row, -1: the best
    int into;         // before its own part, -1: not known
    bool dead;        // nothing is possible at its end
    double score;     // of a sequence
};

// Rows [begin, end) of a sequence, as a chunk that answers for all of them.
template <class T>
BestLane<T> best_lane(const vs::Chains& c, int64_t sequence, int64_t begin, int64_t end) {
    const int64_t first = c.offset[sequence], n = c.offset[sequence + 1] - first;
    BestLane<T> s = {};
    s.sequence = -1;
    s.begin = first + begin;
    s.edge = (c.per_edge ? c.edge[sequence] : 0) + begin - 1;
    s.n = s.last = end - begin;
    s.head = begin == 0;
    s.tail = end == n;
    s.state = s.into = -1;
    return s;
}
// A whole sequence.
template <class T>
BestLane<T> best_lane(const vs::Chains& c, int64_t sequence) {
    BestLane<T> s = best_lane<T>(c, sequence, 0, c.offset[sequence + 1] - c.offset[sequence]);
    s.sequence = sequence;
    return s;
}

// v_i, position by position. CENTRED: each row less its largest entry, which keeps scores near
// zero.
template <bool CENTRED, class In, class T>
class Prefixes {
  public:
    // `table`: null where each edge has its own.
    Prefixes(const Input<In>& in, const vs::Scores* table)
        : in_(in), table_(table), g_(in.c.n_labels) {}
    Prefixes(const Prefixes&) = delete;
    Prefixes& operator=(const Prefixes&) = delete;

    // For at most `rows` at a time. False: no memory.
    bool open(int rows, vs::Scratch& scratch, vs::ScanBackoff* backoff) {
        const int64_t size = (2 + rows) * static_cast<int64_t>(g_.Kp);
        u_ = scratch.array<T>(size);
        if (u_ == nullptr || (table_ && !send_.init(g_, scratch, backoff))) return false;
        y_ = u_ + 2 * static_cast<int64_t>(g_.Kp);
        for (int64_t k = 0; k < size; ++k) u_[k] = Input<T>::forbidden();
        return true;
    }
    // One of them: v (Kp,) is made behind the row x, along an edge; or the first, x null.
    struct Row {
        int64_t position, edge;
        bool head, tail;
        const T* x;
        T* v;
    };
    void rows(const Row* row, int m) {
        const T* from[kMostRows];
        T* to[kMostRows];
        int sent = 0;
        for (int r = 0; r < m; ++r) {
            if (row[r].x == nullptr) continue;
            from[sent] = row[r].x;
            to[sent] = y_ + sent * static_cast<int64_t>(g_.Kp);
            if (!table_) send_edge(row[r], to[sent]);
            ++sent;
        }
        if (table_) send_.send(*table_, sent, from, to);
        for (int r = 0, next = 0; r < m; ++r) end(row[r], row[r].x ? to[next++] : nullptr);
    }
    static constexpr int kMostRows = BestMessages<T>::kMostRows;
    int stride() const { return g_.Kp; }

  private:
    void send_edge(const Row& row, T* y) {
        const int K = g_.K;
        max_sum_forward(in_.transition + row.edge * K * K, K, g_.Kp, row.x, y, u_ + g_.Kp);
    }
    // The row of the message y, or of none, null.
    void end(const Row& row, const T* y) {
        const int K = g_.K, Kp = g_.Kp;
        const T lowest = Input<T>::forbidden();
        T* const v = row.v;
        const T* scores = u_;
        if (std::is_same_v<T, In> && !in_.decorated(row.head, row.tail)) {
            scores = reinterpret_cast<const T*>(in_.unary + row.position * K);
        } else {
            for (int k = 0; k < K; ++k) {
                u_[k] = in_.template score_in<T>(row.position, k, row.head, row.tail);
            }
        }
        T top;
        if (y == nullptr) {
            for (int k = 0; k < Kp; ++k) v[k] = k < K ? scores[k] : lowest;
            top = row_max(v, K);
        } else {
            top = add_scores(y, scores, K, Kp, v);
        }
        if (CENTRED && top > lowest) {
            const Vec<T> most = Vec<T>::set1(top);
            for (int k = 0; k < Kp; k += Vec<T>::N) (Vec<T>::load(v + k) - most).store(v + k);
        }
    }

    const Input<In>& in_;
    const vs::Scores* table_;
    const Tiling<T> g_;
    BestMessages<T> send_;
    T *u_ = nullptr, *y_ = nullptr;  // (2, Kp), (rows, Kp)
};

// The first l with the largest x(l) + column(l); entries of the column lie a row of the table
// apart.
template <class T>
static int best_of_all(const T* x, const T* column, int K) {
    T top = -static_cast<T>(INFINITY);
    int from = 0;
    for (int l = 0; l < K; ++l, column += K) {
        const T s = x[l] + *column;
        if (s > top) {
            top = s;
            from = l;
        }
    }
    return from;
}

// The same, where no entry exceeds `most`: those are read that can matter.

template <class T>
static int best_before(const T* x, const T* column, int K, T most) {
    using V = Vec<T>;
    const T lowest = -static_cast<T>(INFINITY);
    const auto score = [&](int l) { return x[l] + column[static_cast<int64_t>(l) * K]; };
    T top = lowest, bound = score(row_argmax(x, K));
    int from = 0;
    const V no_more = V::set1(most);
    for_row<T>(K, [&](int k, int m, auto whole) VS_INLINE_LAMBDA {
        const V v = whole.value ? V::load(x + k) : V::load_part(x + k, m, lowest);
        for (unsigned lanes = (v + no_more).ge(V::set1(bound)); lanes != 0; lanes &= lanes - 1) {
            const int l = k + vs_first_bit(lanes);
            const T s = l < K ? score(l) : lowest;
            if (s > top) {
                top = s;
                from = l;
                bound = s > bound ? s : bound;
            }
        }
    });
    return from;
}

// From a state to the one before it, as best_of_all says.
template <class In>
class BackTrace {
  public:
    BackTrace(const Input<In>& in, const vs::Scores* table)
        : in_(in), table_(table), K_(static_cast<int>(in.c.n_labels)), Kp_(Tiling<In>(K_).Kp) {}
    bool open(vs::Scratch& scratch) {
        column_ = scratch.array<In>(2 * static_cast<int64_t>(Kp_));
        if (column_ == nullptr) return false;
        for (int l = 0; l < 2 * Kp_; ++l) column_[l] = -static_cast<In>(INFINITY);
        return true;
    }
    // Before the state k, from the row x along an edge.
    int step(const In* x, int64_t edge, int k) {
        if (table_ && table_->listed) {
            listed_column(*table_->listed, k, Kp_, column_);
            return sums(x, column_);
        }
        if (table_ && table_->columns) {
            return sums(x, static_cast<const In*>(table_->columns) + int64_t{k} * Kp_);
        }
        const In* all = in_.transition + (in_.c.per_edge ? edge : 0) * K_ * K_ + k;
        return table_ && table_->rows
                   ? best_before(x, all, K_, static_cast<const In*>(table_->tops)[k])
                   : best_of_all(x, all, K_);
    }

  private:
    int sums(const In* x, const In* column) {
        using V = Vec<In>;
        In* to = column_ + Kp_;
        V high = V::set1(-static_cast<In>(INFINITY));
        for (int l = 0; l < Kp_; l += V::N) {
            const V z = V::load(x + l) + V::load(column + l);
            high = V::max(high, z);
            z.store(to + l);
        }
        return row_find(to, K_, high.hmax());
    }

    const Input<In>& in_;
    const vs::Scores* table_;
    const int K_, Kp_;
    In* column_ = nullptr;
};

template <class In, class T>
static void pack_scores_of(const vs::Chains* c, T* packed) {
    const Tiling<T> g(c->n_labels);
    const In* t = static_cast<const In*>(c->transition);
    const T lowest = -static_cast<T>(INFINITY);
    for (int tile = 0; tile < g.n_tiles; ++tile) {
        const int width = g.width(tile), column = g.first_unit(tile) * Vec<T>::N;
        for (int l = 0; l < g.K; ++l) {
            T* out = packed + g.offset(tile) + static_cast<int64_t>(l) * width;
            for (int k = 0; k < width; ++k) {
                out[k] = column + k < g.K
                             ? static_cast<T>(t[static_cast<int64_t>(l) * g.K + column + k])
                             : lowest;
            }
        }
    }
    for (int l = 0; g.lone && l < g.Kp; ++l) {
        packed[g.lone_offset() + l] =
            l < g.K ? static_cast<T>(t[static_cast<int64_t>(l) * g.K + g.K - 1]) : lowest;
    }
}

static void column_tops(int compute, int dtype, const void* table, int64_t labels, void* tops) {
    const int K = static_cast<int>(labels);
    const auto in = [&](const auto* t) {
        if (compute == vs::kFloat32) {
            return column_tops_of(t, K, Tiling<float>(K).Kp, static_cast<float*>(tops));
        }
        column_tops_of(t, K, Tiling<double>(K).Kp, static_cast<double*>(tops));
    };
    dtype == vs::kFloat32 ? in(static_cast<const float*>(table))
                          : in(static_cast<const double*>(table));
}

static void pack_scores(int compute, const vs::Chains* c, void* packed) {
    if (c->dtype == vs::kFloat64) {
        pack_scores_of<double>(c, static_cast<double*>(packed));
    } else if (compute == vs::kFloat64) {
        pack_scores_of<float>(c, static_cast<double*>(packed));
    } else {
        pack_scores_of<float>(c, static_cast<float*>(packed));
    }
}

}  // namespace VS_NS
