// Pieces of a forest that threads take at once.
#include <limits>
#include <numeric>

#include "messages/field.h"

namespace vs::messages {
namespace {

constexpr int64_t kPiece = 256;  // factors of a piece, about

}  // namespace

void Network::Field::cut_forest() {
    bool pairs = true;  // others share their scratch
    for (int64_t f : order) pairs = pairs && pair[at(f)];
    const int64_t least = pairs ? kPiece : std::numeric_limits<int64_t>::max();
    const auto top_of = [&](int64_t f) { return l.edge_var_[at(above[at(f)])]; };
    const auto each_below = [&](int64_t f, auto&& act) {
        for (int64_t e = l.factor_ptr_[at(f)]; e < l.factor_ptr_[at(f + 1)]; ++e) {
            if (e != above[at(f)]) act(l.edge_var_[at(e)]);
        }
    };
    // Factors below each variable that no piece has yet: where these are enough, one begins.
    std::vector<int64_t> left(at(l.n_), 0);
    for (size_t i = order.size(); i-- > 0;) {
        int64_t count = 1;
        each_below(order[i], [&](int64_t u) { count += left[at(u)] < least ? left[at(u)] : 0; });
        left[at(top_of(order[i]))] += count;
    }
    std::vector<int64_t> piece(at(l.n_), -1), parent_piece;  // of a variable: of what is below it
    int64_t held = least;
    for (int64_t r : roots) {
        if (left[at(r)] == 0) continue;
        if (held >= least || parent_piece.empty()) {
            parent_piece.push_back(-1);
            held = 0;
        }
        piece[at(r)] = static_cast<int64_t>(parent_piece.size()) - 1;
        held += left[at(r)];
    }
    std::vector<int64_t> size(parent_piece.size(), 0);
    for (int64_t f : order) {
        const int64_t own = piece[at(top_of(f))];
        ++size[at(own)];
        each_below(f, [&](int64_t u) {
            const bool begins = left[at(u)] >= least;
            piece[at(u)] = begins ? static_cast<int64_t>(size.size()) : own;
            if (!begins) return;
            parent_piece.push_back(own);
            size.push_back(0);
        });
    }
    const auto n = static_cast<int64_t>(size.size());
    std::vector<int64_t> first(at(n + 1), 0);
    std::partial_sum(size.begin(), size.end(), first.begin() + 1);
    std::vector<int64_t> fill(first), sorted(order.size());
    for (int64_t f : order) sorted[at(fill[at(piece[at(top_of(f))])]++)] = f;
    order.swap(sorted);
    for (int64_t k = 0; k < n; ++k) {
        const auto cost = [&](int64_t of) { return static_cast<double>(size[at(of)]); };
        const int64_t up_piece = n - 1 - k, over = parent_piece[at(k)];
        to_roots.add(TaskKind::kUpward, first[at(up_piece)], first[at(up_piece + 1)],
                     cost(up_piece));
        from_roots.add(TaskKind::kDownward, first[at(k)], first[at(k + 1)], cost(k));
        if (over < 0) continue;
        to_roots.edge(n - 1 - k, n - 1 - over);
        from_roots.edge(over, k);
    }
    to_roots.finish(true);
    from_roots.finish(true);
}

}  // namespace vs::messages
