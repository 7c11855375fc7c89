#include "junction/draw.h"

#include <cmath>

#include "junction/verbs.h"

namespace vs::junction {

namespace {

constexpr int64_t kWhole = 4096, kTail = 256;  // entries in one block, in each of several

// The sum of a block of settings and of all blocks before.
template <class T>
struct Mass {
    int64_t first;
    T sum;
};

// A table that is multiplied in, along a block.
template <class T>
struct Operand {
    const T* table;
    int64_t fixed, base;      // offset of the variables that are drawn; of the block
    bool scalar, contiguous;  // one entry for the block, or entries side by side
    Set at;                   // else: of each entry
    Strides step;             // of the variables that blocks differ in
    std::vector<T> row;       // the entries along a block, where they are not side by side
    const T* last;            // where the row was copied from

    const T* along(int64_t width) {
        const T* x = table + base;
        if (contiguous || x == last) return contiguous ? x : row.data();
        last = x;
        if (scalar) {
            std::fill(row.begin(), row.end(), *x);
        } else {
            for (int64_t t = 0; t < width; ++t) row[t] = x[at[t]];
        }
        return row.data();
    }
};

// Draws one configuration after the other. The weights of a clique's open variables are made in
// blocks, settings of the last of them, so that there is no table of them all.
template <class A>
class Drawing {
  public:
    using T = typename A::T;
    using Masses = std::vector<Mass<T>>;

    explicit Drawing(const State<A>& s) : s_(s), d_(s.c.d) {}

    // `uniform`: a number for each clique; `roots`: masses of cliques that depend on no other, kept
    // from the first configuration on. Neither is used in logarithms.
    Status draw(const double* uniform, Poll poll, std::vector<Masses>* roots, int64_t* states) {
        value_.assign(static_cast<size_t>(s_.c.g.n), 0);
        for (size_t c = s_.clique.size(); c-- > 0;) {  // parents first
            open(c);
            int64_t chosen = 0;
            Status status;
            if constexpr (std::is_same_v<A, MaxLogs>) {
                status = choose_best(&poll, &chosen);
            } else {
                const bool root = s_.c.l.clique[c].message.var.empty();
                status = choose(uniform[c], &poll, root, root ? &(*roots)[c] : &masses_, &chosen);
            }
            if (status != kOk) return status;
            for (size_t j = open_.size(); j-- > 0;) {
                const int64_t n = d_.size(open_[j]);
                value_[open_[j]] = static_cast<int32_t>(chosen % n);
                chosen /= n;
            }
        }
        for (int64_t v = 0; v < s_.c.g.n; ++v) states[v] = d_.values(v)[value_[v]];
        return kOk;
    }

  private:
    // The open variables of clique c, cut into blocks, and the tables over them.
    void open(size_t c) {
        const CliqueLayout& l = s_.c.l.clique[c];
        open_.clear();
        for (const Set* list : {&l.outer, &l.tile}) {
            for (int32_t v : *list) {
                if (l.message.stride_of(v) == 0) open_.push_back(v);
            }
        }
        size_ = 1;
        for (int32_t v : open_) size_ *= d_.size(v);
        head_ = size_ <= kWhole ? 0 : open_.size();
        width_ = head_ == 0 ? size_ : 1;
        while (head_ > 0 &&
               (head_ == open_.size() || width_ * d_.size(open_[head_ - 1]) <= kTail)) {
            width_ *= d_.size(open_[--head_]);
        }
        inner_.assign(open_.begin() + static_cast<std::ptrdiff_t>(head_), open_.end());
        weight_.resize(static_cast<size_t>(width_) + 64);
        used_ = 0;
        for (size_t i = 0; i < l.statics.size(); ++i) {
            multiply(l.statics[i].dims, s_.clique[c].tables[i]);
        }
        for (const Child& k : l.children) {
            multiply(s_.c.l.clique[k.clique].message, s_.clique[k.clique].message);
        }
    }

