// One sequence in logarithms, for which doubles have not the range otherwise: the parts that both
// kinds of chains share.
#pragma once

#include <atomic>
#include <vector>

#include "higher/level.h"
#include "higher/log_table.h"

namespace vs::higher {

class Run {
  public:
    Run(const LongerModel& model, const LongerRequest& ask, Control* control)
        : m_(model), ask_(ask), control_(control), k_(model.labels) {}

    // Answers for sequence s. False: nothing is possible from `position` on, or a poll said stop.
    // `expected` (K, K, K), or (K, K) of segments, or null, gets the counts of the transition.
    bool second(int64_t s, int worker, const std::vector<LogTable>& tables, double* expected);
    bool segments(int64_t s, int worker, const LogTable& table, double* expected);

    int64_t position = -1;

  private:
    bool go_on(int worker) { return vs::higher::go_on(control_, worker == 0); }
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

    // Takes the whole number that is nearest to the largest of x (n,) out of them, and returns it:
    // sums of whole numbers are exact, however long the sequence is.
    static double settle(double* x, int64_t n) {
        const double most = *std::max_element(x, x + n);
        if (most == kNever) return 0.0;
        const double whole = std::nearbyint(most);
        for (int64_t i = 0; i < n; ++i) x[i] -= whole;
        return whole;
    }
    double pairs_from(int64_t s, int64_t i, const double* before, const double* after);
    // Whether messages have to go back from the end.
    bool back() const { return ask_.marginals || ask_.joint || ask_.expected; }
    void one_label(int64_t s);
    void second_draw(int64_t s, const std::vector<LogTable>& tables);
    void weigh();
    void segments_draw(int64_t s, const LogTable& table);
    double& weight(int64_t i, int64_t d) {
        return weight_[static_cast<size_t>((i * m_.longest + d - 1) * k_)];
    }

    const LongerModel& m_;
    const LongerRequest& ask_;
    Control* control_;
    int64_t k_, first_ = 0, n_ = 0;
    std::vector<double> forward_, entry_, backward_, work_, weight_, covered_, share_;
    // What was taken out of the rows of forward_, entry_ and backward_, since the ends.
    std::vector<double> forward_off_, entry_off_, backward_off_;
};

}  // namespace vs::higher
