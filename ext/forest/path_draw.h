// Samples of chains: forward messages, then states from the last one back.
#pragma once

#include "forest/path_abreast.h"
#include "forest/path_pass.h"
#include "simd/each.h"

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

// A draw in each lane of vectors: the operations of draw() in their order.
template <class D>
class DrawsAbreast {
  public:
    using T = typename D::T;
    using V = Vec<T>;
    using Wide = Vec<double>;
    static constexpr int N = V::N, kWide = N / Wide::N, kBlock = kDrawBlock;

    bool open(const D& d, vs::Scratch& scratch) {
        const int64_t rows = (d.K + kBlock - 1) / kBlock;
        column_ = scratch.array<T>(2 * N * static_cast<int64_t>(d.Kp));
        each_ = column_ + N * static_cast<int64_t>(d.Kp);
        row_ = scratch.array<T>(2 * static_cast<int64_t>(d.Kp));
        weight_ = scratch.array<double>(rows * kBlock * N);
        until_ = scratch.array<double>(rows * N);
        one_ = scratch.array<double>(draw_size(d.Kp));
        if (!column_ || !row_ || !weight_ || !until_ || !one_) return false;
        d.ones(row_ + d.Kp);
        return true;
    }
    // (K, N): row a in each lane.
    const T* in_each(const D& d, const T* a) {
        for (int k = 0; k < d.K; ++k) V::set1(a[k]).store(each_ + k * N);
        return each_;
    }
    // Stands for a message where there is none.
    const T* ones(const D& d) const { return row_ + d.Kp; }

    // k[r]: the state that draw() finds in lane r with u[r], out of a (K, N) times message[r].
    VS_INLINE void row(const D& d, const T* a, const T* const* message, const double* u, int* k) {
        const int K = d.K, blocks = (K + kBlock - 1) / kBlock;
        const Wide zero = Wide::set1(0.0), one = Wide::set1(1.0);
        weave<T, N>(message, K, column_);
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
        double state[N];
        for (int q = 0; q < kWide; ++q) found[q].store(state + q * Wide::N);
        for (int r = 0; r < N; ++r) k[r] = static_cast<int>(state[r]);
        if (unusual != 0) draw_apart(d, a, message, u, unusual, k);
    }

  private:
    static void widen(Vec<double> x, Wide* out) { out[0] = x; }
    static void widen(Vec<float> x, Wide* out) { x.widen(out); }
    // Lanes whose u is next to 1.
    void draw_apart(const D& d, const T* a, const T* const* message, const double* u,
                    unsigned lanes, int* k) {
        for (int r = 0; r < N; ++r) {
            if (!(lanes >> r & 1u)) continue;
            for (int i = 0; i < d.K; ++i) row_[i] = a[i * N + r];
            k[r] = draw(d, row_, message[r], u[r], one_);
        }
    }

    T *column_, *each_, *row_;  // (K, N) messages side by side, a row; (2, Kp) a row, and ones
    double *weight_, *until_, *one_;
};

// Scores are of the type of messages: nobody draws from those that were narrowed.
template <class D>
constexpr bool kDrawAbreast = kGoAbreast<D> && std::is_same<typename D::In, typename D::T>::value;

// Samples of one position, one in each lane of vectors.
template <class D, bool = kDrawAbreast<D>>
class SamplesAbreast {
  public:
    bool open(const D&, int64_t, vs::Scratch&) { return true; }
    int64_t draw(vs::PathPass*, const D&, const Lane<D>&, int64_t) { return 0; }
};

template <class D>
class SamplesAbreast<D, true> {
  public:
    using T = typename D::T;
    static constexpr int N = Vec<T>::N;

    bool open(const D& d, int64_t size, vs::Scratch& scratch) {
        on_ = 2 * size > N && Abreast<D>::serves(d);
        return !on_ || draws_.open(d, scratch);
    }
    // Draws states of position i of a lane, and returns for how many samples.
    int64_t draw(vs::PathPass* pass, const D& d, const Lane<D>& s, int64_t i) {
        if (!on_) return 0;
        const int64_t n = pass->model.arrays.n_positions, size = pass->size;
        const T* const a = draws_.in_each(d, s.alpha + i * s.stride);
        int64_t x = 0;
        for (; 2 * (size - x) > N; x += N) {
            const int m = static_cast<int>(size - x < N ? size - x : N);
            const int64_t at = x * n + s.begin + i;
            const T* message[N];
            double u[N];
            int k[N];
            for (int r = 0; r < N; ++r) {
                const int64_t own = at + (r < m ? r : 0) * n;
                u[r] = pass->uniforms[own];
                message[r] = i + 1 < s.n ? d.column_message(
                                               0, static_cast<int>(pass->states[own + 1]), nullptr)
                                         : draws_.ones(d);
            }
            draws_.row(d, a, message, u, k);
            for (int r = 0; r < m; ++r) pass->states[at + r * n] = k[r];
            if (size - x <= N) return size;
        }
        return x;
    }

