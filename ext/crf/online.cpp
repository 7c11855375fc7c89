#include "crf/online.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "crf/evaluator.h"

namespace vs::crf {

namespace {

// The factor in front of the weights is multiplied out before it gets smaller than this.
constexpr double kSmall = 1e-9;

}  // namespace

// The sequence that a learner has before it, and the features that it moves.
class OnlineLearner {
  public:
    OnlineLearner(Evaluator& engine, int64_t n_weights, Control& control)
        : e_(engine), c_(engine.c_), k_(engine.c_.n_labels), control_(control) {
        slot_.assign(static_cast<size_t>(n_weights), -1);
        table_.resize(static_cast<size_t>(k_ * k_));
        moves_.resize(static_cast<size_t>(k_ * k_));
    }

    // Learning: the pass, and one sequence of it.
    void learn(const OnlineRule& rule, OnlineState& to, const int64_t* order, int64_t count);
    void descend(Descent& to, const int64_t* order, int64_t count, int64_t n_weights);

    OnlinePass pass;

  private:
    bool go_on();
    bool score(int64_t sequence, const double* w, double factor);
    void augment(double gamma);
    bool decode();
    bool finish(const Report& report);
    bool marginals(double beta);
    double lead() const;
    void collect_mistakes();
    void collect_residual();
    double loss_of(const OnlineRule& rule);
    bool change(const OnlineRule& rule, double loss);
    void pull(int64_t item, int64_t label, double x);
    void add(int64_t feature, double x);
    template <class F>
    void each_pair(F f) const {  // f(weight, place in a table) of the transitions that have one
        for (int64_t l = 0; l < k_; ++l) {
            for (int64_t e = c_.source[l]; e < c_.source[l + 1]; ++e) {
                f(c_.n_states + e, l * k_ + c_.target[e]);
            }
        }
    }
    Chains chains() const {
        return chains_of(c_, unary_.data(), table_.data(), offset_, edge_, n_, 1);
    }
    // The same where only what agrees with the sets is possible.
    Chains held_chains() const {
        Chains c = chains();
        c.allowed = mask_.data();
        return c;
    }
    bool may(int64_t item, int64_t label) const {
        return partial_ ? mask_[static_cast<size_t>(item * k_ + label)] : label == gold_[item];
    }
    double gold() const { return gold_score(gold_, n_, k_, unary_.data(), table_.data()); }

