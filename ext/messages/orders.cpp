// Orders of messages other than all at once: a queue, rounds of the most urgent, sweeps over trees.
#include <algorithm>
#include <cmath>
#include <functional>

#include "messages/network.h"
#include "messages/queue.h"

namespace vs::messages {
namespace {

// The share of the messages above the tolerance that a round computes.
constexpr double kShare = 0.25;

constexpr int64_t kEvaluations = 512;  // that one task takes

}  // namespace

// An update is named by an edge: by its own for a table's message to edge_var[e], by the factor's
// first edge for all messages of a structured factor. `Order` is the interface of pairs in lanes
// and of other factors.
struct Network::Order {
    // What a message to a variable concerns: beside each message `received`, the one that the same
    // pair sends next.
    struct Near {
        int32_t received, next;
        double gain;
    };
    Network* self;
    Pairs* pairs;             // or null
    std::vector<Near> nears;  // by variable, as its edges; none unless all factors are pairs

    void find_nears() {
        const Network& l = *self;
        if (!pairs || !l.structured_.empty()) return;
        nears.reserve(l.var_edge_.size());
        for (const int64_t e : l.var_edge_) {
            const int64_t next = 2 * l.factor_ptr_[at(l.edge_factor_[at(e)])] + 1 - e;
            nears.push_back(
                {static_cast<int32_t>(e), static_cast<int32_t>(next), pairs->gain(next)});
        }
    }

