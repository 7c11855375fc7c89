// Tasks of islands side by side: groups of sequences, their answers, and log Z.
#pragma once

#include <type_traits>

#include "core/sum.h"
#include "forest/islands_abreast.h"
#include "forest/level.h"
#include "rows/pack.h"
#include "simd/transpose.h"

namespace VS_NS {

// log Z of lane r, as PathRows::tally() sums it; counts what its islands leave.
template <class D>
double tally_lane(const D& d, const IslandsAbreast<D>& group, int r, const Lane<D>& s,
                  vs::Counts& counts) {
    vs::Sum total;
    for (int64_t i = 0; i < s.n; ++i) {
        const bool first = i == 0, last = i + 1 == s.n;
        const bool after = !first && group.island(i - 1, r);
        if (group.local(i, r)) counts.sparse += group.rows_out(i, r);
        if (group.island(i, r)) {
            const int v = group.held(i, r);
            total.add(group.stayed(i, r)
                          ? group.shift(i, r)
                          : static_cast<double>(d.in.score(s.begin + i, v, first, last)));
            if (after) {
                total.add(static_cast<double>(d.in.edge_score(0, group.held(i - 1, r), v)));
            }
            ++counts.islands;
            continue;
        }
        total.add(group.shift(i, r));
        if (!first) total.add(d.edge_shift(0));
        if (!last && group.island(i + 1, r)) total.add(d.edge_shift(0));
        if (first || after) {
            total.add(d.log_mass(group.mass(i, r)) + D::kUnit * group.scale(i, r));
            ++counts.segments;
        }
    }
    return total.total();
}

// Marginals of the lanes that went well, as rows of the answer; those of others go to `unwanted`.
template <class D>
void write_lanes(const IslandsAbreast<D>& group, const Lane<D>* lanes, int m, const bool* well,
                 typename D::In* unwanted, int K) {
    using T = typename D::T;
    using In = typename D::In;
    constexpr int N = IslandsAbreast<D>::N;
    constexpr int64_t kAtOnce = ScoresAbreast<D>::kAtOnce;
    int left = m;  // lanes that go on: the longest are first
    for (int64_t i = 0, rows; i < lanes[0].n; i += rows) {
        while (lanes[left - 1].n <= i) --left;
        const int64_t until = lanes[left - 1].n - i;
        rows = until < kAtOnce ? until : kAtOnce;
        In* to[N];
        for (int r = 0; r < N; ++r) {
            to[r] = r < left && well[r] ? lanes[r].out + i * K : unwanted;
        }
        unweave<T, N>(group.marginals(i), rows * K, to);
    }
}

template <class D>
constexpr bool kIslandsAbreast =
    kGoAbreast<D> && std::is_same<typename D::In, typename D::T>::value;

// Sequences of the order, which are left with kWithout where they are not answered here.
template <class D>
void islands_task(vs::PathPass* pass, const vs::Work& w) {
    if constexpr (kIslandsAbreast<D>) {
        using T = typename D::T;
        using In = typename D::In;
        constexpr int N = IslandsAbreast<D>::N;
        const vs::Chains& c = pass->model.arrays;
        vs::Scratch& scratch = pass->scratch[w.worker];
        scratch.reset();
        const Tiling<T> tiling(c.n_labels);
        T* const buffer = scratch.array<T>(2 * static_cast<int64_t>(tiling.Kp));
        In* const unwanted = scratch.array<In>(ScoresAbreast<D>::kAtOnce * tiling.Kp);
        if (!buffer || !unwanted) return pass->control->stop.store(2);
        const Input<In> in(c);
        const Packed<T> packed = packed_view<T>(*pass->packing);
        const D d(in, packed, buffer);
        if (!IslandsAbreast<D>::serves(d)) return;
        Ticker ticker(pass->control, w.worker == 0, d.K, D::kSlower);
        if (!ticker.begin_task()) return;
        for (int64_t first = w.item.first; first < w.item.last; first += N) {
            const int m = static_cast<int>(w.item.last - first < N ? w.item.last - first : N);
            const vs::Scratch::Mark mark = scratch.mark();
            Lane<D> lanes[N];
            for (int r = 0; r < m; ++r) {
                lane_begin(lanes[r], d, c, pass->order[first + r],
                           RowsOf<In>::row(pass->marginals, c.dtype));
            }
            const LaneSizes sizes = lane_sizes(lanes, m);
            if (lanes[m - 1].n == 0 || !IslandsAbreast<D>::fits(d, sizes.longest) ||
                !IslandsAbreast<D>::pays(d, sizes.positions, sizes.longest)) {
                continue;
            }
            IslandsAbreast<D> group;
            if (!group.open(lanes, m, d, pass->zeta, pass->revisit, scratch)) {
                return pass->control->stop.store(2);
            }
            if (!group.find(d, ticker)) return;
            bool well[N] = {}, any = false;
            for (int r = 0; r < m; ++r) {
                well[r] = group.well(r);
                if (!well[r]) continue;
                any = true;
                const Lane<D>& s = lanes[r];
                vs::Counts& counts = pass->counts[first + r];
                counts = group.counts(r);
                pass->log_z[s.sequence] = tally_lane(d, group, r, s, counts);
                for (int64_t i = 0; i < s.n; ++i) {
                    pass->islands[s.begin + i] = group.island(i, r) ? group.held(i, r) : -1;
                }
                pass->status[s.sequence] = vs::kOk;
                pass->control->done.fetch_add(s.n, std::memory_order_relaxed);
            }
            if (any) write_lanes(group, lanes, m, well, unwanted, d.K);
            scratch.rewind(mark);
        }
    }
}

}  // namespace VS_NS
