#include "parser/learner.h"

#include <algorithm>
#include <cmath>

namespace vs::parser {

Learner::Learner(const Corpus& corpus, const Templates& templates, const Trees& trees)
    : corpus_(corpus), templates_(templates), trees_(trees) {}

void Learner::differentiate(void* context, int64_t task, int worker) {
    Learner& l = *static_cast<Learner*>(context);
    Worker& w = *l.workers_[at(worker)];
    Example& e = l.examples_[at(task)];
    for (auto& bucket : e.bucket) bucket.clear();
    const int64_t i = l.batch_[task];
    w.read(l.corpus_.sentence(i), l.corpus_.size(i), l.corpus_.arcs(i));
    e.loss = w.loss(l.corpus_.gold(i), *l.rule_, l.to_.weights);
    if (e.loss == 0.0) return;
    w.scorer().pull(w.parts(), w.residual().data(), kLeast,
                    [&](const Change& c) { e.bucket[c.line % kBuckets].push_back(c); });
}

// The gradient of the lines of one bucket, in the order of the batch.
void Learner::add(void* context, int64_t task, int) {
    Learner& l = *static_cast<Learner*>(context);
    Bucket& b = l.buckets_[task];
    b.lines.clear();
    for (int64_t i = 0; i < l.size_; ++i) {
        for (const Change& c : l.examples_[at(i)].bucket[task]) {
            double* g = l.gradient_.data() + static_cast<int64_t>(c.line) * kSlots;
            if (!l.seen_[c.line]) {
                l.seen_[c.line] = 1;
                b.lines.push_back(c.line);
            }
            g[0] += c.value;
            g[c.a] += c.value;
            g[c.b] += c.value;
        }
    }
    b.square = 0.0;
    for (const uint32_t line : b.lines) {
        const double* g = l.gradient_.data() + static_cast<int64_t>(line) * kSlots;
        for (int k = 0; k < kSlots; ++k) b.square += g[k] * g[k];
    }
}

// Steps against the gradient, and forgets it.
void Learner::apply(void* context, int64_t task, int) {
    Learner& l = *static_cast<Learner*>(context);
    const double time = static_cast<double>(l.to_.time);
    double* squares = l.rule_->kind == Rule::kAdaGrad ? l.rule_->squares : nullptr;
    for (const uint32_t line : l.buckets_[task].lines) {
        l.seen_[line] = 0;
        const int64_t first = static_cast<int64_t>(line) * kSlots;
        for (int64_t k = first; k < first + kSlots; ++k) {
            const double g = l.gradient_[at(k)];
            if (g == 0.0) continue;
            l.gradient_[at(k)] = 0.0;
            double change = -l.step_ * g;
            if (squares) {
                squares[k] += g * g;
                change = -l.rule_->rate * g / std::sqrt(squares[k]);
            }
            if (change == 0.0) continue;
            l.to_.weights[k] += change;
            l.to_.late[k] += time * change;
            l.to_.touched[k] = 1;
        }
    }
}

Pass Learner::sweep(const Rule& rule, const Learnt& to, const int64_t* order, int64_t count,
                    int64_t batch, int threads, const PoolApi& pool, Control* control) {
    Pass pass;
    const int64_t lines = templates_.line_at.back();
    gradient_.resize(at(lines * kSlots), 0.0);
    seen_.resize(at(lines), 0);
    examples_.resize(at(std::max<int64_t>(1, std::min(batch, count))));
    while (static_cast<int>(workers_.size()) < threads) {
        workers_.push_back(std::make_unique<Worker>(templates_, trees_));
    }
    rule_ = &rule;
    to_ = to;
    for (int64_t first = 0; first < count; first += batch) {
        batch_ = order + first;
        size_ = std::min(batch, count - first);
        ++to_.time;
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
