#include "parsing/batch.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

namespace vs::parsing {
namespace {

constexpr double kWork = 1 << 16;  // n^3 of a task, about: 30 microseconds

struct Job {
    const Batch& batch;
    const Tasks& tasks;
    Control* control;
    int64_t scratch_size, most;  // of a worker; arcs of the longest sentence
    double* scratch;
    const int64_t *arc_at, *word_at;
    double *value, *marginals, *of_parts;
    int64_t* heads;
    Fault* fault;  // of each task

    static uint64_t bits(double x) {
        uint64_t found;
        std::memcpy(&found, &x, sizeof found);
        return found;
    }

    // Whether all scores are some; else where the first stands that is none.
    static bool good(const double* x, int64_t n, Fault* fault) {
        // In whole numbers, which compilers put into vectors: a magnitude beyond the largest one
        // makes the first difference negative, and so does all that is not -inf the second number.
        const uint64_t sign = uint64_t{1} << 63, largest = bits(kLargestScore);
        const uint64_t forbids = bits(-INFINITY);
        uint64_t wrong = 0;
        for (int64_t i = 0; i < (n + 1) * (n + 1); ++i) {
            const uint64_t b = bits(x[i]), other = b ^ forbids;
            wrong |= (largest - (b & ~sign)) & (other | (0 - other));
        }
        for (int64_t h = 0; (wrong & sign) != 0 && h <= n; ++h) {
            for (int64_t m = 1; m <= n; ++m) {
                const double v = x[h * (n + 1) + m];
                if (m != h && !(v <= kLargestScore && (v >= -kLargestScore || v == -INFINITY))) {
                    fault->head = h;
                    fault->modifier = m;
                    return false;
                }
            }
        }
        return true;
    }

    bool sentence(int64_t i, double* work, Fault* fault) {
        const int64_t n = batch.words[i], size = (n + 1) * (n + 1);
        const double* x = static_cast<const double*>(batch.scores[i]);
        if (batch.dtype == kFloat32) {
            const float* narrow = static_cast<const float*>(batch.scores[i]);
            std::copy(narrow, narrow + size, work);
            x = work;
        }
        work += most;
        const trees::Sentence s{x, n, batch.single_root};
        if (good(x, n, fault)) {
            if (batch.part_at) {
                const int64_t first = batch.part_at[i];
                const trees::Grandparents parts{batch.part_at[i + 1] - first,
                                                batch.part_words + 3 * first,
                                                batch.part_score + first};
                value[i] = heads ? trees::best_grandparents(s, parts, heads + word_at[i], work)
                                 : trees::grandparents(s, parts, marginals + arc_at[i],
                                                       of_parts + first, work);
            } else if (heads) {
                value[i] = trees::best(batch.kind, s, heads + word_at[i], work);
            } else {
                trees::Arcs arcs;
                arcs.marginal = marginals + arc_at[i];
                value[i] = trees::marginals(batch.kind, s, arcs, work);
            }
            if (value[i] > -INFINITY) return true;
        }
        fault->sentence = i;
        return false;
    }

    static void run(void* context, int64_t task, int worker) {
        Job& job = *static_cast<Job*>(context);
        double* work = job.scratch + worker * job.scratch_size;
        const Item item = job.tasks.item(task);
        for (int64_t i = item.first; i < item.last; ++i) {
            if (job.control->stop.load(std::memory_order_relaxed)) return;
            if (!job.sentence(i, work, job.fault + task)) return;
        }
    }
};

Fault run(const Batch& b, const PoolApi& pool, Control* control, double* value, double* marginals,
          double* of_parts, int64_t* heads) {
    Tasks tasks;
    std::vector<int64_t> arc_at{0}, word_at{0};
    int64_t longest = 0, first = 0;
    double work = 0.0;
    for (int64_t i = 0; i < b.sentences; ++i) {
        const int64_t n = b.words[i];
        const double m = static_cast<double>(n + 1);
        arc_at.push_back(arc_at.back() + (n + 1) * (n + 1));
        word_at.push_back(word_at.back() + n);
        longest = std::max(longest, n);
        work += b.part_at ? m * m * m * m : m * m * m;
        if (work < kWork && i + 1 < b.sentences) continue;
        tasks.add(TaskKind::kPiece, first, i + 1, work);
        first = i + 1;
        work = 0.0;
    }
    tasks.finish();
    const int64_t most = (longest + 1) * (longest + 1);
    const int64_t own = b.part_at ? trees::grandparents_scratch_size(longest)
                                  : trees::scratch_size(b.kind, longest);
    const int64_t size = (most + own + 7) / 8 * 8;
    const int64_t workers = std::max<int64_t>(1, std::min<int64_t>(b.threads, tasks.size()));
    std::unique_ptr<double[]> scratch(new double[at(size * workers)]);
    std::vector<Fault> fault(at(tasks.size()));
    Job job{b,           tasks,         control,       size,
            most,        scratch.get(), arc_at.data(), word_at.data(),
            value,       marginals,     of_parts,      heads,
            fault.data()};
    pool.run_plan(tasks.view("sentences"), Job::run, &job, static_cast<int>(workers), control);
    for (const Fault& f : fault) {
        if (f.sentence >= 0) return f;
    }
    return {};
}

}  // namespace

Fault marginals(const Batch& batch, const PoolApi& pool, Control* control, double* log_z,
                double* out, double* of_parts) {
    return run(batch, pool, control, log_z, out, of_parts, nullptr);
}

Fault best(const Batch& batch, const PoolApi& pool, Control* control, double* score,
           int64_t* heads) {
    return run(batch, pool, control, score, nullptr, nullptr, heads);
}

}  // namespace vs::parsing
