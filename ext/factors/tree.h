// The arcs that are on are a dependency tree; the algorithms are those of ext/dependency/.
#pragma once

#include <vector>

#include "core/problem.h"
#include "factors/structured.h"
#include "dependency/trees.h"

namespace vs::factors {

inline const dependency::TreesApi* g_trees = nullptr;
inline void use_trees(const dependency::TreesApi* api) noexcept { g_trees = api; }

// An arc's score is the log-ratio of its messages. An arc that has to be on forbids the others of
// its word, and its score is 0: scores are relative to all arcs off but for those.
class Tree final : public Structured {
  public:
    // numbers: single root, words, and (head, modifier) of each variable.
    Tree(int64_t k, const int64_t* numbers, dependency::Kind kind)
        : Structured(k), kind_(kind), single_(numbers[0] != 0), n_(numbers[1]) {
        arc_.assign(numbers + 2, numbers + 2 + 2 * k);
    }

    int64_t scratch() const noexcept override {
        return 2 * size_of_scores() + 2 * n_ + g_trees->scratch_size(kind_, n_);
    }

    double log_potential(const int64_t* states) const override {
        std::vector<int64_t> heads(static_cast<size_t>(n_ + 1), -1);
        for (int64_t i = 0; i < k_; ++i) {
            if (states[i] == 0) continue;
            int64_t& own = heads[static_cast<size_t>(modifier(i))];
            if (own >= 0) return -INFINITY;
            own = head(i);
        }
        return is_tree(heads) ? 0.0 : -INFINITY;
    }

    double send(const double* in, bool best, double* ratio,
                double* scratch) const noexcept override {
        double *scores = scratch, *found = scores + size_of_scores();
        double *forced = found + size_of_scores(), *work = forced + 2 * n_;
        std::fill(ratio, ratio + k_, 0.0);
        const double base = read(in, scores, forced);
        if (base == -INFINITY) return base;
        const dependency::Sentence s{scores, n_, single_};
        best = best || !carried(scores);
        double mass;
        if (best && kind_ == dependency::Kind::kTree) {
            mass = g_trees->best(kind_, s, reinterpret_cast<int64_t*>(found), work);
            held(s, scores, ratio, reinterpret_cast<int64_t*>(found), found + n_ + 1, work);
        } else {
            dependency::Arcs arcs;
            arcs.ratio = found;
            mass = best ? g_trees->projective_max(s, found, work)
                        : g_trees->marginals(kind_, s, arcs, work);
            for (int64_t i = 0; i < k_; ++i) ratio[i] = found[place(i)];
        }
        for (int64_t i = 0; i < k_; ++i) {
            const double one = forced[modifier(i) - 1];
            if (one >= 0.0 && one != static_cast<double>(i)) ratio[i] = -INFINITY;
        }
        return base + mass;
    }

    double best(const double* in, int64_t* states, double* scratch) const noexcept override {
        double *scores = scratch, *forced = scores + 2 * size_of_scores(), *work = forced + 2 * n_;
        auto* heads = reinterpret_cast<int64_t*>(forced + n_);
        std::fill(states, states + k_, int64_t{0});
        if (read(in, scores, forced) == -INFINITY) return -INFINITY;
        const dependency::Sentence s{scores, n_, single_};
        if (g_trees->best(kind_, s, heads, work) == -INFINITY) return -INFINITY;
        double score = 0.0;
        for (int64_t i = 0; i < k_; ++i) {
            states[i] = heads[modifier(i) - 1] == head(i);
            score += in[2 * i + states[i]];
        }
        return score;
    }

    // A tree's come from 2x2 minors, all pairs in one run.
    double joint(const double* in, int64_t count, const int64_t* pairs, double* out,
                 double* work) const override {
        if (kind_ != dependency::Kind::kTree) return Structured::joint(in, count, pairs, out, work);
        double *scores = work, *forced = scores + 2 * size_of_scores(), *more = forced + 2 * n_;
        const double base = read(in, scores, forced);
        std::fill(out, out + count, 0.0);
        if (base == -INFINITY) return base;
        if (!carried(scores)) return Structured::joint(in, count, pairs, out, work);
        std::vector<dependency::Pair> asked(static_cast<size_t>(count));
        bool alone = false;
        for (int64_t i = 0; i < count; ++i) {
            const int64_t a = pairs[2 * i], b = pairs[2 * i + 1];
            asked[static_cast<size_t>(i)] = {
                static_cast<int32_t>(head(a)), static_cast<int32_t>(modifier(a)),
                static_cast<int32_t>(head(b)), static_cast<int32_t>(modifier(b))};
            alone = alone || a == b;
        }
        const dependency::Sentence s{scores, n_, single_};
        const double mass = g_trees->joints(s, count, asked.data(), out, more);
        if (alone) {
            double *p = work + scratch() + k_, *c = p + k_;
            sum_product(in, p, c, work);
            for (int64_t i = 0; i < count; ++i) {
                if (pairs[2 * i] == pairs[2 * i + 1]) out[i] = p[pairs[2 * i]];
            }
        }
        return base + mass;
    }

