// A long chain of few labels, cut at islands into stretches of about the same length, one for each
// lane: the last position of one is the first of the next.
#pragma once

#include <cmath>

#include "forest/islands_abreast.h"
#include "forest/path_exact.h"

namespace VS_NS {

template <class D>
class Stretches {
  public:
    static constexpr int N = IslandsAbreast<D>::N;

    // False: there are no islands to cut it at, as far as it is looked at.
    bool cut(const D& d, const vs::Chains& c, int64_t sequence, double zeta, typename D::In* out) {
        const int64_t first = c.offset[sequence], n = c.offset[sequence + 1] - first;
        exponentiate(d);
        int64_t at[N + 1];
        at[0] = 0;
        at[N] = n - 1;
        for (int j = 1; j < N; ++j) {
            at[j] = near(d, first, n * (2 * j - 1) / (2 * N), n * (2 * j + 1) / (2 * N), zeta);
            if (at[j] < 0) return false;
        }
        int order[N];  // the longest first
        for (int j = 0; j < N; ++j) {
            int r = j;
            for (; r > 0 && at[order[r - 1] + 1] - at[order[r - 1]] < at[j + 1] - at[j]; --r) {
                order[r] = order[r - 1];
            }
            order[r] = j;
        }
        for (int r = 0; r < N; ++r) lane_of_[order[r]] = static_cast<int8_t>(r);
        for (int r = 0; r < N; ++r) {
            const int j = order[r];
            Lane<D>& s = lanes_[r];
            lane_begin(s, d, c, sequence, out);
            s.begin += at[j];
            s.n = s.last = at[j + 1] - at[j] + 1;
            s.edges = s.n - 1;
            s.head = j == 0;
            s.tail = j == N - 1;
            if (s.out) s.out = s.out + at[j] * d.K;
            after_[r] = s.tail ? int8_t{-1} : lane_of_[j + 1];
        }
        return true;
    }
    const Lane<D>* lanes() const { return lanes_; }
    // The lane that goes on from each, or -1; the lanes in the order of positions.
    const int8_t* after() const { return after_; }
    int lane(int j) const { return lane_of_[j]; }

  private:
    static constexpr int kMostLabels = static_cast<int>(vs::kMostInStretches);
    static constexpr int kSeen = 16;   // islands that are looked at for a cut
    static constexpr int kReach = 12;  // positions on each side that tell what they become
    struct Row {
        double x[kMostLabels];
    };

    // A cut that lies behind the middle of a range, or before it if there is none; -1: none.
    int64_t near(const D& d, int64_t begin, int64_t first, int64_t last, double zeta) const {
        const int64_t middle = first + (last - first) / 2;
        const int64_t behind = best_cut(d, begin, middle, last, zeta);
        return behind >= 0 ? behind : best_cut(d, begin, first, middle, zeta);
    }
    // The position among the first islands by local factors whose value has the largest share by an
    // exact pass over a few positions around: it is likely to stay what it is. -1: none.
    int64_t best_cut(const D& d, int64_t begin, int64_t first, int64_t last, double zeta) const {
        double most = 0.0;
        int64_t best = -1;
        for (int64_t i = first, seen = 0; i < last && seen < kSeen; ++i) {
            Row own;
            if (!(look(d, begin + i, own) >= zeta)) continue;
            ++seen;
            const double share = share_within(d, begin + i);
            if (!(share >= most)) continue;
            most = share;
            best = i;
        }
        return best;
    }
    // The local factor of a position, 1 at its mode, and the share of that; NaN where nothing is
    // possible.
    static double look(const D& d, int64_t position, Row& row) {
        d.in.compose(position, false, false, row.x);
        double most = row.x[0], sum = 0.0;
        for (int k = 1; k < d.K; ++k) most = row.x[k] > most ? row.x[k] : most;
        for (int k = 0; k < d.K; ++k) sum += row.x[k] = std::exp(row.x[k] - most);
        return 1.0 / sum;
    }
    // The share of the local mode of a position in its marginal, of the chain around it.
    double share_within(const D& d, int64_t position) const {
        Row own, row;
        look(d, position, own);
        int mode = 0;
        for (int k = 1; k < d.K; ++k) mode = own.x[k] > own.x[mode] ? k : mode;
        for (const int side : {-1, 1}) {
            Row message;
            for (int k = 0; k < d.K; ++k) message.x[k] = 1.0;
            for (int j = kReach; j > 0; --j) {
                look(d, position + side * j, row);
                double sum = 0.0;
                for (int k = 0; k < d.K; ++k) sum += row.x[k] *= message.x[k];
                for (int k = 0; k < d.K; ++k) {
                    double out = 0.0;
                    for (int l = 0; l < d.K; ++l) {
                        out += row.x[l] * table_[side < 0 ? l * d.K + k : k * d.K + l];
                    }
                    message.x[k] = out / sum;
                }
            }
            for (int k = 0; k < d.K; ++k) own.x[k] *= message.x[k];
        }
        double sum = 0.0;
        for (int k = 0; k < d.K; ++k) sum += own.x[k];
        return own.x[mode] / sum;
    }

    // The exponentials of the table, less its largest entry.
    void exponentiate(const D& d) {
        double most = static_cast<double>(d.in.edge_score(0, 0, 0));
        for (int l = 0; l < d.K; ++l) {
            for (int k = 0; k < d.K; ++k) {
                const double x = static_cast<double>(d.in.edge_score(0, l, k));
                table_[l * d.K + k] = x;
                most = x > most ? x : most;
            }
        }
        for (int e = 0; e < d.K * d.K; ++e) table_[e] = std::exp(table_[e] - most);
    }

    Lane<D> lanes_[N];
    double table_[kMostLabels * kMostLabels];
    int8_t after_[N], lane_of_[N];
};

}  // namespace VS_NS
