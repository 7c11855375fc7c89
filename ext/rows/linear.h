// Messages as scaled probabilities. A message entry that can be reached is never lost: it is held
// at a floor, so zero always means "forbidden". Computed messages are therefore upper bounds, and
// the mass that floors have added to the total is at most, at every position,
//     floor * (sum_k b(k) + R * sum_l a(l)) / sum_k a(k) b(k),   R the largest row sum of E,
// for a = forward (with local), b = backward. Where that is not negligible, or (float) adds up to
// more than Floor::kMostAdded over the sequence, the status is kWiden and the next arithmetic is
// taken. The drivers are written once over this one and Log.
#pragma once

#include <cmath>

#include "rows/input.h"
#include "rows/kept_tables.h"
#include "rows/lane_tables.h"
#include "rows/rows.h"
#include "rows/sparse_messages.h"
#include "rows/tile.h"

namespace VS_NS {

template <class T_, class In_>
struct Linear {
    using T = T_;
    using In = In_;
    // Scores in float64, computed with in float32: their exponentials are rounded once.
    static_assert(sizeof(T) <= sizeof(In), "");
    static constexpr bool kNarrows = sizeof(T) < sizeof(In);
    using Score = std::conditional_t<kNarrows, In, T>;  // in which scores are subtracted
    static constexpr int kEvery = Floor<T>::kNormaliseEvery;
    static constexpr double kUnit = 0.693147180559945309417;  // scales count powers of two
    using Scale = double;
    static constexpr int kSlower = 1;  // see Ticker
    static constexpr bool kKeepsTables = true;
    const Input<In>& in;
    const Packed<T>& e;
    Tiling<T> g;
    int K, Kp;
    T *row, *edge_row;         // (Kp,) temporary; the second: per-edge transitions only
    double* column = nullptr;  // (Kp,) likewise
    SparseMessages<T> listed;
    KeptTables<T> tables;           // of edges that have one each
    EdgesTogether<T, In> together;  // messages along them

    Linear(const Input<In>& input, const Packed<T>& packed, T* tmp)
        : in(input),
          e(packed),
          g(input.c.n_labels),
          K(g.K),
          Kp(g.Kp),
          row(tmp),
          edge_row(tmp + g.Kp) {}

    // Takes the memory that messages need; false: there is none.
    bool open(vs::Scratch& scratch) {
        if (in.c.per_edge) {
            column = scratch.array<double>(Kp);
            if (!column || !together.open(K, Kp, scratch)) return false;
        }
        if (!e.sparse_forward) return true;
        T* memory = scratch.array<T>(listed.memory_size(K));
        if (memory) listed.open(memory, K);
        return memory != nullptr;
    }

    // May messages wait in the rows of marginals?
    static constexpr bool stores_in_output() { return !kNarrows; }
    static const T* stored(const In* p) { return reinterpret_cast<const T*>(p); }

