// Tasks of islands side by side: groups of sequences, their answers, and log Z.
#pragma once

#include <type_traits>

#include "core/sum.h"
#include "forest/islands_abreast.h"
#include "forest/path_task.h"
#include "forest/stretches.h"
#include "simd/transpose.h"

namespace VS_NS {

// log Z of the lanes asked for, each as PathRows::tally() sums it, and counts of what its islands
// leave.
template <class D>
class LaneTally {
  public:
    using Group = IslandsAbreast<D>;
    using Mask = typename Group::Mask;
    static constexpr int N = Group::N;

    LaneTally(const D& d, const Group& group, const Lane<D>* lanes, Mask asked) {
        for (int r = 0; r < kWide; ++r) value_[r] = rest_[r] = Wide::set1(0.0);
        double steps[N];
        for (int r = 0; r < N; ++r) steps[r] = d.edge_shift(0);
        const int64_t n = lanes[0].n;
        Mask told = 0;  // the first position is the last of another lane
        for (int r = 0; asked >> r; ++r) told |= static_cast<Mask>(!lanes[r].head) << r;
        // Islands one position before; lanes where a segment may begin.
        Mask left = 0, starts = asked & ~told;
        for (int64_t i = 0; i < n; ++i, told = 0) {
            const Mask all = group.islands(i) & asked, free = group.inside(i) & asked & ~all;
            const Mask here = all & ~told;
            const Mask ends = i + 1 < n ? group.islands(i + 1) & free & ~group.last(i) : 0;
            const Mask moved = here & ~group.stayed(i), beside = here & left;
            add((free & ~told) | here, own(group.shifts(i), moved, [&](int r) {
                    const bool first = i == 0 && lanes[r].head;
                    const bool last = i + 1 == lanes[r].n && lanes[r].tail;
                    return d.in.score(lanes[r].begin + i, group.held(i, r), first, last);
                }));
            if (i > 0) {
                add(free | beside, own(steps, beside, [&](int r) {
                        return d.in.edge_score(0, group.held(i - 1, r), group.held(i, r));
                    }));
            }
            if (ends) add(ends, steps);
            starts &= free;
            if (starts) {
                add(starts, own(steps, starts, [&](int r) {
                        return d.log_mass(group.mass(i, r)) + D::kUnit * group.exponent(i, r);
                    }));
            }
            const Mask local = group.local(i) & asked, last = group.last(i);
            for (int r = 0; r < N; ++r) {
                islands_[r] += one(here, r);
                segments_[r] += one(starts, r);
                sparse_[r] += (i > 0 ? one(local, r) : 0) + one(local & ~last, r);
            }
            left = starts = all;
        }
    }
    vs::Sum log_z(int r) const {
        double value[N], rest[N];
        for (int q = 0; q < kWide; ++q) {
            value_[q].store(value + q * Wide::N);
            rest_[q].store(rest + q * Wide::N);
        }
        return {value[r], rest[r]};
    }
    void count(int r, vs::Counts& counts) const {
        counts.islands += islands_[r];
        counts.segments += segments_[r];
        counts.sparse += sparse_[r];
    }

  private:
    using Wide = Vec<double>;
    static constexpr int kWide = N / Wide::N;

    static VS_INLINE int32_t one(Mask lanes, int r) {
        return static_cast<int32_t>(lanes >> r & 1u);
    }
    // `all`, but for some lanes f(lane).
    template <class F>
    VS_INLINE const double* own(const double* all, Mask lanes, F f) {
        if (!lanes) return all;
        std::memcpy(own_, all, sizeof(own_));
        Group::each_lane(lanes, [&](int r) { own_[r] = static_cast<double>(f(r)); });
        return own_;
    }
    // Adds x of some lanes, and to others nothing.
    VS_INLINE void add(Mask lanes, const double* x) {
        for (int q = 0; q < kWide; ++q) {
            const Wide some = Wide::where_bit(lanes >> q * Wide::N, Wide::load(x + q * Wide::N));
            vs::add_to(value_[q], rest_[q], some);
        }
    }

