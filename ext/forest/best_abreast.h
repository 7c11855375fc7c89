// Viterbi of path_best.h for chains of few labels: a sequence, or a chunk, in each lane of vectors.
//
// Entry k of all rows is one vector. The columns t(., k) that lanes come back through are woven in
// the same way, and the first of the largest sums is found for all lanes at once. Rows hold the
// numbers of Prefixes, since a maximum is the same in any order, so states are those of BackTrace.
// Lanes are aligned where they begin: one that has ended, or that has not begun on the way back,
// computes what nobody reads. Where each edge has a table of its own, labels that are come from are
// kept on the way: no table is read twice.
#pragma once

#include <cmath>
#include <type_traits>

#include "core/scratch.h"
#include "core/sum.h"
#include "core/ticker.h"
#include "forest/forward_few.h"
#include "forest/path_best.h"
#include "forest/scores_abreast.h"
#include "forest/together.h"
#include "rows/tile_abreast.h"
#include "simd/each.h"
#include "simd/lookup.h"
#include "simd/transpose.h"

namespace VS_NS {

// As much of an arithmetic as scores side by side ask for.
template <class In_>
struct BestScores {
    using T = In_;
    using In = In_;
    const Input<In>& in;
    int K, Kp;
};

// CENTRED: as Prefixes has it; others make rows alone.
template <class In, bool CENTRED = true>
class BestAbreast {
  public:
    using V = Vec<In>;
    using W = Vec<double>;
    static constexpr int N = V::N;

    BestAbreast(const Input<In>& in, const vs::Scores* table)
        : in_(in), table_(table), g_(in.c.n_labels), d_{in, g_.K, g_.Kp}, size_(N * g_.K) {}
    BestAbreast(const BestAbreast&) = delete;
    BestAbreast& operator=(const BestAbreast&) = delete;

    // Where there are lanes enough, and a table lies in one tile.
    bool serves() const {
        if (N < 4 || g_.n_tiles != 1) return false;
        if (in_.c.per_edge) return CENTRED && g_.K <= vs::kAbreastEdges;
        return table_ && table_->tiles && table_->columns && g_.K <= kMostLabels;
    }
    // Measured: rows of all lanes take as long as so many that are made in turn.
    bool pays(const BestLane<In>* lanes, int m) const {
        const int64_t all = 100 * N, as_many = 120 + 8 * N + 16 * g_.K;
        const LaneSizes sizes = lane_sizes(lanes, m);
        return 100 * sizes.positions >
               sizes.longest * (as_many < all * 9 / 10 ? as_many : all * 9 / 10);
    }

    // lanes[0..m), at most N; `scored`: their scores are added up. False: no memory.
    bool open(BestLane<In>* lanes, int m, bool scored, vs::Scratch& scratch) {
        lanes_ = lanes;
        m_ = m;
        scored_ = scored;
        longest_ = 0;
        for (int r = 1; r < m; ++r) {
            if (lanes[r].n > lanes[longest_].n) longest_ = r;
        }
        n_ = lanes[longest_].n;
        const int64_t padded = N * static_cast<int64_t>(g_.Kp);
        y_ = scratch.array<In>(padded);
        column_ = scratch.array<In>(padded);
        rows_ = scratch.array<In>(size_ * n_);
        few_rows_ = scratch.array<In>(kTable * kTable);
        if (!scores_.open(d_, scratch) || !y_ || !column_ || !rows_ || !few_rows_) return false;
        const int K = g_.K;
        if (in_.c.per_edge) {
            edges_ = scratch.array<In>(size_ * K);
            from_ = scratch.array<In>(size_ * n_);
            return edges_ && from_;
        }
        for (int l = 0; CENTRED && K <= kTable && l < K; ++l) {  // rows alone need none
            for (int k = 0; k < K; ++k) few_rows_[l * kTable + k] = in_.transition[l * K + k];
        }
        return true;
    }

    // Rows. False: cancelled.
    bool forward(Ticker& ticker) {
        int64_t stops[4 * N + 1];
        const int n_stops = forward_stops(d_, lanes_, m_, stops);
        for (int64_t i = 0, end; i < n_; i = end) {
            end = next_stop(stops, n_stops, i, n_);
            scores_.aim(d_, lanes_, m_, longest_, i);
            if (!advance(ticker, i, end)) return false;
        }
        return true;
    }