  private:
    DrawsAbreast<D> draws_;
    bool on_ = false;
};

// Whether forward messages know their own error.
template <class D>
bool know_alone(const D& d) {
    return D::kUnit == 1.0 || sizeof(typename D::T) == 8 || !d.floors();
}

// Samples of sequences of few labels, one in each lane of vectors. Returns how many are left to
// the others, which move to the front; -1: cancelled.
template <class D>
int sample_abreast(vs::PathPass* pass, Exact<D>& engine, D& d, Ticker& ticker, Lane<D>* lanes,
                   int64_t* sequence, int m, vs::Scratch& scratch) {
    using T = typename D::T;
    constexpr int N = Abreast<D>::N;
    const vs::Chains& c = pass->model.arrays;
    if (2 * m <= N || m > N || !know_alone(d) || !Abreast<D>::serves(d)) return m;
    int64_t longest = 0, all = 0;
    for (int r = 0; r < m; ++r) {
        const int64_t n = c.offset[sequence[r] + 1] - c.offset[sequence[r]];
        longest = n > longest ? n : longest;
        all += n;
    }
    if (all == 0 || longest * N > 2 * all) return m;  // lanes that have ended work for nothing
    const vs::Scratch::Mark mark = scratch.mark();
    bool ok = true;
    for (int r = 0; r < m && ok; ++r) {
        ok = lane_init(lanes[r], d, c, sequence[r], typename D::Row(), scratch);
    }
    Abreast<D> group;
    DrawsAbreast<D> draws;
    if (!ok || !draws.open(d, scratch) ||
        !group.open(lanes, m, Keep::kForward, nullptr, nullptr, d, scratch)) {
        scratch.rewind(mark);
        return m;
    }
    if (!group.forward(engine, d, ticker)) return -1;
    bool well[N];
    for (int r = 0; r < N; ++r) well[r] = r < m && group.well(r) && lanes[r].log_end > D::kLeastEnd;
    constexpr int64_t kAhead = 8;
    int64_t* const states = pass->states;
    const T* message[N];
    double u[N];
    int64_t at[N];
    int k[N];
    for (int64_t i = longest - 1; i >= 0; --i) {
        for (int64_t x = 0; x < pass->size; ++x) {
            if (!ticker.go_on(m)) return -1;
            for (int r = 0; r < N; ++r) {
                const Lane<D>& s = lanes[r < m ? r : 0];
                const bool here = well[r] && i < s.n;
                at[r] = here ? x * c.n_positions + s.begin + i : -1;
                u[r] = here ? pass->uniforms[at[r]] : 0.0;
                if (here && i % kAhead == 0 && i >= kAhead) {  // the lines of the next positions
                    VS_PREFETCH_READ(pass->uniforms + at[r] - kAhead);
                    VS_PREFETCH_WRITE(states + at[r] - kAhead);
                }
                message[r] = here && i + 1 < s.n
                                 ? d.column_message(0, static_cast<int>(states[at[r] + 1]), nullptr)
                                 : draws.ones(d);
            }
            draws.row(d, group.kept(i), message, u, k);
            for (int r = 0; r < m; ++r) {
                if (at[r] >= 0) states[at[r]] = k[r];
            }
        }
    }
    int left = 0;
    for (int r = 0; r < m; ++r) {
        if (well[r]) {
            finish_lane(pass, d, lanes[r]);
        } else {
            sequence[left++] = sequence[r];
        }
    }
    scratch.rewind(mark);
    return left;
}

