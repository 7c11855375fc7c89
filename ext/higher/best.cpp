#include "higher/best.h"

#include <algorithm>
#include <vector>

#include "core/at.h"
#include "core/sum.h"
#include "higher/frontier.h"

namespace vs::higher {
namespace {

bool dead(const double* x, int64_t rows, int64_t k, int64_t kp) {
    for (int64_t j = 0; j < rows; ++j) {
        if (std::any_of(x + j * kp, x + j * kp + k, [](double v) { return v > kNever; }))
            return false;
    }
    return true;
}

// Which of values (n,) the frontier would take of a node with this score: the first of those that
// make no difference to it.
int64_t first_best(const double* values, int64_t n, double score) {
    const double most = *std::max_element(values, values + n);
    int64_t h = 0;
    while (values[h] == kNever || score - (most - values[h]) != score) ++h;
    return h;
}

}  // namespace

// The best ways, of which `heads` offers what may come before a node that was taken, and `write`
// writes one from its first node, which stands at `first`, on, and returns its score. Scores that
// are equal but for rounding stay in order.
template <class Heads, class Write>
void BestWays::rank(int64_t s, Frontier& frontier, int64_t first, Heads heads, Write write) {
    const int64_t total = m_.offset[m_.sequences];
    const int64_t begin = m_.offset[s], n = m_.offset[s + 1] - begin;
    for (int64_t r = 0; r < ask_.n_best;) {
        if (!go_on(job_.control, caller_)) return;
        const int64_t i = frontier.take();
        int64_t* y = ask_.best + r * total + begin;
        double& score = ask_.log_z[r * m_.sequences + s];
        if (i < 0) {
            std::fill(y, y + n, int64_t{-1});
            score = kNever;
        } else if (frontier.taken(i).at != first) {
            heads(i);
            continue;
        } else {
            score = write(i, y);
            if (r > 0) score = std::min(score, ask_.log_z[(r - 1) * m_.sequences + s]);
            frontier.found();
        }
        ++r;
    }
}

int64_t BestWays::one_label(int64_t s) {
    const int64_t K = m_.labels, at_row = m_.offset[s] * K;
    Frontier frontier(ask_.n_best);
    for (int64_t k = 0; k < K; ++k)
        frontier.offer(m_.start[k] + m_.unary[at_row + k] + m_.end[k], 0, k, -1);
    rank(
        s, frontier, 0, [](int64_t) {},
        [&](int64_t i, int64_t* y) {
            *y = frontier.taken(i).state;
            return frontier.taken(i).score;
        });
    return ask_.log_z[s] > kNever ? -1 : 0;
}

// Scores of ways lose nothing however long they are: messages are plain sums.
double BestWays::score_second(int64_t s, const int64_t* y) const {
    const int64_t K = m_.labels, n = m_.offset[s + 1] - m_.offset[s];
    const double* const u = m_.unary + m_.offset[s] * K;
    Sum sum;
    sum.add(m_.start[y[0]] + u[y[0]]);
    sum.add(m_.first[y[0] * K + y[1]] + u[K + y[1]]);
    for (int64_t i = 2; i < n; ++i) {
        sum.add(m_.transition[(y[i - 2] * K + y[i - 1]) * K + y[i]] + u[i * K + y[i]]);
    }
    sum.add(m_.end[y[n - 1]]);
    return sum.total();
}

double BestWays::score_segments(const Segments& lattice, const int64_t* y) const {
    const int64_t K = m_.labels, L = lattice.most, kp = job_.packed.kp, s = lattice.sequence;
    const int64_t n = m_.offset[s + 1] - m_.offset[s];
    Sum sum;
    int64_t label = y[0];
    sum.add(m_.start[label]);
    for (int64_t begin = 0, e = 1; begin < n; begin = e++) {
        while (e < n && y[e] < 0) ++e;
        const double own = lattice.weight[(begin * L + e - begin - 1) * kp + y[begin]];
        sum.add(begin > 0 ? own + m_.transition[label * K + y[begin]] : own);
        label = y[begin];
    }
    sum.add(m_.end[label]);
    return sum.total();
}

// scores: (n - 1, K, kp), of the pairs that end at 1, 2, ..., [label before][label]. States are
// pairs, the label times K and the one before: the lowest come first.
int64_t BestWays::second(int64_t s, const double* scores) {
    const int64_t K = m_.labels, kp = job_.packed.kp, size = K * kp;
    const int64_t n = m_.offset[s + 1] - m_.offset[s];
    const double* const last = scores + (n - 2) * size;
    if (dead(last, K, K, kp)) {
        const double* const u = m_.unary + m_.offset[s] * K;
        bool some = false;
        for (int64_t k = 0; k < K; ++k) some = some || m_.start[k] + u[k] > kNever;
        int64_t i = some ? 1 : 0;
        while (some && !dead(scores + (i - 1) * size, K, K, kp)) ++i;
        return i;
    }
    std::vector<double> values(at(K));
    const auto look = [&](int64_t i, int64_t f, int64_t k) {  // what comes before f, k at i - 1, i
        const double* const a = scores + (i - 2) * size + f;
        for (int64_t b = 0; b < K; ++b)
            values[at(b)] = a[b * kp] + m_.transition[(b * K + f) * K + k];
    };
    if (ask_.n_best == 1) {
        int64_t k = 0, f = 0;
        double score = kNever;
        for (int64_t to = 0; to < K; ++to) {
            for (int64_t from = 0; from < K; ++from) {
                if (!(last[from * kp + to] > score)) continue;
                score = last[from * kp + to];
                k = to;
                f = from;
            }
        }
        int64_t* const y = ask_.best + m_.offset[s];
        y[n - 1] = k;
        y[n - 2] = f;
        for (int64_t i = n - 1; i >= 2; --i) {
            look(i, y[i - 1], y[i]);
            y[i - 2] = first_best(values.data(), K, score);
        }
        ask_.log_z[s] = score_second(s, y);
        return -1;
    }
    Frontier frontier(ask_.n_best);
    for (int64_t k = 0; k < K; ++k) {
        for (int64_t f = 0; f < K; ++f) frontier.offer(last[f * kp + k], n - 1, k * K + f, -1);
    }
    const auto heads = [&](int64_t i) {
        const Frontier::Node node = frontier.taken(i);
        const int64_t k = node.state / K, f = node.state % K;
        look(node.at, f, k);
        frontier.expand(i, values.data(), K, [&](int64_t b) {
            return std::pair<int64_t, int64_t>(node.at - 1, f * K + b);
        });
    };
    rank(s, frontier, 1, heads, [&](int64_t i, int64_t* y) {
        y[0] = frontier.taken(i).state % K;
        for (; i >= 0; i = frontier.taken(i).next) {
            y[frontier.taken(i).at] = frontier.taken(i).state / K;
        }
        return score_second(s, y);
    });
    return -1;
}

// States are the label at the first position of a segment, -1 at the others. Nodes are ends of
// segments with their labels; what comes before one is the end of the segment before it.
int64_t BestWays::segments(const Segments& lattice) {
    const int64_t K = m_.labels, L = lattice.most, kp = job_.packed.kp, s = lattice.sequence;
    const int64_t n = m_.offset[s + 1] - m_.offset[s];
    const double *const last = lattice.ended + n * kp, *const table = m_.transition;
    if (dead(last, 1, K, kp)) {
        int64_t e = 1;
        while (!dead(lattice.ended + e * kp, 1, K, kp)) ++e;
        return e - 1;
    }
    std::vector<double> values(at(L * K));
    const auto look = [&](int64_t e, int64_t k) {  // what comes before a segment of k up to e
        const int64_t most = std::min(L, e);
        for (int64_t d = 1; d <= most; ++d) {
            const int64_t from = e - d;
            const double own = lattice.weight[(from * L + d - 1) * kp + k];
            double* const row = values.data() + (d - 1) * K;
            std::fill(row, row + K, kNever);
            if (from == 0) {
                row[0] = m_.start[k] + own;
                continue;
            }
            const double* const a = lattice.ended + from * kp;
            for (int64_t j = 0; j < K; ++j) row[j] = a[j] + table[j * K + k] + own;
        }
        return most * K;
    };
    if (ask_.n_best == 1) {
        const double* const top = std::max_element(last, last + K);
        int64_t* const y = ask_.best + m_.offset[s];
        std::fill(y, y + n, int64_t{-1});
        for (int64_t e = n, k = top - last; e > 0;) {
            const int64_t h = first_best(values.data(), look(e, k), *top);
            e -= h / K + 1;
            y[e] = k;
            k = h % K;
        }
        ask_.log_z[s] = score_segments(lattice, y);
        return -1;
    }
    Frontier frontier(ask_.n_best);
    for (int64_t k = 0; k < K; ++k) frontier.offer(last[k], n, k, -1);
    const auto heads = [&](int64_t i) {
        const Frontier::Node node = frontier.taken(i);
        const int64_t count = look(node.at, node.state);
        frontier.expand(i, values.data(), count, [&](int64_t h) {
            return std::pair<int64_t, int64_t>(node.at - 1 - h / K, h % K);
        });
    };
    rank(s, frontier, 0, heads, [&](int64_t i, int64_t* y) {
        std::fill(y, y + n, int64_t{-1});
        for (; frontier.taken(i).next >= 0; i = frontier.taken(i).next) {
            y[frontier.taken(i).at] = frontier.taken(frontier.taken(i).next).state;
        }
        return score_segments(lattice, y);
    });
    return -1;
}

}  // namespace vs::higher
