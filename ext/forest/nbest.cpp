#include "forest/nbest.h"

#include <algorithm>
#include <new>
#include <vector>

#include "core/at.h"
#include "core/logs.h"
#include "rows/sparse_table.h"

namespace vs {
namespace {

constexpr int64_t kPolled = 200'000;  // heads looked at between two polls: about 2 ms
constexpr int32_t kUnknown = -2;      // instead of a label, of which -1 is none

// An array that is not zeroed.
template <class T>
T* room(Scratch& scratch, int64_t n) {
    T* const x = scratch.array<T>(n);
    if (!x) throw std::bad_alloc();
    return x;
}

// Objects that keep their places.
template <class T>
class Supply {
  public:
    explicit Supply(Scratch& scratch) : scratch_(scratch) {}
    void begin(int64_t n) {
        next_ = room<T>(scratch_, n);
        left_ = in_all_ = n;
    }
    T* add(const T& x) {
        if (left_ == 0) {  // as many again
            next_ = room<T>(scratch_, in_all_);
            left_ = in_all_;
            in_all_ *= 2;
        }
        --left_;
        return new (next_++) T(x);
    }

  private:
    Scratch& scratch_;
    T* next_ = nullptr;
    int64_t left_ = 0, in_all_ = 0;
};

// Lazy k-best lists (Huang and Chiang 2005, algorithm 3). A cell is a label at a position, and has
// a list of the prefixes that end there, best first:
//
//   list(i, y) = merge over l of  list(i - 1, l) + t(l, y) + u_i(y)
//
// The firsts of all lists are known (`rows`). A list is opened when its second is asked for: it
// then holds one head for each l, the next of that list. The next of a list is the best of its
// heads, once the one taken last has been replaced, for which one list before it is asked for its
// next. So a further configuration costs at most one sweep over K heads at each position.
//
// The second best asks all lists along the best, which are opened together.
template <class In>
class Lists {
  public:
    // A prefix.
    struct Entry {
        double score;
        const Entry* before;  // what it goes on from, in the list of `from`; null: the first
        Entry* next;          // in its own list; null: not found yet
        int32_t from;         // the label before
    };

    Lists(const NBest& call, Scratch& scratch, bool caller)
        : call_(call),
          c_(call.c),
          K_(c_.n_labels),
          scratch_(scratch),
          caller_(caller),
          row_(room<double>(scratch, 2 * call.stride)),
          cells_(scratch),
          entries_(scratch) {
        std::fill_n(row_, 2 * call.stride, kNever);
    }

    // Turns to a sequence; its memory lies behind what the scratch has handed out.
    void begin(int64_t sequence, const double* rows) {
        begin_ = c_.offset[sequence];
        n_ = c_.offset[sequence + 1] - begin_;
        edge_ = c_.edge[sequence];
        rows_ = rows;
        best_ = call_.best + begin_;
        along_ = all_ = nullptr;
        // So much for the second best, at least.
        cells_.begin(2 * n_ + 2);
        entries_.begin(3 * n_ + 3);
        opened_.assign(at(n_ + 1), nullptr);
        path_.resize(at(n_ + 1));
    }

    // The next best configuration, for `trace`; null when there are no more.
    const Entry* next() {
        if (!all_) return open_along() ? all_->last : nullptr;
        if (all_->taken < 0) return nullptr;
        Cell* cell = all_;
        const Entry* entry;
        int64_t i = n_;
        for (;; --i) {
            if (stopped()) return nullptr;
            path_[at(i)] = cell;
            if (!cell->below) look_below(i, *cell);
            entry = cell->offered->next;
            if (entry || cell->below->taken < 0) break;
            cell = cell->below;
        }
        for (;; ++i) {
            if (stopped()) return nullptr;
            cell = path_[at(i)];
            replace(i, *cell, entry);
            entry = cell->taken < 0 ? nullptr : cell->last;
            if (i == n_) return entry;
        }
    }

    // The labels of a configuration; false: stopped.
    bool trace(const Entry* entry, int64_t* x) {
        left_ -= n_;
        int64_t label = entry->from;
        entry = entry->before;
        for (int64_t i = n_ - 1;; --i) {
            x[i] = label;
            if (i == 0) return true;
            if (!entry) {
                const Cell* const cell = find(i, label);
                if (along_ && cell == along_ + (n_ - i)) {
                    std::copy_n(best_, i, x);
                    return true;
                }
                if (cell) entry = cell->first;
            }
            if (entry) {
                label = entry->from;
                entry = entry->before;
                continue;
            }
            if (stopped()) return false;
            label = best_before(i, label);
        }
    }

