// Pieces of a forest, each of connected free variables, in an order from their centres to their
// leaves. Several are listed together, so that messages of all of them can be sent together.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "core/scratch.h"

namespace vs {

struct Pieces {
    int64_t n = 0, centres = 0;
    int64_t* slot = nullptr;    // (n,) centres, then each after its neighbour towards the centre
    int64_t* inward = nullptr;  // (n,) place of that neighbour; of a centre: the other one, or -1
    int64_t* first = nullptr;   // (n + 1,) place of the first neighbour away from it: a run
};

// Appends to arrays of the scratch memory, which grow by doubling.
class PieceList {
  public:
    explicit PieceList(Scratch& scratch) : scratch_(scratch) {}
    void open() {
        capacity_ = 64;
        n_ = 0;
        slot_ = scratch_.array<int64_t>(capacity_);
        inward_ = scratch_.array<int64_t>(capacity_);
        first_ = scratch_.array<int64_t>(capacity_ + 1);
    }
    int64_t size() const { return n_; }
    bool add(int64_t slot, int64_t inward) {
        if (scratch_.failed || (n_ == capacity_ && !grow())) return false;
        slot_[n_] = slot;
        inward_[n_++] = inward;
        return true;
    }
    // The slots added so far are the centres. Adds the free neighbours of every place, in turn:
    // f(slot, from, add) calls add(neighbour).
    template <class F>
    bool spread(F f) {
        bool ok = !scratch_.failed;
        centres_ = n_;
        for (int64_t k = 0; k < n_ && ok; ++k) {
            first_[k] = std::max(n_, k + 1);
            const int64_t from = inward_[k] < 0 ? -1 : slot_[inward_[k]];
            f(slot_[k], from, [&](int64_t o) { ok = ok && add(o, k); });
        }
        if (ok) first_[n_] = n_;
        return ok;
    }
    Pieces pieces() const { return {n_, centres_, slot_, inward_, first_}; }

  private:
    bool grow() {
        int64_t* slot = scratch_.array<int64_t>(2 * capacity_);
        int64_t* inward = scratch_.array<int64_t>(2 * capacity_);
        int64_t* first = scratch_.array<int64_t>(2 * capacity_ + 1);
        if (scratch_.failed) return false;
        const auto copy = [&](int64_t* to, const int64_t* from) {
            std::memcpy(to, from, sizeof(*to) * static_cast<size_t>(capacity_));
        };
        copy(slot, slot_);
        copy(inward, inward_);
        copy(first, first_);
        slot_ = slot;
        inward_ = inward;
        first_ = first;
        capacity_ *= 2;
        return true;
    }
    Scratch& scratch_;
    int64_t n_ = 0, capacity_ = 0, centres_ = 0;
    int64_t *slot_ = nullptr, *inward_ = nullptr, *first_ = nullptr;
};

// The places of the centres of one piece, listed from any of its variables: those from which the
// farthest variable is nearest, one or two that are neighbours. `work`: (3 n,).
struct Centres {
    int64_t one, other = -1;
};
inline Centres find_centres(const Pieces& p, int64_t* work) {
    int64_t *best = work, *second = work + p.n, *up = work + 2 * p.n;
    std::memset(work, 0, sizeof(*work) * static_cast<size_t>(3 * p.n));
    for (int64_t k = p.n; k-- > 1;) {  // the two longest ways outward
        const int64_t w = p.inward[k], way = best[k] + 1;
        if (way > best[w]) {
            second[w] = best[w];
            best[w] = way;
        } else if (way > second[w]) {
            second[w] = way;
        }
    }
    Centres c{0};
    int64_t least = best[0];
    for (int64_t k = 1; k < p.n; ++k) {
        const int64_t w = p.inward[k];
        up[k] = 1 + std::max(up[w], best[w] == best[k] + 1 ? second[w] : best[w]);
        const int64_t far = std::max(best[k], up[k]);
        if (far < least) {
            least = far;
            c = {k};
        } else if (far == least) {
            c.other = k;
        }
    }
    return c;
}

}  // namespace vs
