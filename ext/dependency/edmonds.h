// The best tree of all (Chu, Liu, Edmonds), O(n^2): every word takes its best head along a path; a
// cycle is contracted into one of its words, whose row and column then hold, for each other word,
// the best arc into and out of the cycle (Tarjan). Cycles are undone from the last to the first.
//
// With a single root an arc of the root is taken only where a word or cycle has no other: then the
// tree has as few of them as can be, and the best score among those.
#pragma once

#include <cmath>
#include <cstdint>

#include "dependency/lanes.h"
#include "dependency/run.h"

namespace VS_NS {

class Edmonds {
    struct Arc {
        int32_t head, modifier;
    };
    enum : int64_t { kNew, kOnPath, kDone, kGone };

  public:
    static int64_t scratch(int64_t n) { return (n + 1) * (row_of(n) + n + 1) + 8 * (2 * n + 2); }

    Edmonds(const vs::dependency::Sentence& s, double* scratch) : s_(s), n_(s.n), ld_(row_of(s.n)) {
        ScratchPieces pieces{scratch};
        in_ = pieces.take<double>((n_ + 1) * ld_);
        arc_ = pieces.take<Arc>((n_ + 1) * (n_ + 1));
        chosen_ = pieces.take<Arc>(2 * n_ + 2);
        parent_ = pieces.take<int64_t>(2 * n_ + 2);
        node_ = pieces.take<int64_t>(n_ + 1);
        state_ = pieces.take<int64_t>(n_ + 1);
        path_ = pieces.take<int64_t>(n_ + 1);
        head_of_ = pieces.take<int64_t>(n_ + 1);
        value_ = pieces.take<double>(n_ + 1);
        covered_ = pieces.take<int64_t>(2 * n_ + 2);
        nodes_ = n_ + 1;
        for (int64_t m = 1; m <= n_; ++m) {
            double* row = in_ + m * ld_;
            for (int64_t h = 0; h <= n_; ++h) {
                row[h] = s.scores[h * (n_ + 1) + m];
                arc_[m * (n_ + 1) + h] = {static_cast<int32_t>(h), static_cast<int32_t>(m)};
            }
            row[m] = -INFINITY;
            for (int64_t h = n_ + 1; h < ld_; ++h) row[h] = -INFINITY;
            node_[m] = m;
            state_[m] = kNew;
        }
        for (int64_t i = 0; i < 2 * n_ + 2; ++i) parent_[i] = covered_[i] = 0;
    }

    double best(int64_t* heads) {
        for (int64_t m = 0; m < n_; ++m) heads[m] = -1;
        for (int64_t start = 1; start <= n_; ++start) {
            if (state_[start] == kNew && !walk(start)) return -INFINITY;
        }
        for (int64_t node = nodes_; node-- > 1;) {
            if (covered_[node]) continue;
            const Arc a = chosen_[node];
            heads[a.modifier - 1] = a.head;
            for (int64_t x = a.modifier; x != node; x = parent_[x]) covered_[x] = 1;
        }
        double score = 0.0;
        int64_t roots = 0;
        for (int64_t m = 0; m < n_; ++m) {
            score += s_.scores[heads[m] * (n_ + 1) + m + 1];
            roots += heads[m] == 0;
        }
        if (s_.single_root && roots > 1) {
            for (int64_t m = 0; m < n_; ++m) heads[m] = -1;
            return -INFINITY;
        }
        return score;
    }

  private:
    Arc& arc(int64_t v, int64_t u) { return arc_[v * (n_ + 1) + u]; }

    // From head to head until the root or a word that reaches it is met. False: no head is left.
    bool walk(int64_t v) {
        int64_t length = 0;
        for (;;) {
            state_[v] = kOnPath;
            path_[length++] = v;
            const int64_t u = choose(v);
            if (u < 0) return false;
            chosen_[node_[v]] = arc(v, u);
            head_of_[v] = u;
            value_[v] = in_[v * ld_ + u];
            if (u == 0 || state_[u] == kDone) break;
            v = u;
            if (state_[u] == kOnPath) {
                int64_t first = length;
                while (path_[--first] != u) {
                }
                contract(path_ + first, length - first);
                length = first;
            }
        }
        while (length > 0) state_[path_[--length]] = kDone;
        return true;
    }

    // The best head of a word or cycle, or -1. The lowest arc is taken among equal ones.
    int64_t choose(int64_t v) {
        const double* row = in_ + v * ld_;
        using V = Vec<double>;
        V most = V::set1(-INFINITY);
        if (s_.single_root) {
            for (int64_t u = 1; u <= n_; u += V::N) {
                const int64_t left = n_ + 1 - u;
                most = V::max(most, left >= V::N
                                        ? V::load(row + u)
                                        : V::load_part(row + u, static_cast<int>(left), -INFINITY));
            }
        } else {
            for (int64_t u = 0; u < ld_; u += V::N) most = V::max(most, V::load(row + u));
        }
        const double top = most.hmax();
        if (top == -INFINITY) return s_.single_root && row[0] > -INFINITY ? 0 : -1;
        int64_t found = -1;
        for (int64_t u = s_.single_root ? 1 : 0; u <= n_; ++u) {
            if (row[u] == top && (found < 0 || lower(arc(v, u), arc(v, found)))) found = u;
        }
        return found;
    }

    static bool lower(Arc a, Arc b) {
        return a.head < b.head || (a.head == b.head && a.modifier < b.modifier);
    }

    // The words of a cycle become its first. An arc into one of them pays for the arc it
    // replaces.
    void contract(const int64_t* cycle, int64_t length) {
        const int64_t r = cycle[0];
        double* row = in_ + r * ld_;
        const double own = value_[r];
        for (int64_t u = 0; u <= n_; ++u) row[u] -= own;
        for (int64_t i = 1; i < length; ++i) {
            const int64_t v = cycle[i];
            const double *other = in_ + v * ld_, pays = value_[v];
            for (int64_t u = 0; u <= n_; ++u) {
                const double x = other[u] - pays;
                if (x > row[u] || (x == row[u] && x > -INFINITY && lower(arc(v, u), arc(r, u)))) {
                    row[u] = x;
                    arc(r, u) = arc(v, u);
                }
            }
            for (int64_t x = 1; x <= n_; ++x) {
                double *into = in_ + x * ld_ + r, *from = in_ + x * ld_ + v;
                if (*from > *into ||
                    (*from == *into && *from > -INFINITY && lower(arc(x, v), arc(x, r)))) {
                    *into = *from;
                    arc(x, r) = arc(x, v);
                }
                *from = -INFINITY;
            }
        }
        const int64_t node = nodes_++;
        for (int64_t i = 0; i < length; ++i) {
            parent_[node_[cycle[i]]] = node;
            row[cycle[i]] = -INFINITY;
            if (i > 0) state_[cycle[i]] = kGone;
        }
        node_[r] = node;
    }

    const vs::dependency::Sentence& s_;
    const int64_t n_, ld_;
    double *in_, *value_;  // in_ (n + 1, ld): score of the best arc into a word, from another
    Arc *arc_, *chosen_;
    // Words and cycles are nodes, numbered as they came up; node_: of the word that stands for it.
    int64_t *parent_, *node_, *state_, *path_, *head_of_, *covered_;
    int64_t nodes_;
};

}  // namespace VS_NS
