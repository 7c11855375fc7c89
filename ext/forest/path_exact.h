// Exact forward-backward (SMM11 section 2, Eqs. 3-4; ERRATA: psi_i counted once).
//
//   alpha_i = psi_i * (alpha_{i-1} E)      b_i = E (psi_{i+1} * b_{i+1})      m_i = alpha_i * b_i
//
// A few sequences advance in lockstep so that one load of E serves them all. A pass over part
// of a chain either stores its message (in scratch, or in the output row when the chain is
// long) or meets the other direction's stored message and writes the marginal there. Bits
// depend on none of this: every message is the same chain of operations. A lane may also be a chunk
// of a long chain, which runs in from a guess on either side of the part that it answers for: see
// path_cut.h.
#pragma once

#include "core/sum.h"
#include "rows/linear.h"
#include "rows/log.h"
#include "core/scratch.h"
#include "core/ticker.h"
#include "forest/level.h"
#include "forest/together.h"
#include "islands/rules.h"

namespace VS_NS {

// Other passes do not make sums of what floors have added in the order of Exact, which decides
// where these are so near to their bounds.
constexpr double kNearBound = 0.99;

// kPass: nothing is kept of a message but what the next one needs.
enum class Role { kStore, kMeet, kPass };

// One sequence in one direction.
template <class D>
struct Lane {
    using T = typename D::T;
    using In = typename D::In;
    int64_t begin, n, edge;  // first position, length, first edge
    int64_t sequence;
    int64_t chunk;         // number of a chunk, or -1: a whole sequence
    int64_t enter, last;   // its own part is [enter, last); the messages run in before and behind
    int64_t edges;         // within its own part, and into it
    bool head, tail;       // does it begin where the sequence does, and end there?
    T *entry_f, *entry_b;  // (Kp,) where the messages go that have run in, or null
    const T *true_f, *true_b;  // (Kp,) what takes their place, or null
    T* left_f;                 // (Kp,) where the last forward message goes, or null
    In* out;                   // (n, K) marginals of this sequence, or null
    In* row;                   // (K,) where marginals go when `out` is null
    T* alpha;                  // (n, Kp) stored forward messages, or null: stored in `out`
    T* psi_rows;               // (n, Kp) stored local factors, or null: computed again
    const double* made_shift;  // (n,) of local factors that were made before, or null
    const uint8_t* made_flag;  // (n,) whether they forbid nothing: kPlain
    int64_t stride;            // from one stored row to the next
    T *psi, *y, *message;      // (Kp,) local factor, incoming, outgoing
    T* product;                // (Kp,) of both directions
    typename D::Scale scale;   // taken out of forward messages, in units of D::kUnit
    vs::Sum edge_shift;        // per-edge shifts
    vs::Sum shift;             // local shifts
    double log_entry;          // log sum of the forward message that has run in
    double log_end;            // log sum of the last forward message
    vs::Status status;
    bool plain;     // so were all rows of psi_rows (see Local)
    bool prepared;  // the backward message to send has been made with the last marginal
    bool compared;  // so have the marginals been
    double mass;    // of the last marginal written
    double added;   // what floors may have added, relative to Z
};

struct NoSink {
    static constexpr bool kActive = false;
    template <class... A>
    void edge(A&&...) {}
};

// A lane without rows of its own: null until lane_init().
template <class D>
void lane_begin(Lane<D>& s, const D& d, const vs::Chains& c, int64_t sequence,
                typename D::In* out) {
    s.begin = c.offset[sequence];
    s.n = c.offset[sequence + 1] - s.begin;
    s.edge = c.edge[sequence];
    s.sequence = sequence;
    s.chunk = -1;
    s.enter = 0;
    s.last = s.n;
    s.edges = s.n - 1;
    s.head = s.tail = true;
    s.entry_f = s.entry_b = nullptr;
    s.true_f = s.true_b = nullptr;
    s.left_f = nullptr;
    s.row = nullptr;
    s.out = out ? out + s.begin * d.K : nullptr;
    s.alpha = s.psi_rows = nullptr;
    s.made_shift = nullptr;
    s.made_flag = nullptr;
    s.stride = d.Kp;
    s.psi = s.y = s.message = s.product = nullptr;
    s.log_entry = s.log_end = s.mass = s.added = 0.0;
    s.scale = {};
    s.shift = s.edge_shift = vs::Sum();
    s.status = vs::kOk;
    s.plain = true;
    s.prepared = s.compared = false;
}
template <class D>
bool lane_init(Lane<D>& s, D& d, const vs::Chains& c, int64_t sequence, typename D::In* out,
               vs::Scratch& scratch) {
    using T = typename D::T;
    lane_begin(s, d, c, sequence, out);
    T* p = scratch.array<T>(4 * static_cast<int64_t>(d.Kp));
    s.row = scratch.array<typename D::In>(d.Kp);
    if (p == nullptr || s.row == nullptr) return false;
    s.psi = p;
    s.y = p + d.Kp;
    s.message = p + 2 * d.Kp;
    s.product = p + 3 * d.Kp;
    for (int i = 0; i < 4; ++i) d.clear(p + i * d.Kp);
    return true;
}

template <class D>
void require_little_added(Lane<D>& s) {
    if (s.status == vs::kOk && !D::tight(s.added)) s.status = vs::kWiden;
}

template <class D>
class Exact {
  public:
    using T = typename D::T;
    using In = typename D::In;

