// Marginals of several sentences of one length at once, a sentence in each lane: no sum runs across
// a vector, and no row has a part of one at its end.
#pragma once

#include <cmath>
#include <cstdint>

#include "dependency/abreast.h"
#include "dependency/lanes.h"
#include "dependency/laplacian.h"
#include "dependency/run.h"

namespace VS_NS {

class Sentences {
    using V = Vec<double>;
    using Solver = Laplacian<Abreast>;

  public:
    static constexpr int kLanes = V::N;
    static int64_t scratch(int64_t n) {
        const int64_t ld = row_of(n);
        return kLanes * ((n + 3) * ld + 2 * n * n + 4 * n + Solver::scratch(n)) + 16;
    }

    // out[l] (n + 1, n + 1): marginals of s[l]; doubt[l]: those do not count, and nor does
    // log_z[l].
    static void run(const vs::dependency::Sentence* s, double* const* out, double* log_z,
                    bool* doubt, double* scratch) {
        const int64_t n = s[0].n, ld = row_of(n), size = (n + 1) * ld;
        double *shift = scratch, *below = shift + ld, *weight = below + ld, sum[kLanes];
        int first = -1;
        for (int l = 0; l < kLanes; ++l) {
            const Shifts found = shifts(s[l], shift, below);
            doubt[l] = !found.possible || found.range > Plain::kRange;
            sum[l] = found.sum;
            if (doubt[l]) continue;
            if (first < 0) first = l;
            Plain::weights(s[l], shift, weight + l * size, ld);
        }
        if (first < 0) return;
        int32_t place[kLanes];
        double* to[kLanes];
        for (int l = 0; l < kLanes; ++l) {
            // A lane in doubt does the first one's sums, and writes where its weights would be.
            to[l] = doubt[l] ? weight + l * size : out[l];
            place[l] = static_cast<int32_t>((doubt[l] ? first : l) * size);
        }
        const auto bytes = reinterpret_cast<uintptr_t>(weight + kLanes * size);
        V* steps = reinterpret_cast<V*>((bytes + 63) / 64 * 64);
        V *hit = steps + n * n, *root = hit + n * n, *pivot = root + n;
        Plain::begin();
        for (int64_t m = 0; m < n; ++m) root[m] = V::gather(weight + m + 1, place);
        for (int64_t h = 0; h < n; ++h) {
            for (int64_t m = 0; m < n; ++m) {
                steps[m * n + h] = V::gather(weight + (h + 1) * ld + m + 1, place);
            }
        }
        const bool single = s[0].single_root;
        bool lost = !Solver::solve(steps, n, root, n, single, hit, n, pivot, pivot + n);
        if (!lost) {
            tell(steps, root, hit, n, pivot + n, to);
            lost = Plain::doubtful();
        }
        double* numbers = weight;  // of all lanes, one word after the other
        for (int64_t i = 0; !lost && i < n; ++i) pivot[i].store(numbers + i * kLanes);
        for (int l = 0; l < kLanes; ++l) {
            doubt[l] = doubt[l] || lost;
            if (!doubt[l]) log_z[l] = sum[l] + Plain::log_of(numbers + l, n, kLanes);
        }
    }

  private:
    // P(h, m) = w(h, m) hit(h, m) / rate(m). rate (n,): scratch.
    static void tell(const V* steps, const V* root, const V* hit, int64_t n, V* rate,
                     double* const* out) {
        double lane[kLanes];
        const auto put = [&](int64_t h, int64_t m, V p) VS_INLINE_LAMBDA {
            p.store(lane);
            for (int l = 0; l < kLanes; ++l) out[l][h * (n + 1) + m] = lane[l];
        };
        for (int64_t m = 0; m < n; ++m) rate[m] = root[m];
        for (int64_t h = 0; h < n; ++h) {  // hit(m, m) is 0
            for (int64_t m = 0; m < n; ++m) {
                rate[m] = V::fma(steps[m * n + h], hit[h * n + m], rate[m]);
            }
        }
        put(0, 0, V::set1(0.0));
        for (int64_t m = 0; m < n; ++m) {
            rate[m] = V::set1(1.0) / rate[m];
            put(0, m + 1, root[m] * rate[m]);
        }
        for (int64_t h = 0; h < n; ++h) {
            put(h + 1, 0, V::set1(0.0));
            for (int64_t m = 0; m < n; ++m) {
                put(h + 1, m + 1, steps[m * n + h] * (hit[h * n + m] * rate[m]));
            }
        }
    }
};

}  // namespace VS_NS
