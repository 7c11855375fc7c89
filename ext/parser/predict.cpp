#include "parser/predict.h"

#include <algorithm>
#include <memory>
#include <vector>

namespace vs::parser {
namespace {

constexpr int64_t kWords = 100;  // of a task, about

struct Hands {
    Hands(const Model& model, const Trees& trees)
        : worker(*model.parts, trees), labeller(*model.labels) {
        if (model.pruner) pruner = std::make_unique<Pruner>(*model.pruner, trees);
    }
    Worker worker;
    Labeller labeller;
    std::unique_ptr<Pruner> pruner;
    Kept kept;
    std::vector<double> p;
};

struct Predicting {
    const Model& model;
    const Method& method;
    const Corpus& corpus;
    const Answers& answers;
    const Tasks& tasks;
    Control* control;
    std::vector<std::unique_ptr<Hands>> hands;

    void sentence(int64_t i, Hands& hand) {
        const int64_t first = corpus.offset[i], n = corpus.size(i);
        const uint32_t* words = corpus.sentence(i);
        Listed arcs = corpus.arcs(i);
        if (hand.pruner) {
            hand.pruner->prune(model.pruner_weights, words, n, nullptr, &hand.kept);
            arcs = hand.kept.listed();
        }
        Worker& w = hand.worker;
        w.read(words, n, arcs, !method.relaxed);
        if (method.relaxed) {
            w.relax(model.weights, method.options, &hand.p);
        } else {
            hand.p.assign(at(w.parts().size()), 0.0);
            w.marginals(w.score(model.weights), hand.p.data());
        }
        answers.pairs[i] = w.parts().size() - w.parts().arcs();
        const int32_t* heads = nullptr;
        w.best(hand.p.data(), &heads);
        std::copy(heads, heads + n, answers.heads + first);
        for (int64_t a = 0; a < w.parts().arcs(); ++a) {
            const int32_t m = w.parts().modifier[at(a)];
            if (heads[m - 1] == w.parts().head[at(a)]) {
                answers.confidence[first + m - 1] = std::min(1.0, hand.p[at(a)]);
            }
        }
        hand.labeller.read(w.scorer().sentence());
        for (int64_t m = 1; m <= n; ++m) {
            answers.labels[first + m - 1] =
                hand.labeller.label(model.label_weights, heads[m - 1], m);
        }
    }

    static void run(void* context, int64_t task, int worker) {
        Predicting& job = *static_cast<Predicting*>(context);
        const Item item = job.tasks.item(task);
        for (int64_t i = item.first; i < item.last; ++i) {
            if (job.control->stop.load(std::memory_order_relaxed)) return;
            job.sentence(i, *job.hands[at(worker)]);
        }
    }
};

}  // namespace

Status predict(const Model& model, const Method& method, const Corpus& corpus, const Trees& trees,
               int threads, const PoolApi& pool, Control* control, const Answers& answers) {
    Tasks tasks;
    for (int64_t i = 0, first = 0; i < corpus.sentences; ++i) {
        const int64_t words = corpus.offset[i + 1] - corpus.offset[first];
        if (words < kWords && i + 1 < corpus.sentences) continue;
        tasks.add(TaskKind::kPiece, first, i + 1, static_cast<double>(words));
        first = i + 1;
    }
    tasks.finish();
    Predicting job{model, method, corpus, answers, tasks, control, {}};
    const int64_t workers = std::max<int64_t>(1, std::min<int64_t>(threads, tasks.size()));
    for (int64_t i = 0; i < workers; ++i) {
        job.hands.push_back(std::make_unique<Hands>(model, trees));
    }
    pool.run_plan(tasks.view("sentences"), Predicting::run, &job, static_cast<int>(workers),
                  control);
    return control->stop.load() ? kCancelled : kOk;
}

}  // namespace vs::parser
