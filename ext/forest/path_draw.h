// States that are drawn by forward messages of chains, one or several in the lanes of vectors.
#pragma once

#include <cstring>

#include "forest/path_abreast.h"
#include "forest/path_pass.h"
#include "simd/each.h"
#include "simd/lookup.h"

namespace VS_NS {

// Numbers that draw() needs: weights, and their sums by blocks of so many.
constexpr int kDrawBlock = 8;
inline int64_t draw_size(int64_t stride) {
    return stride + kDrawBlock + (stride + kDrawBlock) / kDrawBlock;
}

// The state k at which sum_{j <= k} weight_j first exceeds u sum_j weight_j; `weight`: see
// draw_size. Blocks are added up before they are looked into, so that few additions wait for
// others, and entries are counted, since no processor guesses where a sum exceeds a random number.
template <class D>
int draw(const D& d, const typename D::T* a, const typename D::T* message, double u,
         double* weight) {
    constexpr int kBlock = kDrawBlock;
    d.weights(a, message, weight);
    int K = d.K;
    for (; K % kBlock; ++K) weight[K] = 0.0;
    double* const until = weight + K;  // the sum of blocks up to each
    const int blocks = K / kBlock;
    double total = 0.0;
    for (int b = 0; b < blocks; ++b) {
        const double* w = weight + b * kBlock;
        total += ((w[0] + w[1]) + (w[2] + w[3])) + ((w[4] + w[5]) + (w[6] + w[7]));
        until[b] = total;
    }
    const double target = u * total;
    int block = 0;
    for (int b = 0; b < blocks; ++b) block += target < until[b] ? 0 : 1;
    if (block == blocks) {  // u is next to 1: the last block that has weight
        do --block;
        while (block > 0 && !(until[block] > until[block - 1]));
    }
    const double* w = weight + block * kBlock;
    double sum = block > 0 ? until[block - 1] : 0.0;
    int k = 0;
    for (int j = 0; j < kBlock; ++j) {
        sum += w[j];
        k += target < sum ? 0 : 1;
    }
    if (k == kBlock) {  // the same within a block, whose sum was rounded otherwise
        do --k;
        while (k > 0 && !(w[k] > 0.0));
    }
    return block * kBlock + k;
}

// Whose message a state that is known sends: that of the end of an edge, or of its beginning.
enum class DrawsBy { kColumns, kRows };

// A draw in each lane of vectors: the operations of draw() in their order.
template <class D>
class DrawsAbreast {
  public:
    using T = typename D::T;
    using V = Vec<T>;
    using Wide = Vec<double>;
    static constexpr int N = V::N, kWide = N / Wide::N, kBlock = kDrawBlock;

    // A row that is looked up.
    static constexpr int kTable = 16;

