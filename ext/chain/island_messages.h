// The messages and marginals of one chain with islands, and the events that they call for.
#pragma once

#include "chain/gaps.h"

namespace VS_NS {

template <class D>
class IslandMessages {
  public:
    using T = typename D::T;
    using In = typename D::In;
    using Worker = IslandWorker<D>;

    enum Flag : uint8_t {
        kIsland = 1,
        kReleased = 2,
        kFlipped = 4,
        kForward = 8,     // changed: messages to the right must be computed again
        kBackward = 16,   // ... to the left
        kPlain = 32,      // the local factor forbids nothing (see Linear::Probe)
        kToRelease = 64,  // to be released in this round
        kLocal = 128,     // an island by its local factor
    };
    enum Event : uint8_t { kNone, kDead, kContradiction, kRelease, kFlip, kBecome };

    int64_t begin, n, edge;
    In* out;
    int32_t* held;
    double zeta;
    bool decide_late;  // revisiting is allowed
    uint8_t *flag, *event;
    std::atomic<uint8_t>* stale;  // m' must be computed again; the only bytes two threads may set
    const T **f, **b;             // message into i from the left, from the right
    T **own_f, **own_b;           // rows allocated for them
    double *scale_f, *scale_b, *mass_of, *shift;
    float*
        added_by_floors;  // what floors may have added at each position, relative to the mass there
    T* ones;
    T** psi_at;           // (n,) stored local factors, null where they are computed again
    bool shared = false;  // several threads at work: they count messages themselves
    int64_t full = 0, sparse = 0;

    bool init(D& d, const vs::Chains& c, int64_t sequence, In* marginals, int32_t* islands,
              double threshold, bool late, bool keep_psi, vs::Scratch& s) {
        begin = c.offset[sequence];
        n = c.offset[sequence + 1] - begin;
        edge = c.edge[sequence];
        out = marginals + begin * d.K;
        held = islands + begin;
        zeta = threshold;
        decide_late = late;
        flag = s.array<uint8_t>(2 * n);
        stale = s.array<std::atomic<uint8_t>>(n);
        f = s.array<const T*>(2 * n);
        own_f = s.array<T*>(2 * n);
        scale_f = s.array<double>(4 * n);
        added_by_floors = s.array<float>(n);
        ones = s.array<T>(d.Kp);
        psi_at = s.array<T*>(n);
        T* rows = keep_psi ? s.array<T>(n * d.Kp) : nullptr;
        if (s.failed) return false;
        event = flag + n;
        b = f + n;
        own_b = own_f + n;
        scale_b = scale_f + n;
        mass_of = scale_f + 2 * n;
        shift = scale_f + 3 * n;
        if (keep_psi) store_psi(0, n, rows, d.Kp);
        d.clear(ones);
        d.ones(ones);
        return true;
    }
    // To be called for all positions before anything else.
    void blank(int64_t lo, int64_t hi) {
        for (int64_t i = lo; i < hi; ++i) {
            flag[i] = event[i] = 0;
            stale[i].store(0, std::memory_order_relaxed);
            held[i] = -1;
            own_f[i] = own_b[i] = nullptr;
            if (shared) psi_at[i] = nullptr;
        }
    }

    bool island(int64_t i) const { return flag[i] & kIsland; }
    bool plain(int64_t i) const { return flag[i] & kPlain; }

    // Where local factors of [lo, hi) are kept: rows of Kp, or null for nowhere.
    void store_psi(int64_t lo, int64_t hi, T* rows, int stride) {
        for (int64_t i = lo; i < hi; ++i) psi_at[i] = rows ? rows + (i - lo) * stride : nullptr;
    }

    const T* psi(Worker& w, int64_t i) {
        if (psi_at[i]) return psi_at[i];
        w.d.local(w.d.probe(begin + i, i == 0, i == n - 1, w.psi), w.psi);
        return w.psi;
    }

