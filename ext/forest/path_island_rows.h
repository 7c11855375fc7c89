// The functions that islands call, for chains end to end: messages from the left and from the
// right, and marginals.
#pragma once

#include <algorithm>

#include "forest/level.h"
#include "forest/path_exact.h"
#include "core/sum.h"
#include "islands/rules.h"
#include "rows/linear.h"
#include "rows/log.h"
#include "rows/pack.h"

namespace VS_NS {

template <class D>
class PathRows {
  public:
    using T = typename D::T;
    using In = typename D::In;
    using RowRequest = vs::RowRequest;
    static constexpr int kMost = RowRequest::kMost;
    static constexpr bool kKeepsProducts = false;

    PathRows(vs::PathIslands* pass, int worker, vs::Scratch& scratch)
        : s_(*pass),
          i_(*pass->state),
          keep_(pass->scratch[worker]),
          scratch_(scratch),
          worker_(worker),
          Kp_(Tiling<T>(pass->model.arrays.n_labels).Kp),
          buffer_(scratch.template array<T>((kMost + 4) * static_cast<int64_t>(Kp_))),
          in_(pass->model.arrays),
          packed_(packed_view<T>(*pass->packing)),
          d_(in_, packed_, buffer_),
          psi_(buffer_ + 2 * Kp_),
          ones_(buffer_ + 3 * Kp_),
          x_(buffer_ + 4 * Kp_) {
        if (!buffer_) return;
        for (int r = 0; r < kMost + 4; ++r) d_.clear(buffer_ + r * Kp_);
        d_.ones(ones_);
        ok = d_.open(scratch_);
    }
    bool ok = false;

    // Those marked as `made`. A few advance in lockstep, the longest first.
    void whole(const T* rows) {
        const vs::Chains& c = in_.c;
        const auto length = [&](int64_t s) { return c.offset[s + 1] - c.offset[s]; };
        const vs::Scratch::Mark start = scratch_.mark();
        int64_t* some = scratch_.template array<int64_t>(s_.n_sequences);
        int64_t n = 0;
        for (int64_t t = 0; some && t < s_.n_sequences; ++t) {
            if (s_.made[t]) some[n++] = s_.order[t];
        }
        if (n > 0) {
            std::sort(some, some + n, [&](int64_t a, int64_t b) {
                return length(a) != length(b) ? length(a) > length(b) : a < b;
            });
        }
        Ticker ticker(s_.control, worker_ == 0, d_.K, D::kSlower);
        Exact<D> engine(d_, ticker);
        NoSink sink;
        const int64_t together = vs::sequences_together(c, false);
        for (int64_t i = 0; i < n; i += together) {
            const vs::Scratch::Mark mark = scratch_.mark();
            const int m = static_cast<int>(std::min(n - i, together));
            Lane<D> lanes[vs::kMostTogether];
            bool ok = true;
            for (int r = 0; r < m && ok; ++r) {
                Lane<D>& s = lanes[r];
                const int64_t q = c.offset[some[i + r]] - s_.begin;
                ok = lane_init(s, d_, c, some[i + r], static_cast<In*>(s_.marginals), scratch_);
                s.alpha = ok ? scratch_.template array<T>(s.n * Kp_) : nullptr;
                ok = s.alpha != nullptr;
                s.psi_rows = const_cast<T*>(rows) + q * Kp_;
                s.made_shift = s_.shift + q;
                s.made_flag = i_.flag + q;
            }
            if (!ok) break;
            ok = engine.template group<true>(lanes, m, sink);
            for (int r = 0; r < m; ++r) {
                if (!ok) lanes[r].status = vs::kCancelled;
                require_little_added(lanes[r]);
                Exact<D>::finish(&s_, d_, lanes[r]);
            }
            if (!ok) break;
            scratch_.rewind(mark);
        }
        if (scratch_.failed) s_.control->stop.store(2);
        scratch_.rewind(start);
    }