    void multiply(const Dims& dims, const std::vector<T>& table) {
        if (used_ == operand_.size()) operand_.emplace_back();
        Operand<T>& m = operand_[used_++];
        m.table = table.data();
        m.fixed = 0;
        for (size_t j = 0; j < dims.var.size(); ++j) {
            if (!has(open_, dims.var[j])) m.fixed += dims.stride[j] * value_[dims.var[j]];
        }
        stride_.clear();
        for (int32_t v : inner_) stride_.push_back(dims.stride_of(v));
        m.scalar = std::all_of(stride_.begin(), stride_.end(), [](int64_t x) { return x == 0; });
        m.at.clear();
        if (!m.scalar) offsets(d_, inner_, stride_, &m.at);
        m.contiguous = !m.scalar;
        for (int64_t t = 0; m.contiguous && t < width_; ++t) m.contiguous = m.at[t] == t;
        if (!m.contiguous) m.row.resize(static_cast<size_t>(width_));
        m.last = nullptr;
        m.step.clear();
        for (size_t j = 0; j < head_; ++j) m.step.push_back(dims.stride_of(open_[j]));
    }

    // Weights of the block that operands stand at, and their sum; false where they are all zero.
    bool weigh(T* sum) {
        // Multiplied in their order, those that are the same for all entries first.
        T common = first_factor<A>(kBoost);
        size_t lead = 0;
        for (size_t i = 0; i < used_; ++i) {
            if (!operand_[i].scalar) continue;
            const T x = operand_[i].table[operand_[i].base];
            if (A::is_zero(x)) return false;
            if (i == lead) {
                common = A::mul(common, x);
                ++lead;
            }
        }
        if (A::is_zero(common)) return false;
        vec_.clear();
        for (size_t i = lead; i < used_; ++i) vec_.push_back(operand_[i].along(width_));
        const int32_t here = 0;
        const int32_t* const nowhere = nullptr;
        vec_at_.assign(vec_.size(), &here);
        *sum = A::zero();
        const RowJob<T> j{common,
                          width_,
                          static_cast<int>(vec_.size()),
                          0,
                          0,
                          1,
                          vec_.data(),
                          vec_at_.data(),
                          nullptr,
                          nullptr,
                          nullptr,
                          nullptr,
                          &sum,
                          &nowhere};
        rows<A>(j, 0, 1, weight_.data());
        return true;
    }

    // f(number of its first entry, the sum of all) for blocks that may have mass, from `first` on;
    // until it returns false.
    template <class F>
    Status blocks(int64_t first, Poll* poll, F&& f) {
        state_.assign(head_, 0);
        for (size_t i = 0; i < used_; ++i) operand_[i].base = operand_[i].fixed;
        const auto move = [&](size_t j, int64_t by) {
            state_[j] += by;
            for (size_t i = 0; i < used_; ++i) operand_[i].base += operand_[i].step[j] * by;
        };
        int64_t rest = first / width_;
        for (size_t j = head_; j-- > 0;) {
            const int64_t n = d_.size(open_[j]);
            move(j, rest % n);
            rest /= n;
        }
        for (int64_t at = first; at < size_; at += width_) {
            T sum;
            const bool any = weigh(&sum);
            if (any && !f(at, sum)) return kOk;
            if (!poll->go_on_after(any ? width_ : 1)) return kCancelled;
            for (size_t j = head_; j-- > 0;) {
                const int64_t n = d_.size(open_[j]);
                move(j, state_[j] + 1 < n ? 1 : 1 - n);
                if (state_[j] != 0) break;
            }
        }
        return kOk;
    }

    // The best setting; the first of equals.
    Status choose_best(Poll* poll, int64_t* chosen) {
        T best = A::zero();
        return blocks(0, poll, [&](int64_t at, T top) {
            if (A::less(best, top)) {
                best = top;
                *chosen = at + (std::find(weight_.begin(), weight_.end(), top) - weight_.begin());
            }
            return true;
        });
    }

