// The memory of one call on a forest, and its tables, packed.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "core/score.h"
#include "core/session.h"
#include "rows/pack_plan.h"
#include "tree/run.h"
#include "tree/table.h"

namespace vs {

const TreeLevel& tree_level();
const PoolApi& tree_pool();

inline std::size_t at(int64_t i) { return static_cast<std::size_t>(i); }

// One table for each type is packed only while they are few.
inline bool packs_types(const TreeModel& m) {
    return m.tables == Tables::kTyped && m.n_tables <= 64 &&
           m.n_tables * m.arrays.n_labels * m.arrays.n_labels <= (int64_t{1} << 22);
}

inline double lowest(const Chains& table) {
    const int64_t n = table.n_labels * table.n_labels;
    if (table.dtype == kFloat32) {
        const float* x = static_cast<const float*>(table.transition);
        return *std::min_element(x, x + n);
    }
    const double* x = static_cast<const double*>(table.transition);
    return *std::min_element(x, x + n);
}

// The memory of one call.
struct Call {
    const TreeModel& model;
    Session& session;
    std::vector<Chains> tables;
    std::vector<Packing> packing;
    std::vector<int32_t> which;
    std::vector<Account> account;
    bool per_edge = false;
    int64_t together = 0;

    Call(const TreeModel& m, Session& s) : model(m), session(s) {
        const Layout& t = *m.layout;
        const int64_t K = m.arrays.n_labels;
        const bool typed = packs_types(m);
        per_edge = m.tables != Tables::kShared && !typed;
        tables.assign(typed ? at(m.n_tables) : 1, m.arrays);
        const int64_t bytes = (m.arrays.dtype == kFloat32 ? 4 : 8) * K * K;
        for (size_t i = 0; i < tables.size(); ++i) {
            tables[i].per_edge = per_edge;
            tables[i].transition =
                static_cast<const char*>(m.arrays.transition) + static_cast<int64_t>(i) * bytes;
        }
        if (m.tables == Tables::kPerEdge) which = t.edge;
        if (m.tables == Tables::kTyped) {
            which.resize(t.edge.size());
            for (size_t q = 0; q < which.size(); ++q) {
                which[q] = static_cast<int32_t>(m.type[t.edge[q]]);
            }
        }
    }
    bool pack(int arithmetic, bool rows, int threads, Control* control) {
        packing.assign(tables.size(), Packing());
        for (size_t i = 0; i < tables.size(); ++i) {
            if (!pack_table(tree_level().pack, tree_pool(), tables[i], arithmetic, rows, threads,
                            session.packing, session.temporary(), &packing[i], control)) {
                return false;
            }
        }
        Packing all;
        all.positive = true;
        double range = 0.0;
        for (size_t i = 0; i < tables.size(); ++i) {
            range = std::max(range, packing[i].shift - lowest(tables[i]));
        }
        for (const Packing& p : packing) {
            all.reach = std::max(all.reach, p.reach);
            all.floored |= p.floored;
            all.positive &= p.positive;
        }
        for (Packing& p : packing) {  // messages over several tables meet at a node
            p.reach = all.reach;
            p.floored = all.floored;
            p.positive = all.positive;
        }
        // A message has entries in [exp(-range), 2 K]: a product of so many keeps within
        // exp(+-250), and within exp(+-32) where numbers have 32 bits.
        together = 0;
        if (all.positive && !is_log(arithmetic)) {
            const double most = std::log(2.0 * static_cast<double>(model.arrays.n_labels));
            together = static_cast<int64_t>((arithmetic == kLinear32 ? 32.0 : 250.0) /
                                            std::max(range, most));
        }
        return true;
    }
    void fill(TreePass& p, Control* control) {
        const Layout& t = *model.layout;
        account.assign(at(t.n_trees + t.n_blocks), Account());
        p.t = t.view();
        p.tables = tables.data();
        p.packing = packing.data();
        p.n_tables = static_cast<int64_t>(tables.size());
        p.which = which.empty() ? nullptr : which.data();
        p.together = together;
        p.dtype = model.arrays.dtype;
        p.n_labels = model.arrays.n_labels;
        p.account = account.data();
        p.scratch = session.temporary();
        p.control = control;
    }
};

}  // namespace vs
