// The scores of variables and of what lies beside them, and lists of rows of them: what is read to
// tell which components are worth their islands.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "forest/call.h"
#include "forest/worth.h"
#include "simd/level.h"

namespace vs {

// Rows that are looked at together, and memory for sums and columns: four rows for each variable,
// and one more.
struct RowList {
    static constexpr int kTogether = 16;  // rows in a list
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
    static constexpr int64_t kSample = 128;  // variables of a component that are enough
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
        rule = {c.n_labels, r.zeta, std::log(odds), std::log(odds * others), false};
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
    LikelyRow alone(int64_t i, RowList& list) const { return {row(i, list), {}, -1}; }
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
    void ask(RowList& list, bool all, G g, bool exactly = false) const {
        if (list.n == 0 || (list.n < RowList::kTogether && !all)) return;
        int state[RowList::kTogether];
        LikelyRule asked = rule;
        asked.exactly = exactly;
        level().likely(c.dtype, list.rows, list.n, asked, state);
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

    // Whether many variables of a long path, at places spread alike from both ends, are likely
    // islands, few of them contested. `modes`: the array that `mode` is, of -1; gets some.
    template <class Variable>
    bool has_plenty(int64_t length, Variable variable, int32_t* modes, TwoLists& lists) const {
        int64_t found = 0, held = 0;
        const auto each_place = [&](auto f) {
            for (int64_t t = 0; t < kSample; ++t) {
                const int64_t place = (t / 2 * 2 + 1) * length / (2 * kSample);
                f(variable(t % 2 ? length - 1 - place : place), t + 1 == kSample);
            }
        };
        const auto note = [&](int64_t i, int state) { modes[i] = state; };
        each_place([&](int64_t i, bool last) {
            RowList& list = lists.list[0];
            list.add(i, alone(i, list));
            each_edge(i, [&](int64_t, int64_t other, bool) {
                ask(list, false, note, true);
                list.add(other, alone(other, list));
            });
            ask(list, last, note, true);
        });
        each_place([&](int64_t i, bool) { found += modes[i] >= 0; });
        const double all = static_cast<double>(kSample), from = worth_from(c.n_labels, false);
        if (static_cast<double>(found) < (from + kPlenty) * all) return false;
        if (!has_tables() || c.sparse) return true;  // no rows to read
        each_place([&](int64_t i, bool last) {
            RowList& list = lists.of(0);
            if (modes[i] >= 0) add_beside(i, lists);
            ask(list, last, [&](int64_t, int state) { held += state >= 0; });
        });
        return static_cast<double>(held) - kContested * static_cast<double>(found - held) >=
               from * all;
    }

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

}  // namespace vs