    int n_labels() const { return d_.K; }
    int64_t stride() const { return Kp_; }
    static T one() { return D::one(); }  // the largest entry of a local factor
    bool copies_rows() const { return d_.copies_rows(); }
    // Sweep by sweep: decisions are hard to predict, and sums take long to arrive.
    void locals(int64_t first, int m, T* rows, double* sums) {
        typename D::Probe probe[kMost];
        for (int r = 0; r < m; ++r) {
            const int64_t q = first + r;
            s_.own_f[q] = s_.own_b[q] = nullptr;
            s_.added[q] = 0.0f;
            probe[r] = d_.probe(s_.begin + q, is_first(q), is_last(q), rows + r * Kp_);
        }
        for (int r = 0; r < m; ++r) {
            const int64_t q = first + r;
            // Also beyond the sequences: the next one usually follows in memory.
            d_.prefetch(s_.begin + q + kAhead);
            row_prefetch_write(output(q), d_.K);
            sums[r] = d_.local(probe[r], rows + r * Kp_);
            s_.shift[q] = probe[r].shift();
            if (probe[r].plain) i_.flag[q] |= vs::kPlain;
        }
    }
    void locals_at(int64_t first, int64_t last, const T* rows) {
        first_ = first;
        last_ = rows ? last : first;
        locals_ = rows;
    }
    void gather(RowRequest* list, int m) {
        for (int r = 0; r < m; ++r) {
            RowRequest& a = list[r];
            s_.row[a.slot] = a.row ? local(a.slot, static_cast<T*>(a.row)) : stored(a.slot);
            if (a.other < 0) continue;  // a marginal needs no product
            T* x = start(a, r);
            if (!d_.absorb_share(row(a.slot), plain(a.slot), from(a), x, &a.scale, &a.largest)) {
                widen(a.slot);
            }
        }
    }
    void exclude(RowRequest* list, int m) {
        for (int r = 0; r < m; ++r) {
            RowRequest& a = list[r];
            T* x = start(a, r);
            if (!d_.absorb(row(a.slot), plain(a.slot), from(a), true, x, &a.scale)) widen(a.slot);
        }
    }
    bool send(const RowRequest* list, int m) {
        int64_t edge[2][kMost];
        const T* x[2][kMost];
        T* y[2][kMost];
        int n[2] = {0, 0};
        for (int r = 0; r < m; ++r) {
            const RowRequest& a = list[r];
            const int right = a.other > a.slot;
            T* own = own_row(right ? s_.own_f : s_.own_b, a.other);
            if (!own) return false;
            (right ? s_.f : s_.b)[a.other] = own;
            (right ? s_.scale_f : s_.scale_b)[a.other] = a.scale;
            const int i = n[right]++;
            edge[right][i] = edge_above(right ? a.other : a.slot);
            x[right][i] = static_cast<const T*>(a.x);
            y[right][i] = own;
        }
        double unused[kMost] = {};
        if (n[1] > 0) d_.forward(edge[1], n[1], x[1], y[1], unused);
        if (n[0] > 0) d_.backward(edge[0], n[0], x[0], y[0]);
        return true;
    }
    void beliefs(RowRequest* list, int m) { marginals<false>(list, m); }
    void actuals(RowRequest* list, int m) { marginals<true>(list, m); }
    int tell(int64_t q, int64_t other, bool alone) {
        int n = 0;
        if (!is_last(q) && (q + 1 == other) == alone) {
            T* own = copies_rows() ? own_row(s_.own_f, q + 1) : nullptr;
            if (copies_rows() && !own) return -1;
            s_.f[q + 1] = d_.row_message(edge_above(q + 1), i_.held[q], own);
            s_.scale_f[q + 1] = 0.0;
            ++n;
        }
        if (!is_first(q) && (q - 1 == other) == alone) {
            T* own = copies_rows() ? own_row(s_.own_b, q - 1) : nullptr;
            if (copies_rows() && !own) return -1;
            s_.b[q - 1] = d_.column_message(edge_above(q), i_.held[q], own);
            s_.scale_b[q - 1] = 0.0;
            ++n;
        }
        return n;
    }
    bool forbids(int64_t q, int64_t o) const {
        return !D::alive((o < q ? left(q) : right(q))[i_.held[q]]);
    }
    int mode(int64_t q, const T* row) const {
        return row ? row_argmax(row, d_.K) : row_argmax(output(q), d_.K);
    }
    // The part of log Z of a part of a sequence.
    void tally(int64_t number) {
        vs::IslandPart& part = s_.part[number];
        if (i_.status[s_.tree[part.first]].load(std::memory_order_relaxed) != vs::kOk) return;
        vs::Sum total;
        part.added = 0.0;
        for (int64_t q = part.first; q < part.last; ++q) {
            part.added += static_cast<double>(s_.added[q]);
            const bool first = is_first(q), last = is_last(q);
            if (i_.island(q)) {
                // A local island that never moved holds the mode of its local factor.
                const bool mode = (i_.flag[q] & (vs::kLocal | vs::kFlipped)) == vs::kLocal;
                total.add(
                    mode ? s_.shift[q]
                         : static_cast<double>(in_.score(s_.begin + q, i_.held[q], first, last)));
                if (!first && i_.island(q - 1)) {
                    total.add(static_cast<double>(
                        in_.edge_score(edge_above(q), i_.held[q - 1], i_.held[q])));
                }
                continue;
            }
            total.add(s_.shift[q]);
            if (!first) total.add(d_.edge_shift(edge_above(q)));
            if (!last && i_.island(q + 1)) total.add(d_.edge_shift(edge_above(q + 1)));
            if (first || i_.island(q - 1)) {
                total.add(d_.log_mass(s_.mass[q]) + D::kUnit * (s_.scale_f[q] + s_.scale_b[q]));
            }
        }
        part.log_mass = total.total();
    }

