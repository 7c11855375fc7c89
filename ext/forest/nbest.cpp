#include "forest/nbest.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <new>
#include <vector>

#include "core/at.h"
#include "rows/sparse_table.h"

namespace vs {
namespace {

using std::size_t;

constexpr double kNever = -std::numeric_limits<double>::infinity();
constexpr int64_t kPolled = 200'000;       // heads looked at between two polls: about 2 ms
constexpr int64_t kBest = -1, kNone = -2;  // instead of an entry

// Lazy k-best lists (Huang and Chiang 2005, algorithm 3). A cell is a label at a position, and has
// a list of the prefixes that end there, best first:
//
//   list(i, y) = merge over l of  list(i - 1, l) + t(l, y) + u_i(y)
//
// The firsts of all lists are known (`rows`). A list is opened when its second is asked for: it
// then holds one head for each l, the next of that list. The next of a list is the best of its
// heads, once the one taken last has been replaced, for which one list before it is asked for its
// next. So a further configuration costs at most one sweep over K heads at each position.
template <class In>
class Lists {
  public:
    Lists(const NBest& call, int64_t sequence, const double* rows, Scratch& scratch, bool caller)
        : call_(call),
          c_(call.c),
          K_(c_.n_labels),
          begin_(c_.offset[sequence]),
          n_(c_.offset[sequence + 1] - begin_),
          edge_(c_.edge[sequence]),
          rows_(rows),
          scratch_(scratch),
          caller_(caller),
          row_(scratch.array<double>(2 * call.stride)),
          opened_(at(n_ + 1), kNone),
          path_(at(n_ + 1)) {
        if (scratch.failed) throw std::bad_alloc();
        std::fill_n(row_, 2 * call.stride, kNever);
        cells_.reserve(at(2 * n_ + 2));  // so much for the second best, at least
        entries_.reserve(at(3 * n_ + 3));
    }

    // The next best configuration: an entry for `trace`, or kNone when there are no more.
    int64_t next() {
        if (cells_.empty()) {  // the list of all configurations follows the last position
            open(n_, 0);
            return cells_[0].last;
        }
        int64_t i = n_, cell = 0;
        for (;; --i) {
            if (stopped()) return kNone;
            path_[at(i)] = cell;
            const int32_t l = cells_[at(cell)].taken;
            if (l < 0) break;
            int64_t below = find(i - 1, l);
            if (below == kNone) below = open(i - 1, l);
            const Cell& before = cells_[at(below)];
            if (entries_[at(offered(cell, l, before))].next != kNone || before.taken < 0) break;
            cell = below;
        }
        for (; i <= n_; ++i) {
            if (stopped()) return kNone;
            cell = path_[at(i)];
            const int32_t l = cells_[at(cell)].taken;
            if (l < 0) return kNone;
            const Cell& list = cells_[at(cell)];
            const int64_t entry = entries_[at(offered(cell, l, cells_[at(find(i - 1, l))]))].next;
            list.offer[l] = entry;
            list.score[l] =
                entry == kNone ? kNever : extended(i, list.label, l, entries_[at(entry)].score);
            take(cell, call_.heads.largest(list.score, K_));
        }
        return cells_[0].taken < 0 ? kNone : cells_[0].last;
    }

    double score(int64_t entry) const { return entries_[at(entry)].score; }

    // The labels of a configuration; false: stopped.
    bool trace(int64_t entry, int64_t* x) {
        int64_t label = entries_[at(entry)].from;
        entry = entries_[at(entry)].before;
        for (int64_t i = n_ - 1;; --i) {
            x[i] = label;
            if (i == 0) return true;
            if (entry == kBest) {
                const int64_t cell = find(i, label);
                if (cell != kNone) entry = cells_[at(cell)].first;
            }
            if (entry != kBest) {
                label = entries_[at(entry)].from;
                entry = entries_[at(entry)].before;
                continue;
            }
            if (stopped()) return false;
            label = best_before(i, label);
        }
    }

