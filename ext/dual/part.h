// A factor of a dual decomposition that is no pair: what is possible are the corners of its hull.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "core/at.h"
#include "factors/structured.h"

namespace vs::dual {

// Over k variables that are open; the states of its others are known.
class Part {
  public:
    explicit Part(int64_t variables) : k(variables) {}
    virtual ~Part() = default;

    // The corner y (k,) with the largest share score(y) + gain . y, and its score; -inf where
    // nothing is possible, NaN where a kind written in Python raised. held (k,), or null: states
    // that are decided, else -1.
    virtual double best(const double* gain, double share, const int8_t* held, uint8_t* y) = 0;
    // Moves a point to the nearest one of the hull; false, and the point stays: no algorithm.
    virtual bool project(double*) { return false; }
    // The score of a corner.
    virtual double score(const uint8_t*) const { return 0.0; }
    virtual double lowest() const { return 0.0; }
    // The largest magnitude of a score of its own.
    virtual double size() const { return 0.0; }
    // Whether scores are all 0.
    virtual bool plain() const { return true; }
    virtual bool serial() const { return false; }
    // Whether what is possible are all trees of the arcs that are put into `arcs`.
    virtual bool all_trees(factors::Arcs*) const { return false; }
    // Whether a corner takes so long that each call polls.
    bool large() const { return k >= 1000; }

    const int64_t k;
    int64_t first = 0;  // edge
};

// The entries of a table that are possible.
class TablePart final : public Part {
  public:
    // mask, score: of each entry; bit i of a mask is the state of variable i.
    TablePart(int64_t k, std::vector<int64_t> mask, std::vector<double> score)
        : Part(k), mask_(std::move(mask)), score_(std::move(score)), sum_(at(int64_t{1} << k)) {}

    double best(const double* gain, double share, const int8_t* held, uint8_t* y) override {
        for (int64_t m = 1; m < static_cast<int64_t>(sum_.size()); ++m) {
            const int64_t rest = m & (m - 1);
            int64_t bit = 0;
            while (!((m >> bit) & 1)) ++bit;
            sum_[at(m)] = sum_[at(rest)] + gain[bit];
        }
        double top = -INFINITY, own = -INFINITY;
        int64_t chosen = 0;
        for (size_t i = 0; i < mask_.size(); ++i) {
            const double total = share * score_[i] + sum_[at(mask_[i])];
            if (total > top && agrees(mask_[i], held))
                top = total, own = score_[i], chosen = mask_[i];
        }
        for (int64_t j = 0; j < k; ++j) y[j] = (chosen >> j) & 1;
        return own;
    }
    double score(const uint8_t* y) const override {
        int64_t m = 0;
        for (int64_t j = 0; j < k; ++j) m |= int64_t{y[j]} << j;
        const auto found = std::lower_bound(mask_.begin(), mask_.end(), m);
        return found != mask_.end() && *found == m ? score_[at(found - mask_.begin())] : -INFINITY;
    }
    double lowest() const override { return *std::min_element(score_.begin(), score_.end()); }
    double size() const override {
        double most = 0.0;
        for (double s : score_) most = std::max(most, std::fabs(s));
        return most;
    }
    bool plain() const override { return false; }

  private:
    bool agrees(int64_t mask, const int8_t* held) const {
        for (int64_t j = 0; held && j < k; ++j) {
            if (held[j] >= 0 && held[j] != ((mask >> j) & 1)) return false;
        }
        return true;
    }

    std::vector<int64_t> mask_;  // ascending
    std::vector<double> score_, sum_;
};

class StructuredPart final : public Part {
  public:
    // known: the state of each of its variables, -1 where it is open.
    StructuredPart(const factors::Structured* f, const std::vector<int8_t>& known)
        : Part(std::count(known.begin(), known.end(), -1)),
          f_(f),
          in_(2 * known.size()),
          states_(known.size()),
          work_(at(f->scratch())),
          known_(known) {
        for (size_t i = 0; i < known.size(); ++i) {
            if (known[i] < 0) {
                place_.push_back(static_cast<int64_t>(i));
            } else {
                in_[2 * i + (known[i] ? 0 : 1)] = -INFINITY;
            }
        }
    }

    double best(const double* gain, double, const int8_t* held, uint8_t* y) override {
        for (int64_t j = 0; j < k; ++j) {
            double* in = in_.data() + 2 * place_[at(j)];
            in[0] = held && held[j] == 1 ? -INFINITY : 0.0;
            in[1] = held && held[j] == 0 ? -INFINITY : gain[j];
        }
        std::fill(states_.begin(), states_.end(), int64_t{0});
        const double found = f_->best(in_.data(), states_.data(), work_.data());
        for (int64_t j = 0; j < k; ++j) y[j] = states_[at(place_[at(j)])] != 0;
        return found != found ? found : found == -INFINITY ? found : 0.0;
    }
    bool project(double* point) override {
        return k == f_->size() && f_->project(point, work_.data());
    }
    double score(const uint8_t* y) const override {
        std::vector<int64_t> states(known_.begin(), known_.end());
        for (int64_t j = 0; j < k; ++j) states[at(place_[at(j)])] = y[j];
        return f_->log_potential(states.data());
    }
    bool serial() const override { return f_->serial(); }
    bool all_trees(factors::Arcs* arcs) const override {
        factors::Arcs all;
        if (std::count(known_.begin(), known_.end(), 1) || !f_->all_trees(&all)) return false;
        arcs->words = all.words;
        arcs->single_root = all.single_root;
        for (int64_t i : place_) {
            arcs->head.push_back(all.head[at(i)]);
            arcs->modifier.push_back(all.modifier[at(i)]);
        }
        return true;
    }

  private:
    const factors::Structured* f_;
    std::vector<double> in_;  // messages to it: 0 and a gain, or evidence
    std::vector<int64_t> states_, place_;
    std::vector<double> work_;
    std::vector<int8_t> known_;
};

}  // namespace vs::dual
