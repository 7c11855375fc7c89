#include "parser/predict.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <vector>

#include "parser/abreast.h"

namespace vs::parser {
namespace {

// Words of a task. Each thread gets one with most of its share, since pairs are scored together
// there; the small ones behind, as many of each size, are for threads that are done early.
constexpr int64_t kLeastWords = 400, kMostWords = 12000;
constexpr double kShare = 0.9;

// Sentences whose pairs are scored together, at most, and the squares of their lengths. Pairs that
// wait for that.
constexpr int64_t kTogether = 1024, kSquares = int64_t{1} << 18, kWaiting = int64_t{1} << 18;
// Pairs of a sentence whose memory the next one gets, where all pairs take part.
constexpr int64_t kPairsKept = int64_t{1} << 11;

// Cost of a sentence beside others.
double cost_of(int64_t n) { return static_cast<double>(n) * static_cast<double>(n + 8); }

// The tasks of sentences [first, last).
Tasks tasks_of(const Corpus& corpus, int threads, int64_t first, int64_t last) {
    double left = 0.0;
    for (int64_t i = first; i < last; ++i) left += cost_of(corpus.size(i));
    Tasks tasks;
    double cost = 0.0, most = 0.0;
    for (int64_t i = first, words = 0; i < last; ++i) {
        // As many tasks of one size as there are threads, before those that are smaller.
        if (words == 0 && tasks.size() % threads == 0) most = kShare * left / threads;
        words += corpus.size(i);
        cost += cost_of(corpus.size(i));
        const bool enough =
            threads < 2 ? words >= kMostWords : words >= kLeastWords && cost >= most;
        if (!enough && words < kMostWords && i + 1 < last) continue;
        tasks.add(TaskKind::kPiece, first, i + 1, cost);
        left -= cost;
        first = i + 1;
        words = 0;
        cost = 0.0;
    }
    tasks.finish();
    return tasks;
}

// The arcs of sentences, scored by all threads. Many sentences want fewer lines of weights each, so
// each thread has one share of them, whatever tasks they are parsed in.
class Shares {
  public:
    Shares(const Model& model, const Corpus& corpus, int64_t threads, Shortage* shortage)
        : model_(model), corpus_(corpus), shortage_(shortage), scores_(at(threads)) {}

    // Scores those from `first` on that fit; returns the sentence behind them.
    int64_t score(int64_t first, const PoolApi& pool, Control* control) {
        const int64_t* offset = corpus_.offset;
        const auto threads = static_cast<int64_t>(scores_.size());
        int64_t last = first;
        for (int64_t t = 0; t < threads; ++t) {
            last = ArcScores::end(offset, last, corpus_.sentences);
        }
        double left = 0.0;
        for (int64_t i = first; i < last; ++i) left += arcs(i);
        Tasks tasks;
        begin_.assign(1, first);
        for (int64_t t = threads; t > 0; --t) {
            int64_t i = begin_.back();
            double own = 0.0;
            for (; i < last && (t == 1 || own < left / static_cast<double>(t)); ++i) own += arcs(i);
            if (i == begin_.back()) continue;
            tasks.add(TaskKind::kPiece, begin_.back(), i, own);
            begin_.push_back(i);
            left -= own;
        }
        tasks.finish();
        tasks_ = &tasks;
        control_ = control;
        pool.run_plan(tasks.view("arcs"), run, this, static_cast<int>(threads), control);
        return last;
    }
    const ArcScores& of(int64_t sentence) const { return scores_[share_of(sentence)]; }

  private:
    size_t share_of(int64_t sentence) const {
        size_t share = 0;
        while (sentence >= begin_[share + 1]) ++share;
        return share;
    }
    double arcs(int64_t i) const {
        const auto n = static_cast<double>(corpus_.size(i));
        return n * n;
    }
    static void run(void* context, int64_t task, int) {
        Shares& own = *static_cast<Shares*>(context);
        const Item item = own.tasks_->item(task);
        own.shortage_->watch(own.control_, [&] {
            own.scores_[own.share_of(item.first)].score(*own.model_.arcs, own.corpus_.words,
                                                        own.corpus_.offset, item.first, item.last);
        });
    }

