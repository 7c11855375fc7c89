// Viterbi of path_best.h for a chain of few labels that has none beside it: rows stay in registers.
// Numbers and states are those of Prefixes and BackTrace, since a maximum is the same in any order.
#pragma once

#include "core/sum.h"
#include "core/ticker.h"
#include "forest/path_best.h"
#include "rows/tile_few.h"

namespace VS_NS {

template <class In, int NV, bool LONE>
class LoneBestPass {
  public:
    using V = Vec<In>;
    static constexpr int N = V::N, W = LONE ? NV + 1 : NV;

    LoneBestPass(const Input<In>& in, const vs::Scores& table, const Tiling<In>& g,
                 BestLane<In>& lane, Ticker& ticker)
        : in_(in), table_(table), g_(g), s_(lane), ticker_(ticker), rest_(g.K - (W - 1) * N) {}

    // rows: (n + 1, Kp). False: cancelled.
    bool run(In* rows, int64_t* states) {
        V z[W];
        each<W>([&](auto w) VS_INLINE_LAMBDA { z[w] = V::set1(lowest()); });
        In* const composed = rows + s_.n * (W * N);
        for (int64_t i = 0; i < s_.n; ++i) {
            if (!ticker_.go_on()) return false;
            In* const v = rows + i * (W * N);
            add_scores(i, i > 0 ? v - W * N : nullptr, composed, z);
            const In top = highest(z);
            if (top > lowest()) {
                const V most = V::set1(top);
                each<W>([&](auto w) VS_INLINE_LAMBDA { z[w] = z[w] - most; });
            }
            each<W>([&](auto w) VS_INLINE_LAMBDA { z[w].store(v + w * N); });
        }
        int k = first_of(z, highest(z));
        s_.dead = k >= g_.K || !(rows[(s_.n - 1) * (W * N) + k] > lowest());
        if (s_.dead) {
            s_.score = -INFINITY;
            return true;
        }
        vs::Sum total;  // from the end on
        const In* const columns = static_cast<const In*>(table_.columns);
        for (int64_t i = s_.n - 1;; --i) {
            if (!ticker_.go_on()) return false;
            states[s_.begin + i] = k;
            total.add(static_cast<double>(in_.score(s_.begin + i, k, i == 0, i == s_.n - 1)));
            if (i == 0) break;
            const In *const x = rows + (i - 1) * (W * N), *const column = columns + k * (W * N);
            each<W>([&](auto w)
                        VS_INLINE_LAMBDA { z[w] = V::load(x + w * N) + V::load(column + w * N); });
            const int before = first_of(z, highest(z));
            total.add(static_cast<double>(in_.edge_score(0, before, k)));
            k = before;
        }
        s_.score = total.total();
        return true;
    }

  private:
    static In lowest() { return Input<In>::forbidden(); }

    // z = the scores of position i and, where there is one, the message of the row x.
    VS_INLINE void add_scores(int64_t i, const In* x, In* composed, V* z) const {
        const bool head = i == 0, tail = i == s_.n - 1;
        const In* u = in_.unary + (s_.begin + i) * g_.K;
        if (in_.decorated(head, tail)) {
            for (int k = 0; k < g_.K; ++k) {
                composed[k] = in_.template score_in<In>(s_.begin + i, k, head, tail);
            }
            u = composed;
        }
        each<W - 1>([&](auto w) VS_INLINE_LAMBDA { z[w] = V::load(u + w * N); });
        z[W - 1] = V::load_part(u + (W - 1) * N, rest_, lowest());
        if (x == nullptr) return;
        V y[W];
        message_of_few<MaxSum, NV, LONE>(g_, static_cast<const In*>(table_.tiles), x, y);
        each<W>([&](auto w) VS_INLINE_LAMBDA { z[w] = y[w] + z[w]; });
    }
    static VS_INLINE In highest(const V* z) {
        V high = z[0];
        each<W - 1>([&](auto w) VS_INLINE_LAMBDA { high = V::max(high, z[w + 1]); });
        return high.hmax();
    }
    static VS_INLINE int first_of(const V* z, In high) {
        const V limit = V::set1(high);
        for (int w = 0; w < W; ++w) {
            if (const unsigned lanes = z[w].ge(limit)) return w * N + vs_first_bit(lanes);
        }
        return W * N;
    }

    const Input<In>& in_;
    const vs::Scores& table_;
    const Tiling<In>& g_;
    BestLane<In>& s_;
    Ticker& ticker_;
    const int rest_;  // numbers of the last vector
};

}  // namespace VS_NS
