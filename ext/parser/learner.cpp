#include "parser/learner.h"

#include <algorithm>
#include <cmath>

namespace vs::parser {

Learner::Learner(const Corpus& corpus, const Templates& templates, const Trees& trees)
    : corpus_(corpus), templates_(templates), trees_(trees) {}

// The tasks of a batch: one an example. A long one would leave other threads idle at the end
// of the batch: it is scored in pieces, and so is its gradient listed.
void Learner::plan(int threads) {
    tasks_ = {};
    steps_.clear();
    const auto add = [&](What what, int64_t place, int64_t piece, double cost) {
        steps_.push_back({what, place, piece});
        return tasks_.add(TaskKind::kPiece, place, place + 1, cost);
    };
    const auto cost = [&](int64_t place) {
        const int64_t i = batch_[place], n = corpus_.size(i);
        return static_cast<double>(corpus_.arc_at ? corpus_.arcs(i).count : n * n);
    };
    double total = 0.0;
    for (int64_t place = 0; place < size_; ++place) total += cost(place);
    for (int64_t place = 0; place < size_; ++place) {
        Example& e = examples_[at(place)];
        e.pieces = threads > 1 && kPieces * threads * cost(place) > total ? kPieces : 1;
        if (e.pieces == 1) {
            add(What::kAll, place, 0, cost(place));
            continue;
        }
        if (!e.worker) e.worker = std::make_unique<Worker>(templates_, trees_);
        const double tenth = 0.1 * cost(place), own = 3.0 * tenth / kPieces;
        const int64_t read = add(What::kRead, place, 0, tenth);
        int64_t score[kPieces];
        for (int64_t k = 0; k < kPieces; ++k) {
            score[k] = add(What::kScore, place, k, own);
            tasks_.edge(read, score[k]);
        }
        const int64_t loss = add(What::kLoss, place, 0, 3.0 * tenth);
        for (int64_t k = 0; k < kPieces; ++k) {
            tasks_.edge(score[k], loss);
            tasks_.edge(loss, add(What::kPull, place, k, own));
        }
    }
    tasks_.finish(true);
}

void Learner::run(void* context, int64_t task, int worker) {
    Learner& l = *static_cast<Learner*>(context);
    l.shortage_.watch(l.control_, [&] { l.step(l.steps_[at(task)], worker); });
}

void Learner::step(const Step& step, int worker) {
    const auto [what, place, piece] = step;
    const int64_t i = batch_[place];
    Example& e = examples_[at(place)];
    Worker& w = e.pieces > 1 ? *e.worker : *workers_[at(worker)];
    if (what == What::kAll || what == What::kRead) {
        w.read(corpus_.sentence(i), corpus_.size(i), corpus_.arcs(i));
        w.begin_scores();
    }
    const int64_t size = w.parts().size();
    const int64_t first = size * piece / e.pieces, last = size * (piece + 1) / e.pieces;
    if (what == What::kAll || what == What::kScore) w.score(to_.weights, first, last);
    if (what == What::kAll || what == What::kLoss) {
        // The calling thread is worker 0.
        Watched watched{control_, worker == 0};
        Control own;
        own.poll = Watched::look;
        own.arg = &watched;
        const Status s = w.loss(corpus_.gold(i), *rule_, &own, &e.loss);
        e.cut_short = w.cut_short();
        if (s == kNoMemory) shortage_.tell(control_);
        if (s != kOk) control_->stop.store(1);
    }
    if (what == What::kAll || what == What::kPull) {
        auto* buckets = e.bucket[piece];
        for (int k = 0; k < kBuckets; ++k) buckets[k].clear();
        if (e.loss == 0.0) return;
        w.scorer().pull(w.parts(), first, last, w.residual().data(), least_,
                        [&](const Change& c) { buckets[c.line % kBuckets].push_back(c); });
    }
}

// The gradient of the lines of one bucket: sums over changes of a line in the order of the batch.
void Learner::add(void* context, int64_t task, int) {
    Learner& l = *static_cast<Learner*>(context);
    l.shortage_.watch(l.adding_, [&] { l.sum(task); });
}

void Learner::sum(int64_t bucket) {
    Bucket& b = buckets_[bucket];
    b.order.clear();
    b.lines.clear();
    b.sums.clear();
    b.changes.clear();
    for (int64_t i = 0; i < size_; ++i) {
        const Example& e = examples_[at(i)];
        for (int64_t k = 0; k < e.pieces; ++k) {
            const auto& own = e.bucket[k][bucket];
            b.changes.insert(b.changes.end(), own.begin(), own.end());
        }
    }
    // Numbers of changes behind their lines: sorted, those of a line keep their order.
    uint64_t number = 0;
    for (const Change& c : b.changes) b.order.push_back(uint64_t{c.line} << 32 | number++);
    std::sort(b.order.begin(), b.order.end());
    for (const uint64_t key : b.order) {
        const Change& c = b.changes[static_cast<uint32_t>(key)];
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
    for (size_t i = 0; i < b.lines.size() && !templates_.entries.empty(); ++i) {
        const uint32_t slots = templates_.entries[b.lines[i]].slots;
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
    control_ = control;
    shortage_.forget();
    for (int64_t first = 0; first < count; first += batch) {
        batch_ = order + first;
        size_ = std::min(batch, count - first);
        ++to_.time;
        plan(threads);
        pool.run_plan(tasks_.view("gradients"), run, this, threads, control);
        if (control->stop.load()) {
            pass.status = shortage_.status(control);
            return pass;
        }
        double loss = 0.0, square = 0.0;
        for (int64_t i = 0; i < size_; ++i) {
            loss += examples_[at(i)].loss;
            pass.cut_short += examples_[at(i)].cut_short;
        }
        pass.loss += loss;
        Control both;  // what has begun is ended: weights are those of whole batches
        adding_ = &both;
        pool.run_plan(Plan("sums", kBuckets), add, this, threads, &both);
        if (both.stop.load()) {
            pass.status = shortage_.status(&both);
            return pass;
        }
        for (const Bucket& b : buckets_) square += b.square;
        pass.updates += square > 0.0;
        step_ = square > 0.0 ? std::min(rule.longest, loss / square) : 0.0;
        pool.run_plan(Plan("steps", kBuckets), apply, this, threads, &both);
        control->done.fetch_add(size_, std::memory_order_relaxed);
    }
    return pass;
}

}  // namespace vs::parser