  private:
    bool is_first(int64_t q) const { return q == 0 || s_.tree[q - 1] != s_.tree[q]; }
    bool is_last(int64_t q) const { return q + 1 == i_.n || s_.tree[q + 1] != s_.tree[q]; }
    bool plain(int64_t q) const { return i_.flag[q] & vs::kPlain; }
    int64_t edge_above(int64_t q) const { return in_.c.per_edge ? s_.edge[s_.tree[q]] + q : 0; }
    In* output(int64_t q) const { return static_cast<In*>(s_.marginals) + (s_.begin + q) * d_.K; }
    const T* left(int64_t q) const { return is_first(q) ? ones_ : static_cast<const T*>(s_.f[q]); }
    const T* right(int64_t q) const { return is_last(q) ? ones_ : static_cast<const T*>(s_.b[q]); }
    // The message that goes on to the other.
    const T* from(const RowRequest& a) const {
        return a.other > a.slot ? left(a.slot) : right(a.slot);
    }
    T* start(RowRequest& a, int r) const {
        T* x = x_ + r * Kp_;
        a.x = x;
        a.scale = (a.other > a.slot ? s_.scale_f : s_.scale_b)[a.slot];
        return x;
    }
    const T* row(int64_t q) const { return static_cast<const T*>(s_.row[q]); }
    const T* stored(int64_t q) const { return locals_ + (q - first_) * Kp_; }
    // The local factor of q, made in `space` where it is not stored.
    const T* local(int64_t q, T* space) const {
        if (q >= first_ && q < last_) return stored(q);
        d_.local(d_.probe(s_.begin + q, is_first(q), is_last(q), space), space);
        return space;
    }
    T* own_row(void** own, int64_t q) {
        if (!own[q]) {
            T* row = keep_.template array<T>(Kp_);
            for (int k = d_.K; row && k < Kp_; ++k) row[k] = T(0);
            own[q] = row;
        }
        return static_cast<T*>(own[q]);
    }
    void widen(int64_t q) {
        int32_t ok = vs::kOk;
        i_.status[s_.tree[q]].compare_exchange_strong(ok, vs::kWiden);
    }
    // m' of a list, its products first. An island's own probability is enough where it is
    // above one half: then it is the mode.
    template <bool ISLANDS>
    void marginals(RowRequest* list, int m) {
        const bool alone = ISLANDS && s_.zeta > 0.5;
        Product<T> product[kMost];
        vs::Status status[kMost];
        for (int r = 0; r < m; ++r) {
            const int64_t q = list[r].slot;
            const T *psi = ISLANDS ? local(q, psi_) : row(q), *f = left(q), *b = right(q);
            T* x = x_ + r * Kp_;
            product[r] = alone ? d_.template product3<false>(psi, plain(q), f, b, x)
                               : d_.template product3<true>(psi, plain(q), f, b, x);
            status[r] = d_.massive(product[r], psi, f, b);
        }
        for (int r = 0; r < m; ++r) {
            RowRequest& a = list[r];
            const int64_t q = a.slot;
            In* const p = output(q);
            double mass = 0.0, added = 0.0;
            vs::Status s = status[r];
            if (s == vs::kOk) s = d_.divide(product[r], x_ + r * Kp_, p, &mass, &added);
            if (s == vs::kWiden) widen(q);
            a.alive = s != vs::kInfeasible;
            if (s != vs::kOk) continue;
            s_.mass[q] = mass;
            s_.added[q] = static_cast<float>(added);
            if (!ISLANDS) {
                a.largest = d_.peak(product[r]);
                continue;
            }
            const int v = i_.held[q];
            a.own = static_cast<double>(p[v]);
            a.largest = alone ? 0.0 : d_.peak(product[r]);
            if (a.own >= s_.zeta && a.own >= a.largest) continue;
            a.largest = static_cast<double>(row_max(p, d_.K));
            a.forbidden = !D::alive(left(q)[v]) || !D::alive(right(q)[v]);
        }
    }

    static constexpr int64_t kAhead = 16;  // rows between a prefetch and its use
    vs::PathIslands& s_;
    vs::IslandState& i_;
    vs::Scratch &keep_, &scratch_;
    int worker_;
    int Kp_;
    T* buffer_;
    Input<In> in_;
    Packed<T> packed_;
    D d_;
    T *psi_, *ones_, *x_;
    int64_t first_ = 0, last_ = 0;  // whose local factors are stored
    const T* locals_ = nullptr;
};

}  // namespace VS_NS
