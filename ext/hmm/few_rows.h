// The passes of few.h, in vectors: kP states, padded.
#pragma once

#include <cmath>

#include "core/sum.h"
#include "core/ticker.h"
#include "hmm/few.h"
#include "simd/each.h"
#include "simd/math.h"
#include "simd/vec.h"

namespace VS_NS {

using vs::hmm::BestStates;
using vs::hmm::FewStates;
using vs::hmm::Normal;

template <int kP>
struct FewRows {
    using V = Vec<double>;
    static constexpr int kV = kP / V::N;

    struct Row {
        V v[kV];
    };

    static VS_INLINE Row load(const double* p) {
        Row r;
        each<kV>([&](auto j) VS_INLINE_LAMBDA { r.v[j] = V::load(p + j * V::N); });
        return r;
    }
    static VS_INLINE void store(const Row& r, double* p) {
        each<kV>([&](auto j) VS_INLINE_LAMBDA { r.v[j].store(p + j * V::N); });
    }
    static VS_INLINE Row times(const Row& a, const Row& b) {
        Row r;
        each<kV>([&](auto j) VS_INLINE_LAMBDA { r.v[j] = a.v[j] * b.v[j]; });
        return r;
    }
    static VS_INLINE Row times(const Row& a, double x) {
        Row r;
        const V s = V::set1(x);
        each<kV>([&](auto j) VS_INLINE_LAMBDA { r.v[j] = a.v[j] * s; });
        return r;
    }
    static VS_INLINE double sum(const Row& a) {
        V s = a.v[0];
        each<kV - 1>([&](auto j) VS_INLINE_LAMBDA { s = s + a.v[j + 1]; });
        return s.hsum();
    }
    // sum_l x_l table[l], in two chains.
    static VS_INLINE Row product(const double* x, const double* table) {
        Row even, odd;
        each<kV>([&](auto j) VS_INLINE_LAMBDA {
            even.v[j] = V::set1(x[0]) * V::load(table + j * V::N);
            odd.v[j] = V::set1(x[1]) * V::load(table + kP + j * V::N);
        });
        each<kP / 2 - 1>([&](auto l) VS_INLINE_LAMBDA {
            constexpr int at = 2 * (decltype(l){} + 1);
            each<kV>([&](auto j) VS_INLINE_LAMBDA {
                even.v[j] = V::fma(V::set1(x[at]), V::load(table + at * kP + j * V::N), even.v[j]);
                odd.v[j] =
                    V::fma(V::set1(x[at + 1]), V::load(table + (at + 1) * kP + j * V::N), odd.v[j]);
            });
        });
        each<kV>([&](auto j) VS_INLINE_LAMBDA { even.v[j] = even.v[j] + odd.v[j]; });
        return even;
    }
    // `transposed`: [to, from].
    static void pad(const double* p, int64_t k, bool transposed, double fill, double* table) {
        for (int i = 0; i < kP * kP; ++i) table[i] = fill;
        for (int64_t i = 0; i < k; ++i) {
            for (int64_t j = 0; j < k; ++j) {
                table[transposed ? j * kP + i : i * kP + j] = p[i * k + j];
            }
        }
    }

    // K numbers, and `fill` beyond them.
    static VS_INLINE Row load_states(const double* p, int states, double fill) {
        Row r;
        each<kV>([&](auto j) VS_INLINE_LAMBDA {
            const int rest = states - j * V::N;
            r.v[j] = rest >= V::N ? V::load(p + j * V::N)
                     : rest > 0   ? V::load_part(p + j * V::N, rest, fill)
                                  : V::set1(fill);
        });
        return r;
    }
    static VS_INLINE void store_states(const Row& r, int states, double* p) {
        each<kV>([&](auto j) VS_INLINE_LAMBDA {
            const int rest = states - j * V::N;
            if (rest >= V::N) {
                r.v[j].store(p + j * V::N);
            } else if (rest > 0) {
                r.v[j].store_part(p + j * V::N, rest);
            }
        });
    }

    static void local(const FewStates& f, int64_t first, int64_t last) {
        if (f.symbols != nullptr) {
            for (int64_t i = first; i < last; ++i) {
                store(load(f.symbol_rows + f.symbols[i] * kP), f.local + i * kP);
                f.top[i] = f.symbol_tops[f.symbols[i]];
            }
            return;
        }
        const int states = static_cast<int>(f.states);
        for (int64_t i = first; i < last; ++i) {
            Row r = load_states(f.scores + i * states, states, -INFINITY);
            V most = r.v[0];
            each<kV - 1>([&](auto j) VS_INLINE_LAMBDA { most = V::max(most, r.v[j + 1]); });
            const double top = most.hmax();
            f.top[i] = top;
            most = V::set1(top > -INFINITY ? top : 0.0);
            each<kV>([&](auto j) VS_INLINE_LAMBDA { r.v[j] = exp_or_zero(r.v[j] - most); });
            store(r, f.local + i * kP);
        }
    }