    // States, into `states` (N,) where they belong to a lane's own part, and scores. False:
    // cancelled.
    bool backward(Ticker& ticker, int64_t* states) {
        for (int r = 0; r < N; ++r) {
            state_[r] = 0;
            value_[r] = rest_[r] = 0.0;
        }
        for (int64_t i = n_ - 1; i >= 0;) {
            begin(i);
            int64_t first = 0;  // the last of those that go alike
            int own[N], m = 0;
            bool decorated = false;
            for (int r = 0; r < m_; ++r) {
                const BestLane<In>& s = lanes_[r];
                const bool head = s.head && in_.start, tail = s.tail && in_.end;
                if (s.enter <= i && i < s.last && !s.dead) own[m++] = r;
                decorated |= (head && i == 0) || (tail && i == s.n - 1);
                for (const int64_t at : {s.n - 1, s.n - (tail ? 2 : 1), s.last - 1, s.enter - 1,
                                         int64_t{head ? 0 : -1}}) {
                    if (at < i && at + 1 > first) first = at + 1;
                }
            }
            if (!retreat(ticker, i, first, own, m, decorated, states)) return false;
            for (int r = 0; r < m_; ++r) {
                if (first > 0 && first == lanes_[r].enter && !lanes_[r].dead) {
                    lanes_[r].into = state_[r];
                }
            }
            i = first - 1;
        }
        for (int r = 0; r < m_ && scored_; ++r) {
            lanes_[r].score = lanes_[r].dead ? -INFINITY : value_[r] + rest_[r];
        }
        return true;
    }

    // Rows of all lanes into to[0..m), (n, Kp) of each.
    void rows(In* const* to) const {
        In* at[N];
        In* unread = y_;  // of lanes that are none, or have ended
        for (int r = 0; r < m_; ++r) {
            for (int64_t k = 0; k < lanes_[r].n * g_.Kp; ++k) to[r][k] = Input<In>::forbidden();
        }
        for (int64_t i = 0; i < n_; ++i) {
            for (int r = 0; r < N; ++r) {
                at[r] = r < m_ && i < lanes_[r].n ? to[r] + i * g_.Kp : unread;
            }
            unweave<In, N>(rows_ + i * size_, g_.K, at);
        }
    }
    // Row i of lane r into `to` (Kp,).
    void row(int r, int64_t i, In* to) const {
        const In* const v = rows_ + i * size_ + r;
        for (int k = 0; k < g_.Kp; ++k) to[k] = k < g_.K ? v[k * N] : Input<In>::forbidden();
    }

  private:
    static constexpr int64_t kMostLabels =
        sizeof(In) == 4 ? vs::kBestAbreast32 : vs::kBestAbreast64;
    static constexpr int kTable = 16;  // a row that is looked up
    static constexpr int kAtATime = 4;
    static constexpr int kWide = N / W::N;
    static constexpr int64_t kAtOnce = ScoresAbreast<BestScores<In>>::kAtOnce;

    // Rows [i, end), in which nothing begins or ends.
    bool advance(Ticker& ticker, int64_t i, int64_t end) {
        const V lowest = V::set1(Input<In>::forbidden());
        const V finite = V::set1(ExpConst<In>::kMostNegative);
        for (int64_t rows; i < end; i += rows) {
            rows = end - i < kAtOnce ? end - i : kAtOnce;
            const In* x = scores_.look(d_, rows);
            In* v = rows_ + i * size_;
            for (int64_t j = 0; j < rows; ++j, x += size_, v += size_) {
                const bool joins = i + j > 0;
                if (joins) send(v - size_, i + j);
                V high[kAtATime];  // no row waits for one maximum after the other
                each<kAtATime>([&](auto q) VS_INLINE_LAMBDA { high[q] = lowest; });
                for (int k = 0; k < size_;) {
                    each<kAtATime>([&](auto q) VS_INLINE_LAMBDA {
                        if (k >= size_) return;
                        const V z = joins ? V::load(y_ + k) + V::load(x + k) : V::load(x + k);
                        high[q] = V::max(high[q], z);
                        z.store(v + k);
                        k += N;
                    });
                }
                if (!CENTRED) continue;
                const V top = fold_apart<MaxSum>(high), most = V::where_ge(top, finite, top);
                for (int k = 0; k < size_; k += N) (V::load(v + k) - most).store(v + k);
            }
            if (!ticker.go_on(m_ * rows)) return false;
        }
        return true;
    }