    bool all_trees(Arcs* arcs) const override {
        if (kind_ != dependency::Kind::kTree) return false;
        arcs->words = n_;
        arcs->single_root = single_;
        for (int64_t i = 0; i < k_; ++i) {
            arcs->head.push_back(static_cast<int32_t>(head(i)));
            arcs->modifier.push_back(static_cast<int32_t>(modifier(i)));
        }
        return true;
    }

  private:
    int64_t head(int64_t i) const noexcept { return arc_[static_cast<size_t>(2 * i)]; }
    int64_t modifier(int64_t i) const noexcept { return arc_[static_cast<size_t>(2 * i + 1)]; }
    int64_t place(int64_t i) const noexcept { return head(i) * (n_ + 1) + modifier(i); }
    int64_t size_of_scores() const noexcept { return (n_ + 1) * (n_ + 1); }

    // Scores of all arcs, and forced (n,): the variable that has to be on for each word, or -1.
    double read(const double* in, double* scores, double* forced) const noexcept {
        std::fill(scores, scores + size_of_scores(), -INFINITY);
        std::fill(forced, forced + n_, -1.0);
        double base = 0.0;
        for (int64_t i = 0; i < k_; ++i) {
            const double no = in[2 * i], yes = in[2 * i + 1];
            base += no == -INFINITY ? yes : no;
            if (no == -INFINITY) {
                double& own = forced[modifier(i) - 1];
                if (own >= 0.0) return -INFINITY;
                own = static_cast<double>(i);
            }
        }
        for (int64_t i = 0; i < k_; ++i) {
            const double one = forced[modifier(i) - 1];
            if (one < 0.0) {
                scores[place(i)] = in[2 * i + 1] - in[2 * i];
            } else if (one == static_cast<double>(i)) {
                scores[place(i)] = 0.0;
            }
        }
        return base;
    }

    // Whether sums over trees can carry these scores. Messages that grew round a cycle may be
    // larger: beside the best tree nothing is seen then.
    bool carried(const double* scores) const noexcept {
        double total = 0.0;
        for (int64_t i = 0; i < size_of_scores(); ++i) {
            if (scores[i] > -INFINITY) total += std::fabs(scores[i]);
        }
        return total <= kCarriedSum;
    }

    // ratio (k,): the best score with an arc, less its own, minus the best without it: two runs for
    // each. column (n + 1,) is scratch: without memory nothing could be said here.
    void held(const dependency::Sentence& s, double* scores, double* ratio, int64_t* heads,
              double* column, double* work) const noexcept {
        for (int64_t i = 0; i < k_; ++i) {
            const int64_t m = modifier(i);
            const auto each = [&](auto act) {
                for (int64_t h = 0; h <= n_; ++h) {
                    act(&scores[h * (n_ + 1) + m], &column[h]);
                }
            };
            each([](double* own, double* kept) {
                *kept = *own;
                *own = -INFINITY;
            });
            scores[place(i)] = 0.0;
            const double on = g_trees->best(kind_, s, heads, work);
            each([](double* own, double* kept) { *own = *kept; });
            scores[place(i)] = -INFINITY;
            const double off = g_trees->best(kind_, s, heads, work);
            each([](double* own, double* kept) { *own = *kept; });
            ratio[i] = on == -INFINITY ? on : off == -INFINITY ? INFINITY : on - off;
        }
    }

    bool is_tree(const std::vector<int64_t>& heads) const noexcept {
        int64_t roots = 0;
        for (int64_t m = 1; m <= n_; ++m) {
            int64_t above = m, steps = 0;
            while (above > 0 && steps++ <= n_) above = heads[static_cast<size_t>(above)];
            if (above != 0) return false;
            roots += heads[static_cast<size_t>(m)] == 0;
        }
        return (!single_ || roots == 1) && (kind_ == dependency::Kind::kTree || !crosses(heads));
    }

    bool crosses(const std::vector<int64_t>& heads) const noexcept {
        for (int64_t m = 1; m <= n_; ++m) {
            const auto [a, b] = std::minmax(m, heads[static_cast<size_t>(m)]);
            for (int64_t o = a + 1; o < b; ++o) {
                const int64_t h = heads[static_cast<size_t>(o)];
                if (h < a || h > b) return true;
            }
        }
        return false;
    }

    dependency::Kind kind_;
    bool single_;
    int64_t n_;
    std::vector<int64_t> arc_;  // (head, modifier) of each variable
};

}  // namespace vs::factors