    // A position is entered in two steps, so that the first can be taken for several of them
    // before the second waits for it. `x`: log-potentials, composed in `workspace` (Kp,) where they
    // are not just a row of unary; `workspace` may be the later psi. Where T narrows, x are
    // exponentials already.
    struct Probe {
        const T* x;
        Score top;   // the largest
        bool plain;  // nothing is forbidden, here or by a transition: no zeros to keep
        bool any;    // not all are forbidden
        double shift() const { return any ? static_cast<double>(top) : 0.0; }
    };
    VS_INLINE Probe probe(int64_t i, bool first, bool last, T* workspace) const {
        const bool plain_row = !in.decorated(first, last);
        bool plain;
        if constexpr (kNarrows) {
            In* const wide = reinterpret_cast<In*>(row);  // with edge_row, which follows it
            if (!plain_row) in.compose(i, first, last, wide);
            const In* x = plain_row ? in.unary + i * K : wide;
            const In top = row_top(x, K, &plain);
            plain &= e.positive;
            if (top > in.forbidden()) narrow(x, top, ExpConst<T>::kLow, plain, workspace);
            return {workspace, top, plain, top > in.forbidden()};
        } else {
            if (!plain_row) in.compose(i, first, last, workspace);
            const T* x = plain_row ? in.unary + i * K : workspace;
            const T top = row_top(x, K, &plain);
            return {x, top, plain && e.positive, top > in.forbidden()};
        }
    }
    // out = exp(x - shift), finite entries held at exp(low).
    void narrow(const In* x, In shift, T low, bool plain, T* out) const {
        const In least = static_cast<In>(low);
        plain ? row_exp_narrow<true>(x, K, shift, least, out)
              : row_exp_narrow<false>(x, K, shift, least, out);
    }
    // psi = exp(x - top); returns the sum.
    VS_INLINE double local(const Probe& s, T* psi) const {
        if (!s.any) {
            clear(psi);
            return 0.0;
        }
        if constexpr (kNarrows) {
            if (psi != s.x) std::memcpy(psi, s.x, sizeof(T) * static_cast<size_t>(Kp));
            return 1.0;
        }
        return static_cast<double>(s.plain ? row_exp<T, true>(s.x, K, s.top, psi)
                                           : row_exp<T, false>(s.x, K, s.top, psi));
    }
    // local and absorb in one sweep.
    VS_INLINE bool enter(const Probe& s, const T* y, bool normalise, T* psi, T* out,
                         double* scale) const {
        if (!s.any) {
            clear(psi);
            clear(out);
            return true;
        }
        if constexpr (kNarrows) {
            if (psi != s.x && psi != out) local(s, psi);
            return absorb(s.x, s.plain, y, normalise, out, scale);
        }
        return s.plain ? enter_row<true>(s, y, normalise, psi, out, scale)
                       : enter_row<false>(s, y, normalise, psi, out, scale);
    }
    template <bool PLAIN>
    VS_INLINE bool enter_row(const Probe& s, const T* y, bool normalise, T* psi, T* out,
                             double* scale) const {
        if (!normalise) {
            row_exp_absorb<T, PLAIN, false>(s.x, K, s.top, y, psi, out);
            return true;
        }
        const int ex = row_exp_absorb<T, PLAIN, true>(s.x, K, s.top, y, psi, out);
        *scale += ex;
        return ex > kLowest;
    }
    // out = psi * out, scaled; false as absorb.
    VS_INLINE bool enter_in_place(const Probe& s, T* out, double* scale) const {
        if (!s.any) {
            clear(out);
            return true;
        }
        const T top = static_cast<T>(s.top);
        const int ex = s.plain ? row_exp_into<T, true, kNarrows>(s.x, K, top, out)
                               : row_exp_into<T, false, kNarrows>(s.x, K, top, out);
        *scale += ex;
        return ex > kLowest;
    }
    VS_INLINE void multiply(T* out, const T* y) const { row_times(out, y, K); }
    VS_INLINE void prefetch(int64_t i, int64_t rows = 1) const {
        row_prefetch(in.unary + i * K, rows * K);
    }
    void ones(T* y) const {  // 0 beyond K: sums of messages take whole vectors
        for (int k = 0; k < Kp; ++k) y[k] = static_cast<T>(k < K);
    }
    void clear(T* y) const { std::memset(y, 0, sizeof(T) * static_cast<size_t>(Kp)); }

    // y[m](k) = sum_l x[m](l) E(l, k); adds each per-edge shift to `shift[m]`.
    void forward(const int64_t* edges, int rows, const T* const* x, T* const* y, double* shift) {
        if (e.sparse_forward) return listed.send(*e.sparse_forward, K, Kp, rows, x, y);
        if (!in.c.per_edge) return messages<SumProduct, T>(g, e.forward, rows, x, y);
        const auto table = [&](int r) { return in_edge(edges[r]); };
        int m = tables.none() ? together.template send<true>(table, rows, x, y, shift) : 0;
        for (; m < rows; ++m) shift[m] += edge_forward(edges[m], x[m], y[m]);
    }
    // y[m](l) = sum_k E(l, k) x[m](k)
    void backward(const int64_t* edges, int rows, const T* const* x, T* const* y) {
        if (e.sparse_backward) return listed.send(*e.sparse_backward, K, Kp, rows, x, y);
        if (!in.c.per_edge) return messages<SumProduct, T>(g, e.backward, rows, x, y);
        const auto table = [&](int r) { return in_edge(edges[r]); };
        int m = tables.none() ? together.template send<false>(table, rows, x, y, nullptr) : 0;
        for (; m < rows; ++m) edge_backward(edges[m], x[m], y[m]);
    }
    double edge_shift_total(int64_t edges) const {
        return in.c.per_edge ? 0.0 : e.shift * static_cast<double>(edges);
    }