    // The local factors of [lo, hi); an island where the mode reaches zeta. A few at a time, sweep
    // by sweep: decisions are hard to predict, and sums take long to arrive.
    bool locals(Worker& w, int64_t lo, int64_t hi) {
        D& d = w.d;
        typename D::Probe probe[kTogether];
        T* p[kTogether];
        double sum[kTogether];
        for (int64_t i0 = lo; i0 < hi; i0 += kTogether) {
            const int m = static_cast<int>(hi - i0 < kTogether ? hi - i0 : kTogether);
            for (int r = 0; r < m; ++r) {
                const int64_t i = i0 + r;
                p[r] = psi_at[i] ? psi_at[i] : w.slots + r * d.Kp;
                probe[r] = d.probe(begin + i, i == 0, i == n - 1, p[r]);
            }
            for (int r = 0; r < m; ++r) {
                // Also beyond the sequence: the next one usually follows in memory.
                d.prefetch(begin + i0 + r + kAhead);
                row_prefetch_write(out + (i0 + r) * d.K, d.K);
                sum[r] = d.local(probe[r], p[r]);
            }
            for (int r = 0; r < m; ++r) {
                const int64_t i = i0 + r;
                shift[i] = probe[r].shift();
                if (!(sum[r] > 0.0)) {
                    w.status = vs::kInfeasible;
                    return false;
                }
                // An island at a cut is known already, and another thread may be reading it.
                if (island(i)) continue;
                if (probe[r].plain) flag[i] |= kPlain;
                if (1.0 >= zeta * sum[r]) {
                    become(i, row_find(p[r], d.K, D::one()));
                    flag[i] |= kLocal;
                }
            }
        }
        return true;
    }

    // f[i]: the message from i - 1, at once when that is an island or there is none. Otherwise
    // what the full message needs is prepared: its product in x (already there when `ready`).
    enum class Pull { kThere, kFull, kFailed };
    Pull begin_forward(Worker& w, int64_t i, T* x, bool ready, double scale) {
        D& d = w.d;
        if (i == 0) {
            f[0] = ones;
            scale_f[0] = 0.0;
            ++(shared ? w.sparse : sparse);
            return Pull::kThere;
        }
        const bool row = island(i - 1);
        if ((!row || d.copies_rows()) && !own(w, &own_f[i])) return Pull::kFailed;
        if (row) {
            f[i] = d.row_message(edge + i - 1, held[i - 1], own_f[i]);
            scale_f[i] = 0.0;
            ++(shared ? w.sparse : sparse);
            return Pull::kThere;
        }
        if (!ready) {
            scale = 0.0;
            if (!d.absorb(psi(w, i - 1), plain(i - 1), f[i - 1], true, x, &scale)) {
                widen(w);
                return Pull::kFailed;
            }
        }
        scale_f[i] = scale_f[i - 1] + scale;
        f[i] = own_f[i];
        ++(shared ? w.full : full);
        return Pull::kFull;
    }
    // b[i]: the message from i + 1, likewise.
    Pull begin_backward(Worker& w, int64_t i, T* x, bool ready, double scale) {
        D& d = w.d;
        if (i == n - 1) {
            b[i] = ones;
            scale_b[i] = 0.0;
            ++(shared ? w.sparse : sparse);
            return Pull::kThere;
        }
        const bool row = island(i + 1);
        if ((!row || d.copies_rows()) && !own(w, &own_b[i])) return Pull::kFailed;
        if (row) {
            b[i] = d.column_message(edge + i, held[i + 1], own_b[i]);
            scale_b[i] = 0.0;
            ++(shared ? w.sparse : sparse);
            return Pull::kThere;
        }
        if (!ready) {
            scale = 0.0;
            if (!d.absorb(psi(w, i + 1), plain(i + 1), b[i + 1], true, x, &scale)) {
                widen(w);
                return Pull::kFailed;
            }
        }
        scale_b[i] = scale_b[i + 1] + scale;
        b[i] = own_b[i];
        ++(shared ? w.full : full);
        return Pull::kFull;
    }
    bool pull_forward(Worker& w, int64_t i) {
        const Pull p = begin_forward(w, i, w.product, false, 0.0);
        if (p != Pull::kFull) return p == Pull::kThere;
        const int64_t e = edge + i - 1;
        const T* x = w.product;
        double unused = 0.0;
        w.d.forward(&e, 1, &x, &own_f[i], &unused);
        return w.t.go_on() || cancel(w);
    }
    bool pull_backward(Worker& w, int64_t i) {
        const Pull p = begin_backward(w, i, w.product, false, 0.0);
        if (p != Pull::kFull) return p == Pull::kThere;
        const int64_t e = edge + i;
        const T* x = w.product;
        w.d.backward(&e, 1, &x, &own_b[i]);
        return w.t.go_on() || cancel(w);
    }

