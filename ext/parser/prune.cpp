#include "parser/prune.h"

#include <algorithm>
#include <functional>
#include <memory>

namespace vs::parser {

void Pruner::choose(const double* potentials, int64_t n, const int32_t* gold, Kept* kept) {
    kept->head.clear();
    kept->modifier.clear();
    p_.resize(at(worker_.parts().arcs()));
    worker_.marginals(potentials, p_.data());
    const int32_t* best = nullptr;
    worker_.best(potentials, &best);
    // The n arcs of each word, by head.
    for (int64_t m = 1; m <= n; ++m) {
        const double* p = p_.data() + (m - 1) * n;
        row_.assign(p, p + n);
        const int64_t most = std::min(n, kMostHeads);
        std::partial_sort(row_.begin(), row_.begin() + most, row_.end(), std::greater<>());
        const double least = std::max(row_[0] * kLeastShare, row_[at(most) - 1]);
        int64_t left = most;  // of equals the first
        for (int64_t k = 0; k < n; ++k) {
            const auto h = static_cast<int32_t>(k + (k >= m));
            const bool among = p[k] >= least && left > 0;
            left -= among;
            if (among || h == best[m - 1] || (gold && h == gold[m - 1])) {
                kept->head.push_back(h);
                kept->modifier.push_back(static_cast<int32_t>(m));
            }
        }
    }
}

namespace {

struct Pruning {
    const Corpus& corpus;
    const float* weights;
    std::vector<std::unique_ptr<Pruner>> pruners;
    std::vector<Kept>* kept;
    Control* control;
    Shortage shortage{};

    static void run(void* context, int64_t i, int worker) {
        Pruning& job = *static_cast<Pruning*>(context);
        const Corpus& c = job.corpus;
        job.shortage.watch(job.control, [&] {
            job.pruners[at(worker)]->prune(job.weights, c.sentence(i), c.size(i), c.gold(i),
                                           &(*job.kept)[at(i)]);
        });
    }
};

}  // namespace

Status prune(const Corpus& corpus, const Templates& templates, const Trees& trees,
             const float* weights, int threads, const PoolApi& pool, Control* control,
             std::vector<Kept>* kept) {
    kept->assign(at(corpus.sentences), {});
    Pruning job{corpus, weights, {}, kept, control};
    for (int i = 0; i < threads; ++i) {
        job.pruners.push_back(std::make_unique<Pruner>(templates, trees));
    }
    pool.run_plan(Plan("pruning", corpus.sentences), Pruning::run, &job, threads, control);
    return job.shortage.status(control);
}

}  // namespace vs::parser
