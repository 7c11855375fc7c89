// Runs the tasks of a propagation.
#include <memory>

#include "junction/workspace.h"

namespace vs::junction {

namespace {

template <class A>
struct PropagationRun {
    struct Worker {
        std::vector<typename A::T> row;
        CliqueWorkspace<A> workspace;  // of small cliques, one after the other
    };
    State<A>* state;
    const PropagationPlan* schedule;
    Control* control;
    std::vector<Worker> worker;
    std::vector<std::unique_ptr<CliqueWorkspace<A>>>
        workspace;  // of cliques whose tasks are several
    Outcome up{}, down{};

    bool stopped() const { return control->stop.load(std::memory_order_relaxed); }

    // A way up ends with the same numbers wherever the way down of another tree is.
    static void task(void* context, int64_t task, int worker) {
        PropagationRun& w = *static_cast<PropagationRun*>(context);
        const bool upward = task < w.schedule->n_up;
        if (!upward && !w.up.fine()) return;
        (upward ? w.up : w.down).run([&] { return w.run(task, upward, worker); });
    }

    Status run(int64_t task, bool upward, int by) {
        const TaskKind kind = schedule->tasks.kind(task);
        const auto [first, last] = schedule->tasks.item(task);
        if (kind == TaskKind::kUpward || kind == TaskKind::kDownward) {
            for (int64_t i = first; i < last; ++i) {
                const size_t c = static_cast<size_t>(schedule->order[i]);
                if (upward && state->clique[c].sent) continue;
                CliqueWorkspace<A>& one = worker[static_cast<size_t>(by)].workspace;
                one.reset();
                const Status status = stages(c, upward, &one, kReserve, kRelease, 0, by);
                if (status != kOk || stopped()) return status;
                control->done.fetch_add(1, std::memory_order_relaxed);
            }
            return kOk;
        }
        const size_t c = static_cast<size_t>(first);
        const bool before = kind == TaskKind::kBeforeRows, after = kind == TaskKind::kAfterRows;
        const Stage from = before ? kReserve : after ? kMerge : static_cast<Stage>(kind);
        const Stage to = before ? kSpread : after ? kRelease : static_cast<Stage>(kind);
        if (from == kReserve && !(upward && state->clique[c].sent)) {
            workspace[c].reset(new CliqueWorkspace<A>);
        }
        if (!workspace[c]) return kOk;
        const int piece = static_cast<int>(last);
        const Status status = stages(c, upward, workspace[c].get(), from, to, piece, by);
        if (to == kRelease) {
            workspace[c].reset();
            control->done.fetch_add(1, std::memory_order_relaxed);
        }
        return status;
    }

    // Stages of a clique, one after the other: one piece of a single stage, all of several.
    Status stages(size_t c, bool upward, CliqueWorkspace<A>* w, Stage from, Stage to, int piece,
                  int by) {
        const CliqueLayout& l = state->c.l.clique[c];
        const Poll poll{control, by == 0 && l.size > kPoll};
        const PieceCounts& pieces = l.pieces[upward];
        for (int s = from; s <= to; ++s) {
            int n = 1;
            if (s == kAbsorb || s == kSpread) {
                n = pieces.before;
            } else if (s == kRows) {
                n = w->blocks;
            } else if (s != kReserve && s != kNested && s != kDecide && s != kRelease) {
                n = pieces.after;
            }
            const bool all = from != to || n == 1;
            for (int p = all ? 0 : piece; p < (all ? n : piece + 1); ++p) {
                const Status status = stage(c, upward, w, static_cast<Stage>(s), {p, n}, poll, by);
                if (status != kOk || !poll.go_on()) return status;
            }
        }
        return kOk;
    }

    Status stage(size_t c, bool upward, CliqueWorkspace<A>* w, Stage s, LoopPiece share,
                 const Poll& poll, int by) {
        if (s == kRows) {
            w->run_block(state->c.l.clique[c], share.p, &worker[static_cast<size_t>(by)].row, poll);
        } else if (s == kMerge) {
            w->merge(share, poll);
            w->clear(w->zero_later, share, poll);
        } else if (s == kRelease) {
            w->release(&state->buffers);
        }
        if constexpr (!std::is_same_v<A, MaxLogs>) {  // the best configuration is found going up
            if (!upward) return stage_down(state, c, w, s, share, poll);
        }
        return stage_up(state, c, w, s, share, poll);
    }
};

}  // namespace

template <class A>
Status walk(State<A>* s, bool upward_only, int threads, Control* control) {
    const PropagationPlan& schedule = s->c.l.schedule;
    PropagationRun<A> w{s, &schedule, control, {}, {}};
    w.worker.resize(static_cast<size_t>(std::max(threads, 1)));
    w.workspace.resize(s->clique.size());
    pool().run_plan(schedule.plan(upward_only), PropagationRun<A>::task, &w,
                    threads_for(schedule, threads), control);
    s->buffers.trim();
    const Status up = w.up.end(*control);
    return up == kOk ? w.down.end(*control) : up;
}

template <class A>
Status walk_up(State<A>* s, const std::vector<int32_t>& cliques, Control* control) {
    PropagationRun<A> w{s, &s->c.l.schedule, control, {}, {}};
    w.worker.resize(1);
    CliqueWorkspace<A>& one = w.worker[0].workspace;
    for (int32_t c : cliques) {
        one.reset();
        const Status status =
            w.stages(static_cast<size_t>(c), true, &one, kReserve, kRelease, 0, 0);
        if (status != kOk) return status;
        if (w.stopped()) return kCancelled;
    }
    return kOk;
}

template Status walk_up(State<Linear64>*, const std::vector<int32_t>&, Control*);
template Status walk_up(State<LinearWide>*, const std::vector<int32_t>&, Control*);
template Status walk(State<Linear64>*, bool, int, Control*);
template Status walk(State<LinearWide>*, bool, int, Control*);
template Status walk(State<MaxLogs>*, bool, int, Control*);

}  // namespace vs::junction