  private:
    struct Cell {
        Entry *first, *last;   // of its list
        Cell* sibling;         // another list of the same position, or null
        Cell* below;           // where the head taken last comes from; null: not looked up
        const Entry* offered;  // its entry there
        double* score;         // (K,) of heads, -inf where one was taken
        const Entry** offer;   // (K,) what they are; null: the first of their lists
        const double* steps;   // (K,) scores of steps to the label, or null
        double local, most;    // the score of the label; of the best head beside the one taken
        int32_t label, taken;  // taken: the label of the head that is to be replaced, -1: no more
        int32_t other;         // the label of `most`; kUnknown
    };

    Cell* find(int64_t i, int64_t y) const {  // null: not opened
        Cell* cell = opened_[at(i)];
        while (cell && cell->label != y) cell = cell->sibling;
        return cell;
    }

    // Opens the lists along the best configuration as far as it is that of these sums: that labels
    // are known before heads are lets sweeps overlap. False: stopped.
    bool open_along() {
        double* const scores = room<double>(scratch_, n_ * call_.stride);
        double* const locals = room<double>(scratch_, n_);
        const Entry** const offers = room<const Entry*>(scratch_, n_ * K_);
        int32_t* const largest = room<int32_t>(scratch_, n_);
        for (int64_t i = n_; i > 0; --i) {
            if (stopped()) return false;
            const int64_t y = i == n_ ? 0 : best_[i];
            locals[i - 1] = local(i, y);
            largest[i - 1] = extend_all(i, y, locals[i - 1], scores + (i - 1) * call_.stride);
        }
        int32_t y = 0;
        for (int64_t i = n_; i > 0; --i) {
            if (stopped()) return false;
            const int32_t l = largest[i - 1];
            Cell* const cell =
                add(i, y, locals[i - 1], scores + (i - 1) * call_.stride, offers + (i - 1) * K_, l);
            if (i == n_) all_ = cell;
            if (l != best_[i - 1]) return true;
            y = l;
        }
        add_first(y);
        along_ = all_;
        return true;
    }

    Cell* open(int64_t i, int32_t y) {
        if (i == 0) return add_first(y);
        double* const heads = room<double>(scratch_, call_.stride);
        const Entry** const offers = room<const Entry*>(scratch_, K_);
        const double u = local(i, y);
        const int l = extend_all(i, y, u, heads);
        return add(i, y, u, heads, offers, l);
    }

    // A list with these heads, of which the best, that of label l, is taken; -1: there is none.
    // n_ stands for the end of all configurations.
    Cell* add(int64_t i, int32_t y, double u, double* heads, const Entry** offers, int32_t l) {
        const bool shared = call_.columns && i < n_;
        Cell* const cell = cells_.add({nullptr, nullptr, opened_[at(i)], nullptr, nullptr, heads,
                                       offers, shared ? call_.columns + y * call_.stride : nullptr,
                                       u, kNever, y, l, kUnknown});
        opened_[at(i)] = cell;
        if (offers) std::fill_n(offers, K_, nullptr);
        if (l < 0) return cell;
        cell->first = cell->last = entries_.add({heads[l], nullptr, nullptr, l});
        heads[l] = kNever;  // until it is replaced
        return cell;
    }
    // One of position 0, which has one entry and no heads.
    Cell* add_first(int32_t y) {
        Cell* const cell = add(0, y, 0.0, nullptr, nullptr, -1);
        cell->first = cell->last = entries_.add({rows_[y], nullptr, nullptr, -1});
        return cell;
    }

    // Finds where the head taken last comes from; opens that list.
    void look_below(int64_t i, Cell& list) {
        const int32_t l = list.taken;
        Cell* const found = find(i - 1, l);
        list.below = found ? found : open(i - 1, l);
        list.offered = list.offer[l] ? list.offer[l] : list.below->first;
    }

    // Replaces the head taken last by an entry, or by nothing, and takes the best.
    void replace(int64_t i, Cell& list, const Entry* entry) {
        const int32_t l = list.taken;
        if (list.other == kUnknown) {
            list.other = call_.heads.largest(list.score, K_);
            list.most = list.other < 0 ? kNever : list.score[list.other];
        }
        if (entry) {
            const double t = list.steps ? list.steps[l] : i == n_ ? 0.0 : step(i, l, list.label);
            const double s = entry->score + t + list.local;
            if (s > list.most || (s == list.most && l < list.other)) {  // it comes from there again
                list.offered = entry;
                return append(list, {s, entry, nullptr, l});
            }
            list.score[l] = s;
        }
        list.offer[l] = entry;
        const int32_t best = list.other;
        list.taken = best;
        list.other = kUnknown;
        list.below = nullptr;
        if (best < 0) return;
        append(list, {list.most, list.offer[best], nullptr, best});
        list.score[best] = kNever;
    }

    void append(Cell& list, const Entry& entry) {
        Entry* const e = entries_.add(entry);
        list.last->next = e;
        list.last = e;
    }

