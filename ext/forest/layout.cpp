#include "forest/layout.h"

#include <algorithm>

#include "core/at.h"

namespace vs {
namespace {

using std::size_t;

// Children by parent (those of n are the roots), ascending, and all nodes level by level.
struct Walk {
    std::vector<int32_t> ptr, child, order;

    void build(const std::vector<int32_t>& parent, const std::vector<int32_t>& roots) {
        const size_t n = parent.size();
        ptr.assign(n + 1, 0);
        for (size_t v = 0; v < n; ++v) {
            if (parent[v] >= 0) ++ptr[at(parent[v]) + 1];
        }
        for (size_t v = 0; v < n; ++v) ptr[v + 1] += ptr[v];
        child.resize(at(ptr[n]));
        std::vector<int32_t> fill(ptr.begin(), ptr.end() - 1);
        for (size_t v = 0; v < n; ++v) {
            if (parent[v] >= 0) {
                child[at(fill[at(parent[v])]++)] = static_cast<int32_t>(v);
            }
        }
        order.clear();
        order.reserve(n);
        order.insert(order.end(), roots.begin(), roots.end());
        for (size_t q = 0; q < order.size(); ++q) {
            const size_t v = at(order[q]);
            order.insert(order.end(), child.begin() + ptr[v], child.begin() + ptr[v + 1]);
        }
    }
};

// The lowest node of the cycle that a walk upwards from `v` ends in.
int64_t lowest_on_cycle(const std::vector<int32_t>& parent, int32_t v) {
    int32_t slow = v, fast = v;
    do {
        slow = parent[at(slow)];
        fast = parent[at(parent[at(fast)])];
    } while (slow != fast);
    int32_t low = slow;
    for (int32_t u = parent[at(slow)]; u != slow; u = parent[at(u)]) low = std::min(low, u);
    return low;
}

// Moves the root of each deep tree to its centre where that makes it much less deep. True when a
// root has moved; flipped[v]: the model's edge runs from v to its new parent.
bool centre(std::vector<int32_t>& parent, std::vector<int32_t>& roots, const Walk& walk,
            std::vector<uint8_t>& flipped) {
    constexpr int32_t kDeep = 128;  // levels: fewer are no hindrance
    const size_t n = parent.size();
    std::vector<int32_t> high(n, 0), second(n, 0), through(n, -1), tallest(n, -1);
    std::vector<int32_t> apex(n, -1);  // of the longest path in the subtree
    bool deep = false;
    for (size_t q = n; q-- > 0;) {
        const int32_t v = walk.order[q];
        const size_t i = at(v);
        const int32_t own = high[i] + second[i];
        if (own >= through[i]) {
            through[i] = own;
            apex[i] = v;
        }
        const int32_t p = parent[i];
        if (p < 0) {
            deep |= high[i] > kDeep;
            continue;
        }
        const size_t j = at(p);
        if (high[i] + 1 > high[j]) {
            second[j] = high[j];
            high[j] = high[i] + 1;
            tallest[j] = v;
        } else {
            second[j] = std::max(second[j], high[i] + 1);
        }
        if (through[i] > through[j]) {
            through[j] = through[i];
            apex[j] = apex[i];
        }
    }
    if (!deep) return false;
    bool moved = false;
    for (int32_t& root : roots) {
        const size_t r = at(root);
        const int32_t least = (through[r] + 1) / 2;
        if (high[r] <= kDeep || least > high[r] - high[r] / 4) continue;
        int32_t v = apex[r];
        while (high[at(v)] > least) v = tallest[at(v)];
        // Turn the edges between the old root and the new one round.
        int32_t below = -1, u = v;
        while (u >= 0) {
            const int32_t next = parent[at(u)];
            parent[at(u)] = below;
            if (below >= 0) flipped[at(u)] = 1;
            below = u;
            u = next;
        }
        root = v;
        moved = true;
    }
    return moved;
}

}  // namespace

TreeView Layout::view() const {
    TreeView t;
    t.n = n;
    t.n_trees = n_trees;
    t.n_blocks = n_blocks;
    t.node = node.data();
    t.parent = parent.data();
    t.children = children.data();
    t.children_end = children_end.data();
    t.children_elsewhere = children_elsewhere.data();
    t.edge = edge.data();
    t.flipped = flipped.data();
    t.tree = tree.data();
    t.begin = begin.data();
    t.block_roots = block_roots.data();
    t.above = above.data();
    t.below_ptr = below_ptr.data();
    t.below = below.data();
    t.any_flipped = any_flipped;
    return t;
}

Layout compile_tree(const int64_t* given, int64_t n, int64_t target) {
    Layout t;
    t.n = n;
    const size_t size = at(n);
    std::vector<int32_t> parent(size), roots;
    for (int64_t v = 0; v < n; ++v) {
        const int64_t p = given[v];
        if (p < -1 || p >= n || p == v) {
            t.problem = p == v ? Layout::kSelf : Layout::kRange;
            t.where = v;
            return t;
        }
        parent[at(v)] = static_cast<int32_t>(p);
        if (p < 0) {
            roots.push_back(static_cast<int32_t>(v));
            t.root.push_back(v);
        }
    }
    Walk walk;
    walk.build(parent, roots);
    if (walk.order.size() < size) {
        std::vector<uint8_t> probe(size, 0);
        for (int32_t v : walk.order) probe[at(v)] = 1;
        int32_t v = 0;
        while (probe[at(v)]) ++v;
        t.problem = Layout::kCycle;
        t.where = lowest_on_cycle(parent, v);
        return t;
    }
    t.n_trees = static_cast<int64_t>(roots.size());

    std::vector<uint8_t> flipped(size, 0);
    if (centre(parent, roots, walk, flipped)) {
        walk.build(parent, roots);
        t.any_flipped = true;
    }

    // Cutting, from the leaves up: each node and what is left below it are `rest` nodes. Where
    // they are too many for a block, runs of children are cut off.
    std::vector<int32_t> rest(size, 1);
    std::vector<uint8_t> cut(size, 0);  // 1: in a run that was cut off, 2: the first of its run
    const int64_t half = target / 2 + 1;
    auto split = [&](const int32_t* child, int64_t count, bool all) -> int64_t {
        int64_t run = 0, first = 0;
        for (int64_t k = 0; k < count; ++k) {
            run += rest[at(child[k])];
            if (run < half && !(all && k + 1 == count)) continue;
            for (int64_t j = first; j <= k; ++j) cut[at(child[j])] = j == first ? 2 : 1;
            first = k + 1;
            run = 0;
        }
        return run;
    };
    for (size_t q = size; q-- > 0;) {
        const size_t v = at(walk.order[q]);
        const int32_t* child = walk.child.data() + walk.ptr[v];
        const int64_t count = walk.ptr[v + 1] - walk.ptr[v];
        int64_t sum = 1;
        for (int64_t k = 0; k < count; ++k) sum += rest[at(child[k])];
        rest[v] = static_cast<int32_t>(sum <= target ? sum : 1 + split(child, count, false));
    }
    split(roots.data(), t.n_trees, true);

    // Blocks, parents first; nodes stably by block.
    std::vector<int32_t> block(size), tree(size);
    std::vector<int32_t> top_parent, sizes, n_block_roots;
    auto enter = [&](int32_t v, int32_t p) {
        if (p < 0 || cut[at(v)]) {  // every root is in a run that was cut off
            if (cut[at(v)] == 2) {
                top_parent.push_back(p);
                sizes.push_back(0);
                n_block_roots.push_back(0);
            }
            block[at(v)] = static_cast<int32_t>(sizes.size()) - 1;
            ++n_block_roots.back();
        } else {
            block[at(v)] = block[at(p)];
        }
        ++sizes[at(block[at(v)])];
    };
    for (size_t r = 0; r < roots.size(); ++r) {
        enter(roots[r], -1);
        tree[at(roots[r])] = static_cast<int32_t>(r);
    }
    for (int32_t v : walk.order) {
        for (int32_t k = walk.ptr[at(v)]; k < walk.ptr[at(v) + 1]; ++k) {
            enter(walk.child[at(k)], v);
            tree[at(walk.child[at(k)])] = tree[at(v)];
        }
    }
    const size_t n_blocks = sizes.size();
    t.n_blocks = static_cast<int64_t>(n_blocks);
    t.begin.assign(n_blocks + 1, 0);
    for (size_t b = 0; b < n_blocks; ++b) {
        t.begin[b + 1] = t.begin[b] + sizes[b];
        t.longest_block = std::max(t.longest_block, static_cast<int64_t>(sizes[b]));
    }
    t.slot.resize(size);
    t.node.resize(size);
    std::vector<int64_t> fill(t.begin.begin(), t.begin.end() - (n_blocks ? 1 : 0));
    for (int32_t v : walk.order) {
        const int64_t s = fill[at(block[at(v)])]++;
        t.slot[at(v)] = static_cast<int32_t>(s);
        t.node[at(s)] = v;
    }
    t.parent.resize(size);
    t.children.resize(size);
    t.children_end.resize(size);
    t.children_elsewhere.resize(size);
    t.edge.resize(size);
    t.flipped.resize(size);
    t.tree.resize(size);
    for (size_t b = 0; b < n_blocks; ++b) {
        int64_t next = t.begin[b] + n_block_roots[b];
        for (int64_t s = t.begin[b]; s < t.begin[b + 1]; ++s) {
            const size_t v = at(t.node[at(s)]);
            const int32_t p = parent[v];
            t.parent[at(s)] = p < 0 ? -1 : t.slot[at(p)];
            t.children[at(s)] = static_cast<int32_t>(next);
            for (int32_t k = walk.ptr[v + 1]; k-- > walk.ptr[v];) {
                if (cut[at(walk.child[at(k)])]) {  // what was cut off comes first
                    t.children_elsewhere[at(s)] = 1;
                    break;
                }
                ++next;
            }
            t.children_end[at(s)] = static_cast<int32_t>(next);
            t.edge[at(s)] = flipped[v] ? p : static_cast<int32_t>(v);
            t.flipped[at(s)] = flipped[v];
            t.tree[at(s)] = tree[v];
        }
    }
    t.block_roots = n_block_roots;
    t.above.resize(n_blocks);
    t.below_ptr.assign(n_blocks + 1, 0);
    for (size_t b = 0; b < n_blocks; ++b) {
        t.above[b] = top_parent[b] < 0 ? -1 : t.slot[at(top_parent[b])];
        if (top_parent[b] >= 0) ++t.below_ptr[at(block[at(top_parent[b])]) + 1];
    }
    for (size_t b = 0; b < n_blocks; ++b) t.below_ptr[b + 1] += t.below_ptr[b];
    t.below.resize(at(t.below_ptr[n_blocks]));
    std::vector<int32_t> next(t.below_ptr.begin(), t.below_ptr.end() - 1);
    for (size_t b = 0; b < n_blocks; ++b) {
        if (top_parent[b] < 0) continue;
        t.below[at(next[at(block[at(top_parent[b])])]++)] = static_cast<int32_t>(b);
    }
    return t;
}

}  // namespace vs
