// Tasks of a pass with islands: whole sequences on one thread, or one long chain on the pool.
#pragma once

#include "chain/islands.h"
#include "rows/pack.h"
#include "chain/table.h"

namespace VS_NS {

// Ascending heap sort: no standard containers in a level (see level.cpp).
inline void sort_positions(int64_t* x, int64_t n) {
    auto sift = [x](int64_t root, int64_t end) {
        for (;;) {
            int64_t child = 2 * root + 1;
            if (child >= end) return;
            if (child + 1 < end && x[child] < x[child + 1]) ++child;
            if (x[root] >= x[child]) return;
            const int64_t t = x[root];
            x[root] = x[child];
            x[child] = t;
            root = child;
        }
    };
    for (int64_t i = n / 2; i-- > 0;) sift(i, n);
    for (int64_t end = n; end-- > 1;) {
        const int64_t t = x[0];
        x[0] = x[end];
        x[end] = t;
        sift(0, end);
    }
}

// The arithmetic and buffers of one worker.
template <class D>
struct IslandBench {
    using T = typename D::T;
    Input<typename D::In> in;
    Packed<T> packed;
    T* rows;
    D d;
    Ticker ticker;
    IslandWorker<D> worker;

    static constexpr int kRows = 2 + IslandWorker<D>::kRows;

    // buffer: kRows * stride numbers.
    IslandBench(vs::IslandPass* pass, int index, T* buffer, int64_t stride)
        : in(*pass->chains),
          packed(packed_view<T>(*pass->packing)),
          rows(buffer),
          d(in, packed, buffer),
          ticker(pass->control, index == 0, pass->chains->n_labels, D::kSlower),
          worker{d,
                 ticker,
                 pass->keep[index],
                 &pass->temporary[index],
                 buffer + 2 * stride,
                 buffer + 3 * stride,
                 buffer + 4 * stride} {
        for (int r = 0; r < kRows; ++r) d.clear(buffer + r * stride);
    }
    IslandBench(const IslandBench&) = delete;
    IslandBench& operator=(const IslandBench&) = delete;
};

template <class D>
void islands_close(vs::IslandPass* pass, Islands<D>& s, IslandWorker<D>& w, vs::Status status,
                   int64_t sequence, const typename Islands<D>::Tally* parts, vs::Counts& counts,
                   const vs::Counts& of_sequence) {
    pass->status[sequence] = status;
    if (status != vs::kOk) return;
    vs::Counts c = of_sequence;
    w.status = vs::kOk;
    pass->log_z[sequence] = s.finish(w, parts, c);
    pass->status[sequence] = w.status;
    if (w.status != vs::kOk) return;
    counts.islands += c.islands;
    counts.segments += c.segments;
    counts.full += c.full + s.full;
    counts.sparse += c.sparse + s.sparse;
    counts.released += c.released;
    counts.flipped += c.flipped;
    counts.unsettled += c.unsettled;
    if (c.rounds > counts.rounds) counts.rounds = c.rounds;
    pass->control->done.fetch_add(s.n, std::memory_order_relaxed);
}

// Rounds of revisiting of one sequence on one thread; `list` has space for 2 n positions.
template <class D>
void revisit_sequence(vs::IslandPass* pass, Islands<D>& s, IslandWorker<D>& w, int64_t* list,
                      vs::Counts& c) {
    int64_t *changed = list, *touched = list + s.n;
    int64_t m = 0, n_changed = 0;
    for (int64_t q = 0; q < s.n; ++q) {
        if (s.event[q] != Islands<D>::kNone) touched[m++] = q;
    }
    while (m > 0) {
        const bool limited = pass->revisit >= 0 && c.rounds >= pass->revisit;
        if (!s.decide(w, touched, m, limited, c, changed, &n_changed)) return;
        if (n_changed == 0) return;
        ++c.rounds;
        m = 0;
        if (!s.redo(w, changed, n_changed, touched, &m) || !s.refresh(w, touched, m)) return;
        s.forget(changed, n_changed);
        sort_positions(touched, m);
    }
}

// Sequences order[first, last), a block at a time: the gaps of a block share full messages.
template <class D>
void islands_task(vs::IslandPass* pass, int64_t first, int64_t last, int index) {
    using T = typename D::T;
    constexpr int kBlock = 64;
    constexpr int64_t kBlockBytes = 128 * 1024;  // of local factors: they stay in cache
    vs::Scratch& keep = pass->keep[index];
    keep.reset();
    const vs::Chains& chains = *pass->chains;
    const int64_t stride = Tiling<T>(chains.n_labels).Kp;
    T* buffer = keep.array<T>(IslandBench<D>::kRows * stride);
    if (buffer == nullptr) {
        for (int64_t i = first; i < last; ++i) pass->status[pass->order[i]] = vs::kNoMemory;
        return;
    }
    IslandBench<D> bench(pass, index, buffer, stride);
    IslandWorker<D>& w = bench.worker;
    Islands<D> block[kBlock];
    vs::Status status[kBlock];
    const int64_t workspace = kBlockBytes / (stride * static_cast<int64_t>(sizeof(T)));
    int m = 0;
    for (int64_t i0 = first; i0 < last; i0 += m) {
        const vs::Scratch::Mark mark = keep.mark();
        int64_t positions = 0, longest = 0, n_gaps = 0;
        for (m = 0; m < kBlock && i0 + m < last && (m == 0 || positions < workspace); ++m) {
            const int64_t s = pass->order[i0 + m];
            const int64_t n = chains.offset[s + 1] - chains.offset[s];
            positions += n;
            if (n > longest) longest = n;
        }
        GapRun<D>* gaps = keep.array<GapRun<D>>(positions / 2 + m);
        int64_t* list = keep.array<int64_t>(2 * longest);
        auto* parts = keep.array<typename Islands<D>::Tally>(longest / Islands<D>::kTallied + 1);
        for (int r = 0; r < m; ++r) {
            Islands<D>& s = block[r] = Islands<D>();
            w.status = vs::kOk;
            if (keep.failed || !s.init(bench.d, chains, pass->order[i0 + r],
                                       static_cast<typename D::In*>(pass->marginals), pass->islands,
                                       pass->zeta, pass->revisit != 0, true, keep)) {
                w.status = vs::kNoMemory;
            } else {
                s.blank(0, s.n);
                if (s.locals(w, 0, s.n)) s.find_gaps(0, s.n, &status[r], gaps, &n_gaps);
            }
            status[r] = w.status;
        }
        const bool ran = run_gaps(w, gaps, n_gaps);
        for (int r = 0; r < m; ++r) {
            Islands<D>& s = block[r];
            vs::Counts c;
            if (!ran) status[r] = vs::kCancelled;
            w.status = vs::kOk;
            if (status[r] == vs::kOk && s.close_span(w, 0, s.n, true)) {
                revisit_sequence(pass, s, w, list, c);
            }
            if (status[r] == vs::kOk) status[r] = w.status;
            for (int64_t p = 0; status[r] == vs::kOk && p < s.n_tallies(); ++p) {
                parts[p] = s.tally(bench.d, p);
            }
            islands_close(pass, s, w, status[r], pass->order[i0 + r], parts, pass->counts[index],
                          c);
        }
        keep.rewind(mark);
    }
}

// One long chain: spans between local islands in parallel, then each round's redo in parallel.
template <class D>
class LongIslands {
    using T = typename D::T;
    using In = typename D::In;