    // The firsts of all lists before, gone on to y at i; returns the best label.
    int extend_all(int64_t i, int64_t y, double u, double* heads) const {
        const double* x = rows_ + (i - 1) * call_.stride;
        return call_.heads.extend(x, i == n_ ? nullptr : column(i, y), u, K_, heads);
    }
    int64_t best_before(int64_t i, int64_t y) const {
        return std::max(0, extend_all(i, y, local(i, y), row_ + call_.stride));
    }

    // The scores of steps to y at i from each label.
    const double* column(int64_t i, int64_t y) const {
        if (call_.columns) return call_.columns + y * call_.stride;
        if (call_.listed) {
            call_.heads.column(*call_.listed, y, call_.stride, row_);
            return row_;
        }
        for (int64_t l = 0; l < K_; ++l) row_[l] = step(i, l, y);
        return row_;
    }
    double step(int64_t i, int64_t l, int64_t y) const {
        if (!c_.transition) return c_.sparse->at_pair(c_.dtype, l, y);
        const int64_t table = c_.per_edge ? edge_ + i - 1 : 0;
        return static_cast<double>(
            static_cast<const In*>(c_.transition)[(table * K_ + l) * K_ + y]);
    }
    double local(int64_t i, int64_t y) const {  // 0 at the end of all
        if (i == n_) return 0.0;
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
    const int64_t K_;
    Scratch& scratch_;
    const bool caller_;
    double* row_;                           // (2, stride) temporary
    int64_t begin_ = 0, n_ = 0, edge_ = 0;  // of the sequence
    const double* rows_ = nullptr;
    const int64_t* best_ = nullptr;  // its best configuration
    int64_t left_ = kPolled;
    Cell* all_ = nullptr;    // the list of all configurations, which follows the last position
    Cell* along_ = nullptr;  // (n + 1,) those along the best configuration, last first; or null
    Supply<Cell> cells_;
    Supply<Entry> entries_;
    std::vector<Cell*> opened_;  // (n + 1,) the list opened last at a position, or null
    std::vector<Cell*> path_;    // (n + 1,) lists that are asked for their next
};

// Puts the best configuration, and its score, before what was found: moves it there, or drops the
// last for it.
void lead_with_best(const NBest& call, int64_t sequence) {
    const Chains& c = call.c;
    const int64_t k = call.k;
    const int64_t begin = c.offset[sequence], n = c.offset[sequence + 1] - begin;
    const int64_t* const best = call.best + begin;
    const auto row = [&](int64_t r) { return call.states + r * c.n_positions + begin; };
    const auto score_of = [&](int64_t r) -> double& {
        return call.scores[r * c.n_sequences + sequence];
    };
    int64_t at = 0;  // where it stands, or the place of the worst
    while (at < k - 1 && !std::equal(best, best + n, row(at))) ++at;
    for (int64_t r = at; r > 0; --r) {
        std::copy(row(r - 1), row(r - 1) + n, row(r));
        score_of(r) = score_of(r - 1);
    }
    std::copy(best, best + n, row(0));
    score_of(0) = call.best_score[sequence];
    // Sums that are equal but for rounding stay in order.
    for (int64_t r = 1; r < k; ++r) score_of(r) = std::min(score_of(r), score_of(r - 1));
}

// False: stopped.
template <class In>
bool n_best_of(const NBest& call, int64_t sequence, const double* rows, Lists<In>& lists) {
    const Chains& c = call.c;
    const int64_t begin = c.offset[sequence], n = c.offset[sequence + 1] - begin;
    lists.begin(sequence, rows);
    bool more = true;
    for (int64_t r = 0; r < call.k; ++r) {
        int64_t* x = call.states + r * c.n_positions + begin;
        const auto* const entry = more ? lists.next() : nullptr;
        more = entry != nullptr;
        if (call.control.stop.load(std::memory_order_relaxed)) return false;
        if (!entry) {
            std::fill(x, x + n, int64_t{-1});
            continue;
        }
        call.scores[r * c.n_sequences + sequence] = entry->score;
        if (!lists.trace(entry, x)) return false;
    }
    lead_with_best(call, sequence);
    return true;
}

template <class In>
void all_n_best(const NBest& call, const int64_t* sequences, int m, const double* const* rows,
                Scratch& scratch, bool caller) {
    Lists<In> lists(call, scratch, caller);
    for (int r = 0; r < m; ++r) {
        const Scratch::Mark mark = scratch.mark();
        if (!n_best_of(call, sequences[r], rows[r], lists)) return;
        scratch.rewind(mark);
    }
}

}  // namespace

void n_best(const NBest& call, const int64_t* sequences, int m, const double* const* rows,
            Scratch& scratch, bool caller) {
    call.c.dtype == kFloat32 ? all_n_best<float>(call, sequences, m, rows, scratch, caller)
                             : all_n_best<double>(call, sequences, m, rows, scratch, caller);
}

}  // namespace vs
