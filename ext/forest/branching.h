// A forest as islands see it: who is a neighbour of whom.
#pragma once

#include "islands/piece.h"
#include "islands/rules.h"
#include "forest/layout.h"

namespace vs {

struct Branching {
    TreeView view;
    const int32_t* tree;  // (n,) as view.tree

    int64_t n_blocks() const { return view.n_blocks; }
    int64_t begin(int64_t b) const { return view.begin[b]; }
    int64_t parent(int64_t q) const { return view.parent[q]; }
    template <class F>
    void children(int64_t q, F f) const {
        view.for_children(q, f);
    }
    // Has q neighbours outside of its block [begin, end)?
    bool leaves(int64_t q, int64_t begin, int64_t end) const {
        const int64_t p = view.parent[q];
        return view.children_elsewhere[q] || (p >= 0 && p < begin) || p >= end;
    }
    // Adds the centres of the piece below `top`.
    bool add_centres(const IslandState& s, int64_t top, PieceList& list, Scratch& scratch) const {
        bool alone = true;
        children(top, [&](int64_t c) { alone = alone && s.island(c); });
        if (alone) return list.add(top, -1);
        PieceList whole(scratch);
        whole.open();
        if (!whole.add(top, -1)) return false;
        const bool ok = whole.spread([&](int64_t q, int64_t from, auto&& add) {
            const auto visit = [&](int64_t o) {
                if (o != from && !s.island(o)) add(o);
            };
            if (view.parent[q] >= 0) visit(view.parent[q]);
            children(q, visit);
        });
        const Pieces p = whole.pieces();
        int64_t* work = ok ? scratch.array<int64_t>(3 * p.n) : nullptr;
        if (!work) return false;
        const Centres c = find_centres(p, work);
        const int64_t place = list.size();
        if (c.other < 0) return list.add(p.slot[c.one], -1);
        return list.add(p.slot[c.one], place + 1) && list.add(p.slot[c.other], place);
    }
};

}  // namespace vs
