// Messages as log-probabilities, with log-sum-exp in double: takes any log-potential.
#pragma once

#include <cmath>

#include "core/sum.h"
#include "rows/input.h"
#include "rows/rows.h"
#include "rows/tile.h"
#include "simd/math.h"

namespace VS_NS {

struct Log {
    using T = double;
    using In = Either;
    using Row = Either::Row;
    static constexpr int kEvery = 1;
    static constexpr double kUnit = 1.0;  // scales are natural logarithms
    using Scale = vs::Sum;                // what is taken out of all messages of a sequence
    static constexpr int kSlower = 128;   // see Ticker

    const Input<In>& in;
    int K, Kp;
    double* row;
    double* edge_row;

    Log(const Input<In>& input, const Packed<double>&, double* tmp)
        : in(input),
          K(static_cast<int>(input.c.n_labels)),
          Kp(Tiling<double>(input.c.n_labels).Kp),
          row(tmp),
          edge_row(tmp + Kp) {}

    bool open(vs::Scratch&) { return true; }

    // May messages wait in the rows of marginals?
    bool stores_in_output() const { return in.c.dtype == vs::kFloat64; }
    static const double* stored(Row p) { return reinterpret_cast<const double*>(p.at); }
    static double nothing() { return -INFINITY; }

    struct Probe {
        double top, sum;
        bool plain, any;
        double shift() const { return any ? top : 0.0; }
    };
    // psi is made in the first step: `workspace` has to be it.
    Probe probe(int64_t i, bool first, bool last, double* workspace) const {
        in.compose(i, first, last, workspace);
        for (int k = K; k < Kp; ++k) workspace[k] = nothing();
        const double top = row_max(workspace, K);
        if (!(top > nothing())) return {0.0, 0.0, false, false};
        for (int k = 0; k < K; ++k) workspace[k] -= top;
        const double sum = sum_exp(workspace, 0.0);  // the largest is exp(0)
        return {top, sum, false, true};
    }
    double local(const Probe& s, double*) const { return s.sum; }
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
            for (int k = 0; k < K; k += V::N) columns(edges[m], k, x[m], y[m]);
        }
    }
    // y(l) = log sum_k exp(t(l, k) + x(k))
    void backward(const int64_t* edges, int rows, const double* const* x, double* const* y) {
        for (int m = 0; m < rows; ++m) {
            for (int l = 0; l < K; ++l) {
                const Row t = table_row(edges[m], l);
                for (int k = 0; k < K; k += V::N) (scores(t, k) + values(x[m], k)).store(row + k);
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
        double top = nothing();
        for (int k = 0; k < K; ++k) {
            out[k] = psi[k] + y[k];
            if (out[k] > top) top = out[k];
        }
        for (int k = K; k < Kp; ++k) out[k] = nothing();
        if (normalise && top > nothing()) {
            for (int k = 0; k < K; ++k) out[k] -= top;
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
    vs::Status marginal(const double* a, const double* b, Row p, double* mass,
                        double* added) const {
        for (int k = 0; k < K; ++k) row[k] = a[k] + b[k];
        const Product<double> r = total(row);
        const vs::Status status = massive(r, a, b, b);
        return status == vs::kOk ? divide(r, row, p, mass, added) : status;
    }
    Product<double> product_absorb(const double* a, const double* b, const double* psi, bool,
                                   bool normalise, double* product, double* out, bool* kept) const {
        double unused = 0.0;
        *kept = absorb(psi, false, b, normalise, out, &unused);
        for (int k = 0; k < K; ++k) product[k] = a[k] + b[k];
        return total(product);
    }
    Product<double> product(const double* a, const double* b, double* p) const {
        for (int k = 0; k < K; ++k) p[k] = a[k] + b[k];
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
    vs::Status divide(const Product<double>& r, const double* product, Row p, double* mass,
                      double*) const {
        *mass = r.sum;
        // A second normalisation removes the rounding of the first from the sum.
        double sum = 0.0;
        for (int k = 0; k < K; ++k) sum += edge_row[k] = std::exp(product[k] - r.sum);
        for (int k = 0; k < K; ++k) put(p, k, edge_row[k] / sum);
        return vs::kOk;
    }
    double peak(const Product<double>& r) const {  // as it is written
        const double p = std::exp(r.max - r.sum);
        return in.c.dtype == vs::kFloat32 ? static_cast<double>(static_cast<float>(p)) : p;
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
            const Row t = table_row(edge, l);
            V most = V::set1(nothing());
            for (int k = 0; k < K; k += V::N) most = V::max(most, scores(t, k) + values(gk, k));
            top = std::fmax(top, most.hmax() + a[l]);
        }
        V sums = V::set1(0.0);
        for (int l = 0; l < K; ++l) {
            if (!(a[l] > nothing())) continue;
            const Row t = table_row(edge, l);
            for (int k = 0; k < K; k += V::N) sums = sums + share(t, k, gk, a[l], top);
        }
        const V scale = V::set1(1.0 / sums.hsum());
        for (int l = 0; l < K; ++l) {
            const Row t = table_row(edge, l);
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

    // sum_k exp(x(k) - top), no x above top; what is less than exp(-690) counts as that.
    double sum_exp(const double* x, double top) const {
        V sum = V::set1(0.0);
        for (int k = 0; k < K; k += V::N) sum = sum + exp_shifted(values(x, k), V::set1(top));
        return sum.hsum();
    }
    // exp(t + g + a - top)
    V share(Row t, int k, const double* g, double a, double top) const {
        return exp_or_zero(((scores(t, k) + values(g, k)) + V::set1(a)) - V::set1(top));
    }
    double log_sum_exp(const double* x) const {
        const double top = row_max(x, K);
        return top > nothing() ? top + std::log(sum_exp(x, top)) : nothing();
    }
    void columns(int64_t edge, int k, const double* x, double* y) const {
        V top = V::set1(ExpConst<double>::kMostNegative), sum = V::set1(0.0);
        for (int l = 0; l < K; ++l) {
            if (!(x[l] > nothing())) continue;
            top = V::max(top, V::set1(x[l]) + scores(table_row(edge, l), k));
        }
        for (int l = 0; l < K; ++l) {
            if (!(x[l] > nothing())) continue;
            sum = sum + exp_shifted(V::set1(x[l]) + scores(table_row(edge, l), k), top);
        }
        double tops[V::N], sums[V::N];
        top.store(tops);
        sum.store(sums);
        const int width = K - k < V::N ? K - k : V::N;
        for (int r = 0; r < width; ++r) y[k + r] = tops[r] + std::log(sums[r]);
    }
    Row table_row(int64_t edge, int l) const {
        return in.transition + ((in.c.per_edge ? edge : 0) * K + l) * K;
    }
    // V::N entries from k on, as doubles; -inf behind the last.
    V values(const double* x, int k) const {
        return k + V::N <= K ? V::load(x + k) : V::load_part(x + k, K - k, nothing());
    }
    V scores(Row t, int k) const {
        if (!t.single) return values(reinterpret_cast<const double*>(t.at), k);
        double wide[V::N];
        for (int r = 0; r < V::N; ++r) {
            wide[r] = k + r < K ? t[k + r] : nothing();
        }
        return V::load(wide);
    }
};

}  // namespace VS_NS
