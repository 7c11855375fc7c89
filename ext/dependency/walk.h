// The recursion of laplacian.h level by level: two or three times halves, and then all that is left
// at once, each part in a lane of its own.
#pragma once

#include <cstdint>

#include "dependency/abreast.h"
#include "dependency/laplacian.h"
#include "dependency/lanes.h"
#include "dependency/trees.h"

namespace VS_NS {

// One after the other, in any arithmetic.
template <class A>
class Walk : public Laplacian<A> {};

template <>
class Walk<Plain> {
    using Node = BlockElimination<Plain>;
    using V = Vec<double>;
    using Leaves = Laplacian<Abreast>;
    static constexpr int kMostLevels = 3;
    static constexpr int64_t kLeast = 8;  // words of a sentence that is worth it

  public:
    // The same for every level.
    static int64_t scratch(int64_t n) {
        if (n < kLeast) return Laplacian<Plain>::scratch(n);
        const int64_t q = n / 4 + 1;
        const int64_t leaf =
            q * BlockElimination<Abreast>::stride(q) + (q + 2) * q + Leaves::scratch(q);
        int64_t size = leaf * vs::dependency::kMostLanes + 16;
        for (int d = 0; d < kMostLevels; ++d, n = (n + 1) / 2) size += (2 << d) * Node::scratch(n);
        return size;
    }

    // As Laplacian::solve.
    static bool solve(const double* steps, int64_t from, const double* root, int64_t n, bool single,
                      double* hit, int64_t ld, double* pivot, double* scratch) {
        if (n < kLeast) {
            return Laplacian<Plain>::solve(steps, from, root, n, single, hit, ld, pivot, scratch);
        }
        return Walk{single, hit, ld, V::N < 8 || n < 24 ? 2 : 3, scratch}.run(steps, from, root, n,
                                                                              pivot);
    }

  private:
    // Some of the words, from `at` on, and what they do once the others are gone.
    struct WordBlock {
        int64_t at, n;
        const double *steps, *root;
        int64_t from;
        double* pivot;  // of the first part of each level only
    };

    Walk(bool single, double* hit, int64_t ld, int levels, double* scratch)
        : single_(single), hit_(hit), ld_(ld), levels_(levels), next_(scratch) {}

    bool run(const double* steps, int64_t from, const double* root, int64_t n, double* pivot) {
        part_[0][0] = {0, n, steps, root, from, pivot};
        for (int d = 0; d < levels_; ++d) {
            for (int i = 0; i < 1 << d; ++i) {
                for (int side = 0; side < 2; ++side) {
                    if (!halve(part_[d][i], side, node_[d][2 * i + side],
                               part_[d + 1][2 * i + side])) {
                        return false;
                    }
                }
            }
        }
        for (int first = 0; first < 1 << levels_; first += V::N) {
            if (!leaves(first)) return false;
        }
        for (int d = levels_; d-- > 0;) {
            for (int i = 0; i < 2 << d; ++i) node_[d][i].substitute(block(part_[d][i / 2]), ld_);
        }
        return true;
    }

    double* block(const WordBlock& p) const { return hit_ + p.at * (ld_ + 1); }

    bool halve(const WordBlock& whole, int side, Node& node, WordBlock& half) {
        const int64_t n = whole.n, at = side == 0 ? 0 : n / 2, kept = side == 0 ? n / 2 : n - n / 2;
        double* pivot = side == 0 ? whole.pivot : nullptr;
        node = Node(n, at, kept, next_);
        next_ += Node::scratch(n);
        half = {whole.at + at,     kept,        node.left(),
                node.roots_left(), node.rows(), pivot ? pivot + n - kept : nullptr};
        return node.eliminate(whole.steps, whole.from, whole.root, single_, pivot);
    }

    // Parts from `first` on, one in each lane; a word that a part has not steps to its first word
    // and from nowhere, or with a single root from there, so that the first word has somewhere to
    // step when it is the last that is left; a lane without a part is the first one.
    bool leaves(int first) {
        const int count = 1 << levels_;
        const WordBlock* own[V::N];
        int64_t q = 0, least = INT64_MAX;  // words of the largest and of the smallest part
        for (int l = 0; l < V::N; ++l) {
            own[l] = &part_[levels_][first + l < count ? first + l : first];
            q = own[l]->n > q ? own[l]->n : q;
            least = own[l]->n < least ? own[l]->n : least;
        }
        const auto bytes = reinterpret_cast<uintptr_t>(next_);
        V* steps = reinterpret_cast<V*>((bytes + 63) / 64 * 64);
        V* root = steps + q * q;
        V* hit = root + q;
        V* pivot = hit + q * q;
        double lane[V::N];
        for (int64_t i = 0; i < q; ++i) {
            int32_t row[V::N];
            int64_t whole = i < least ? least : 0;
            for (int l = 0; l < V::N; ++l) {
                row[l] = static_cast<int32_t>(own[l]->steps - own[0]->steps + i * own[l]->from);
            }
            for (int64_t j = 0; j < whole; ++j) {
                steps[i * q + j] = V::gather(own[0]->steps + j, row);
            }
            for (int64_t j = whole; j < q; ++j) {
                for (int l = 0; l < V::N; ++l) {
                    const int64_t n = own[l]->n;
                    const bool detour = j == 0 ? i >= n : single_ && i == 0 && j >= n;
                    lane[l] =
                        i < n && j < n ? own[l]->steps[i * own[l]->from + j] : (detour ? 1.0 : 0.0);
                }
                steps[i * q + j] = V::load(lane);
            }
            for (int l = 0; l < V::N; ++l) lane[l] = i < own[l]->n ? own[l]->root[i] : 0.0;
            root[i] = V::load(lane);
        }
        V* rest = pivot + q;
        if (!Leaves::solve(steps, q, root, q, single_, hit, q, pivot, rest)) return false;
        for (int64_t i = 0; i < q; ++i) {
            for (int64_t j = 0; j < q; ++j) {
                hit[i * q + j].store(lane);
                for (int l = 0; l < V::N && first + l < count; ++l) {
                    if (i < own[l]->n && j < own[l]->n) block(*own[l])[i * ld_ + j] = lane[l];
                }
            }
            pivot[i].store(lane);
            // The product of all is that of the part: more words multiply it by 1.
            if (first > 0) continue;
            if (i < own[0]->n) {
                own[0]->pivot[i] = lane[0];
            } else {
                own[0]->pivot[own[0]->n - 1] *= lane[0];
            }
        }
        return true;
    }

    const bool single_;
    double* const hit_;
    const int64_t ld_;
    const int levels_;
    double* next_;
    WordBlock part_[kMostLevels + 1][1 << kMostLevels];
    Node node_[kMostLevels][1 << kMostLevels];
};

}  // namespace VS_NS