  private:
    struct Entry {
        double score;
        int64_t before;  // its prefix, in the list of `from`; kBest: the first
        int64_t next;    // in its own list; kNone: not found yet
        int32_t from;    // the label before
    };
    struct Cell {
        int64_t first, last;   // entries of its list
        int64_t sibling;       // another list of the same position, or kNone
        double* score;         // (K,) of heads, -inf beyond
        int64_t* offer;        // (K,) what they are
        int32_t label, taken;  // taken: the label of the head that is to be replaced, -1: no more
    };

    int64_t find(int64_t i, int64_t y) const {  // kNone: not opened
        int64_t cell = opened_[at(i)];
        while (cell != kNone && cells_[at(cell)].label != y) cell = cells_[at(cell)].sibling;
        return cell;
    }

    // Lists opened at position 0 have one entry; n_ stands for the end of all configurations.
    int64_t open(int64_t i, int32_t y) {
        const int64_t cell = static_cast<int64_t>(cells_.size());
        cells_.push_back({kNone, kNone, opened_[at(i)], nullptr, nullptr, y, -1});
        opened_[at(i)] = cell;
        if (i == 0) {
            append(cell, {rows_[y], kBest, kNone, -1});
            return cell;
        }
        if (unused_ == 0) {  // as much again
            unused_ = std::max<int64_t>(cell, 64);
            scores_ = scratch_.array<double>(unused_ * call_.stride);
            offers_ = scratch_.array<int64_t>(unused_ * K_);
            if (scratch_.failed) throw std::bad_alloc();
        }
        --unused_;
        double* score = cells_.back().score = scores_ + unused_ * call_.stride;
        int64_t* offer = cells_.back().offer = offers_ + unused_ * K_;
        std::fill_n(offer, K_, kBest);
        take(cell, extend_all(i, y, score));
        return cell;
    }

    // Takes the head of a label, the best of the list; -1: there is none.
    void take(int64_t cell, int l) {
        const Cell& list = cells_[at(cell)];
        if (l >= 0) append(cell, {list.score[l], list.offer[l], kNone, l});
        cells_[at(cell)].taken = l;
    }

    void append(int64_t cell, const Entry& entry) {
        const int64_t e = static_cast<int64_t>(entries_.size());
        entries_.push_back(entry);
        Cell& list = cells_[at(cell)];
        (list.first == kNone ? list.first : entries_[at(list.last)].next) = e;
        list.last = e;
    }

    // The entry of the list before that head l stands for.
    int64_t offered(int64_t cell, int32_t l, const Cell& before) const {
        const int64_t entry = cells_[at(cell)].offer[l];
        return entry == kBest ? before.first : entry;
    }

    // The score of a prefix of l that goes on to y at i.
    double extended(int64_t i, int64_t y, int64_t l, double s) const {
        return i == n_ ? s + 0.0 : s + step(i, l, y) + local(i, y);
    }
    // The firsts of all lists before, gone on to y at i; returns the best label.
    int extend_all(int64_t i, int64_t y, double* heads) const {
        const double* x = rows_ + (i - 1) * call_.stride;
        return i == n_ ? call_.heads.extend(x, nullptr, 0.0, K_, heads)
                       : call_.heads.extend(x, column(i, y), local(i, y), K_, heads);
    }
    int64_t best_before(int64_t i, int64_t y) const {
        return std::max(0, extend_all(i, y, row_ + call_.stride));
    }

    // The scores of steps to y at i from each label.
    const double* column(int64_t i, int64_t y) const {
        if (call_.columns) return call_.columns + y * call_.stride;
        for (int64_t l = 0; l < K_; ++l) row_[l] = step(i, l, y);
        return row_;
    }

