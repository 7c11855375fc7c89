// Messages as log-probabilities, with log-sum-exp: takes any log-potential.
#pragma once

#include <cmath>

#include "core/sum.h"
#include "rows/input.h"
#include "rows/rows.h"
#include "rows/tile.h"
#include "rows/wide_table.h"
#include "simd/math.h"

namespace VS_NS {

struct Log {
    using T = double;
    using In = double;
    static constexpr int kEvery = 1;
    static constexpr double kUnit = 1.0;  // scales are natural logarithms
    using Scale = vs::Sum;                // what is taken out of all messages of a sequence
    static constexpr int kSlower = 128;   // see Ticker

    const Input<In>& in;
    const Packed<double>& e;  // a wide table, or none
    int K, Kp;
    double* row;
    double* edge_row;

    Log(const Input<In>& input, const Packed<double>& packed, double* tmp)
        : in(input),
          e(packed),
          K(static_cast<int>(input.c.n_labels)),
          Kp(Tiling<double>(input.c.n_labels).Kp),
          row(tmp),
          edge_row(tmp + Kp) {}

    bool open(vs::Scratch& scratch) {
        if (!e.forward) return true;
        split_ = scratch.array<double>(2 * static_cast<int64_t>(Kp));
        return split_ != nullptr;
    }

    // May messages wait in the rows of marginals?
    static constexpr bool stores_in_output() { return true; }
    static const double* stored(const double* p) { return p; }
    static double nothing() { return -INFINITY; }