    bool open(const D& d, DrawsBy by, vs::Scratch& scratch) {
        const int64_t rows = (d.K + kBlock - 1) / kBlock;
        column_ = scratch.array<T>(2 * N * static_cast<int64_t>(d.Kp));
        each_ = column_ + N * static_cast<int64_t>(d.Kp);
        row_ = scratch.array<T>(2 * static_cast<int64_t>(d.Kp));
        weight_ = scratch.array<double>(rows * kBlock * N);
        until_ = scratch.array<double>(rows * N);
        one_ = scratch.array<double>(draw_size(d.Kp));
        table_ = scratch.array<T>(kTable * kTable);
        if (!column_ || !row_ || !weight_ || !until_ || !one_ || !table_) return false;
        d.ones(row_ + d.Kp);
        if (d.in.c.per_edge) return true;  // row() is told the tables
        messages_ =
            by == DrawsBy::kRows ? d.row_message(0, 0, nullptr) : d.column_message(0, 0, nullptr);
        for (int k = 0; looks_up(d) && k < d.K; ++k) {
            for (int s = 0; s < kTable; ++s) {
                table_[k * kTable + s] = s < d.K ? messages_[s * int64_t{d.Kp} + k] : T(0);
            }
        }
        return true;
    }
    // (K, N): row a in each lane.
    const T* in_each(const D& d, const T* a) {
        for (int k = 0; k < d.K; ++k) V::set1(a[k]).store(each_ + k * N);
        return each_;
    }
    // k[r]: the state that draw() finds in lane r with u[r], out of a (K, N) times the message from
    // state k[r], or from none, -1. `tables` (K, K, N): of edges that have one each, or null.
    VS_INLINE void row(const D& d, const T* a, const T* tables, const double* u, int* k) {
        if constexpr (Lookup<T>::kThere) {
            int least = k[0];
            for (int r = 1; r < N; ++r) least = k[r] < least ? k[r] : least;
            if (least >= 0 && looks_up(d)) {
                const Lookup<T> at(k);
                const auto message = [&](int j)
                                         VS_INLINE_LAMBDA { return at(table_ + j * kTable); };
                return d.K > kBlock ? row_of_few<2>(d, a, message, u, k)
                                    : row_of_few<1>(d, a, message, u, k);
            }
        }
        if (messages_) {
            const T* messages[N];
            read_messages(d, k, messages);
            weave<T, N>(messages, d.K, column_);
        } else {
            columns_of(d.K, tables, k);
        }
        const auto message = [&](int j) VS_INLINE_LAMBDA { return V::load(column_ + j * N); };
        if (d.K <= kBlock) return row_of_few<1>(d, a, message, u, k);
        if (d.K <= 2 * kBlock) return row_of_few<2>(d, a, message, u, k);
        row_of_many(d, a, u, k);
    }

  private:
    bool looks_up(const D& d) const { return messages_ && Lookup<T>::kThere && d.K <= kTable; }
    void columns_of(int K, const T* tables, const int* next) {
        for (int r = 0; r < N; ++r) {
            const T* const from = next[r] < 0 ? nullptr : tables + int64_t{next[r]} * N + r;
            for (int64_t l = 0; l < K; ++l) column_[l * N + r] = from ? from[l * K * N] : T(1);
        }
    }
    void read_messages(const D& d, const int* next, const T** messages) const {
        for (int r = 0; r < N; ++r) {
            messages[r] = next[r] < 0 ? row_ + d.Kp : messages_ + next[r] * int64_t{d.Kp};
        }
    }
    VS_INLINE void row_of_many(const D& d, const T* a, const double* u, int* k) {
        const int K = d.K, blocks = (K + kBlock - 1) / kBlock;
        const Wide zero = Wide::set1(0.0), one = Wide::set1(1.0);
        Wide total[kWide], found[kWide];
        for (int q = 0; q < kWide; ++q) total[q] = zero;
        for (int b = 0; b < blocks; ++b) {
            Wide w[kBlock][kWide];
            each<kBlock>([&](auto j) VS_INLINE_LAMBDA {
                const int at = b * kBlock + j;
                for (int q = 0; q < kWide; ++q) w[j][q] = zero;
                if (at >= K) return;
                Wide x[kWide], y[kWide];
                widen(V::load(a + at * N), x);
                widen(V::load(column_ + at * N), y);
                for (int q = 0; q < kWide; ++q) {
                    w[j][q] = x[q] * y[q];
                    w[j][q].store(weight_ + at * N + q * Wide::N);
                }
            });
            for (int q = 0; q < kWide; ++q) {
                total[q] = total[q] + (((w[0][q] + w[1][q]) + (w[2][q] + w[3][q])) +
                                       ((w[4][q] + w[5][q]) + (w[6][q] + w[7][q])));
                total[q].store(until_ + b * N + q * Wide::N);
            }
        }
        unsigned unusual = 0;
        for (int q = 0; q < kWide; ++q) {
            const int at = q * Wide::N;
            const Wide target = Wide::load(u + at) * total[q];
            Wide block = zero;
            for (int b = 0; b < blocks; ++b) {
                block = block + Wide::where_ge(target, Wide::load(until_ + b * N + at), one);
            }
            // The states before the first sum above the target in each block; those of the block
            // that has the target stay, and where this block ends.
            Wide before = zero, end = zero;
            found[q] = zero;
            for (int b = 0; b < blocks; ++b) {
                const int first = b * kBlock, last = K < first + kBlock ? K : first + kBlock;
                Wide sum = b > 0 ? Wide::load(until_ + (b - 1) * N + at) : zero;
                Wide states = Wide::set1(static_cast<double>(first));
                for (int j = first; j < last; ++j) {
                    sum = sum + Wide::load(weight_ + j * N + at);
                    states = states + Wide::where_ge(target, sum, one);
                }
                const Wide here = Wide::set1(static_cast<double>(b));
                found[q] = found[q] + Wide::where_ge(block, here, states - before);
                end = end +
                      Wide::where_ge(block, here, Wide::set1(static_cast<double>(last - first)));
                before = states;
            }
            unusual |= (found[q].ge(end) | block.ge(Wide::set1(static_cast<double>(blocks)))) << at;
        }
        answer(d, a, u, found, unusual, k);
    }

