#include "messages/factor.h"

namespace vs::messages {
namespace {

// A sum of products of numbers <= 1 that is larger has lost nothing that counts to underflow.
constexpr double kTrust = 1e-250;

}  // namespace

// Points s->in at the messages `from` and s->out at as many numbers, all `start`, after scratch of
// two numbers a variable. Returns that scratch.
double* TableFactor::spread(double start, WorkerScratch* s, const double* from,
                            const int64_t* at_edge) const {
    double* out = s->x.data() + 2 * t.arity;
    for (int64_t j = 0; j < t.arity; ++j) {
        s->in[at(j)] = from + at_edge[first + j];
        s->out[at(j)] = out;
        std::fill(out, out + t.card[j], start);
        out += t.card[j];
    }
    return s->x.data();
}

// A message's entry from logarithms: what sums() takes where plain numbers are too small.
double TableFactor::entry(const Incoming& in, int64_t axis, int64_t value) const {
    double top = -INFINITY, sum = 0.0;
    each_at(t.arity, t.card, t.size, axis, value, [&](int64_t i, const int64_t* state) {
        if (t.theta[i] == -INFINITY) return;
        double score = (t.theta[i] - t.top) * t.inverse_rho;
        for (int64_t j = 0; j < t.arity; ++j) {
            if (j != axis) score += in.log[in.at[first + j] + state[j]];
        }
        if (score == -INFINITY) return;
        if (score > top) {
            sum = sum * std::exp(top - score) + 1.0;
            top = score;
        } else {
            sum += std::exp(score - top);
        }
    });
    return sum > 0.0 ? top + std::log(sum) : -INFINITY;
}

void TableFactor::sums(const Incoming& in, WorkerScratch* s, int64_t only) const {
    double* scratch = spread(0.0, s, in.plain, in.at);
    level->products(t, s->in.data(), s->out.data(), scratch);
    for (int64_t j = 0; j < t.arity; ++j) {
        double* m = s->out[at(j)];
        for (int64_t x = 0; x < t.card[j] && (only < 0 || only == j); ++x) {
            m[x] = m[x] >= kTrust ? std::log(m[x]) : entry(in, j, x);
        }
    }
}

void TableFactor::maxima(const Incoming& in, WorkerScratch* s) const {
    double* before = spread(-INFINITY, s, in.log, in.at);
    each(t.arity, t.card, t.size, [&](int64_t i, const int64_t* state) {
        double score = (t.theta[i] - t.top) * t.inverse_rho;
        double sum = 0.0;
        for (int64_t j = 0; j < t.arity; ++j) {
            before[j] = sum;
            sum += s->in[at(j)][state[j]];
        }
        for (int64_t j = t.arity; j-- > 0;) {
            double& m = s->out[at(j)][state[j]];
            m = std::max(m, score + before[j]);
            score += s->in[at(j)][state[j]];
        }
    });
}

double TableFactor::mass(const Incoming& in, WorkerScratch* s) const {
    sums(in, s, -1);
    const double* n = in.log + in.at[first];
    double top = -INFINITY, sum = 0.0;
    for (int64_t x = 0; x < t.card[0]; ++x) top = std::max(top, n[x] + s->out[0][x]);
    if (!(top > -INFINITY)) return top;
    for (int64_t x = 0; x < t.card[0]; ++x) sum += std::exp(n[x] + s->out[0][x] - top);
    return top + std::log(sum) + t.top * t.inverse_rho;
}

void TableFactor::marginals(const Incoming& in, double* out, WorkerScratch*) const {
    double top = -INFINITY, sum = 0.0;
    each(t.arity, t.card, t.size, [&](int64_t i, const int64_t* state) {
        double score = t.theta[i] * t.inverse_rho;
        for (int64_t j = 0; j < t.arity; ++j) score += in.log[in.at[first + j] + state[j]];
        out[i] = score;
        top = std::max(top, score);
    });
    for (int64_t i = 0; i < t.size; ++i) {
        out[i] = top > -INFINITY ? std::exp(out[i] - top) : 0.0;
        sum += out[i];
    }
    for (int64_t i = 0; i < t.size; ++i) out[i] = sum > 0.0 ? out[i] / sum : 0.0;
}

void TableFactor::best_given(int64_t axis, const int64_t* known, const Incoming& in, double* out,
                             WorkerScratch*) const {
    std::fill(out, out + t.card[axis], -INFINITY);
    // Relative to the largest entry: a tie must not be decided by rounding it away.
    each(t.arity, t.card, t.size, [&](int64_t x, const int64_t* state) {
        double own = (t.theta[x] - t.top) * t.inverse_rho;
        for (int64_t j = 0; j < t.arity; ++j) {
            const int64_t u = var[first + j];
            if (j == axis) continue;
            if (known[u] >= 0) {
                if (known[u] != state[j]) return;
            } else {
                own += in.log[in.at[first + j] + state[j]];
            }
        }
        out[state[axis]] = std::max(out[state[axis]], own);
    });
}

double TableFactor::score(const int64_t* states) const {
    int64_t x = 0;
    for (int64_t j = 0; j < t.arity; ++j) x = x * t.card[j] + states[var[first + j]];
    return t.theta[x];
}

void TableFactor::send_up(int64_t p, const double* sum, const int64_t* var_at,
                          const double* messages, const int64_t* at_edge, bool best, double* up,
                          double* most, std::vector<double>* work) const {
    const int64_t k = t.card[p];
    work->resize(at(t.size + 2 * k));
    double *scores = work->data(), *top = scores + t.size, *total = top + k;
    std::fill(top, top + k, -INFINITY);
    std::fill(total, total + k, 0.0);
    each(t.arity, t.card, t.size, [&](int64_t x, const int64_t* state) {
        double own = t.theta[x] * t.inverse_rho, below = 0.0;
        for (int64_t j = 0; j < t.arity; ++j) {
            const double m = messages[at_edge[first + j] + state[j]];
            // The variable's belief forbids the value already.
            if (m > -INFINITY) own -= m;
            if (j != p) below += sum[var_at[var[first + j]] + state[j]];
        }
        if (own > -INFINITY) *most = std::max(*most, std::fabs(own));
        scores[x] = own + below;
        top[state[p]] = std::max(top[state[p]], scores[x]);
    });
    each(t.arity, t.card, t.size, [&](int64_t x, const int64_t* state) {
        const double m = top[state[p]];
        double& of_state = total[state[p]];
        if (m > -INFINITY) of_state = best ? 1.0 : of_state + std::exp(scores[x] - m);
    });
    for (int64_t x = 0; x < k; ++x) {
        up[x] += total[x] > 0.0 ? top[x] + std::log(total[x]) : -INFINITY;
    }
}

}  // namespace vs::messages