    double edge_shift(int64_t edge) const {
        return in.c.per_edge ? static_cast<double>(edge_max(edge)) : e.shift;
    }
    // Message out of an island with value v: one row (column) of E. Shared transitions need no
    // copy; others are written to `own`.
    bool copies_rows() const { return in.c.per_edge || e.sparse_forward; }
    const T* beside(const vs::SparseSide& side, int v, T* own) const {
        SparseMessages<T>::beside(side, K, Kp, v, own);
        return own;
    }
    const T* row_message(int64_t edge, int v, T* own) const {
        if (e.sparse_backward) return beside(*e.sparse_backward, v, own);
        if (!in.c.per_edge) return e.rows + static_cast<int64_t>(v) * Kp;
        const Score c = edge_max(edge);
        exp_transition(in_edge(edge) + static_cast<int64_t>(v) * K, c, own);
        return own;
    }
    const T* column_message(int64_t edge, int v, T* own) const {
        if (e.sparse_forward) return beside(*e.sparse_forward, v, own);
        if (!in.c.per_edge) return e.columns + static_cast<int64_t>(v) * Kp;
        const T c = static_cast<T>(edge_max(edge));
        for (int l = 0; l < K; ++l) row[l] = static_cast<T>(in.edge_score(edge, l, v));
        row_exp_table(row, K, Kp, c, own);
        return own;
    }