    const Model& model_;
    const Corpus& corpus_;
    Shortage* const shortage_;
    Control* control_ = nullptr;
    std::vector<ArcScores> scores_;  // by share
    std::vector<int64_t> begin_;     // (shares + 1,)
    const Tasks* tasks_ = nullptr;
};

// What a thread keeps from sentence to sentence.
struct ThreadState {
    ThreadState(const Model& model, const Trees& trees)
        : shared(*model.parts, {model.weights, model.siblings, model.grandparents}),
          labeller(*model.labels),
          abreast(trees) {
        if (model.pruner) pruner = std::make_unique<Pruner>(*model.pruner, trees);
    }
    std::vector<std::unique_ptr<Worker>> workers;  // one for each sentence of a block
    Relaxed::Shared shared;
    Labeller labeller;
    Program program;
    std::unique_ptr<Pruner> pruner;
    Kept kept;
    std::vector<Listed> listed;  // arcs that the pruner kept, of each sentence of a block
    ArcScores arcs;
    std::vector<double> p;
    Abreast abreast;
    std::vector<int64_t> order;  // sentences of a block, the longest first
};

struct Predicting {
    const Model& model;
    const Method& method;
    const Corpus& corpus;
    const Answers& answers;
    Shares& shares;
    Control* control;
    const Trees& trees;
    Shortage& shortage;
    const Tasks* tasks = nullptr;
    std::vector<std::unique_ptr<ThreadState>> threads;

    // Whether all pairs take part, scored by weights by class.
    bool all_together() const {
        return !relaxed() && model.parts->order == 2 && model.siblings &&
               (model.pruner ? model.kept : model.arcs);
    }
    bool relaxed() const { return method.engine == Engine::kRelaxed && model.parts->order > 1; }

    // Marginals of the parts, and how they were found; true: the heads are found, too.
    bool infer(int64_t i, Worker& w, ThreadState& thread, Control* own, Told* told) {
        told->pairs = told->scored = w.parts().pairs();
        thread.p.assign(at(w.parts().size()), 0.0);
        const double* potentials = w.score(model.weights);
        if (method.engine != Engine::kProgram) {
            w.marginals(potentials, thread.p.data());
            told->iterations = w.loopy().iterations();
            told->converged = w.loopy().converged();
            return false;
        }
        told->converged = told->integral = w.parts().n == 0;
        if (w.parts().n == 0) return true;
        Program& program = thread.program;
        const Status s = program.solve(w.parts(), potentials, w.trees(), method.tolerance,
                                       method.max_iterations, own);
        if (s == kNoMemory) shortage.tell(control);
        if (s != kOk) return false;
        told->iterations = program.answer.iterations;
        told->converged = program.answer.converged;
        told->integral = program.answer.integral && program.exact;
        std::copy_n(program.point.begin(), w.parts().arcs(), thread.p.begin());
        for (int64_t a = 0; a < w.parts().arcs(); ++a) {
            if (!program.states[at(a)]) continue;
            answers.heads[corpus.offset[i] + w.parts().modifier[at(a)] - 1] = w.parts().head[at(a)];
        }
        return true;
    }

    void read(int64_t i, Worker& w, ThreadState& thread, bool together) {
        const int64_t n = corpus.size(i);
        const uint32_t* words = corpus.sentence(i);
        const bool pairs = !relaxed();
        if (thread.pruner) {
            thread.pruner->prune(words, n, shares.of(i), i, &thread.kept);
            if (together && model.kept) {
                w.list(words, n, thread.kept.listed(), pairs, all_together());
                thread.listed.push_back(w.parts().listed());
            } else {
                w.read(words, n, thread.kept.listed(), pairs);
            }
        } else if (model.arcs) {
            w.list(words, n, {}, pairs, all_together());
            w.tell(shares.of(i), i);
        } else {
            w.read(words, n, {}, pairs);
        }
        w.loopy().effort = method.effort;
    }

    void answer(int64_t i, Worker& w, ThreadState& thread, Control* own) {
        const bool found = infer(i, w, thread, own, &answers.told[i]);
        finish(i, w, thread, thread.p, found, false);
    }

    // From marginals of parts to answers. Whether there are heads already, and theirs.
    void finish(int64_t i, Worker& w, ThreadState& thread, const std::vector<double>& p, bool found,
                bool known) {
        const int64_t first = corpus.offset[i], n = corpus.size(i);
        int32_t* heads = answers.heads + first;
        if (!found) {
            const int32_t* best = nullptr;
            w.best(p.data(), &best);
            std::copy(best, best + n, heads);
        }
        answers.told[i].used = w.parts().pairs();
        for (int64_t a = 0; !known && a < w.parts().arcs(); ++a) {
            const int32_t m = w.parts().modifier[at(a)];
            if (heads[m - 1] == w.parts().head[at(a)]) {
                answers.confidence[first + m - 1] = std::min(1.0, p[at(a)]);
            }
        }
        thread.labeller.read(w.scorer().sentence());
        thread.labeller.label_all(model.label_weights, heads, n, answers.labels + first);
    }

