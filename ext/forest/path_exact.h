// Exact forward-backward (SMM11 section 2, Eqs. 3-4; ERRATA: psi_i counted once).
//
//   alpha_i = psi_i * (alpha_{i-1} E)      b_i = E (psi_{i+1} * b_{i+1})      m_i = alpha_i * b_i
//
// A few sequences advance in lockstep so that one load of E serves them all. A pass over part
// of a chain either stores its message (in scratch, or in the output row when the chain is
// long) or meets the other direction's stored message and writes the marginal there. Bits
// depend on none of this: every message is the same chain of operations.
#pragma once

#include "core/sum.h"
#include "rows/linear.h"
#include "rows/log.h"
#include "core/scratch.h"
#include "core/ticker.h"
#include "forest/together.h"

namespace VS_NS {

// kPass: nothing is kept of a message but what the next one needs.
enum class Role { kStore, kMeet, kPass };

// One sequence in one direction.
template <class D>
struct Lane {
    using T = typename D::T;
    using Row = typename D::Row;
    int64_t begin, n, edge;  // first position, length, first edge
    Row out;                 // (n, K) marginals of this sequence, or null
    Row row;                 // (K,) where marginals go when `out` is null
    T* alpha;                // (n, Kp) stored forward messages, or null: stored in `out`
    T* psi_rows;             // (n, Kp) stored local factors, or null: computed again
    int64_t stride;          // from one stored row to the next
    T *psi, *y, *message;    // (Kp,) local factor, incoming, outgoing
    T* product;              // (Kp,) of both directions
    double scale;            // taken out of forward messages, in units of D::kUnit
    double edge_shift;       // per-edge shifts
    vs::Sum shift;           // local shifts
    double log_end;          // log sum of the last forward message
    vs::Status status;
    bool plain;     // so were all rows of psi_rows (see Local)
    bool prepared;  // the backward message to send has been made with the last marginal
    double mass;    // of the last marginal written
    double added;   // what floors may have added, relative to Z
};

struct NoSink {
    static constexpr bool kActive = false;
    template <class... A>
    void edge(A&&...) {}
};

template <class D>
bool lane_init(Lane<D>& s, D& d, const vs::Chains& c, int64_t sequence, typename D::Row out,
               vs::Scratch& scratch) {
    using T = typename D::T;
    s.begin = c.offset[sequence];
    s.n = c.offset[sequence + 1] - s.begin;
    s.edge = c.edge[sequence];
    s.out = out ? out + s.begin * d.K : typename D::Row();
    s.alpha = s.psi_rows = nullptr;
    s.stride = d.Kp;
    T* p = scratch.array<T>(4 * static_cast<int64_t>(d.Kp));
    void* row = scratch.array<double>(d.Kp);
    s.row = RowsOf<typename D::In>::row(row, c.dtype);
    if (p == nullptr || row == nullptr) return false;
    s.psi = p;
    s.y = p + d.Kp;
    s.message = p + 2 * d.Kp;
    s.product = p + 3 * d.Kp;
    for (int i = 0; i < 4; ++i) d.clear(p + i * d.Kp);
    s.scale = s.edge_shift = s.log_end = s.mass = s.added = 0.0;
    s.shift = vs::Sum();
    s.status = vs::kOk;
    s.plain = true;
    s.prepared = false;
    return true;
}

template <class D>
class Exact {
  public:
    using T = typename D::T;
    using Row = typename D::Row;

    Exact(D& d, Ticker& t) : d_(d), t_(t) {}

