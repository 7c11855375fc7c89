// Plans of supports.h: components do not wait for each other.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <new>

#include "core/at.h"
#include "core/large_pages.h"
#include "supports/supports.h"

namespace vs::supports {
namespace {

const SimdApi* g_simd = nullptr;
const Level& level() { return at_level<Level>(g_simd->level()); }

// Positions of a task: its components share memory.
constexpr int64_t kPositions = 256;

struct Work {
    const Problem& p;
    const Table& t;
    const Answer& a;
    Control* control;
    std::vector<int64_t> first;                  // of each task, and the end, in p.components
    std::vector<std::unique_ptr<Space>> spaces;  // of each worker
    std::atomic<bool> failed{false};

    int64_t length(int64_t i) const { return p.order->length(p.components[i]); }
    int64_t rows(int64_t i) const {
        const std::size_t c = at(p.components[i]);
        return 3 * length(i) + 4 * p.order->slots[c] + 2 * p.order->sides[c];
    }
    void cut() {
        int64_t positions = kPositions;
        for (int64_t i = 0; i < p.n_components; ++i) {
            if (positions >= kPositions) {
                first.push_back(i);
                positions = 0;
            }
            positions += length(i);
        }
        first.push_back(p.n_components);
    }
};

void group_task(void* context, int64_t task, int worker) {
    Work& w = *static_cast<Work*>(context);
    const int64_t first = w.first[at(task)], last = w.first[at(task) + 1];
    int64_t longest = 0, rows = 0;
    for (int64_t i = first; i < last; ++i) {
        longest = std::max(longest, w.length(i));
        rows = std::max(rows, w.rows(i));
    }
    std::unique_ptr<Space>& space = w.spaces[at(worker)];
    try {
        if (!space || space->positions < longest || space->n_rows < rows)
            space.reset(new Space(longest, rows, w.t.kp));
    } catch (const std::bad_alloc&) {
        w.failed.store(true, std::memory_order_relaxed);
        w.control->stop.store(1, std::memory_order_relaxed);
        return;
    }
    for (int64_t i = first; i < last && w.control->stop.load() == 0; ++i) {
        const int64_t c = w.p.components[i];
        level().component(w.p, w.t, w.a, c, *space, w.control, worker == 0);
        if (w.a.taken[c] != 0) w.control->done.fetch_add(w.length(i));
    }
}

// The largest and the least finite score. Several at a time, as each waits for the one before.
template <class In>
void limits(const In* x, int64_t n, double* high, double* low) {
    constexpr int64_t lanes = 8;
    constexpr In inf = std::numeric_limits<In>::infinity(), most = std::numeric_limits<In>::max();
    In above[lanes], below[lanes];
    std::fill_n(above, lanes, -inf);
    std::fill_n(below, lanes, inf);
    const auto look = [&](In v, int64_t j) {
        above[j] = v > above[j] ? v : above[j];
        const In finite = v < -most ? inf : v;
        below[j] = finite < below[j] ? finite : below[j];
    };
    int64_t i = 0;
    for (; i + lanes <= n; i += lanes) {
        for (int64_t j = 0; j < lanes; ++j) look(x[i + j], j);
    }
    for (; i < n; ++i) look(x[i], 0);
    *high = static_cast<double>(*std::max_element(above, above + lanes));
    *low = static_cast<double>(*std::min_element(below, below + lanes));
}

// The median, 0 where there is none; shuffles.
float median(std::vector<float>& values) {
    if (values.empty()) return 0.0f;
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

// r(i), c(k): most entries of a trained table are near a default, times what row and column have.
// Some entries of every row and column are looked at. 0: most are next to nothing.
void rank_one(const Table& t, float* r, float* c) {
    constexpr float least = 1e-6f;
    const int64_t step = std::max<int64_t>(1, t.k / 33);
    std::vector<float> some;
    for (int64_t i = 0; i < t.k; ++i) {
        some.clear();
        for (int64_t k = i % step; k < t.k; k += step) some.push_back(t.rows[at(i * t.kp + k)]);
        const float found = median(some);
        r[i] = found >= least ? found : 0.0f;
    }
    for (int64_t k = 0; k < t.k; ++k) {
        some.clear();
        for (int64_t i = k % step; i < t.k; i += step) {
            if (r[i] > 0.0f) some.push_back(t.columns[at(k * t.kp + i)] / r[i]);
        }
        c[k] = median(some);
    }
}

// Norms of `rows` [i][k] with what stands beside it.
void measure(const Table& t, const std::vector<float>& rows, Measured* n) {
    for (auto* x : {&n->above_two, &n->above_sum, &n->above_weighted, &n->below_two, &n->below_sum,
                    &n->size}) {
        x->assign(at(t.kp), 0.0f);
    }
    level().measure(rows.data(), t.k, t.kp, n->r.data(), n->c.data(),
                    {n->above_two.data(), n->above_sum.data(), n->above_weighted.data(),
                     n->below_two.data(), n->below_sum.data(), n->size.data()});
}

template <class In>
void exponentials(const In* transition, Table* t) {
    std::vector<double> scores(at(t->kp), -std::numeric_limits<double>::infinity());
    for (int64_t i = 0; i < t->k; ++i) {
        for (int64_t k = 0; k < t->k; ++k) {
            scores[at(k)] = static_cast<double>(transition[i * t->k + k]);
        }
        float* row = t->rows.data() + i * t->kp;
        level().exponentials(scores.data(), t->shift, t->kp, row);
    }
}

constexpr int64_t kBlock = 16;

// to[c][r] = from[r][c], both with `stride` from row to row.
void transpose_block(const float* from, float* to, int64_t stride, int64_t height, int64_t width) {
    float block[kBlock * kBlock];
    for (int64_t r = 0; r < height; ++r) {
        for (int64_t c = 0; c < width; ++c) block[c * kBlock + r] = from[r * stride + c];
    }
    for (int64_t c = 0; c < width; ++c) {
        for (int64_t r = 0; r < height; ++r) to[c * stride + r] = block[c * kBlock + r];
    }
}

// columns = rows transposed, block by block: whole ones by loops whose length is known.
void transpose(Table* t) {
    const int64_t k = t->k, kp = t->kp;
    for (int64_t i = 0; i < k; i += kBlock) {
        const int64_t height = std::min(k - i, kBlock);
        for (int64_t j = 0; j < k; j += kBlock) {
            const int64_t width = std::min(k - j, kBlock);
            const float* const from = t->rows.data() + i * kp + j;
            float* const to = t->columns.data() + j * kp + i;
            if (height == kBlock && width == kBlock) {
                transpose_block(from, to, kp, kBlock, kBlock);
            } else {
                transpose_block(from, to, kp, height, width);
            }
        }
    }
}

}  // namespace

void use_simd(const SimdApi* simd) noexcept { g_simd = simd; }

bool make(const void* transition, bool single, int64_t labels, Table* t) {
    double high, low;
    if (single) {
        limits(static_cast<const float*>(transition), labels * labels, &high, &low);
    } else {
        limits(static_cast<const double*>(transition), labels * labels, &high, &low);
    }
    if (!(high > -std::numeric_limits<double>::max() && high - low < -kBottomLog - 0.5))
        return false;
    t->k = labels;
    t->kp = level().padded(labels);
    t->shift = high;
    for (auto* table : {&t->rows, &t->columns}) {
        const int64_t size = t->k * t->kp;
        table->reserve(at(size));
        prefer_large_pages(table->data(), size * static_cast<int64_t>(sizeof(float)));
        table->assign(at(size), 0.0f);
    }
    if (single) {
        exponentials(static_cast<const float*>(transition), t);
    } else {
        exponentials(static_cast<const double*>(transition), t);
    }
    transpose(t);
    t->forward.r.assign(at(t->kp), 0.0f);
    t->forward.c.assign(at(t->kp), 0.0f);
    rank_one(*t, t->forward.r.data(), t->forward.c.data());
    t->backward.r = t->forward.c;
    t->backward.c = t->forward.r;
    measure(*t, t->rows, &t->forward);
    measure(*t, t->columns, &t->backward);
    return true;
}

void infer(const Problem& p, const Table& t, const Answer& a, const PoolApi& pool, int threads,
           Control* control) {
    Work w{p, t, a, control, {}, {}, {}};
    w.cut();
    w.spaces.resize(at(std::max(1, threads)));
    const int64_t tasks = static_cast<int64_t>(w.first.size()) - 1;
    pool.run_plan(Plan("supports", tasks), group_task, &w, threads, control);
    if (w.failed.load()) throw std::bad_alloc();
}

double product(const Table& t, Pair* pair) { return level().product(t.kp, pair); }

Step message(const Table& t, const Trial& trial) {
    Space space(0, 0, t.kp);
    return level().message(t, trial, space);
}

}  // namespace vs::supports