    Exact(D& d, Ticker& t)
        : d_(d), t_(t), ahead_(ahead(d.K * static_cast<int64_t>(sizeof(typename D::In)))) {}

    // Forward messages of positions [i0, i1) of lanes[0..m), which all have that many. MADE: so
    // were their local factors, all of them.
    template <bool MADE = false>
    bool forward(Lane<D>* lanes, int m, int64_t i0, int64_t i1, Role role) {
        const T* x[vs::kMostTogether];
        T* y[vs::kMostTogether];
        int64_t edge[vs::kMostTogether];
        double shift[vs::kMostTogether];
        for (int r = 0; r < m; ++r) shift[r] = 0.0;
        const bool kept = role == Role::kStore && lanes[0].alpha;  // and so are those of all lanes
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
                if (i == 0) d_.ones(s.y);
                if (MADE) continue;
                probe[r] =
                    d_.probe(s.begin + i, i == 0 && s.head, i == s.n - 1 && s.tail, psi_of(s, i));
                if (i + ahead_ < s.n) {
                    d_.prefetch(s.begin + i + ahead_);
                    if (!s.alpha && s.out) row_prefetch_write(s.out + (i + ahead_) * d_.K, d_.K);
                }
            }
            for (int r = 0; r < m; ++r) {
                Lane<D>& s = lanes[r];
                T* a = s.alpha ? s.alpha + i * s.stride : s.message;
                const bool normalise = i % D::kEvery == D::kEvery - 1;
                if (MADE) {
                    probe[r].plain = (s.made_flag[i] & vs::kPlain) != 0;
                    if (!d_.absorb(psi_of(s, i), probe[r].plain, s.y, normalise, a, &s.scale)) {
                        s.status = vs::kWiden;
                    }
                } else if (!d_.enter(probe[r], s.y, normalise, psi_of(s, i), a, &s.scale)) {
                    s.status = vs::kWiden;
                }
                s.plain = s.plain && probe[r].plain;
                s.shift.add(MADE ? s.made_shift[i] : probe[r].shift());
                s.edge_shift.add(shift[r]);
                if (i < s.enter) {
                    if (i + 1 == s.enter) ran_in(s, a);
                    continue;
                }
                if (i == s.last - 1) {
                    s.log_end = d_.log_sum(a);
                    if (s.left_f) copy(a, s.left_f);
                }
                if (kept) continue;
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

    // Backward messages, from the last position down; lanes of different length are aligned at
    // their ends: positions count from the end, j = n - 1 - i in [j0, j1). kPass: the last stays in
    // the lane's y.
    template <class Sink>
    bool backward(Lane<D>* lanes, int m, int64_t j0, int64_t j1, Role role, Sink& sink) {
        const T* x[vs::kMostTogether];
        T* y[vs::kMostTogether];
        int64_t edge[vs::kMostTogether];
        double unused = 0.0;  // log Z is read off the forward messages
        bool run_in = false;
        for (int r = 0; r < m; ++r) run_in |= lanes[r].last < lanes[r].n;
        for (int64_t j = j0; j < j1; ++j) {
            if (!t_.go_on(m)) return false;
            for (int r = 0; r < m; ++r) {
                Lane<D>& s = lanes[r];
                const int64_t i = s.n - 1 - j;
                if (i >= ahead_) {
                    if (s.out) row_prefetch_write(s.out + (i - ahead_) * d_.K, d_.K);
                    if (!s.psi_rows) d_.prefetch(s.begin + i - ahead_);
                }
                if (j == 0) {
                    d_.ones(s.y);
                    continue;
                }
                if (!s.prepared) {
                    const T* psi = s.psi;
                    bool plain = s.plain;
                    if (s.psi_rows && i + 1 < s.last) {
                        psi = s.psi_rows + (i + 1) * s.stride;
                    } else {
                        const typename D::Probe probe =
                            d_.probe(s.begin + i + 1, false, j == 1 && s.tail, s.psi);
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
            for (int r = 0; run_in && r < m; ++r) {
                Lane<D>& s = lanes[r];
                if (j + 1 != s.n - s.last) continue;  // the message has run in
                if (s.entry_b) copy(s.y, s.entry_b);
                if (s.true_b) copy(s.true_b, s.y);
            }
            if (role == Role::kPass) continue;
            if (!Sink::kActive && role == Role::kMeet && lanes[0].psi_rows) {
                meet_and_send(lanes, m, j);
                continue;
            }
            for (int r = 0; r < m; ++r) {
                Lane<D>& s = lanes[r];
                const int64_t i = s.n - 1 - j;
                if (i >= s.last) continue;
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

    // Forward messages of whole lanes in lockstep, longest first.
    template <bool MADE = false>
    bool group_forward(Lane<D>* lanes, int m, Role role) {
        int64_t i = 0;
        for (int r = m; r > 0; --r) {
            if (!forward<MADE>(lanes, r, i, lanes[r - 1].last, role)) return false;
            i = lanes[r - 1].last;
        }
        return true;
    }

    // Backward messages likewise.
    template <class Sink>
    bool group_backward(Lane<D>* lanes, int m, Role role, Sink& sink) {
        int64_t j = 0;
        for (int r = m; r > 0; --r) {
            const int64_t end = lanes[r - 1].n - lanes[r - 1].enter;
            if (!backward(lanes, r, j, end, role, sink)) return false;
            j = end;
        }
        return true;
    }

    // Both directions; messages in scratch or in the output.
    template <bool MADE = false, class Sink = NoSink>
    bool group(Lane<D>* lanes, int m, Sink& sink) {
        return group_forward<MADE>(lanes, m, Role::kStore) &&
               group_backward(lanes, m, Role::kMeet, sink);
    }

    static double log_z(const D& d, const Lane<D>& s) {
        return s.shift.total() + (s.edge_shift.total() + d.edge_shift_total(s.edges) +
                                  D::kUnit * vs::total(s.scale) + s.log_end - s.log_entry);
    }

    // Tells a call how a whole sequence has ended.
    static void finish(const vs::Pass* pass, const D& d, const Lane<D>& s) {
        pass->status[s.sequence] = s.status;
        if (s.status != vs::kOk) return;
        pass->log_z[s.sequence] = log_z(d, s);
        pass->control->done.fetch_add(s.n, std::memory_order_relaxed);
    }

    static constexpr int64_t kAhead = 2;  // rows between a prefetch and its use, at least

    // The forward message before a chunk's own part, which starts to count there.
    void ran_in(Lane<D>& s, T* a) const {
        if (s.entry_f) copy(a, s.entry_f);
        if (s.true_f) copy(s.true_f, a);
        s.log_entry = d_.log_sum(a);
        s.scale = {};
        s.shift = s.edge_shift = vs::Sum();
    }

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
            const int64_t i = s.n - 1 - j, at = i * s.stride;
            if (i >= s.last) continue;
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
            if (i >= s.last) continue;
            note(s, status[r]);
            if (status[r] == vs::kOk) {
                note(s, d_.divide(product[r], s.product, output(s, i), &s.mass, &s.added));
            }
        }
    }
    // The marginal at i from alpha `a` and incoming backward `b`; the one that is null was
    // stored in the output row.
    void meet(Lane<D>& s, int64_t i, const T* a, const T* b) {
        In* const p = output(s, i);
        const T* stored = D::stored(p);
        const vs::Status status =
            a && b
                ? d_.template marginal<false>(a, b, p, &s.mass, &s.added)
                : d_.template marginal<true>(a ? a : stored, b ? b : stored, p, &s.mass, &s.added);
        note(s, status);
    }
    In* output(Lane<D>& s, int64_t i) const { return s.out ? s.out + i * d_.K : s.row; }
    static void note(Lane<D>& s, vs::Status status) {  // the first thing that went wrong stays
        if (status != vs::kOk && s.status == vs::kOk) s.status = status;
    }
    void copy(const T* x, T* to) const {
        std::memcpy(to, x, sizeof(T) * static_cast<size_t>(d_.Kp));
    }
    void copy_out(const T* x, In* row) {
        for (int k = 0; k < d_.K; ++k) row[k] = static_cast<In>(x[k]);
    }

    // Several rows of few labels lie in one line.
    static int64_t ahead(int64_t bytes) {
        constexpr int64_t kBytes = 192, kMost = 12;
        const int64_t rows = kBytes / bytes;
        return rows < kAhead ? kAhead : rows > kMost ? kMost : rows;
    }

    D& d_;
    Ticker& t_;
    const int64_t ahead_;  // rows between a prefetch and its use
};

}  // namespace VS_NS
