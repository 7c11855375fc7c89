// Trees with a single root: which words can be attached to it.
//
// A walk steps from a word to one of its heads, the root apart. A set of words is closed if no walk
// leaves it. There is a tree only if one closed set is part of all others: two that have no word in
// common would both need the root. The child of the root is one of its words, and each of them can
// reach each other one. No word of it has a head outside, so that a tree is two trees that know
// nothing of each other: one of these words, with a single root; and one of all other words, to
// which these words are the root, with as many children as it likes.
#pragma once

#include <cstdint>

#include "dependency/elimination.h"
#include "dependency/walk.h"

namespace VS_NS {

// The smallest closed set.
class RootWords {
  public:
    // steps (n, ld): from a word to a head; arcs (n, ld): the same by head. Zero: none. places,
    // seen (n,): scratch.
    RootWords(const double* steps, const double* arcs, int64_t ld, int64_t n, int64_t* places,
              int64_t* seen)
        : n_(n), ld_(ld), places_(places), seen_(seen) {
        for (int64_t m = 0; m < n; ++m) seen[m] = 0;
        // All words descend from some word, if any, then from the last one that begins here.
        int64_t top = 0, count = 0, begins = 0;
        for (int64_t m = 0; count < n; ++m) {
            if (seen[m] == 1) continue;
            ++begins;
            count = reach(top = m, arcs, 1, count);
        }
        if (begins > 1 && reach(top, arcs, 2, 0) < n) return;
        size_ = reach(top, steps, 3, 0);
        for (int64_t m = 0, next = size_; next < n; ++m) {
            if (seen[m] != 3) places[next++] = m;
        }
    }
    int64_t size() const { return size_; }                        // 0: there is no tree
    int64_t word(int64_t place) const { return places_[place]; }  // those of the set first

  private:
    // Adds what is reached from a word to `count` places; stops where nothing is left.
    int64_t reach(int64_t from, const double* table, int64_t mark, int64_t count) {
        int64_t next = count;
        places_[count++] = from;
        seen_[from] = mark;
        for (; next < count && count < n_; ++next) {
            const double* row = table + places_[next] * ld_;
            for (int64_t m = 0; m < n_; ++m) {
                if (row[m] == 0.0 || seen_[m] == mark) continue;
                seen_[m] = mark;
                places_[count++] = m;
            }
        }
        return count;
    }

    const int64_t n_, ld_;
    int64_t *places_, *seen_, size_ = 0;
};

// Sums over all trees with a single root, as `Laplacian::solve` has them.
class SingleRoot {
    using Node = BlockElimination<Plain>;

  public:
    // Numbers of scratch.
    static int64_t scratch(int64_t n) {
        return 2 * (n * (n + 8) + n) + 2 * n + Node::scratch(n) + Walk<Plain>::scratch(n);
    }

    // As there, to first order; steps and hit are (n, ld). on_top (n,): hit from the root, 1, or 0
    // of a word that cannot be attached to it. outer: `hit` from words to those that they cannot
    // be a head of is wanted, too.
    static bool solve(const double* steps, const double* arcs, int64_t ld, const double* root,
                      int64_t n, bool outer, double* hit, double* on_top, double* pivot,
                      double* scratch) {
        auto* places = reinterpret_cast<int64_t*>(scratch);
        const RootWords words(steps, arcs, ld, n, places, places + n);
        const int64_t k = words.size();
        double* next = scratch + 2 * n;
        if (k == n) return Walk<Plain>::solve(steps, ld, root, n, true, hit, ld, pivot, next);
        if (k == 0) return false;
        double *own = next, *found = own + n * ld, *direct = found + n * ld, *inner = direct + n;
        next = inner + n;
        for (int64_t i = 0; i < n; ++i) {
            const double* row = steps + words.word(i) * ld;
            for (int64_t j = 0; j < n; ++j) own[i * ld + j] = row[words.word(j)];
            direct[i] = root[words.word(i)];
            inner[i] = 0.0;
            for (int64_t j = 0; i >= k && j < k; ++j) inner[i] += own[i * ld + j];
        }
        const int64_t corner = k * (ld + 1);
        if (!Walk<Plain>::solve(own, ld, direct, k, true, found, ld, pivot, next) ||
            !Walk<Plain>::solve(own + corner, ld, inner + k, n - k, false, found + corner, ld,
                                pivot + k, next)) {
            return false;
        }
        if (outer) {
            Node node(n, 0, k, next);
            if (!node.eliminate(own, ld, direct, true, nullptr)) return false;
            node.substitute(found, ld);
        }
        for (int64_t i = 0; i < n; ++i) {
            double* to = hit + words.word(i) * ld;
            for (int64_t j = 0; j < n; ++j) {
                const bool up = i < k && j >= k, down = i >= k && j < k;
                to[words.word(j)] = up ? 1.0 : down && !outer ? 0.0 : found[i * ld + j];
            }
            if (i >= k) on_top[words.word(i)] = 0.0;
        }
        return true;
    }
};

}  // namespace VS_NS