    Evaluator& e_;
    const Corpus& c_;
    const int64_t k_;
    Control& control_;
    int64_t sequence_ = 0, first_ = 0, n_ = 0;  // and its items
    const int32_t* gold_ = nullptr;
    bool partial_ = false;         // some labels are known by their sets alone, and
    std::vector<uint8_t> mask_;    // (n, K) these are possible;
    std::vector<int32_t> chosen_;  // gold_ points here, to the best of them
    double held_z_ = 0.0;          // log Z of all of them
    bool stale_ = true;  // whether weights of transitions have changed since the table was made
    int64_t wrong_ = 0;
    double log_z_ = 0.0;
    int64_t offset_[2] = {0, 0}, edge_[2] = {0, 0};
    std::vector<double> unary_, table_, residual_, moves_, held_, held_moves_;
    std::vector<int64_t> states_;
    std::vector<int32_t> slot_;  // of each feature among `features_`, or -1
    std::vector<int64_t> features_;
    std::vector<double> values_;
};

bool OnlineLearner::go_on() {
    if (control_.stop.load(std::memory_order_relaxed) == 0) {
        if (!control_.poll || !control_.poll(control_.arg)) return true;
        control_.stop.store(1);
    }
    pass.status = kCancelled;
    return false;
}

// Scores of a sequence; false where they are too large.
bool OnlineLearner::score(int64_t sequence, const double* w, double factor) {
    sequence_ = sequence;
    first_ = c_.offset[sequence];
    n_ = c_.offset[sequence + 1] - first_;
    gold_ = c_.gold + first_;
    offset_[1] = n_;
    edge_[1] = std::max<int64_t>(n_ - 1, 0);
    const int64_t size = n_ * k_;
    if (static_cast<int64_t>(unary_.size()) < size) {
        unary_.resize(static_cast<size_t>(size));
        residual_.resize(static_cast<size_t>(size));
        states_.resize(static_cast<size_t>(n_));
    }
    partial_ = e_.partial(sequence);
    if (partial_) {
        mask_.resize(static_cast<size_t>(size));
        e_.mask(first_, n_, mask_.data());
    }
    e_.score_sequence(sequence, w, unary_.data());
    if (stale_) e_.transitions(w, table_.data());
    stale_ = false;
    if (factor != 1.0) {
        for (int64_t i = 0; i < size; ++i) unary_[static_cast<size_t>(i)] *= factor;
        for (double& x : table_) x *= factor;
        stale_ = true;
    }
    bool fine = true;
    for (int64_t i = 0; i < size; ++i) {
        fine &= std::fabs(unary_[static_cast<size_t>(i)]) <= kLargest64;
    }
    for (size_t i = 0; i < table_.size(); ++i) {
        fine &= std::fabs(table_[i]) <= kLargest64 || (c_.banned && c_.banned[i]);
    }
    if (!fine) pass.overflow = first_;
    return fine;
}

// Adds gamma times the number of wrong labels, but for a constant.
void OnlineLearner::augment(double gamma) {
    const double half = 0.5 * gamma;
    for (int64_t i = 0; i < n_; ++i) {
        double* u = unary_.data() + i * k_;
        for (int64_t k = 0; k < k_; ++k) u[k] += may(i, k) ? -half : half;
    }
}

// Whether a call came to an end. Where nothing is possible scores have left the range of numbers.
bool OnlineLearner::finish(const Report& report) {
    pass.status = report.status;
    if (report.status == kInfeasible) pass.overflow = first_;
    return report.status == kOk;
}

// The best labels, and how many of them are wrong. Where labels are known in part, the right ones
// are the best that agree with what is known.
bool OnlineLearner::decode() {
    Request q;
    q.model.arrays = chains();
    q.states = states_.data();
    q.log_z = &log_z_;
    if (!finish(Evaluator::forests->decode(q, control_))) return false;
    wrong_ = 0;
    for (int64_t i = 0; i < n_; ++i) wrong_ += !may(i, states_[static_cast<size_t>(i)]);
    if (!partial_ || wrong_ == 0) return true;
    std::vector<int64_t> best(static_cast<size_t>(n_));
    q.model.arrays = held_chains();
    q.states = best.data();
    q.log_z = &held_z_;
    if (!finish(Evaluator::forests->decode(q, control_))) return false;
    chosen_.resize(static_cast<size_t>(n_));
    for (size_t i = 0; i < best.size(); ++i) chosen_[i] = static_cast<int32_t>(best[i]);
    gold_ = chosen_.data();
    return true;
}

// Marginals and summed edge marginals of beta times the scores, less the right structure, or less
// the same of the structures that agree with what is known.
bool OnlineLearner::marginals(double beta) {
    if (beta != 1.0) {
        for (int64_t i = 0; i < n_ * k_; ++i) unary_[static_cast<size_t>(i)] *= beta;
        for (double& x : table_) x *= beta;
        stale_ = true;
    }
    Request q;
    q.model.arrays = chains();
    q.marginals = residual_.data();
    q.log_z = &log_z_;
    q.expectations = moves_.data();
    q.expectation_chunks = 1;
    std::fill(moves_.begin(), moves_.end(), 0.0);
    if (!finish(Evaluator::forests->infer(q, control_))) return false;
    if (partial_) {
        held_.resize(static_cast<size_t>(n_ * k_));
        held_moves_.assign(static_cast<size_t>(k_ * k_), 0.0);
        q.model.arrays = held_chains();
        q.marginals = held_.data();
        q.log_z = &held_z_;
        q.expectations = held_moves_.data();
        if (!finish(Evaluator::forests->infer(q, control_))) return false;
        for (size_t i = 0; i < held_.size(); ++i) residual_[i] -= held_[i];
        for (size_t i = 0; i < held_moves_.size(); ++i) moves_[i] -= held_moves_[i];
        return true;
    }
    for (int64_t i = 0; i < n_; ++i) {
        residual_[static_cast<size_t>(i * k_ + gold_[i])] -= 1.0;
        if (i) moves_[static_cast<size_t>(gold_[i - 1] * k_ + gold_[i])] -= 1.0;
    }
    return true;
}

// By how much the best labels score higher than the right ones; 0 exactly where they are the same.
double OnlineLearner::lead() const {
    double sum = 0.0;
    for (int64_t i = 0; i < n_; ++i) {
        const double* u = unary_.data() + i * k_;
        const int64_t y = states_[static_cast<size_t>(i)];
        sum += u[y] - u[gold_[i]];
        if (i == 0) continue;
        const int64_t x = states_[static_cast<size_t>(i - 1)];
        sum += table_[static_cast<size_t>(x * k_ + y)] -
               table_[static_cast<size_t>(gold_[i - 1] * k_ + gold_[i])];
    }
    return sum;
}

void OnlineLearner::add(int64_t feature, double x) {
    int32_t& slot = slot_[static_cast<size_t>(feature)];
    if (slot < 0) {
        slot = static_cast<int32_t>(features_.size());
        features_.push_back(feature);
        values_.push_back(0.0);
    }
    values_[static_cast<size_t>(slot)] += x;
}

// Adds x to each feature of an item with a label.
void OnlineLearner::pull(int64_t item, int64_t label, double x) {
    for (int64_t m = c_.item[item]; m < c_.item[item + 1]; ++m) {
        const int64_t a = c_.id[m], begin = c_.first[a], end = c_.first[a + 1];
        int64_t f = begin + label;
        if (end - begin != k_) {
            f = std::lower_bound(c_.label + begin, c_.label + end, label) - c_.label;
            if (f == end || c_.label[f] != label) continue;
        }
        add(f, c_.value ? x * c_.value[m] : x);
    }
}

void OnlineLearner::collect_mistakes() {
    for (int64_t i = 0; i < n_; ++i) {
        const int64_t y = states_[static_cast<size_t>(i)], z = gold_[i];
        if (y != z) {
            pull(first_ + i, y, 1.0);
            pull(first_ + i, z, -1.0);
        }
        if (i == 0) continue;
        const int64_t x = states_[static_cast<size_t>(i - 1)];
        if (x == gold_[i - 1] && y == z) continue;
        const int64_t from = c_.weight_of(x, y), right = c_.weight_of(gold_[i - 1], z);
        if (from >= 0) add(from, 1.0);
        if (right >= 0) add(right, -1.0);
    }
}

void OnlineLearner::collect_residual() {
    e_.pull(sequence_, residual_.data(), features_, values_);
    each_pair([&](int64_t weight, int64_t i) {
        const double x = moves_[static_cast<size_t>(i)];
        if (x == 0.0) return;
        features_.push_back(weight);
        values_.push_back(x);
    });
}

// The loss of the sequence. Fills `features_` and `values_` with its gradient, or the difference
// of the best structure and the right one; none: nothing is to be learnt.
double OnlineLearner::loss_of(const OnlineRule& rule) {
    if (n_ == 0) return 0.0;
    if (rule.kind == OnlineRule::kAggressive) {
        if (!std::isinf(rule.beta)) {
            const double right = partial_ ? 0.0 : gold();
            if (rule.gamma > 0.0) augment(rule.gamma);
            if (!marginals(rule.beta)) return 0.0;
            const double constant = 0.5 * rule.gamma * static_cast<double>(n_);
            // Both log Z lack the constant where labels are known in part.
            const double loss = std::max(0.0, partial_ ? (log_z_ - held_z_) / rule.beta
                                                       : log_z_ / rule.beta + constant - right);
            if (loss > 0.0) collect_residual();
            return loss;
        }
        if (rule.gamma > 0.0) augment(rule.gamma);
    }
    if (!decode() || wrong_ == 0) return 0.0;
    const double wrong = static_cast<double>(wrong_);
    double loss = wrong / static_cast<double>(n_);
    if (rule.kind == OnlineRule::kPassiveAggressive) {
        loss = lead() + (rule.error_sensitive ? std::sqrt(wrong) : 1.0);
    } else if (rule.kind == OnlineRule::kArow) {
        loss = lead() + wrong;
    } else if (rule.kind == OnlineRule::kAggressive) {
        loss = std::max(0.0, lead());
        if (loss == 0.0) return 0.0;
    }
    collect_mistakes();
    return loss;
}

// Turns `values_` into the change of the weights; false: there is none.
bool OnlineLearner::change(const OnlineRule& rule, double loss) {
    if (features_.empty()) return false;
    if (rule.kind == OnlineRule::kArow) {
        double spread = 0.0;
        for (size_t j = 0; j < features_.size(); ++j) {
            spread += rule.variance[features_[j]] * values_[j] * values_[j];
        }
        const double step = loss / (rule.gamma + spread);
        for (size_t j = 0; j < features_.size(); ++j) {
            double& variance = rule.variance[features_[j]];
            const double v = values_[j];
            values_[j] = -step * variance * v;
            variance = 1.0 / (1.0 / variance + v * v / rule.gamma);
        }
        return true;
    }
    double step = 1.0;
    if (rule.kind != OnlineRule::kPerceptron) {
        double square = 0.0;
        for (double v : values_) square += v * v;
        if (square == 0.0) return false;
        if (rule.kind == OnlineRule::kAggressive) {
            step = std::min(rule.longest, loss / square);
        } else if (rule.slack == 0) {
            step = loss / square;
        } else {
            step =
                rule.slack == 1 ? std::min(rule.c, loss / square) : loss / (square + 0.5 / rule.c);
        }
    }
    for (double& v : values_) v *= -step;
    return true;
}

void OnlineLearner::learn(const OnlineRule& rule, OnlineState& to, const int64_t* order,
                          int64_t count) {
    for (int64_t t = 0; t < count; ++t) {
        if (!go_on()) return;
        ++to.time;
        if (!score(order[t], to.weights, 1.0)) return;
        features_.clear();
        values_.clear();
        const double loss = loss_of(rule);
        if (pass.status != kOk) return;
        pass.loss += loss;
        for (int64_t f : features_) slot_[static_cast<size_t>(f)] = -1;
        if (!change(rule, loss)) continue;
        ++pass.updates;
        const double time = static_cast<double>(to.time);
        for (size_t j = 0; j < features_.size(); ++j) {
            const int64_t f = features_[j];
            if (values_[j] == 0.0) continue;
            to.weights[f] += values_[j];
            to.late[f] += time * values_[j];
            to.touched[f] = 1;
        }
        stale_ = true;
    }
}

void OnlineLearner::descend(Descent& to, const int64_t* order, int64_t count, int64_t n_weights) {
    for (int64_t t = 0; t < count; ++t) {
        if (!go_on()) return;
        double rate = to.eta;
        if (to.step) {
            if (to.decay != 0.0) {
                rate = 1.0 / (to.decay * (to.t0 + static_cast<double>(to.time)));
                to.factor *= 1.0 - rate * to.decay;
            }
            if (to.factor < kSmall) {
                const double kept = std::max(to.factor, 0.0);
                for (int64_t f = 0; f < n_weights; ++f) to.vector[f] *= kept;
                to.factor = 1.0;
                stale_ = true;
            }
            ++to.time;
        }
        if (!score(order[t], to.vector, to.factor)) return;
        if (n_ == 0) continue;
        const double right = partial_ ? 0.0 : gold();
        if (!marginals(1.0)) return;
        pass.loss += std::max(0.0, log_z_ - (partial_ ? held_z_ : right));
        if (!to.step) continue;
        ++pass.updates;
        const double by = -rate / to.factor;
        for (int64_t i = 0; i < n_; ++i) {
            const double* r = residual_.data() + i * k_;
            for (int64_t m = c_.item[first_ + i]; m < c_.item[first_ + i + 1]; ++m) {
                const int64_t a = c_.id[m], begin = c_.first[a], n = c_.first[a + 1] - begin;
                const double x = c_.value ? by * c_.value[m] : by;
                double* w = to.vector + begin;
                if (n == k_) {
                    for (int64_t k = 0; k < n; ++k) w[k] += x * r[k];
                } else {
                    const int32_t* label = c_.label + begin;
                    for (int64_t f = 0; f < n; ++f) w[f] += x * r[label[f]];
                }
            }
        }
        if (n_ == 1) continue;
        each_pair([&](int64_t weight, int64_t i) {
            to.vector[weight] += by * moves_[static_cast<size_t>(i)];
        });
        stale_ = true;
    }
}

OnlinePass Evaluator::learn(const OnlineRule& rule, OnlineState& to, const int64_t* order,
                            int64_t count, int64_t n_weights, Control& control) {
    OnlineLearner walk(*this, n_weights, control);
    walk.learn(rule, to, order, count);
    return walk.pass;
}

OnlinePass Evaluator::descend(Descent& to, const int64_t* order, int64_t count, int64_t n_weights,
                              Control& control) {
    OnlineLearner walk(*this, n_weights, control);
    walk.descend(to, order, count, n_weights);
    return walk.pass;
}

}  // namespace vs::crf