    // y_ = messages out of the rows v into position i.
    VS_INLINE void send(const In* v, int64_t i) {
        if (!in_.c.per_edge) return send_abreast<MaxSum>(g_, tiles(), v, y_);
        const int64_t entries = static_cast<int64_t>(g_.K) * g_.K;
        const In* from[N];
        for (int r = 0; r < N; ++r) {
            const BestLane<In>& s = lanes_[r < m_ && i < lanes_[r].n ? r : longest_];
            from[r] = in_.transition + (s.edge + i) * entries;
        }
        weave<In, N>(from, entries, edges_);
        int k = 0;
        for (; k + kAtATime <= g_.K; k += kAtATime) columns_of<kAtATime>(v, k, i);
        for (; k < g_.K; ++k) columns_of<1>(v, k, i);
    }
    // M of them, and the first label that each of these comes from.
    template <int M>
    VS_INLINE void columns_of(const In* v, int k, int64_t i) {
        V best[M], from[M];
        const In* e = edges_ + (size_ * (g_.K - 1) + k * N);
        each<M>([&](auto j) VS_INLINE_LAMBDA {
            best[j] = V::set1(Input<In>::forbidden());
            from[j] = V::set1(In(0));
        });
        for (int l = g_.K - 1; l >= 0; --l, e -= size_) {
            const V x = V::load(v + l * N), label = V::set1(static_cast<In>(l));
            each<M>([&](auto j) VS_INLINE_LAMBDA {
                const V z = x + V::load(e + j * N);
                from[j] = from[j] - V::where_ge(z, best[j], from[j] - label);
                best[j] = V::max(best[j], z);
            });
        }
        each<M>([&](auto j) VS_INLINE_LAMBDA {
            best[j].store(y_ + (k + j) * N);
            from[j].store(from_ + i * size_ + (k + j) * N);
        });
    }

    // Lanes whose last row is that of position i start from its largest entry.
    void begin(int64_t i) {
        int best[N];
        bool found = false;
        for (int r = 0; r < m_; ++r) {
            BestLane<In>& s = lanes_[r];
            if (s.n - 1 != i) continue;
            const In* const v = rows_ + i * size_;
            if (!found) read(first_largest(v), best);
            found = true;
            state_[r] = best[r];
            value_[r] = rest_[r] = 0.0;
            s.dead = !(v[best[r] * N + r] > Input<In>::forbidden());
        }
    }

    // States of positions i down to `first`, of lanes own[0..m), and the step before that.
    bool retreat(Ticker& ticker, int64_t i, int64_t first, const int* own, int m, bool decorated,
                 int64_t* states) {
        const auto go = [&](auto few) {
            return scored_ ? retreat_by<few, true>(ticker, i, first, own, m, decorated, states)
                           : retreat_by<few, false>(ticker, i, first, own, m, decorated, states);
        };
        if constexpr (Lookup<In>::kThere) {
            if (in_.c.per_edge) return go(std::integral_constant<int, 0>());
            if (g_.K <= 8) return go(std::integral_constant<int, 8>());
            if (g_.K <= kTable) return go(std::integral_constant<int, kTable>());
        }
        return go(std::integral_constant<int, 0>());
    }
    // FEW: labels at most whose columns are looked up, or 0.
    template <int FEW, bool SCORED>
    bool retreat_by(Ticker& ticker, int64_t i, int64_t first, const int* own, int m, bool decorated,
                    int64_t* states) {
        const In* scores[N];
        int64_t step[N];
        int64_t* to[N];
        for (int r = 0; r < N; ++r) {
            const BestLane<In>& s = lanes_[r < m_ ? r : longest_];
            const bool begun = i < s.n;
            scores[r] = in_.unary + (s.begin + (begun ? i : 0)) * g_.K;
            step[r] = begun ? g_.K : 0;
        }
        for (int j = 0; j < m; ++j) to[j] = states + lanes_[own[j]].begin;
        // Scores are added as vectors some steps later, when none is on its way to memory.
        constexpr int kLater = 16 * N;
        double later[kLater + N];
        int count = 0;
        V state = written(state_);
        bool go = true;
        for (; i >= first && go; --i) {
            for (int j = 0; j < m; ++j) to[j][i] = state_[own[j]];
            if (SCORED) {
                double* const x = later + count;
                for (int r = 0; r < N; ++r) {
                    x[r] = static_cast<double>(scores[r][state_[r]]);
                    scores[r] -= step[r];
                }
                if (decorated) decorate(i, x);
                count += N;
            }
            if (i == 0) break;
            int after[N];
            for (int r = 0; r < N; ++r) after[r] = state_[r];
            if (from_) {
                const In* const x = from_ + i * size_;
                for (int r = 0; r < N; ++r) state_[r] = static_cast<int>(x[state_[r] * N + r]);
            } else {
                state = come_from<FEW>(rows_ + (i - 1) * size_, state);
                read(state, state_);
            }
            if (SCORED) {
                double* const x = later + count;
                for (int r = 0; r < N; ++r) {
                    const BestLane<In>& s = lanes_[r < m_ && i < lanes_[r].n ? r : longest_];
                    const int64_t edge = in_.c.per_edge ? s.edge + i : 0;
                    x[r] = static_cast<double>(
                        in_.transition[(edge * g_.K + state_[r]) * g_.K + after[r]]);
                }
                count += N;
                if (count >= kLater) add(later, &count);
            }
            go = ticker.go_on(m_);
        }
        add(later, &count);
        return go;
    }
    // Adds x (count / N, N) to the scores of lanes.
    void add(const double* x, int* count) {
        W value[kWide], rest[kWide];
        each<kWide>([&](auto q) VS_INLINE_LAMBDA {
            value[q] = W::load(value_ + q * W::N);
            rest[q] = W::load(rest_ + q * W::N);
        });
        for (int j = 0; j < *count; j += N) {
            each<kWide>([&](auto q) VS_INLINE_LAMBDA {
                vs::add_to(value[q], rest[q], W::load(x + j + q * W::N));
            });
        }
        each<kWide>([&](auto q) VS_INLINE_LAMBDA {
            value[q].store(value_ + q * W::N);
            rest[q].store(rest_ + q * W::N);
        });
        *count = 0;
    }
    // The scores of states at either end of sequences.
    void decorate(int64_t i, double* x) const {
        for (int r = 0; r < m_; ++r) {
            const BestLane<In>& s = lanes_[r];
            if (i >= s.n) continue;
            x[r] = static_cast<double>(
                in_.score(s.begin + i, state_[r], s.head && i == 0, s.tail && i == s.n - 1));
        }
    }