    // m'_i from both messages; notes the event that it calls for.
    bool actual(Worker& w, int64_t i) {
        Pending m;
        multiply(w, i, w.d.row, m);
        return conclude(w, m, w.d.row);
    }
    // The same for a list of positions, when no gap is under way.
    bool actuals(Worker& w, const int64_t* at, int64_t count) {
        Pending m[kTogether];
        for (int64_t q0 = 0; q0 < count; q0 += kTogether) {
            const int c = static_cast<int>(count - q0 < kTogether ? count - q0 : kTogether);
            for (int r = 0; r < c; ++r) multiply(w, at[q0 + r], w.slots + r * w.d.Kp, m[r]);
            for (int r = 0; r < c; ++r) {
                if (!conclude(w, m[r], w.slots + r * w.d.Kp)) return false;
            }
        }
        return true;
    }

  protected:
    static constexpr int64_t kAhead = 4;  // rows between a prefetch and its use
    static constexpr int kTogether = 4;   // rows in flight

    // A marginal between its product and its division.
    struct Pending {
        int64_t i;
        Product<T> product;
        vs::Status massive;
        bool alone;  // the island's own probability is enough: above one half it is the mode
    };
    VS_INLINE void multiply(Worker& w, int64_t i, T* product, Pending& m) {
        const D& d = w.d;
        const T* local = psi(w, i);
        m.i = i;
        m.alone = zeta > 0.5 && island(i);
        m.product = m.alone ? d.template product3<false>(local, plain(i), f[i], b[i], product)
                            : d.template product3<true>(local, plain(i), f[i], b[i], product);
        m.massive = d.massive(m.product, local, f[i], b[i]);
    }
    VS_INLINE bool conclude(Worker& w, const Pending& m, const T* product) {
        const D& d = w.d;
        const int64_t i = m.i;
        In* p = out + i * d.K;
        double mass = 0.0, added = 0.0;
        event[i] = kNone;
        vs::Status s = m.massive;
        if (s == vs::kOk) s = d.divide(m.product, product, p, &mass, &added);
        if (s == vs::kWiden) return widen(w);
        if (s == vs::kInfeasible) {
            event[i] = kDead;
            return true;
        }
        mass_of[i] = mass;
        added_by_floors[i] = static_cast<float>(added);
        if (!island(i)) {
            if (D::peak(m.product) >= zeta && !(flag[i] & kReleased)) event[i] = kBecome;
            return true;
        }
        const int v = held[i];
        const double pv = static_cast<double>(p[v]);
        if (pv >= zeta && (m.alone || pv >= D::peak(m.product))) return true;
        if (!D::alive(f[i][v]) || !D::alive(b[i][v])) {
            event[i] = kContradiction;
        } else {
            event[i] = static_cast<double>(row_max(p, d.K)) >= zeta ? kFlip : kRelease;
        }
        return true;
    }

    void become(int64_t i, int v) {
        flag[i] |= kIsland;
        held[i] = v;
    }
    bool own(Worker& w, T** row) {
        if (*row) return true;
        *row = w.keep.template array<T>(w.d.Kp);
        if (*row == nullptr) {
            w.status = vs::kNoMemory;
            return false;
        }
        w.d.clear(*row);
        return true;
    }
    bool widen(Worker& w) {
        w.status = vs::kWiden;
        return false;
    }
    bool cancel(Worker& w) {
        w.status = vs::kCancelled;
        return false;
    }
};

}  // namespace VS_NS