    // Forward messages of positions [i0, i1) of lanes[0..m), all of length >= i1.
    bool forward(Lane<D>* lanes, int m, int64_t i0, int64_t i1, Role role) {
        const T* x[vs::kMostTogether];
        T* y[vs::kMostTogether];
        int64_t edge[vs::kMostTogether];
        double shift[vs::kMostTogether] = {};
        for (int64_t i = i0; i < i1; ++i) {
            if (!t_.go_on(m)) return false;
            if (i > 0) {
                for (int r = 0; r < m; ++r) {
                    Lane<D>& s = lanes[r];
                    x[r] = s.alpha ? s.alpha + (i - 1) * s.stride : s.message;
                    y[r] = s.y;
                    edge[r] = s.edge + i - 1;
                    shift[r] = 0.0;
                }
                d_.forward(edge, m, x, y, shift);
            }
            typename D::Probe probe[vs::kMostTogether];
            for (int r = 0; r < m; ++r) {
                Lane<D>& s = lanes[r];
                probe[r] = d_.probe(s.begin + i, i == 0, i == s.n - 1, psi_of(s, i));
                if (i + kAhead < s.n) {
                    d_.prefetch(s.begin + i + kAhead);
                    if (!s.alpha && s.out) row_prefetch_write(s.out + (i + kAhead) * d_.K, d_.K);
                }
                if (i == 0) d_.ones(s.y);
            }
            for (int r = 0; r < m; ++r) {
                Lane<D>& s = lanes[r];
                T* a = s.alpha ? s.alpha + i * s.stride : s.message;
                if (!d_.enter(probe[r], s.y, i % D::kEvery == D::kEvery - 1, psi_of(s, i), a,
                              &s.scale)) {
                    s.status = vs::kWiden;
                }
                s.plain = s.plain && probe[r].plain;
                s.shift.add(probe[r].shift());
                s.edge_shift += shift[r];
                if (i == s.n - 1) s.log_end = d_.log_sum(a);
                if (role == Role::kMeet) {
                    meet(s, i, a, nullptr);
                } else if (role == Role::kPass) {
                    if (!d_.untouched(s.y)) s.status = vs::kWiden;
                } else if (!s.alpha) {
                    copy_out(a, s.out + i * d_.K);
                }
            }
        }
        return true;
    }

    // Backward messages of positions [i0, i1), from i1 - 1 down; lanes of different length are
    // aligned at their ends: positions count from the end, j = n - 1 - i in [j0, j1).
    template <class Sink>
    bool backward(Lane<D>* lanes, int m, int64_t j0, int64_t j1, Role role, Sink& sink) {
        const T* x[vs::kMostTogether];
        T* y[vs::kMostTogether];
        int64_t edge[vs::kMostTogether];
        double unused = 0.0;  // log Z is read off the forward messages
        for (int64_t j = j0; j < j1; ++j) {
            if (!t_.go_on(m)) return false;
            for (int r = 0; r < m; ++r) {
                Lane<D>& s = lanes[r];
                const int64_t i = s.n - 1 - j;
                if (i >= kAhead) {
                    if (s.out) row_prefetch_write(s.out + (i - kAhead) * d_.K, d_.K);
                    if (!s.psi_rows) d_.prefetch(s.begin + i - kAhead);
                }
                if (j == 0) {
                    d_.ones(s.y);
                    continue;
                }
                if (!s.prepared) {
                    const T* psi = s.psi;
                    bool plain = s.plain;
                    if (s.psi_rows) {
                        psi = s.psi_rows + (i + 1) * s.stride;
                    } else {
                        const typename D::Probe probe =
                            d_.probe(s.begin + i + 1, false, j == 1, s.psi);
                        d_.local(probe, s.psi);
                        plain = probe.plain;
                    }
                    if (!d_.absorb(psi, plain, s.y, j % D::kEvery == 0, s.message, &unused)) {
                        s.status = vs::kWiden;
                    }
                }
                s.prepared = false;
                x[r] = s.message;
                y[r] = s.y;
                edge[r] = s.edge + i;
            }
            if (j > 0) d_.backward(edge, m, x, y);
            if (!Sink::kActive && role == Role::kMeet && lanes[0].psi_rows) {
                meet_and_send(lanes, m, j);
                continue;
            }
            for (int r = 0; r < m; ++r) {
                Lane<D>& s = lanes[r];
                const int64_t i = s.n - 1 - j;
                if (role == Role::kStore) {
                    copy_out(s.y, s.out + i * d_.K);
                    continue;
                }
                const T* a = s.alpha ? s.alpha + i * s.stride : nullptr;
                meet(s, i, a, s.y);
                if (Sink::kActive && j > 0 && s.status == vs::kOk) {
                    sink.edge(d_, s, i, a, s.message);
                }
            }
        }
        return true;
    }

