#include "crf/evaluator.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <new>

#include "core/sum.h"
#include "crf/scorer.h"
#include "simd/level.h"

namespace vs::crf {

const PoolApi* Evaluator::pool = nullptr;
const ForestApi* Evaluator::forests = nullptr;

namespace {

// Why tasks stopped: the values of Control::stop.
enum Stop : int { kNothing, kAsked, kMemory, kOverflow };
constexpr int64_t kTransitionTasks = 8;

// A polling function for calls made from within a task: the caller's own, or one that reads its
// flag.
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

Status stopped(const Control& control) {
    const int stop = control.stop.load();
    return stop == kNothing ? kOk : stop == kMemory ? kNoMemory : kCancelled;
}

}  // namespace

// The evaluation or decoding of one block.
struct Evaluator::Job {
    Evaluator* evaluator;
    SequenceBlock* block;
    const double* w;
    double* gradient;  // or null
    int64_t* states;   // null: not decoding
    const Narrow* narrow;
    Control* control;
    std::atomic<int64_t> overflow{-1};

    // Where nothing is possible scores have left the range of numbers: data were checked.
    void give_up(const Report& report, int64_t item) {
        int none = 0;
        if (report.status == kInfeasible) overflow.store(item);
        control->stop.compare_exchange_strong(none, report.status == kNoMemory     ? kMemory
                                                    : report.status == kInfeasible ? kOverflow
                                                                                   : kAsked);
    }
    static void chunk(void* context, int64_t task, int worker) {
        Job& job = *static_cast<Job*>(context);
        job.evaluator->chunk_task(job, task, worker);
    }
    static void range(void* context, int64_t task, int) {
        Job& job = *static_cast<Job*>(context);
        job.evaluator->range_task(job, task);
    }
};

// A chunk under way, its sequences and items counted from its own first, and which of the sequences
// go in float64 and in float32.
struct Evaluator::Chunk {
    int64_t first, last, item, n, task;
    std::vector<int64_t> offset, edge;
    std::vector<int64_t> components[2];
};

// A question about sequences of n items in all, and where expectations are added up, or null.
Request Evaluator::request_of(const double* unary, const int64_t* offset, const int64_t* edge,
                              int64_t n, int64_t sequences, double* sums) const {
    Request q;
    q.model.arrays =
        chains_of(c_, unary, reads_pairs_ ? nullptr : table_.data(), offset, edge, n, sequences);
    if (reads_pairs_) q.model.arrays.sparse = &pairs_;
    if (!sums) return q;
    q.expectations = sums;
    if (few_pairs_) q.pairs = &pairs_;
    q.expectation_chunks = 1;
    return q;
}

// Asks the engine about sequences of a chunk that begins with `item`; false: stopped.
bool Evaluator::ask(Job& job, const Request& q, int64_t item, int worker) {
    Relay relay{job.control, worker == 0};
    Control control;
    control.poll = Relay::poll;
    control.arg = &relay;
    Report report;
    try {  // an exception must not leave a worker of the pool
        report = job.states ? forests->decode(q, control) : forests->infer(q, control);
    } catch (const std::bad_alloc&) {
        report.status = kNoMemory;
    }
    if (report.status != kOk) job.give_up(report, item);
    return report.status == kOk;
}

// Answers the sequences of a chunk that go in one type; false: stopped.
bool Evaluator::answer(Job& job, const Chunk& chunk, bool narrow, int worker) {
    const int64_t K = c_.n_labels, numbers = chunk.n * K;
    const double* unary = unary_[static_cast<size_t>(worker)].data();
    float* scores = narrow ? narrow_[static_cast<size_t>(worker)].data() : nullptr;
    const auto each_number = [&](auto f) {  // of the sequences that go in float32
        for (int64_t s : chunk.components[1]) {
            const int64_t from = chunk.offset[static_cast<size_t>(s)] * K;
            const int64_t to = chunk.offset[static_cast<size_t>(s) + 1] * K;
            for (int64_t i = from; i < to; ++i) f(i);
        }
    };
    if (narrow) each_number([&](int64_t i) { scores[i] = static_cast<float>(unary[i]); });
    Request q =
        request_of(unary, chunk.offset.data(), chunk.edge.data(), chunk.n, chunk.last - chunk.first,
                   job.gradient ? sums_.data() + chunk.task * n_sums_ : nullptr);
    if (narrow) {
        q.model.arrays.unary = scores;
        q.model.arrays.transition = narrow_table_.data();
        q.model.arrays.dtype = kFloat32;
    }
    if (!chunk.components[!narrow].empty()) q.components = &chunk.components[narrow];
    q.log_z = log_z_.data() + (chunk.first - job.block->first);
    double* marginals = nullptr;
    if (job.gradient) {
        marginals = marginals_.data() + (chunk.item - c_.offset[job.block->first]) * K;
        q.marginals = narrow ? static_cast<void*>(scores + numbers) : marginals;
    }
    if (job.states) q.states = job.states + chunk.item;
    if (!ask(job, q, chunk.item, worker)) return false;
    if (narrow && marginals) {
        const float* found = scores + numbers;
        each_number([&](int64_t i) { marginals[i] = static_cast<double>(found[i]); });
    }
    return true;
}

// Handles neighbouring sequences of a chunk, [first, last), whose labels are known in part: `loss`
// (of each) is log Z under their sets, and what they have under them is taken from the marginals
// and sums of the chunk. False: stopped.
bool Evaluator::withdraw(Job& job, const Chunk& chunk, int64_t first, int64_t last, int worker,
                         double* loss) {
    const int64_t K = c_.n_labels, item = c_.offset[first], n = c_.offset[last] - item;
    const double* unary = unary_[static_cast<size_t>(worker)].data() + (item - chunk.item) * K;
    std::vector<uint8_t> allowed;
    std::vector<double> marginals, sums;
    std::vector<int64_t> offset, edge;
    try {
        allowed.resize(static_cast<size_t>(n * K));
        offset.assign(c_.offset + first, c_.offset + last + 1);
        edge.assign(c_.edge + first, c_.edge + last + 1);
        if (job.gradient) {
            marginals.resize(static_cast<size_t>(n * K));
            sums.resize(static_cast<size_t>(n_sums_), 0.0);
        }
    } catch (const std::bad_alloc&) {
        job.control->stop.store(kMemory);
        return false;
    }
    for (int64_t& o : offset) o -= item;
    for (int64_t& e : edge) e -= c_.edge[first];
    mask(item, n, allowed.data());
    Request q = request_of(unary, offset.data(), edge.data(), n, last - first,
                           job.gradient ? sums.data() : nullptr);
    q.model.arrays.allowed = allowed.data();
    if (job.gradient) q.marginals = marginals.data();
    q.log_z = loss;
    if (!ask(job, q, item, worker)) return false;
    if (!job.gradient) return true;
    double* p = marginals_.data() + (item - c_.offset[job.block->first]) * K;
    for (size_t i = 0; i < marginals.size(); ++i) p[i] -= marginals[i];
    double* all = sums_.data() + chunk.task * n_sums_;
    for (size_t i = 0; i < sums.size(); ++i) all[i] -= sums[i];
    return true;
}

void Evaluator::chunk_task(Job& job, int64_t task, int worker) {
    const int64_t K = c_.n_labels;
    const SequenceBlock& b = *job.block;
    const int64_t s0 = b.chunk[static_cast<size_t>(task)];
    const int64_t s1 = b.chunk[static_cast<size_t>(task) + 1];
    const int64_t i0 = c_.offset[s0], n = c_.offset[s1] - i0;
    double* unary = unary_[static_cast<size_t>(worker)].data();
    score_items<true>(i0, i0 + n, job.w, unary);
    Chunk chunk{s0, s1, i0, n, task, {}, {}, {}};
    try {
        chunk.offset.assign(c_.offset + s0, c_.offset + s1 + 1);
        chunk.edge.assign(c_.edge + s0, c_.edge + s1 + 1);
        for (auto& some : chunk.components) some.reserve(static_cast<size_t>(s1 - s0));
    } catch (const std::bad_alloc&) {
        job.control->stop.store(kMemory);
        return;
    }
    for (int64_t& o : chunk.offset) o -= i0;
    for (int64_t& e : chunk.edge) e -= c_.edge[s0];
    for (int64_t s = s0; s < s1; ++s) {
        const int64_t first = c_.offset[s], last = c_.offset[s + 1];
        const double* u = unary + (first - i0) * K;
        for (int64_t i = first; i < last; ++i) {
            if (all_within(u + (i - first) * K, K, kLargest64)) continue;
            job.overflow.store(i);
            job.control->stop.store(kOverflow);
            return;
        }
        bool narrow = false;
        if (job.narrow) {
            double largest = 0.0;
            for (int64_t j = 0; j < (last - first) * K; ++j) {
                largest = std::max(largest, std::fabs(u[j]));
            }
            largest += largest_pair_;
            narrow = !reads_pairs_ && !partial(s) && largest <= job.narrow->most[s];
            job.narrow->scores[s] = largest;
            job.narrow->went[s] = narrow;
        }
        chunk.components[narrow].push_back(s - s0);
    }
    double* sums = sums_.data() + task * n_sums_;
    if (job.gradient) std::memset(sums, 0, sizeof(double) * static_cast<size_t>(n_sums_));
    for (const bool narrow : {false, true}) {
        if (!chunk.components[narrow].empty() && !answer(job, chunk, narrow, worker)) return;
    }
    if (job.states) return;
    const double* log_z = log_z_.data() + (s0 - b.first);
    Sum loss;
    for (int64_t s = s0, end; s < s1; s = end) {
        end = s + 1;
        if (!partial(s)) {
            loss.add(log_z[s - s0] - gold_score(s, unary + (c_.offset[s] - i0) * K));
            continue;
        }
        while (end < s1 && partial(end)) ++end;
        std::vector<double> held;
        try {
            held.resize(static_cast<size_t>(end - s));
        } catch (const std::bad_alloc&) {
            job.control->stop.store(kMemory);
            return;
        }
        if (!withdraw(job, chunk, s, end, worker, held.data())) return;
        for (int64_t j = s; j < end; ++j) {
            loss.add(log_z[j - s0] - held[static_cast<size_t>(j - s)]);
        }
    }
    chunk_loss_[static_cast<size_t>(task)] = loss.total();
    if (!job.gradient) return;
    double* p = marginals_.data() + (i0 - c_.offset[b.first]) * K;
    for (int64_t s = s0; s < s1; ++s) {
        if (partial(s)) continue;
        for (int64_t i = c_.offset[s]; i < c_.offset[s + 1]; ++i) {
            p[(i - i0) * K + c_.gold[i]] -= 1.0;
        }
        for (int64_t i = c_.offset[s] + 1; i < c_.offset[s + 1]; ++i) {
            const int64_t at = sum_of(c_.gold[i - 1], c_.gold[i]);
            if (at >= 0) sums[at] -= 1.0;
        }
    }
}

void Evaluator::range_task(Job& job, int64_t task) {
    const int64_t K = c_.n_labels;
    SequenceBlock& b = *job.block;
    const int64_t ranges = static_cast<int64_t>(b.attribute_ranges.size()) - 1;
    if (task >= ranges) {  // transitions: a share of the table, chunks in order
        const int64_t kk = n_sums_, part = task - ranges;
        const int64_t from = kk * part / kTransitionTasks, to = kk * (part + 1) / kTransitionTasks;
        const int64_t chunks = static_cast<int64_t>(b.chunk.size()) - 1;
        for (int64_t j = 1; j < chunks; ++j) {
            for (int64_t i = from; i < to; ++i) sums_.data()[i] += sums_.data()[j * kk + i];
        }
        double* g = job.gradient + c_.n_states;
        for (int64_t i = from; few_pairs_ && i < to; ++i) {
            const int64_t weight = pair_weight_[static_cast<size_t>(i)];
            if (weight >= 0) job.gradient[weight] += sums_.data()[i];
        }
        for (int64_t l = few_pairs_ ? K : from / K; l < K && l * K < to; ++l) {
            for (int64_t e = c_.source[l]; e < c_.source[l + 1]; ++e) {
                const int64_t i = l * K + c_.target[e];
                if (i >= from && i < to) g[e] += sums_.data()[i];
            }
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
            job.control->stop.store(kMemory);
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
        double* g = job.gradient + f0;
        if (place_[a].row == kSparse) {
            const int32_t* label = c_.label + f0;
            for (int64_t q = 0; q < n; ++q) sum[q] = 0.0;
            for (int64_t r = r0; r < r1; ++r) {
                if (r + kAhead < end)
                    VS_PREFETCH_READ(marginals_.data() + at[r + kAhead] * K + label[0]);
                const double* p = marginals_.data() + at[r] * K;
                const double v = value ? value[r] : 1.0;
                for (int64_t q = 0; q < n; ++q) sum[q] += v * p[label[q]];
            }
            for (int64_t q = 0; q < n; ++q) g[q] += sum[q];
            continue;
        }
        for (int64_t k = 0; k < K; ++k) sum[k] = 0.0;
        for (int64_t r = r0; r < r1; ++r) {
            if (r + kAhead < end) {
                const double* p = marginals_.data() + at[r + kAhead] * K;
                for (int64_t k = 0; k < K; k += 8) VS_PREFETCH_READ(p + k);
            }
            const double* p = marginals_.data() + at[r] * K;
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

Evaluation Evaluator::evaluate(const double* w, int64_t n_weights, double* gradient, int threads,
                               const Narrow* narrow, Control& control) {
    if (gradient) {
        std::memset(gradient, 0, sizeof(double) * static_cast<size_t>(n_weights));
        marginals_.resize(static_cast<size_t>(largest_block_ * c_.n_labels));
        sums_.resize(static_cast<size_t>(most_chunks_ * n_sums_));
    }
    return run_blocks(w, gradient, nullptr, threads, narrow, control);
}

Evaluation Evaluator::decode(const double* w, int64_t* states, int threads, Control& control) {
    return run_blocks(w, nullptr, states, threads, nullptr, control);
}

// Decodes with `states`; else sums the loss and, where it is wanted, the gradient.
Evaluation Evaluator::run_blocks(const double* w, double* gradient, int64_t* states, int threads,
                                 const Narrow* narrow, Control& control) {
    Evaluation e;
    spread(w);
    for (size_t i = 0; i < pairs_.score.size(); ++i) {
        if (pair_weight_[i] < 0 || std::fabs(pairs_.score[i]) <= kLargest64) continue;
        e.overflow = 0;  // any item
        return e;
    }
    if (narrow && !reads_pairs_) {
        narrow_table_.assign(table_.begin(), table_.end());
        narrow_.resize(static_cast<size_t>(threads));
        for (auto& x : narrow_) x.resize(static_cast<size_t>(2 * largest_chunk_ * c_.n_labels));
    }
    if (static_cast<int>(unary_.size()) < threads) unary_.resize(static_cast<size_t>(threads));
    for (int t = 0; t < threads; ++t) {
        unary_[static_cast<size_t>(t)].resize(static_cast<size_t>(largest_chunk_ * c_.n_labels));
    }
    log_z_.resize(static_cast<size_t>(c_.n_sequences));
    chunk_loss_.resize(static_cast<size_t>(most_chunks_));
    Sum loss;
    for (SequenceBlock& b : blocks_) {
        Job job{this, &b, w, gradient, states, narrow, &control};
        const int64_t chunks = static_cast<int64_t>(b.chunk.size()) - 1;
        pool->run_plan(Plan(states ? "decode" : "loss", chunks), Job::chunk, &job, threads,
                       &control);
        if (gradient && control.stop.load() == kNothing) {
            const int64_t ranges = static_cast<int64_t>(b.attribute_ranges.size()) - 1;
            // A barrier: an attribute sums the marginals of all items of the block, in their order.
            pool->run_plan(Plan("gradient", ranges + kTransitionTasks), Job::range, &job, threads,
                           &control);
        }
        if (control.stop.load() == kOverflow) {
            e.overflow = job.overflow.load();
            return e;
        }
        e.status = stopped(control);
        if (e.status != kOk) return e;
        if (states) continue;
        for (int64_t j = 0; j < chunks; ++j) loss.add(chunk_loss_[static_cast<size_t>(j)]);
        control.done.fetch_add(c_.offset[b.last] - c_.offset[b.first]);
    }
    e.loss = loss.total();
    return e;
}

}  // namespace vs::crf