    // out = psi * y, scaled; false when scaling may have lost a reachable entry.
    VS_INLINE bool absorb(const T* psi, bool plain, const T* y, bool normalise, T* out,
                          double* scale) const {
        if (!normalise) {
            plain ? row_absorb<T, true>(psi, y, K, out) : row_absorb<T, false>(psi, y, K, out);
            return true;
        }
        const int ex = plain ? row_absorb_scaled<T, true, false>(psi, y, K, out, nullptr)
                             : row_absorb_scaled<T, false, false>(psi, y, K, out, nullptr);
        *scale += ex;
        return ex > kLowest;
    }
    // The same with the largest share of psi * y in its sum; 0 when nothing is left.
    bool absorb_share(const T* psi, bool plain, const T* y, T* out, double* scale,
                      double* largest) const {
        Share<T> share;
        const int ex = plain ? row_absorb_scaled<T, true, true>(psi, y, K, out, &share)
                             : row_absorb_scaled<T, false, true>(psi, y, K, out, &share);
        *scale += ex;
        *largest = share.max > T(0) ? static_cast<double>(share.max / share.sum) : 0.0;
        return ex > kLowest;
    }
    // Scaling by less than 2^500 (float: 2^60) keeps what underflowed before it below the floor,
    // which then takes its place: 2^-1022+500 < 1e-150, and 2^-126+60 < 1e-19.
    static constexpr int kLowest = sizeof(T) == 8 ? -500 : -60;
    // A marginal is made in two steps too: a product in a buffer, then its division.
    // p = a * b / mass into a caller's row; kWiden when the floors cannot be neglected.
    // PART: one of a and b is a caller's row.
    template <bool PART>
    VS_INLINE vs::Status marginal(const T* a, const T* b, In* p, double* mass,
                                  double* added) const {
        const Product<T> r = row_product<T, PART>(a, b, K, row);
        const vs::Status status = massive(r, a, b, b);
        return status == vs::kOk ? divide(r, row, p, mass, added) : status;
    }
    // product = a * b, and the message that goes on: out = psi * b. `kept`: as absorb.
    VS_INLINE Product<T> product_absorb(const T* a, const T* b, const T* psi, bool plain,
                                        bool normalise_out, T* product, T* out, bool* kept) const {
        int ex = 0;
        const Product<T> r =
            plain ? (normalise_out
                         ? row_product_absorb<T, true, true>(a, b, psi, K, product, out, &ex)
                         : row_product_absorb<T, true, false>(a, b, psi, K, product, out, &ex))
                  : (normalise_out
                         ? row_product_absorb<T, false, true>(a, b, psi, K, product, out, &ex)
                         : row_product_absorb<T, false, false>(a, b, psi, K, product, out, &ex));
        *kept = ex > kLowest;
        return r;
    }
    // product = psi * f * b; MAX: with its largest entry.
    template <bool MAX>
    VS_INLINE Product<T> product3(const T* psi, bool plain, const T* f, const T* b,
                                  T* product) const {
        return plain ? row_product3<T, true, MAX>(psi, f, b, K, product)
                     : row_product3<T, false, MAX>(psi, f, b, K, product);
    }
    VS_INLINE Product<T> product(const T* a, const T* b, T* p) const {
        return row_product<T, false>(a, b, K, p);
    }
    // p = psi * m[0] * ...; false when the range of the type may not have been enough for it. With
    // messages of at most 2 K, psi's floor and partial products that underflow hide at most
    // floor (2 K)^count. In doubles that is 1e-300 (2 K)^8 / 1e-100 of the sum; floats ask for a
    // sum that is 1e9 times as large.
    VS_INLINE bool product_of(const T* psi, const T* const* m, int count, T* p,
                              Product<T>* r) const {
        *r = row_times_all(psi, m, count, K, p);
        double least =
            sizeof(T) == 8 ? 1e-100 : 4.5e-38 / static_cast<double>(Floor<float>::kTolerance);
        for (int j = 0; sizeof(T) == 4 && j < count; ++j) least *= 2.0 * K;
        constexpr T most = sizeof(T) == 8 ? T(1e100) : T(1e26);
        return static_cast<double>(r->sum) >= least && r->sum <= most;
    }
    // out = a without its factor u (0 where u is 0), scaled where it is large or small; false when
    // it cannot be.
    VS_INLINE bool quotient(const T* a, const T* u, bool plain, T* out,
                            double* scale = nullptr) const {
        using V = Vec<T>;
        const V high = plain ? row_quotient<T, true, false>(a, u, K, T(1), out)
                             : row_quotient<T, false, false>(a, u, K, T(1), out);
        if (sizeof(T) == 8 && !high.ge(V::set1(T(1e15))) && high.ge(V::set1(T(1e-15)))) return true;
        const T top = high.hmax();
        constexpr int most = sizeof(T) == 8 ? 1000 : 120;
        const int ex = exponent_of(top);
        if (!(ex > -most && ex < most)) return false;
        if (scale) *scale += ex;
        if (plain) {
            row_quotient<T, true, true>(a, u, K, top, out);
        } else {
            row_quotient<T, false, true>(a, u, K, top, out);
        }
        return true;
    }
    // Has scaling held an entry at the floor?
    VS_INLINE bool held(const T* x) const { return row_held(x, K); }
    // The status of a product of a, b and c: kOk when there is mass.
    VS_INLINE vs::Status massive(const Product<T>& r, const T* a, const T* b, const T* c) const {
        if (r.sum > T(0)) return vs::kOk;
        return overlap(a, b, c) ? vs::kWiden : vs::kInfeasible;
    }
    // p = product / mass. The largest p is peak(r) afterwards.
    template <bool STREAM = false>
    VS_INLINE vs::Status divide(const Product<T>& r, const T* product, In* p, double* mass,
                                double* added) const {
        *mass = static_cast<double>(r.sum);
        const T inverse = T(1) / r.sum;
        if (!trusted(r, inverse, added)) return vs::kWiden;
        normalise<STREAM>(product, inverse, p);
        return vs::kOk;
    }
    double peak(const Product<T>& r) const {
        return static_cast<double>(static_cast<In>(r.max * (T(1) / r.sum)));
    }
    template <bool STREAM>
    VS_INLINE void normalise(const T* x, T factor, In* p) const {  // p = x * factor
        if constexpr (kNarrows) {
            row_widen_out<STREAM>(x, K, factor, p);
        } else {
            row_scale_out<T, STREAM>(x, K, factor, p);
        }
    }
    bool overlap(const T* a, const T* b, const T* c) const {  // some label alive in all
        for (int k = 0; k < K; ++k) {
            if (a[k] > T(0) && b[k] > T(0) && c[k] > T(0)) return true;
        }
        return false;
    }
    // Adds what the floors may have added to `added`.
    bool trusted(const Product<T>& r, T inverse, double* added) const {
        if (sizeof(T) == 8) return static_cast<double>(r.sum) >= Floor<double>::kTrust;
        using F = Floor<float>;
        const float here = (floors_of_forward() * static_cast<float>(r.sum_a) +
                            F::kMessage * static_cast<float>(r.sum_b)) *
                           static_cast<float>(inverse);
        *added += static_cast<double>(here);
        return here <= F::kTolerance;
    }
    // Floors add so much to a message in float32, of the sum of the forward message sent.
    float floors_of_forward() const {
        using F = Floor<float>;
        const float a = F::kMessage * static_cast<float>(e.reach);
        return e.floored ? a + F::kTransition * 2.0f * static_cast<float>(K) : a;
    }
    // Can a row of the table be trusted where the other side gives it the mass `y`, its largest
    // entry being near one? Where there is hardly any, entries that the table holds at its floor
    // may be all of it.
    bool trusts_row(T y) const {
        if (sizeof(T) == 8) return !(y > T(0)) || static_cast<double>(y) >= Floor<double>::kTrust;
        using F = Floor<float>;
        return !e.floored || F::kTransition * 4.0f * static_cast<float>(K) <=
                                 F::kTolerance * static_cast<float>(y);
    }
    bool floors() const { return e.floored; }
    // Is every entry of a message that a table has just made, before any scaling, so far above the
    // floors of the table and of what was multiplied that they are nothing beside it? One direction
    // alone asks this of each message; both have `trusted`, which asks it of their product.
    VS_INLINE bool untouched(const T* y) const {
        return !row_within(y, K, kTouched, least_untouched());
    }
    // Entries in between are not.
    static constexpr T kTouched = static_cast<T>(sizeof(T) == 8 ? 1e-300 : 1e-37);
    T least_untouched() const {
        const T felt = Floor<T>::kMessage * static_cast<T>(K) * (e.reach + T(1));
        return sizeof(T) == 8 ? static_cast<T>(1e-100) : felt * T(1e9);
    }
    // The logarithm of the last sum must exceed this, where scaling left its floors behind: K of
    // them are 1e-50 K of it, in float 1e-12 K.
    static constexpr double kLeastEnd = sizeof(T) == 8 ? -230.0 : -16.0;
    // Can a share of the product in `p` be what floors have added to its factor y? Scaling may have
    // made that 2^floor_gain times as large.
    bool made_by_floors(const T* p, const Product<T>& r, const T* y, float floor_gain) const {
        using F = Floor<T>;
        const double tolerance = sizeof(T) == 8 ? 1e-13 : 1e-7;
        double added = F::kMessage * (1.0 + static_cast<double>(e.reach));
        if (e.floored) added += 2.0 * K * std::exp(static_cast<double>(F::kTransitionLog));
        added *= std::exp2(static_cast<double>(floor_gain));
        const T share = static_cast<T>(added / tolerance / static_cast<double>(r.sum));
        bool any = false;
        for (int k = 0; k < K; ++k) any |= p[k] * share > y[k];
        return any;
    }
    static bool tight(double added) { return sizeof(T) == 8 || added <= Floor<float>::kMostAdded; }
    double log_sum(const T* a) const {
        using V = Vec<T>;
        V s = V::set1(T(0));
        for (int k = 0; k < Kp; k += V::N) s = s + V::load(a + k);
        return std::log(static_cast<double>(s.hsum()));
    }
    double log_mass(double mass) const { return std::log(mass); }
    // out = x / mass
    void without(const T* x, T mass, T* out) const {
        row_scale_out(x, K, T(1) / mass, out);
        for (int k = K; k < Kp; ++k) out[k] = T(0);
    }
    static T none() { return T(0); }
    static bool alive(T x) { return x > T(0); }
    static double to_log(T x) { return std::log(static_cast<double>(x)); }
    static T one() { return T(1); }  // exp of the largest local score
    void weights(const T* a, const T* message, double* w) const {
        for (int k = 0; k < K; ++k) {
            w[k] = static_cast<double>(a[k]) * (message ? static_cast<double>(message[k]) : 1.0);
        }
    }
    bool sums_without_transition() const { return !in.c.per_edge; }
    // f(l, E(l, .)), row by row; f may overwrite `edge_row`.
    template <class F>
    void edge_rows(int64_t edge, F&& f) {
        const T* const kept = tables.find(edge, static_cast<int64_t>(K) * Kp);
        const Score c = in.c.per_edge && !kept ? edge_max(edge) : static_cast<Score>(e.shift);
        for (int l = 0; l < K; ++l) {
            const T* table = edge_row;
            if (kept) {
                table = kept + static_cast<int64_t>(l) * Kp;
            } else if (e.sparse_backward) {
                beside(*e.sparse_backward, l, edge_row);
            } else if (e.rows && !in.c.per_edge) {
                table = e.rows + static_cast<int64_t>(l) * Kp;
            } else {
                exp_transition(in_edge(edge) + static_cast<int64_t>(l) * K, c, edge_row);
            }
            f(l, table);
        }
    }
    // xi(l, k) = a(l) E(l, k) g(k) / mass, row by row.
    template <class F>
    void edge_marginal(int64_t edge, const T* a, const T* gk, double mass, F&& emit) {
        const T inverse = static_cast<T>(1.0 / mass);
        edge_rows(edge, [&](int l, const T* table) {
            const T w = a[l] * inverse;
            for (int k = 0; k < K; ++k) edge_row[k] = w * table[k] * gk[k];
            emit(l, edge_row);
        });
    }