    // Messages of all sentences of a block whose pairs are scored.
    void pass(int64_t first, ThreadState& thread) {
        size_t next = 0;
        const auto start = [&](Abreast::Slot* slot) {
            if (next == thread.order.size() || stopped()) return false;
            slot->sentence = thread.order[next++];
            slot->worker = thread.workers[at(slot->sentence - first)].get();
            slot->worker->use(&slot->memory);
            slot->worker->score(model.weights);
            return slot->worker->begin_messages();
        };
        thread.abreast.run(false, start, [&](Abreast::Slot* slot, double log_z) {
            Worker& w = *slot->worker;
            if (w.resume_messages(log_z)) return true;
            slot->beliefs.assign(at(w.parts().size()), 0.0);
            w.tell_messages(slot->beliefs.data());
            Told& told = answers.told[slot->sentence];
            told.pairs = told.scored = w.parts().pairs();
            told.iterations = w.loopy().iterations();
            told.converged = w.loopy().converged();
            finish(slot->sentence, w, thread, slot->beliefs, false, false);
            if (told.pairs > kPairsKept) thread.workers[at(slot->sentence - first)].reset();
            return false;
        });
    }

    // The same of relaxed inference, from its end.
    void finish_relaxed(int64_t i, Worker& w, ThreadState& thread, std::vector<double>* beliefs) {
        Told& told = answers.told[i];
        const Relaxed::Counts& counts = w.counts();
        told.rounds = counts.rounds;
        told.scored = counts.scored;
        told.iterations = counts.iterations;
        told.converged = counts.converged;
        const int64_t first = corpus.offset[i];
        const bool known = Relaxed::quick(method.options) &&
                           w.heads(answers.heads + first, answers.confidence + first, beliefs);
        finish(i, w, thread, *beliefs, known, known);
    }

    // Sentences of the block that begins at `first`, in the order of `thread`.
    void relax(int64_t first, ThreadState& thread) {
        const Relaxed::Options& options = method.options;
        const bool quick = Relaxed::quick(options);
        PairScores& scores = thread.shared.scores;
        const auto count = thread.order.size();
        const auto worker = [&](size_t i) {
            return thread.workers[at(thread.order[i] - first)].get();
        };
        for (size_t i = 0, begun = 0; begun < count;) {
            scores.clear();
            const auto start = [&](Abreast::Slot* slot) {
                while (begun < count && scores.waiting() < kWaiting && !stopped()) {
                    Worker* w = worker(begun++);
                    w->use(&slot->memory);
                    if (!w->begin_relaxed(options, &thread.shared)) continue;
                    slot->worker = w;
                    return true;
                }
                return false;
            };
            thread.abreast.run(true, start, [&](Abreast::Slot* slot, double log_z) {
                return slot->worker->resume_relaxed(options, &thread.shared, log_z);
            });
            if (stopped()) return;
            scores.score(thread.shared.weights);
            for (; i < begun; ++i) worker(i)->read_relaxed(options, &thread.shared);
        }
        size_t next = 0;
        const auto beliefs = [&](Abreast::Slot* slot) { return quick ? nullptr : &slot->beliefs; };
        const auto end = [&](Abreast::Slot* slot, Worker* w) {
            finish_relaxed(slot->sentence, *w, thread, &slot->beliefs);
        };
        const auto start = [&](Abreast::Slot* slot) {
            while (next < count && !stopped()) {
                Worker* w = worker(next);
                slot->sentence = thread.order[next++];
                answers.told[slot->sentence].pairs = w->parts().count_pairs();
                w->use(&slot->memory);
                if (w->end_relaxed(options, &thread.shared, beliefs(slot))) {
                    slot->worker = w;
                    return true;
                }
                end(slot, w);
            }
            return false;
        };
        thread.abreast.run(!quick, start, [&](Abreast::Slot* slot, double log_z) {
            Worker* w = slot->worker;
            if (w->resume_end(options, &thread.shared, beliefs(slot), log_z)) return true;
            end(slot, w);
            return false;
        });
    }
    bool stopped() const { return control->stop.load(std::memory_order_relaxed); }

