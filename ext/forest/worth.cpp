#include "forest/worth.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <memory>

#include "forest/call.h"
#include "simd/level.h"

namespace vs {
namespace {

constexpr int kTogether = 16;     // rows in a list
constexpr int64_t kSample = 128;  // variables of a component that are enough

// Rows that are looked at together, and memory for sums and columns: four rows for each variable,
// and one more.
struct RowList {
    LikelyRow rows[kTogether];
    int64_t variable[kTogether];
    int n = 0, n_space = 0;
    double* space = nullptr;
    static size_t size(int64_t K) { return at((4 * kTogether + 1) * K); }
    void open(double* memory) {
        space = memory;
        n = n_space = 0;
    }
    void add(int64_t i, const LikelyRow& r) {
        variable[n] = i;
        rows[n++] = r;
    }
    void* take(int64_t K) { return space + K * n_space++; }
    void* spare(int64_t K) { return space + K * 4 * kTogether; }
};

// TwoLists of variables whose state is known, and of others.
struct TwoLists {
    RowList list[2];
    static size_t size(int64_t K) { return 2 * RowList::size(K); }
    TwoLists(double* memory, int64_t K) {
        list[0].open(memory);
        list[1].open(memory + RowList::size(K));
    }
    RowList& of(int32_t mode) { return list[mode < 0 ? 1 : 0]; }
};

// The scores of variables and of the edges beside them. Variables of trees are nodes; of chains,
// positions from `begin` on, in sequences told by `component`.
struct Around {
    const Request& r;
    const ForestModel& m;
    const Chains& c;
    int64_t begin, n;
    const int32_t *component, *mode;  // mode: -1: no likely island
    const char* turned;
    TreeView tree{};
    int64_t bytes = 0;
    const double* zeros;  // (K,)
    LikelyRule rule;

    Around(const Request& request, int64_t first, int64_t count, const int32_t* components,
           const int32_t* modes, const char* tables, const double* nothing)
        : r(request),
          m(request.model),
          c(request.model.arrays),
          begin(first),
          n(count),
          component(components),
          mode(modes),
          turned(tables),
          bytes(c.dtype == kFloat32 ? 4 : 8),
          zeros(nothing) {
        const double odds = r.zeta / (1.0 - r.zeta), others = static_cast<double>(c.n_labels - 1);
        rule = {c.n_labels, r.zeta, std::log(odds), std::log(odds * others)};
        if (m.layout) tree = m.layout->view();
    }

    const char* row_of(const void* of, int64_t i) const {
        return static_cast<const char*>(of) + i * c.n_labels * bytes;
    }
    template <class F>
    void typed(F f) const {
        c.dtype == kFloat32 ? f(float()) : f(double());
    }
    bool is_first(int64_t i) const { return i == 0 || component[i - 1] != component[i]; }
    bool is_last(int64_t i) const { return i + 1 == n || is_first(i + 1); }