    double step(int64_t i, int64_t l, int64_t y) const {
        if (!c_.transition) return c_.sparse->at_pair(c_.dtype, l, y);
        const int64_t table = c_.per_edge ? edge_ + i - 1 : 0;
        return static_cast<double>(
            static_cast<const In*>(c_.transition)[(table * K_ + l) * K_ + y]);
    }
    double local(int64_t i, int64_t y) const {
        const In *start = static_cast<const In*>(c_.start), *end = static_cast<const In*>(c_.end);
        if (c_.allowed && !c_.allowed[(begin_ + i) * K_ + y]) return kNever;
        double x = static_cast<double>(static_cast<const In*>(c_.unary)[(begin_ + i) * K_ + y]);
        if (i == 0 && start) x += static_cast<double>(start[y]);
        if (i == n_ - 1 && end) x += static_cast<double>(end[y]);
        return x;
    }

    // After each sweep over K.
    bool stopped() {
        left_ -= K_ + 16;
        if (left_ > 0) return false;
        left_ = kPolled;
        Control& control = call_.control;
        if (control.stop.load(std::memory_order_relaxed)) return true;
        if (!caller_ || !control.poll || !control.poll(control.arg)) return false;
        control.stop.store(1);
        return true;
    }

    const NBest& call_;
    const Chains& c_;
    const int64_t K_, begin_, n_, edge_;
    const double* rows_;
    Scratch& scratch_;
    const bool caller_;
    double* row_;  // (2, stride) temporary
    int64_t left_ = kPolled;
    int64_t unused_ = 0;  // lists whose heads still have memory
    double* scores_ = nullptr;
    int64_t* offers_ = nullptr;
    std::vector<Cell> cells_;      // lists that were opened; the first: of all configurations
    std::vector<Entry> entries_;   // of all lists
    std::vector<int64_t> opened_;  // (n + 1,) the last that was opened at a position, or kNone
    std::vector<int64_t> path_;    // (n + 1,) lists that are asked for their next
};

template <class In>
void n_best_of(const NBest& call, int64_t sequence, const double* rows, Scratch& scratch,
               bool caller) {
    const Chains& c = call.c;
    const int64_t begin = c.offset[sequence], n = c.offset[sequence + 1] - begin;
    Lists<In> lists(call, sequence, rows, scratch, caller);
    int64_t entry = kBest;
    for (int64_t r = 0; r < call.k; ++r) {
        int64_t* x = call.states + r * c.n_positions + begin;
        if (entry != kNone) entry = lists.next();
        if (call.control.stop.load(std::memory_order_relaxed)) return;
        if (entry == kNone) {
            std::fill(x, x + n, int64_t{-1});
            continue;
        }
        call.scores[r * c.n_sequences + sequence] = lists.score(entry);
        if (!lists.trace(entry, x)) return;
    }
}

}  // namespace

void lead_with(const NBest& call, int64_t sequence, const int64_t* path, double score) {
    const Chains& c = call.c;
    const int64_t k = call.k;
    const int64_t begin = c.offset[sequence], n = c.offset[sequence + 1] - begin;
    const auto row = [&](int64_t r) { return call.states + r * c.n_positions + begin; };
    const auto score_of = [&](int64_t r) -> double& {
        return call.scores[r * c.n_sequences + sequence];
    };
    int64_t at = 0;  // where it stands, or the place of the worst
    while (at < k - 1 && !std::equal(path, path + n, row(at))) ++at;
    for (int64_t r = at; r > 0; --r) {
        std::copy(row(r - 1), row(r - 1) + n, row(r));
        score_of(r) = score_of(r - 1);
    }
    std::copy(path, path + n, row(0));
    score_of(0) = score;
    // Sums that are equal but for rounding stay in order.
    for (int64_t r = 1; r < k; ++r) score_of(r) = std::min(score_of(r), score_of(r - 1));
}

void n_best(const NBest& call, int64_t sequence, const double* rows, Scratch& scratch,
            bool caller) {
    call.c.dtype == kFloat32 ? n_best_of<float>(call, sequence, rows, scratch, caller)
                             : n_best_of<double>(call, sequence, rows, scratch, caller);
}

}  // namespace vs