    // The same for states of one block or two, which stay in registers: the next draws wait for
    // these. message(j): entry j of each lane's.
    template <int kBlocks, class Message>
    VS_INLINE void row_of_few(const D& d, const T* a, const Message& message, const double* u,
                              int* k) {
        const int K = d.K;
        const Wide zero = Wide::set1(0.0), one = Wide::set1(1.0);
        Wide w[kBlocks * kBlock][kWide], found[kWide];
        each<kBlocks * kBlock>([&](auto j) VS_INLINE_LAMBDA {
            for (int q = 0; q < kWide; ++q) w[j][q] = zero;
            if (j >= K) return;
            Wide x[kWide], y[kWide];
            widen(V::load(a + j * N), x);
            widen(message(j), y);
            for (int q = 0; q < kWide; ++q) w[j][q] = x[q] * y[q];
        });
        const Wide most = Wide::set1(static_cast<double>(K));
        unsigned unusual = 0;
        for (int q = 0; q < kWide; ++q) {
            const int at = q * Wide::N;
            const auto sum_of = [&](int f) VS_INLINE_LAMBDA {
                return ((w[f][q] + w[f + 1][q]) + (w[f + 2][q] + w[f + 3][q])) +
                       ((w[f + 4][q] + w[f + 5][q]) + (w[f + 6][q] + w[f + 7][q]));
            };
            const Wide first = sum_of(0);
            const Wide total = kBlocks > 1 ? first + sum_of((kBlocks - 1) * kBlock) : first;
            const Wide target = Wide::load(u + at) * total;
            // States before the first sum above the target, by blocks.
            Wide states[kBlocks];
            each<kBlocks>([&](auto b) VS_INLINE_LAMBDA {
                Wide sum = b > 0 ? first : zero, even = zero, odd = zero;
                each<kBlock>([&](auto i) VS_INLINE_LAMBDA {
                    constexpr int j = b * kBlock + i;
                    if (j >= K) return;
                    sum = sum + w[j][q];
                    Wide& count = i % 2 == 0 ? even : odd;
                    count = count + Wide::where_ge(target, sum, one);
                });
                states[b] = even + odd;
            });
            found[q] = states[0];
            Wide end = most;
            if constexpr (kBlocks > 1) {
                const Wide eight = Wide::set1(static_cast<double>(kBlock));
                found[q] = found[q] + Wide::where_ge(target, first, eight + states[1] - states[0]);
                end = eight + Wide::where_ge(target, first, most - eight);
            }
            unusual |= (found[q].ge(end) | target.ge(total)) << at;
        }
        answer(d, a, u, found, unusual, k);
    }
    VS_INLINE void answer(const D& d, const T* a, const double* u, const Wide* found,
                          unsigned unusual, int* k) {
        if (unusual == 0) return whole(found, k);
        const T* messages[N] = {};
        if (messages_) read_messages(d, k, messages);
        whole(found, k);
        draw_apart(d, a, messages, u, unusual, k);
    }
    // Numbers from 0 on as integers: added to 2^52 they are its last bits.
    static VS_INLINE void whole(const Wide* found, int* k) {
        const Wide large = Wide::set1(0x1p52);
        double number[N];
        uint64_t bits[N];
        for (int q = 0; q < kWide; ++q) (found[q] + large).store(number + q * Wide::N);
        std::memcpy(bits, number, sizeof(number));
        for (int r = 0; r < N; ++r) k[r] = static_cast<int>(static_cast<uint32_t>(bits[r]));
    }
    static void widen(Vec<double> x, Wide* out) { out[0] = x; }
    static void widen(Vec<float> x, Wide* out) { x.widen(out); }
    // Lanes whose u is next to 1.
    void draw_apart(const D& d, const T* a, const T* const* message, const double* u,
                    unsigned lanes, int* k) {
        for (int r = 0; r < N; ++r) {
            if (!(lanes >> r & 1u)) continue;
            const T* own = message[r];
            for (int i = 0; i < d.K; ++i) row_[i] = a[i * N + r];
            if (!messages_) {  // columns_of() has made it, where ones are otherwise
                for (int i = 0; i < d.K; ++i) row_[d.Kp + i] = column_[i * N + r];
                own = row_ + d.Kp;
            }
            k[r] = draw(d, row_, own, u[r], one_);
        }
    }