    // States of lanes, as numbers of their type.
    static VS_INLINE void read(V state, int* label) {
        In number[N];
        state.store(number);
        for (int r = 0; r < N; ++r) label[r] = static_cast<int>(number[r]);
    }
    static VS_INLINE V written(const int* label) {
        In number[N];
        for (int r = 0; r < N; ++r) number[r] = static_cast<In>(label[r]);
        return V::load(number);
    }
    // From the state of each lane to the one before it, by the rows v there.
    template <int FEW>
    VS_INLINE V come_from(const In* v, V state) {
        if constexpr (FEW > 0) {
            const Lookup<In> at(state);
            V x[FEW];
            each<FEW>([&](auto l) VS_INLINE_LAMBDA {
                x[l] = V::set1(Input<In>::forbidden());
                if (l < g_.K) x[l] = V::load(v + l * N) + at(few_rows_ + l * kTable);
            });
            return first_of(x);
        } else {
            const In* from[N];
            for (int r = 0; r < N; ++r) {
                from[r] = columns() + static_cast<int64_t>(state_[r]) * g_.Kp;
            }
            weave<In, N>(from, g_.Kp, column_);
            for (int k = 0; k < size_; k += N) {
                (V::load(v + k) + V::load(column_ + k)).store(column_ + k);
            }
            return first_largest(column_);
        }
    }
    // The first of the largest of x, for each lane: the one from which on there are most labels.
    template <int M>
    static VS_INLINE V first_of(const V (&x)[M]) {
        V most[M], left[M];
        each<M>([&](auto l) VS_INLINE_LAMBDA { most[l] = x[l]; });
        const V top = fold_apart<MaxSum>(most);
        each<M>([&](auto l) VS_INLINE_LAMBDA {
            left[l] = V::where_equal(x[l], top, V::set1(static_cast<In>(M - l)));
        });
        return V::set1(static_cast<In>(M)) - fold_apart<MaxSum>(left);
    }
    // The same of x (K, N).
    VS_INLINE V first_largest(const In* x) const {
        const V labels = V::set1(static_cast<In>(g_.K)), one = V::set1(In(1));
        V top = V::load(x), left = labels, most = V::set1(In(0));
        for (int k = N; k < size_; k += N) top = V::max(top, V::load(x + k));
        for (int k = 0; k < size_; k += N) {
            most = V::max(most, V::where_equal(V::load(x + k), top, left));
            left = left - one;
        }
        return labels - most;
    }
    const In* tiles() const { return static_cast<const In*>(table_->tiles); }
    const In* columns() const { return static_cast<const In*>(table_->columns); }

    const Input<In>& in_;
    const vs::Scores* table_;
    const Tiling<In> g_;
    const BestScores<In> d_;
    const int64_t size_;  // of the rows of one position
    ScoresAbreast<BestScores<In>> scores_;
    BestLane<In>* lanes_ = nullptr;
    int m_ = 0, longest_ = 0;
    int64_t n_ = 0;
    bool scored_ = false;
    In *y_ = nullptr, *column_ = nullptr, *rows_ = nullptr;  // (Kp, N), (Kp, N), (n, K, N)
    In* few_rows_ = nullptr;  // (kTable, kTable) the table, where it has few labels
    In* edges_ = nullptr;     // (K, K, N) tables of edges that have one each
    In* from_ = nullptr;      // (n, K, N) where labels come from along these
    int state_[N];
    double value_[N], rest_[N];
};

}  // namespace VS_NS