    struct Probe {
        double top;
        bool plain, any;
        double shift() const { return any ? top : 0.0; }
    };
    // psi is made in the first step: `workspace` has to be it.
    Probe probe(int64_t i, bool first, bool last, double* workspace) const {
        in.compose(i, first, last, workspace);
        for (int k = K; k < Kp; ++k) workspace[k] = nothing();
        const double top = row_max(workspace, K);
        if (!(top > nothing())) return {0.0, false, false};
        take_out(top, workspace);
        return {top, false, true};
    }
    // The sum of exp(psi), of which the largest is 1.
    double local(const Probe& s, double* psi) const { return s.any ? sum_exp(psi, 0.0) : 0.0; }
    bool enter(const Probe&, const double* y, bool normalise, double* psi, double* out,
               Scale* scale) const {
        return absorb(psi, false, y, normalise, out, scale);
    }
    bool enter_in_place(const Probe&, double*, Scale*) const { return false; }
    void multiply(double*, const double*) const {}
    void prefetch(int64_t, int64_t = 1) const {}
    void ones(double* y) const {
        for (int k = 0; k < Kp; ++k) y[k] = 0.0;
    }
    void clear(double* y) const {
        for (int k = 0; k < Kp; ++k) y[k] = nothing();
    }
    // y(k) = log sum_l exp(x(l) + t(l, k)), a vector of columns at a time.
    void forward(const int64_t* edges, int rows, const double* const* x, double* const* y,
                 double*) {
        for (int m = 0; m < rows; ++m) {
            if (e.forward && send_wide(e.forward, K, Kp, x[m], split_, y[m])) continue;
            for (int k = 0; k < K; k += V::N) columns(edges[m], k, x[m], y[m]);
        }
    }
    // y(l) = log sum_k exp(t(l, k) + x(k))
    void backward(const int64_t* edges, int rows, const double* const* x, double* const* y) {
        for (int m = 0; m < rows; ++m) {
            if (e.backward && send_wide(e.backward, K, Kp, x[m], split_, y[m])) continue;
            for (int l = 0; l < K; ++l) {
                const double* const t = table_row(edges[m], l);
                for (int k = 0; k < K; k += V::N) (values(t, k) + values(x[m], k)).store(row + k);
                y[m][l] = log_sum_exp(row);
            }
        }
    }
    double edge_shift_total(int64_t) const { return 0.0; }
    double edge_shift(int64_t) const { return 0.0; }
    bool copies_rows() const { return true; }
    const double* row_message(int64_t edge, int v, double* own) const {
        for (int k = 0; k < K; ++k) own[k] = in.edge_score(edge, v, k);
        for (int k = K; k < Kp; ++k) own[k] = nothing();
        return own;
    }
    const double* column_message(int64_t edge, int v, double* own) const {
        for (int l = 0; l < K; ++l) own[l] = in.edge_score(edge, l, v);
        for (int l = K; l < Kp; ++l) own[l] = nothing();
        return own;
    }
    template <class S>
    bool absorb(const double* psi, bool, const double* y, bool normalise, double* out,
                S* scale) const {
        const double top = add(psi, y, out);
        if (normalise && top > nothing()) {
            take_out(top, out);
            vs::add(scale, top);
        }
        return true;
    }
    bool absorb_share(const double* psi, bool, const double* y, double* out, double* scale,
                      double* largest) const {
        absorb(psi, false, y, true, out, scale);
        const double sum = sum_exp(out, 0.0);  // the largest is exp(0)
        *largest = sum > 0.0 ? 1.0 / sum : 0.0;
        return true;
    }
    template <bool PART>
    vs::Status marginal(const double* a, const double* b, double* p, double* mass,
                        double* added) const {
        const Product<double> r = product(a, b, row);
        const vs::Status status = massive(r, a, b, b);
        return status == vs::kOk ? divide(r, row, p, mass, added) : status;
    }
    Product<double> product_absorb(const double* a, const double* b, const double* psi, bool,
                                   bool normalise, double* product, double* out, bool* kept) const {
        double unused = 0.0;
        *kept = absorb(psi, false, b, normalise, out, &unused);
        return this->product(a, b, product);
    }
    Product<double> product(const double* a, const double* b, double* p) const {
        add(a, b, p);
        return total(p);
    }
    bool product_of(const double* psi, const double* const* m, int count, double* p,
                    Product<double>* r) const {
        std::memcpy(p, psi, sizeof(double) * static_cast<size_t>(Kp));
        for (int i = 0; i < count; ++i) {
            for (int k = 0; k < K; ++k) p[k] += m[i][k];
        }
        *r = total(p);
        return r->sum > nothing();
    }
    bool quotient(const double* a, const double* u, bool, double* out, double* = nullptr) const {
        for (int k = 0; k < K; ++k) out[k] = u[k] > nothing() ? a[k] - u[k] : nothing();
        for (int k = K; k < Kp; ++k) out[k] = nothing();
        return true;
    }
    bool trusts_row(double) const { return true; }
    bool floors() const { return false; }
    bool untouched(const double*) const { return true; }
    static constexpr double kLeastEnd = -INFINITY;
    bool made_by_floors(const double*, const Product<double>&, const double*, float) const {
        return false;
    }
    bool held(const double*) const { return false; }
    template <bool MAX>
    Product<double> product3(const double* psi, bool, const double* f, const double* b,
                             double* product) const {
        for (int k = 0; k < K; ++k) product[k] = psi[k] + f[k] + b[k];
        return total(product);
    }
    Product<double> total(double* product) const {
        for (int k = K; k < Kp; ++k) product[k] = nothing();
        return {log_sum_exp(product), row_max(product, K), 0.0, 0.0};
    }
    vs::Status massive(const Product<double>& r, const double*, const double*,
                       const double*) const {
        return r.sum > nothing() ? vs::kOk : vs::kInfeasible;
    }
    template <bool STREAM = false>
    vs::Status divide(const Product<double>& r, const double* product, double* p, double* mass,
                      double*) const {
        *mass = r.sum;
        // A second normalisation removes the rounding of the first from the sum.
        V sums = V::set1(0.0);
        for (int k = 0; k < K; k += V::N) {
            const V x = exp_of(values(product, k) - V::set1(r.sum));
            x.store(edge_row + k);
            sums = sums + x;
        }
        const V sum = V::set1(sums.hsum());
        int k = 0;
        for (; k + V::N <= K; k += V::N) (V::load(edge_row + k) / sum).store(p + k);
        if (k < K) (V::load(edge_row + k) / sum).store_part(p + k, K - k);
        return vs::kOk;
    }
    double peak(const Product<double>& r) const {  // as it is written
        return std::exp(r.max - r.sum);
    }
    double log_sum(const double* a) const { return log_sum_exp(a); }
    double log_mass(double mass) const { return mass; }
    void without(const double* x, double, double* out) const {  // edge_marginal normalises
        std::memcpy(out, x, sizeof(double) * static_cast<size_t>(Kp));
    }
    static double none() { return nothing(); }
    static bool alive(double x) { return x > nothing(); }
    static double to_log(double x) { return x; }
    static double one() { return 0.0; }
    static bool tight(double) { return true; }
    void weights(const double* a, const double* message, double* w) const {
        for (int k = 0; k < K; ++k) w[k] = a[k] + (message ? message[k] : 0.0);
        const double top = row_max(w, K);
        for (int k = 0; k < K; ++k) w[k] = top > nothing() ? std::exp(w[k] - top) : 0.0;
    }
    bool sums_without_transition() const { return false; }
    template <class F>
    void edge_marginal(int64_t edge, const double* a, const double* gk, double, F&& emit) {
        // Normalised by their own sum: where scores are huge, `mass` is rounded differently.
        double top = nothing();
        for (int l = 0; l < K; ++l) {
            const double* const t = table_row(edge, l);
            V most = V::set1(nothing());
            for (int k = 0; k < K; k += V::N) most = V::max(most, values(t, k) + values(gk, k));
            top = std::fmax(top, most.hmax() + a[l]);
        }
        V sums = V::set1(0.0);
        for (int l = 0; l < K; ++l) {
            if (!(a[l] > nothing())) continue;
            const double* const t = table_row(edge, l);
            for (int k = 0; k < K; k += V::N) sums = sums + share(t, k, gk, a[l], top);
        }
        const V scale = V::set1(1.0 / sums.hsum());
        for (int l = 0; l < K; ++l) {
            const double* const t = table_row(edge, l);
            for (int k = 0; k < K; k += V::N) {
                const V x = a[l] > nothing() ? share(t, k, gk, a[l], top) : V::set1(0.0);
                (x * scale).store(edge_row + k);
            }
            emit(l, edge_row);
        }
    }

