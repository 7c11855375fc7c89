#include "parser/learner.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace vs::parser {

Learner::Learner(const Corpus& corpus, const Templates& templates, const Trees& trees)
    : corpus_(corpus), templates_(templates), trees_(trees) {}

void Learner::differentiate(void* context, int64_t task, int worker) {
    Learner& l = *static_cast<Learner*>(context);
    Worker& w = *l.workers_[at(worker)];
    const int64_t place = l.turn_[at(task)];
    Example& e = l.examples_[at(place)];
    for (auto& bucket : e.bucket) bucket.clear();
    const int64_t i = l.batch_[place];
    w.read(l.corpus_.sentence(i), l.corpus_.size(i), l.corpus_.arcs(i));
    e.loss = w.loss(l.corpus_.gold(i), *l.rule_, l.to_.weights);
    if (e.loss == 0.0) return;
    w.scorer().pull(w.parts(), w.residual().data(), l.least_,
                    [&](const Change& c) { e.bucket[c.line % kBuckets].push_back(c); });
}

// Examples with most arcs go first: what is short fills up what long ones leave of the threads.
void Learner::take_turns() {
    turn_.resize(at(size_));
    std::iota(turn_.begin(), turn_.end(), 0);
    const auto arcs = [&](int64_t place) {
        const int64_t i = batch_[place], n = corpus_.size(i);
        return corpus_.arc_at ? corpus_.arcs(i).count : n * n;
    };
    std::stable_sort(turn_.begin(), turn_.end(),
                     [&](int64_t a, int64_t b) { return arcs(a) > arcs(b); });
}

// The gradient of the lines of one bucket: sums over changes of a line in the order of the batch.
void Learner::add(void* context, int64_t task, int) {
    Learner& l = *static_cast<Learner*>(context);
    Bucket& b = l.buckets_[task];
    b.order.clear();
    b.lines.clear();
    b.sums.clear();
    // Numbers of changes behind their lines: sorted, those of a line keep their order.
    uint64_t number = 0;
    for (int64_t i = 0; i < l.size_; ++i) {
        for (const Change& c : l.examples_[at(i)].bucket[task]) {
            b.order.push_back(uint64_t{c.line} << 32 | number++);
        }
    }
    l.changes_[task].clear();
    for (int64_t i = 0; i < l.size_; ++i) {
        const std::vector<Change>& own = l.examples_[at(i)].bucket[task];
        l.changes_[task].insert(l.changes_[task].end(), own.begin(), own.end());
    }
    std::sort(b.order.begin(), b.order.end());
    for (const uint64_t key : b.order) {
        const Change& c = l.changes_[task][static_cast<uint32_t>(key)];
        if (b.lines.empty() || b.lines.back() != c.line) {
            b.lines.push_back(c.line);
            b.sums.resize(b.sums.size() + kSlots, 0.0);
        }
        double* g = b.sums.data() + b.sums.size() - kSlots;
        g[0] += c.value;
        g[c.a] += c.value;
        g[c.b] += c.value;
    }
    // Features that the dictionary has not learn nothing.
    for (size_t i = 0; i < b.lines.size() && !l.templates_.entries.empty(); ++i) {
        const uint32_t slots = l.templates_.entries[b.lines[i]].slots;
        for (int64_t k = 0; k < kSlots; ++k) {
            if (!(slots >> k & 1u)) b.sums[i * kSlots + at(k)] = 0.0;
        }
    }
    b.square = 0.0;
    for (const double g : b.sums) b.square += g * g;
}

// Steps against the gradient.
void Learner::apply(void* context, int64_t task, int) {
    Learner& l = *static_cast<Learner*>(context);
    const Bucket& b = l.buckets_[task];
    const double time = static_cast<double>(l.to_.time);
    const Entry* entries = l.templates_.entries.empty() ? nullptr : l.templates_.entries.data();
    for (size_t i = 0; i < b.lines.size(); ++i) {
        if (i + kAhead < b.lines.size()) {
            const int64_t line = b.lines[i + kAhead];
            const int64_t soon = entries ? int64_t{entries[line].first} : line * kSlots;
            for (int64_t k = soon; k < soon + kSlots; k += 8) {
                prefetch_line(l.to_.weights + k);
                prefetch_line(l.to_.late + k);
            }
            prefetch_line(l.to_.touched + soon);
        }
        const double* g = b.sums.data() + i * kSlots;
        for (int slot = 0; slot < kSlots; ++slot) {
            const double change = -l.step_ * g[slot];
            if (change == 0.0) continue;
            const int64_t k =
                entries ? place(entries[b.lines[i]], slot) : int64_t{b.lines[i]} * kSlots + slot;
            l.to_.weights[k] += change;
            l.to_.late[k] += time * change;
            l.to_.touched[k] = 1;
        }
    }
}

Pass Learner::sweep(const Rule& rule, const Learnt& to, const int64_t* order, int64_t count,
                    int64_t batch, double least, int threads, const PoolApi& pool,
                    Control* control) {
    Pass pass;
    examples_.resize(at(std::max<int64_t>(1, std::min(batch, count))));
    while (static_cast<int>(workers_.size()) < threads) {
        workers_.push_back(std::make_unique<Worker>(templates_, trees_));
    }
    rule_ = &rule;
    least_ = least;
    to_ = to;
    for (int64_t first = 0; first < count; first += batch) {
        batch_ = order + first;
        size_ = std::min(batch, count - first);
        ++to_.time;
        take_turns();
        pool.run_plan(Plan("gradients", size_), differentiate, this, threads, control);
        if (control->stop.load()) {
            pass.status = kCancelled;
            return pass;
        }
        double loss = 0.0, square = 0.0;
        for (int64_t i = 0; i < size_; ++i) loss += examples_[at(i)].loss;
        pass.loss += loss;
        Control both;  // what has begun is ended: weights are those of whole batches
        pool.run_plan(Plan("sums", kBuckets), add, this, threads, &both);
        for (const Bucket& b : buckets_) square += b.square;
        pass.updates += square > 0.0;
        step_ = square > 0.0 ? std::min(rule.longest, loss / square) : 0.0;
        pool.run_plan(Plan("steps", kBuckets), apply, this, threads, &both);
        control->done.fetch_add(size_, std::memory_order_relaxed);
    }
    return pass;
}

}  // namespace vs::parser
