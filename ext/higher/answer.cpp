#include <algorithm>
#include <exception>
#include <memory>
#include <numeric>

#include "core/at.h"
#include "higher/best.h"
#include "higher/draw.h"
#include "higher/run.h"
#include "higher/tables.h"

namespace vs::higher {

namespace {

const SimdApi* g_simd = nullptr;
// Rows of a single label are not worth vectors.
const Level& level_of(const LongerModel& m) {
    return at_level<Level>(m.longest && m.labels == 1 ? VS_LEVEL_SCALAR : g_simd->level());
}

enum Stop : int { kNothing, kAsked, kMemory };

// Numbers that sequences which advance together hold, unless one has more.
constexpr int64_t kHeldTogether = int64_t{1} << 22;

// How many sequences of order 2 read a table of so many numbers together.
int together(int64_t numbers) {
    return numbers <= 1 << 12 ? 4 : numbers <= 1 << 15 ? 8 : Group::kMost;
}

// One call: its tables, its tasks, which do not depend on threads, and what is left for logarithms.
class Call {
  public:
    Call(const LongerModel& model, const LongerRequest& ask, int threads, Control* control)
        : m_(model),
          ask_(ask),
          control_(control),
          level_(level_of(model)),
          tables_(model, ask, level_),
          job_{model, ask, tables_.packed(), control},
          spaces_(at(std::max(1, threads))),
          refused_(at(model.sequences)),
          position_(at(model.sequences), -1) {
        const int64_t B = model.sequences, K = model.labels;
        if (!model.longest) together_ = together(K * K * tables_.packed().kp);
        if (ask.expected) {
            for (int64_t task = 0; task <= ask.chunks; ++task)
                first_.push_back(B * task / ask.chunks);
            return;
        }
        const int64_t step = model.longest ? K * K + model.longest * K : K * K * K;
        const int64_t most = std::clamp<int64_t>((1 << 18) / step, 1, 1024);
        first_.push_back(0);
        for (int64_t s = 1; s < B; ++s) {
            const int64_t first = first_.back();
            if (model.offset[s] - model.offset[first] >= most && s - first >= together_)
                first_.push_back(s);
        }
        first_.push_back(B);
    }

    LongerReport run(const PoolApi& pool, int threads) {
        LongerReport a;
        const int64_t tasks = static_cast<int64_t>(first_.size()) - 1;
        pool.run_plan(Plan(m_.longest ? "segments" : "order 2", tasks), group_task, this, threads,
                      control_);
        a.logarithms = std::accumulate(refused_.begin(), refused_.end(), int64_t{0});
        if (a.logarithms > 0 && control_->stop.load() == kNothing) {
            pack_logs();
            pool.run_plan(Plan("in logarithms", tasks), logs_task, this, threads, control_);
        }
        const int stop = control_->stop.load();
        if (stop != kNothing) {
            a.status = stop == kMemory ? kNoMemory : kCancelled;
            return a;
        }
        for (int64_t s = 0; s < m_.sequences; ++s) {
            if (position_[at(s)] < 0) continue;
            a.status = kInfeasible;
            a.sequence = s;
            a.position = position_[at(s)];
            break;
        }
        return a;
    }

  private:
    // The memory of a worker.
    struct Space {
        std::unique_ptr<double[]> numbers;
        int64_t size = 0;
        std::vector<double> counts;
        double* of(int64_t n) {
            if (n > size) {
                size = 0;
                numbers.reset(new double[at(n)]);
                size = n;
            }
            return numbers.get();
        }
    };

    const LongerModel& m_;
    const LongerRequest& ask_;
    Control* control_;
    const Level& level_;
    Tables tables_;
    Job job_;
    int together_ = 1;
    std::vector<int64_t> first_;  // sequence of each task, and the end
    std::vector<Space> spaces_;
    std::vector<uint8_t> refused_;
    std::vector<int64_t> position_;  // of each sequence where nothing is left, or -1
    std::vector<LogTable> logs_;

    int64_t length(int64_t s) const { return m_.offset[s + 1] - m_.offset[s]; }
    // Tables of the transition: chains of order 2 have one for each label between.
    int64_t n_tables() const { return m_.longest ? 1 : m_.labels; }
    double* expected(int64_t task) const {
        const int64_t K = m_.labels;
        return ask_.expected ? ask_.expected + task * n_tables() * K * K : nullptr;
    }
    bool stopped() const { return control_->stop.load(std::memory_order_relaxed) != kNothing; }

    // Calls of f must not leave a worker of the pool.
    template <class F>
    void guard(F f) {
        try {
            f();
        } catch (const std::exception&) {  // a length that no memory has is none of bad_alloc's
            control_->stop.store(kMemory);
        }
    }