  public:
    LongIslands(vs::IslandPass* pass, int64_t which, int64_t span)
        : pass_(pass), sequence_(pass->order[which]), span_(span) {}

    void run() {
        vs::Scratch& keep = pass_->keep[0];
        stride_ = Tiling<T>(pass_->chains->n_labels).Kp;
        n_ = pass_->chains->offset[sequence_ + 1] - pass_->chains->offset[sequence_];
        T* buffer = keep.array<T>(IslandBench<D>::kRows * stride_);
        const int64_t pieces = (n_ + span_ - 1) / span_;
        cut_ = keep.array<int64_t>(pieces + 2);
        status_ = keep.array<std::atomic<int32_t>>(1);
        changed_ = keep.array<int64_t>(n_);
        touched_ = keep.array<int64_t>(2 * n_ + pieces);
        if (keep.failed) {
            pass_->status[sequence_] = vs::kNoMemory;
            return;
        }
        status_->store(vs::kOk);
        IslandBench<D> bench(pass_, 0, buffer, stride_);
        IslandWorker<D>& w = bench.worker;
        vs::Counts c;
        if (!s_.init(bench.d, *pass_->chains, sequence_, static_cast<In*>(pass_->marginals),
                     pass_->islands, pass_->zeta, pass_->revisit != 0, false, keep)) {
            w.status = vs::kNoMemory;
        } else {
            s_.shared = true;
            parts_ = keep.array<typename Islands<D>::Tally>(s_.n_tallies());
            w.status = vs::kNoMemory;
            if (parts_) {
                parallel(&LongIslands::blank_piece, s_.n_tallies());
                w.status = failed() ? failure() : rounds(w, c, pieces);
                if (w.status == vs::kOk) {
                    parallel(&LongIslands::tally_piece, s_.n_tallies());
                    w.status = failure();
                }
            }
        }
        c.full = w.full + full_.load();
        c.sparse = w.sparse + sparse_.load();
        islands_close(pass_, s_, w, w.status, sequence_, parts_, pass_->counts[0], c);
    }