    // The setting at which the share of the mass so far exceeds a uniform number.
    Status choose(double uniform, Poll* poll, bool keep, Masses* mass, int64_t* chosen) {
        Status status = kOk;
        if (!keep || mass->empty()) {
            T sum = A::zero();
            mass->clear();
            status = blocks(0, poll, [&](int64_t at, T) {
                for (int64_t e = 0; e < width_; ++e) sum = A::add(sum, weight_[e]);
                mass->push_back({at, sum});
                return true;
            });
            if (status != kOk) return status;
        }
        if (mass->empty()) return kInfeasible;
        const T total = mass->back().sum;
        const auto block = std::upper_bound(
            mass->begin(), mass->end() - 1, uniform,
            [&](double u, const Mass<T>& m) { return u < A::share(m.sum, total); });
        double left = uniform;
        if (block != mass->begin()) left -= A::share((block - 1)->sum, total);
        return blocks(block->first, poll, [&](int64_t at, T) {
            for (int64_t e = 0; e < width_; ++e) {
                if (A::is_zero(weight_[e])) continue;
                *chosen = at + e;  // the last one that can be, should rounding leave some over
                left -= A::share(weight_[e], total);
                if (left < 0.0) break;
            }
            return false;
        });
    }

    const State<A>& s_;
    const Domains& d_;
    Set open_, inner_;  // open variables; those within a block
    std::vector<int32_t> value_;
    Strides stride_;
    std::vector<int64_t> state_;
    std::vector<Operand<T>> operand_;
    std::vector<const T*> vec_;
    std::vector<const int32_t*> vec_at_;
    std::vector<T> weight_;  // of a block, and what the kernels need beside it
    Masses masses_;
    size_t head_ = 0, used_ = 0;    // open variables outside of blocks; operands
    int64_t size_ = 1, width_ = 1;  // entries of all blocks, of one
};

template <class A>
struct Samples {
    const State<A>& state;
    Control* control;
    int64_t size, chunk;
    const double* uniforms;
    int64_t* states;
    std::vector<typename Drawing<A>::Masses> roots;
    std::vector<Drawing<A>> worker;
    Outcome outcome{};

    static void task(void* context, int64_t task, int by) {
        Samples& w = *static_cast<Samples*>(context);
        // The first one is drawn before all others.
        const int64_t last = std::min(w.size, 1 + (task + 1) * w.chunk);
        for (int64_t i = 1 + task * w.chunk; i < last; ++i) {
            if (!w.draw(i, by)) return;
        }
    }
    bool draw(int64_t i, int by) {
        const int64_t cliques = static_cast<int64_t>(state.clique.size());
        const Poll poll{control, by == 0};
        const bool drawn = outcome.run([&] {
            return worker[static_cast<size_t>(by)].draw(uniforms + i * cliques, poll, &roots,
                                                        states + i * state.c.g.n);
        });
        control->done.fetch_add(cliques, std::memory_order_relaxed);
        return drawn && poll.go_on();
    }
};

}  // namespace

Status best_states(const State<MaxLogs>& s, Control* control, int64_t* states) {
    return Drawing<MaxLogs>(s).draw(nullptr, {control}, nullptr, states);
}

template <class A>
Status sample(const State<A>& s, int threads, Control* control, int64_t size,
              const double* uniforms, int64_t* states) {
    constexpr double kClique = 200.0, kEntry = 2.0;  // nanoseconds
    constexpr double kChunk = 1e5;                   // nanoseconds of samples that are one task
    if (size == 0) return kOk;
    double ns = static_cast<double>(s.c.g.n + 1);  // of one sample
    for (const CliqueLayout& l : s.c.l.clique) {
        ns += kClique + kEntry * l.size / static_cast<double>(l.message.size);
    }
    Samples<A> w{s, control, size, 0, uniforms, states, {}, {}};
    w.chunk = static_cast<int64_t>(std::max(1.0, kChunk / ns));
    w.roots.resize(s.clique.size());
    w.worker.emplace_back(s);
    if (w.draw(0, 0)) {
        const Plan plan("sample", (size - 1 + w.chunk - 1) / w.chunk);
        if (static_cast<double>(size) * ns < kWorthThreads) threads = 1;
        while (w.worker.size() < static_cast<size_t>(threads)) w.worker.emplace_back(s);
        pool().run_plan(plan, Samples<A>::task, &w, threads, control);
    }
    return w.outcome.end(*control);
}

template Status sample(const State<Linear64>&, int, Control*, int64_t, const double*, int64_t*);
template Status sample(const State<LinearWide>&, int, Control*, int64_t, const double*, int64_t*);

}  // namespace vs::junction