    // Forward messages of whole sequences in lockstep, longest first.
    bool group_forward(Lane<D>* lanes, int m, Role role) {
        int64_t i = 0;
        for (int r = m; r > 0; --r) {
            if (!forward(lanes, r, i, lanes[r - 1].n, role)) return false;
            i = lanes[r - 1].n;
        }
        return true;
    }

    // Both directions of whole sequences, likewise; messages in scratch or in the output.
    template <class Sink>
    bool group(Lane<D>* lanes, int m, Sink& sink) {
        if (!group_forward(lanes, m, Role::kStore)) return false;
        int64_t i = 0;
        for (int r = m; r > 0; --r) {
            if (!backward(lanes, r, i, lanes[r - 1].n, Role::kMeet, sink)) return false;
            i = lanes[r - 1].n;
        }
        return true;
    }

    static double log_z(const D& d, const Lane<D>& s) {
        return s.shift.total() +
               (s.edge_shift + d.edge_shift_total(s.n - 1) + D::kUnit * s.scale + s.log_end);
    }

    static constexpr int64_t kAhead = 2;  // rows between a prefetch and its use

  private:
    T* psi_of(const Lane<D>& s, int64_t i) const {
        return s.psi_rows ? s.psi_rows + i * s.stride : s.psi;
    }
    // Marginals at j from the end, and the backward messages to send from there.
    void meet_and_send(Lane<D>* lanes, int m, int64_t j) {
        Product<T> product[vs::kMostTogether];
        vs::Status status[vs::kMostTogether];
        for (int r = 0; r < m; ++r) {
            Lane<D>& s = lanes[r];
            const int64_t at = (s.n - 1 - j) * s.stride;
            bool kept = true;
            product[r] = d_.product_absorb(s.alpha + at, s.y, s.psi_rows + at, s.plain,
                                           (j + 1) % D::kEvery == 0, s.product, s.message, &kept);
            status[r] = d_.massive(product[r], s.alpha + at, s.y, s.y);
            if (!kept) note(s, vs::kWiden);
            s.prepared = true;
        }
        for (int r = 0; r < m; ++r) {
            Lane<D>& s = lanes[r];
            const int64_t i = s.n - 1 - j;
            note(s, status[r]);
            if (status[r] == vs::kOk) {
                note(s, d_.divide(product[r], s.product, output(s, i), &s.mass, &s.added));
            }
        }
    }
    // The marginal at i from alpha `a` and incoming backward `b`; the one that is null was
    // stored in the output row.
    void meet(Lane<D>& s, int64_t i, const T* a, const T* b) {
        const Row p = output(s, i);
        const T* stored = D::stored(p);
        const vs::Status status =
            a && b
                ? d_.template marginal<false>(a, b, p, &s.mass, &s.added)
                : d_.template marginal<true>(a ? a : stored, b ? b : stored, p, &s.mass, &s.added);
        note(s, status);
    }
    Row output(Lane<D>& s, int64_t i) const { return s.out ? s.out + i * d_.K : s.row; }
    static void note(Lane<D>& s, vs::Status status) {  // the first thing that went wrong stays
        if (status != vs::kOk && s.status == vs::kOk) s.status = status;
    }
    void copy_out(const T* x, Row row) {
        for (int k = 0; k < d_.K; ++k) put(row, k, x[k]);
    }

    D& d_;
    Ticker& t_;
};

}  // namespace VS_NS