    const In* in_edge(int64_t edge) const {
        return in.transition + (in.c.per_edge ? edge : 0) * static_cast<int64_t>(K) * K;
    }
    // Largest finite entry of an edge's transition (0 when all are forbidden).
    Score edge_max(int64_t edge) const {
        const In c = largest_of(in_edge(edge), static_cast<int64_t>(K) * K);
        return c > in.forbidden() ? static_cast<Score>(c) : Score(0);
    }
    // own[k] = exp(t[k] - c), finite entries held at the transition floor.
    void exp_transition(const In* t, Score c, T* own) const {
        if constexpr (kNarrows) {
            narrow(t, c, Floor<T>::kTransitionLog, false, own);
        } else {
            row_exp_table(t, K, Kp, c, own);
        }
    }
    double edge_forward(int64_t edge, const T* x, T* y) {
        const Score c = edge_max(edge);
        T* const kept = tables.find(edge, static_cast<int64_t>(K) * Kp);
        clear(y);
        for (int l = 0; l < K; ++l) {
            T* const own = kept ? kept + static_cast<int64_t>(l) * Kp : edge_row;
            row_prefetch(in_edge(edge + 1) + static_cast<int64_t>(l) * K, K);
            exp_transition(in_edge(edge) + static_cast<int64_t>(l) * K, c, own);
            row_add(x[l], own, Kp, y);
        }
        return static_cast<double>(c);
    }
    void edge_backward(int64_t edge, const T* x, T* y) {
        const T* const kept = tables.find(edge, static_cast<int64_t>(K) * Kp);
        const Score c = kept ? Score(0) : edge_max(edge);
        clear(y);
        for (int l = 0; l < K; ++l) {
            const T* own = edge_row;
            if (kept) {
                own = kept + static_cast<int64_t>(l) * Kp;
            } else {
                exp_transition(in_edge(edge) + static_cast<int64_t>(l) * K, c, edge_row);
            }
            y[l] = row_inner(own, x, Kp);
        }
    }
};

}  // namespace VS_NS