    int64_t place(int64_t e) const { return pairs ? e : self->edge_at_[at(e)]; }
    int64_t length() const { return pairs ? self->n_edges() : self->n_entries(); }
    const factors::Structured* structured(int64_t e) const {
        if (self->structured_.empty()) return nullptr;
        return self->structured_[at(self->edge_factor_[at(e)])];
    }
    // The edge that names the update of edge e's message.
    int64_t name(int64_t e) const {
        return structured(e) ? self->factor_ptr_[at(self->edge_factor_[at(e)])] : e;
    }
    int64_t messages(int64_t e) const { return structured(e) ? structured(e)->size() : 1; }
    // The messages to the factor of edge e; false when a variable has no value left.
    bool gather(int64_t e) const {
        if (!pairs) return self->gather(e);
        if (!structured(e)) {
            pairs->renew_sender(e);
        } else {
            for (int64_t d = e; d < e + messages(e); ++d) pairs->renew_receiver(d);
        }
        return true;
    }
    double evaluate(int64_t e, double* out, WorkerScratch* s) const {
        if (!pairs) return self->evaluate(e, out, s);
        return structured(e) ? pairs->evaluate_all(e, out, s) : pairs->evaluate(e, out);
    }
    void commit(int64_t e, const double* value) const {
        if (!pairs) {
            const int64_t end = self->edge_at_[at(e + messages(e))];
            std::copy(value, value + end - place(e), self->m_.data() + place(e));
            return;
        }
        for (int64_t i = 0; i < messages(e); ++i) pairs->commit(e + i, value[i]);
    }
    // Calls f(update, at most how far it moves) for all that a move of update e concerns.
    template <class F>
    void concerned(int64_t e, double move, F&& f) const {
        for (int64_t d = e; d < e + messages(e); ++d) concern(d, move, f);
    }
    template <class F>
    void concern(int64_t e, double move, F&& f) const {
        const Network& l = *self;
        const int64_t v = l.edge_var_[at(e)];
        const double rho = pairs && !pairs->is_weighted() ? 1.0 : l.rho_[at(l.edge_factor_[at(e)])];
        if (!nears.empty()) {
            const Near* own = nears.data() + l.var_ptr_[at(v)];
            const Near* end = nears.data() + l.var_ptr_[at(v + 1)];
            for (; own < end; ++own) {
                const double sent = move * (own->received == e ? std::fabs(1.0 - rho) : rho);
                if (sent > 0.0) f(own->next, sent * own->gain);
            }
            return;
        }
        for (int64_t i = l.var_ptr_[at(v)]; i < l.var_ptr_[at(v + 1)]; ++i) {
            const int64_t received = l.var_edge_[at(i)], g = l.edge_factor_[at(received)];
            const double sent = move * (received == e ? std::fabs(1.0 - rho) : rho);
            if (!(sent > 0.0)) continue;
            if (l.structured_at(g)) {
                f(l.factor_ptr_[at(g)], sent);
                continue;
            }
            for (int64_t next = l.factor_ptr_[at(g)]; next < l.factor_ptr_[at(g + 1)]; ++next) {
                if (next != received) f(next, sent * (pairs ? pairs->gain(next) : 1.0));
            }
        }
    }
};

// One message to a factor: local and the messages of the others.
bool Network::to_factor(int64_t e) {
    const int64_t v = edge_var_[at(e)], k = card_[at(v)];
    double* n = to_.data() + edge_at_[at(e)];
    double* plain = to_plain_.data() + edge_at_[at(e)];
    std::copy(local_ + var_at_[at(v)], local_ + var_at_[at(v + 1)], n);
    for (int64_t i = var_ptr_[at(v)]; i < var_ptr_[at(v + 1)]; ++i) {
        const int64_t other = var_edge_[at(i)];
        const double* m = m_.data() + edge_at_[at(other)];
        const double rho = rho_[at(edge_factor_[at(other)])];
        for (int64_t x = 0; x < k; ++x) {
            if (other != e) {
                n[x] += rho * m[x];
            } else if (rho != 1.0 && m[x] > -INFINITY) {
                n[x] += (rho - 1.0) * m[x];
            }
        }
    }
    const double top = *std::max_element(n, n + k);
    if (!(top > -INFINITY)) return false;
    for (int64_t x = 0; x < k; ++x) plain[x] = std::exp(n[x] -= top);
    return true;
}

bool Network::gather(int64_t e) {
    const int64_t f = edge_factor_[at(e)];
    const bool all = structured_at(f) != nullptr;
    for (int64_t other = factor_ptr_[at(f)]; other < factor_ptr_[at(f + 1)]; ++other) {
        if ((all || other != e) && !to_factor(other)) return false;
    }
    return true;
}

Status Network::pass(const RunOptions& options, int threads, Control* control, double* messages,
                     const double* local, int64_t* dead_variable) {
    if (serial_) threads = 1;
    run_ = RunProgress();
    Order order{this, pairs_.get(), {}};
    if (pairs_) {
        const Status status =
            pairs_->begin(local, options, threads, control, messages, dead_variable);
        if (status != kOk) return status;
        order.find_nears();
    } else {
        start(local, messages);
        std::fill(to_.begin(), to_.end(), 0.0);
        std::fill(to_plain_.begin(), to_plain_.end(), 1.0);
    }
    make_scratch(options.schedule == kRounds ? threads : 1);
    Status status = kOk;
    if (n_edges() == 0) {
        run_.residuals.push_back(0.0);
        run_.converged = true;
    } else if (options.schedule == kResidual) {
        status = by_queue(order, control, dead_variable);
    } else if (options.schedule == kRounds) {
        status = by_rounds(order, threads, control, dead_variable);
    } else {
        status = by_trees(order, control, dead_variable);
    }
    if (status != kOk) return status;
    if (pairs_) {
        pairs_->finish(threads, control, messages);
    } else {
        std::copy(m_.begin(), m_.end(), messages);
    }
    return control->stop.load() ? kCancelled : kOk;
}

// Serial. The priority of an update bounds how far it would move its messages: the sum of the moves
// of messages to the factor since then, times the pair's gain. No update is computed only to be
// ranked, and when no priority exceeds the tolerance no message would move further.
Status Network::by_queue(const Order& order, Control* control, int64_t* dead_variable) {
    const int64_t n = n_edges();
    MessageQueue queue(n);
    for (int64_t e = 0; e < n; ++e) {
        if (order.name(e) != e) queue.set(e, 0.0);
    }
    std::vector<double> value(at(most_sent_));
    double most = 0.0;
    bool reported = true;
    for (int64_t i = 1;; ++i) {
        const int64_t e = queue.top();
        const double due = queue.priority(e);
        run_.converged = due <= options_.tolerance;
        if (run_.converged || run_.updates >= n * options_.max_iterations) {
            // The messages that were left over are a part of an iteration of their own.
            if (!reported) run_.residuals.push_back(most);
            if (run_.converged) run_.residuals.back() = due;
            return kOk;
        }
        const bool gathered = order.gather(e);
        const double moved = gathered ? order.evaluate(e, value.data(), &scratch_[0]) : -1.0;
        if (!(moved >= 0.0)) {
            *dead_variable = edge_var_[at(e)];
            return kInfeasible;
        }
        order.commit(e, value.data());
        const int64_t before = run_.updates / n;
        run_.updates += order.messages(e);
        most = std::max(most, moved);
        queue.set(e, options_.damping * moved);
        order.concerned(e, (1.0 - options_.damping) * moved,
                        [&](int64_t other, double by) { queue.add(other, by); });
        if (cancelled(control, i, 1024)) return kCancelled;
        reported = run_.updates / n > before;
        if (reported) {
            run_.residuals.push_back(most);
            most = 0.0;
            control->done.store(run_.updates / n);
        }
    }
}

// The same in rounds: the most urgent updates, all from the messages at the start of the round.
// Neither their values nor the order in which priorities rise depends on who computes them.
Status Network::by_rounds(const Order& order, int threads, Control* control,
                          int64_t* dead_variable) {
    const int64_t n = n_edges();
    std::vector<double> priority(at(n), INFINITY), moved(at(n)), value(at(order.length()));
    std::vector<double> ranked;
    std::vector<int64_t> chosen;
    for (int64_t e = 0; e < n; ++e) {
        if (order.name(e) != e) priority[at(e)] = 0.0;
    }
    struct Job {
        const Order* order;
        const std::vector<int64_t>* chosen;
        double *moved, *value;
    } work{&order, &chosen, moved.data(), value.data()};
    const auto task = [](void* context, int64_t t, int worker) {
        const Job& w = *static_cast<Job*>(context);
        const int64_t end =
            std::min(static_cast<int64_t>(w.chosen->size()), (t + 1) * kEvaluations);
        WorkerScratch* s = &w.order->self->scratch_[at(worker)];
        for (int64_t i = t * kEvaluations; i < end; ++i) {
            const int64_t e = (*w.chosen)[at(i)];
            w.moved[e] = w.order->evaluate(e, w.value + w.order->place(e), s);
        }
    };
    double most = 0.0;
    while (!run_.converged && run_.updates < n * options_.max_iterations) {
        ranked.clear();
        for (double p : priority) {
            if (p > options_.tolerance) ranked.push_back(p);
        }
        const auto place =
            ranked.begin() + static_cast<int64_t>(kShare * static_cast<double>(ranked.size()));
        std::nth_element(ranked.begin(), place, ranked.end(), std::greater<double>());
        const double limit = *place;
        chosen.clear();
        for (int64_t e = 0; e < n; ++e) {
            if (priority[at(e)] >= limit) chosen.push_back(e);
        }
        if (order.pairs) {
            order.pairs->add_up_all(threads, control);
        } else {
            phase(kVariables, threads, control);
            if (!control->stop.load() && (*dead_variable = dead()) >= 0) return kInfeasible;
        }
        if (control->stop.load()) return kCancelled;
        const int64_t groups =
            (static_cast<int64_t>(chosen.size()) + kEvaluations - 1) / kEvaluations;
        // A barrier: all of them are made of the old messages, so none is replaced before the last.
        g_pool->run_plan(Plan("messages", groups), task, &work, threads, control);
        if (control->stop.load()) return kCancelled;
        for (int64_t e : chosen) {
            if (!(moved[at(e)] >= 0.0)) {
                *dead_variable = edge_var_[at(e)];
                return kInfeasible;
            }
            order.commit(e, value.data() + order.place(e));
            priority[at(e)] = options_.damping * moved[at(e)];
            most = std::max(most, moved[at(e)]);
        }
        for (int64_t e : chosen) {
            order.concerned(e, (1.0 - options_.damping) * moved[at(e)],
                            [&](int64_t other, double by) { priority[at(other)] += by; });
        }
        const int64_t before = run_.updates / n;
        for (int64_t e : chosen) run_.updates += order.messages(e);
        const double due = *std::max_element(priority.begin(), priority.end());
        run_.converged = due <= options_.tolerance;
        // As many messages as there are make an iteration; those left over one of their own.
        if (run_.converged || run_.updates / n > before) {
            run_.residuals.push_back(run_.converged ? due : most);
            most = 0.0;
        }
        control->done.store(run_.updates / n);
    }
    return kOk;
}

// Forests that hold every factor together; in each, messages go up to the roots and down again.
Status Network::by_trees(const Order& order, Control* control, int64_t* dead_variable) {
    std::vector<int64_t> sequence, candidates(at(n_factors_)), tree;
    for (int64_t f = 0; f < n_factors_; ++f) candidates[at(f)] = f;
    std::vector<char> held(at(n_factors_), 0), inside(at(n_factors_), 0);
    int64_t missing = n_factors_;
    while (missing > 0) {
        std::stable_partition(candidates.begin(), candidates.end(),
                              [&](int64_t f) { return !held[at(f)]; });
        const Status status = greedy_forest(n_, factor_ptr_.data(), edge_var_.data(),
                                            candidates.data(), n_factors_, control, &tree);
        if (status != kOk) return status;
        for (int64_t f : tree) {
            inside[at(f)] = 1;
            missing -= held[at(f)] ? 0 : 1;
            held[at(f)] = 1;
        }
        if (cancelled(control)) return kCancelled;
        const std::vector<int64_t> above = rooted(&inside).above;
        for (size_t i = above.size(); i-- > 0;) sequence.push_back(order.name(above[i]));
        for (int64_t e : above) {
            const int64_t f = edge_factor_[at(e)];
            for (int64_t c = factor_ptr_[at(f)]; c < factor_ptr_[at(f + 1)]; ++c) {
                if (order.name(c) == c && (c != e || structured_at(f))) sequence.push_back(c);
            }
        }
    }
    std::vector<double> value(at(most_sent_));
    for (int64_t i = 0; i < options_.max_iterations && !run_.converged; ++i) {
        double most = 0.0;
        int64_t count = 0;
        for (int64_t e : sequence) {
            const bool gathered = order.gather(e);
            const double moved = gathered ? order.evaluate(e, value.data(), &scratch_[0]) : -1.0;
            if (!(moved >= 0.0)) {
                *dead_variable = edge_var_[at(e)];
                return kInfeasible;
            }
            order.commit(e, value.data());
            most = std::max(most, moved);
            if (cancelled(control, ++count, 1024)) return kCancelled;
        }
        for (int64_t e : sequence) run_.updates += order.messages(e);
        run_.residuals.push_back(most);
        run_.converged = most <= options_.tolerance;
        control->done.store(i + 1);
    }
    return kOk;
}

}  // namespace vs::messages