    Wide value_[kWide], rest_[kWide];  // of each lane's Sum
    double own_[N];
    int32_t islands_[N] = {}, segments_[N] = {}, sparse_[N] = {};
};

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

// Writes the islands of a lane that went well.
template <class D>
void write_islands(vs::PathPass* pass, const IslandsAbreast<D>& group, const Lane<D>& s, int r) {
    for (int64_t i = 0; i < s.n; ++i) pass->islands[s.begin + i] = group.held(i, r);
    pass->control->done.fetch_add(s.n - (s.head ? 0 : 1), std::memory_order_relaxed);
}

// A long chain, in stretches. False: stopped.
template <class D>
bool in_stretches(vs::PathPass* pass, const D& d, int64_t number, typename D::In* unwanted,
                  vs::Scratch& scratch, Ticker& ticker) {
    constexpr int N = IslandsAbreast<D>::N;
    const vs::Chains& c = pass->model.arrays;
    const int64_t sequence = pass->order[number];
    Stretches<D> cut;
    if (!cut.cut(d, c, sequence, pass->zeta, static_cast<typename D::In*>(pass->marginals))) {
        return true;
    }
    const Lane<D>* const lanes = cut.lanes();
    const LaneSizes sizes = lane_sizes(lanes, N);
    if (!IslandsAbreast<D>::fits_joined(d, sizes.longest) ||
        !IslandsAbreast<D>::pays(d, sizes.positions, sizes.longest)) {
        return true;
    }
    IslandsAbreast<D> group;
    if (!group.open(lanes, N, d, pass->zeta, pass->revisit, scratch)) {
        pass->control->stop.store(2);
        return false;
    }
    group.join(cut.after());
    if (!group.find(d, ticker)) return false;
    double added = 0.0;
    bool well[N];
    for (int r = 0; r < N; ++r) {
        if (!group.well(r)) return true;
        well[r] = true;
        added += group.added(r);
    }
    if (!group.little(added)) return true;
    const LaneTally<D> tally(d, group, lanes, (1u << N) - 1u);
    vs::Counts& counts = pass->counts[number];
    vs::Sum log_z;
    for (int j = 0; j < N; ++j) {
        const int r = cut.lane(j);
        vs::add(counts, group.counts(r));
        tally.count(r, counts);
        vs::merge(&log_z, tally.log_z(r));
        write_islands(pass, group, lanes[r], r);
    }
    counts.unsettled = counts.unsettled > 0;
    pass->log_z[sequence] = log_z.total();
    pass->status[sequence] = vs::kOk;
    write_lanes(group, lanes, N, well, unwanted, d.K);
    return true;
}

// Sequences of the order, which are left with kWithout where they are not answered here.
template <class D>
void islands_task(vs::PathPass* pass, const vs::Work& w) {
    if constexpr (kIslandsAbreast<D>) {
        using In = typename D::In;
        constexpr int N = IslandsAbreast<D>::N;
        const vs::Chains& c = pass->model.arrays;
        vs::Scratch& scratch = pass->scratch[w.worker];
        scratch.reset();
        const PathTask<D> own(*pass, scratch, 2);
        const D& d = own.d;
        In* const unwanted = scratch.array<In>(ScoresAbreast<D>::kAtOnce * d.Kp);
        if (!own.ok || !unwanted) return pass->control->stop.store(2);
        if (!IslandsAbreast<D>::serves(d)) return;
        Ticker ticker(pass->control, w.worker == 0, d.K, D::kSlower);
        if (!ticker.begin_task()) return;
        const auto is_long = [&](int64_t i) {
            const int64_t s = pass->order[i];
            return c.offset[s + 1] - c.offset[s] > vs::kLongestLane;
        };
        for (int64_t first = w.item.first, next; first < w.item.last; first = next) {
            const vs::Scratch::Mark mark = scratch.mark();
            if (is_long(first)) {
                next = first + 1;
                if (!in_stretches(pass, d, first, unwanted, scratch, ticker)) return;
                scratch.rewind(mark);
                continue;
            }
            next = w.item.last - first < N ? w.item.last : first + N;
            const int m = static_cast<int>(next - first);
            Lane<D> lanes[N];
            for (int r = 0; r < m; ++r) {
                lane_begin(lanes[r], d, c, pass->order[first + r],
                           static_cast<In*>(pass->marginals));
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
            bool well[N] = {};
            typename LaneTally<D>::Mask asked = 0;
            for (int r = 0; r < m; ++r) {
                well[r] = group.well(r);
                if (well[r]) asked |= 1u << r;
            }
            const LaneTally<D> tally(d, group, lanes, asked);
            for (int r = 0; r < m; ++r) {
                if (!well[r]) continue;
                const Lane<D>& s = lanes[r];
                vs::Counts& counts = pass->counts[first + r];
                counts = group.counts(r);
                tally.count(r, counts);
                pass->log_z[s.sequence] = tally.log_z(r).total();
                write_islands(pass, group, s, r);
                pass->status[s.sequence] = vs::kOk;
            }
            if (asked) write_lanes(group, lanes, m, well, unwanted, d.K);
            scratch.rewind(mark);
        }
    }
}

}  // namespace VS_NS