  private:
    vs::Status rounds(IslandWorker<D>& w, vs::Counts& c, int64_t pieces) {
        find_cuts(pieces);
        if (failed()) return failure();
        int64_t longest = 0;
        for (int64_t p = 0; p < n_cuts_; ++p) {
            if (cut_[p + 1] - cut_[p] > longest) longest = cut_[p + 1] - cut_[p];
        }
        if (longest * pass_->threads > n_ && pass_->threads > 1) {
            first_round_by_phases(w, pieces);
            if (failed()) return failure();
        } else {
            parallel(&LongIslands::span_piece, n_cuts_);
            if (failed()) return failure();
            for (int64_t p = 1; p < n_cuts_; ++p) {
                if (!s_.actual(w, cut_[p])) return w.status;
            }
        }
        // Positions with an event after round 0.
        int64_t m = 0;
        for (int64_t i = 0; i < n_; ++i) {
            if (s_.event[i] != Islands<D>::kNone) touched_[m++] = i;
        }
        for (;;) {
            const bool limited = pass_->revisit >= 0 && c.rounds >= pass_->revisit;
            if (!s_.decide(w, touched_, m, limited, c, changed_, &n_changed_)) return w.status;
            if (n_changed_ == 0) return vs::kOk;
            ++c.rounds;
            cut_changes();
            parallel(&LongIslands::redo_piece, n_chunks_);
            if (!failed()) parallel(&LongIslands::refresh_piece, n_chunks_);
            if (failed()) return failure();
            s_.forget(changed_, n_changed_);
            m = 0;
            for (int64_t q = 0; q < n_chunks_; ++q) {
                for (int64_t k = 0; k < count_[q]; ++k) {
                    const int64_t i = list_[q][k];
                    if (s_.event[i] != Islands<D>::kNone) touched_[m++] = i;
                }
            }
            sort_positions(touched_, m);
        }
    }

    bool failed() const { return status_->load() != vs::kOk; }
    vs::Status failure() const { return static_cast<vs::Status>(status_->load()); }

    // Cuts: a local island soon after a multiple of the span, where there is one.
    void find_cuts(int64_t pieces) {
        seek_ = touched_;  // (pieces,), free until the first events
        parallel(&LongIslands::seek_piece, pieces);
        n_cuts_ = 0;
        cut_[n_cuts_++] = 0;
        for (int64_t p = 1; p < pieces; ++p) {
            if (seek_[p] >= 0) cut_[n_cuts_++] = seek_[p];
        }
        cut_[n_cuts_] = n_;
    }
    void seek_piece(IslandWorker<D>& w, int64_t p) {
        const int64_t lo = p * span_, most = lo + span_ / 8 + 1;
        seek_[p] = -1;
        for (int64_t i = lo; p > 0 && i < n_ && i < most; ++i) {
            if (!s_.locals(w, i, i + 1)) return;
            if (!s_.island(i)) continue;
            seek_[p] = i;
            return;
        }
    }