    // The mode of a variable alone.
    LikelyRow alone(int64_t i, RowList& list) const {
        return {row(i, list), {}, -1};
    }
    // Whether it, or a variable beside it, is a likely island.
    bool is_near(int64_t i) const {
        bool near = mode[i] >= 0;
        each_edge(i, [&](int64_t, int64_t other, bool) { near |= mode[other] >= 0; });
        return near;
    }
    // The same beside likely islands: of its mode, if it is one, or of any.
    void add_beside(int64_t i, TwoLists& lists) const {
        RowList& list = lists.of(mode[i]);
        LikelyRow out{row(i, list), {zeros, zeros}, mode[i]};
        int n_more = mode[i] < 0 ? 2 : 0;  // rows beside that of the variable, or added to it
        void* sum = nullptr;
        each_edge(i, [&](int64_t edge, int64_t other, bool column) {
            if (mode[other] < 0) return;
            const bool copied = column && !turned;
            void* to = !copied      ? nullptr
                       : n_more < 2 ? list.take(c.n_labels)
                                    : list.spare(c.n_labels);
            const void* more = given(edge, mode[other], column, to);
            if (n_more < 2) {
                out.more[n_more++] = more;
                return;
            }
            if (!sum) {
                sum = list.take(c.n_labels);
                std::memcpy(sum, out.row, at(c.n_labels * bytes));
                out.row = sum;
            }
            typed([&](auto type) {
                using T = decltype(type);
                for (int64_t k = 0; k < c.n_labels; ++k) {
                    static_cast<T*>(sum)[k] += static_cast<const T*>(more)[k];
                }
            });
        });
        list.add(i, out);
    }
    // Half of the variables of a component, or 128 or so of more: chosen by the bits of their first
    // scores, in which no order has a part.
    bool is_sampled(int64_t i, int64_t size) const {
        const int64_t position = begin + i;
        uint64_t bits = 0;
        typed([&](auto type) {
            using T = decltype(type);
            T x = reinterpret_cast<const T*>(row_of(c.unary, position))[0];
            if (!m.layout && c.start && is_first(i)) x += static_cast<const T*>(c.start)[0];
            if (!m.layout && c.end && is_last(i)) x += static_cast<const T*>(c.end)[0];
            if (c.allowed && !c.allowed[position * c.n_labels]) x = -static_cast<T>(INFINITY);
            std::memcpy(&bits, &x, sizeof x);
        });
        const uint64_t hash = (bits * 0x9E3779B97F4A7C15u) >> 32;
        return hash * static_cast<uint64_t>(std::max(size, 2 * kSample)) <
               (static_cast<uint64_t>(kSample) << 32);
    }
    // f(edge, variable at its other end, whether that state names a column of the table)
    template <class F>
    void each_edge(int64_t i, F f) const {
        if (!m.layout) {
            if (!is_first(i)) f(0, i - 1, false);
            if (!is_last(i)) f(0, i + 1, true);
            return;
        }
        // A table's rows are of the parent, unless the edge is flipped.
        const int64_t slot = m.layout->slot[at(i)], p = tree.parent[slot];
        if (p >= 0) f(tree.edge[slot], tree.node[p], tree.flipped[slot] != 0);
        tree.for_children(slot,
                          [&](int64_t s) { f(tree.edge[s], tree.node[s], tree.flipped[s] == 0); });
    }
    // Asks a list that is full, or, `all`, any: g(variable, state).
    template <class G>
    void ask(RowList& list, bool all, G g) const {
        if (list.n == 0 || (list.n < kTogether && !all)) return;
        int state[kTogether];
        level().likely(c.dtype, list.rows, list.n, rule, state);
        for (int k = 0; k < list.n; ++k) g(list.variable[k], state[k]);
        list.n = list.n_space = 0;
    }
    // May a path be worth its islands? `variable`: that at a position.
    template <class Variable>
    bool may_be(int64_t length, Variable variable, RowList& list) const {
        const Glance glance(length);
        int64_t asked = 0, found = 0;
        // Rows from all over a path have not been read ahead.
        for (const bool more : {false, true}) {
            glance.places(more, [&](int64_t at) {
                const char* x = row_of(c.unary, begin + variable(at));
                for (int64_t k = 0; k < c.n_labels * bytes; k += 64) VS_PREFETCH_READ(x + k);
            });
        }
        for (const bool more : {false, true}) {
            const auto count = [&](int64_t, int state) { found += state >= 0; };
            glance.places(more, [&](int64_t at) {
                const int64_t i = variable(at);
                list.add(i, alone(i, list));
                ask(list, false, count);
                ++asked;
            });
            ask(list, true, count);
            if (Glance::is_enough(found, asked)) return true;
        }
        return !Glance::is_nothing(found, asked);
    }
    bool has_tables() const { return m.tables != Tables::kPerEdge && !c.per_edge; }