    static void group_task(void* context, int64_t task, int worker) {
        Call& call = *static_cast<Call*>(context);
        call.guard([&] { call.answer_groups(task, worker); });
    }
    void answer_groups(int64_t task, int worker) {
        std::vector<int64_t> order;
        for (int64_t s = first_[at(task)]; s < first_[at(task + 1)]; ++s) {
            nothing(s);
            if (length(s) > 0) order.push_back(s);
        }
        Space& space = spaces_[at(worker)];
        if (ask_.expected) space.counts.assign(at(n_tables() * m_.labels * job_.packed.kp), 0.0);
        const bool caller = worker == 0;
        if (m_.longest) {
            for (const int64_t s : order) {
                if (stopped()) return;
                answer_segments(s, task, space, caller);
            }
            return;
        }
        std::stable_sort(order.begin(), order.end(),
                         [&](int64_t a, int64_t b) { return length(a) > length(b); });
        for (std::size_t i = 0; i < order.size() && !stopped();) {
            Group group;
            int64_t lengths[Group::kMost], size = 0;
            while (group.count < together_ && i < order.size()) {
                lengths[group.count] = length(order[i]);
                const int64_t wanted = level_.second_space(job_, lengths, group.count + 1);
                if (group.count > 0 && wanted > kHeldTogether) break;
                size = wanted;
                group.sequence[group.count++] = order[i++];
            }
            answer_second(&group, task, space, space.of(size), caller);
        }
    }
    // What an empty sequence has: one way through it.
    void nothing(int64_t s) const {
        ask_.log_z[s] = 0.0;
        for (int64_t r = 1; r < ask_.n_best; ++r) ask_.log_z[r * m_.sequences + s] = kNever;
        if (ask_.entropy) ask_.entropy[s] = 0.0;
    }
    void finish(int64_t s, bool refused) {
        if (refused) {
            refused_[at(s)] = 1;
        } else {
            control_->done.fetch_add(length(s));
        }
    }

    void answer_second(Group* group, int64_t task, Space& space, double* numbers, bool caller) {
        if (ask_.best) return rank_second(group, numbers, caller);
        double* const counts = ask_.expected ? space.counts.data() : nullptr;
        level_.second(job_, group, counts, numbers, caller);
        if (stopped()) return;
        for (int j = 0; j < group->count && ask_.size > 0; ++j) {
            const int64_t s = group->sequence[j];
            if (group->refused[j]) continue;
            group->refused[j] = !(length(s) > 1 ? draw_second(job_, s, group->forward[j], caller)
                                                : draw_label(job_, s, group->forward[j]));
        }
        if (stopped()) return;
        Group fine;
        for (int j = 0; j < group->count; ++j) {
            if (!group->refused[j]) fine.sequence[fine.count++] = group->sequence[j];
        }
        if (counts && fine.count < group->count) {
            // They are of all together: once more of those that are right.
            std::fill(space.counts.begin(), space.counts.end(), 0.0);
            if (fine.count > 0) level_.second(job_, &fine, counts, numbers, caller);
            if (stopped()) return;
        }
        if (counts) {
            tables_.add_expected(counts, expected(task));
            std::fill(space.counts.begin(), space.counts.end(), 0.0);
        }
        for (int j = 0; j < group->count; ++j) finish(group->sequence[j], group->refused[j]);
    }
    void rank_second(Group* group, double* numbers, bool caller) {
        BestWays ways(job_, caller);
        Group pairs;  // of two positions and more, which come first
        while (pairs.count < group->count && length(group->sequence[pairs.count]) > 1) {
            pairs.sequence[pairs.count] = group->sequence[pairs.count];
            ++pairs.count;
        }
        if (pairs.count > 0) level_.second_best(job_, &pairs, numbers, caller);
        for (int j = 0; j < group->count && !stopped(); ++j) {
            const int64_t s = group->sequence[j];
            position_[at(s)] =
                j < pairs.count ? ways.second(s, pairs.forward[j]) : ways.one_label(s);
            finish(s, false);
        }
    }

    void answer_segments(int64_t s, int64_t task, Space& space, bool caller) {
        Segments lattice;
        lattice.sequence = s;
        double* const numbers = space.of(level_.segment_space(job_, length(s)));
        if (ask_.best) {
            level_.segments_best(job_, &lattice, numbers, caller);
            if (!stopped()) position_[at(s)] = BestWays(job_, caller).segments(lattice);
            return finish(s, false);
        }
        double* const counts = ask_.expected ? space.counts.data() : nullptr;
        level_.segments(job_, &lattice, counts, numbers, caller);
        if (stopped()) return;
        if (!lattice.refused && ask_.size > 0)
            lattice.refused = !draw_segments(job_, lattice, caller);
        if (stopped()) return;
        if (counts) {
            if (!lattice.refused) tables_.add_expected(counts, expected(task));
            std::fill(space.counts.begin(), space.counts.end(), 0.0);
        }
        finish(s, lattice.refused);
    }

    void pack_logs() {
        const int64_t K = m_.labels, n = n_tables();
        logs_.reserve(at(n));
        for (int64_t c = 0; c < n; ++c) logs_.emplace_back(m_.transition + c * K, n * K, K);
    }
    static void logs_task(void* context, int64_t task, int worker) {
        Call& call = *static_cast<Call*>(context);
        call.guard([&] { call.answer_in_logs(task, worker); });
    }
    void answer_in_logs(int64_t task, int worker) {
        for (int64_t s = first_[at(task)]; s < first_[at(task + 1)]; ++s) {
            if (refused_[at(s)] == 0) continue;
            Run run(m_, ask_, control_);
            const bool done = m_.longest ? run.segments(s, worker, logs_[0], expected(task))
                                         : run.second(s, worker, logs_, expected(task));
            if (!done) position_[at(s)] = run.position;
            control_->done.fetch_add(length(s));
        }
    }
};

}  // namespace

void use_simd(const SimdApi* simd) noexcept { g_simd = simd; }

LongerReport answer(const LongerModel& model, const LongerRequest& ask, const PoolApi& pool,
                    int threads, Control* control) {
    return Call(model, ask, threads, control).run(pool, threads);
}

}  // namespace vs::higher
