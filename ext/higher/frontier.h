// The k best ways through a lattice, by a search from its end that knows the best way to each node
// from the beginning: what is on the frontier has the score of the best whole way through it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <set>
#include <utility>
#include <vector>

#include "higher/log_table.h"

namespace vs::higher {

class Frontier {
  public:
    struct Node {
        double score;
        int64_t at, state, next;  // next: among `taken`, what follows on the way; -1 at the end
        int64_t steps, order;     // from the end; in which nodes were offered
    };

    explicit Frontier(int64_t wanted) : room_(wanted), nodes_(Better{&taken_}) {}
    Frontier(const Frontier&) = delete;
    Frontier& operator=(const Frontier&) = delete;

    // Each node stands for a way at least, so that no more of them matter than ways are wanted.
    void offer(double score, int64_t at, int64_t state, int64_t next) {
        if (score == kNever || room_ == 0) return;
        const int64_t steps = next < 0 ? 0 : taken(next).steps + 1;
        nodes_.insert({score, at, state, next, steps, order_++});
        if (static_cast<int64_t>(nodes_.size()) > room_) nodes_.erase(std::prev(nodes_.end()));
    }
    // Takes the best node: its place among `taken`, or -1.
    int64_t take() {
        if (nodes_.empty()) return -1;
        taken_.push_back(*nodes_.begin());
        nodes_.erase(nodes_.begin());
        return static_cast<int64_t>(taken_.size()) - 1;
    }
    const Node& taken(int64_t i) const { return taken_[static_cast<size_t>(i)]; }
    // Offers the heads of a node that was taken: values (n,), of which the best is what led to it.
    template <class Head>
    void expand(int64_t i, const double* values, int64_t n, Head head) {
        const double most = *std::max_element(values, values + n), score = taken(i).score;
        for (int64_t h = 0; h < n; ++h) {
            if (values[h] == kNever) continue;
            const auto [at, state] = head(h);
            offer(score - (most - values[h]), at, state, i);
        }
    }
    void found() { --room_; }  // one way

  private:
    // Among equals that comes first which came first among the heads of the node, read from the
    // end, where their ways part.
    struct Better {
        const std::vector<Node>* taken;
        bool operator()(Node a, Node b) const {
            if (a.score != b.score) return a.score > b.score;
            const auto go_on = [&](Node* n) { *n = (*taken)[static_cast<size_t>(n->next)]; };
            while (a.steps > b.steps) go_on(&a);
            while (b.steps > a.steps) go_on(&b);
            while (a.next != b.next) {
                go_on(&a);
                go_on(&b);
            }
            return a.order < b.order;
        }
    };
    int64_t room_, order_ = 0;
    std::vector<Node> taken_;
    std::set<Node, Better> nodes_;
};

}  // namespace vs::higher