  private:
    // The scores of a variable alone, with what a chain's ends add and masks forbid.
    const void* row(int64_t i, RowList& list) const {
        const char* own = row_of(c.unary, begin + i);
        const void *start = nullptr, *end = nullptr;
        if (!m.layout && is_first(i)) start = c.start;
        if (!m.layout && is_last(i)) end = c.end;
        if (!start && !end && !c.allowed) return own;
        void* sum = list.take(c.n_labels);
        const uint8_t* allowed = c.allowed ? c.allowed + (begin + i) * c.n_labels : nullptr;
        typed([&](auto type) {
            using T = decltype(type);
            T* to = static_cast<T*>(sum);
            for (int64_t k = 0; k < c.n_labels; ++k) {
                to[k] = reinterpret_cast<const T*>(own)[k];
                if (start) to[k] += static_cast<const T*>(start)[k];
                if (end) to[k] += static_cast<const T*>(end)[k];
                if (allowed && !allowed[k]) to[k] = -static_cast<T>(INFINITY);
            }
        });
        return sum;
    }
    // The scores of an edge given the state of one end: row `x` of its table, or the column, which
    // `to` gets where tables are not turned.
    const void* given(int64_t edge, int64_t x, bool column, void* to) const {
        const int64_t K = c.n_labels, table = m.layout ? table_of(m, edge) : 0;
        if (!column) return row_of(c.transition, table * K + x);
        if (turned) return turned + (table * K + x) * K * bytes;
        typed([&](auto type) {
            using T = decltype(type);
            const T* from = reinterpret_cast<const T*>(row_of(c.transition, table * K)) + x;
            for (int64_t k = 0; k < K; ++k) static_cast<T*>(to)[k] = from[k * K];
        });
        return to;
    }
};

double share(int64_t some, int64_t of) {
    return of > 0 ? static_cast<double>(some) / static_cast<double>(of) : 0.0;
}

bool is_short(int64_t length) { return length <= 2 * kSample; }

bool counts_enough(int64_t likely, int64_t contested, int64_t of, double from) {
    const double lost = kContested * static_cast<double>(contested);
    return of > 0 && static_cast<double>(likely) - lost >= from * static_cast<double>(of);
}

// Whole components, some of whose variables are looked at.
class Sample {
  public:
    Sample(const Request& r, const char* turned, int64_t first, int64_t last)
        : r_(r),
          trees_(r.model.layout != nullptr),
          begin_(trees_ ? 0 : r.model.arrays.offset[first]),
          n_(trees_ ? r.model.arrays.n_positions : r.model.arrays.offset[last] - begin_),
          mode_(at(n_), -1),
          component_(at(n_), 0),
          wanted_(at(n_), 0),
          sampled_(at(n_), 0),
          count_(new Count[at(last - first)]),
          n_components_(last - first),
          zeros_(at(r.model.arrays.n_labels), 0.0),
          scores_(r, begin_, n_, component_.data(), mode_.data(), turned, zeros_.data()) {
        const Chains& c = r.model.arrays;
        for (int64_t s = first; !trees_ && s < last; ++s) {
            std::fill(component_.begin() + (c.offset[s] - begin_),
                      component_.begin() + (c.offset[s + 1] - begin_),
                      static_cast<int32_t>(s - first));
        }
        for (int64_t i = 0; i < n_; ++i) {
            if (trees_) component_[at(i)] = scores_.tree.tree[r.model.layout->slot[at(i)]];
            ++count_[component_[at(i)]].size;
        }
        std::vector<uint8_t> edges(trees_ ? at(n_) : 0, 0);  // of each slot, up to 3
        const auto meet = [&](int32_t slot) {
            uint8_t& own = edges[at(slot)];
            if (++own > 2) count_[scores_.tree.tree[slot]].branches = true, own = 2;
        };
        for (int32_t q = 0; trees_ && q < n_; ++q) {
            if (scores_.tree.parent[q] < 0) continue;
            meet(q);
            meet(scores_.tree.parent[q]);
        }
    }