    // Forward rows of a sequence, one after the other.
    struct Forward {
        const FewStates& f;
        int64_t first;
        double before, mass;
        vs::Sum logs, top;
        bool fine;
        alignas(64) double table[kP * kP];

        Forward(const FewStates& few, int64_t sequence) : f(few), first(f.offset[sequence]) {
            alignas(64) double start[kP] = {};
            pad(f.table, f.states, false, 0.0, table);
            for (int64_t k = 0; k < f.states; ++k) start[k] = f.start[k];
            const Row x = times(load(start), load(f.local + first * kP));
            store(x, f.forward + first * kP);
            before = mass = sum(x);
            top.add(f.top[first]);
            fine = before > FewStates::kLeast;
        }
        VS_INLINE void step(int64_t j) {  // row first + j
            const int64_t i = first + j;
            const Row scaled = times(load(f.local + i * kP), 1.0 / before);
            const Row x = times(product(f.forward + (i - 1) * kP, table), scaled);
            store(x, f.forward + i * kP);
            before = sum(x);
            fine = fine && before > FewStates::kLeast;
            mass *= before;
            top.add(f.top[i]);
            if (mass < 1e-180) {
                logs.add(std::log(mass));
                mass = 1.0;
            }
        }
        double log_z() const { return top.total() + (logs.total() + std::log(mass)); }
    };

    // Backward rows likewise, from the last.
    struct Backward {
        const FewStates& f;
        int64_t last;
        double before;
        bool fine = true;
        alignas(64) double table[kP * kP], g[kP];

        Backward(const FewStates& few, int64_t sequence)
            : f(few), last(f.offset[sequence + 1] - 1) {
            alignas(64) double ones[kP] = {};
            pad(f.table, f.states, true, 0.0, table);
            for (int64_t k = 0; k < f.states; ++k) ones[k] = 1.0;
            const Row b = load(ones);
            store(b, f.backward + last * kP);
            before = sum(b);
        }
        VS_INLINE void step(int64_t j) {  // row last - j
            const int64_t i = last - j;
            const Row scaled = times(load(f.local + (i + 1) * kP), 1.0 / before);
            store(times(load(f.backward + (i + 1) * kP), scaled), g);
            const Row b = product(g, table);
            store(b, f.backward + i * kP);
            before = sum(b);
            fine = fine && before > FewStates::kLeast;
        }
    };

    template <class Of>
    static int64_t length(const Of& f, int64_t sequence) {
        return f.offset[sequence + 1] - f.offset[sequence];
    }
    // Steps 1 to n - 1 of a sequence, unless the call is stopped.
    template <class Of, class Step>
    static VS_INLINE void walk(const Of& f, int64_t n, bool caller, Step step) {
        constexpr int64_t kBlock = 1 << 14;
        Ticker ticker(f.control, caller, f.states);
        for (int64_t j = 1; j < n;) {
            const int64_t first = j, end = n - j < kBlock ? n : j + kBlock;
            for (; j < end; ++j) step(j);
            if (!ticker.go_on(end - first)) return;
        }
    }
    static bool forward(const FewStates& f, int64_t sequence, bool caller) {
        Forward pass(f, sequence);
        walk(f, length(f, sequence), caller, [&](int64_t j) VS_INLINE_LAMBDA { pass.step(j); });
        f.log_z[sequence] = pass.log_z();
        return pass.fine;
    }
    static bool backward(const FewStates& f, int64_t sequence, bool caller) {
        Backward pass(f, sequence);
        walk(f, length(f, sequence), caller, [&](int64_t j) VS_INLINE_LAMBDA { pass.step(j); });
        return pass.fine;
    }
    // Neither direction waits for the other: side by side they take little longer than one.
    static bool both(const FewStates& f, int64_t sequence, bool caller) {
        Forward there(f, sequence);
        Backward back(f, sequence);
        walk(f, length(f, sequence), caller, [&](int64_t j) VS_INLINE_LAMBDA {
            there.step(j);
            back.step(j);
        });
        f.log_z[sequence] = there.log_z();
        return there.fine && back.fine;
    }