    // Spans too unequal to share: step by step over the whole chain. A gap that is most of the
    // work gives its halves to two threads, which meet in the middle.
    void first_round_by_phases(IslandWorker<D>& w, int64_t pieces) {
        using G = GapRun<D>;
        vs::Scratch& keep = pass_->keep[0];
        const bool keeps = n_ * stride_ * static_cast<int64_t>(sizeof(T)) <= kSpanBytes;
        T* rows = keeps ? keep.array<T>(n_ * stride_) : nullptr;
        gaps_ = keep.array<G>(n_ / 2 + 1);
        group_ = keep.array<int64_t>(n_ / 2 + 2);
        if (keep.failed) return status_->store(vs::kNoMemory);
        s_.store_psi(0, n_, rows, static_cast<int>(stride_));
        parallel(&LongIslands::local_piece, pieces);
        if (failed()) return;
        int64_t n_gaps = 0, free = 0;
        s_.find_gaps(0, n_, nullptr, gaps_, &n_gaps);
        for (int64_t q = 0; q < n_gaps; ++q) free += gaps_[q].z - gaps_[q].a;
        // Giants first; fewer than threads.
        n_giants_ = 0;
        for (int64_t q = 0; q < n_gaps; ++q) {
            const int64_t size = gaps_[q].z - gaps_[q].a;
            if (size < kGiant || size * pass_->threads <= free) continue;
            const G giant = gaps_[q];
            gaps_[q] = gaps_[n_giants_];
            gaps_[n_giants_++] = giant;
        }
        const int64_t want = free / (8 * pass_->threads) + 1;
        n_groups_ = 0;
        for (int64_t q = n_giants_, size = want; q < n_gaps; ++q) {
            if (size >= want) {
                group_[n_groups_++] = q;
                size = 0;
            }
            size += gaps_[q].z - gaps_[q].a;
        }
        group_[n_groups_] = n_gaps;
        parallel(&LongIslands::first_half_piece, 2 * n_giants_ + n_groups_);
        for (int64_t q = 0; q < n_giants_ && !failed(); ++q) {
            if (!s_.cross_middle(w, gaps_[q])) status_->store(w.status);
        }
        if (!failed()) parallel(&LongIslands::second_half_piece, 2 * n_giants_);
        if (!failed()) parallel(&LongIslands::renew_piece, n_giants_);
        if (!failed()) parallel(&LongIslands::close_piece, pieces);
        s_.store_psi(0, n_, nullptr, 0);
    }
    void local_piece(IslandWorker<D>& w, int64_t p) {
        const int64_t lo = p * span_, hi = lo + span_;
        s_.locals(w, lo, hi < n_ ? hi : n_);
    }
    void close_piece(IslandWorker<D>& w, int64_t p) {
        const int64_t lo = p * span_, hi = lo + span_;
        s_.close_span(w, lo, hi < n_ ? hi : n_, false);
    }
    void first_half_piece(IslandWorker<D>& w, int64_t q) {
        using G = GapRun<D>;
        if (q < 2 * n_giants_) {
            const G& g = gaps_[q / 2];
            return q % 2 == 0 ? run_part(w, q / 2, g.a, G::kFirstForward, G::kFirstForward)
                              : run_part(w, q / 2, g.z - 1, G::kFirstBackward, G::kFirstBackward);
        }
        const int64_t g = q - 2 * n_giants_;
        vs::Status status = vs::kOk;
        for (int64_t k = group_[g]; k < group_[g + 1]; ++k) gaps_[k].status = &status;
        if (run_gaps(w, gaps_ + group_[g], group_[g + 1] - group_[g])) w.status = status;
    }
    void second_half_piece(IslandWorker<D>& w, int64_t q) {
        using G = GapRun<D>;
        const GapRun<D>& g = gaps_[q / 2];
        if (q % 2 == 0) {
            run_part(w, q / 2, g.middle() + 1, G::kSecondForward, G::kSecondForward);
        } else {
            run_part(w, q / 2, g.middle_back() - 1, G::kSecondBackward, G::kSecondBackward);
        }
    }
    void renew_piece(IslandWorker<D>& w, int64_t q) {
        run_part(w, q, gaps_[q].a, GapRun<D>::kRenewStale, GapRun<D>::kLastBackward);
    }
    void run_part(IslandWorker<D>& w, int64_t q, int64_t i, typename GapRun<D>::Phase phase,
                  typename GapRun<D>::Phase until) {
        vs::Status status = vs::kOk;
        GapRun<D> r = GapRun<D>::part(&s_, gaps_[q].a, gaps_[q].z, i, phase, until, &status);
        r.again = true;  // settling looks at flags; it finds nothing where nothing was decided late
        if (run_gaps(w, &r, 1)) w.status = status;
    }

    // Cuts the list of changes into chunks that do not reach across each other.
    void cut_changes() {
        const int64_t want = n_changed_ / kMaxChunks + 8;
        n_chunks_ = 0;
        int64_t first = 0;
        for (int64_t q = 1; q <= n_changed_; ++q) {
            const bool end = q == n_changed_;
            if (!end && (q - first < want || n_chunks_ + 1 >= kMaxChunks ||
                         !s_.separable(changed_[q - 1], changed_[q]))) {
                continue;
            }
            first_[n_chunks_] = first;
            last_[n_chunks_++] = q;
            first = q;
        }
    }