    template <class Run>
    std::vector<uint8_t> answer(int workers, Run run) {
        memory_.assign(at(workers), std::vector<double>(TwoLists::size(r_.model.arrays.n_labels)));
        look_at_paths();
        for (int64_t i = 0; i < n_; ++i) {
            Count& count = count_[component_[at(i)]];
            if (!count.open) continue;
            const bool sampled = scores_.is_sampled(i, count.size);
            if (!sampled && !count.all_asked()) continue;
            sampled_[at(i)] = sampled;
            wanted_[at(i)] = 1;
            count.sampled += sampled;
            if (sampled) {
                scores_.each_edge(i, [&](int64_t, int64_t other, bool) { wanted_[at(other)] = 1; });
            }
        }
        pass(
            run,
            [&](int64_t i, TwoLists& lists) {
                if (wanted_[at(i)]) lists.list[0].add(i, scores_.alone(i, lists.list[0]));
            },
            [&](int64_t i, int state) { mode_[at(i)] = state; });
        for (int64_t i = 0; i < n_; ++i) {
            Count& count = count_[component_[at(i)]];
            count.local += (sampled_[at(i)] || count.all_asked()) && mode_[at(i)] >= 0;
            if (sampled_[at(i)]) count.near += scores_.is_near(i);
        }
        std::vector<uint8_t> out(at(n_components_));
        bool any = false;
        for (int64_t s = 0; s < n_components_; ++s) {
            Count& c = count_[s];
            const double from = worth_from(r_.model.arrays.n_labels, c.branches);
            out[at(s)] = c.open && share(c.near, c.sampled) >= from;
            if (!c.branches && share(c.local, c.all_asked() ? c.size : c.sampled) >= from + kPlenty) {
                out[at(s)] = c.open;
                c.open = false;
            }
            c.open = c.open && out[at(s)];
            any |= c.open;
        }
        if (!any || !scores_.has_tables()) return out;
        pass(
            run,
            [&](int64_t i, TwoLists& lists) {
                const Count& c = count_[component_[at(i)]];
                if (!sampled_[at(i)] || !c.open || !scores_.is_near(i)) return;
                scores_.add_beside(i, lists);
            },
            [&](int64_t i, int state) {
                Count& count = count_[component_[at(i)]];
                if (state >= 0) count.likely.fetch_add(1, std::memory_order_relaxed);
                if (state < 0 && mode_[at(i)] >= 0) {
                    count.contested.fetch_add(1, std::memory_order_relaxed);
                }
            });
        for (int64_t s = 0; s < n_components_; ++s) {
            const Count& c = count_[s];
            if (!c.open) continue;
            out[at(s)] = counts_enough(c.likely, c.branches ? 0 : c.contested.load(), c.sampled,
                                       worth_from(r_.model.arrays.n_labels, c.branches));
        }
        return out;
    }

  private:
    struct Count {
        int64_t size = 0, sampled = 0, local = 0, near = 0;
        bool branches = false;  // some variable has three neighbours
        bool open = true;
        std::atomic<int64_t> likely{0}, contested{0};
        // Are all variables of a path asked for their modes, and not a sample?
        bool all_asked() const { return !branches && is_short(size); }
    };
    static constexpr int64_t kBlock = 2048;  // variables of a task

    // Closes the paths that cannot be worth their islands.
    void look_at_paths() {
        TwoLists lists(memory_[0].data(), r_.model.arrays.n_labels);
        std::vector<int64_t> path;  // its variables from one end to the other
        std::vector<int64_t> start(at(n_components_), 0);
        const auto is_end = [&](int64_t i, int64_t s) {
            int n = 0;
            if (trees_) scores_.each_edge(i, [&](int64_t, int64_t, bool) { ++n; });
            return trees_ ? n < 2 : i == 0 || component_[at(i - 1)] != s;
        };
        for (int64_t i = 0; i < n_; ++i) {
            const int64_t s = component_[at(i)];
            if (!count_[s].branches && is_end(i, s)) start[at(s)] = i;
        }
        for (int64_t s = 0; s < n_components_; ++s) {
            Count& count = count_[s];
            if (count.branches || count.size == 0) continue;
            path.assign(trees_ ? at(count.size) : 0, start[at(s)]);
            for (size_t k = 1; k < path.size(); ++k) {
                scores_.each_edge(path[k - 1], [&](int64_t, int64_t other, bool) {
                    if (k < 2 || other != path[k - 2]) path[k] = other;
                });
            }
            const auto variable = [&](int64_t k) { return trees_ ? path[at(k)] : start[at(s)] + k; };
            count.open = scores_.may_be(count.size, variable, lists.list[0]);
        }
    }
    // Has `f` add variables to lists; g(variable, state) for each.
    template <class Run, class F, class G>
    void pass(Run run, F f, G g) {
        run((n_ + kBlock - 1) / kBlock, [&](int64_t task, int worker) {
            TwoLists lists(memory_[at(worker)].data(), r_.model.arrays.n_labels);
            const int64_t last = std::min(n_, (task + 1) * kBlock);
            for (int64_t i = task * kBlock; i < last; ++i) {
                f(i, lists);
                for (RowList& list : lists.list) scores_.ask(list, i + 1 == last, g);
            }
        });
    }

