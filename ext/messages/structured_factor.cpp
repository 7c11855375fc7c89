#include "messages/factor.h"

namespace vs::messages {

void StructuredFactor::send(const Incoming& in, bool best, WorkerScratch* s) const {
    const int64_t k = f->size();
    double *out = s->x.data(), *ratio = out + 2 * k;
    const double mass = f->send(in.log + in.at[first], best, ratio, ratio + k);
    const bool possible = mass > -INFINITY;  // no: NaN, where a kind written in Python raised
    for (int64_t j = 0; j < k; ++j, out += 2) {
        s->out[at(j)] = out;
        out[0] = possible ? std::min(0.0, -ratio[j]) : -INFINITY;
        out[1] = possible ? std::min(0.0, ratio[j]) : -INFINITY;
    }
}

double StructuredFactor::mass(const Incoming& in, WorkerScratch* s) const {
    const double mass = f->mass(in.log + in.at[first], s->x.data());
    return mass > -INFINITY ? mass : -INFINITY;
}

void StructuredFactor::marginals(const Incoming& in, double* out, WorkerScratch* s) const {
    f->sum_product(in.log + in.at[first], out, s->x.data(), s->x.data() + f->size());
}

void StructuredFactor::hold(const int64_t* known, const Incoming& in, double* held) const {
    for (int64_t j = 0; j < f->size(); ++j) {
        const int64_t state = known[var[first + j]];
        for (int64_t x = 0; x < 2; ++x) {
            held[2 * j + x] = state < 0    ? in.log[in.at[first] + 2 * j + x]
                              : state == x ? 0.0
                                           : -INFINITY;
        }
    }
}

void StructuredFactor::best_given(int64_t axis, const int64_t* known, const Incoming& in,
                                  double* out, WorkerScratch* s) const {
    const int64_t k = f->size();
    double* held = s->x.data();
    int64_t* states = s->states.data();
    hold(known, in, held);
    for (int64_t x = 0; x < 2; ++x) {
        held[2 * axis + x] = 0.0;
        held[2 * axis + 1 - x] = -INFINITY;
        out[x] = f->best(held, states, held + 3 * k);
    }
    // Relative to the better one: a tie must not be decided by rounding it away.
    const double top = std::max(out[0], out[1]);
    for (int64_t x = 0; x < 2 && top > -INFINITY; ++x) out[x] -= top;
}

void StructuredFactor::complete(int64_t* known, const Incoming& in, WorkerScratch* s) const {
    const int64_t k = f->size();
    double* held = s->x.data();
    int64_t* states = s->states.data();
    hold(known, in, held);
    if (!(f->best(held, states, held + 3 * k) > -INFINITY)) return;
    for (int64_t j = 0; j < k; ++j) known[var[first + j]] = states[j];
}

double StructuredFactor::score(const int64_t* states) const {
    std::vector<int64_t> own(at(f->size()));
    for (int64_t j = 0; j < f->size(); ++j) own[at(j)] = states[var[first + j]];
    return f->log_potential(own.data());
}

void StructuredFactor::send_up(int64_t p, const double* sum, const int64_t* var_at,
                               const double* messages, const int64_t* at_edge, bool best,
                               double* up, double* most, std::vector<double>* work) const {
    const int64_t k = f->size();
    work->resize(at(scratch_of(*f) + 3 * k));
    double *in = work->data(), *ratio = in + 2 * k;
    double size = 0.0;
    for (int64_t j = 0; j < k; ++j) {
        double largest = 0.0;
        for (int64_t x = 0; x < 2; ++x) {
            const double m = messages[at_edge[first + j] + x], own = m > -INFINITY ? -m : 0.0;
            largest = std::max(largest, own);
            const double below = j == p ? 0.0 : sum[var_at[var[first + j]] + x];
            in[2 * j + x] = own + below;
        }
        size += largest;
    }
    *most = std::max(*most, size);
    const double mass = f->send(in, best, ratio, ratio + k);
    const double odds = in[2 * p + 1] - in[2 * p] + ratio[p];
    for (int64_t x = 0; x < 2; ++x) {
        up[x] += side_of(mass, odds, x, best);
    }
}

}  // namespace vs::messages