    T *column_, *each_, *row_;     // (K, N) messages side by side, a row; (2, Kp) a row, and ones
    T* table_;                     // (kTable, kTable) messages, by entry and state
    const T* messages_ = nullptr;  // (K, Kp) the same, by state; null: there is a table an edge
    double *weight_, *until_, *one_;
};

// Scores are of the type of messages: nobody draws from those that were narrowed.
template <class D>
constexpr bool kDrawAbreast = kGoAbreast<D> && std::is_same<typename D::In, typename D::T>::value;

// Samples of one variable, one in each lane of vectors.
template <class D, bool = kDrawAbreast<D>>
class SamplesAbreast {
  public:
    using T = typename D::T;
    bool open(const D&, int64_t, DrawsBy, vs::Scratch&) { return true; }
    int64_t draw(const D&, const T*, const double*, int64_t, const int64_t*, int64_t, int64_t*,
                 int64_t) {
        return 0;
    }
};

template <class D>
class SamplesAbreast<D, true> {
  public:
    using T = typename D::T;
    static constexpr int N = Vec<T>::N;

    // False: no memory.
    bool open(const D& d, int64_t size, DrawsBy by, vs::Scratch& scratch) {
        size_ = size;
        on_ = 2 * size > N && !d.in.c.per_edge && Abreast<D>::serves(d);
        return !on_ || draws_.open(d, by, scratch);
    }
    // Draws from row a, where the state next to it is known or, null, none is. Numbers of one
    // sample and the next are so far apart. Returns for how many samples: others go one by one.
    int64_t draw(const D& d, const T* a, const double* uniforms, int64_t apart, const int64_t* next,
                 int64_t next_apart, int64_t* states, int64_t states_apart) {
        if (!on_) return 0;
        const T* const in_each = draws_.in_each(d, a);
        int64_t x = 0;
        for (; 2 * (size_ - x) > N; x += N) {
            const int m = static_cast<int>(size_ - x < N ? size_ - x : N);
            double u[N];
            int k[N];
            for (int r = 0; r < N; ++r) {
                const int64_t own = x + (r < m ? r : 0);
                u[r] = uniforms[own * apart];
                k[r] = next ? static_cast<int>(next[own * next_apart]) : -1;
            }
            draws_.row(d, in_each, nullptr, u, k);
            for (int r = 0; r < m; ++r) states[(x + r) * states_apart] = k[r];
            if (size_ - x <= N) return size_;
        }
        return x;
    }

  private:
    DrawsAbreast<D> draws_;
    int64_t size_ = 0;
    bool on_ = false;
};

}  // namespace VS_NS