    const Request& r_;
    const bool trees_;
    const int64_t begin_, n_;
    std::vector<int32_t> mode_, component_;
    std::vector<uint8_t> wanted_, sampled_;
    std::unique_ptr<Count[]> count_;
    const int64_t n_components_;
    const std::vector<double> zeros_;
    Around scores_;
    std::vector<std::vector<double>> memory_;  // of each worker
};

template <class T>
void transpose(const T* from, int64_t K, T* to) {
    constexpr int64_t kTile = 16;
    for (int64_t l = 0; l < K; l += kTile) {
        for (int64_t k = 0; k < K; ++k) {
            for (int64_t j = l; j < std::min(K, l + kTile); ++j) to[k * K + j] = from[j * K + k];
        }
    }
}

}  // namespace

std::vector<char> turned_tables(const ForestModel& m) {
    const Chains& c = m.arrays;
    const int64_t K = c.n_labels, tables = m.layout ? m.n_tables : 1;
    std::vector<char> out;
    if (tables * K > c.n_positions || c.per_edge || m.tables == Tables::kPerEdge) return out;
    const int64_t size = K * K * (c.dtype == kFloat32 ? 4 : 8);
    out.resize(at(tables * size));
    for (int64_t t = 0; t < tables; ++t) {
        const void* from = static_cast<const char*>(c.transition) + t * size;
        void* to = out.data() + t * size;
        if (c.dtype == kFloat32) {
            transpose(static_cast<const float*>(from), K, static_cast<float*>(to));
        } else {
            transpose(static_cast<const double*>(from), K, static_cast<double*>(to));
        }
    }
    return out;
}

std::vector<uint8_t> worth_islands(const Request& r, const std::vector<char>& turned, int64_t first,
                                   int64_t last, Control& control) {
    Sample sample(r, turned.empty() ? nullptr : turned.data(), first, last);
    return sample.answer(r.threads, [&](int64_t tasks, auto f) {
        const auto call = [](void* context, int64_t task, int worker) {
            (*static_cast<decltype(f)*>(context))(task, worker);
        };
        pool().run_plan(Plan("worth", tasks), call, &f, r.threads, &control);
    });
}

WorthOfGroup::WorthOfGroup(const Request& r, const std::vector<char>& turned)
    : r_(&r),
      turned_(turned.empty() ? nullptr : turned.data()),
      zeros_(at(r.model.arrays.n_labels), 0.0),
      space_(TwoLists::size(r.model.arrays.n_labels)) {}

bool WorthOfGroup::may_be(int64_t sequence) {
    const Chains& c = r_->model.arrays;
    const int64_t begin = c.offset[sequence], n = c.offset[sequence + 1] - begin;
    if (one_.size() < at(n)) one_.resize(at(n), 0);
    const Around scores(*r_, begin, n, one_.data(), nullptr, turned_, zeros_.data());
    TwoLists lists(space_.data(), c.n_labels);
    return scores.may_be(n, [](int64_t at) { return at; }, lists.list[0]);
}

void WorthOfGroup::choose(IslandState& state, const int32_t* tree, int64_t begin, uint8_t* made) {
    const Around scores(*r_, begin, state.n, tree, state.held, turned_, zeros_.data());
    const double from = worth_from(r_->model.arrays.n_labels, false);
    TwoLists lists(space_.data(), r_->model.arrays.n_labels);
    for (int64_t first = 0, last; first < state.n; first = last) {
        int64_t sampled = 0, local = 0, near = 0, likely = 0, contested = 0;
        for (last = first; last < state.n && tree[last] == tree[first]; ++last) {
            local += state.island(last);
        }
        if (state.status[tree[first]].load() != kOk) continue;
        const int64_t n = last - first;
        if (is_short(n) && share(local, n) >= from + kPlenty) continue;
        if (!is_short(n)) local = 0;
        for (int64_t q = first; q < last; ++q) {
            if (!scores.is_sampled(q, n)) continue;
            ++sampled;
            if (!is_short(n)) local += state.island(q);
            near += scores.is_near(q);
        }
        if (!is_short(n) && share(local, sampled) >= from + kPlenty) continue;
        bool worth = share(near, sampled) >= from;
        if (worth && scores.has_tables()) {
            for (int64_t q = first; q < last; ++q) {
                if (scores.is_sampled(q, n) && scores.is_near(q)) scores.add_beside(q, lists);
                const auto count = [&](int64_t i, int found) {
                    likely += found >= 0;
                    contested += found < 0 && state.island(i);
                };
                for (RowList& list : lists.list) scores.ask(list, q + 1 == last, count);
            }
            worth = counts_enough(likely, contested, sampled, from);
        }
        if (worth) continue;
        state.status[tree[first]].store(kWithout);
        if (made) made[tree[first]] = 1;
    }
}

}  // namespace vs