    // Posteriors of some rows, and the transitions into them.
    static bool meet(const FewStates& f, int64_t first, int64_t last, double* sums) {
        Row total[kP];
        for (int l = 0; l < kP; ++l) {
            each<kV>([&](auto j) VS_INLINE_LAMBDA { total[l].v[j] = V::set1(0.0); });
        }
        int64_t sequence = 0;  // that holds row `first`
        for (int64_t above = f.sequences; above - sequence > 1;) {
            const int64_t middle = (sequence + above) / 2;
            (f.offset[middle] <= first ? sequence : above) = middle;
        }
        bool fine = true;
        const int states = static_cast<int>(f.states);
        for (int64_t i = first; i < last; ++i) {
            if (i == f.offset[sequence + 1]) ++sequence;
            const Row x = load(f.forward + i * kP), b = load(f.backward + i * kP);
            const Row both = times(x, b);
            const double mass = sum(both), own = sum(x);
            fine = fine && mass > FewStates::kLeast * own * sum(b);
            store_states(times(both, 1.0 / mass), states, f.posteriors + i * states);
            if (i == f.offset[sequence] || sums == nullptr) continue;
            const double* before = f.forward + (i - 1) * kP;
            const double weight = 1.0 / (mass * sum(load(before)));
            const Row g = times(times(b, load(f.local + i * kP)), weight);
            each<kP>([&](auto l) VS_INLINE_LAMBDA {
                const V at = V::set1(before[l]);
                each<kV>([&](auto j) VS_INLINE_LAMBDA {
                    total[l].v[j] = V::fma(at, g.v[j], total[l].v[j]);
                });
            });
        }
        for (int l = 0; l < kP && sums != nullptr; ++l) store(total[l], sums + l * kP);
        return fine;
    }

    // The first state whose best is the best of all: x + a row of the transposed table.
    static VS_INLINE int64_t first_best(const double* x, const double* row, int64_t states) {
        int64_t at = 0;
        double most = x[0] + row[0];
        for (int64_t l = 1; l < states; ++l) {
            const double value = x[l] + row[l];
            at = value > most ? l : at;
            most = value > most ? value : most;
        }
        return at;
    }

    static bool best(const BestStates& b, int64_t sequence, bool caller) {
        alignas(64) double table[kP * kP];
        pad(b.table, b.states, false, -INFINITY, table);
        const int states = static_cast<int>(b.states);
        const int64_t first = b.offset[sequence], n = length(b, sequence);
        const auto at = [&](const double* p)
                            VS_INLINE_LAMBDA { return load_states(p, states, -INFINITY); };
        const auto plus = [](const Row& x, const Row& y) VS_INLINE_LAMBDA {
            Row r;
            each<kV>([&](auto j) VS_INLINE_LAMBDA { r.v[j] = x.v[j] + y.v[j]; });
            return r;
        };
        store(plus(at(b.start), at(b.scores + first * states)), b.rows + first * kP);
        walk(b, n, caller, [&](int64_t j) VS_INLINE_LAMBDA {
            const int64_t i = first + j;
            const double* before = b.rows + (i - 1) * kP;
            Row most;
            each<kV>([&](auto v) VS_INLINE_LAMBDA {
                most.v[v] = V::set1(before[0]) + V::load(table + v * V::N);
            });
            each<kP - 1>([&](auto l) VS_INLINE_LAMBDA {
                constexpr int from = decltype(l){} + 1;
                const V x = V::set1(before[from]);
                each<kV>([&](auto v) VS_INLINE_LAMBDA {
                    most.v[v] = V::max(most.v[v], x + V::load(table + from * kP + v * V::N));
                });
            });
            store(plus(most, at(b.scores + i * states)), b.rows + i * kP);
        });
        pad(b.table, b.states, true, -INFINITY, table);
        const double nothing[kP] = {};
        const double* x = b.rows + (first + n - 1) * kP;
        int64_t state = first_best(x, nothing, b.states);
        b.log_p[sequence] = x[state];
        b.best[first + n - 1] = state;
        walk(b, n, caller, [&](int64_t j) VS_INLINE_LAMBDA {
            const int64_t i = first + n - 1 - j;
            state = first_best(b.rows + i * kP, table + state * kP, b.states);
            b.best[i] = state;
        });
        return b.log_p[sequence] > -INFINITY;
    }
};

// Log-densities of rows [first, last).
inline void normal(const Normal& d, int64_t first, int64_t last) {
    using V = Vec<double>;
    const V least = V::set1(d.least);
    V away[Normal::kFeatures];
    for (int64_t i = first; i < last; ++i) {
        const double* x = d.rows + i * d.features;
        for (int64_t k = 0; k < d.states; k += V::N) {
            const int rest = static_cast<int>(d.states - k < V::N ? d.states - k : V::N);
            const auto at = [&](const double* p) VS_INLINE_LAMBDA {
                return rest == V::N ? V::load(p) : V::load_part(p, rest, 0.0);
            };
            V score = at(d.constant + k);
            const double* scale = d.scale + k;
            for (int64_t f = 0; f < d.features; ++f) {
                const V own = V::set1(x[f]) - at(d.means + f * d.states + k);
                if (!d.triangle) {
                    score = score - own * own * at(scale + f * d.states);
                    continue;
                }
                away[f] = own;
                V white = V::set1(0.0);
                for (int64_t g = 0; g <= f; ++g, scale += d.states) {
                    white = V::fma(away[g], at(scale), white);
                }
                score = score - white * white;
            }
            score = V::max(score, least);
            double* out = d.scores + i * d.states + k;
            if (rest == V::N) {
                score.store(out);
            } else {
                score.store_part(out, rest);
            }
        }
    }
}

}  // namespace VS_NS
