// One sequence under way: the parts that both kinds of chains share.
#pragma once

#include <atomic>
#include <vector>

#include "higher/frontier.h"
#include "higher/higher.h"
#include "higher/log_table.h"

namespace vs::higher {

class Run {
  public:
    Run(const LongerModel& model, const LongerRequest& ask, Control* control)
        : m_(model), ask_(ask), control_(control), k_(model.labels) {}

    // Answers for sequence s. False: nothing is possible from `position` on, or a poll said stop.
    // `triples` (K, K, K), or null, gets the sums of its triples.
    bool second(int64_t s, int worker, const std::vector<LogTable>& tables, double* triples);
    bool segments(int64_t s, int worker, const LogTable& table);

    int64_t position = -1;

  private:
    bool go_on(int worker) {
        if (control_->stop.load(std::memory_order_relaxed)) return false;
        if (worker != 0 || !control_->poll || !control_->poll(control_->arg)) return true;
        control_->stop.store(1);
        return false;
    }
    const double* unary(int64_t i) const { return m_.unary + (first_ + i) * k_; }
    double* row(std::vector<double>& of, int64_t i, int64_t size) { return of.data() + i * size; }
    // Whether anything is left among x (n,); if not, that is at position i.
    bool alive(const double* x, int64_t n, int64_t i) {
        for (int64_t j = 0; j < n; ++j) {
            if (x[j] > kNever) return true;
        }
        position = i;
        return false;
    }

    void pairs_from(int64_t s, double log_z, int64_t i, const double* before, const double* after);
    // The best ways, of which `heads` offers what may come before a node that was taken, and
    // `write` writes one from its first node, which stands at `first`, on.
    template <class Heads, class Write>
    bool rank(int64_t s, int worker, Frontier& frontier, int64_t first, Heads heads, Write write) {
        const int64_t total = m_.offset[m_.sequences];
        for (int64_t r = 0; r < ask_.n_best;) {
            if (!go_on(worker)) return false;
            const int64_t i = frontier.take();
            int64_t* y = ask_.best + r * total + first_;
            double& score = ask_.log_z[r * m_.sequences + s];
            if (i < 0) {
                std::fill(y, y + n_, int64_t{-1});
                score = kNever;
            } else if (frontier.taken(i).at != first) {
                heads(i);
                continue;
            } else {
                score = frontier.taken(i).score;
                write(i, y);
                frontier.found();
            }
            ++r;
        }
        return true;
    }

    bool one_label(int64_t s, int worker);
    // Nothing has one way through it.
    void nothing(int64_t s) {
        ask_.log_z[s] = 0.0;
        for (int64_t r = 1; r < ask_.n_best; ++r) ask_.log_z[r * m_.sequences + s] = kNever;
    }
    bool second_best(int64_t s, int worker, const std::vector<LogTable>& tables);
    void second_draw(int64_t s, const std::vector<LogTable>& tables);
    void weigh();
    bool segments_best(int64_t s, int worker, const LogTable& table);
    void segments_draw(int64_t s, const LogTable& table);
    double& weight(int64_t i, int64_t d) {
        return weight_[static_cast<size_t>((i * m_.longest + d - 1) * k_)];
    }

    const LongerModel& m_;
    const LongerRequest& ask_;
    Control* control_;
    int64_t k_, first_ = 0, n_ = 0;
    std::vector<double> forward_, entry_, backward_, work_, weight_;
};

}  // namespace vs::higher