    // All pairs of so many sentences, in pieces.
    void score_pairs(int64_t count, ThreadState& thread) {
        struct Piece {
            Worker& worker;
            int64_t first, last;
            PairScores::Mark mark;
        };
        PairScores& scores = thread.shared.scores;
        std::vector<Piece> pieces;
        const auto tell = [&] {
            scores.score(thread.shared.weights);
            for (const Piece& p : pieces) p.worker.tell_pairs(p.first, p.last, p.mark, scores);
            pieces.clear();
            scores.clear();
        };
        scores.clear();
        for (int64_t k = 0; k < count; ++k) {
            Worker& w = *thread.workers[at(k)];
            const int64_t pairs = w.parts().pairs();
            for (int64_t i = 0, end; i < pairs; i = end) {
                end = std::min(pairs, i + kWaiting - scores.waiting());
                pieces.push_back({w, i, end, w.ask_pairs(i, end, &scores)});
                if (scores.waiting() >= kWaiting) tell();
            }
        }
        tell();
    }

    // Parses the sentences from `first` on whose pairs are scored together; returns the one behind.
    int64_t block(int64_t first, int64_t end, ThreadState& thread, Control* own) {
        const bool all = all_together();
        const bool together = all || (relaxed() && method.options.choice == Choice::kAbove);
        const int64_t most = together ? kTogether : 1;
        thread.listed.clear();
        int64_t last = first, pairs = 0;
        for (int64_t squares = 0; last < end && last - first < most && pairs < kWaiting; ++last) {
            if (stopped()) return end;
            squares += corpus.size(last) * corpus.size(last);
            if (last > first && squares > kSquares) break;
            const auto k = at(last - first);
            if (k == thread.workers.size()) thread.workers.emplace_back();
            if (!thread.workers[k]) {
                thread.workers[k] =
                    std::make_unique<Worker>(*model.parts, trees, &thread.shared.memory);
            }
            read(last, *thread.workers[k], thread, together);
            if (all) pairs += thread.workers[k]->parts().pairs();
        }
        if (!thread.listed.empty()) {
            thread.arcs.score(*model.kept, corpus.words, corpus.offset, first, last,
                              thread.listed.data());
            for (int64_t i = first; i < last; ++i) {
                thread.workers[at(i - first)]->tell(thread.arcs, i);
            }
        }
        if (all) score_pairs(last - first, thread);
        if (relaxed() || (all && method.engine == Engine::kMessages)) {
            thread.order.resize(at(last - first));
            std::iota(thread.order.begin(), thread.order.end(), first);
            std::stable_sort(thread.order.begin(), thread.order.end(),
                             [&](int64_t a, int64_t b) { return corpus.size(a) > corpus.size(b); });
            all ? pass(first, thread) : relax(first, thread);
            return stopped() ? end : last;
        }
        for (int64_t i = first; i < last; ++i) {
            if (stopped()) return end;
            std::unique_ptr<Worker>& w = thread.workers[at(i - first)];
            answer(i, *w, thread, own);
            if (all && w->parts().pairs() > kPairsKept) w.reset();
        }
        return last;
    }

    static void run(void* context, int64_t task, int worker) {
        Predicting& job = *static_cast<Predicting*>(context);
        const Item item = job.tasks->item(task);
        // The calling thread is worker 0: it alone polls; the others look whether it said stop.
        Watched watched{job.control, worker == 0};
        Control own;
        own.poll = Watched::look;
        own.arg = &watched;
        ThreadState& thread = *job.threads[at(worker)];
        job.shortage.watch(job.control, [&] {
            for (int64_t i = item.first; i < item.last;) i = job.block(i, item.last, thread, &own);
        });
    }
};

}  // namespace

Status predict(const Model& model, const Method& method, const Corpus& corpus, const Trees& trees,
               int threads, const PoolApi& pool, Control* control, const Answers& answers) {
    if (model.arcs) model.arcs->make();
    if (model.parts->order > 1) {
        for (ClassWeights* w : {model.kept, model.siblings, model.grandparents}) {
            if (w) w->make();
        }
    }
    const int64_t most = std::max<int64_t>(1, std::min<int64_t>(threads, corpus.sentences));
    Shortage shortage;
    Shares shares(model, corpus, most, &shortage);
    Predicting job{model, method, corpus, answers, shares, control, trees, shortage, nullptr, {}};
    for (int64_t first = 0; first < corpus.sentences && !control->stop.load();) {
        const int64_t last = model.arcs ? shares.score(first, pool, control) : corpus.sentences;
        const Tasks tasks = tasks_of(corpus, threads, first, last);
        const int64_t workers = std::min(most, tasks.size());
        while (static_cast<int64_t>(job.threads.size()) < workers) {
            job.threads.push_back(std::make_unique<ThreadState>(model, trees));
        }
        job.tasks = &tasks;
        pool.run_plan(tasks.view("sentences"), Predicting::run, &job, static_cast<int>(workers),
                      control);
        first = last;
    }
    return shortage.status(control);
}

}  // namespace vs::parser
