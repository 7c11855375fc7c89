// Plans of the passes in few.h: pieces that do not depend on the number of threads.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <vector>

#include "core/at.h"
#include "hmm/level.h"

namespace vs::hmm {
namespace {

const SimdApi* g_simd = nullptr;
const Level& level() { return at_level<Level>(g_simd->level()); }

// Other threads take longer to wake up than so many numbers to compute.
int threads_for(int64_t numbers, int threads) { return numbers < (1 << 15) ? 1 : threads; }

int64_t pieces_of(int64_t n) { return (n + FewStates::kRows - 1) / FewStates::kRows; }

// The first sequence of each group, and the end.
std::vector<int64_t> grouped(const int64_t* offset, int64_t sequences) {
    std::vector<int64_t> groups;
    for (int64_t s = 0; s < sequences; ++s) {
        if (groups.empty() || offset[s] - offset[groups.back()] >= FewStates::kRows)
            groups.push_back(s);
    }
    groups.push_back(sequences);
    return groups;
}

struct ExpectContext {
    const FewStates* few;
    Tasks tasks;
    std::vector<double> sums;
    std::atomic<bool> fine{true};
};

// Local factors of rows, and passes through groups of sequences, each of which waits for its own
// rows. The directions are tasks of their own where there are fewer groups than threads.
Tasks plan_passes(const FewStates& f, int threads) {
    Tasks tasks;
    const std::vector<int64_t> groups = grouped(f.offset, f.sequences);
    const int64_t n_groups = static_cast<int64_t>(groups.size()) - 1;
    for (int64_t i = 0; i < f.n; i += FewStates::kRows) {
        tasks.add(TaskKind::kPiece, i, std::min(f.n, i + FewStates::kRows), 0.0);
    }
    const auto pass = [&](TaskKind kind, int64_t first, int64_t last) {
        const int64_t task = tasks.add(kind, first, last, 0.0);
        const int64_t begin = f.offset[first], end = f.offset[last];
        for (int64_t p = begin / FewStates::kRows; p * FewStates::kRows < end; ++p)
            tasks.edge(p, task);
    };
    for (int64_t g = 0; g < n_groups; ++g) {
        const int64_t first = groups[at(g)], last = groups[at(g) + 1];
        if (threads > n_groups && f.posteriors) {
            pass(TaskKind::kForward, first, last);
            pass(TaskKind::kBackward, first, last);
        } else {
            pass(TaskKind::kSequences, first, last);
        }
    }
    tasks.finish();
    return tasks;
}

void pass_task(void* context, int64_t task, int worker) {
    ExpectContext& w = *static_cast<ExpectContext*>(context);
    const FewStates& f = *w.few;
    const Level& to = level();
    const Item item = w.tasks.item(task);
    const TaskKind kind = w.tasks.kind(task);
    if (kind == TaskKind::kPiece) return to.local(f, item.first, item.last);
    const auto pass = kind == TaskKind::kBackward                   ? to.backward
                      : kind == TaskKind::kForward || !f.posteriors ? to.forward
                                                                    : to.both;
    for (int64_t s = item.first; s < item.last; ++s) {
        if (!pass(f, s, worker == 0)) w.fine.store(false, std::memory_order_relaxed);
    }
}

void meet_task(void* context, int64_t task, int) {
    ExpectContext& w = *static_cast<ExpectContext*>(context);
    const FewStates& f = *w.few;
    double* sums = f.sums ? w.sums.data() + task * f.padded * f.padded : nullptr;
    const int64_t first = task * FewStates::kRows;
    if (!level().meet(f, first, std::min(f.n, first + FewStates::kRows), sums)) {
        w.fine.store(false, std::memory_order_relaxed);
    }
}

struct BestContext {
    const BestStates* best;
    std::vector<int64_t> groups;
    std::atomic<bool> fine{true};
};

void best_task(void* context, int64_t task, int worker) {
    BestContext& w = *static_cast<BestContext*>(context);
    for (int64_t s = w.groups[at(task)]; s < w.groups[at(task) + 1]; ++s) {
        if (!level().best(*w.best, s, worker == 0)) w.fine.store(false, std::memory_order_relaxed);
    }
}

void normal_task(void* context, int64_t task, int) {
    const Normal& d = *static_cast<const Normal*>(context);
    level().normal(d, task * FewStates::kRows, std::min(d.n, (task + 1) * FewStates::kRows));
}

// Rows of the alphabet over their largest numbers, and the logarithms of those.
void spell(const FewStates& f, std::vector<double>& rows, std::vector<double>& tops) {
    rows.assign(at(f.alphabet * f.padded), 0.0);
    tops.assign(at(f.alphabet), 0.0);
    for (int64_t k = 0; k < f.states; ++k) {
        for (int64_t s = 0; s < f.alphabet; ++s) {
            const double p = f.emissions[k * f.alphabet + s];
            rows[at(s * f.padded + k)] = p;
            tops[at(s)] = std::max(tops[at(s)], p);
        }
    }
    for (int64_t s = 0; s < f.alphabet; ++s) {
        const double top = tops[at(s)];
        for (int64_t k = 0; k < f.states && top > 0.0; ++k) rows[at(s * f.padded + k)] /= top;
        tops[at(s)] = std::log(top);
    }
}

}  // namespace

void use_simd(const SimdApi* simd) noexcept { g_simd = simd; }

int64_t padded(int64_t states) { return level().padded(states); }

bool expect(const FewStates& given, const PoolApi& pool, int most, Control* control) {
    FewStates f = given;
    std::vector<double> symbol_rows, symbol_tops;
    if (f.symbols != nullptr) {
        spell(f, symbol_rows, symbol_tops);
        f.symbol_rows = symbol_rows.data();
        f.symbol_tops = symbol_tops.data();
    }
    const int threads = threads_for(f.n * f.padded, most);
    ExpectContext w;
    w.few = &f;
    w.tasks = plan_passes(f, threads);
    const int64_t pieces = pieces_of(f.n);
    if (f.sums) w.sums.assign(at(pieces * f.padded * f.padded), 0.0);
    pool.run_plan(w.tasks.view("passes"), pass_task, &w, threads, control);
    if (control->stop.load() == 0 && w.fine.load() && f.posteriors) {
        pool.run_plan(Plan("posteriors", pieces), meet_task, &w, threads, control);
    }
    if (!w.fine.load() || f.sums == nullptr) return w.fine.load();
    for (int64_t i = 0; i < f.states; ++i) {
        for (int64_t j = 0; j < f.states; ++j) {
            double sum = 0.0;
            for (int64_t p = 0; p < pieces; ++p) {
                sum += w.sums[at((p * f.padded + i) * f.padded + j)];
            }
            f.sums[i * f.states + j] = sum * f.table[i * f.states + j];
        }
    }
    return true;
}

bool best(const BestStates& b, const PoolApi& pool, int threads, Control* control) {
    BestContext w;
    w.best = &b;
    w.groups = grouped(b.offset, b.sequences);
    pool.run_plan(Plan("best", static_cast<int64_t>(w.groups.size()) - 1), best_task, &w,
                  threads_for(b.n * b.padded, threads), control);
    return w.fine.load();
}

constexpr double kLog2Pi = 1.8378770664093454836, kRootHalf = 0.70710678118654752440;

void normal(Normal d, const double* means, const double* scale, Scale kind, const PoolApi& pool,
            int threads, Control* control) {
    const int64_t k = d.states, n = d.features;
    std::vector<double> turned(at(k * n)), scales(at(k * (d.triangle ? n * (n + 1) / 2 : n)));
    std::vector<double> constant(at(k));
    for (int64_t i = 0; i < k; ++i) {
        double logs = static_cast<double>(n) * kLog2Pi;
        int64_t next = 0;
        for (int64_t f = 0; f < n; ++f) {
            turned[at(f * k + i)] = means[i * n + f];
            if (kind == Scale::factor) {
                const double* row = scale + (i * n + f) * n;
                for (int64_t g = 0; g <= f; ++g) {
                    scales[at(next++ * k + i)] = kRootHalf * row[g];
                }
                logs -= 2.0 * std::log(row[f]);
            } else {
                const double variance = std::max(scale[kind == Scale::variance ? i : i * n + f],
                                                 std::numeric_limits<double>::min());
                scales[at(f * k + i)] = 0.5 / variance;
                logs += std::log(variance);
            }
        }
        constant[at(i)] = -0.5 * logs;
    }
    d.means = turned.data();
    d.scale = scales.data();
    d.constant = constant.data();
    pool.run_plan(Plan("densities", pieces_of(d.n)), normal_task, &d,
                  threads_for(d.n * d.states * d.features, threads), control);
}

bool proper(const double* p, int64_t count, int64_t n, double about) {
    for (int64_t i = 0; i < count; ++i, p += n) {
        double sum = 0.0;
        for (int64_t j = 0; j < n; ++j) {
            if (!(p[j] >= 0.0)) return false;
            sum += p[j];
        }
        if (!(std::fabs(sum - 1.0) <= about)) return false;
    }
    return true;
}

void dirichlet(double* counts, const double* before, int64_t count, int64_t n, double more,
               bool keep_zeros) {
    for (int64_t i = 0; i < count; ++i, counts += n, before += n) {
        double sum = 0.0;
        for (int64_t j = 0; j < n; ++j) {
            const double sure = counts[j] + more;
            counts[j] = sure > 0.0 && !(keep_zeros && before[j] == 0.0) ? sure : 0.0;
            sum += counts[j];
        }
        for (int64_t j = 0; j < n; ++j) counts[j] = sum == 0.0 ? before[j] : counts[j] / sum;
    }
}

void by_symbol(const int64_t* symbols, const double* posteriors, int64_t n, int64_t states,
               int64_t alphabet, double* sums) {
    std::vector<double> rows(at(alphabet * states), 0.0);
    for (int64_t i = 0; i < n; ++i) {
        double* row = rows.data() + symbols[i] * states;
        for (int64_t k = 0; k < states; ++k) row[k] += posteriors[i * states + k];
    }
    for (int64_t k = 0; k < states; ++k) {
        for (int64_t s = 0; s < alphabet; ++s) sums[k * alphabet + s] = rows[at(s * states + k)];
    }
}

// The first of cumulated probabilities that is larger; where there is none, as their sum may miss
// 1, the first possible one.
static int64_t chosen(const double* sums, int64_t n, double uniform) {
    const int64_t found = std::upper_bound(sums, sums + n, uniform) - sums;
    return found < n ? found : std::upper_bound(sums, sums + n, 0.0) - sums;
}

void draw(const Draw& d) {
    int64_t state = d.state;
    for (int64_t i = 0; i < d.n; ++i) {
        state = chosen(d.steps + state * d.states, d.states, d.uniforms[2 * i]);
        d.drawn[i] = state;
        d.symbols[i] = chosen(d.emissions + state * d.alphabet, d.alphabet, d.uniforms[2 * i + 1]);
    }
}

}  // namespace vs::hmm
