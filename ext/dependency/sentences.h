// Marginals of several sentences of one length at once, a sentence in each lane: no sum runs across
// a vector, and no row has a part of one at its end.
#pragma once

#include <cmath>
#include <cstdint>

#include "dependency/abreast.h"
#include "dependency/lanes.h"
#include "dependency/laplacian.h"
#include "dependency/run.h"
#include "simd/transpose.h"

namespace VS_NS {

class Sentences {
    using V = Vec<double>;
    using Solver = Laplacian<Abreast>;

  public:
    static constexpr int kLanes = V::N;
    static int64_t scratch(int64_t n) {
        const int64_t ld = row_of(n);
        return kLanes * (3 * ld + 2 * n * n + 3 * n + Solver::scratch(n)) + (n + 2) * ld + 16;
    }

    // out[l] (n + 1, n + 1): marginals of s[l]; doubt[l]: those do not count, and nor does
    // log_z[l].
    static void run(const vs::dependency::Sentence* s, double* const* out, double* log_z,
                    bool* doubt, double* scratch) {
        const int64_t n = s[0].n, ld = row_of(n);
        // shift, some (kLanes, ld); row (n, kLanes): a row of weights, or of marginals.
        double *shift = scratch, *some = shift + kLanes * ld, *row = some + kLanes * ld;
        double *below = row + kLanes * ld, *nowhere = below + ld, sum[kLanes];
        int first = -1;
        for (int l = 0; l < kLanes; ++l) {
            const Shifts found = shifts(s[l], shift + l * ld, below);
            doubt[l] = !found.possible || found.range > Plain::kRange;
            sum[l] = found.sum;
            if (first < 0 && !doubt[l]) first = l;
        }
        if (first < 0) return;
        const double* from[kLanes];
        double* to[kLanes];
        for (int l = 0; l < kLanes; ++l) {
            // A lane in doubt does the first one's sums, and nobody reads what it writes.
            to[l] = doubt[l] ? nowhere : out[l];
            from[l] = some + (doubt[l] ? first : l) * ld + 1;
        }
        const auto bytes = reinterpret_cast<uintptr_t>(nowhere + (n + 1) * ld);
        V* steps = reinterpret_cast<V*>((bytes + 63) / 64 * 64);
        V *hit = steps + n * n, *root = hit + n * n, *pivot = root + n;
        Plain::begin();
        for (int64_t h = 0; h <= n; ++h) {
            for (int l = 0; l < kLanes; ++l) {
                if (!doubt[l]) Plain::row_of_weights(s[l], h, shift + l * ld, some + l * ld);
            }
            weave<double, kLanes>(from, n, row);
            V* column = h == 0 ? root : steps + h - 1;
            const int64_t apart = h == 0 ? 1 : n;
            for (int64_t m = 0; m < n; ++m) column[m * apart] = V::load(row + m * kLanes);
            if (h > 0) steps[(h - 1) * (n + 1)] = V::set1(0.0);
        }
        const bool single = s[0].single_root;
        bool lost = !Solver::solve(steps, n, root, n, single, hit, n, pivot, pivot + n);
        if (!lost) {
            tell(steps, root, hit, n, pivot + n, row, to);
            lost = Plain::doubtful();
        }
        double* numbers = row;  // of all lanes, one word after the other
        for (int64_t i = 0; !lost && i < n; ++i) pivot[i].store(numbers + i * kLanes);
        for (int l = 0; l < kLanes; ++l) {
            doubt[l] = doubt[l] || lost;
            if (!doubt[l]) log_z[l] = sum[l] + Plain::log_of(numbers + l, n, kLanes);
        }
    }

  private:
    // P(h, m) = w(h, m) hit(h, m) / rate(m). rate (n,) and row (n, kLanes): scratch.
    static void tell(const V* steps, const V* root, const V* hit, int64_t n, V* rate, double* row,
                     double* const* out) {
        double* to[kLanes];
        for (int l = 0; l < kLanes; ++l) to[l] = out[l];
        const auto put = [&] {
            for (int l = 0; l < kLanes; ++l) *to[l]++ = 0.0;
            unweave<double, kLanes>(row, n, to);
            for (int l = 0; l < kLanes; ++l) to[l] += n;
        };
        for (int64_t m = 0; m < n; ++m) rate[m] = root[m];
        for (int64_t h = 0; h < n; ++h) {  // hit(m, m) is 0
            for (int64_t m = 0; m < n; ++m) {
                rate[m] = V::fma(steps[m * n + h], hit[h * n + m], rate[m]);
            }
        }
        for (int64_t m = 0; m < n; ++m) {
            rate[m] = V::set1(1.0) / rate[m];
            (root[m] * rate[m]).store(row + m * kLanes);
        }
        put();
        for (int64_t h = 0; h < n; ++h) {
            for (int64_t m = 0; m < n; ++m) {
                (steps[m * n + h] * (hit[h * n + m] * rate[m])).store(row + m * kLanes);
            }
            put();
        }
    }
};

}  // namespace VS_NS
