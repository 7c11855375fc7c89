#include "tree/islands_call.h"

#include "islands/on_pool.h"
#include "tree/branching.h"
#include "tree/plan.h"

namespace vs {

bool TreeIslands::run(TreePass& pass, int arithmetic, const std::vector<uint8_t>& todo,
                      int64_t revisit, int threads, Session& session) {
    Scratch& r = session.packing;
    TreeRows& s = rows_;
    const int64_t n = t_.n;
    s.u = r.array<const void*>(n);
    s.y = r.array<const void*>(n);
    s.own_u = r.array<void*>(n);
    s.own_y = r.array<void*>(n);
    s.row = r.array<void*>(n);
    s.shift = r.array<double>(n);
    s.scale = r.array<double>(n);
    s.scale_up = r.array<double>(n);
    s.log_mass = r.array<double>(n);
    s.added = r.array<float>(n);
    s.raised = r.array<float>(n);
    s.raised_u = r.array<float>(n);
    s.raised_y = r.array<float>(n);
    s.keep = session.keep();
    if (!state_.open(n, r) || r.failed) return false;
    status_.reset(new std::atomic<int32_t>[todo.size()]);
    state_.status = status_.get();
    for (std::size_t i = 0; i < todo.size(); ++i) status_[i].store(todo[i] ? kOk : kWiden);
    for (int w = 0; w < threads; ++w) session.keep()[w].reset();
    pass.state = &state_;
    pass.rows = &rows_;

    const int64_t bytes = arithmetic == kLinear32 ? 4 : 8;
    IslandCall<Branching> call;
    call.t = {pass.t, pass.t.tree};
    call.verbs = tree_level().islands(arithmetic);
    call.pass = &pass;
    call.state = &state_;
    call.zeta = pass.zeta;
    call.control = pass.control;
    call.n_labels = pass.n_labels;
    call.row_bytes = pass.stride * bytes;
    call.n_tallies = t_.n_blocks;
    call.slower = is_log(arithmetic) ? kLogSlower : 1;
    islands_on_pool(tree_pool(), call, revisit, threads, session.temporary(), r);
    return true;
}

void TreeIslands::finish(const std::vector<uint8_t>& good, int32_t* islands, Counts& counts) {
    for (std::size_t i = 0; i < good.size(); ++i) {
        if (!good[i]) status_[i].store(kWiden);
    }
    const TreeView view = t_.view();
    count_islands(Branching{view, view.tree}, state_, counts);
    for (int64_t q = 0; q < t_.n; ++q) {
        if (good[at(view.tree[q])]) islands[view.node[q]] = state_.held[q];
    }
}

}  // namespace vs
