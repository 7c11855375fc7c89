#include "training/engine.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <new>

namespace vs {

const PoolApi* Engine::pool = nullptr;
const ChainApi* Engine::chains = nullptr;

namespace {

constexpr int32_t kSparse = -1, kFull = -2;
// Marginals kept at a time, 8 MiB: they are read again by attribute, from cache.
constexpr int64_t kBlockNumbers = int64_t{1} << 20;
constexpr int64_t kTransitionTasks = 8;

#if defined(__GNUC__) || defined(__clang__)
inline void prefetch(const void* p) { __builtin_prefetch(p, 0, 3); }
#else
inline void prefetch(const void*) {}
#endif

// Nanoseconds per item of scoring, forward-backward and gradient: decides sizes, never a result.
double item_cost(int64_t labels) {
    const double k = static_cast<double>(labels);
    return 0.2 * k * k + 5.0 * k + 100.0;
}

// A polling function for calls made from within a task: the caller's own, or a look at its flag.
struct Relay {
    Control* outer;
    bool caller;
    static int poll(void* arg) {
        Relay& r = *static_cast<Relay*>(arg);
        if (r.outer->stop.load(std::memory_order_relaxed)) return 1;
        if (!r.caller || !r.outer->poll || !r.outer->poll(r.outer->arg)) return 0;
        r.outer->stop.store(1);
        return 1;
    }
};

void run_tasks(int64_t n, Task task, void* context, int threads, Control* control) {
    Plan plan;
    plan.n = n;
    Engine::pool->run_plan(plan, task, context, threads, control);
}

Status stopped(const Control& control) {
    const int stop = control.stop.load();
    return stop == 0 ? kOk : stop == 2 ? kNoMemory : kCancelled;
}

}  // namespace

// One evaluation or decoding under way.
struct Engine::Run {
    Engine* engine;
    Block* block;
    const double* w;
    double* gradient;
    int64_t* states;
    double *marginals, *sums, *loss;
    Control* control;
    std::atomic<int64_t> overflow{-1};
};

struct EngineTasks {
    static void chunk(void* context, int64_t task, int worker) {
        Engine::Run& run = *static_cast<Engine::Run*>(context);
        run.engine->chunk_task(run, task, worker);
    }
    static void range(void* context, int64_t task, int) {
        Engine::Run& run = *static_cast<Engine::Run*>(context);
        run.engine->range_task(run, task);
    }
};

Engine::Engine(const Corpus& corpus) : c_(corpus), stride_(corpus.n_labels) {
    const int64_t K = c_.n_labels;
    place_.reserve(static_cast<size_t>(c_.n_attributes));
    for (int64_t a = 0; a < c_.n_attributes; ++a) {
        const int64_t n = c_.first[a + 1] - c_.first[a];
        int32_t row = kSparse;
        if (n == K) {
            row = kFull;
        } else if (n >= 4 && 4 * n >= K) {
            row = static_cast<int32_t>(dense_attributes_.size());
            dense_attributes_.push_back(static_cast<int32_t>(a));
        }
        place_.push_back({c_.first[a], static_cast<int32_t>(n), row});
    }
    rows_.assign(dense_attributes_.size() * static_cast<size_t>(stride_), 0.0);
    table_.resize(static_cast<size_t>(K * K));
    cut();
}

void Engine::cut() {
    const int64_t K = c_.n_labels;
    if (c_.n_items == 0) return;  // there may be no labels either
    const int64_t most = std::max<int64_t>(1, kBlockNumbers / K);
    const double wanted = 1e6 / item_cost(K);
    int64_t chunk = std::min<int64_t>(std::max<int64_t>(static_cast<int64_t>(wanted), 128), 16384);
    chunk = std::min(chunk, std::max<int64_t>(128, c_.n_items / 32));
    std::vector<int64_t> count(static_cast<size_t>(c_.n_attributes), 0);
    for (int64_t s = 0; s < c_.n_sequences;) {
        Block block;
        block.first = s;
        block.chunk.push_back(s);
        const int64_t begin = c_.offset[s];
        int64_t chunk_begin = begin;
        // One sequence at least, however long.
        do {
            ++s;
            if (c_.offset[s] - chunk_begin >= chunk) {
                largest_chunk_ = std::max(largest_chunk_, c_.offset[s] - chunk_begin);
                block.chunk.push_back(s);
                chunk_begin = c_.offset[s];
            }
        } while (s < c_.n_sequences && c_.offset[s + 1] - begin <= most);
        if (block.chunk.back() != s) {
            largest_chunk_ = std::max(largest_chunk_, c_.offset[s] - chunk_begin);
            block.chunk.push_back(s);
        }
        block.last = s;
        largest_block_ = std::max(largest_block_, c_.offset[s] - begin);
        most_chunks_ = std::max(most_chunks_, static_cast<int64_t>(block.chunk.size()) - 1);
        transpose(block, count);
        blocks_.push_back(std::move(block));
    }
}

// Items by attribute, in corpus order. `count` is zero before and after.
void Engine::transpose(Block& b, std::vector<int64_t>& count) {
    const int64_t i0 = c_.offset[b.first], i1 = c_.offset[b.last];
    const int64_t m0 = c_.item[i0], m1 = c_.item[i1];
    for (int64_t m = m0; m < m1; ++m) {
        const size_t a = static_cast<size_t>(c_.id[m]);
        if (c_.first[a + 1] == c_.first[a]) continue;
        if (count[a]++ == 0) b.attributes.push_back(c_.id[m]);
    }
    std::sort(b.attributes.begin(), b.attributes.end());
    b.begin.reserve(b.attributes.size() + 1);
    int64_t at = 0;
    double work = 0.0, total = 0.0;
    const auto cost = [&](size_t a, int64_t items) {
        return static_cast<double>(items) *
               (4.0 + 0.5 * static_cast<double>(c_.first[a + 1] - c_.first[a]));
    };
    for (int32_t id : b.attributes) {
        total += cost(static_cast<size_t>(id), count[static_cast<size_t>(id)]);
    }
    const double target = std::max(total / 64.0, 2e4);
    b.attribute_ranges.push_back(0);
    for (size_t j = 0; j < b.attributes.size(); ++j) {
        const size_t a = static_cast<size_t>(b.attributes[j]);
        b.begin.push_back(at);
        const int64_t n = count[a];
        work += cost(a, n);
        count[a] = at;
        at += n;
        if (work >= target) {
            b.attribute_ranges.push_back(static_cast<int64_t>(j) + 1);
            work = 0.0;
        }
    }
    b.begin.push_back(at);
    if (b.attribute_ranges.back() != static_cast<int64_t>(b.attributes.size())) {
        b.attribute_ranges.push_back(static_cast<int64_t>(b.attributes.size()));
    }
    b.at.resize(static_cast<size_t>(at));
    if (c_.value) b.value.resize(static_cast<size_t>(at));
    for (int64_t i = i0; i < i1; ++i) {
        for (int64_t m = c_.item[i]; m < c_.item[i + 1]; ++m) {
            const size_t a = static_cast<size_t>(c_.id[m]);
            if (c_.first[a + 1] == c_.first[a]) continue;
            const size_t to = static_cast<size_t>(count[a]++);
            b.at[to] = static_cast<int32_t>(i - i0);
            if (c_.value) b.value[to] = c_.value[m];
        }
    }
    for (int32_t id : b.attributes) count[static_cast<size_t>(id)] = 0;
}

void Engine::transitions(const double* w, double* table) const {
    const int64_t kk = c_.n_labels * c_.n_labels;
    for (int64_t i = 0; i < kk; ++i) table[i] = c_.move[i] < 0 ? 0.0 : w[c_.move[i]];
}

// Weights into dense rows and the table of transitions.
void Engine::spread(const double* w) {
    for (size_t d = 0; d < dense_attributes_.size(); ++d) {
        const int32_t a = dense_attributes_[d];
        double* row = rows_.data() + d * static_cast<size_t>(stride_);
        for (int64_t f = c_.first[a]; f < c_.first[a + 1]; ++f) row[c_.label[f]] = w[f];
    }
    transitions(w, table_.data());
}

template <bool kRows>
void Engine::score_items(int64_t first, int64_t last, const double* w, double* unary) const {
    const int64_t K = c_.n_labels;
    constexpr int64_t kFar = 24, kNear = 10;  // attributes between a prefetch and its use
    const int64_t end = c_.item[last];
    const double* rows = rows_.data();
    for (int64_t i = first; i < last; ++i, unary += K) {
        std::memset(unary, 0, sizeof(double) * static_cast<size_t>(K));
        for (int64_t m = c_.item[i]; m < c_.item[i + 1]; ++m) {
            if (m + kFar < end) {
                prefetch(&place_[static_cast<size_t>(c_.id[m + kFar])]);
                const Place& ahead = place_[static_cast<size_t>(c_.id[m + kNear])];
                const bool row = kRows && ahead.row >= 0;
                const double* to = row ? rows + ahead.row * stride_ : w + ahead.first;
                prefetch(to);
                if (ahead.row != kFull && !row) prefetch(c_.label + ahead.first);
                const int64_t size = row ? K : ahead.count;
                for (int64_t k = 8; k < size; k += 8) prefetch(to + k);
            }
            const Place& at = place_[static_cast<size_t>(c_.id[m])];
            const double v = c_.value ? c_.value[m] : 1.0;
            if (at.row == kSparse || (!kRows && at.row != kFull)) {
                const double* x = w + at.first;
                const int32_t* label = c_.label + at.first;
                for (int32_t f = 0; f < at.count; ++f) unary[label[f]] += v * x[f];
                continue;
            }
            const double* row = at.row == kFull ? w + at.first : rows + at.row * stride_;
            for (int64_t k = 0; k < K; ++k) unary[k] += v * row[k];
        }
    }
}

double Engine::gold_score(int64_t first, int64_t last, const double* unary) const {
    const int64_t K = c_.n_labels;
    double sum = 0.0;
    for (int64_t i = first; i < last; ++i) {
        sum += unary[(i - first) * K + c_.gold[i]];
        if (i > first) sum += table_[static_cast<size_t>(c_.gold[i - 1] * K + c_.gold[i])];
    }
    return sum;
}

void Engine::chunk_task(Run& run, int64_t task, int worker) {
    const int64_t K = c_.n_labels;
    const Block& b = *run.block;
    const int64_t s0 = b.chunk[static_cast<size_t>(task)];
    const int64_t s1 = b.chunk[static_cast<size_t>(task) + 1];
    const int64_t i0 = c_.offset[s0], n = c_.offset[s1] - i0;
    double* unary = unary_[static_cast<size_t>(worker)].data();
    score_items<true>(i0, i0 + n, run.w, unary);
    for (int64_t i = 0; i < n; ++i) {
        bool fine = true;
        for (int64_t k = 0; k < K; ++k) fine &= std::fabs(unary[i * K + k]) <= kLargest64;
        if (!fine) {
            run.overflow.store(i0 + i);
            run.control->stop.store(3);
            return;
        }
    }

    Relay relay{run.control, worker == 0};
    Control control;
    control.poll = Relay::poll;
    control.arg = &relay;
    Request q;
    Report report;
    std::vector<int64_t> offset, edge;
    try {
        offset.assign(c_.offset + s0, c_.offset + s1 + 1);
        edge.assign(c_.edge + s0, c_.edge + s1 + 1);
    } catch (const std::bad_alloc&) {
        run.control->stop.store(2);
        return;
    }
    for (int64_t& o : offset) o -= i0;
    for (int64_t& e : edge) e -= c_.edge[s0];
    q.chains.unary = unary;
    q.chains.transition = table_.data();
    q.chains.start = q.chains.end = nullptr;
    q.chains.allowed = nullptr;
    q.chains.offset = offset.data();
    q.chains.edge = edge.data();
    q.chains.n_positions = n;
    q.chains.n_labels = K;
    q.chains.n_sequences = s1 - s0;
    q.chains.dtype = kFloat64;
    q.chains.per_edge = false;
    double* log_z = log_z_.data() + (s0 - b.first);
    q.log_z = log_z;
    if (run.gradient) {
        q.marginals = run.marginals + (i0 - c_.offset[b.first]) * K;
        q.expectations = run.sums + task * K * K;
        q.expectation_chunks = 1;
        std::memset(q.expectations, 0, sizeof(double) * static_cast<size_t>(K * K));
    }
    try {  // an exception must not leave a worker of the pool
        report = run.states
                     ? chains->decode(q.chains, 1, 1, run.states + i0, log_z, control, nullptr)
                     : chains->infer(q, control);
    } catch (const std::bad_alloc&) {
        report.status = kNoMemory;
    }
    if (report.status != kOk) {
        int none = 0;
        run.control->stop.compare_exchange_strong(none, report.status == kNoMemory ? 2 : 1);
        return;
    }
    if (run.states) return;
    double loss = 0.0, rest = 0.0;  // compensated
    for (int64_t s = s0; s < s1; ++s) {
        const int64_t i = c_.offset[s];
        const double x = log_z[s - s0] - gold_score(i, c_.offset[s + 1], unary + (i - i0) * K);
        const double t = loss + x;
        rest += std::fabs(loss) >= std::fabs(x) ? (loss - t) + x : (x - t) + loss;
        loss = t;
    }
    run.loss[task] = loss + rest;
    if (!run.gradient) return;
    double* p = static_cast<double*>(q.marginals);
    for (int64_t i = 0; i < n; ++i) p[i * K + c_.gold[i0 + i]] -= 1.0;
    for (int64_t s = s0; s < s1; ++s) {
        for (int64_t i = c_.offset[s] + 1; i < c_.offset[s + 1]; ++i) {
            q.expectations[c_.gold[i - 1] * K + c_.gold[i]] -= 1.0;
        }
    }
}

void Engine::range_task(Run& run, int64_t task) {
    const int64_t K = c_.n_labels;
    Block& b = *run.block;
    const int64_t ranges = static_cast<int64_t>(b.attribute_ranges.size()) - 1;
    if (task >= ranges) {  // transitions: a share of the table, chunks in order
        const int64_t kk = K * K, part = task - ranges;
        const int64_t from = kk * part / kTransitionTasks, to = kk * (part + 1) / kTransitionTasks;
        const int64_t chunks = static_cast<int64_t>(b.chunk.size()) - 1;
        for (int64_t j = 1; j < chunks; ++j) {
            for (int64_t i = from; i < to; ++i) run.sums[i] += run.sums[j * kk + i];
        }
        for (int64_t i = from; i < to; ++i) {
            if (c_.move[i] >= 0) run.gradient[c_.move[i]] += run.sums[i];
        }
        return;
    }
    constexpr int64_t kAhead = 12;
    constexpr int64_t kLocal = 1024;
    double local[kLocal];
    std::vector<double> large;
    double* sum = local;
    if (K > kLocal) {
        try {
            large.resize(static_cast<size_t>(K));
        } catch (const std::bad_alloc&) {
            run.control->stop.store(2);
            return;
        }
        sum = large.data();
    }
    const int64_t from = b.attribute_ranges[static_cast<size_t>(task)];
    const int64_t to = b.attribute_ranges[static_cast<size_t>(task) + 1];
    const double* value = b.value.empty() ? nullptr : b.value.data();
    const int64_t end = static_cast<int64_t>(b.at.size());
    for (int64_t j = from; j < to; ++j) {
        const size_t a = static_cast<size_t>(b.attributes[static_cast<size_t>(j)]);
        const int64_t f0 = c_.first[a], n = c_.first[a + 1] - f0;
        const int64_t r0 = b.begin[static_cast<size_t>(j)];
        const int64_t r1 = b.begin[static_cast<size_t>(j) + 1];
        const int32_t* at = b.at.data();
        double* g = run.gradient + f0;
        if (place_[a].row == kSparse) {
            const int32_t* label = c_.label + f0;
            for (int64_t q = 0; q < n; ++q) sum[q] = 0.0;
            for (int64_t r = r0; r < r1; ++r) {
                if (r + kAhead < end) prefetch(run.marginals + at[r + kAhead] * K + label[0]);
                const double* p = run.marginals + at[r] * K;
                const double v = value ? value[r] : 1.0;
                for (int64_t q = 0; q < n; ++q) sum[q] += v * p[label[q]];
            }
            for (int64_t q = 0; q < n; ++q) g[q] += sum[q];
            continue;
        }
        for (int64_t k = 0; k < K; ++k) sum[k] = 0.0;
        for (int64_t r = r0; r < r1; ++r) {
            if (r + kAhead < end) {
                const double* p = run.marginals + at[r + kAhead] * K;
                for (int64_t k = 0; k < K; k += 8) prefetch(p + k);
            }
            const double* p = run.marginals + at[r] * K;
            const double v = value ? value[r] : 1.0;
            for (int64_t k = 0; k < K; ++k) sum[k] += v * p[k];
        }
        if (place_[a].row == kFull) {
            for (int64_t k = 0; k < K; ++k) g[k] += sum[k];
        } else {
            for (int64_t q = 0; q < n; ++q) g[q] += sum[c_.label[f0 + q]];
        }
    }
}

Evaluation Engine::evaluate(const double* w, int64_t n_weights, double* gradient, int threads,
                            Control& control) {
    Evaluation e;
    const int64_t K = c_.n_labels;
    spread(w);
    if (gradient) std::memset(gradient, 0, sizeof(double) * static_cast<size_t>(n_weights));
    if (static_cast<int>(unary_.size()) < threads) unary_.resize(static_cast<size_t>(threads));
    for (int t = 0; t < threads; ++t) {
        unary_[static_cast<size_t>(t)].resize(static_cast<size_t>(largest_chunk_ * K));
    }
    if (gradient) {
        room_.resize(static_cast<size_t>(largest_block_ * K));
        sums_.resize(static_cast<size_t>(most_chunks_ * K * K));
    }
    log_z_.resize(static_cast<size_t>(c_.n_sequences));
    chunk_loss_.resize(static_cast<size_t>(most_chunks_));
    double loss = 0.0, rest = 0.0;
    for (Block& b : blocks_) {
        Run run;
        run.engine = this;
        run.block = &b;
        run.w = w;
        run.gradient = gradient;
        run.states = nullptr;
        run.marginals = room_.data();
        run.sums = sums_.data();
        run.loss = chunk_loss_.data();
        run.control = &control;
        const int64_t chunks = static_cast<int64_t>(b.chunk.size()) - 1;
        run_tasks(chunks, EngineTasks::chunk, &run, threads, &control);
        if (gradient && control.stop.load() == 0) {
            const int64_t ranges = static_cast<int64_t>(b.attribute_ranges.size()) - 1;
            run_tasks(ranges + kTransitionTasks, EngineTasks::range, &run, threads, &control);
        }
        if (control.stop.load() == 3) {
            e.overflow = run.overflow.load();
            return e;
        }
        e.status = stopped(control);
        if (e.status != kOk) return e;
        for (int64_t j = 0; j < chunks; ++j) {
            const double x = run.loss[j], t = loss + x;
            rest += std::fabs(loss) >= std::fabs(x) ? (loss - t) + x : (x - t) + loss;
            loss = t;
        }
        control.done.fetch_add(c_.offset[b.last] - c_.offset[b.first]);
    }
    e.loss = loss + rest;
    return e;
}

Evaluation Engine::decode(const double* w, int64_t* states, int threads, Control& control) {
    Evaluation e;
    spread(w);
    if (static_cast<int>(unary_.size()) < threads) unary_.resize(static_cast<size_t>(threads));
    for (int t = 0; t < threads; ++t) {
        unary_[static_cast<size_t>(t)].resize(static_cast<size_t>(largest_chunk_ * c_.n_labels));
    }
    log_z_.resize(static_cast<size_t>(c_.n_sequences));
    for (Block& b : blocks_) {
        Run run;
        run.engine = this;
        run.block = &b;
        run.w = w;
        run.gradient = nullptr;
        run.states = states;
        run.marginals = run.sums = run.loss = nullptr;
        run.control = &control;
        run_tasks(static_cast<int64_t>(b.chunk.size()) - 1, EngineTasks::chunk, &run, threads,
                  &control);
        if (control.stop.load() == 3) {
            e.overflow = run.overflow.load();
            return e;
        }
        e.status = stopped(control);
        if (e.status != kOk) return e;
    }
    return e;
}

void Engine::score_sequence(int64_t sequence, const double* w, double* unary) const {
    score_items<false>(c_.offset[sequence], c_.offset[sequence + 1], w, unary);
}

void Engine::pull(int64_t sequence, const double* residual, std::vector<int64_t>& features,
                  std::vector<double>& values) {
    const int64_t K = c_.n_labels;
    const int64_t first = c_.offset[sequence], last = c_.offset[sequence + 1];
    marked_.resize(static_cast<size_t>(c_.n_states), 0);
    pulled_.resize(static_cast<size_t>(c_.n_states));
    features.clear();
    for (int64_t i = first; i < last; ++i, residual += K) {
        bool any = false;
        for (int64_t k = 0; k < K; ++k) any |= residual[k] != 0.0;
        if (!any) continue;
        for (int64_t m = c_.item[i]; m < c_.item[i + 1]; ++m) {
            const size_t a = static_cast<size_t>(c_.id[m]);
            const double v = c_.value ? c_.value[m] : 1.0;
            for (int64_t f = c_.first[a]; f < c_.first[a + 1]; ++f) {
                const double x = residual[c_.label[f]];
                if (x == 0.0) continue;
                const size_t at = static_cast<size_t>(f);
                if (!marked_[at]) {
                    marked_[at] = 1;
                    pulled_[at] = 0.0;
                    features.push_back(f);
                }
                pulled_[at] += v * x;
            }
        }
    }
    values.resize(features.size());
    for (size_t j = 0; j < features.size(); ++j) {
        values[j] = pulled_[static_cast<size_t>(features[j])];
        marked_[static_cast<size_t>(features[j])] = 0;
    }
}

namespace {

constexpr int64_t kPiece = 16384;  // numbers summed by one task

// q += a x, then the sum of q y (or of q q) over a piece; null: left out.
struct Piece {
    int64_t n;
    double a;
    const double *x, *y, *scaled;
    double factor, *q, *sums;
};

void piece_task(void* context, int64_t task, int) {
    const Piece& p = *static_cast<const Piece*>(context);
    const int64_t from = task * kPiece, to = std::min(p.n, from + kPiece);
    if (p.x) {
        for (int64_t i = from; i < to; ++i) p.q[i] += p.a * p.x[i];
    }
    if (p.factor != 1.0 || p.scaled) {
        for (int64_t i = from; i < to; ++i) p.q[i] *= p.factor * (p.scaled ? p.scaled[i] : 1.0);
    }
    if (p.y == nullptr) return;
    // Eight sums side by side: a fixed order that needs no permission to reorder.
    double s[8] = {};
    int64_t i = from;
    for (; i + 8 <= to; i += 8) {
        for (int64_t k = 0; k < 8; ++k) s[k] += p.q[i + k] * p.y[i + k];
    }
    for (int64_t k = 0; i < to; ++i, ++k) s[k] += p.q[i] * p.y[i];
    p.sums[task] = ((s[0] + s[4]) + (s[1] + s[5])) + ((s[2] + s[6]) + (s[3] + s[7]));
}

double run_pieces(Piece& p, std::vector<double>& sums, Vectors& v) {
    const int64_t pieces = (p.n + kPiece - 1) / kPiece;
    sums.assign(static_cast<size_t>(pieces), 0.0);
    p.sums = sums.data();
    Plan plan;
    plan.n = pieces;
    v.pool->run_plan(plan, piece_task, &p, v.threads, v.control);
    double total = 0.0;
    for (double s : sums) total += s;
    return total;
}

}  // namespace

double Vectors::dot(const double* x, const double* y, int64_t n) {
    std::vector<double> sums;
    Piece p{n, 0.0, nullptr, y, nullptr, 1.0, const_cast<double*>(x), nullptr};
    return run_pieces(p, sums, *this);
}

void Vectors::direction(int64_t n, int m, const int64_t* order, const double* s, const double* y,
                        const double* sy, double scale, const double* diagonal, const double* g,
                        double* d) {
    std::vector<double> sums, alpha(static_cast<size_t>(m));
    for (int64_t i = 0; i < n; ++i) d[i] = -g[i];
    Piece p{n, 0.0, nullptr, nullptr, nullptr, 1.0, d, nullptr};
    for (int j = m - 1; j >= 0; --j) {
        p.y = s + order[j] * n;
        const double a = run_pieces(p, sums, *this) / sy[order[j]];
        alpha[static_cast<size_t>(j)] = a;
        p.x = y + order[j] * n;
        p.a = -a;
    }
    p.factor = scale;
    p.scaled = diagonal;
    for (int j = 0; j < m; ++j) {
        p.y = y + order[j] * n;
        const double b = run_pieces(p, sums, *this) / sy[order[j]];
        p.factor = 1.0;
        p.scaled = nullptr;
        p.x = s + order[j] * n;
        p.a = alpha[static_cast<size_t>(j)] - b;
    }
    p.y = nullptr;
    run_pieces(p, sums, *this);
}

}  // namespace vs
