#include "tree/edge_sums.h"

namespace vs {
namespace {

struct EdgeJob {
    TreePass* pass;
    int arithmetic;
    int64_t slots;  // of a task
    double* sums;   // (tasks, types, K, K) or null
    int64_t size;   // types * K * K
};

void edge_piece(void* context, int64_t task, int worker) {
    const EdgeJob& j = *static_cast<EdgeJob*>(context);
    const int64_t first = task * j.slots, last = std::min(first + j.slots, j.pass->t.n);
    tree_level().edges(j.arithmetic, j.pass, first, last, j.sums ? j.sums + task * j.size : nullptr,
                       worker);
}

}  // namespace

bool open_edge_sums(const TreeRequest& r, Call& call, TreePass& pass, int arithmetic,
                    std::vector<Packing>& depth, Control* control) {
    Scratch& s = call.session.packing;
    const int64_t bytes = pass.t.n * pass.stride * (arithmetic == kLinear32 ? 4 : 8);
    pass.edge_left = s.take(bytes);
    pass.edge_right = s.take(bytes);
    pass.energies = r.energies;
    pass.pairwise = r.pairwise;
    pass.pairwise_row = r.pairwise_row;
    pass.typed = r.model.tables == Tables::kTyped;
    depth.clear();
    if (r.energies && !call.per_edge && !is_log(arithmetic)) {
        depth.resize(call.tables.size());
        for (std::size_t i = 0; i < depth.size(); ++i) {
            if (!pack_table(tree_level().pack, tree_pool(), call.tables[i], arithmetic, false,
                            r.threads, s, call.session.temporary(), &depth[i], control, true)) {
                return false;
            }
        }
        pass.depth = depth.data();
    }
    return !s.failed;
}

void add_edge_sums(const TreeRequest& r, const Call& call, TreePass& pass, int arithmetic,
                   Control* control) {
    const int64_t K = pass.n_labels, kk = K * K;
    EdgeJob job{&pass, arithmetic, 0, nullptr, (pass.typed ? r.model.n_tables : 1) * kk};
    // Cut by the data alone: sums over tasks must not show the threads.
    const int64_t most = r.expectations ? std::min(int64_t{64}, int64_t{8000000} / job.size) : 64;
    const int64_t tasks = std::max(int64_t{1}, std::min(most, pass.t.n / 256));
    job.slots = (pass.t.n + tasks - 1) / tasks;
    std::vector<double> sums(r.expectations ? at(tasks * job.size) : 0, 0.0);
    if (r.expectations) job.sums = sums.data();
    tree_pool().run_plan(Plan("edges", tasks), edge_piece, &job, r.threads, control);
    if (!r.expectations || control->stop.load()) return;
    const bool bare = !is_log(arithmetic) && !call.per_edge;  // sums leave the table out
    for (int64_t i = 0; i < job.size; ++i) {
        double sum = 0.0;
        for (int64_t t = 0; t < tasks; ++t) sum += sums[at(t * job.size + i)];
        if (bare && sum != 0.0) {
            const std::size_t table = at(call.tables.size() > 1 ? i / kk : 0);
            sum *= std::exp(entry(call.tables[table], call.tables[table].transition, i % kk) -
                            call.packing[table].shift);
        }
        r.expectations[i] += sum;
    }
}

}  // namespace vs