    static constexpr bool kKeepsTables = false;

  private:
    using V = Vec<double>;
    double* split_ = nullptr;  // (2, Kp) of a message that goes through a wide table
    // Beside the largest of a sum what is below exp(-60) of it changes no bit: exponentials are not
    // made of vectors of nothing else. Scores that come here are far apart.
    static constexpr double kFelt = -60.0;

    // out = a + b; returns the largest.
    double add(const double* a, const double* b, double* out) const {
        V most = V::set1(nothing());
        for (int k = 0; k < K; k += V::N) {
            const V x = values(a, k) + values(b, k);
            x.store(out + k);
            most = V::max(most, x);
        }
        for (int k = (K + V::N - 1) / V::N * V::N; k < Kp; ++k) out[k] = nothing();
        return most.hmax();
    }
    void take_out(double top, double* x) const {
        for (int k = 0; k < K; k += V::N) (V::load(x + k) - V::set1(top)).store(x + k);
    }
    // exp(x) of any x <= 0, as small as a number can be.
    static V exp_of(V x) {
        constexpr double kNone = -746.0;
        const unsigned least = x.ge(V::set1(ExpConst<double>::kLeast));
        if (x.ge(V::set1(kNone)) == least) return exp_or_zero(x);
        double part[V::N];
        x.store(part);
        for (double& y : part) y = std::exp(y);
        return V::load(part);
    }
    // sum_k exp(x(k) - top), no x above top.
    double sum_exp(const double* x, double top) const {
        V sum = V::set1(0.0);
        for (int k = 0; k < K; k += V::N) {
            const V z = values(x, k) - V::set1(top);
            if (z.ge(V::set1(kFelt)) != 0) sum = sum + exp_or_zero(z);
        }
        return sum.hsum();
    }
    // exp(t + g + a - top)
    V share(const double* t, int k, const double* g, double a, double top) const {
        return exp_or_zero(((values(t, k) + values(g, k)) + V::set1(a)) - V::set1(top));
    }
    double log_sum_exp(const double* x) const {
        const double top = row_max(x, K);
        return top > nothing() ? top + std::log(sum_exp(x, top)) : nothing();
    }
    void columns(int64_t edge, int k, const double* x, double* y) const {
        V top = V::set1(ExpConst<double>::kMostNegative), sum = V::set1(0.0);
        for (int l = 0; l < K; ++l) {
            if (!(x[l] > nothing())) continue;
            top = V::max(top, V::set1(x[l]) + values(table_row(edge, l), k));
        }
        for (int l = 0; l < K; ++l) {
            if (!(x[l] > nothing())) continue;
            const V z = (V::set1(x[l]) + values(table_row(edge, l), k)) - top;
            if (z.ge(V::set1(kFelt)) != 0) sum = sum + exp_or_zero(z);
        }
        double tops[V::N], sums[V::N];
        top.store(tops);
        sum.store(sums);
        const int width = K - k < V::N ? K - k : V::N;
        for (int r = 0; r < width; ++r) y[k + r] = tops[r] + std::log(sums[r]);
    }
    const double* table_row(int64_t edge, int l) const {
        return in.transition + ((in.c.per_edge ? edge : 0) * K + l) * K;
    }
    // V::N entries from k on, as doubles; -inf behind the last.
    V values(const double* x, int k) const {
        return k + V::N <= K ? V::load(x + k) : V::load_part(x + k, K - k, nothing());
    }
};

}  // namespace VS_NS
