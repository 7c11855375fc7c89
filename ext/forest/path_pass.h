// Tasks of an exact pass: groups of sequences or of chunks, or the four half passes of one chain.
#pragma once

#include "forest/compare.h"
#include "forest/path_cut.h"
#include "forest/path_edges.h"
#include "forest/path_exact.h"
#include "forest/path_abreast.h"
#include "forest/path_lone.h"
#include "rows/pack.h"
#include "forest/level.h"

namespace VS_NS {

template <class D>
void finish_lane(vs::PathPass* pass, const D& d, const Lane<D>& s) {
    compare_lane(pass, d, s);
    if (s.chunk >= 0) return finish_chunk(pass, d, s);
    Exact<D>::finish(pass, d, s);
}

// Ends what items [first, last) name: chunks, or sequences of the order.
inline void end_items(vs::PathPass* pass, bool chunks, int64_t first, int64_t last,
                      vs::Status status) {
    for (int64_t i = first; i < last; ++i) {
        (chunks ? pass->chunk_end[i].status : pass->status[pass->order[i]]) = status;
    }
}

// Passes of lanes[0..m), longest first, as far as they can be had side by side: what is left to
// Exact moves to the front, in order, with its number in `which`. Returns how many, or -1:
// cancelled.
template <class D, class Finish>
int abreast(const Exact<D>& engine, const D& d, Ticker& ticker, Lane<D>* lanes, int m,
            const Wanted<D>& wanted, vs::Scratch& scratch, int* which, Finish finish) {
    constexpr int N = Abreast<D>::N;
    int left = 0;
    for (int first = 0; first < m; first += N) {
        const int size = m - first < N ? m - first : N;
        const vs::Scratch::Mark mark = scratch.mark();
        Abreast<D> group;
        const bool worth = Abreast<D>::pays(lanes + first, size, d.K) &&
                           group.open(lanes + first, size, wanted, d, scratch);
        if (worth && !(group.forward(engine, d, ticker) &&
                       (wanted.keep == Keep::kNothing || group.backward(d, ticker)))) {
            return -1;
        }
        for (int r = first; r < first + size; ++r) {
            const bool well = worth && group.well(r - first);
            // Rows would not know more: messages one way ask for both, and those for more range.
            const bool open =
                worth && !well && (wanted.keep == Keep::kNothing || group.lost(r - first));
            if (open) lanes[r].status = vs::kWiden;
            if (well || open) {
                finish(lanes[r]);
            } else {
                which[left++] = r;
            }
        }
        scratch.rewind(mark);
    }
    return left;
}

// Tables of edges that each have one, which a group keeps for the way back: they stay in cache.
constexpr int64_t kMostTables = int64_t{2} << 20;

// m lanes side by side: chunks, or sequences of the order.
template <class D>
void exact_group(vs::PathPass* pass, D& d, Ticker& ticker, bool chunks, int64_t first, int m,
                 vs::Scratch& scratch, double* sums, Depth<D>& depth) {
    using T = typename D::T;
    const vs::Chains& c = pass->model.arrays;
    Exact<D> engine(d, ticker);
    Lane<D> lanes[vs::kMostTogether];
    lanes[0].n = lanes[0].last = 0;  // no compiler knows that m > 0
    lanes[0].out = {};
    const bool edges = sums || pass->pairwise || pass->log_left || pass->energies;
    const int64_t row = d.Kp * static_cast<int64_t>(sizeof(T));
    const int64_t most = chunks ? vs::kChunkBytes : vs::kStoredBytes;
    bool serves = false;
    if constexpr (kGoAbreast<D>) serves = Abreast<D>::serves(d);
    // Most sequences that go side by side never need rows of their own.
    const bool without_rows = serves && !chunks && (!pass->compared || Beside<D>::kFits);
    const auto init = [&](Lane<D>& s, int64_t which, bool rows) {
        if (chunks) {
            return chunk_init(s, d, pass, which, scratch) && compared_init(pass, d, s, scratch);
        }
        const auto out = static_cast<typename D::In*>(pass->marginals);
        if (!rows) {
            lane_begin(s, d, c, pass->order[which], out);
            return true;
        }
        return lane_init(s, d, c, pass->order[which], out, scratch) &&
               compared_init(pass, d, s, scratch);
    };
    bool answered = false;  // what is asked of edges
    EdgeSink<D> sink;
    sink.lanes = lanes;
    const auto finish = [&](Lane<D>& s) {
        if (pass->one_way && s.status == vs::kOk && !(s.log_end > D::kLeastEnd)) {
            s.status = vs::kWiden;
        }
        if (!pass->one_way) require_little_added(s);
        if (edges && !answered && s.status == vs::kOk) {
            const double weight = pass->weights ? pass->weights[s.sequence] : 1.0;
            const int64_t r = &s - lanes;
            if (!emit_edges(pass, d, ticker, s, sink.outgoing[r], sink.mass[r], sums, weight,
                            depth)) {
                s.status = vs::kCancelled;
            }
        }
        finish_lane(pass, d, s);
    };
    int which[vs::kMostTogether];  // the number of a lane
    const auto end_all = [&](vs::Status status) {
        for (int r = 0; r < m; ++r) {
            end_items(pass, chunks, first + which[r], first + which[r] + 1, status);
        }
    };
    bool ok = true;
    for (int r = 0; r < m; ++r) {
        which[r] = r;
        ok = ok && init(lanes[r], first + r, !without_rows);
    }
    if constexpr (kGoAbreast<D>) {
        const bool fits = pass->one_way || lanes[0].last * row <= most;
        bool again = without_rows;
        if (ok && fits && serves) {
            const vs::Scratch::Mark mark = scratch.mark();
            Wanted<D> wanted{pass->one_way ? Keep::kNothing : Keep::kBoth};
            wanted.compared = pass->compared;
            // Where energies are all that is wanted of edges, they are made on the way back.
            answered = pass->energies && !sums && !pass->pairwise && !pass->log_left &&
                       (d.in.c.per_edge || (d.sums_without_transition() && depth.serves_abreast()));
            if (answered) {
                wanted.energies = pass->energies;
                wanted.depth = d.in.c.per_edge ? nullptr : &depth;
            } else if (edges) {
                if (!sink.open(d, m, true, scratch)) return end_all(vs::kNoMemory);
                wanted.edges = &sink;
            }
            const int left = abreast(engine, d, ticker, lanes, m, wanted, scratch, which, finish);
            if (left < 0) return end_all(vs::kCancelled);
            answered = false;
            m = left;
            scratch.rewind(mark);
            again = true;
        }
        for (int r = 0; again && r < m && ok; ++r) ok = init(lanes[r], first + which[r], true);
    }
    if (m == 0) return;
    if constexpr (kHasLone<D>) {
        const bool alone = ok && LoneFew<D>::pays(d.K, m, pass->one_way) &&
                           LoneFew<D>::serves(d, lanes[0]);  // the longest
        if (alone && edges && !sink.open(d, m, true, scratch)) return end_all(vs::kNoMemory);
        int left = 0;
        for (int r = 0; r < m; ++r) {
            if (alone && LoneFew<D>::run(d, ticker, lanes[r], pass->one_way,
                                         edges ? &sink : nullptr, scratch)) {
                finish(lanes[r]);
                continue;
            }
            which[left] = which[r];
            lanes[left++] = lanes[r];
        }
        m = left;
        if (pass->control->stop.load(std::memory_order_relaxed)) return end_all(vs::kCancelled);
    }
    if (m == 0) return;
    if (ok && pass->one_way) {
        ok = engine.group_forward(lanes, m, Role::kPass);
        for (int r = 0; r < m; ++r) {
            if (!ok) lanes[r].status = vs::kCancelled;
            finish(lanes[r]);
        }
        return;
    }
    const bool in_output = !edges && ok && lanes[0].out && d.stores_in_output();
    const int64_t stored = lanes[0].last * row;
    if (ok && stored <= most && (!in_output || 2 * m * stored <= vs::kStoredTogether)) {
        // Short: alpha and psi of all lanes side by side, position by position: one stream.
        const int64_t stride = 2 * m * static_cast<int64_t>(d.Kp);
        T* rows = scratch.array<T>(lanes[0].last * stride);
        ok = rows != nullptr;
        for (int r = 0; r < m && ok; ++r) {
            lanes[r].stride = stride;
            lanes[r].alpha = rows + 2 * r * d.Kp;
            lanes[r].psi_rows = lanes[r].alpha + d.Kp;
        }
    } else {
        for (int r = 0; r < m && ok; ++r) {
            Lane<D>& s = lanes[r];
            if (in_output) continue;  // alpha lies in the output
            s.alpha = scratch.array<T>(s.last * d.Kp);
            ok = s.alpha != nullptr;
        }
    }
    if (ok && edges && !sink.open(d, m, false, scratch)) return end_all(vs::kNoMemory);
    if constexpr (D::kKeepsTables) {
        d.tables.keep_nothing();
        const int64_t table = d.K * row;
        int64_t all = 0;
        for (int r = 0; r < m; ++r) all += lanes[r].n - 1;
        const bool kept = ok && d.in.c.per_edge && !chunks && m <= KeptTables<T>::kMost &&
                          all * table <= kMostTables;
        T* const tables = kept ? scratch.array<T>(all * d.K * d.Kp) : nullptr;
        if (kept && !tables) scratch.failed = false;  // they are made again instead
        for (int64_t r = 0, at = 0; tables && r < m; at += lanes[r++].n - 1) {
            d.tables.keep(lanes[r].edge, lanes[r].n - 1, tables + at * d.K * d.Kp);
        }
    }
    if (ok) {
        if (edges) {
            ok = engine.group(lanes, m, sink);
        } else {
            NoSink none;
            ok = engine.group(lanes, m, none);
        }
        for (int r = 0; r < m; ++r) {
            if (!ok) lanes[r].status = vs::kCancelled;
            finish(lanes[r]);
        }
        return;
    }
    end_all(vs::kNoMemory);
}

// The lane of a split chain that a half pass works in.
template <class D>
Lane<D>& split_lane(vs::PathPass* pass, vs::TaskKind kind, int64_t which) {
    const bool forward = kind == vs::TaskKind::kForward || kind == vs::TaskKind::kForwardMeet;
    return *static_cast<Lane<D>*>(pass->split[2 * which + (forward ? 0 : 1)]);
}

template <class D>
void exact_task(vs::PathPass* pass, const vs::Work& work) {
    const int64_t first = work.item.first, last = work.item.last;
    const vs::TaskKind kind = work.kind;
    const int worker = work.worker;
    const vs::Chains& c = pass->model.arrays;
    vs::Scratch& scratch = pass->scratch[worker];
    const bool chunks = kind == vs::TaskKind::kChunks;
    const bool split = kind != vs::TaskKind::kSequences && !chunks;
    if (!split) scratch.reset();
    const vs::Scratch::Mark start = scratch.mark();
    PathTask<D> own(*pass, scratch, 2);
    D& d = own.d;
    if (!own.ok) {
        if (split) {  // closing reads the lane
            split_lane<D>(pass, kind, first).status = vs::kNoMemory;
            return;
        }
        return end_items(pass, chunks, first, last, vs::kNoMemory);
    }
    Ticker ticker(pass->control, worker == 0, c.n_labels, D::kSlower);
    if (!split) {
        Depth<D> depth;
        if (pass->depth && !depth.open(own.in, *pass->depth, own.rows, scratch)) {
            return end_items(pass, chunks, first, last, vs::kNoMemory);
        }
        int64_t together = vs::sequences_together(c, pass->narrow);
        // Rows in two types crowd the cache where they do not lie side by side.
        const bool by_rows = c.n_labels > Abreast<D>::kMostLabels && c.n_labels <= vs::kAbreast32;
        if (pass->narrow && by_rows) together = 4;
        for (int64_t i = first, next; i < last; i = next) {
            const vs::Scratch::Mark mark = scratch.mark();
            next = chunks                ? i + vs::chunks_together(pass->chunk, i, last, together)
                   : last - i < together ? last
                                         : i + together;
            if (chunks && pass->chunk_end[i].left_out) continue;
            const int m = static_cast<int>(next - i);
            // The next group starts with its first rows in cache, with few labels with all.
            for (int64_t r = i + m; !chunks && r < last && r < i + m + together; ++r) {
                const int64_t begin = c.offset[pass->order[r]],
                              n = c.offset[pass->order[r] + 1] - begin;
                d.prefetch(begin, n < Exact<D>::kAhead || c.n_labels <= vs::kFewLabels
                                      ? n
                                      : Exact<D>::kAhead);
            }
            exact_group(pass, d, ticker, chunks, i, m, scratch, work.sums, depth);
            scratch.rewind(mark);
        }
        return;
    }
    // One chain in four half passes: the first two store, the others meet them.
    Exact<D> engine(d, ticker);
    Lane<D>& s = split_lane<D>(pass, kind, first);
    if (s.status == vs::kNoMemory) return;  // its first half, which would be met
    const int64_t mid = s.n / 2;
    bool ok = true;
    NoSink sink;
    switch (kind) {
        case vs::TaskKind::kForward:
            ok = engine.forward(&s, 1, 0, mid, Role::kStore);
            break;
        case vs::TaskKind::kBackward:
            ok = engine.backward(&s, 1, 0, s.n - mid, Role::kStore, sink);
            break;
        case vs::TaskKind::kForwardMeet:
            ok = engine.forward(&s, 1, mid, s.n, Role::kMeet);
            break;
        default:  // kBackwardMeet
            ok = engine.backward(&s, 1, s.n - mid, s.n, Role::kMeet, sink);
            break;
    }
    if (!ok) s.status = vs::kCancelled;
    scratch.rewind(start);
}

// Opens the two lanes of a chain that is cut, or closes them.
template <class D>
void split_task(vs::PathPass* pass, int64_t which, bool open) {
    const vs::Chains& c = pass->model.arrays;
    vs::Scratch& scratch = *pass->scratch;
    int32_t& status = pass->status[pass->order[which]];
    PathTask<D> own(*pass, scratch, 2);
    D& d = own.d;
    Lane<D>* opened = open ? scratch.array<Lane<D>>(2) : nullptr;
    if (scratch.failed) {
        status = vs::kNoMemory;
        return;
    }
    for (int r = 0; r < 2 && open; ++r) {
        if (!lane_init(opened[r], d, c, pass->order[which],
                       static_cast<typename D::In*>(pass->marginals), scratch) ||
            (r == 0 && !compared_init(pass, d, opened[0], scratch))) {
            status = vs::kNoMemory;
            return;
        }
        if (r > 0) opened[1].out = opened[0].out;
        pass->split[2 * which + r] = opened + r;
    }
    if (open) return;
    Lane<D>& s = *static_cast<Lane<D>*>(pass->split[2 * which]);
    const Lane<D>& b = *static_cast<Lane<D>*>(pass->split[2 * which + 1]);
    // A half that had no memory has left the other nothing to meet.
    if (s.status == vs::kOk || b.status == vs::kNoMemory) s.status = b.status;
    s.added += b.added;
    require_little_added(s);
    finish_lane(pass, d, s);
}

}  // namespace VS_NS
