// The memory of a component: rows and numbers of its positions.
#pragma once

#include "supports/message.h"

namespace VS_NS {

using vs::supports::Node;
using vs::supports::Order;

class Positions {
  protected:
    Positions(const Order& order, int64_t number, int64_t kp, Space& space)
        : order_(order),
          first_(order.offset[index(number)]),
          n_(order.length(number)),
          kp_(kp),
          size_(order.size.data() + first_),
          nodes_(space.nodes.get()),
          rows_(space.rows.get() + 4 * kp),
          slots_(row(3 * n_)),
          sides_(slots_ + 4 * order.slots[index(number)] * kp),
          rest_(sides_ + 2 * order.sides[index(number)] * kp) {}

    const Order& order_;
    int64_t first_, n_, kp_;
    const int32_t* size_;  // of what lies below a position, with it
    Node* nodes_;
    float* rows_;            // psi, a.l, a.e of each position
    float *slots_, *sides_;  // b.l, b.e, x.l, x.e; the messages to a parent of several
    float* rest_;            // three rows more

    static std::size_t index(int64_t i) { return static_cast<std::size_t>(i); }
    int64_t variable(int64_t i) const { return order_.variable[index(first_ + i)]; }
    float* row(int64_t i) { return rows_ + i * kp_; }
    float* psi(int64_t i) { return row(3 * i); }
    Enclosure a(int64_t i) {
        return {row(3 * i + 1), row(3 * i + 2), nodes_[i].g, nodes_[i].total};
    }
    // The message from above, and what it was sent of.
    Enclosure above(int64_t i) {
        float* const l = slots_ + 4 * kp_ * order_.slot[index(first_ + i)];
        return {l, l + kp_, nodes_[i].above_g, 0.0};
    }
    Enclosure entered(int64_t i) {
        float* const l = above(i).l + 2 * kp_;
        return {l, l + kp_, nodes_[i].x_g, nodes_[i].x_total};
    }
    // The message to a parent of several.
    Enclosure side(int64_t i) {
        float* const l = sides_ + 2 * kp_ * order_.side[index(first_ + i)];
        return {l, l + kp_, nodes_[i].side_g, 0.0};
    }
    Message::Sent sent_up(int64_t i) const { return {nodes_[i].factor, nodes_[i].widened}; }
    Message::Sent sent_down(int64_t i) const {
        return {nodes_[i].above_factor, nodes_[i].above_widened};
    }

    bool leaf(int64_t i) const { return size_[i] == 1; }
    bool lone(int64_t i) const { return i > 0 && size_[i - 1] == size_[i] - 1; }
    // f(child), as long as it is true.
    template <class F>
    VS_INLINE bool for_children(int64_t i, F f) {
        for (int64_t c = i - 1; c > i - size_[i]; c -= size_[c]) {
            if (!f(c)) return false;
        }
        return true;
    }
};

}  // namespace VS_NS
