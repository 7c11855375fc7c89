// The order of supports.h.
#include <algorithm>

#include "core/at.h"
#include "supports/supports.h"

namespace vs::supports {
namespace {

// Below each variable of a forest, parents first: their places follow from the sizes.
void stand(const int64_t* parent, Order* o) {
    const int64_t n = o->offset.back();
    std::vector<int32_t> waits(at(n), 0), below(at(n), 1);
    std::vector<int64_t> bottom_up, next(at(n));
    bottom_up.reserve(at(n));
    for (int64_t v = 0; v < n; ++v) {
        if (parent[v] >= 0) ++waits[at(parent[v])];
    }
    for (int64_t v = 0; v < n; ++v) {
        if (waits[at(v)] == 0) bottom_up.push_back(v);
    }
    for (std::size_t i = 0; i < bottom_up.size(); ++i) {
        const int64_t up = parent[bottom_up[i]];
        if (up < 0) continue;
        below[at(up)] += below[at(bottom_up[i])];
        if (--waits[at(up)] == 0) bottom_up.push_back(up);
    }
    int64_t component = 0;
    for (int64_t v = 0; v < n; ++v) {
        if (parent[v] < 0) next[at(v)] = o->offset[at(component++)];
    }
    for (std::size_t i = bottom_up.size(); i-- > 0;) {
        const int64_t v = bottom_up[i], up = parent[v];
        if (up >= 0) {
            next[at(v)] = next[at(up)];
            next[at(up)] += below[at(v)];
        }
        const int64_t place = next[at(v)] + below[at(v)] - 1;
        o->variable[at(place)] = v;
        o->size[at(place)] = below[at(v)];
    }
}

void stand_in_line(Order* o) {
    for (int64_t b = 0; b < o->n_components(); ++b) {
        for (int64_t i = o->offset[at(b)]; i < o->offset[at(b) + 1]; ++i) {
            o->variable[at(i)] = i;
            o->size[at(i)] = static_cast<int32_t>(i - o->offset[at(b)] + 1);
        }
    }
}

}  // namespace

void place(const int64_t* parent, const int64_t* offset, int64_t count, Order* o) {
    o->downward = parent != nullptr;
    o->offset.assign(offset, offset + count + 1);
    const std::size_t n = at(o->offset.back());
    o->variable.resize(n);
    o->size.resize(n);
    o->slot.assign(n, 0);
    o->side.assign(n, -1);
    o->slots.assign(at(count), 0);
    o->sides.assign(at(count), 0);
    if (parent != nullptr) {
        stand(parent, o);
    } else {
        stand_in_line(o);
    }
    // A message from above is held from when its parent sends it until it has been met.
    std::vector<int32_t> free;
    for (int64_t b = 0; b < count; ++b) {
        const int64_t begin = offset[b];
        free.clear();
        int32_t slots = 0, sides = 0;
        const auto take = [&] {
            if (free.empty()) return slots++;
            const int32_t found = free.back();
            free.pop_back();
            return found;
        };
        for (int64_t i = offset[b + 1] - 1; i >= begin; --i) {
            if (i == offset[b + 1] - 1) o->slot[at(i)] = take();
            const int64_t below = o->size[at(i)] - 1;
            for (int64_t c = i - 1; c >= i - below; c -= o->size[at(c)]) {
                o->slot[at(c)] = take();
                if (o->size[at(i - 1)] < below) o->side[at(c)] = sides++;
            }
            free.push_back(o->slot[at(i)]);
        }
        o->slots[at(b)] = slots;
        o->sides[at(b)] = sides;
    }
}

}  // namespace vs::supports