// Forward messages to draw from: of forward passes where these know their own error, else of
// passes both ways, of which one that went well proves them right.
template <class D>
bool sampled_messages(vs::PathPass* pass, Exact<D>& engine, D& d, Lane<D>* lanes,
                      const int64_t* sequence, int m, vs::Scratch& scratch) {
    using T = typename D::T;
    const auto init = [&](Lane<D>& s, int64_t which) {
        T* const alpha = s.alpha;
        const bool ok = lane_init(s, d, pass->model.arrays, which, typename D::Row(), scratch);
        s.alpha = alpha;
        return ok;
    };
    for (int r = 0; r < m; ++r) {
        Lane<D>& s = lanes[r];
        s.alpha = nullptr;
        if (!init(s, sequence[r])) return false;
        s.alpha = scratch.array<T>(s.n * s.stride);
    }
    if (scratch.failed) return false;
    const bool alone = know_alone(d);
    const bool finished = !alone || engine.group_forward(lanes, m, Role::kPass);
    for (int r = 0; r < m; ++r) {
        Lane<D>& s = lanes[r];
        if (!finished) s.status = vs::kCancelled;
        if (alone && s.status == vs::kOk && !(s.log_end > D::kLeastEnd)) s.status = vs::kWiden;
        if (alone && s.status != vs::kWiden) continue;
        if (!init(s, sequence[r])) return false;
        NoSink sink;
        if (!engine.group(&s, 1, sink)) s.status = vs::kCancelled;
        require_little_added(s);
    }
    return true;
}

// Backward sampling: x_n ~ alpha_n, then x_i ~ alpha_i(.) E(., x_{i+1}). Samples and sequences go
// along together, so that a draw need not wait for another.
template <class D>
void sample_task(vs::PathPass* pass, vs::Item item, int worker) {
    using T = typename D::T;
    const vs::Chains& c = pass->model.arrays;
    vs::Scratch& scratch = pass->scratch[worker];
    scratch.reset();
    const int64_t stride = Tiling<T>(c.n_labels).Kp;
    T* tmp = scratch.array<T>(3 * stride);
    double* weight = scratch.array<double>(draw_size(stride));
    int m = static_cast<int>(item.last - item.first);
    Lane<D> lanes[vs::kMostTogether];
    lanes[0].n = 0;  // no compiler knows that m > 0
    const auto end_all = [&](vs::Status status) {
        for (int64_t q = item.first; q < item.last; ++q) pass->status[pass->order[q]] = status;
    };
    if (scratch.failed) return end_all(vs::kNoMemory);
    std::memset(tmp, 0, sizeof(T) * static_cast<size_t>(3 * stride));
    const Input<typename D::In> in(c);
    const Packed<T> packed = packed_view<T>(*pass->packing);
    D d(in, packed, tmp);
    if (!d.open(scratch)) return end_all(vs::kNoMemory);
    Ticker ticker(pass->control, worker == 0, c.n_labels, D::kSlower);
    Exact<D> engine(d, ticker);
    int64_t sequence[vs::kMostTogether];
    for (int r = 0; r < m; ++r) sequence[r] = pass->order[item.first + r];
    if constexpr (kDrawAbreast<D>) {
        m = sample_abreast(pass, engine, d, ticker, lanes, sequence, m, scratch);
        if (m < 0) return end_all(vs::kCancelled);
        if (m == 0) return;
    }
    if (!sampled_messages(pass, engine, d, lanes, sequence, m, scratch)) {
        return end_all(vs::kNoMemory);
    }
    T* column = tmp + 2 * stride;
    int64_t* const states = pass->states;
    SamplesAbreast<D> abreast;
    if (!abreast.open(d, pass->size, scratch)) return end_all(vs::kNoMemory);
    for (int64_t i = lanes[0].n - 1; i >= 0; --i) {
        for (int q = 0; q < m; ++q) {
            Lane<D>& s = lanes[q];
            if (i >= s.n || s.status != vs::kOk) continue;
            for (int64_t r = abreast.draw(pass, d, s, i); r < pass->size; ++r) {
                if (!ticker.go_on()) return end_all(vs::kCancelled);
                const int64_t at = r * c.n_positions + s.begin + i;
                const T* message = nullptr;
                if (i + 1 < s.n) {
                    message =
                        d.column_message(s.edge + i, static_cast<int>(states[at + 1]), column);
                }
                states[at] = draw(d, s.alpha + i * stride, message, pass->uniforms[at], weight);
            }
        }
    }
    for (int q = 0; q < m; ++q) finish_lane(pass, d, lanes[q]);
}

}  // namespace VS_NS