    void blank_piece(IslandWorker<D>&, int64_t p) {
        const int64_t lo = p * Islands<D>::kTallied, hi = lo + Islands<D>::kTallied;
        s_.blank(lo, hi < n_ ? hi : n_);
    }
    void tally_piece(IslandWorker<D>& w, int64_t p) { parts_[p] = s_.tally(w.d, p); }
    void span_piece(IslandWorker<D>& w, int64_t p) {
        const int64_t lo = cut_[p], hi = cut_[p + 1];
        int64_t n_gaps = 0;
        vs::Status status = vs::kOk;
        GapRun<D>* gaps = w.temporary->template array<GapRun<D>>((hi - lo) / 2 + 1);
        // A huge span (no local islands in sight) computes its local factors again instead.
        const int64_t kept = (hi - lo) * stride_;
        const bool keeps = kept * static_cast<int64_t>(sizeof(T)) <= kSpanBytes;
        T* rows = keeps ? w.temporary->template array<T>(kept) : nullptr;
        if (gaps == nullptr || (keeps && rows == nullptr)) {
            w.status = vs::kNoMemory;
            return;
        }
        s_.store_psi(lo, hi, rows, static_cast<int>(stride_));
        if (s_.locals(w, lo, hi)) {
            s_.find_gaps(lo, hi, &status, gaps, &n_gaps);
            if (run_gaps(w, gaps, n_gaps)) {
                w.status = status;
                if (status == vs::kOk) s_.close_span(w, lo, hi, true);
            }
        }
        s_.store_psi(lo, hi, nullptr, 0);
    }
    void redo_piece(IslandWorker<D>& w, int64_t q) {
        const int64_t* list = changed_ + first_[q];
        const int64_t m = last_[q] - first_[q];
        // At most everything between the islands around the chunk is touched.
        int64_t a = list[0], z = list[m - 1];
        for (--a; a > 0 && !s_.island(a);) --a;
        for (++z; z < n_ - 1 && !s_.island(z);) ++z;
        list_[q] = w.keep.template array<int64_t>(z - a + 1 > 0 ? z - a + 2 : 2);
        count_[q] = 0;
        if (list_[q] == nullptr) {
            w.status = vs::kNoMemory;
            return;
        }
        s_.redo(w, list, m, list_[q], &count_[q]);
    }
    void refresh_piece(IslandWorker<D>& w, int64_t q) { s_.refresh(w, list_[q], count_[q]); }

    using Piece = void (LongIslands::*)(IslandWorker<D>&, int64_t);
    // A call that was stopped has skipped pieces: what they were to write must not be read.
    void parallel(Piece piece, int64_t count) {
        piece_ = piece;
        pass_->parallel(pass_->self, &LongIslands::trampoline, this, count);
        if (pass_->control->stop.load()) status_->store(vs::kCancelled);
    }
    static void trampoline(void* self, int64_t index, int worker) {
        LongIslands& o = *static_cast<LongIslands*>(self);
        if (o.status_->load(std::memory_order_relaxed) != vs::kOk) return;
        vs::Scratch& tmp = o.pass_->temporary[worker];
        tmp.reset();
        T* buffer = tmp.template array<T>(IslandBench<D>::kRows * o.stride_);
        if (buffer == nullptr) {
            o.status_->store(vs::kNoMemory);
            return;
        }
        IslandBench<D> bench(o.pass_, worker, buffer, o.stride_);
        (o.*o.piece_)(bench.worker, index);
        if (bench.worker.status != vs::kOk) o.status_->store(bench.worker.status);
        o.full_.fetch_add(bench.worker.full, std::memory_order_relaxed);
        o.sparse_.fetch_add(bench.worker.sparse, std::memory_order_relaxed);
    }

    static constexpr int64_t kMaxChunks = 256;
    static constexpr int64_t kGiant = 16;  // positions: a shorter gap is not worth two threads
    static constexpr int64_t kSpanBytes = int64_t{8} << 20;  // of local factors kept in a span
    vs::IslandPass* pass_;
    int64_t sequence_, span_, stride_ = 0, n_ = 0, n_cuts_ = 0, n_changed_ = 0, n_chunks_ = 0;
    Islands<D> s_;
    int64_t *cut_ = nullptr, *changed_ = nullptr, *touched_ = nullptr, *seek_ = nullptr;
    GapRun<D>* gaps_ = nullptr;
    int64_t* group_ = nullptr;  // first gap of each group
    int64_t n_giants_ = 0, n_groups_ = 0;
    std::atomic<int32_t>* status_ = nullptr;
    typename Islands<D>::Tally* parts_ = nullptr;
    std::atomic<int64_t> full_{0}, sparse_{0};
    int64_t first_[kMaxChunks], last_[kMaxChunks], count_[kMaxChunks];
    int64_t* list_[kMaxChunks];
    Piece piece_ = nullptr;
};

}  // namespace VS_NS
