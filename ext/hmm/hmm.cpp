// Plans of the passes in few.h: pieces that do not depend on the number of threads.
#include <algorithm>
#include <atomic>
#include <vector>

#include "core/at.h"
#include "hmm/level.h"

namespace vs::hmm {
namespace {

const SimdApi* g_simd = nullptr;
const Level& level() { return at_level<Level>(g_simd->level()); }

// Other threads take longer to wake up than so many numbers to compute.
int threads_for(int64_t numbers, int threads) { return numbers < (1 << 15) ? 1 : threads; }

int64_t pieces_of(int64_t n) { return (n + Few::kRows - 1) / Few::kRows; }

struct Work {
    const Few* few;
    std::vector<int64_t> groups;  // the first sequence of each, and the end
    std::vector<double> sums;
    std::atomic<bool> fine{true};
};

void local_task(void* context, int64_t task, int) {
    const Few& f = *static_cast<Work*>(context)->few;
    level().local(f, task * Few::kRows, std::min(f.n, (task + 1) * Few::kRows));
}

using Pass = bool (*)(const Few&, int64_t, bool);

bool pass_group(const Work& w, int64_t group, Pass pass, bool caller) {
    bool fine = true;
    for (int64_t s = w.groups[at(group)]; s < w.groups[at(group) + 1]; ++s) {
        fine = pass(*w.few, s, caller) && fine;
    }
    return fine;
}

// A direction of a group of sequences, where there are few groups.
void direction_task(void* context, int64_t task, int worker) {
    Work& w = *static_cast<Work*>(context);
    const auto pass = task % 2 == 0 ? level().forward : level().backward;
    if (!pass_group(w, task / 2, pass, worker == 0)) {
        w.fine.store(false, std::memory_order_relaxed);
    }
}

void group_task(void* context, int64_t task, int worker) {
    Work& w = *static_cast<Work*>(context);
    if (!pass_group(w, task, level().both, worker == 0)) {
        w.fine.store(false, std::memory_order_relaxed);
    }
}

void meet_task(void* context, int64_t task, int) {
    Work& w = *static_cast<Work*>(context);
    const Few& f = *w.few;
    double* sums = f.sums ? w.sums.data() + task * f.padded * f.padded : nullptr;
    const int64_t first = task * Few::kRows;
    if (!level().meet(f, first, std::min(f.n, first + Few::kRows), sums)) {
        w.fine.store(false, std::memory_order_relaxed);
    }
}

void diagonal_task(void* context, int64_t task, int) {
    const Diagonal& d = *static_cast<const Diagonal*>(context);
    level().diagonal(d, task * Few::kRows, std::min(d.n, (task + 1) * Few::kRows));
}

}  // namespace

void use_simd(const SimdApi* simd) noexcept { g_simd = simd; }

int64_t padded(int64_t states) { return level().padded(states); }

bool expect(const Few& f, const PoolApi& pool, int most, Control* control) {
    const int threads = threads_for(f.n * f.padded, most);
    Work w;
    w.few = &f;
    for (int64_t s = 0; s < f.sequences; ++s) {
        if (w.groups.empty() || f.offset[s] - f.offset[w.groups.back()] >= Few::kRows) {
            w.groups.push_back(s);
        }
    }
    const int64_t groups = static_cast<int64_t>(w.groups.size()), pieces = pieces_of(f.n);
    w.groups.push_back(f.sequences);
    if (f.sums) w.sums.assign(at(pieces * f.padded * f.padded), 0.0);
    pool.run_plan(Plan("local", pieces), local_task, &w, threads, control);
    if (control->stop.load() == 0) {
        const bool apart = threads > groups;
        pool.run_plan(Plan("passes", apart ? 2 * groups : groups),
                      apart ? direction_task : group_task, &w, threads, control);
    }
    if (control->stop.load() == 0 && w.fine.load()) {
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

void diagonal(const Diagonal& d, const PoolApi& pool, int threads, Control* control) {
    pool.run_plan(Plan("densities", pieces_of(d.n)), diagonal_task, const_cast<Diagonal*>(&d),
                  threads_for(d.n * d.states * d.features, threads), control);
}

}  // namespace vs::hmm
